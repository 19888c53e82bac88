/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/nodes.h - the other nodes, as map routes and the kernel's tables know them. */
#ifndef MK_CLI_NODES_H
#define MK_CLI_NODES_H

#include "cli/view.h"

struct mk_cli_node {
	const char *name; /* of the view; NULL: not known */
	struct mk_cidr pod_cidr;
	struct mk_addr vtep;
	__u8 vtep_mac[6];
	struct mk_ip underlay; /* of the FDB entry; AF_UNSPEC: there is none */
	bool has_route; /* the kernel's, to the pod CIDR by the overlay */
	bool has_neighbour;
	bool has_vtep_route; /* in map routes */
};

/* Every other node with a pod range in map routes, by that range. The caller frees *@nodes. */
mk_must_check int mk_cli_nodes_read(const struct mk_view *view, struct mk_cli_node **nodes,
				    size_t *count, struct mk_error *err);
/* What of it is missing in the kernel's tables, in words; NULL: nothing. */
const char *mk_cli_node_fault(const struct mk_cli_node *node);

#endif

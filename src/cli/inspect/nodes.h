/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/inspect/nodes.h - the other nodes, from map routes and the kernel's tables. */
#ifndef MK_CLI_INSPECT_NODES_H
#define MK_CLI_INSPECT_NODES_H

#include "cli/inspect/view.h"

struct mk_cli_node {
	const char *name; /* from the view; NULL: not known */
	struct mk_cidr pod_cidr;
	struct mk_addr vtep;
	__u8 vtep_mac[6];
	struct mk_ip underlay; /* from the FDB entry; AF_UNSPEC: none */
	bool has_route; /* the kernel has a route to the pod CIDR through the overlay */
	bool has_neighbour;
	bool has_vtep_route; /* in map routes */
};

/* List every other node with a pod range in map routes, sorted by that range. The caller frees
 * *@nodes. */
mk_must_check int mk_cli_nodes_read(const struct mk_view *view, struct mk_cli_node **nodes,
				    size_t *count, struct mk_error *err);
/* Returns in words what the tables lack of it; NULL: nothing. */
const char *mk_cli_node_fault(const struct mk_cli_node *node);

#endif

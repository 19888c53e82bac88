/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/sfc/nodes.h - the other nodes on which function pods may be, from the overlay's
 * plans. */
#ifndef MK_AGENT_SFC_NODES_H
#define MK_AGENT_SFC_NODES_H

#include "agent/node/own_node.h"

/* The other nodes that the overlay reaches. */
struct node_macs {
	struct node_mac {
		char *node; /* first, for mk_compare_texts() */
		struct mk_mac vtep_mac;
	} * of; /* by name */
	size_t count;
};

/* Copy them from the plans of the families of @node. The caller releases @macs. */
mk_must_check int node_macs_get(struct node_macs *macs, const struct mk_own_node *node,
				struct mk_error *err);
void node_macs_release(struct node_macs *macs);
bool node_macs_equal(const struct node_macs *a, const struct node_macs *b);
/* Return zeros if the overlay does not reach @node. */
struct mk_mac node_mac_of(const struct node_macs *macs, const char *node);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/policy/sandboxes.h - what the compiler has to know of this node and of the others. */
#ifndef MK_AGENT_POLICY_SANDBOXES_H
#define MK_AGENT_POLICY_SANDBOXES_H

#include <stdbool.h>

#include "agent/node/own_node.h"
#include "policy/policy.h"

/* The sandboxes of this node; zeroed at first. */
struct sandboxes {
	struct mk_policy_sandbox *list;
	size_t count;
	bool nameless; /* a file names no Pod: an earlier version wrote it, or it is no Pod's */
};

/* Let @compiler and the tables know the sandboxes of this node, and remember them in @known.
 * Returns the number of those that have no entry in map pods: their ADD is not over. */
mk_must_check int sandboxes_read(const struct mk_own_node *node, struct mk_policies *compiler,
				 struct sandboxes *known, struct mk_error *err);
void sandboxes_drop(struct sandboxes *sandboxes); /* may be NULL */
/* Let @compiler know the addresses that nodes use inside the overlay. */
mk_must_check int nodes_read(const struct mk_own_node *node, struct mk_policies *compiler,
			     struct mk_error *err);

#endif

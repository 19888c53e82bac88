// SPDX-License-Identifier: Apache-2.0
#include "agent/sfc/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
/* A node's MAC addresses are the same in both families. */
static bool add_family(struct node_macs *macs, const struct mk_overlay_plan *plan)
{
	for (size_t i = 0; i < plan->peer_count; i++) {
		struct node_mac *mac = &macs->of[macs->count];

		*mac = (struct node_mac){ .node = strdup(plan->peers[i].node),
					  .vtep_mac = plan->peers[i].vtep_mac };
		if (!mac->node)
			return false;
		macs->count++;
	}
	return true;
}

static void sort(struct node_macs *macs)
{
	size_t kept = 0;

	qsort(macs->of, macs->count, sizeof(*macs->of), mk_compare_texts);
	for (size_t i = 0; i < macs->count; i++) {
		if (kept > 0 && mk_compare_texts(&macs->of[kept - 1], &macs->of[i]) == 0)
			free(macs->of[i].node);
		else
			macs->of[kept++] = macs->of[i];
	}
	macs->count = kept;
}

int node_macs_get(struct node_macs *macs, const struct mk_own_node *node, struct mk_error *err)
{
	size_t count = 1;
	bool complete;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		count += node->families[i].plan.peer_count;
	*macs = (struct node_macs){ .of = calloc(count, sizeof(*macs->of)) };
	complete = macs->of;
	for (size_t i = 0; complete && i < MK_FAMILIES; i++)
		if (node->core->families[i].runs)
			complete = add_family(macs, &node->families[i].plan);
	if (!complete) {
		node_macs_release(macs);
		return mk_error_errno(err, ENOMEM, "cannot list the nodes of function pods");
	}
	sort(macs);
	return 0;
}

void node_macs_release(struct node_macs *macs)
{
	for (size_t i = 0; i < macs->count; i++)
		free(macs->of[i].node);
	free(macs->of);
	*macs = (struct node_macs){ 0 };
}

bool node_macs_equal(const struct node_macs *a, const struct node_macs *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (mk_compare_texts(&a->of[i], &b->of[i]) != 0 ||
		    memcmp(&a->of[i].vtep_mac, &b->of[i].vtep_mac, sizeof(struct mk_mac)) != 0)
			return false;
	return true;
}

struct mk_mac node_mac_of(const struct node_macs *macs, const char *node)
{
	const struct node_mac *found = mk_find(&node, macs->of, macs->count, mk_compare_texts);

	return found ? found->vtep_mac : (struct mk_mac){ 0 };
}

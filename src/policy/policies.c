// SPDX-License-Identifier: Apache-2.0
/* The compiler: what changed is looked at, then sets, classes and rows follow, in this order. */
#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

#define MARK_CHARS (2 * MK_OBJECT_NAME_SIZE + 16)

static const struct {
	size_t key_bytes, row_bytes, entry_bytes;
} row_sizes[ROW_KINDS] = {
	[IDENTITIES] = { sizeof(struct mk_addr), sizeof(struct mk_identity_row),
			 sizeof(struct address) },
	[PEERS] = { offsetof(struct mk_peer_row, table), sizeof(struct mk_peer_row),
		    sizeof(struct answer) },
	[BLOCKS] = { offsetof(struct mk_block_row, table), sizeof(struct mk_block_row),
		     sizeof(struct mk_block_row) },
	[PORTS] = { offsetof(struct mk_port_row, verdict), sizeof(struct mk_port_row),
		    sizeof(struct mk_port_row) },
	[PODS] = { offsetof(struct mk_pod_row, set), sizeof(struct mk_pod_row),
		   sizeof(struct mk_pod_row) },
	[NAMESPACES] = { offsetof(struct mk_namespace_row, directions),
			 sizeof(struct mk_namespace_row), sizeof(struct mk_namespace_row) },
};

struct mk_policies *mk_policies_new(const struct mk_model *model, const struct mk_policy_view *view,
				    struct mk_error *err)
{
	struct mk_policies *policies = calloc(1, sizeof(*policies));

	if (!policies || !(policies->node_name = strdup(view->node_name))) {
		mk_error_errno(err, ENOMEM, "the compiler of policies");
		free(policies);
		return NULL;
	}
	policies->model = model;
	memcpy(policies->hash_key, view->hash_key, sizeof(policies->hash_key));
	policies->audit = view->audit;
	memcpy(policies->pod_ranges, view->pod_ranges, sizeof(policies->pod_ranges));
	policies->all_marked = policies->changed = true;
	policies->kept_store.texts = &policies->texts;
	for (int i = 0; i < ROW_KINDS; i++)
		rows_init(&policies->rows[i], row_sizes[i].key_bytes, row_sizes[i].row_bytes,
			  row_sizes[i].entry_bytes);
	policies->rows[IDENTITIES].fill = address_fill;
	return policies;
}

/* ---- what changed ---------------------------------------------------------------------------- */

void mk_policies_mark(struct mk_policies *policies, enum mk_kind what, const char *namespace_,
		      const char *name)
{
	char key[MARK_CHARS];
	size_t start = strlen(namespace_) + 1, chars = start + strlen(name) + 1;
	struct mark *mark;

	policies->changed = true;
	if (policies->all_marked)
		return;
	snprintf(key, sizeof(key), "%d %s/%s", what, namespace_, name);
	HASH_FIND_STR(policies->marks, key, mark);
	if (mark)
		return;
	mark = memory_new(sizeof(*mark) + strlen(key) + 1 + chars);
	strcpy(mark->key, key);
	mark->what = what;
	mark->namespace_ = strcpy(mark->key + strlen(key) + 1, namespace_);
	mark->name = strcpy(mark->key + strlen(key) + 1 + start, name);
	HASH_ADD_STR(policies->marks, key, mark);
}

/* Most Pods are of other nodes: they only are peers, and need no mark. */
void mk_policies_pod_changed(struct mk_policies *policies, const struct mk_pod_object *pod,
			     const struct mk_pod_object *former)
{
	if (former)
		forget_peer(policies, pod, former);
	policies->changed = true;
	if (policies->all_marked)
		return;
	look_at_peer(policies, pod->of->namespace_, pod->name);
	if (is_subject(policies, pod->of->namespace_, pod->name))
		mk_policies_mark(policies, MK_KIND_POD, pod->of->namespace_, pod->name);
}

static void look_at_pod(struct mk_policies *policies, const char *namespace_, const char *name)
{
	look_at_peer(policies, namespace_, name);
	look_at_subjects(policies, namespace_, name);
}

static void look_at_mark(struct mk_policies *policies, const struct mark *mark)
{
	if (mark->what == MK_KIND_POD)
		look_at_pod(policies, mark->namespace_, mark->name);
	else if (mark->what == MK_KIND_NAMESPACE)
		look_at_namespace(policies, mark->name);
	else if (mark->what == MK_KIND_NETWORK_POLICY || mark->what == MK_KIND_CLUSTER_POLICY)
		look_at_policy(policies, mark->namespace_, mark->name);
	else if (mark->what == MK_KIND_NODE)
		look_at_nodes(policies);
}

static void drop_marks(struct mk_policies *policies)
{
	struct mark *mark, *next;

	HASH_ITER(hh, policies->marks, mark, next) {
		HASH_DEL(policies->marks, mark);
		free(mark);
	}
}

static void mark_all(struct mk_policies *policies)
{
	policies->all_marked = false;
	mk_model_each(struct mk_namespace_object, of, policies->model, MK_KIND_NAMESPACE)
		mk_policies_mark(policies, MK_KIND_NAMESPACE, "", of->name);
	mk_model_each(struct mk_network_policy, of, policies->model, MK_KIND_NETWORK_POLICY)
		mk_policies_mark(policies, MK_KIND_NETWORK_POLICY, of->namespace_, of->name);
	mk_model_each(struct mk_cluster_policy, of, policies->model, MK_KIND_CLUSTER_POLICY)
		mk_policies_mark(policies, MK_KIND_CLUSTER_POLICY, "", of->name);
	mk_policies_mark(policies, MK_KIND_NODE, "", "");
}

/* Namespaces come before the pods in them. */
static void look(struct mk_policies *policies)
{
	struct mark *mark, *next;
	bool all = policies->all_marked;

	if (all)
		mark_all(policies);
	HASH_ITER(hh, policies->marks, mark, next)
		look_at_mark(policies, mark);
	drop_marks(policies);
	if (!all)
		return;
	mk_model_each(struct mk_pod_object, pod, policies->model, MK_KIND_POD)
		look_at_pod(policies, pod->of->namespace_, pod->name);
}

/* ---- results --------------------------------------------------------------------------------- */

static void list_changes(struct mk_policies *policies, const struct mk_policy_changes **changes)
{
	struct mk_policy_changes *to = &policies->changes;

#define LIST(kind, member)                                               \
	do {                                                             \
		to->member.put = policies->rows[kind].put.rows;          \
		to->member.gone = policies->rows[kind].gone.rows;        \
		to->member.put_count = policies->rows[kind].put.count;   \
		to->member.gone_count = policies->rows[kind].gone.count; \
	} while (0)
	LIST(IDENTITIES, identities);
	LIST(PEERS, peers);
	LIST(BLOCKS, blocks);
	LIST(PORTS, ports);
	LIST(PODS, pods);
	LIST(NAMESPACES, namespaces);
#undef LIST
	*changes = to;
}

static void release_unused(struct mk_policies *policies)
{
	policies->releasing = false;
	sets_forget_unused(policies);
	keys_forget_kept(policies);
}

static void bring_up_to_date(struct mk_policies *policies)
{
	if (!policies->changed)
		return;
	policies->changed = false;
	look(policies);
	subjects_decide(policies);
	if (policies->releasing)
		release_unused(policies);
	classes_decide(policies);
	sets_answer(policies);
	classes_sweep(policies);
	report_namespaces(policies);
	spaces_sweep(policies);
}

/* Rows have the names of subjects and namespaces, so these stay until their last row has been
 * reported. */
static void free_dead(struct graveyard *dead)
{
	subjects_free_dead(&dead->subjects);
	spaces_free_dead(&dead->spaces);
}

int mk_policies_compile(struct mk_policies *policies, const struct mk_policy_changes **changes,
			struct mk_error *err)
{
	(void)err;
	free_dead(&policies->reported);
	bring_up_to_date(policies);
	for (int i = 0; i < ROW_KINDS; i++)
		rows_changes(&policies->rows[i]);
	list_changes(policies, changes);
	policies->reported = policies->dead;
	policies->dead = (struct graveyard){ 0 };
	return 0;
}

int mk_policies_all(struct mk_policies *policies, const struct mk_policy_changes **changes,
		    struct mk_error *err)
{
	int ret = mk_policies_compile(policies, changes, err);

	for (int i = 0; i < ROW_KINDS; i++)
		rows_all(&policies->rows[i]);
	list_changes(policies, changes);
	return ret;
}

void mk_policies_written(struct mk_policies *policies)
{
	for (int i = 0; i < ROW_KINDS; i++)
		rows_forget_lists(&policies->rows[i]);
	policies->changes = (struct mk_policy_changes){ 0 };
}

void mk_policies_release(struct mk_policies *policies)
{
	struct set_ *set, *next;

	policies->releasing = policies->changed = true;
	HASH_ITER(hh, policies->sets, set, next)
		set->released = set->references == 0;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Selectors and the peers' named ports need the Pods of other nodes. */
enum mk_policy_wants mk_policies_want(struct mk_policies *policies)
{
	const struct set_ *set, *next;

	bring_up_to_date(policies);
	if (policies->policies.count == 0 && !policies->chains)
		return MK_WANTS_NO_PODS;
	HASH_ITER(hh, policies->sets, set, next)
		if (set->has_selectors || (set->has_names && set->direction == MK_POLICY_EGRESS))
			return MK_WANTS_ALL_PODS;
	return MK_WANTS_OWN_PODS;
}

void mk_policies_figures(const struct mk_policies *policies, struct mk_policy_figures *figures)
{
	const struct subject *subject, *next;

	*figures = (struct mk_policy_figures){
		.sets = HASH_COUNT(policies->sets),
		.classes = policies->classes.count,
		.policies = policies->policies.count,
		.audited_policies = policies->audited_policies,
		.chains = policies->chain_count,
		.holds = has_policies_in_force(policies),
	};
	HASH_ITER(hh, policies->subjects, subject, next) {
		bool isolated = false, enforced = false, chained = false;

		for (int i = 0; i < MK_POLICY_DIRECTIONS; i++) {
			const struct set_ *set = subject->set[i];

			chained |= set && set->id & MK_SET_HAS_CHAINS;
			if (set && !set->has_policies)
				continue;
			isolated |= subject->ids[i] != MK_SET_OPEN;
			enforced |= mk_set_enforces(subject->ids[i] & ~MK_SET_HAS_CHAINS);
		}
		figures->chained_pods += chained;
		figures->isolated_pods += isolated;
		figures->audited_pods += isolated && !enforced;
		figures->open_pods += !isolated;
	}
}

void mk_policies_free(struct mk_policies *policies)
{
	if (!policies)
		return;
	drop_marks(policies);
	free_dead(&policies->reported);
	free_dead(&policies->dead);
	sets_release(policies);
	classes_release(policies);
	subjects_release(policies);
	chains_release(policies);
	cluster_release(policies);
	for (int i = 0; i < ROW_KINDS; i++)
		rows_release(&policies->rows[i]);
	free(policies->node_name);
	free(policies);
}

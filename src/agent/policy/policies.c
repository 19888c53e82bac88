// SPDX-License-Identifier: Apache-2.0
#include "agent/core/hash_key.h"
#include "agent/policy/policies.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "agent/policy/denied.h"
#include "agent/policy/measures.h"
#include "agent/policy/notes.h"
#include "agent/policy/sandboxes.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/state_file.h"
#include "base/time.h"
#include "datapath/policy/names.h"

#define LOOK_BUDGET 2000 /* entries per look */
/* While an ADD is not over, look for its pod so often. Then each check of the tables does. */
#define LOOKS	25
#define LOOK_MS 20

/* ---- begin and end --------------------------------------------------------------------------- */

/* An address file has come or gone. The device of a new pod comes a moment later, and its filter is
 * reported by rtnetlink. */
static void on_address(uv_fs_event_t *watch, const char *name, int events, int status)
{
	struct mk_node_policies *policies = watch->data;

	(void)name;
	(void)events;
	if (status < 0)
		return;
	policies->looks = LOOKS;
	mk_core_mark(policies->node->core, MK_UNSURE_SANDBOXES, 0);
}

int mk_node_policies_start(struct mk_node_policies *policies, const struct mk_own_node *node,
			   struct mk_error *err)
{
	char path[PATH_MAX];
	int ret = mk_state_path(node->core->config.state_dir, "ipam", path, err);

	policies->node = node;
	if (node->core->config.policy_mode == MK_POLICIES_OFF || ret < 0)
		return ret;
	policies->measures = measures_new();
	policies->sandboxes = calloc(1, sizeof(*policies->sandboxes));
	if (node->core->config.log_denied)
		policies->denied = denied_new();
	if (!policies->measures || !policies->sandboxes ||
	    (node->core->config.log_denied && !policies->denied))
		return mk_error_errno(err, ENOMEM, "network policies");
	mk_source_want(node->core->source, MK_SOURCE_POLICIES, true);
	ret = mk_mkdirs(path, 0700, err);
	if (ret < 0)
		return ret;
	ret = uv_fs_event_init(&node->core->loop, &policies->watch);
	policies->watch.data = policies;
	ret = ret ?: uv_fs_event_start(&policies->watch, on_address, path, 0);
	return ret < 0 ? mk_error_errno(err, -ret, "cannot watch '%s'", path) : 0;
}

void mk_node_policies_release(struct mk_node_policies *policies)
{
	measures_free(policies->measures);
	denied_free(policies->denied);
	mk_policies_free(policies->compiler);
	sandboxes_drop(policies->sandboxes);
}

/* A Pod of this node may be that of a sandbox which an earlier version made. */
static void look_at_nameless(struct mk_node_policies *policies, const struct mk_pod_object *pod)
{
	struct mk_core *core = policies->node->core;
	const char *node = pod ? mk_pod_node(pod) : NULL;

	if (node && strcmp(node, core->config.node_name) == 0)
		mk_core_mark(core, MK_UNSURE_SANDBOXES, 0);
}

void mk_node_policies_mark(struct mk_node_policies *policies, enum mk_kind what,
			   const char *namespace_, const char *name)
{
	if (what == MK_KIND_CHAIN)
		policies->chains_known = false;
	else if (policies->compiler)
		mk_policies_mark(policies->compiler, what, namespace_, name);
	policies->settled = false;
	if (what == MK_KIND_NETWORK_POLICY || what == MK_KIND_CLUSTER_POLICY)
		policies->noted = false;
	if (policies->said)
		measures_changed(policies->measures);
}

void mk_node_policies_pod_changed(struct mk_node_policies *policies,
				  const struct mk_pod_object *pod,
				  const struct mk_pod_object *former)
{
	if (policies->compiler)
		mk_policies_pod_changed(policies->compiler, pod, former);
	policies->settled = false;
	if (policies->said)
		measures_changed(policies->measures);
	if (policies->sandboxes && policies->sandboxes->nameless)
		look_at_nameless(policies, pod);
}

void mk_node_policies_use_chains(struct mk_node_policies *policies, mk_chain_number_fn *number,
				 void *ctx)
{
	policies->chain_number = number;
	policies->chain_ctx = ctx;
}

/* Until the former agent's sets are out of use, classes have all keys that it used. */
static int keep_keys(struct mk_node_policies *policies, json_object *former, struct mk_error *err)
{
	json_object *keys = mk_json_member(former, "keys");
	size_t count = mk_json_length(keys);
	cleanup_free const char **list = calloc(count + 1, sizeof(*list));

	if (!json_object_is_type(keys, json_type_array))
		return 0;
	for (size_t i = 0; list && i < count; i++)
		list[i] = json_object_get_string(json_object_array_get_idx(keys, i)) ?: "";
	return list ? mk_policies_keep_keys(policies->compiler, list, count, err)
		    : mk_error_errno(err, ENOMEM, "%zu keys of labels", count);
}

/* A file of another version says nothing: classes then may merge while its sets are in use. */
static int recall(struct mk_node_policies *policies, struct mk_error *err)
{
	struct mk_policy_names names = { 0 };
	struct mk_error why;
	int ret = mk_policy_names_read(policies->node->core->config.state_dir, &names, &why);

	if (ret < 0)
		mk_log_warn("%s", mk_error_text(&why));
	ret = ret < 0 ? 0 : keep_keys(policies, names.root, err);
	mk_policy_names_release(&names);
	return ret;
}

static int begin(struct mk_node_policies *policies, struct mk_error *err)
{
	const struct mk_core *core = policies->node->core;
	struct mk_policy_view view = { .node_name = core->config.node_name,
				       .audit = core->config.policy_mode == MK_POLICIES_AUDITED };
	int ret;

	if (policies->compiler)
		return 0;
	ret = mk_hash_key_read(core->config.state_dir, view.hash_key, err);
	if (ret < 0)
		return ret;
	memcpy(view.pod_ranges, core->config.cluster.of, sizeof(view.pod_ranges));
	policies->compiler = mk_policies_new(core->model, &view, err);
	if (!policies->compiler)
		return -ENOMEM;
	policies->node->core->unsure |= MK_UNSURE_NODE_ADDRESSES;
	return recall(policies, err);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static struct mk_policy_sync *sync_of(const struct mk_family *family)
{
	return mk_datapath_policies(family->datapath);
}

static void set_listed(const struct mk_core *core, enum mk_policy_listed listed)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]))
			mk_policy_sync_set_listed(sync_of(&core->families[i]), listed);
}

/* networkPolicy is off: everything is open. */
static int open_all(struct mk_node_policies *policies, struct mk_error *err)
{
	const struct mk_core *core = policies->node->core;
	struct mk_policy_counts counts = { 0 };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		if (!mk_family_is_loaded(&core->families[i]))
			continue;
		ret = mk_policy_sync_open_all(sync_of(&core->families[i]), mk_time_monotonic_ns(),
					      &counts, err);
		if (ret == 0)
			policies->loads[i] = core->families[i].loads;
	}
	return ret;
}

/* Write @changes to the families that have all former rows (@fresh false), or to the others. A
 * family that finds a table full does not hold up the other one. */
static int apply(struct mk_node_policies *policies, const struct mk_policy_changes *changes,
		 bool fresh, struct mk_error *err)
{
	struct mk_core *core = policies->node->core;
	struct mk_error why;
	int ret = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_family *family = &core->families[i];
		struct mk_policy_counts counts = { 0 };

		if (!mk_family_is_loaded(family) || (policies->loads[i] != family->loads) != fresh)
			continue;
		if (mk_policy_sync_apply(sync_of(family), changes, mk_time_monotonic_ns(), &counts,
					 &why) < 0 &&
		    ret == 0) {
			*err = why;
			ret = -why.code;
		}
		core->writes += counts.put + counts.deleted + counts.switched;
		if (counts.put || counts.switched) {
			policies->applied_ns = mk_time_monotonic_ns();
			policies->released = false;
		}
	}
	return ret;
}

/* A datapath that has just been loaded gets all rows, once. */
static int apply_all(struct mk_node_policies *policies, struct mk_error *err)
{
	const struct mk_core *core = policies->node->core;
	const struct mk_policy_changes *all;
	int ret = mk_policies_all(policies->compiler, &all, err);

	if (ret < 0)
		return ret;
	ret = apply(policies, all, true, err);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]))
			policies->loads[i] = core->families[i].loads;
	return ret;
}

/* For the command line. */
static int describe(struct mk_node_policies *policies, struct mk_error *err)
{
	const struct mk_model *model = policies->node->core->model;
	json_object *names = mk_policies_describe(policies->compiler);
	int ret;

	if (!names)
		return mk_error_errno(err, ENOMEM, "names of policies");
	json_object_object_add(names, "notes",
			       notes_of(model, policies->node->core->config.masquerade_all));
	json_object_object_add(names, "audited", audited_of(model));
	mk_put_number(names, "policies",
		      mk_model_count(model, MK_KIND_NETWORK_POLICY) +
			      mk_model_count(model, MK_KIND_CLUSTER_POLICY));
	if (policies->denied)
		denied_know(policies->denied, names);
	ret = mk_policy_names_write(policies->node->core->config.state_dir, names, err);
	json_object_put(names);
	return ret;
}

/* Rule 18 of test/policy: what selects pods does not select those whose address is not seen. */
static void say_masqueraded(const struct mk_node_policies *policies, size_t count)
{
	if (policies->said <= 1 && count && policies->node->core->config.masquerade_all)
		mk_log_warn("masqueradeAll is on: a pod that uses a ClusterIP appears to other "
			    "nodes' policies as its node, not as itself; name the node's address "
			    "in an ipBlock, or set masqueradeAll to false");
}

static void say_chains(struct mk_node_policies *policies, const struct mk_policy_figures *figures)
{
	if (policies->said_chains != figures->chains)
		mk_log_info("service function chains in force chains=%zu chained=%zu",
			    figures->chains, figures->chained_pods);
	policies->said_chains = figures->chains;
}

static void say(struct mk_node_policies *policies)
{
	struct mk_policy_figures figures;

	mk_policies_figures(policies->compiler, &figures);
	policies->holds = figures.holds;
	set_listed(policies->node->core,
		   figures.holds ? MK_POLICY_LISTED_SOME : MK_POLICY_LISTED_NONE);
	say_chains(policies, &figures);
	if (policies->said == figures.policies + 1)
		return;
	if (!policies->said) /* lists and tables were read: what that took lies between what stays */
		malloc_trim(0);
	if (figures.policies || policies->said)
		mk_log_info(
			"network policies in force policies=%zu audited=%zu isolated=%zu open=%zu sets=%zu",
			figures.policies, figures.audited_policies, figures.isolated_pods,
			figures.open_pods, figures.sets);
	say_masqueraded(policies, figures.policies);
	policies->said = figures.policies + 1;
}

/* A set comes and goes with its rows in map policy_blocks. */
static bool sets_changed(const struct mk_policy_changes *changes)
{
	return changes->blocks.put_count || changes->blocks.gone_count;
}

/* The names come first: a drop must never be by a set that the command line does not know. But a
 * full disk must not keep policies from being enforced. */
static void write_names(struct mk_node_policies *policies)
{
	struct mk_error why;

	policies->described = policies->noted = describe(policies, &why) == 0;
	if (!policies->described)
		mk_log_error("cannot write the names of policies for the command line: %s",
			     mk_error_text(&why));
}

/* Before the tables, because a table may be full: CNI ADD must not take a new pod for open. */
static void hold_new_pods(const struct mk_node_policies *policies)
{
	struct mk_policy_figures figures;

	mk_policies_figures(policies->compiler, &figures);
	if (figures.holds)
		set_listed(policies->node->core, MK_POLICY_LISTED_SOME);
}

static int write_tables(struct mk_node_policies *policies, struct mk_error *err)
{
	const struct mk_policy_changes *changes;
	int ret = mk_policies_compile(policies->compiler, &changes, err);

	policies->rounds++;
	if (ret < 0)
		return ret;
	if (sets_changed(changes) || !policies->described)
		write_names(policies);
	hold_new_pods(policies);
	ret = apply(policies, changes, false, err);
	if (mk_core_is_fresh(policies->node->core, policies->loads))
		ret = ret ?: apply_all(policies, err);
	mk_policies_written(policies->compiler);
	if (!policies->noted)
		write_names(policies);
	if (ret == 0)
		say(policies);
	policies->settled = ret == 0 && policies->described && policies->noted;
	return ret;
}

/* ---- reconcile ------------------------------------------------------------------------------- */

/* The file of a new pod's address comes before its entry in map pods, which nothing reports. */
static int look_at_sandboxes(struct mk_node_policies *policies, struct mk_error *err)
{
	struct mk_core *core = policies->node->core;
	int ret;

	core->unsure &= ~(unsigned int)MK_UNSURE_SANDBOXES;
	ret = sandboxes_read(policies->node, policies->compiler, policies->sandboxes, err);
	policies->incomplete = ret > 0;
	if (ret < 0)
		core->unsure |= MK_UNSURE_SANDBOXES;
	else if (ret > 0 && policies->looks > 0)
		mk_core_mark(core, MK_UNSURE_SANDBOXES, LOOK_MS);
	if (ret > 0 && policies->looks > 0)
		policies->looks--;
	return ret < 0 ? ret : 0;
}

static int look(struct mk_node_policies *policies, struct mk_error *err)
{
	struct mk_core *core = policies->node->core;
	int ret = 0;

	if (core->unsure & MK_UNSURE_SANDBOXES ||
	    mk_core_is_fresh(policies->node->core, policies->loads))
		ret = look_at_sandboxes(policies, err);
	if (ret == 0 && core->unsure & MK_UNSURE_NODE_ADDRESSES)
		ret = nodes_read(policies->node, policies->compiler, err);
	if (ret == 0)
		core->unsure &= ~(unsigned int)MK_UNSURE_NODE_ADDRESSES;
	return ret;
}

/* Give the compiler all chains that have entries in the tables. Returns false until all numbers
 * have been known once: no pod may seem to be in no chain. If one is unknown later, because a table
 * cannot be written, the former chains stay and do not hold up policies. The Services that chains
 * name have been listed: without them agent_work() does no step. */
static bool has_chains(struct mk_node_policies *policies)
{
	const struct mk_model *model = policies->node->core->model;
	cleanup_free struct mk_policy_chain *list = NULL;
	bool known = true;
	size_t count = 0;

	if (policies->chains_known || !policies->chain_number)
		return true;
	list = calloc(mk_model_count(model, MK_KIND_CHAIN) + 1, sizeof(*list));
	if (!list)
		return false;
	mk_model_each(struct mk_chain, chain, model, MK_KIND_CHAIN) {
		int number = policies->chain_number(policies->chain_ctx, chain->uid);

		known &= number >= 0;
		if (number > 0)
			list[count++] = (struct mk_policy_chain){ chain, (uint16_t)number };
	}
	policies->chains_known = known;
	policies->has_chains |= known;
	if (known)
		mk_policies_set_chains(policies->compiler, list, count);
	return policies->has_chains;
}

/* Ask for the Pods that the policies need. Returns false until they are listed: a policy must not
 * apply before its peers are known. */
static bool has_pods(struct mk_node_policies *policies)
{
	static const enum mk_source_pods as_source[] = {
		[MK_WANTS_NO_PODS] = MK_SOURCE_NO_PODS,
		[MK_WANTS_OWN_PODS] = MK_SOURCE_OWN_PODS,
		[MK_WANTS_ALL_PODS] = MK_SOURCE_ALL_PODS,
	};
	struct mk_source *source = policies->node->core->source;
	enum mk_policy_wants wants = mk_policies_want(policies->compiler);

	mk_source_want(source, MK_SOURCE_PODS, as_source[wants]);
	return wants == MK_WANTS_NO_PODS || mk_source_listed(source, MK_SOURCE_PODS);
}

/* Does nothing have to be done? Checks find what other processes change in the tables. */
static bool is_settled(const struct mk_node_policies *policies)
{
	const unsigned int unsure = MK_UNSURE_SANDBOXES | MK_UNSURE_NODE_ADDRESSES;

	return policies->settled && !(policies->node->core->unsure & unsure) &&
	       !mk_core_is_fresh(policies->node->core, policies->loads);
}

static int follow(struct mk_node_policies *policies, struct mk_error *err)
{
	struct mk_core *core = policies->node->core;
	int ret;

	policies->settled = false;
	if (core->config.policy_mode == MK_POLICIES_AUDITED && !policies->holds &&
	    !mk_core_any(core, mk_family_has_chains))
		set_listed(core, MK_POLICY_LISTED_NONE); /* CNI ADD: no new pod is pending */
	if (!mk_source_listed(core->source, MK_SOURCE_POLICIES))
		return 0;
	ret = begin(policies, err);
	ret = ret ?: look(policies, err);
	if (ret < 0 || !has_chains(policies) || !has_pods(policies))
		return ret;
	measures_see_pods(policies->measures, core);
	ret = write_tables(policies, err);
	measures_see_pods(policies->measures, core);
	if (ret == 0)
		measures_written(policies->measures);
	return ret;
}

int mk_node_policies_reconcile(struct mk_node_policies *policies, struct mk_error *err)
{
	const struct mk_core *core = policies->node->core;
	int ret = 0;

	if (!mk_core_any(core, mk_family_is_loaded) || is_settled(policies))
		return 0;
	if (core->config.policy_mode != MK_POLICIES_OFF)
		ret = follow(policies, err);
	else if (mk_core_is_fresh(policies->node->core, policies->loads))
		ret = open_all(policies, err);
	return ret < 0 ? mk_error_wrap(err, "network policies") : 0;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Sets that no pod has, and what the former agent left, have been out of use for a second. */
static void release_sets(struct mk_node_policies *policies)
{
	const struct mk_core *core = policies->node->core;
	uint64_t now_ns = mk_time_monotonic_ns();

	if (policies->released || now_ns - policies->applied_ns < MK_RETIRE_NS)
		return;
	policies->released = true;
	policies->settled = false;
	measures_count(policies->measures, core, policies->compiler);
	mk_policies_release(policies->compiler);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]) &&
		    policies->loads[i] == core->families[i].loads)
			mk_policy_sync_release(sync_of(&core->families[i]), now_ns);
	mk_core_schedule(policies->node->core, 0);
}

/* @row for each family whose tables have all rows. Returns the sum. */
static int each(struct mk_node_policies *policies,
		int (*row)(struct mk_policy_sync *sync, struct mk_error *err), struct mk_error *err)
{
	const struct mk_core *core = policies->node->core;
	int sum = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		int ret = 0;

		if (mk_family_is_loaded(&core->families[i]) &&
		    policies->loads[i] == core->families[i].loads)
			ret = row(sync_of(&core->families[i]), err);
		if (ret < 0)
			return ret;
		sum += ret;
	}
	return sum;
}

static int collect(struct mk_policy_sync *sync, struct mk_error *err)
{
	struct mk_policy_counts counts = { 0 };
	int ret = mk_policy_sync_collect(sync, mk_time_monotonic_ns(), &counts, err);

	return ret < 0 ? ret : 0;
}

static int reconcile_tables(struct mk_policy_sync *sync, struct mk_error *err)
{
	return mk_policy_sync_reconcile(sync, LOOK_BUDGET, err);
}

int mk_node_policies_collect(struct mk_node_policies *policies, struct mk_error *err)
{
	if (policies->said)
		release_sets(policies);
	return each(policies, collect, err);
}

int mk_node_policies_reconcile_tables(struct mk_node_policies *policies, struct mk_error *err)
{
	if (policies->incomplete)
		mk_core_mark(policies->node->core, MK_UNSURE_SANDBOXES, 0);
	return each(policies, reconcile_tables, err);
}

int mk_node_policies_log_denied(struct mk_node_policies *policies, struct mk_error *err)
{
	if (!policies->denied)
		return 0;
	return denied_log(policies->denied, policies->node->core, policies->sandboxes, err);
}

void mk_node_policies_measure(struct mk_node_policies *policies, struct mk_metrics *metrics)
{
	struct mk_policy_figures figures;

	metrics->has_policies = policies->said;
	if (!policies->said)
		return;
	mk_policies_figures(policies->compiler, &figures);
	metrics->policy.policies = figures.policies;
	metrics->policy.sets = figures.sets;
	metrics->policy.classes = figures.classes;
	metrics->policy.isolated_pods = figures.isolated_pods - figures.audited_pods;
	metrics->policy.audited_pods = figures.audited_pods;
	metrics->policy.pending_pods = waits_pending(&policies->measures->waits);
	metrics->policy.open_pods = figures.open_pods;
	measures_fill(policies->measures, policies->node->core, policies->compiler, metrics);
}

// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/core/hash_key.h"
#include "agent/sfc/objects.h"
#include "agent/sfc/sfc.h"
#include "base/time.h"

#define LOOK_BUDGET 512 /* entries per look */

/* ---- begin and end --------------------------------------------------------------------------- */

/* Is every chain's row written in every family? */
static bool is_written(const struct mk_node_sfc *sfc, uint16_t number)
{
	const struct mk_core *core = sfc->node->core;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]) &&
		    !mk_sfc_sync_has_chain(mk_datapath_sfc(core->families[i].datapath),
					   mk_sfc_rows(sfc->sfc), number))
			return false;
	return true;
}

/* For mk_node_policies_use_chains(). A chain with ends takes no pod, so policies know none. */
static int number_of(void *ctx, const char *uid)
{
	const struct mk_node_sfc *sfc = ctx;
	uint16_t number;

	if (!sfc->known || !sfc->sfc)
		return -1;
	number = mk_sfc_chain_id(sfc->sfc, uid, false);
	if (number)
		return is_written(sfc, number) ? number : -1;
	return sfc->settled ? 0 : -1;
}

void mk_node_sfc_init(struct mk_node_sfc *sfc, const struct mk_own_node *node,
		      struct mk_node_policies *policies)
{
	*sfc = (struct mk_node_sfc){ .node = node, .policies = policies };
	mk_node_policies_use_chains(policies, number_of, sfc);
}

void mk_node_sfc_release(struct mk_node_sfc *sfc)
{
	if (sfc->ports)
		node_ports_release(sfc->ports);
	free(sfc->ports);
	if (sfc->macs)
		node_macs_release(sfc->macs);
	free(sfc->macs);
	mk_sfc_free(sfc->sfc);
	if (sfc->said) {
		free(sfc->said->state);
		free(sfc->said->lacks);
	}
	free(sfc->said);
}

void mk_node_sfc_changed(struct mk_node_sfc *sfc)
{
	sfc->settled = false;
	mk_core_schedule(sfc->node->core, 0);
}

void mk_node_sfc_describe_again(struct mk_node_sfc *sfc)
{
	sfc->described = false;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static struct mk_sfc_sync *sync_of(const struct mk_family *family)
{
	return mk_datapath_sfc(family->datapath);
}

static int begin(struct mk_node_sfc *sfc, struct mk_error *err)
{
	const struct mk_core *core = sfc->node->core;
	uint8_t key[MK_SIPHASH_KEY_BYTES];
	int ret;

	if (sfc->sfc)
		return 0;
	ret = mk_hash_key_read(core->config.state_dir, key, err);
	if (ret < 0)
		return ret;
	sfc->ports = sfc->ports ?: calloc(1, sizeof(*sfc->ports));
	sfc->macs = sfc->macs ?: calloc(1, sizeof(*sfc->macs));
	sfc->said = sfc->said ?: calloc(1, sizeof(*sfc->said));
	sfc->sfc = sfc->ports && sfc->macs && sfc->said ? mk_sfc_new(key) : NULL;
	if (!sfc->sfc)
		return mk_error_errno(err, ENOMEM, "cannot keep service function chains");
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]))
			mk_sfc_sync_recall(sync_of(&core->families[i]), sfc->sfc);
	sfc->node->core->unsure |= MK_UNSURE_PORTS;
	return 0;
}

static int look_at_ports(struct mk_node_sfc *sfc, struct mk_error *err)
{
	struct mk_core *core = sfc->node->core;
	struct node_ports now;
	int ret;

	if (!(core->unsure & MK_UNSURE_PORTS))
		return 0;
	core->unsure &= ~(unsigned int)MK_UNSURE_PORTS;
	ret = node_ports_read(core, &now, err);
	if (ret < 0) {
		core->unsure |= MK_UNSURE_PORTS;
		return ret;
	}
	node_ports_release(sfc->ports);
	*sfc->ports = now;
	return 0;
}

/* Has another node come, gone or changed? */
static int look_at_nodes(struct mk_node_sfc *sfc, struct mk_error *err)
{
	struct node_macs now;
	int ret;

	if (!sfc->sfc || sfc->plans == sfc->node->plans)
		return 0;
	ret = node_macs_get(&now, sfc->node, err);
	if (ret < 0)
		return ret;
	if (!node_macs_equal(&now, sfc->macs))
		sfc->settled = false;
	node_macs_release(sfc->macs);
	*sfc->macs = now;
	sfc->plans = sfc->node->plans;
	return 0;
}

/* A family that cannot be written does not hold up the other one. */
static int apply(struct mk_node_sfc *sfc, struct mk_error *err)
{
	struct mk_core *core = sfc->node->core;
	struct mk_error why;
	int ret = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		struct mk_sfc_counts counts = { 0 };
		int one;

		if (!mk_family_is_loaded(&core->families[i]))
			continue;
		one = mk_sfc_sync_apply(sync_of(&core->families[i]), mk_sfc_rows(sfc->sfc), &counts,
					&why);
		core->writes += counts.put + counts.deleted;
		if (one == 0)
			sfc->loads[i] = core->families[i].loads;
		else if (ret == 0)
			*err = why;
		ret = ret ?: one;
	}
	return ret;
}

/* Let policies ask for the numbers again, if one has changed. */
static void look_again(struct mk_node_sfc *sfc, const struct sfc_objects *objects)
{
	const struct mk_sfc_rows *rows = mk_sfc_rows(sfc->sfc);
	uint64_t numbers = 0;

	for (size_t i = 0; i < objects->chain_count; i++) {
		uint16_t number = objects->chains[i].number;

		numbers = (numbers ^ rows->chains[number].uid_hash) * 0x100000001b3 + number;
	}
	if (sfc->known && sfc->numbers == numbers)
		return;
	sfc->known = true;
	sfc->numbers = numbers;
	mk_node_policies_mark(sfc->policies, MK_KIND_CHAIN, "", "");
}

/* Compute the rows from the objects of now, which the caller releases. */
static int compile(struct mk_node_sfc *sfc, struct sfc_objects *objects, struct mk_error *err)
{
	int ret = objects_get(objects, sfc->node->core, sfc->ports, sfc->macs, err);

	return ret
		       ?: mk_sfc_compile(sfc->sfc, objects->chains, objects->chain_count,
					 objects->pods, objects->pod_count, mk_time_monotonic_ns(),
					 err);
}

static int write_tables(struct mk_node_sfc *sfc, struct mk_error *err)
{
	struct sfc_objects objects;
	int ret = compile(sfc, &objects, err);

	ret = ret ?: apply(sfc, err);
	sfc->settled = ret == 0;
	if (ret == 0) {
		look_again(sfc, &objects);
		objects_say(&objects, sfc->said);
		sfc->described = false;
	}
	objects_release(&objects);
	return ret;
}

/* ---- reconcile ------------------------------------------------------------------------------- */

/* Ask for function pods while there are chains, or replicas whose flows may go on. Returns false
 * until they are listed. */
static bool has_pods(const struct mk_node_sfc *sfc)
{
	const struct mk_core *core = sfc->node->core;
	bool wanted = mk_model_count(core->model, MK_KIND_CHAIN) > 0 ||
		      (sfc->sfc && mk_sfc_has_gone(sfc->sfc));

	mk_source_want(core->source, MK_SOURCE_FUNCTIONS, wanted);
	return !wanted || mk_source_listed(core->source, MK_SOURCE_FUNCTIONS);
}

static bool is_settled(const struct mk_node_sfc *sfc)
{
	return sfc->settled && !(sfc->node->core->unsure & MK_UNSURE_PORTS) &&
	       !mk_core_is_fresh(sfc->node->core, sfc->loads);
}

/* Without a chain, now or before, nothing has to be known of ports. */
static bool has_nothing(const struct mk_node_sfc *sfc)
{
	return !sfc->sfc && mk_model_count(sfc->node->core->model, MK_KIND_CHAIN) == 0 &&
	       !mk_core_any(sfc->node->core, mk_family_has_chains);
}

static int nothing_to_do(struct mk_node_sfc *sfc)
{
	const struct mk_core *core = sfc->node->core;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		sfc->loads[i] = core->families[i].loads;
	sfc->node->core->unsure &= ~(unsigned int)MK_UNSURE_PORTS;
	sfc->settled = sfc->known = true;
	return 0;
}

static int follow(struct mk_node_sfc *sfc, struct mk_error *err)
{
	int ret;

	sfc->settled = false;
	if (!mk_source_listed(sfc->node->core->source, MK_SOURCE_POLICIES) || !has_pods(sfc))
		return 0;
	if (has_nothing(sfc))
		return nothing_to_do(sfc);
	if (!sfc->node->plans)
		return 0; /* the overlay's nodes are not known yet */
	ret = begin(sfc, err);
	ret = ret ?: look_at_nodes(sfc, err);
	ret = ret ?: look_at_ports(sfc, err);
	return ret ?: write_tables(sfc, err);
}

int mk_node_sfc_reconcile(struct mk_node_sfc *sfc, struct mk_error *err)
{
	const struct mk_core *core = sfc->node->core;
	int ret;

	if (core->config.policy_mode == MK_POLICIES_OFF || !mk_core_any(core, mk_family_is_loaded))
		return 0;
	ret = look_at_nodes(sfc, err);
	if (ret == 0 && !is_settled(sfc))
		ret = follow(sfc, err);
	return ret < 0 ? mk_error_wrap(err, "service function chains") : 0;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* For objects_status(). */
static void say_status(void *ctx, const struct mk_chain_status *status)
{
	mk_source_chain_status(ctx, status);
}

int mk_node_sfc_describe(struct mk_node_sfc *sfc, struct mk_error *err)
{
	struct sfc_objects objects;
	int ret;

	if (!sfc->sfc || !sfc->settled || sfc->described)
		return 0;
	ret = compile(sfc, &objects, err)
		      ?: objects_write(&objects, sfc->node->core->model, sfc->sfc,
				       sfc->node->core->config.state_dir, err);
	if (ret == 0)
		ret = objects_status(&objects, sfc->node->core->model, say_status,
				     sfc->node->core->source, err);
	objects_release(&objects);
	sfc->described = ret == 0;
	return ret;
}

int mk_node_sfc_collect(struct mk_node_sfc *sfc, struct mk_error *err)
{
	const struct mk_core *core = sfc->node->core;
	const struct mk_sfc_named *named[MK_FAMILIES];
	size_t count = 0;

	(void)err;
	if (!sfc->sfc || !sfc->settled || !sfc->policies->settled || !mk_sfc_has_gone(sfc->sfc))
		return 0;
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]))
			named[count++] = mk_sfc_sync_named(sync_of(&core->families[i]));
	if (mk_sfc_release(sfc->sfc, named, count, mk_time_monotonic_ns()) > 0)
		mk_node_sfc_changed(sfc);
	return 0;
}

/* A device that is gone may be the cause: the next reconcile looks at ports, too. */
int mk_node_sfc_reconcile_tables(struct mk_node_sfc *sfc, struct mk_error *err)
{
	struct mk_core *core = sfc->node->core;
	int sum = 0;

	for (size_t i = 0; sfc->sfc && sfc->settled && i < MK_FAMILIES; i++) {
		int ret = 0;

		if (mk_family_is_loaded(&core->families[i]))
			ret = mk_sfc_sync_reconcile(sync_of(&core->families[i]), LOOK_BUDGET, err);
		if (ret < 0)
			return ret;
		sum += ret;
	}
	if (sum > 0) {
		sfc->settled = false;
		mk_core_mark(core, MK_UNSURE_PORTS, 0);
	}
	return sum;
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void measure_chains(const struct mk_sfc_sync *sync, const struct sfc_objects *objects,
			   struct mk_metrics_family *metrics)
{
	for (size_t i = 0; i < objects->chain_count; i++) {
		const struct mk_sfc_chain_object *chain = &objects->chains[i];

		if (!chain->number || !chain->ends[MK_SFC_INSIDE])
			continue;
		metrics->chains[metrics->chain_count++] = (struct mk_metrics_chain){
			.namespace_ = chain->namespace_,
			.name = chain->name,
			.flows = mk_sfc_sync_end_flows(sync, chain->number),
			.max_flows = MK_SFC_END_FLOWS,
		};
	}
}

static int measure_family(const struct mk_sfc_sync *sync, const struct sfc_objects *objects,
			  struct mk_metrics_family *metrics, struct mk_error *err)
{
	int ret = 0;

	metrics->chains = calloc(objects->chain_count + 1, sizeof(*metrics->chains));
	metrics->replicas = calloc(objects->pod_count + 1, sizeof(*metrics->replicas));
	if (!metrics->chains || !metrics->replicas)
		return mk_error_errno(err, ENOMEM, "%zu chains and %zu function pods",
				      objects->chain_count, objects->pod_count);
	metrics->has_chains = true;
	measure_chains(sync, objects, metrics);
	metrics->paths = mk_sfc_sync_path_count(sync);
	for (size_t i = 0; ret == 0 && i < objects->pod_count; i++) {
		const struct mk_sfc_pod_object *pod = &objects->pods[i];
		struct mk_metrics_replica *replica = &metrics->replicas[metrics->replica_count];

		if (!pod->number)
			continue;
		*replica = (struct mk_metrics_replica){
			.namespace_ = pod->namespace_,
			.function = pod->function,
			.pod = pod->name,
			.is_here = pod->is_here,
			.flows = mk_sfc_sync_flows(sync, pod->number),
		};
		metrics->replica_count++;
		ret = mk_sfc_sync_counters(sync, pod->number, &replica->counters, err);
	}
	return ret;
}

int mk_node_sfc_measure(struct mk_node_sfc *sfc, struct mk_metrics *metrics, struct mk_error *err)
{
	const struct mk_core *core = sfc->node->core;
	struct sfc_objects objects;
	int ret;

	if (!sfc->sfc || !sfc->settled)
		return 0;
	ret = compile(sfc, &objects, err);
	metrics->has_chains = ret == 0;
	for (size_t i = 0; ret == 0 && i < objects.pod_count; i++)
		metrics->chain_replicas[objects.pods[i].state]++;
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++)
		if (mk_family_is_loaded(&core->families[i]))
			ret = measure_family(sync_of(&core->families[i]), &objects,
					     &metrics->families[i], err);
	objects_release(&objects);
	return ret;
}

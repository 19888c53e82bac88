// SPDX-License-Identifier: Apache-2.0
/* What people learn of chains: the file that the command line reads, and the log. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sfc/objects.h"
#include "base/json.h"
#include "base/log.h"
#include "base/state_file.h"

#define VERSION 2

static const char *const state_names[MK_SFC_POD_STATES] = {
	[MK_SFC_POD_UNUSED] = "in no chain",
	[MK_SFC_POD_UNBOUND] = "on no node yet",
	[MK_SFC_POD_NO_NODE] = "lost: the overlay does not reach its node",
	[MK_SFC_POD_NO_PORTS] = "no ports",
	[MK_SFC_POD_NO_NUMBER] = "no number: too many replicas",
	[MK_SFC_POD_SAME_TAG] = "no number: another replica has its tag, so delete the pod",
	[MK_SFC_POD_SERVING] = "serving",
	[MK_SFC_POD_DRAINING] = "draining",
	[MK_SFC_POD_KEEPS] = "not ready: keeps its flows, because none serves",
	[MK_SFC_POD_LOST] = "lost",
};

/* ---- the file -------------------------------------------------------------------------------- */

static void add_name(json_object *to, const char *namespace_, const char *name)
{
	char text[2 * MK_OBJECT_NAME_SIZE];

	snprintf(text, sizeof(text), "%s/%s", namespace_, name);
	mk_put_text(to, "name", text);
}

static json_object *function_json(const struct mk_sfc *sfc, const struct mk_chain *chain,
				  const struct mk_chain_function *function)
{
	static const char *const hashes[] = {
		[MK_CHAIN_BY_FLOW] = "Flow", [MK_CHAIN_BY_POD] = "Pod", [MK_CHAIN_BY_PEER] = "Peer"
	};
	uint64_t kind = (chain->has_ends ? MK_SFC_HERE_MASK : 0) |
			(function->is_end ? MK_SFC_END_MASK : 0) |
			(function->is_tap ? MK_SFC_TAP_MASK : 0);
	json_object *json = json_object_new_object();

	mk_put_text(json, "name", function->name);
	mk_put_number(json, "id",
		      mk_sfc_function_id(sfc, chain->namespace_, function->name, kind,
					 function->local_weight));
	mk_put_flag(json, "tap", function->is_tap);
	if (function->is_end)
		mk_put_text(json, "end", function == mk_chain_at(chain, 0) ? "inside" : "outside");
	mk_put_text(json, "whenUnavailable", function->skips ? "Skip" : "Block");
	mk_put_text(json, "onLoss", function->drops_lost ? "Drop" : "Rebalance");
	mk_put_text(json, "hashBy", hashes[function->hash_by]);
	mk_put_number(json, "localWeight", function->local_weight);
	return json;
}

static const char *direction_of(const struct mk_chain *chain)
{
	if (!chain->applies[MK_POLICY_INGRESS])
		return "Egress";
	return chain->applies[MK_POLICY_EGRESS] ? "Both" : "Ingress";
}

static json_object *chain_json(const struct mk_sfc *sfc, const struct mk_model *model,
			       const struct sfc_objects *objects, size_t index)
{
	json_object *json = json_object_new_object(), *functions = json_object_new_array();
	const struct mk_chain *chain = objects->chains_of[index];
	struct sfc_problem problem;

	mk_put_number(json, "id", mk_sfc_chain_id(sfc, chain->uid, chain->has_ends));
	add_name(json, chain->namespace_, chain->name);
	mk_put_number(json, "priority", chain->priority);
	if (!chain->has_ends)
		mk_put_text(json, "direction", direction_of(chain));
	if (objects_problem(objects, index, model, &problem)) {
		mk_put_text(json, "problem", problem.what);
		mk_put_text(json, "remedy", problem.remedy);
	}
	for (size_t i = 0; i < mk_chain_length(chain); i++)
		json_object_array_add(functions, function_json(sfc, chain, mk_chain_at(chain, i)));
	json_object_object_add(json, "functions", functions);
	return json;
}

/* `monokube check` looks for pods of this node whose state is "no ports" or a wrong mode. */
static const char *state_of(const struct sfc_objects *objects, const struct mk_sfc_pod_object *pod)
{
	if (pod->state == MK_SFC_POD_NO_PORTS && !pod->is_here)
		return "no ports: no annotation asks for them";
	if (pod->state == MK_SFC_POD_OTHER_MODE)
		return objects_mismatch(objects, pod)->state;
	return state_names[pod->state];
}

/* Two chains may name one function, one of them as a tap. Then a replica serves one of both. */
static bool serves_one(const struct mk_sfc_pod_object *pod)
{
	return pod->state != MK_SFC_POD_NO_PORTS && pod->state != MK_SFC_POD_OTHER_MODE;
}

static json_object *replica_json(const struct sfc_objects *objects, size_t index)
{
	const struct mk_sfc_pod_object *pod = &objects->pods[index];
	const struct mk_function_pod *of = &objects->pods_of[index];
	json_object *json = json_object_new_object();

	mk_put_number(json, "number", pod->number);
	mk_put_text(json, "function", pod->function);
	add_name(json, pod->namespace_, pod->name);
	mk_put_text(json, "node", of->node_name ?: "");
	mk_put_flag(json, "isHere", pod->is_here);
	if (serves_one(pod))
		mk_put_flag(json, "tap", pod->mode == MK_PORT_TAP);
	mk_put_number(json, "weight", pod->weight);
	mk_put_flag(json, "weightIsWrong", of->weight_is_wrong);
	mk_put_text(json, "state", state_of(objects, pod));
	return json;
}

/* A Pod that no chain uses is of interest only while flows may still have it. */
static json_object *all_json(const struct mk_sfc *sfc, const struct mk_model *model,
			     const struct sfc_objects *objects)
{
	json_object *json = json_object_new_object(), *chains = json_object_new_array(),
		    *replicas = json_object_new_array();

	mk_put_number(json, "version", VERSION);
	for (size_t i = 0; i < objects->chain_count; i++)
		json_object_array_add(chains, chain_json(sfc, model, objects, i));
	for (size_t i = 0; i < objects->pod_count; i++)
		if (objects->pods[i].state != MK_SFC_POD_UNUSED || objects->pods[i].number)
			json_object_array_add(replicas, replica_json(objects, i));
	json_object_object_add(json, "chains", chains);
	json_object_object_add(json, "replicas", replicas);
	return json;
}

int objects_write(const struct sfc_objects *objects, const struct mk_model *model,
		  const struct mk_sfc *sfc, const char *state_dir, struct mk_error *err)
{
	json_object *json = all_json(sfc, model, objects);
	int ret = mk_state_tree_write(state_dir, MK_CHAIN_NAMES_FILE, json, err);

	json_object_put(json);
	return ret;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* A pod that is not ready yet gets its ports in a moment, and one that ends has none any more. */
static bool lacks_ports(const struct mk_sfc_pod_object *pod)
{
	return pod->state == MK_SFC_POD_NO_PORTS && pod->is_here && pod->ready && !pod->deleting;
}

/* Each agent logs those of its node. */
static const struct mk_sfc_pod_object *with_wrong_mode(const struct sfc_objects *objects)
{
	for (size_t i = 0; i < objects->pod_count; i++)
		if (objects->pods[i].state == MK_SFC_POD_OTHER_MODE && objects->pods[i].is_here)
			return &objects->pods[i];
	return NULL;
}

static const struct mk_sfc_pod_object *with_wrong_weight(const struct sfc_objects *objects)
{
	for (size_t i = 0; i < objects->pod_count; i++)
		if (objects->pods_of[i].weight_is_wrong && objects->pods[i].is_here)
			return &objects->pods[i];
	return NULL;
}

/* Write what keeps chains out of force to @text. Returns false if there is nothing. */
static bool name_chain(const struct sfc_objects *objects, char *text, size_t size)
{
	size_t without_number = 0, refused = 0;
	struct sfc_problem problem;

	for (size_t i = 0; i < objects->chain_count; i++)
		without_number += !objects->chains[i].number && !objects->conflicts[i].with;
	while (refused < objects->chain_count && !objects->conflicts[refused].with)
		refused++;
	if (refused < objects->chain_count && objects_problem(objects, refused, NULL, &problem))
		snprintf(text, size, "chain %s/%s is not in force: %s: %s",
			 objects->chains[refused].namespace_, objects->chains[refused].name,
			 problem.what, problem.remedy);
	else if (without_number)
		snprintf(
			text, size,
			"%zu chains are not in force: a node has at most %d chains and %d functions",
			without_number, MK_SFC_CHAINS - 1, MK_SFC_FUNCTIONS_ALL - 1);
	return *text;
}

/* Write what keeps pods of this node from serving to @text. */
static void name_pod(const struct sfc_objects *objects, char *text, size_t size)
{
	const struct mk_sfc_pod_object *first = NULL, *wrong = with_wrong_weight(objects),
				       *other = with_wrong_mode(objects);
	size_t without_ports = 0;

	for (size_t i = 0; i < objects->pod_count; i++)
		if (lacks_ports(&objects->pods[i])) {
			first = first ?: &objects->pods[i];
			without_ports++;
		}
	if (first)
		snprintf(
			text, size,
			"%zu function pods of this node have no ports and do not serve, such as %s/%s: annotate their template with networking.monokube.io/function-ports, or see CHAINS.md for Multus",
			without_ports, first->namespace_, first->name);
	else if (other)
		snprintf(text, size, "function pod %s/%s does not serve: it %s", other->namespace_,
			 other->name, objects_mismatch(objects, other)->why);
	else if (wrong)
		snprintf(
			text, size,
			"function pod %s/%s has the default weight %d: annotation " MK_FUNCTION_WEIGHT_ANNOTATION
			" is no number from 0 to %d",
			wrong->namespace_, wrong->name, MK_FUNCTION_WEIGHT, MK_FUNCTION_WEIGHT_MAX);
}

static void say_lacks(const struct sfc_objects *objects, struct sfc_said *said)
{
	char text[4 * MK_OBJECT_NAME_SIZE + 256] = "";

	if (!name_chain(objects, text, sizeof(text)))
		name_pod(objects, text, sizeof(text));
	if (mk_is_news(&said->lacks, text) && text[0])
		mk_log_warn("%s", text);
}

void objects_say(const struct sfc_objects *objects, struct sfc_said *said)
{
	size_t counts[MK_SFC_POD_STATES] = { 0 }, elsewhere = 0;
	char text[160];

	for (size_t i = 0; i < objects->pod_count; i++) {
		const struct mk_sfc_pod_object *pod = &objects->pods[i];

		counts[pod->state]++;
		elsewhere += pod->state == MK_SFC_POD_SERVING && !pod->is_here;
	}
	snprintf(
		text, sizeof(text),
		"service function chains chains=%zu serving=%zu elsewhere=%zu draining=%zu notReady=%zu unreachable=%zu",
		objects->chain_count, counts[MK_SFC_POD_SERVING], elsewhere,
		counts[MK_SFC_POD_DRAINING], counts[MK_SFC_POD_KEEPS] + counts[MK_SFC_POD_LOST],
		counts[MK_SFC_POD_NO_NODE]);
	if (mk_is_news(&said->state, text))
		mk_log_info("%s", text);
	say_lacks(objects, said);
}

// SPDX-License-Identifier: Apache-2.0
/* What people learn of chains: the file that the command line reads, and the log. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/sfc/objects.h"
#include "base/log.h"
#include "base/state_file.h"

#define VERSION 1

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

static void add_text(json_object *to, const char *key, const char *text)
{
	json_object_object_add(to, key, json_object_new_string(text));
}

static void add_number(json_object *to, const char *key, unsigned number)
{
	json_object_object_add(to, key, json_object_new_int((int)number));
}

static void add_name(json_object *to, const char *namespace_, const char *name)
{
	char text[2 * MK_OBJECT_NAME_SIZE];

	snprintf(text, sizeof(text), "%s/%s", namespace_, name);
	add_text(to, "name", text);
}

static json_object *function_json(const struct mk_sfc *sfc, const struct mk_chain *chain,
				  const struct mk_chain_function *function)
{
	static const char *const hashes[] = {
		[MK_CHAIN_BY_FLOW] = "Flow", [MK_CHAIN_BY_POD] = "Pod", [MK_CHAIN_BY_PEER] = "Peer"
	};
	json_object *json = json_object_new_object();

	add_text(json, "name", function->name);
	add_number(json, "id", mk_sfc_function_id(sfc, chain->namespace_, function->name));
	add_text(json, "whenUnavailable", function->skips ? "Skip" : "Block");
	add_text(json, "onLoss", function->drops_lost ? "Drop" : "Rebalance");
	add_text(json, "hashBy", hashes[function->hash_by]);
	return json;
}

static const char *direction_of(const struct mk_chain *chain)
{
	if (!chain->applies[MK_POLICY_INGRESS])
		return "Egress";
	return chain->applies[MK_POLICY_EGRESS] ? "Both" : "Ingress";
}

static json_object *chain_json(const struct mk_sfc *sfc, const struct mk_chain *chain)
{
	json_object *json = json_object_new_object(), *functions = json_object_new_array();

	add_number(json, "id", mk_sfc_chain_id(sfc, chain->uid));
	add_name(json, chain->namespace_, chain->name);
	add_number(json, "priority", chain->priority);
	add_text(json, "direction", direction_of(chain));
	for (size_t i = 0; i < chain->function_count; i++)
		json_object_array_add(functions, function_json(sfc, chain, &chain->functions[i]));
	json_object_object_add(json, "functions", functions);
	return json;
}

/* `monokube check` looks for pods of this node whose state is "no ports". */
static const char *state_of(const struct mk_sfc_pod_object *pod)
{
	if (pod->state == MK_SFC_POD_NO_PORTS && !pod->is_here)
		return "no ports: no annotation asks for them";
	return state_names[pod->state];
}

static json_object *replica_json(const struct mk_sfc *sfc, const struct mk_sfc_pod_object *pod,
				 const struct mk_function_pod *of)
{
	json_object *json = json_object_new_object();

	add_number(json, "number", pod->number);
	add_number(json, "function", mk_sfc_function_id(sfc, pod->namespace_, pod->function));
	add_name(json, pod->namespace_, pod->name);
	add_text(json, "node", of->node_name ?: "");
	add_text(json, "state", state_of(pod));
	return json;
}

/* A Pod that no chain uses is of interest only while flows may still have it. */
static json_object *all_json(const struct mk_sfc *sfc, const struct sfc_objects *objects)
{
	json_object *json = json_object_new_object(), *chains = json_object_new_array(),
		    *replicas = json_object_new_array();

	add_number(json, "version", VERSION);
	for (size_t i = 0; i < objects->chain_count; i++)
		json_object_array_add(chains, chain_json(sfc, objects->chains_of[i]));
	for (size_t i = 0; i < objects->pod_count; i++)
		if (objects->pods[i].state != MK_SFC_POD_UNUSED || objects->pods[i].number)
			json_object_array_add(replicas, replica_json(sfc, &objects->pods[i],
								     &objects->pods_of[i]));
	json_object_object_add(json, "chains", chains);
	json_object_object_add(json, "replicas", replicas);
	return json;
}

int objects_write(const struct sfc_objects *objects, const struct mk_sfc *sfc,
		  const char *state_dir, struct mk_error *err)
{
	const int form = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
	json_object *json = all_json(sfc, objects);
	const char *text = json_object_to_json_string_ext(json, form);
	struct mk_state_file file;
	int ret = text ? mk_state_file_begin(&file, state_dir, MK_CHAIN_NAMES_FILE, err)
		       : mk_error_errno(err, ENOMEM, "cannot write file '" MK_CHAIN_NAMES_FILE "'");

	if (ret == 0) {
		fprintf(file.out, "%s\n", text);
		ret = mk_state_file_write(&file, err);
	}
	json_object_put(json);
	return ret;
}

/* ---- the log --------------------------------------------------------------------------------- */

/* A pod that is not ready yet gets its ports in a moment, and one that ends has none any more. */
static bool lacks_ports(const struct mk_sfc_pod_object *pod)
{
	return pod->state == MK_SFC_POD_NO_PORTS && pod->is_here && pod->ready && !pod->deleting;
}

static void say_lacks(const struct sfc_objects *objects, struct sfc_said *said)
{
	const struct mk_sfc_pod_object *first = NULL;
	size_t without_ports = 0, without_number = 0;
	char text[2 * MK_OBJECT_NAME_SIZE + 256] = "";

	for (size_t i = 0; i < objects->pod_count; i++)
		if (lacks_ports(&objects->pods[i])) {
			first = first ?: &objects->pods[i];
			without_ports++;
		}
	for (size_t i = 0; i < objects->chain_count; i++)
		without_number += !objects->chains[i].number;
	if (without_number)
		snprintf(
			text, sizeof(text),
			"%zu chains are not in force: a node has at most %d chains and %d functions",
			without_number, MK_SFC_CHAINS - 1, MK_SFC_FUNCTIONS_ALL - 1);
	else if (first)
		snprintf(
			text, sizeof(text),
			"%zu function pods of this node have no ports and do not serve, such as %s/%s: annotate their template with networking.monokube.io/function-ports, or see CHAINS.md for Multus",
			without_ports, first->namespace_, first->name);
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

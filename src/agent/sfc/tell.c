// SPDX-License-Identifier: Apache-2.0
/* What people learn of chains: the file that the command line reads, the log, and the status of the
 * objects. The status follows only from objects that every agent has, never from the tables of this
 * node, so all agents agree on it. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "agent/sfc/objects.h"
#include "base/log.h"
#include "base/state_file.h"

#define VERSION 2
#define NAMES	5 /* of namespaces, in a message */

/* Why a pod does not serve a function, and the remedy. */
#define NO_TAP_POD                                                                                                    \
	"has not the port of mode Tap that the chain's tap: true needs: set annotation " MK_FUNCTION_PORTS_ANNOTATION \
	": Tap in its template"
#define TAP_POD                                                                                                            \
	"has mode Tap, but the chain does not say tap: true: set another mode in annotation " MK_FUNCTION_PORTS_ANNOTATION \
	", or tap: true in the chain"

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

/* ---- the Service of a chain ------------------------------------------------------------------ */

struct problem {
	char what[2 * MK_OBJECT_NAME_SIZE + 64];
	const char *remedy;
};

/* Returns false if @chain names no Service, or one that selects pods. */
static bool has_problem(const struct mk_chain *chain, const struct mk_model *model,
			struct problem *problem)
{
	static const struct {
		const char *what, *remedy;
	} all[] = {
		[MK_CHAIN_SERVICE_MISSING] = { "does not exist, so the chain takes no pod",
					       "create it, or correct spec.traffic.service; one with label "
					       "service.kubernetes.io/service-proxy-name does not count" },
		[MK_CHAIN_SERVICE_NO_SELECTOR] = { "has no selector, so the chain takes no pod",
						   "select the pods by spec.traffic.podSelector instead" },
		[MK_CHAIN_SERVICE_NO_PORTS] = { "has no ports, so the chain takes no flow",
						"give it ports, or select the pods by spec.traffic.podSelector instead" },
	};
	const struct mk_service_object *service;
	enum mk_chain_service gives = MK_CHAIN_SERVICE_SELECTS;

	if (chain->service)
		gives = mk_chain_service(model, chain, &service);
	if (gives == MK_CHAIN_SERVICE_SELECTS)
		return false;
	snprintf(problem->what, sizeof(problem->what), "Service %s/%s %s", chain->namespace_,
		 chain->service, all[gives].what);
	problem->remedy = all[gives].remedy;
	return true;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void add_text(json_object *to, const char *key, const char *text)
{
	json_object_object_add(to, key, json_object_new_string(text));
}

static void add_number(json_object *to, const char *key, unsigned number)
{
	json_object_object_add(to, key, json_object_new_int((int)number));
}

static void add_flag(json_object *to, const char *key, bool flag)
{
	json_object_object_add(to, key, json_object_new_boolean(flag));
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
	add_number(json, "id",
		   mk_sfc_function_id(sfc, chain->namespace_, function->name, function->is_tap,
				      function->local_weight));
	add_flag(json, "tap", function->is_tap);
	add_text(json, "whenUnavailable", function->skips ? "Skip" : "Block");
	add_text(json, "onLoss", function->drops_lost ? "Drop" : "Rebalance");
	add_text(json, "hashBy", hashes[function->hash_by]);
	add_number(json, "localWeight", function->local_weight);
	return json;
}

static const char *direction_of(const struct mk_chain *chain)
{
	if (!chain->applies[MK_POLICY_INGRESS])
		return "Egress";
	return chain->applies[MK_POLICY_EGRESS] ? "Both" : "Ingress";
}

static json_object *chain_json(const struct mk_sfc *sfc, const struct mk_model *model,
			       const struct mk_chain *chain)
{
	json_object *json = json_object_new_object(), *functions = json_object_new_array();
	struct problem problem;

	add_number(json, "id", mk_sfc_chain_id(sfc, chain->uid));
	add_name(json, chain->namespace_, chain->name);
	add_number(json, "priority", chain->priority);
	add_text(json, "direction", direction_of(chain));
	if (has_problem(chain, model, &problem)) {
		add_text(json, "problem", problem.what);
		add_text(json, "remedy", problem.remedy);
	}
	for (size_t i = 0; i < chain->function_count; i++)
		json_object_array_add(functions, function_json(sfc, chain, &chain->functions[i]));
	json_object_object_add(json, "functions", functions);
	return json;
}

/* `monokube check` looks for pods of this node whose state is "no ports" or a wrong mode. */
static const char *state_of(const struct mk_sfc_pod_object *pod)
{
	if (pod->state == MK_SFC_POD_NO_PORTS && !pod->is_here)
		return "no ports: no annotation asks for them";
	if (pod->state == MK_SFC_POD_OTHER_MODE)
		return pod->mode == MK_PORT_TAP ? "wrong mode: Tap, and the function is no tap"
						: "wrong mode: not Tap, and the function is a tap";
	return state_names[pod->state];
}

/* Two chains may name one function, one of them as a tap. Then a replica serves one of both. */
static bool serves_one(const struct mk_sfc_pod_object *pod)
{
	return pod->state != MK_SFC_POD_NO_PORTS && pod->state != MK_SFC_POD_OTHER_MODE;
}

static json_object *replica_json(const struct mk_sfc_pod_object *pod,
				 const struct mk_function_pod *of)
{
	json_object *json = json_object_new_object();

	add_number(json, "number", pod->number);
	add_text(json, "function", pod->function);
	add_name(json, pod->namespace_, pod->name);
	add_text(json, "node", of->node_name ?: "");
	add_flag(json, "isHere", pod->is_here);
	if (serves_one(pod))
		add_flag(json, "tap", pod->mode == MK_PORT_TAP);
	add_number(json, "weight", pod->weight);
	add_flag(json, "weightIsWrong", of->weight_is_wrong);
	add_text(json, "state", state_of(pod));
	return json;
}

/* A Pod that no chain uses is of interest only while flows may still have it. */
static json_object *all_json(const struct mk_sfc *sfc, const struct mk_model *model,
			     const struct sfc_objects *objects)
{
	json_object *json = json_object_new_object(), *chains = json_object_new_array(),
		    *replicas = json_object_new_array();

	add_number(json, "version", VERSION);
	for (size_t i = 0; i < objects->chain_count; i++)
		json_object_array_add(chains, chain_json(sfc, model, objects->chains_of[i]));
	for (size_t i = 0; i < objects->pod_count; i++)
		if (objects->pods[i].state != MK_SFC_POD_UNUSED || objects->pods[i].number)
			json_object_array_add(replicas, replica_json(&objects->pods[i],
								     &objects->pods_of[i]));
	json_object_object_add(json, "chains", chains);
	json_object_object_add(json, "replicas", replicas);
	return json;
}

int objects_write(const struct sfc_objects *objects, const struct mk_model *model,
		  const struct mk_sfc *sfc, const char *state_dir, struct mk_error *err)
{
	const int form = JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE;
	json_object *json = all_json(sfc, model, objects);
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

static void say_lacks(const struct sfc_objects *objects, struct sfc_said *said)
{
	const struct mk_sfc_pod_object *first = NULL, *wrong = with_wrong_weight(objects),
				       *other = with_wrong_mode(objects);
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
	else if (other)
		snprintf(text, sizeof(text), "function pod %s/%s does not serve: it %s",
			 other->namespace_, other->name,
			 other->mode == MK_PORT_TAP ? TAP_POD : NO_TAP_POD);
	else if (wrong)
		snprintf(
			text, sizeof(text),
			"function pod %s/%s has the default weight %d: annotation " MK_FUNCTION_WEIGHT_ANNOTATION
			" is no number from 0 to %d",
			wrong->namespace_, wrong->name, MK_FUNCTION_WEIGHT, MK_FUNCTION_WEIGHT_MAX);
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

/* ---- status ---------------------------------------------------------------------------------- */

/* The pods of one function. */
struct tally {
	char key[2 * MK_OBJECT_NAME_SIZE]; /* NAMESPACE/FUNCTION, of a tap with another "/" */
	unsigned int ready, total;
	const char *other; /* the first pod by name that has ports of another mode; NULL: none */
	unsigned int usable; /* also those that get flows only if no other one serves */
	UT_hash_handle hh;
};

static void key_of(const char *namespace_, const char *function, bool is_tap, char *key)
{
	snprintf(key, 2 * MK_OBJECT_NAME_SIZE, "%s/%s%s", namespace_, function, is_tap ? "/" : "");
}

static struct tally *find(struct tally *all, const char *namespace_, const char *function,
			  bool is_tap)
{
	char key[2 * MK_OBJECT_NAME_SIZE];
	struct tally *tally;

	key_of(namespace_, function, is_tap, key);
	HASH_FIND_STR(all, key, tally);
	return tally;
}

static struct tally *tally_of(struct tally *all, const struct mk_chain *chain, size_t place)
{
	const struct mk_chain_function *function = &chain->functions[place];

	return find(all, chain->namespace_, function->name, function->is_tap);
}

static int add_function(struct tally **all, const struct mk_chain *chain, size_t place,
			struct mk_error *err)
{
	const struct mk_chain_function *function = &chain->functions[place];
	struct tally *tally;

	if (tally_of(*all, chain, place))
		return 0;
	tally = calloc(1, sizeof(*tally));
	if (!tally)
		return mk_error_errno(err, ENOMEM, "status of chains");
	key_of(chain->namespace_, function->name, function->is_tap, tally->key);
	HASH_ADD_STR(*all, key, tally);
	return 0;
}

static void release(struct tally **all)
{
	struct tally *tally, *next;

	HASH_ITER(hh, *all, tally, next) {
		HASH_DEL(*all, tally);
		free(tally);
	}
}

/* Count a pod of the function of *@tally, which is a tap if @is_tap. */
static void count_pod(struct tally *tally, bool is_tap, const struct mk_model *model,
		      const struct mk_function_pod *pod)
{
	bool usable = pod->ready && pod->asks_for_ports && pod->is_tap == is_tap &&
		      pod->node_name && mk_model_node(model, pod->node_name);

	if (!tally || pod->finished)
		return;
	if (pod->asks_for_ports && pod->is_tap != is_tap &&
	    (!tally->other || strcmp(pod->name, tally->other) < 0))
		tally->other = pod->name;
	tally->total++;
	tally->usable += usable;
	tally->ready += usable && !pod->deleting && pod->weight > 0;
}

static int count(const struct sfc_objects *objects, const struct mk_model *model,
		 struct tally **all, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; i < objects->chain_count; i++) {
		const struct mk_chain *chain = objects->chains_of[i];

		for (size_t j = 0; ret == 0 && j < chain->function_count; j++)
			ret = add_function(all, chain, j, err);
	}
	for (size_t i = 0; ret == 0 && i < 2 * objects->pod_count; i++) {
		const struct mk_function_pod *pod = &objects->pods_of[i / 2];
		bool is_tap = i % 2;

		count_pod(find(*all, pod->namespace_, pod->function, is_tap), is_tap, model, pod);
	}
	return ret;
}

/* Name the functions that have no usable pod, and @skips. Returns how many there are. */
static size_t name_lacking(const struct mk_chain *chain, struct tally *all, bool skips, char *names,
			   size_t size)
{
	size_t lacking = 0, used = 0;

	*names = '\0';
	for (size_t i = 0; i < chain->function_count && used < size; i++) {
		const struct mk_chain_function *function = &chain->functions[i];

		if (function->skips != skips || tally_of(all, chain, i)->usable)
			continue;
		used += (size_t)snprintf(names + used, size - used, "%s%s", lacking++ ? ", " : "",
					 function->name);
	}
	return lacking;
}

/* Add to @message the first pod that has ports, but no function of those that lack one takes it. */
static void name_other(const struct mk_chain *chain, struct tally *all, bool skips,
		       char message[MK_CHAIN_MESSAGE_SIZE])
{
	size_t used = strlen(message);

	for (size_t i = 0; i < chain->function_count; i++) {
		const struct tally *tally = tally_of(all, chain, i);

		if (chain->functions[i].skips != skips || tally->usable || !tally->other)
			continue;
		snprintf(message + used, MK_CHAIN_MESSAGE_SIZE - used, "; pod %s %s", tally->other,
			 chain->functions[i].is_tap ? NO_TAP_POD : TAP_POD);
		return;
	}
}

static void fill_ready(const struct mk_chain *chain, struct tally *all,
		       struct mk_chain_condition *ready)
{
	char names[MK_CHAIN_MESSAGE_SIZE / 2];
	size_t lacking = name_lacking(chain, all, false, names, sizeof(names));
	bool blocks = lacking > 0;

	if (!blocks)
		lacking = name_lacking(chain, all, true, names, sizeof(names));
	ready->holds = lacking == 0;
	ready->reason = blocks ? "Blocked" : lacking ? "Skipped" : "AllServing";
	snprintf(ready->message, sizeof(ready->message), "every function has a ready pod");
	if (lacking == 0)
		return;
	snprintf(ready->message, sizeof(ready->message), "no ready pod of function%s %s: %s",
		 lacking > 1 ? "s" : "", names,
		 blocks ? "the chain's packets are dropped" : "flows pass without it");
	name_other(chain, all, !blocks, ready->message);
}

/* Namespaces that the chain selects. */
struct selected {
	const struct mk_chain *chain;
	bool takes; /* one that is the chain's own or consents */
	const char *refusing[NAMES]; /* the first by name */
	size_t count; /* of those that refuse, also without a name here */
};

static bool consents(const struct mk_namespace_object *space, const char *namespace_)
{
	for (size_t i = 0; i < space->labels.count; i++)
		if (strcmp(space->labels.of[i].key, MK_CHAINED_BY_LABEL) == 0)
			return strcmp(space->labels.of[i].value, namespace_) == 0;
	return false;
}

/* Keep the first names: namespaces come in no particular order. */
static void add_refusing(struct selected *selected, const char *name)
{
	size_t last = selected->count < NAMES ? selected->count : NAMES, at = last;

	while (at > 0 && strcmp(name, selected->refusing[at - 1]) < 0)
		at--;
	selected->count++;
	if (at == NAMES)
		return;
	for (size_t i = last < NAMES ? last : NAMES - 1; i > at; i--)
		selected->refusing[i] = selected->refusing[i - 1];
	selected->refusing[at] = name;
}

static void see_namespace(void *ctx, const struct mk_namespace_object *space)
{
	struct selected *selected = ctx;
	const struct mk_chain *chain = selected->chain;

	if (selected->takes || !mk_selector_matches(&chain->namespaces, &space->labels))
		return;
	if (strcmp(space->name, chain->namespace_) == 0 || consents(space, chain->namespace_))
		selected->takes = true;
	else
		add_refusing(selected, space->name);
}

/* Returns true if the chain takes no pods because none of its namespaces consents. */
static bool lacks_consent(const struct mk_chain *chain, const struct mk_model *model,
			  struct mk_chain_condition *accepted)
{
	const struct mk_namespace_object *own = mk_model_namespace(model, chain->namespace_);
	struct selected selected = { .chain = chain, .takes = !chain->has_namespaces };
	size_t used;

	if (own)
		see_namespace(&selected, own);
	if (!selected.takes)
		mk_model_each_namespace(model, see_namespace, &selected);
	if (selected.takes || selected.count == 0)
		return false;
	accepted->reason = "NoConsent";
	used = (size_t)snprintf(
		accepted->message, sizeof(accepted->message),
		"no selected namespace has label " MK_CHAINED_BY_LABEL "=%s:", chain->namespace_);
	for (size_t i = 0; i < selected.count && i < NAMES; i++)
		used += (size_t)snprintf(accepted->message + used, sizeof(accepted->message) - used,
					 "%s %s", i ? "," : "", selected.refusing[i]);
	if (selected.count > NAMES)
		snprintf(accepted->message + used, sizeof(accepted->message) - used,
			 " and %zu more", selected.count - NAMES);
	return true;
}

static bool lacks_service(const struct mk_chain *chain, const struct mk_model *model,
			  struct mk_chain_condition *accepted)
{
	struct problem problem;

	if (!has_problem(chain, model, &problem))
		return false;
	accepted->reason = "NoService";
	snprintf(accepted->message, sizeof(accepted->message), "%s: %s", problem.what,
		 problem.remedy);
	return true;
}

/* @index: the chain's place in the order of precedence. */
static void fill_accepted(const struct mk_chain *chain, size_t index, const struct mk_model *model,
			  struct mk_chain_condition *accepted)
{
	if (index >= MK_SFC_CHAINS - 1) {
		accepted->reason = "TooMany";
		snprintf(accepted->message, sizeof(accepted->message),
			 "%d chains come before it, by priority and age: it takes no flow",
			 MK_SFC_CHAINS - 1);
		return;
	}
	accepted->holds =
		!lacks_consent(chain, model, accepted) && !lacks_service(chain, model, accepted);
	if (!accepted->holds)
		return;
	accepted->reason = "Valid";
	snprintf(accepted->message, sizeof(accepted->message), "the chain is in force");
}

static void fill(const struct mk_chain *chain, struct tally *all, struct mk_chain_status *status)
{
	*status = (struct mk_chain_status){
		.namespace_ = chain->namespace_,
		.name = chain->name,
		.function_count = chain->function_count,
	};
	for (size_t i = 0; i < chain->function_count; i++) {
		const struct tally *of = tally_of(all, chain, i);

		status->functions[i] = (struct mk_chain_function_status){ chain->functions[i].name,
									  of->ready, of->total };
	}
}

int objects_status(const struct sfc_objects *objects, const struct mk_model *model,
		   void (*say)(void *ctx, const struct mk_chain_status *status), void *ctx,
		   struct mk_error *err)
{
	struct mk_chain_status status;
	struct tally *all = NULL;
	int ret = count(objects, model, &all, err);

	for (size_t i = 0; ret == 0 && i < objects->chain_count; i++) {
		fill(objects->chains_of[i], all, &status);
		fill_ready(objects->chains_of[i], all, &status.ready);
		fill_accepted(objects->chains_of[i], i, model, &status.accepted);
		say(ctx, &status);
	}
	release(&all);
	return ret;
}

// SPDX-License-Identifier: Apache-2.0
/* What is wrong with a chain, and the status of the objects. The status follows only from objects
 * that every agent has, never from the tables of this node, so all agents agree on it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "agent/sfc/objects.h"
#include "base/cleanup.h"

#define NAMES 5 /* of namespaces, in a message */

/* ---- what is wrong with a chain -------------------------------------------------------------- */

/* Returns false if @chain names no Service, or one that selects pods. */
static bool lacks_pods(const struct mk_chain *chain, const struct mk_model *model,
		       struct sfc_problem *problem)
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
	problem->reason = "NoService";
	return true;
}

bool objects_problem(const struct sfc_objects *objects, size_t index, const struct mk_model *model,
		     struct sfc_problem *problem)
{
	const struct sfc_conflict *conflict = &objects->conflicts[index];

	if (!conflict->with)
		return lacks_pods(objects->chains_of[index], model, problem);
	snprintf(
		problem->what, sizeof(problem->what),
		"function %s is in use by chain %s/%s, which comes first, and one of both has ends",
		conflict->function, conflict->with->namespace_, conflict->with->name);
	problem->remedy = "name another function, or delete one of both chains";
	problem->reason = "FunctionInUse";
	return true;
}

/* ---- ports of another mode ------------------------------------------------------------------- */

#define ANNOTATION "annotation " MK_FUNCTION_PORTS_ANNOTATION

static const struct sfc_mismatch mismatches[] = {
	[MK_PORT_TAP] = { "wrong mode: not Tap, and the function is a tap",
			  "has not the port of mode Tap that the chain's tap: true needs: set " ANNOTATION
			  ": Tap in its template" },
	[MK_PORT_END] = { "wrong mode: not End, and the function is an end of its chain",
			  "has not the port of mode End that an end of a chain needs: set " ANNOTATION
			  ": End in its template" },
};
static const struct sfc_mismatch surpluses[] = {
	[MK_PORT_TAP] = { "wrong mode: Tap, and the function is no tap",
			  "has mode Tap, but the chain does not say tap: true: set another mode in " ANNOTATION
			  ", or tap: true in the chain" },
	[MK_PORT_END] = { "wrong mode: End, and the function is no end of its chain",
			  "has mode End, but its function is no end of a chain: set another mode in " ANNOTATION
			  ", or name the function in spec.ends" },
};

/* MK_PORT_NONE stands for all modes with two ports. */
static enum mk_port_mode mode_of(const struct mk_chain_function *function)
{
	return objects_mode(function->is_tap, function->is_end);
}

static enum mk_port_mode mode_of_pod(const struct mk_function_pod *pod)
{
	return objects_mode(pod->is_tap, pod->is_end);
}

static const struct sfc_mismatch *mismatch_of(enum mk_port_mode wanted, enum mk_port_mode has)
{
	return wanted == MK_PORT_NONE ? &surpluses[has] : &mismatches[wanted];
}

static const struct mk_chain_function *find_function(const struct mk_chain *chain,
						     const struct mk_sfc_pod_object *pod)
{
	for (size_t i = 0; i < mk_chain_length(chain); i++)
		if (strcmp(chain->namespace_, pod->namespace_) == 0 &&
		    strcmp(mk_chain_at(chain, i)->name, pod->function) == 0)
			return mk_chain_at(chain, i);
	return NULL;
}

const struct sfc_mismatch *objects_mismatch(const struct sfc_objects *objects,
					    const struct mk_sfc_pod_object *pod)
{
	const struct mk_chain_function *function = NULL;
	enum mk_port_mode has =
		pod->mode == MK_PORT_TAP || pod->mode == MK_PORT_END ? pod->mode : MK_PORT_NONE;

	for (size_t i = 0; !function && i < objects->chain_count; i++)
		function = find_function(objects->chains_of[i], pod);
	return mismatch_of(function ? mode_of(function) : MK_PORT_NONE, has);
}

/* ---- pods of functions ----------------------------------------------------------------------- */

/* The pods of one function: all, or those of a node, if the chain has ends. */
struct tally {
	char key[3 * MK_OBJECT_NAME_SIZE]; /* NAMESPACE/FUNCTION/MODE@NODE */
	bool by_node; /* a chain with ends has the function */
	unsigned int ready, total;
	const char *other; /* the first pod by name that has ports of another mode; NULL: none */
	enum mk_port_mode other_mode;
	unsigned int usable; /* also those that get flows only if no other one serves */
	UT_hash_handle hh;
};

static void key_of(const char *namespace_, const char *function, enum mk_port_mode mode,
		   const char *node, char *key)
{
	snprintf(key, 3 * MK_OBJECT_NAME_SIZE, "%s/%s/%d@%s", namespace_, function, mode, node);
}

static struct tally *find(struct tally *all, const char *namespace_, const char *function,
			  enum mk_port_mode mode, const char *node)
{
	char key[3 * MK_OBJECT_NAME_SIZE];
	struct tally *tally;

	key_of(namespace_, function, mode, node, key);
	HASH_FIND_STR(all, key, tally);
	return tally;
}

/* @node: "" for all nodes. */
static struct tally *tally_of(struct tally *all, const struct mk_chain *chain, size_t place,
			      const char *node)
{
	const struct mk_chain_function *function = mk_chain_at(chain, place);

	return find(all, chain->namespace_, function->name, mode_of(function), node);
}

static struct tally *add(struct tally **all, const char *namespace_, const char *function,
			 enum mk_port_mode mode, const char *node, struct mk_error *err)
{
	struct tally *tally = find(*all, namespace_, function, mode, node);

	if (tally)
		return tally;
	tally = calloc(1, sizeof(*tally));
	if (!tally) {
		(void)mk_error_errno(err, ENOMEM, "status of chains");
		return NULL;
	}
	key_of(namespace_, function, mode, node, tally->key);
	HASH_ADD_STR(*all, key, tally);
	return tally;
}

static int add_functions(struct tally **all, const struct mk_chain *chain, struct mk_error *err)
{
	for (size_t i = 0; i < mk_chain_length(chain); i++) {
		const struct mk_chain_function *function = mk_chain_at(chain, i);
		struct tally *tally =
			add(all, chain->namespace_, function->name, mode_of(function), "", err);

		if (!tally)
			return -ENOMEM;
		tally->by_node |= chain->has_ends;
	}
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

static bool is_usable(const struct mk_function_pod *pod, const struct mk_model *model)
{
	return pod->ready && pod->asks_for_ports && !pod->finished && pod->node_name &&
	       mk_model_node(model, pod->node_name);
}

/* Count a pod of the function of *@tally, which needs @mode. */
static void count_pod(struct tally *tally, enum mk_port_mode mode, const struct mk_model *model,
		      const struct mk_function_pod *pod)
{
	bool fits = mode_of_pod(pod) == mode, usable = fits && is_usable(pod, model);

	if (pod->finished)
		return;
	if (pod->asks_for_ports && !fits &&
	    (!tally->other || strcmp(pod->name, tally->other) < 0)) {
		tally->other = pod->name;
		tally->other_mode = mode_of_pod(pod);
	}
	tally->total++;
	tally->usable += usable;
	tally->ready += usable && !pod->deleting && pod->weight > 0;
}

/* Count the pod where its function is wanted, with its mode or another one. */
static int count_pods(struct tally **all, const struct mk_function_pod *pod,
		      const struct mk_model *model, struct mk_error *err)
{
	static const enum mk_port_mode modes[] = { MK_PORT_NONE, MK_PORT_TAP, MK_PORT_END };

	for (size_t i = 0; i < MK_ARRAY_SIZE(modes); i++) {
		struct tally *tally = find(*all, pod->namespace_, pod->function, modes[i], "");

		if (!tally)
			continue;
		count_pod(tally, modes[i], model, pod);
		if (!tally->by_node || !is_usable(pod, model))
			continue;
		tally = add(all, pod->namespace_, pod->function, modes[i], pod->node_name, err);
		if (!tally)
			return -ENOMEM;
		count_pod(tally, modes[i], model, pod);
	}
	return 0;
}

static int count(const struct sfc_objects *objects, const struct mk_model *model,
		 struct tally **all, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < objects->chain_count; i++)
		ret = add_functions(all, objects->chains_of[i], err);
	for (size_t i = 0; ret == 0 && i < objects->pod_count; i++)
		ret = count_pods(all, &objects->pods_of[i], model, err);
	return ret;
}

static bool is_lacking(const struct mk_chain *chain, size_t place, struct tally *all, bool skips,
		       const char *node)
{
	const struct tally *tally = tally_of(all, chain, place, node);

	return mk_chain_at(chain, place)->skips == skips && !(tally && tally->usable);
}

/* Name the functions that have no usable pod on @node, "" for any, and @skips. Returns how many
 * there are. */
static size_t name_lacking(const struct mk_chain *chain, struct tally *all, bool skips,
			   const char *node, char *names, size_t size)
{
	size_t lacking = 0, used = 0;

	*names = '\0';
	for (size_t i = 0; i < mk_chain_length(chain) && used < size; i++)
		if (is_lacking(chain, i, all, skips, node))
			used += (size_t)snprintf(names + used, size - used, "%s%s",
						 lacking++ ? ", " : "",
						 mk_chain_at(chain, i)->name);
	return lacking;
}

/* Add to @message the first pod that has ports, but no function of those that lack one takes it. */
static void name_other(const struct mk_chain *chain, struct tally *all, bool skips,
		       char message[MK_CHAIN_MESSAGE_SIZE])
{
	size_t used = strlen(message);

	for (size_t i = 0; i < mk_chain_length(chain); i++) {
		const struct tally *tally = tally_of(all, chain, i, "");

		if (!is_lacking(chain, i, all, skips, "") || !tally->other)
			continue;
		snprintf(message + used, MK_CHAIN_MESSAGE_SIZE - used, "; pod %s %s", tally->other,
			 mismatch_of(mode_of(mk_chain_at(chain, i)), tally->other_mode)->why);
		return;
	}
}

/* Find the first node by name that has a usable pod of the inside end, but none of a function that
 * @skips. All of a chain with ends is on one node. */
static const char *node_lacking(const struct mk_chain *chain, const struct sfc_objects *objects,
				struct tally *all, bool skips)
{
	const char *first = NULL;

	for (size_t i = 0; chain->has_ends && i < objects->pod_count; i++) {
		const char *node = objects->pods_of[i].node_name;
		const struct tally *inside = node ? tally_of(all, chain, 0, node) : NULL;

		if (!inside || !inside->usable || (first && strcmp(first, node) <= 0))
			continue;
		for (size_t place = 1; place < mk_chain_length(chain); place++)
			if (is_lacking(chain, place, all, skips, node))
				first = node;
	}
	return first;
}

/* Fill @ready if functions that @skips have no pod. Returns false if all have one. */
static bool lacks_functions(const struct mk_chain *chain, const struct sfc_objects *objects,
			    struct tally *all, bool skips, struct mk_chain_condition *ready)
{
	const char *node = "",
		   *effect = skips ? "flows pass without it" : "the chain's packets are dropped";
	char names[MK_CHAIN_MESSAGE_SIZE / 2];
	size_t lacking = name_lacking(chain, all, skips, node, names, sizeof(names));

	if (lacking == 0) {
		node = node_lacking(chain, objects, all, skips);
		if (!node)
			return false;
		lacking = name_lacking(chain, all, skips, node, names, sizeof(names));
	}
	ready->reason = skips ? "Skipped" : "Blocked";
	snprintf(ready->message, sizeof(ready->message),
		 "no ready pod of function%s %s%s%s%s: %s%s", lacking > 1 ? "s" : "", names,
		 *node ? " on node " : "", node, *node ? ", which has one of the inside end" : "",
		 effect, *node ? " there" : "");
	if (!*node)
		name_other(chain, all, skips, ready->message);
	return true;
}

static void fill_ready(const struct mk_chain *chain, const struct sfc_objects *objects,
		       struct tally *all, struct mk_chain_condition *ready)
{
	if (lacks_functions(chain, objects, all, false, ready) ||
	    lacks_functions(chain, objects, all, true, ready))
		return;
	*ready = (struct mk_chain_condition){ .holds = true, .reason = "AllServing" };
	snprintf(ready->message, sizeof(ready->message), "every function has a ready pod");
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

static void see_namespace(struct selected *selected, const struct mk_namespace_object *space)
{
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
	mk_model_each(struct mk_namespace_object, space, model, MK_KIND_NAMESPACE)
		see_namespace(&selected, space);
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

static bool has_problem(const struct sfc_objects *objects, size_t index,
			const struct mk_model *model, struct mk_chain_condition *accepted)
{
	struct sfc_problem problem;

	if (!objects_problem(objects, index, model, &problem))
		return false;
	accepted->reason = problem.reason;
	snprintf(accepted->message, sizeof(accepted->message), "%s: %s", problem.what,
		 problem.remedy);
	return true;
}

/* @index: the chain's place in the order of precedence. */
static void fill_accepted(const struct sfc_objects *objects, size_t index,
			  const struct mk_model *model, struct mk_chain_condition *accepted)
{
	if (index >= MK_SFC_CHAINS - 1) {
		accepted->reason = "TooMany";
		snprintf(accepted->message, sizeof(accepted->message),
			 "%d chains come before it, by priority and age: it takes no flow",
			 MK_SFC_CHAINS - 1);
		return;
	}
	accepted->holds = !lacks_consent(objects->chains_of[index], model, accepted) &&
			  !has_problem(objects, index, model, accepted);
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
		.function_count = mk_chain_length(chain),
	};
	for (size_t i = 0; i < mk_chain_length(chain); i++) {
		const struct tally *of = tally_of(all, chain, i, "");

		status->functions[i] =
			(struct mk_chain_function_status){ mk_chain_at(chain, i)->name, of->ready,
							   of->total };
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
		fill_ready(objects->chains_of[i], objects, all, &status.ready);
		fill_accepted(objects, i, model, &status.accepted);
		say(ctx, &status);
	}
	release(&all);
	return ret;
}

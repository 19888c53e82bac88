// SPDX-License-Identifier: Apache-2.0
/* The status of ServiceFunctionChains. Every agent computes the same status from the same objects.
 * No agent is elected: of the Ready Nodes, the first four by a hash of chain and node write what is
 * still wrong after 0, 2, 4 and 6 s. A text that an agent of another version replaces is written
 * again after a minute, so that both do not fill the server with versions of the object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/time.h"
#include "cluster/api/backoff.h"
#include "cluster/api/exchange.h"
#include "cluster/kube_internal.h"

#define API_VERSION "networking.monokube.io/v1alpha1"
#define KIND	    "ServiceFunctionChain"
#define PATH \
	"/apis/" API_VERSION "/namespaces/%s/servicefunctionchains/%s/status?fieldManager=monokube"

#define SETTLE_MS  100 /* a burst of changes is one write */
#define RANK_MS	   2000 /* each rank waits so much longer */
#define WRITERS	   4
#define ANSWER_MS  10000 /* wait so long for the version that follows a write */
#define AGAIN_MS   60000
#define RANKED_MS  10000 /* nodes come and go: a rank is as good for so long */
#define RANKS	   64 /* to compute in one turn of the loop */
#define SILENCE_MS 75000
#define NO_RANK	   WRITERS

struct kube_chain {
	char *key; /* NAMESPACE/NAME */
	char *namespace_, *name, *uid, *version; /* `version`: of the object, for the next write */
	int64_t generation;
	json_object *seen; /* the status that the server has; NULL: none */
	json_object *wanted; /* as the agent set it; NULL: not yet */
	char *refused; /* why the newest version of the object is not in force; NULL: it is */
	json_object *lacks; /* the status that the server should have; NULL: it has it */
	uint64_t lacks_since_ms;
	json_object *written; /* by this agent, the last time; NULL: never */
	int64_t written_of; /* .. for this generation */
	uint64_t written_ms, tried_ms;
	char *tried; /* the version that the last write was for; NULL: none */
	unsigned int rank; /* of this node; NO_RANK: it does not write */
	uint64_t ranked_ms; /* 0: not yet */
	UT_hash_handle hh;
};

struct kube_chains {
	struct mk_kube *kube;
	struct kube_chain *of;
	uv_timer_t timer;
	struct mk_exchange *exchange;
	struct kube_chain *sending; /* NULL: it is gone */
	json_object *sent; /* the status on its way */
	int64_t sent_of; /* generation */
	bool ready_changes; /* .. has another condition Ready than the server had */
	struct mk_backoff backoff;
	uint64_t pause_until_ms;
	bool refused; /* access denied: logged once */
};

static void send_next(uv_timer_t *timer);

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_object *condition(const char *type, const struct mk_chain_condition *of)
{
	json_object *json = json_object_new_object();

	mk_put_text(json, "type", type);
	mk_put_text(json, "status", of->holds ? "True" : "False");
	mk_put_text(json, "reason", of->reason);
	mk_put_text(json, "message", of->message);
	return json;
}

/* Without what only the server's object says: times and the generation. */
static json_object *status_json(const struct mk_chain_status *status)
{
	json_object *json = json_object_new_object(), *functions = json_object_new_array(),
		    *conditions = json_object_new_array();
	char summary[(MK_SFC_FUNCTIONS + MK_SFC_SIDES) * 96] = "";

	for (size_t i = 0; i < status->function_count; i++) {
		const struct mk_chain_function_status *of = &status->functions[i];
		json_object *function = json_object_new_object();
		size_t used = strlen(summary);

		mk_put_text(function, "name", of->name);
		mk_put_number(function, "ready", of->ready);
		mk_put_number(function, "total", of->total);
		json_object_array_add(functions, function);
		snprintf(summary + used, sizeof(summary) - used, "%s%s %u/%u", used ? ", " : "",
			 of->name, of->ready, of->total);
	}
	json_object_object_add(json, "functions", functions);
	/* Not "": kube-apiserver 1.20, built by Go 1.19, takes that for null and refuses it. */
	mk_put_text(json, "summary", *summary ? summary : NULL);
	json_object_array_add(conditions, condition("Accepted", &status->accepted));
	json_object_array_add(conditions, condition("Ready", &status->ready));
	json_object_object_add(json, "conditions", conditions);
	return json;
}

/* ---- what the server lacks ------------------------------------------------------------------- */

/* The status of a chain whose newest version makes no sense: its last good version, if there is
 * one, stays in force. The caller releases the result; NULL: not known yet. */
static json_object *status_of(const struct kube_chain *chain)
{
	struct mk_chain_status status = {
		.accepted.reason = "Invalid",
		.ready = { .reason = "NotAccepted",
			   .message = "no version of the chain is in force" },
	};
	json_object *json = NULL;

	if (!chain->refused)
		return json_object_get(chain->wanted);
	if (!chain->wanted || json_object_deep_copy(chain->wanted, &json, NULL) < 0)
		json = status_json(&status);
	snprintf(status.accepted.message, sizeof(status.accepted.message), "%s", chain->refused);
	json_object_array_put_idx(mk_json_member(json, "conditions"), 0,
				  condition("Accepted", &status.accepted));
	return json;
}

static bool has_condition(json_object *seen, json_object *wanted)
{
	static const char *const keys[] = { "status", "reason", "message" };
	json_object *found = mk_json_condition(seen, mk_json_text(wanted, "type"));

	for (size_t i = 0; i < MK_ARRAY_SIZE(keys); i++)
		if (strcmp(mk_json_text(found, keys[i]), mk_json_text(wanted, keys[i])) != 0)
			return false;
	return found != NULL;
}

static bool has_status(const struct kube_chain *chain, json_object *status)
{
	json_object *list = mk_json_member(status, "conditions"),
		    *observed = mk_json_member(chain->seen, "observedGeneration");

	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (!has_condition(chain->seen, json_object_array_get_idx(list, i)))
			return false;
	return observed && json_object_get_int64(observed) == chain->generation &&
	       json_object_equal(mk_json_member(chain->seen, "functions"),
				 mk_json_member(status, "functions")) &&
	       strcmp(mk_json_text(chain->seen, "summary"), mk_json_text(status, "summary")) == 0;
}

static void plan(struct kube_chains *chains, uint64_t wait_ms)
{
	uint64_t now_ms = uv_now(chains->kube->loop);

	if (chains->pause_until_ms > now_ms + wait_ms)
		wait_ms = chains->pause_until_ms - now_ms;
	if (!chains->exchange)
		uv_timer_start(&chains->timer, send_next, wait_ms, 0);
}

/* The object or its wanted status changed. */
static void look(struct kube_chains *chains, struct kube_chain *chain)
{
	json_object *status = status_of(chain);

	if (status && has_status(chain, status)) {
		json_object_put(status);
		status = NULL;
	}
	if (status && !json_object_equal(status, chain->lacks))
		chain->lacks_since_ms = uv_now(chains->kube->loop);
	json_object_put(chain->lacks);
	chain->lacks = status;
	if (status)
		plan(chains, 0);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void rank(const struct mk_kube *kube, struct kube_chain *chain)
{
	unsigned int rank = kube_rank(kube, chain->uid);

	chain->rank = rank < WRITERS ? rank : NO_RANK;
	chain->ranked_ms = uv_now(kube->loop);
}

/* Returns when this agent writes what @chain lacks, which has a rank. */
static uint64_t due_ms(const struct kube_chain *chain)
{
	uint64_t at_ms = chain->lacks_since_ms + SETTLE_MS + chain->rank * RANK_MS;

	if (chain->rank == NO_RANK)
		return chain->ranked_ms + RANKED_MS;
	if (chain->written_of == chain->generation &&
	    json_object_equal(chain->written, chain->lacks) && at_ms < chain->written_ms + AGAIN_MS)
		at_ms = chain->written_ms + AGAIN_MS;
	if (chain->tried && strcmp(chain->tried, chain->version) == 0 &&
	    at_ms < chain->tried_ms + ANSWER_MS)
		at_ms = chain->tried_ms + ANSWER_MS;
	return at_ms;
}

/* Return a chain that is due, or NULL with the time until one is in *@wait_ms; UINT64_MAX: none. */
static struct kube_chain *next_due(struct kube_chains *chains, uint64_t *wait_ms)
{
	uint64_t now_ms = uv_now(chains->kube->loop);
	unsigned int ranks = RANKS;
	struct kube_chain *chain, *next;

	*wait_ms = UINT64_MAX;
	HASH_ITER(hh, chains->of, chain, next) {
		uint64_t at_ms = now_ms;

		if (!chain->lacks)
			continue;
		if (!chain->ranked_ms || now_ms >= chain->ranked_ms + RANKED_MS) {
			if (ranks-- == 0) {
				*wait_ms = 0;
				return NULL;
			}
			rank(chains->kube, chain);
		}
		at_ms = due_ms(chain);
		if (at_ms <= now_ms)
			return chain;
		if (at_ms - now_ms < *wait_ms)
			*wait_ms = at_ms - now_ms;
	}
	return NULL;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A condition keeps its time as long as its status stays. */
static void date_condition(const struct kube_chain *chain, json_object *of)
{
	json_object *before = mk_json_condition(chain->seen, mk_json_text(of, "type"));
	const char *since = mk_json_text(before, "lastTransitionTime");
	char now[MK_TIME_STRLEN];

	mk_time_format(mk_time_now_unix_ns() / MK_NS_PER_S * MK_NS_PER_S, now);
	if (!*since || strcmp(mk_json_text(before, "status"), mk_json_text(of, "status")) != 0)
		since = now;
	mk_put_text(of, "lastTransitionTime", since);
	mk_put_number(of, "observedGeneration", chain->generation);
}

/* Keep the conditions of others. */
static void complete_conditions(const struct kube_chain *chain, json_object *status)
{
	json_object *list = mk_json_member(status, "conditions"),
		    *others = mk_json_member(chain->seen, "conditions");
	size_t own = json_object_array_length(list);

	for (size_t i = 0; i < own; i++)
		date_condition(chain, json_object_array_get_idx(list, i));
	for (size_t i = 0; i < mk_json_length(others); i++) {
		json_object *other = json_object_array_get_idx(others, i);

		if (!mk_json_condition(chain->lacks, mk_json_text(other, "type")))
			json_object_array_add(list, json_object_get(other));
	}
}

/* With the resourceVersion, so that the server refuses it if the object is another one by now. */
static json_object *body_of(const struct kube_chain *chain)
{
	json_object *body = json_object_new_object(), *metadata = json_object_new_object(),
		    *status = NULL;

	if (json_object_deep_copy(chain->lacks, &status, NULL) < 0) {
		json_object_put(body);
		json_object_put(metadata);
		return NULL;
	}
	complete_conditions(chain, status);
	mk_put_number(status, "observedGeneration", chain->generation);
	mk_put_text(metadata, "resourceVersion", chain->version);
	json_object_object_add(body, "metadata", metadata);
	json_object_object_add(body, "status", status);
	return body;
}

static void say_refused(struct kube_chains *chains, const struct kube_chain *chain, int status)
{
	const char *remedy =
		status == 404 ? "if the chain exists, apply chains.yaml again"
		: status == 422
			? "the resource does not allow it; apply the chains.yaml of this version"
			: "does the ClusterRole allow patch on servicefunctionchains/status?";

	if (!chains->refused)
		mk_log_warn("chain %s: the API server refuses its status (HTTP status %d): %s",
			    chain->key, status, remedy);
	chains->refused = true;
}

static void report_ready(const struct kube_chains *chains, const struct kube_chain *chain)
{
	json_object *ready = mk_json_condition(chains->sent, "Ready");
	const struct mk_report_object about = {
		.api_version = API_VERSION,
		.kind = KIND,
		.namespace_ = chain->namespace_,
		.name = chain->name,
		.uid = chain->uid,
	};

	if (chains->ready_changes)
		mk_report_event(chains->kube->report, &about,
				strcmp(mk_json_text(ready, "status"), "True") != 0,
				mk_json_text(ready, "reason"), mk_json_text(ready, "message"));
}

/* After a conflict the watch brings another version. What the server refuses is tried again like
 * what another agent replaced. */
static void take_answer(struct kube_chains *chains, struct kube_chain *chain,
			const struct mk_answer *answer)
{
	if (mk_answer_is_temporary(answer)) {
		chains->pause_until_ms = uv_now(chains->kube->loop) +
					 mk_backoff_next(&chains->backoff, answer->retry_after_s,
							 mk_backoff_random());
		return;
	}
	mk_backoff_reset(&chains->backoff);
	chain->tried_ms = uv_now(chains->kube->loop);
	if (answer->status == 409)
		return;
	json_object_put(chain->written);
	chain->written = json_object_get(chains->sent);
	chain->written_of = chains->sent_of;
	chain->written_ms = chain->tried_ms;
	if (answer->status == 200)
		report_ready(chains, chain);
	else
		say_refused(chains, chain, answer->status);
}

static void done(void *ctx, const struct mk_answer *answer)
{
	struct kube_chains *chains = ctx;
	struct kube_chain *chain = mk_steal_ptr(chains->sending);

	chains->exchange = NULL;
	if (chain)
		take_answer(chains, chain, answer);
	json_object_put(chains->sent);
	chains->sent = NULL;
	plan(chains, 0);
}

static void start(struct kube_chains *chains, const struct kube_chain *chain)
{
	cleanup_json json_object *body = body_of(chain);
	char target[sizeof(PATH) + 2 * MK_OBJECT_NAME_SIZE];
	struct mk_exchange_request request = { .method = "PATCH",
					       .target = target,
					       .content_type = "application/merge-patch+json",
					       .body = json_object_to_json_string(body),
					       .silence_ms = SILENCE_MS,
					       .done = done,
					       .ctx = chains };
	struct mk_error err;

	snprintf(target, sizeof(target), PATH, chain->namespace_, chain->name);
	if (body)
		chains->exchange = mk_exchange_start(chains->kube->http, &request, &err);
}

static void send_status(struct kube_chains *chains, struct kube_chain *chain)
{
	json_object *before = mk_json_condition(chain->seen, "Ready"),
		    *after = mk_json_condition(chain->lacks, "Ready");

	free(chain->tried);
	chain->tried = strdup(chain->version);
	chain->tried_ms = uv_now(chains->kube->loop);
	start(chains, chain);
	if (!chains->exchange) {
		chains->pause_until_ms = chain->tried_ms + ANSWER_MS;
		plan(chains, 0);
		return;
	}
	chains->sending = chain;
	chains->sent = json_object_get(chain->lacks);
	chains->sent_of = chain->generation;
	chains->ready_changes =
		strcmp(mk_json_text(before, "reason"), mk_json_text(after, "reason")) != 0;
}

static void send_next(uv_timer_t *timer)
{
	struct kube_chains *chains = timer->data;
	struct kube_chain *chain;
	uint64_t wait_ms;

	if (chains->exchange)
		return;
	chain = next_due(chains, &wait_ms);
	if (chain)
		send_status(chains, chain);
	else if (wait_ms != UINT64_MAX)
		plan(chains, wait_ms);
}

/* ---- objects --------------------------------------------------------------------------------- */

static void free_chain(struct kube_chains *chains, struct kube_chain *chain)
{
	if (chains->sending == chain)
		chains->sending = NULL;
	HASH_DEL(chains->of, chain);
	json_object_put(chain->seen);
	json_object_put(chain->wanted);
	json_object_put(chain->lacks);
	json_object_put(chain->written);
	free(chain->key);
	free(chain->namespace_);
	free(chain->name);
	free(chain->uid);
	free(chain->version);
	free(chain->refused);
	free(chain->tried);
	free(chain);
}

static struct kube_chain *find(const struct kube_chains *chains, const char *namespace_,
			       const char *name)
{
	char key[2 * MK_OBJECT_NAME_SIZE];
	struct kube_chain *chain;

	snprintf(key, sizeof(key), "%s/%s", namespace_, name);
	HASH_FIND_STR(chains->of, key, chain);
	return chain;
}

static bool set_text(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
	return *to != NULL;
}

static struct kube_chain *add(struct kube_chains *chains, const char *namespace_, const char *name)
{
	struct kube_chain *chain = calloc(1, sizeof(*chain));

	if (!chain || asprintf(&chain->key, "%s/%s", namespace_, name) < 0) {
		free(chain);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, chains->of, chain->key, strlen(chain->key), chain);
	if (set_text(&chain->namespace_, namespace_) && set_text(&chain->name, name))
		return chain;
	free_chain(chains, chain);
	return NULL;
}

/* Without memory, the status of this chain is left to other agents. */
void kube_chain_seen(struct mk_kube *kube, json_object *tree, const char *refused)
{
	json_object *metadata = mk_json_member(tree, "metadata");
	const char *namespace_ = mk_json_text(metadata, "namespace"),
		   *name = mk_json_text(metadata, "name");
	struct kube_chain *chain;

	if (!kube->chains)
		return;
	chain = find(kube->chains, namespace_, name) ?: add(kube->chains, namespace_, name);
	if (!chain)
		return;
	if (!set_text(&chain->uid, mk_json_text(metadata, "uid")) ||
	    !set_text(&chain->version, mk_json_text(metadata, "resourceVersion"))) {
		free_chain(kube->chains, chain);
		return;
	}
	chain->generation = json_object_get_int64(mk_json_member(metadata, "generation"));
	free(chain->refused);
	chain->refused = refused ? strdup(refused) : NULL;
	json_object_put(chain->seen);
	chain->seen = json_object_get(mk_json_member(tree, "status"));
	look(kube->chains, chain);
}

void kube_chain_gone(struct mk_kube *kube, const char *namespace_, const char *name)
{
	struct kube_chain *chain = kube->chains ? find(kube->chains, namespace_, name) : NULL;

	if (chain)
		free_chain(kube->chains, chain);
}

void kube_chain_status(struct mk_kube *kube, const struct mk_chain_status *status)
{
	struct kube_chain *chain =
		kube->chains ? find(kube->chains, status->namespace_, status->name) : NULL;

	if (!chain)
		return;
	json_object_put(chain->wanted);
	chain->wanted = status_json(status);
	look(kube->chains, chain);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct kube_chains *kube_chains_new(struct mk_kube *kube, struct mk_error *err)
{
	struct kube_chains *chains = mk_new(sizeof(*chains), "status of chains", err);

	if (!chains)
		return NULL;
	chains->kube = kube;
	chains->backoff = (struct mk_backoff){ .min_ms = 1000, .max_ms = 300000 };
	uv_timer_init(kube->loop, &chains->timer);
	chains->timer.data = chains;
	return chains;
}

void kube_chains_free(struct kube_chains *chains)
{
	struct kube_chain *chain, *next;

	if (!chains)
		return;
	mk_exchange_cancel(chains->exchange);
	HASH_ITER(hh, chains->of, chain, next)
		free_chain(chains, chain);
	json_object_put(chains->sent);
	mk_timer_free(&chains->timer);
}

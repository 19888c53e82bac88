// SPDX-License-Identifier: Apache-2.0
/* Ask the server whether something is left that a leader made. An agent that has nothing to do for
 * a leader follows none of these objects: it asks for one object of each kind that a leader writes,
 * until it gets one. It selects exactly what a leader removes: otherwise it would lead in vain. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/api/backoff.h"
#include "cluster/api/exchange.h"
#include "cluster/lead_internal.h"

#define AGAIN_MS   10000 /* something is left: another agent may remove it */
#define SILENCE_MS 10000
#define KEPT_BYTES (4 * 1024 * 1024)

#define MANAGED MK_MANAGED_BY_LABEL "%3D" MK_MANAGED_BY
#define COPIES	MANAGED "%2C" MK_READ_FROM_LABEL
#define SLICES	MANAGED "%2Cendpointslice.kubernetes.io/managed-by%3D" MK_MANAGED_BY

static const struct question {
	enum mk_lead_kind kind;
	const char *selector;
} questions[] = {
	{ MK_LEAD_IMPORTS, MANAGED },	   { MK_LEAD_OWN_CLUSTERS, MANAGED },
	{ MK_LEAD_OWN_NODES, MANAGED },	   { MK_LEAD_OWN_SERVICES, MANAGED },
	{ MK_LEAD_PEER_CLUSTERS, COPIES }, { MK_LEAD_PEER_NODES, COPIES },
	{ MK_LEAD_PUBLISHED, COPIES },	   { MK_LEAD_SLICES, SLICES },
};

struct lead_left {
	struct mk_lead *lead;
	uv_timer_t timer; /* until it asks */
	struct mk_exchange *exchange;
	struct mk_backoff backoff;
	size_t at; /* in @questions */
	bool older; /* of ServiceImports it asks for the older version */
	bool lacks_imports; /* a leader does not read PublishedServices of peers then */
	bool wanted, is_there, complained;
};

static void ask(uv_timer_t *timer);

static void begin(struct lead_left *left, uint64_t wait_ms)
{
	left->at = 0;
	left->older = left->lacks_imports = false;
	uv_timer_start(&left->timer, ask, wait_ms, 0);
}

static void answer_is(struct lead_left *left, bool is_there)
{
	left->is_there = is_there;
	if (is_there)
		begin(left, AGAIN_MS);
	lead_look(left->lead);
}

static void go_on(struct lead_left *left)
{
	left->older = false;
	left->at++;
	if (left->lacks_imports && left->at < MK_ARRAY_SIZE(questions) &&
	    questions[left->at].kind == MK_LEAD_PUBLISHED)
		left->at++;
	if (left->at < MK_ARRAY_SIZE(questions))
		uv_timer_start(&left->timer, ask, 0, 0);
	else
		answer_is(left, false);
}

/* The server does not have the resource. */
static void pass_over(struct lead_left *left)
{
	if (lead_resource(questions[left->at].kind)->older_path && !left->older) {
		left->older = true;
		uv_timer_start(&left->timer, ask, 0, 0);
		return;
	}
	left->lacks_imports |= questions[left->at].kind == MK_LEAD_IMPORTS;
	go_on(left);
}

static void fail(struct lead_left *left, int status, const char *why)
{
	uint64_t wait_ms = mk_backoff_next(&left->backoff, 0, mk_backoff_random());

	if (!left->complained)
		mk_log_warn("objects of a former leader: cannot list %s: %s (HTTP status %d); %s",
			    lead_resource(questions[left->at].kind)->name, why, status,
			    status == 403 ? LEAD_REMEDY : "it tries again");
	left->complained = true;
	begin(left, wait_ms);
}

/* An object of more than KEPT_BYTES is one, too. */
static bool has_item(json_object *list)
{
	return !list || mk_json_length(mk_json_member(list, "items")) > 0;
}

static void on_answer(void *ctx, const struct mk_answer *answer)
{
	struct lead_left *left = ctx;

	left->exchange = NULL;
	if (answer->status == 404) {
		pass_over(left);
		return;
	}
	if (!mk_answer_is_good(answer)) {
		fail(left, answer->status, answer->why);
		return;
	}
	left->complained = false;
	mk_backoff_reset(&left->backoff);
	if (has_item(answer->tree))
		answer_is(left, true);
	else
		go_on(left);
}

static void ask(uv_timer_t *timer)
{
	struct lead_left *left = timer->data;
	const struct question *question = &questions[left->at];
	const struct mk_resource *resource = lead_resource(question->kind);
	cleanup_free char *target = NULL;
	struct mk_exchange_request request = { .method = "GET",
					       .silence_ms = SILENCE_MS,
					       .kept_bytes = KEPT_BYTES,
					       .done = on_answer,
					       .ctx = left };
	struct mk_error err = { 0 };

	if (asprintf(&target, "%s?limit=1&labelSelector=%s",
		     left->older ? resource->older_path : resource->path, question->selector) < 0)
		target = NULL;
	request.target = target;
	if (target)
		left->exchange = mk_exchange_start(left->lead->kube->http, &request, &err);
	if (!left->exchange)
		fail(left, 0, target ? mk_error_text(&err) : "out of memory");
}

void lead_left_want(struct lead_left *left, bool wanted)
{
	if (wanted == left->wanted)
		return;
	left->wanted = wanted;
	left->is_there = left->complained = false;
	mk_backoff_reset(&left->backoff);
	mk_exchange_cancel(mk_steal_ptr(left->exchange));
	if (wanted)
		begin(left, 0);
	else
		uv_timer_stop(&left->timer);
}

bool lead_left_is_there(const struct lead_left *left)
{
	return left->is_there;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct lead_left *lead_left_new(struct mk_lead *lead, struct mk_error *err)
{
	struct lead_left *left = mk_new(sizeof(*left), "objects of a former leader", err);

	if (!left)
		return NULL;
	left->lead = lead;
	left->backoff = (struct mk_backoff){ .min_ms = 500, .max_ms = 60000 };
	uv_timer_init(lead->kube->loop, &left->timer);
	left->timer.data = left;
	return left;
}

void lead_left_free(struct lead_left *left)
{
	if (!left)
		return;
	lead_left_want(left, false);
	mk_timer_free(&left->timer);
}

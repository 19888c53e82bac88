// SPDX-License-Identifier: Apache-2.0
#include "cluster/api/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/api/backoff.h"
#include "cluster/api/exchange.h"

#define KEPT_BYTES 65536 /* of an answer: a Status, and the version of most objects */

const struct mk_objects_timing mk_objects_timing_default = {
	.collect_ms = 20,
	.again_ms = 100,
	.apart_ms = 10,
	.backoff_min_ms = 500,
	.backoff_max_ms = 60000,
	.silence_ms = 10000,
	.at_once = 8,
};

struct object {
	struct mk_objects *objects;
	char *target, *title;
	const char *kind, *remedy;
	char *text; /* what it should be; NULL: absent */
	char *uid; /* .. if it is still this one; NULL: whichever */
	bool is_written; /* the server has it so */
	bool changed; /* since the write that is on its way */
	bool deletes; /* what that write does, or the last one did */
	int refused; /* HTTP status: the server did not accept this text; 0: it did */
	uint64_t version; /* of the last write; 0: unknown */
	uint64_t since_ms; /* since when it waits */
	uint64_t due_ms; /* not written before */
	uint64_t began_ms; /* the last write */
	struct mk_backoff backoff;
	struct mk_exchange *exchange;
	struct object *prev, *next; /* among those that wait, longest first */
	UT_hash_handle hh;
};

/* The problem of a kind that was logged, until a write of the object succeeds that had it. */
struct complaint {
	const char *kind;
	char *target;
	int status;
	struct complaint *next;
};

struct mk_objects {
	uv_loop_t *loop;
	struct mk_http *http;
	struct mk_objects_options options;
	struct mk_objects_timing timing;
	uv_timer_t timer;
	struct object *all, *waiting;
	size_t waiting_count;
	unsigned int sending;
	uint64_t next_ms; /* no write starts before */
	struct mk_backoff backoff; /* while the server does not answer */
	struct complaint *complaints;
	uint64_t failures;
};

static void send_due(uv_timer_t *timer);

static void plan(struct mk_objects *objects, uint64_t wait_ms)
{
	uv_timer_start(&objects->timer, send_due, wait_ms, 0);
}

/* ---- entries --------------------------------------------------------------------------------- */

static void leave_queue(struct object *object)
{
	struct mk_objects *objects = object->objects;

	if (!object->since_ms)
		return;
	DL_DELETE(objects->waiting, object);
	objects->waiting_count--;
	object->since_ms = 0;
}

static void drop_complaint(struct mk_objects *objects, struct complaint *complaint)
{
	LL_DELETE(objects->complaints, complaint);
	free(complaint->target);
	free(complaint);
}

static struct complaint *complaint_of(const struct mk_objects *objects, const char *kind)
{
	struct complaint *complaint;

	LL_FOREACH(objects->complaints, complaint)
		if (strcmp(complaint->kind, kind) == 0)
			return complaint;
	return NULL;
}

static void no_complaint(const struct object *object, bool is_good)
{
	struct complaint *complaint = complaint_of(object->objects, object->kind);

	if (!complaint || strcmp(complaint->target, object->target) != 0)
		return;
	if (is_good)
		mk_log_info("%s %s: written", object->kind, object->title);
	drop_complaint(object->objects, complaint);
}

static void free_object(struct object *object)
{
	struct mk_objects *objects = object->objects;

	no_complaint(object, false);
	leave_queue(object);
	if (object->exchange)
		objects->sending--;
	mk_exchange_cancel(object->exchange);
	HASH_DEL(objects->all, object);
	free(object->target);
	free(object->title);
	free(object->text);
	free(object->uid);
	free(object);
}

static struct object *find(const struct mk_objects *objects, const char *target)
{
	struct object *object;

	HASH_FIND_STR(objects->all, target, object);
	return object;
}

static struct object *add(struct mk_objects *objects, const struct mk_object_place *place)
{
	struct object *object = calloc(1, sizeof(*object));

	if (!object)
		return NULL;
	object->objects = objects;
	object->target = strdup(place->target);
	object->title = strdup(place->title);
	if (!object->target || !object->title) {
		free(object->target);
		free(object->title);
		free(object);
		return NULL;
	}
	object->kind = place->kind;
	object->remedy = place->remedy;
	object->backoff = (struct mk_backoff){ .min_ms = objects->timing.backoff_min_ms,
					       .max_ms = objects->timing.backoff_max_ms };
	HASH_ADD_KEYPTR(hh, objects->all, object->target, strlen(object->target), object);
	return object;
}

/* An object that was written a moment ago waits for the rest of again_ms. */
static void enqueue(struct object *object)
{
	struct mk_objects *objects = object->objects;
	uint64_t now_ms = uv_now(objects->loop);
	uint64_t again_ms = object->began_ms ? object->began_ms + objects->timing.again_ms : 0;
	uint64_t due_ms = now_ms + objects->timing.collect_ms;

	object->is_written = false;
	if (object->exchange) {
		object->changed = true;
		return;
	}
	if (due_ms < again_ms)
		due_ms = again_ms;
	if (!object->since_ms) {
		object->since_ms = now_ms ? now_ms : 1;
		object->due_ms = due_ms;
		DL_APPEND(objects->waiting, object);
		objects->waiting_count++;
	} else if (object->refused) {
		object->due_ms = due_ms; /* the pause was for the other text */
	}
	plan(objects, 0);
}

/* ---- answers --------------------------------------------------------------------------------- */

static const char *remedy_of(const struct object *object, const struct mk_answer *answer)
{
	if (answer->status == 415)
		return "server-side apply needs Kubernetes 1.22 or newer";
	return mk_answer_is_temporary(answer) || answer->status == 409 ? "it tries again"
								       : object->remedy;
}

/* Does the server refuse this text, and not all objects of the kind? */
static bool refuses_text(int status)
{
	return status == 400 || status == 409 || status == 413 || status == 422;
}

/* A reason that concerns all objects of a kind is one line. */
static bool is_news(struct object *object, int status)
{
	struct mk_objects *objects = object->objects;
	struct complaint *complaint = complaint_of(objects, object->kind);

	if (refuses_text(status))
		return object->refused != status;
	if (complaint && complaint->status == status)
		return false;
	if (complaint)
		drop_complaint(objects, complaint);
	complaint = calloc(1, sizeof(*complaint));
	if (!complaint)
		return true;
	*complaint = (struct complaint){ object->kind, strdup(object->target), status, NULL };
	if (complaint->target)
		LL_PREPEND(objects->complaints, complaint);
	else
		free(complaint);
	return true;
}

static void complain(struct object *object, const struct mk_answer *answer)
{
	if (is_news(object, answer->status))
		mk_log_warn("%s %s: not %s: %s (HTTP status %d); %s", object->kind, object->title,
			    object->deletes ? "deleted" : "written", answer->why, answer->status,
			    remedy_of(object, answer));
	object->refused = refuses_text(answer->status) ? answer->status : 0;
}

/* A server in trouble gets no other writes meanwhile. */
static void put_off(struct object *object, const struct mk_answer *answer)
{
	struct mk_objects *objects = object->objects;
	uint64_t now_ms = uv_now(objects->loop), random = mk_backoff_random();

	objects->failures++;
	complain(object, answer);
	if (mk_answer_is_temporary(answer))
		objects->next_ms =
			now_ms + mk_backoff_next(&objects->backoff, answer->retry_after_s, random);
	enqueue(object);
	object->due_ms = now_ms + mk_backoff_next(&object->backoff, 0, random);
}

static void finish(struct object *object)
{
	struct mk_objects *objects = object->objects;
	const char *target = object->target;

	mk_backoff_reset(&object->backoff);
	object->refused = 0;
	no_complaint(object, true);
	if (object->changed) {
		enqueue(object);
		return;
	}
	if (!object->text) {
		free_object(object);
		return;
	}
	object->is_written = true;
	if (objects->options.written)
		objects->options.written(objects->options.ctx, target);
}

/* Return resourceVersion as a number, 0: none. */
static uint64_t version_of(json_object *tree)
{
	return strtoull(mk_json_metadata(tree, "resourceVersion"), NULL, 10);
}

/* A deletion has succeeded, too, if the object does not exist, or is another one by now. */
static void answered(void *ctx, const struct mk_answer *answer)
{
	struct object *object = ctx;
	struct mk_objects *objects = object->objects;
	bool is_gone = object->deletes && (answer->status == 404 || answer->status == 409);

	object->exchange = NULL;
	objects->sending--;
	if (!mk_answer_is_temporary(answer))
		mk_backoff_reset(&objects->backoff);
	object->version = version_of(answer->tree);
	if (is_gone || mk_answer_is_good(answer))
		finish(object);
	else
		put_off(object, answer);
	plan(objects, 0);
}

/* ---- requests -------------------------------------------------------------------------------- */

static char *target_of(const struct object *object)
{
	char *target = NULL;

	if (!object->text)
		return strdup(object->target);
	if (asprintf(&target, "%s?fieldManager=%s&force=true", object->target,
		     object->objects->options.manager) < 0)
		return NULL;
	return target;
}

static char *body_of(const struct object *object)
{
	char *body = NULL;

	if (object->text)
		return strdup(object->text);
	if (asprintf(&body, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"%s%s%s}",
		     object->uid ? ",\"preconditions\":{\"uid\":\"" : "",
		     object->uid ? object->uid : "", object->uid ? "\"}" : "") < 0)
		return NULL;
	return body;
}

static int start(struct object *object, struct mk_error *err)
{
	struct mk_objects *objects = object->objects;
	cleanup_free char *target = target_of(object), *body = body_of(object);
	const struct mk_exchange_request request = {
		.method = object->text ? "PATCH" : "DELETE",
		.target = target,
		.content_type = object->text ? "application/apply-patch+yaml" : "application/json",
		.body = body,
		.silence_ms = objects->timing.silence_ms,
		.kept_bytes = KEPT_BYTES,
		.done = answered,
		.ctx = object,
	};

	if (!target || !body)
		return mk_error_errno(err, ENOMEM, "%s %s", object->kind, object->title);
	object->exchange = mk_exchange_start(objects->http, &request, err);
	return object->exchange ? 0 : -err->code;
}

static void send_object(struct object *object)
{
	struct mk_objects *objects = object->objects;
	uint64_t now_ms = uv_now(objects->loop);
	struct mk_error err;

	leave_queue(object);
	object->changed = false;
	object->deletes = !object->text;
	object->began_ms = now_ms;
	objects->next_ms = now_ms + objects->timing.apart_ms;
	if (start(object, &err) == 0) {
		objects->sending++;
		return;
	}
	enqueue(object);
	object->due_ms = now_ms + objects->timing.backoff_min_ms;
}

/* Return the object that waits longest of those that are due; NULL with the time until one is in
 * *@wait_ms. */
static struct object *next_due(const struct mk_objects *objects, uint64_t *wait_ms)
{
	uint64_t now_ms = uv_now(objects->loop);
	struct object *object;

	DL_FOREACH(objects->waiting, object) {
		if (object->due_ms <= now_ms)
			return object;
		if (object->due_ms - now_ms < *wait_ms)
			*wait_ms = object->due_ms - now_ms;
	}
	return NULL;
}

static void send_due(uv_timer_t *timer)
{
	struct mk_objects *objects = timer->data;
	uint64_t now_ms = uv_now(objects->loop), wait_ms = UINT64_MAX;
	struct object *object;

	if (!objects->waiting || objects->sending >= objects->timing.at_once)
		return;
	if (objects->next_ms > now_ms) {
		plan(objects, objects->next_ms - now_ms);
		return;
	}
	object = next_due(objects, &wait_ms);
	if (object) {
		if (!objects->options.may_write(objects->options.ctx))
			return;
		send_object(object);
		wait_ms = objects->timing.apart_ms;
	}
	if (objects->waiting)
		plan(objects, wait_ms);
}

/* ---- what should be -------------------------------------------------------------------------- */

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static int set(struct mk_objects *objects, const struct mk_object_place *place, const char *text,
	       const char *uid, struct mk_error *err)
{
	struct object *object = find(objects, place->target);
	char *text_copy, *uid_copy;

	if (object && is_same(object->text, text) && is_same(object->uid, uid))
		return object->is_written ? 0 : 1;
	text_copy = text ? strdup(text) : NULL;
	uid_copy = uid ? strdup(uid) : NULL;
	object = object ?: add(objects, place);
	if (!object || (text && !text_copy) || (uid && !uid_copy)) {
		free(text_copy);
		free(uid_copy);
		return mk_error_errno(err, ENOMEM, "%s %s", place->kind, place->title);
	}
	free(object->text);
	free(object->uid);
	object->text = text_copy;
	object->uid = uid_copy;
	enqueue(object);
	return 1;
}

int mk_objects_apply(struct mk_objects *objects, const struct mk_object_place *place,
		     json_object *tree, struct mk_error *err)
{
	const char *text = mk_json_line(tree);

	if (!text)
		return mk_error_errno(err, ENOMEM, "%s %s", place->kind, place->title);
	return set(objects, place, text, NULL, err);
}

int mk_objects_delete(struct mk_objects *objects, const struct mk_object_place *place,
		      const char *uid, struct mk_error *err)
{
	return set(objects, place, NULL, uid, err);
}

void mk_objects_forget(struct mk_objects *objects, const char *target)
{
	struct object *object = find(objects, target);

	if (!object)
		return;
	free_object(object);
	plan(objects, 0);
}

/* ---- what is --------------------------------------------------------------------------------- */

static bool contains(json_object *have, json_object *want);

static bool contains_items(json_object *have, json_object *want)
{
	size_t count = json_object_array_length(want);

	if (json_object_array_length(have) != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!contains(json_object_array_get_idx(have, i),
			      json_object_array_get_idx(want, i)))
			return false;
	return true;
}

/* Has @have at least all that @want has? The server adds members, but no elements of lists. An
 * empty list or object may be absent. */
static bool contains(json_object *have, json_object *want)
{
	json_type type = json_object_get_type(want);

	if (!have && (type == json_type_array || type == json_type_object))
		return type == json_type_array ? json_object_array_length(want) == 0
					       : json_object_object_length(want) == 0;
	if (type != json_object_get_type(have))
		return false;
	if (type == json_type_array)
		return contains_items(have, want);
	if (type != json_type_object)
		return json_object_equal(have, want);
	json_object_object_foreach(want, key, value)
	{
		json_object *there = NULL;

		(void)json_object_object_get_ex(have, key, &there);
		if (!contains(there, value))
			return false;
	}
	return true;
}

bool mk_objects_see(struct mk_objects *objects, const char *target, json_object *tree)
{
	struct object *object = find(objects, target);
	cleanup_json json_object *want = NULL;

	if (!object || !object->text || !object->is_written ||
	    (tree && version_of(tree) < object->version))
		return false;
	want = json_tokener_parse(object->text);
	if (tree && contains(tree, want))
		return false;
	enqueue(object);
	return true;
}

bool mk_objects_knows(const struct mk_objects *objects, const char *target)
{
	return find(objects, target) != NULL;
}

bool mk_objects_is_written(const struct mk_objects *objects, const char *target)
{
	const struct object *object = find(objects, target);

	return !object || object->is_written;
}

size_t mk_objects_waiting(const struct mk_objects *objects)
{
	return objects->waiting_count + objects->sending;
}

uint64_t mk_objects_failures(const struct mk_objects *objects)
{
	return objects->failures;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct mk_objects *mk_objects_new(uv_loop_t *loop, struct mk_http *http,
				  const struct mk_objects_options *options, struct mk_error *err)
{
	struct mk_objects *objects = mk_new(sizeof(*objects), "queue of writes", err);

	if (!objects)
		return NULL;
	objects->loop = loop;
	objects->http = http;
	objects->options = *options;
	objects->timing = options->timing ? *options->timing : mk_objects_timing_default;
	objects->backoff = (struct mk_backoff){ .min_ms = objects->timing.backoff_min_ms,
						.max_ms = objects->timing.backoff_max_ms };
	uv_timer_init(loop, &objects->timer);
	objects->timer.data = objects;
	return objects;
}

void mk_objects_clear(struct mk_objects *objects)
{
	struct object *object, *next;

	HASH_ITER(hh, objects->all, object, next)
		free_object(object);
	uv_timer_stop(&objects->timer);
}

void mk_objects_free(struct mk_objects *objects)
{
	struct complaint *complaint, *next;

	if (!objects)
		return;
	mk_objects_clear(objects);
	LL_FOREACH_SAFE(objects->complaints, complaint, next)
		drop_complaint(objects, complaint);
	mk_timer_free(&objects->timer);
}

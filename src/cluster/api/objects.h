/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/objects.h - a queue of writes to an API server, for objects of any kind: whole
 * objects and their status by server-side apply, and deletions.
 *
 * The queue keeps what each object should be. It writes only what differs from what it wrote last.
 * Changes of one object within collect_ms are one write. What waits longest is written first, at
 * most 1000 / again_ms times a second per object, and 1000 / apart_ms in total. A write that fails
 * is tried again after growing pauses. A reason is logged once for all objects of a kind. */
#ifndef MK_CLUSTER_API_OBJECTS_H
#define MK_CLUSTER_API_OBJECTS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "cluster/api/http.h"

struct mk_objects;

struct mk_objects_timing {
	uint64_t collect_ms, again_ms, apart_ms;
	uint64_t backoff_min_ms, backoff_max_ms;
	uint64_t silence_ms; /* a write without an answer for this long has failed */
	unsigned int at_once; /* writes on their way */
};

extern const struct mk_objects_timing mk_objects_timing_default;

struct mk_objects_options {
	const char *manager; /* the field manager of server-side apply */
	const struct mk_objects_timing *timing; /* NULL: the default */
	/* Asked before each write. false: nothing is written, and mk_objects_clear() follows. */
	bool (*may_write)(void *ctx);
	/* The server has taken what was applied last at @target. May be NULL. */
	void (*written)(void *ctx, const char *target);
	void *ctx;
};

/* The place of an object, or of its status, in the API. Texts are copied, but @kind and @remedy
 * must live as long as the queue. */
struct mk_object_place {
	const char *target; /* path of the object, or of its status, from the root of the API */
	const char *kind; /* for messages: "ServiceImport"; one problem per kind is logged */
	const char *title; /* for messages: "shop/web" */
	const char *remedy; /* if the server refuses the write or lacks the kind */
};

/* @options' texts and @http must live longer. NULL: error. */
mk_must_check struct mk_objects *mk_objects_new(uv_loop_t *loop, struct mk_http *http,
						const struct mk_objects_options *options,
						struct mk_error *err);
/* Cancel all and free. The memory is freed after the loop has run its close callbacks. @objects may
 * be NULL. */
void mk_objects_free(struct mk_objects *objects);

/* Cancel all writes and forget all objects: another process writes now. */
void mk_objects_clear(struct mk_objects *objects);

/* Let the object at @place be as @tree says, which the caller keeps. Returns 1 if there is
 * something to write, 0 if it is written. */
mk_must_check int mk_objects_apply(struct mk_objects *objects, const struct mk_object_place *place,
				   json_object *tree, struct mk_error *err);
/* Let the object be absent. @uid: only if it is still this one; NULL: whichever. */
mk_must_check int mk_objects_delete(struct mk_objects *objects, const struct mk_object_place *place,
				    const char *uid, struct mk_error *err);
/* The object has gone with its owner, or nothing more is to be said of it. */
void mk_objects_forget(struct mk_objects *objects, const char *target);

/* The server has this version of the object now; NULL: it is gone. If it lacks something that was
 * written, the object is written again. Returns whether it is. */
bool mk_objects_see(struct mk_objects *objects, const char *target, json_object *tree);

/* Was it told what should be at @target? */
bool mk_objects_knows(const struct mk_objects *objects, const char *target);
/* Is everything written that is known of @target? Also if nothing is known. */
bool mk_objects_is_written(const struct mk_objects *objects, const char *target);

/* Return how many objects wait to be written, and how many writes failed since the start. */
size_t mk_objects_waiting(const struct mk_objects *objects);
uint64_t mk_objects_failures(const struct mk_objects *objects);

#endif

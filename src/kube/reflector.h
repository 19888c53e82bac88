/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/reflector.h - follow one collection of the API server: list, then watch, for ever.
 *
 * The list is a streaming one where the server has that (all objects as events, then a bookmark),
 * else one in pages. Whatever happens to a watch, it goes on from the last version heard; only when
 * the server has lost the history (410) is the list read again, and then what differs is told. */
#ifndef MK_KUBE_REFLECTOR_H
#define MK_KUBE_REFLECTOR_H

#include <json-c/json.h>
#include <uv.h>

#include "kube/http.h"
#include "kube/resource.h"

struct mk_reflector;

/* Any of these may be called from within libcurl: start requests, but free no client. */
struct mk_reflector_sink {
	/* The object is new or another version. An error is logged, with the object's name. */
	int (*apply)(void *ctx, const struct mk_resource *resource, json_object *tree,
		     struct mk_error *err);
	void (*remove)(void *ctx, const struct mk_resource *resource, const char *namespace_,
		       const char *name);
	/* After each list: everything the server has was applied, and the rest removed. */
	void (*listed)(void *ctx, const struct mk_resource *resource);
	/* The server does not have this optional resource, or we may not read it. It is asked for
	 * again, seldom. */
	void (*absent)(void *ctx, const struct mk_resource *resource);
	void *ctx;
};

struct mk_reflector_timing {
	unsigned int watch_s; /* how long one watch is to last: between this and twice this */
	/* A watch in which nothing came for quiet_ms, or up to a quarter less, is asked for again, for
	 * about quiet_watch_s: the server sends a bookmark two seconds before that, and ends it. */
	uint64_t quiet_ms;
	unsigned int quiet_watch_s;
	uint64_t
		grace_ms; /* a watch that has not begun, or is not over, so long after its time is dead */
	uint64_t settled_ms; /* a watch that lasts for so long works */
	uint64_t list_silence_ms; /* a list in which nothing comes for so long is dead */
	uint64_t backoff_min_ms, backoff_max_ms;
	uint64_t absent_ms; /* until a missing resource is looked for again */
	uint64_t forget_ms; /* after so long without the server, its versions mean nothing */
	unsigned int page; /* objects per page of a list */
};

extern const struct mk_reflector_timing mk_reflector_timing_default;

/* NULL: error. @http has to live longer. */
mk_must_check struct mk_reflector *mk_reflector_start(uv_loop_t *loop, struct mk_http *http,
						      const struct mk_resource *resource,
						      const struct mk_reflector_timing *timing,
						      const struct mk_reflector_sink *sink,
						      struct mk_error *err);

/* Has there been a complete list? */
bool mk_reflector_has_listed(const struct mk_reflector *reflector);

/* Was the last complete list a streaming one? */
bool mk_reflector_has_streamed(const struct mk_reflector *reflector);

/* For metrics. */
struct mk_reflector_stats {
	bool followed; /* set by whoever has the reflector */
	uint64_t up; /* 1: nothing is wrong */
	uint64_t listed, objects; /* 1: there was a complete list; and what there is now */
	uint64_t undecodable; /* ... of them, those whose newest version makes no sense */
	uint64_t lists, watches, events, failures; /* since the start */
	uint64_t contact_unix_ms; /* when something last came from the server, or the start */
};
void mk_reflector_stats(const struct mk_reflector *reflector, struct mk_reflector_stats *stats);

/* No callback comes after this. @reflector may be NULL. */
void mk_reflector_stop(struct mk_reflector *reflector);

/* As mk_reflector_stop(), and remove() is called first for every object it told of. */
void mk_reflector_withdraw(struct mk_reflector *reflector);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/watch/reflector.h - follow one collection of the API server: list, then watch, for
 * ever.
 *
 * The list is a streaming one if the server supports that (all objects as events, then a bookmark);
 * otherwise it comes in pages. A watch that ends is continued from the last version received. Only
 * if the server has lost the history (410), the list is read again, and the differences are
 * reported. */
#ifndef MK_CLUSTER_WATCH_REFLECTOR_H
#define MK_CLUSTER_WATCH_REFLECTOR_H

#include <json-c/json.h>
#include <uv.h>

#include "cluster/api/http.h"
#include "cluster/watch/resource.h"

struct mk_reflector;

/* All callbacks may come from within libcurl: they may start requests, but must not
 * free a client. */
struct mk_reflector_sink {
	/* The object is new or has a new version. An error is logged with the object's name. */
	int (*apply)(void *ctx, const struct mk_resource *resource, json_object *tree,
		     struct mk_error *err);
	void (*remove)(void *ctx, const struct mk_resource *resource, const char *namespace_,
		       const char *name);
	/* After each list: all objects of the server were applied, and the others removed. */
	void (*listed)(void *ctx, const struct mk_resource *resource);
	/* The server does not have this optional resource, or denies access without a remedy. It
	 * is asked for again, rarely. */
	void (*absent)(void *ctx, const struct mk_resource *resource);
	/* The server answers as it should (NULL), or a request has failed: @text says why, and
	 * @result, with its status. May be NULL. Not called within libcurl if it failed. */
	void (*answered)(void *ctx, const struct mk_resource *resource,
			 const struct mk_http_result *result, const char *text);
	/* If given, the reflector keeps no names: call @visit for each object that apply() took and
	 * remove() did not, of this list or others. @visit may remove the object. */
	void (*each)(void *ctx, const struct mk_resource *resource,
		     void (*visit)(void *of, const char *namespace_, const char *name), void *of);
	void *ctx;
};

struct mk_reflector_timing {
	unsigned int watch_s; /* a watch lasts between this and twice this */
	/* A watch without data for quiet_ms, or up to a quarter less, is requested again for about
	 * quiet_watch_s. The server sends a bookmark two seconds before the end. */
	uint64_t quiet_ms;
	unsigned int quiet_watch_s;
	uint64_t grace_ms; /* a watch that begins or ends this late is dead */
	uint64_t settled_ms; /* a watch that lasts this long works */
	uint64_t list_silence_ms; /* a list without data for this long is dead */
	uint64_t backoff_min_ms, backoff_max_ms;
	uint64_t absent_ms; /* until a missing resource is asked for again */
	uint64_t forget_ms; /* after this long without the server, versions are obsolete */
	unsigned int page; /* objects per page of a list */
};

extern const struct mk_reflector_timing mk_reflector_timing_default;

/* Start. @http must live longer. NULL: error. */
mk_must_check struct mk_reflector *mk_reflector_start(uv_loop_t *loop, struct mk_http *http,
						      const struct mk_resource *resource,
						      const struct mk_reflector_timing *timing,
						      const struct mk_reflector_sink *sink,
						      struct mk_error *err);

/* Has there been a complete list? */
bool mk_reflector_has_listed(const struct mk_reflector *reflector);

/* Is the object on the server, as far as is known? *@version: its version as a number, 0 if it is
 * not one. */
bool mk_reflector_has(const struct mk_reflector *reflector, const char *namespace_,
		      const char *name, uint64_t *version);

/* Does it read the resource's older_path, because the server lacks the other one? */
bool mk_reflector_reads_older(const struct mk_reflector *reflector);

/* Was the last complete list a streaming one? */
bool mk_reflector_has_streamed(const struct mk_reflector *reflector);

/* Figures for metrics. */
struct mk_reflector_stats {
	bool followed; /* set by the reflector's owner */
	uint64_t up; /* 1: no problem */
	uint64_t listed, objects; /* 1: there was a complete list; current number */
	uint64_t undecodable; /* ... with an invalid newest version */
	uint64_t lists, watches, events, failures; /* since the start */
	uint64_t contact_unix_ms; /* last contact with the server, or the start */
};
void mk_reflector_stats(const struct mk_reflector *reflector, struct mk_reflector_stats *stats);

/* Stop; no callback follows. @reflector may be NULL. */
void mk_reflector_stop(struct mk_reflector *reflector);

/* Call remove() for every object reported, then stop as mk_reflector_stop(). */
void mk_reflector_withdraw(struct mk_reflector *reflector);

#endif

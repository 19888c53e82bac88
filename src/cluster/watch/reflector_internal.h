/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/watch/reflector_internal.h - shared by reflector.c, which sends requests and chooses
 * the next one from the answer, and reflector_feed.c, which processes the answers' content. */
#ifndef MK_CLUSTER_WATCH_REFLECTOR_INTERNAL_H
#define MK_CLUSTER_WATCH_REFLECTOR_INTERNAL_H

#include "cluster/api/backoff.h"
#include "cluster/watch/decode.h"
#include "cluster/watch/reflector.h"
#include "cluster/watch/seen.h"
#include "cluster/watch/splitter.h"

#define MK_VERSION_CHARS 64
#define MK_STATUS_CHARS	 1024

struct mk_reflector {
	uv_loop_t *loop;
	struct mk_http *http;
	const struct mk_resource *resource;
	struct mk_reflector_timing timing;
	struct mk_reflector_sink sink;
	struct mk_seen *seen;
	struct mk_decoder *decoder;
	uv_timer_t timer; /* until the next request */

	/* the current request */
	enum mk_query_mode mode;
	struct mk_http_transfer *transfer;
	struct mk_splitter *splitter;
	uint64_t asked_ms; /* uv_now() */
	uint64_t watch_silence_ms; /* a watch without data for this long is dead */
	bool heard; /* an event came after the list */
	char status_text[MK_STATUS_CHARS]; /* the start of an answer other than 200 */
	size_t status_size;
	int event_status; /* an ERROR event's code; 0: none came */
	uint64_t event_retry_after_s;

	/* the state */
	char version[MK_VERSION_CHARS]; /* to watch from; "": read the list */
	char list_version[MK_VERSION_CHARS]; /* of the paged list being read */
	char *continue_; /* its next page; NULL: the first */
	bool whole_list; /* use one page: paging took longer than the server keeps history */
	size_t skipped, nameless; /* invalid objects since the list began, or ended */
	bool listed_once;
	bool absent; /* the server does not have it, or denies access; this is logged */
	bool older_version; /* read older_path, as the server lacks the other one */
	bool other_missing; /* the server lacks the version read before; then this one was tried */
	bool older_selector; /* the server does not know a field of the selector */
	unsigned int missing; /* consecutive answers that the server does not have it */
	bool quiet; /* no change since the watch was renewed */
	bool unproved; /* no watch has worked since the last list */
	uint64_t watched_ms; /* uv_now() when the watch began */
	uint64_t renew_ms; /* renew the watch after this long without data */
	bool stream_refused; /* this server has no streaming lists */
	uint64_t stream_refused_ms; /* when it refused */

	/* failures */
	struct mk_backoff backoff;
	struct mk_backoff denied; /* the first answers were that access is denied */
	unsigned int rejected; /* consecutive requests that would fail again */
	uint64_t contact_ms; /* when data last came from the server */
	char complaint[MK_STATUS_CHARS]; /* last problem logged; "": none */

	/* counters; see struct mk_reflector_stats */
	uint64_t lists, watches, events, failures;
};

/* Process a part of an answer: the data() of struct mk_http_request. */
int reflector_data(void *ctx, int status, const char *data, size_t size, struct mk_error *err);

/* Make a splitter for a request in @reflector->mode. NULL: out of memory. */
mk_must_check struct mk_splitter *reflector_splitter(struct mk_reflector *reflector);

/* Remove the objects that were not seen since seen_begin(). */
void reflector_remove_unseen(struct mk_reflector *reflector);

/* All objects of the server were seen: remove the others, and watch from @version on. */
void reflector_complete(struct mk_reflector *reflector, const char *version);

/* Make the server's text printable in one line of the log: no control characters, no space at its
 * end. */
void reflector_printable(char *text);

/* Copy the message of an answer's Status object, or any other body unchanged. */
void reflector_status_message(const struct mk_reflector *reflector, char *text, size_t size);

/* An event came after the list: the watch works. */
void reflector_heard(struct mk_reflector *reflector);

/* Supervise the watch that is now open. */
void reflector_watching(struct mk_reflector *reflector);

/* Return path and query, percent-encoded; the caller frees it. NULL: out of memory. */
mk_must_check char *resource_target(const struct mk_resource *resource,
				    const struct mk_query *query);

#endif

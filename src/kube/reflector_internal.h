/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/reflector_internal.h - shared by reflector.c, which asks and decides what an answer means
 * for the next request, and reflector_feed.c, which takes what is in the answers. */
#ifndef MK_KUBE_REFLECTOR_INTERNAL_H
#define MK_KUBE_REFLECTOR_INTERNAL_H

#include "kube/backoff.h"
#include "kube/decode.h"
#include "kube/known.h"
#include "kube/reflector.h"
#include "kube/splitter.h"

#define MK_VERSION_CHARS 64
#define MK_STATUS_CHARS	 1024

struct mk_reflector {
	uv_loop_t *loop;
	struct mk_http *http;
	const struct mk_resource *resource;
	struct mk_reflector_timing timing;
	struct mk_reflector_sink sink;
	struct mk_known *known;
	struct mk_decoder *decoder;
	uv_timer_t timer; /* until the next request */

	/* the request under way */
	enum mk_query_mode mode;
	struct mk_http_transfer *transfer;
	struct mk_splitter *splitter;
	uint64_t asked_ms; /* uv_now() */
	uint64_t watch_silence_ms; /* a watch in which nothing comes for so long is dead */
	bool heard; /* an event came after the list */
	char status_text[MK_STATUS_CHARS]; /* the beginning of an answer that is no 200 */
	size_t status_size;
	int event_status; /* an ERROR event's code; 0: none came */
	uint64_t event_retry_after_s;

	/* what is known */
	char version[MK_VERSION_CHARS]; /* to watch from; "": the list has to be read */
	char list_version[MK_VERSION_CHARS]; /* of the list in pages being read */
	char *continue_; /* its next page; NULL: begin at the first */
	bool whole_list; /* in one page: the last one in pages took longer than history is kept */
	bool listed_once;
	bool absent; /* the server does not have it, and the log says so */
	bool quiet; /* nothing has happened since the watch was asked for again */
	bool unproved; /* no watch has worked since the last list */
	uint64_t watched_ms; /* uv_now() when the watch began */
	uint64_t renew_ms; /* after so long without a byte it is asked for again */
	bool stream_refused; /* this server has no streaming lists */
	uint64_t stream_refused_ms; /* when it said so */

	/* what went wrong */
	struct mk_backoff backoff;
	unsigned int rejected; /* requests in a row whose answer says that they will not work */
	uint64_t contact_ms; /* when something last came from the server */
	char complaint[MK_STATUS_CHARS]; /* what was last logged; "": all is well */

	/* how often; see struct mk_reflector_stats */
	uint64_t lists, watches, events, failures;
};

/* A part of an answer; as struct mk_http_request has it. */
int mk_reflector_data(void *ctx, int status, const char *data, size_t size, struct mk_error *err);

/* For a request in @reflector->mode. NULL: out of memory. */
mk_must_check struct mk_splitter *mk_reflector_splitter(struct mk_reflector *reflector);

/* Everything the server has was seen: remove the rest, and watch from @version on. */
void mk_reflector_complete(struct mk_reflector *reflector, const char *version);

/* What came from the server, for the log: one line. */
void mk_reflector_printable(char *text);

/* An event came after the list: the watch works. */
void mk_reflector_heard(struct mk_reflector *reflector);

/* Watch over the watch that is open now. */
void mk_reflector_watching(struct mk_reflector *reflector);

#endif

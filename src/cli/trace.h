/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/trace.h - `monokube trace`: who sends what to whom (trace.c, trace_resolve.c), run by copies
 * of the programs (trace_run.c), told in words (trace_tell.c).
 *
 * The programs are loaded once more, with the constants of the pinned ones, on the pinned tables that
 * they only read, and on small tables of their own in place of those that they write: sessions, NAT,
 * affinity, counters. What concerns the traced flow is copied into these. So a trace changes nothing,
 * counts nowhere, and its programs are the same as those on the hooks, which their tags prove. */
#ifndef MK_CLI_TRACE_H
#define MK_CLI_TRACE_H

#include <json-c/json.h>

#include "cli/view.h"

enum mk_trace_place {
	MK_TRACE_POD, /* of this node */
	MK_TRACE_HOST,
	MK_TRACE_OTHER_NODE, /* or a pod there */
	MK_TRACE_OUTSIDE,
};

struct mk_trace_request {
	enum mk_trace_place place; /* of who sends */
	struct mk_tuple tuple; /* ICMP: an echo request's identifier in both ports */
	const struct mk_view_pod *pod; /* who sends; NULL: no pod of this node */
};

/* FROM, TO and PORT of @options to a request. */
mk_must_check int mk_trace_resolve(const struct mk_view *view, const struct mk_cli_options *options,
				   struct mk_trace_request *request, struct mk_error *err);

/* ---- trace_run.c ------------------------------------------------------------------------------ */

struct mk_trace_frame {
	uint8_t byte[512];
	uint32_t length;
};
/* Zero checksum of layer 4: the programs change it by difference. */
void mk_trace_frame_make(struct mk_trace_frame *frame, const struct mk_tuple *tuple,
			 const uint8_t *source_mac, const uint8_t *dest_mac);
/* The tuple that @frame shows; false if it is not IPv4. */
bool mk_trace_frame_read(const struct mk_trace_frame *frame, struct mk_tuple *tuple);

enum mk_trace_verdict { MK_TRACE_PASS, MK_TRACE_DROP, MK_TRACE_REDIRECT };

struct mk_trace_copy;
/* Of the programs that a packet may meet which enters by @program. */
struct mk_trace_copy *mk_trace_copy_new(const struct mk_view *view, const char *program,
					struct mk_error *err);
void mk_trace_copy_free(struct mk_trace_copy *copy);
/* Copy what the pinned tables hold of the flow @tuple. Returns 1 if it has a session. */
mk_must_check int mk_trace_copy_flow(struct mk_trace_copy *copy, const struct mk_view *view,
				     const struct mk_tuple *tuple, struct mk_error *err);
/* Is the copy of @program the one that is pinned? */
bool mk_trace_copy_is_pinned(const struct mk_trace_copy *copy, const struct mk_view *view,
			     const char *program);
/* @frame is what comes out. */
mk_must_check int mk_trace_copy_run(struct mk_trace_copy *copy, const char *program, int ifindex,
				    struct mk_trace_frame *frame, enum mk_trace_verdict *verdict,
				    struct mk_error *err);
/* Into *@session what the copies' table of sessions, or, with @nat, of nat's, say of @tuple. */
bool mk_trace_copy_session(const struct mk_trace_copy *copy, bool nat, const struct mk_tuple *tuple,
			   struct mk_session *session);
/* What the host's routing was found to say of it. Returns false if it was not asked. */
bool mk_trace_copy_way(const struct mk_trace_copy *copy, struct mk_way *way);
/* Why it was dropped, enum mk_drop_reason; MK_DROP_COUNT: it was not. */
unsigned int mk_trace_copy_drop(const struct mk_trace_copy *copy);

/* ---- trace_tell.c ------------------------------------------------------------------------------ */

/* The way that a packet took, as told so far. */
struct mk_trace_story {
	const struct mk_view *view;
	const struct mk_trace_request *request;
	struct mk_trace_copy *copy;
	struct json_object *steps; /* array of { at, says, entry } */
	const char *outcome; /* delivered, forwarded, answered, dropped, unknown */
	unsigned int reason; /* enum mk_drop_reason; MK_DROP_COUNT: none */
	bool known; /* the flow has a session already */
};
void mk_trace_step(struct mk_trace_story *story, const char *at, const char *entry, const char *fmt,
		   ...) __attribute__((format(printf, 4, 5)));
/* What happened between entering and @verdict. */
void mk_trace_tell(struct mk_trace_story *story, const struct mk_tuple *tuple, bool external,
		   const struct mk_trace_frame *out, enum mk_trace_verdict verdict);
/* How a packet for @tuple gets to the other node: route, neighbour, FDB. */
void mk_trace_tell_overlay(struct mk_trace_story *story, const struct mk_tuple *tuple);

/* remedy.c: what to do about packets dropped for @reason. */
const char *mk_cli_remedy(unsigned int reason);

#endif

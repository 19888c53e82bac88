/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/trace/trace.h - `monokube trace`: sender and destination (trace.c, resolve.c), copies of
 * the programs that run (run.c), the result in words (explain.c).
 *
 * The programs are loaded once more, with the constants of the pinned ones. They share the pinned
 * tables that they only read. They get small tables of their own for those that they write:
 * sessions, NAT, affinity, counters. Entries of the traced flow are copied into these. So a trace
 * changes nothing and counts nowhere. Tags prove that the copies equal the programs on the
 * hooks. */
#ifndef MK_CLI_TRACE_TRACE_H
#define MK_CLI_TRACE_TRACE_H

#include <json-c/json.h>

#include "monokube/sfc.h"
#include "cli/inspect/view.h"

enum mk_trace_place {
	MK_TRACE_POD, /* on this node */
	MK_TRACE_END, /* such a pod, by its port of an end of a chain */
	MK_TRACE_HOST,
	MK_TRACE_OTHER_NODE, /* or a pod there */
	MK_TRACE_OUTSIDE,
	MK_TRACE_PEER, /* a pod of another cluster, by its view */
};

/* What only a packet of IPv6 has. */
#define MK_TRACE_HEADERS_MAX 8
struct mk_trace_form {
	uint8_t headers[MK_TRACE_HEADERS_MAX]; /* extension headers, as trace_header_name() */
	size_t header_count;
	uint8_t message; /* type of a message of neighbour discovery; 0: none */
};

struct mk_trace_request {
	enum mk_trace_place place; /* of the sender */
	struct mk_tuple tuple; /* ICMP: an echo request's identifier in both ports */
	const struct mk_view_pod *pod; /* the sender; NULL: not a pod of this node */
	int port_ifindex; /* MK_TRACE_END: the host's end of its port */
	struct mk_trace_form form;
};

/* Turn FROM, TO and PORT of @options into a request. */
mk_must_check int trace_resolve(const struct mk_view *view, const struct mk_cli_options *options,
				struct mk_trace_request *request, struct mk_error *err);

/* If the sender sends by its port of an end, its own kernel says so (ends.c). */
mk_must_check int trace_resolve_end(const struct mk_view *view, struct mk_trace_request *request,
				    struct mk_error *err);

/* ---- run.c ----------------------------------------------------------------------------- */

struct mk_trace_frame {
	uint8_t byte[512];
	uint32_t length;
};
/* The checksum of layer 4 is zero: the programs change it by difference. A message of neighbour
 * discovery has a valid one. */
void trace_frame_make(struct mk_trace_frame *frame, const struct mk_tuple *tuple,
		      const struct mk_trace_form *form, const uint8_t *source_mac,
		      const uint8_t *dest_mac);
/* Read the tuple in @frame; false: it is neither IPv4 nor IPv6. */
bool trace_frame_read(const struct mk_trace_frame *frame, struct mk_tuple *tuple);
/* Returns the name of extension header @index, NULL behind the last one. */
const char *trace_header_name(size_t index);
/* Returns where layer 4 begins, in bytes from the IPv6 header. */
uint32_t trace_l4_off(const struct mk_trace_form *form);

enum mk_trace_verdict { MK_TRACE_PASS, MK_TRACE_DROP, MK_TRACE_REDIRECT };

struct mk_trace_copy;
/* Copy the programs that a packet entering by @program may meet. */
struct mk_trace_copy *trace_copy_new(const struct mk_view *view, const char *program,
				     struct mk_error *err);
void trace_copy_free(struct mk_trace_copy *copy);
/* Copy what the pinned tables hold of the flow @tuple. Returns 1 if it has a session. */
mk_must_check int trace_copy_flow(struct mk_trace_copy *copy, const struct mk_view *view,
				  const struct mk_tuple *tuple, struct mk_error *err);
/* Get map @name of the copies. They own it. */
mk_must_check int trace_copy_table(const struct mk_trace_copy *copy, const char *name,
				   struct mk_table *table, struct mk_error *err);
/* Does the copy of @program equal the pinned one? */
bool trace_copy_is_pinned(const struct mk_trace_copy *copy, const struct mk_view *view,
			  const char *program);
/* Run the copy of @program; @frame becomes the frame that comes out. */
mk_must_check int trace_copy_run(struct mk_trace_copy *copy, const char *program, int ifindex,
				 struct mk_trace_frame *frame, enum mk_trace_verdict *verdict,
				 struct mk_error *err);
/* Get the session of @tuple from the copies' session tables, or, with @nat, from those of NAT. */
bool trace_copy_session(const struct mk_trace_copy *copy, bool nat, const struct mk_tuple *tuple,
			struct mk_session *session);
/* Get path @id from the copy's table of paths. */
bool trace_copy_path(const struct mk_trace_copy *copy, uint16_t id, struct mk_sfc_path *path);
/* Get the answer of the host's routing. Returns false if it was not asked. */
bool trace_copy_way(const struct mk_trace_copy *copy, struct mk_way *way);
/* Returns the reason of the drop, enum mk_drop_reason; MK_DROP_COUNT: not dropped. */
unsigned int trace_copy_drop(const struct mk_trace_copy *copy);

/* Copy what the program `policy` has decided to @decisions, at most @room. Returns their number. */
size_t trace_copy_decisions(const struct mk_trace_copy *copy, struct mk_policy_count_key *decisions,
			    size_t room);

/* ---- explain.c ---------------------------------------------------------------------------- */

/* The way that a packet took, in steps so far. */
struct mk_trace_story {
	const struct mk_view *view;
	const struct mk_trace_request *request;
	struct mk_trace_copy *copy;
	struct json_object *steps; /* array of { at, says, entry } */
	const char *outcome; /* delivered, forwarded, answered, dropped, unknown */
	unsigned int reason; /* enum mk_drop_reason; MK_DROP_COUNT: none */
	bool known; /* the flow has a session already */
	bool returns_direct; /* the session found: the pod's node answers the client itself */
	struct mk_table end_flows; /* MK_TRACE_END: the copies' flows of the chain (ends.c) */
};
void trace_step(struct mk_trace_story *story, const char *at, const char *entry, const char *fmt,
		...) __attribute__((format(printf, 4, 5)));
/* Add steps for what happened between entering and @verdict. */
void trace_tell(struct mk_trace_story *story, const struct mk_tuple *tuple, bool external,
		const struct mk_trace_frame *out, enum mk_trace_verdict verdict);
/* Add steps for what network policies decided (policy.c). */
void trace_tell_policies(struct mk_trace_story *story);
/* Add steps for the functions that the packet of session @key passes (chain.c). @frame and
 * *@verdict become what comes out of the last one. */
void trace_tell_chains(struct mk_trace_story *story, const struct mk_tuple *key,
		       struct mk_trace_frame *frame, enum mk_trace_verdict *verdict);
/* Add the step of a packet that leaves by the overlay to @node (NULL: none), which is a @what. */
void trace_leave_overlay(struct mk_trace_story *story, const struct mk_cli_node *node,
			 const char *what);
/* Add steps for how a packet for the view @tuple->daddr gets to the other cluster (peer.c). @frame
 * is what the programs made. */
void trace_tell_peer(struct mk_trace_story *story, const struct mk_tuple *tuple,
		     const struct mk_trace_frame *frame);
/* Make the frame that the peer with the view @request->tuple.saddr sends, and name the peer in
 * @who of MK_VIEW_WHO_BYTES. */
mk_must_check int trace_peer_frame(const struct mk_view *view,
				   const struct mk_trace_request *request,
				   struct mk_trace_frame *frame, char *who, struct mk_error *err);
/* Copy the flow that the pod of an end sends (ends.c). */
mk_must_check int trace_copy_end(struct mk_trace_story *story, struct mk_error *err);
/* Add steps for the functions and the other end of its chain. @frame and *@verdict become what
 * comes out of the last function. */
void trace_tell_end(struct mk_trace_story *story, struct mk_trace_frame *frame,
		    enum mk_trace_verdict *verdict);
/* Add steps for how a packet for @tuple gets to the other node: route, neighbour, FDB. */
void trace_tell_overlay(struct mk_trace_story *story, const struct mk_tuple *tuple);

#endif

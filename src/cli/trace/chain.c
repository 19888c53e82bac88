// SPDX-License-Identifier: Apache-2.0
/* The way of a packet through the functions of its service function chains. Trace cannot run the
 * functions: it takes each packet as unchanged, and goes on at the function's other port. Taps get
 * no copy. */
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "cli/inspect/chains.h"
#include "cli/trace/trace.h"

struct way {
	struct mk_trace_story *story;
	const struct mk_cli_chains *chains;
	struct mk_sfc_path path;
	unsigned int id;
	bool forward; /* from client to server */
	const char *at; /* the program that has the packet */
};

/* The place in the path that is visited at @step: answers go backwards. */
static size_t place_of(const struct way *way, size_t step)
{
	return way->forward ? step : MK_SFC_PATH_FUNCTIONS - 1 - step;
}

/* The side by which the packet comes out: it leaves a client's chain outward, and enters a server's
 * inward. */
static enum mk_sfc_side exit_side(const struct way *way, size_t place)
{
	const bool egress = place < MK_SFC_FUNCTIONS;

	return egress == way->forward ? MK_SFC_OUTSIDE : MK_SFC_INSIDE;
}

static const char *chain_of(const struct way *way, size_t place, char name[MK_CHAIN_NAME_BYTES])
{
	const int direction = place < MK_SFC_FUNCTIONS ? MK_POLICY_EGRESS : MK_POLICY_INGRESS;

	return mk_chain_name(way->chains, way->path.chain[direction], name);
}

static bool is_elsewhere(const struct mk_sfc_replica *replica)
{
	static const __u8 here[sizeof(replica->vtep_mac)];

	return memcmp(replica->vtep_mac, here, sizeof(here)) != 0;
}

static bool is_tap(const struct mk_sfc_replica *replica)
{
	return replica->mode == MK_PORT_TAP;
}

static void tell_function(struct way *way, size_t place, const struct mk_sfc_replica *replica)
{
	const enum mk_sfc_side out = exit_side(way, place);
	const unsigned int number = way->path.replica[place];
	char chain[MK_CHAIN_NAME_BYTES], pod[MK_CHAIN_NAME_BYTES], entry[40];
	char device[IF_NAMESIZE] = "?", where[MK_CHAIN_NAME_BYTES] = "";

	if_indextoname(is_elsewhere(replica) ? way->story->view->links.sfc_ifindex
					     : replica->ifindex[!out],
		       device);
	if (is_elsewhere(replica))
		snprintf(where, sizeof(where), " on node %s", mk_replica_node(way->chains, number));
	snprintf(entry, sizeof(entry), "sfc_paths: %u", way->id);
	trace_step(way->story, way->at, entry,
		   "chain %s: %s pod %s%s by its port %s, interface %s; %s",
		   chain_of(way, place, chain), is_tap(replica) ? "copy to" : "to",
		   mk_replica_name(way->chains, number, pod), where,
		   out == MK_SFC_OUTSIDE || is_tap(replica) ? "inside" : "outside", device,
		   is_tap(replica) ? "the packet goes on"
				   : "a function may drop or change it: taken as unchanged");
}

/* The function has sent the packet on. From another node it comes back by the device of chains. */
static int go_on(struct way *way, size_t place, const struct mk_sfc_replica *replica,
		 struct mk_trace_frame *frame, enum mk_trace_verdict *verdict, struct mk_error *err)
{
	const struct mk_view *view = way->story->view;
	const enum mk_sfc_side out = exit_side(way, place);
	const struct mk_sfc_mac from = mk_sfc_mac_make(MK_SFC_FROM, out, 0, replica->uid_hash);
	int ifindex = (int)replica->ifindex[out];

	way->at = "sfc_port";
	if (is_elsewhere(replica)) {
		way->at = "sfc_overlay";
		ifindex = (int)view->links.sfc_ifindex;
		memcpy(frame->byte, view->node.vtep_mac, sizeof(from));
		memcpy(frame->byte + sizeof(from), &from, sizeof(from));
	}
	return trace_copy_run(way->story->copy, way->at, ifindex, frame, verdict, err);
}

/* Returns false if the packet goes no further. */
static bool pass(struct way *way, size_t place, struct mk_trace_frame *frame,
		 enum mk_trace_verdict *verdict)
{
	struct mk_trace_story *story = way->story;
	struct mk_error err = { 0 };
	struct mk_sfc_replica replica;

	if (!mk_replica_is_usable(way->chains, way->path.replica[place], &replica)) {
		trace_step(story, "sfc", NULL, "its replica has gone meanwhile: trace again");
		return false;
	}
	tell_function(way, place, &replica);
	if (is_tap(&replica)) { /* the packet has passed it */
		way->at = "sfc_tap";
		return true;
	}
	if (go_on(way, place, &replica, frame, verdict, &err) < 0) {
		trace_step(story, way->at, NULL, "%s", mk_error_text(&err));
		return false;
	}
	story->reason = trace_copy_drop(story->copy);
	return story->reason == MK_DROP_COUNT && *verdict == MK_TRACE_REDIRECT;
}

static void walk(struct way *way, struct mk_trace_frame *frame, enum mk_trace_verdict *verdict)
{
	for (size_t step = 0; step < MK_SFC_PATH_FUNCTIONS; step++) {
		const size_t place = place_of(way, step);

		if (way->path.replica[place] && !pass(way, place, frame, verdict))
			return;
	}
	if (strcmp(way->at, "sfc_tap") == 0)
		trace_step(way->story, way->at, NULL, "behind the last tap: leaves the chain");
	else if (strcmp(way->at, "sfc") != 0)
		trace_step(way->story, way->at, NULL, "from the last function: leaves the chain");
	else
		trace_step(
			way->story, "sfc", NULL,
			"a chain takes it, but none of its functions has a replica: passed by (whenUnavailable: Skip)");
}

void trace_tell_chains(struct mk_trace_story *story, const struct mk_tuple *key,
		       struct mk_trace_frame *frame, enum mk_trace_verdict *verdict)
{
	cleanup_cli_chains struct mk_cli_chains chains = { 0 };
	struct way way = { .story = story, .chains = &chains, .at = "sfc" };
	struct mk_session session;

	if (!trace_copy_session(story->copy, false, key, &session) || !session.to.path ||
	    !trace_copy_path(story->copy, session.to.path, &way.path))
		return;
	way.id = session.to.path;
	way.forward = session.flags & MK_SESSION_FORWARD;
	if (mk_cli_chains_open(&chains, story->view, NULL) == 0)
		walk(&way, frame, verdict);
}

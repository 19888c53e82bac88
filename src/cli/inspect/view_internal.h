/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/inspect/view_internal.h - functions that only this folder uses. */
#ifndef MK_CLI_INSPECT_VIEW_INTERNAL_H
#define MK_CLI_INSPECT_VIEW_INTERNAL_H

#include "cli/inspect/chains.h"
#include "cli/inspect/policy.h"
#include "cli/inspect/view.h"
#include "datapath/monitor/monitor.h"

/* Open the view of family @index of @options. -ENOENT: the datapath is not loaded; the text says
 * what to do. Call view_release() in any case. */
mk_must_check int view_open(struct mk_view *view, const struct mk_cli_options *options,
			    size_t index, struct mk_error *err);
void view_release(struct mk_view *view);

/* Read the names of peers into *@names, which the caller puts; NULL: there is no file. */
mk_must_check int peer_names_read(const char *state_dir, json_object **names, struct mk_error *err);

const struct mk_view_pod *view_pod_of_device(const struct mk_view *view, uint32_t ifindex);

/* Describe @addr in @buf, MK_VIEW_WHO_BYTES long: "pod default/web", "this host"; "": an address
 * that does not belong to this cluster. */
const char *view_who(const struct mk_view *view, const struct mk_addr *addr, char *buf);

/* Returns the Node that has @addr as a pod's or as its overlay address; NULL: not known. */
const char *view_node(const struct mk_view *view, const struct mk_addr *addr);

#define CHAIN_VIA_BYTES 1024
/* Name the replicas of @path in @buf, from client to server: "firewall-1,ids-2". Returns @buf; "":
 * no function, or the path is not known. */
const char *chain_via(const struct mk_cli_chains *chains, unsigned int path,
		      char buf[CHAIN_VIA_BYTES]);

/* What `drops --follow` and `monitor` share, for each family: events one by one until a signal ends
 * it, printed with the current names. */
struct mk_events {
	const struct mk_cli_options *options;
	size_t family; /* of options->families */
	struct mk_view view;
	uint64_t read_ns; /* when @view was read, in the events' time */
	struct mk_cli_policies policies;
	uint64_t policies_ns; /* when @policies were read, in the events' time; 0: not yet */
};
/* Release the view and the policies. */
void events_release(struct mk_events *events);

/* Describe an address (view_who()) in @buf of MK_VIEW_WHO_BYTES. Pods come and go: for an
 * unknown address names are read again, at most once a second. */
const char *events_name(struct mk_events *events, uint64_t time_ns, const struct mk_addr *addr,
			char *buf);

/* Return the name of the reason; "AUDIT": the packet has passed, audited policies would deny it. */
const char *events_reason(const struct mk_drop_event *event);
/* Name the policies because of which the packet of @event was dropped, in @text of
 * MK_POLICY_TEXT_BYTES; "": another reason. Policies change: they are read again, at most once a
 * second. */
const char *events_policy(struct mk_events *events, const struct mk_drop_event *event, char *text);

/* Pass events of @sources to @reader until SIGINT, SIGTERM or events_stop(). */
mk_must_check int events_follow(const struct mk_cli_options *options,
				struct mk_monitor_source *sources, size_t count,
				struct mk_monitor_reader *reader, struct mk_error *err);
void events_stop(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/sweep.h - expire sessions: read their tables in batches, so that the event
 * loop is not blocked, and remove pairs that have ended or are idle.
 *
 * Idle for longer than this, counted from the last packet of either direction:
 *	TCP, established			24 h	(clients may keep silent connections)
 *	TCP, one side has sent FIN		1 h	(the other may go on sending)
 *	TCP, both have, or one an RST		10 s	(late repeats of the last packets)
 *	... both have, and masqueraded		60 s	(the server's TIME-WAIT), while the
 *							table is less than half full
 *	TCP, handshake not done			120 s	(the kernel gives up after that too)
 *	SCTP, established			10 min	(the ends send a heartbeat every 30 s and
 *							give up a path after 210 s, RFC 9260, 16;
 *							Linux's connection tracking waits as long)
 *	SCTP, shut down or aborted, half open	as TCP
 *	UDP					120 s	(RFC 4787, REQ-5)
 *	ICMP echo				30 s
 *	anything else				10 min
 * The next pass removes entries that a UDP session left in the table of new sessions
 * (MK_SESSION_MOVED).
 */
#ifndef MK_DATAPATH_SESSIONS_SWEEP_H
#define MK_DATAPATH_SESSIONS_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "datapath/maps/table.h"
#include "datapath/sessions/counts.h"

/* Return how long a session of @proto may be idle, given the flags of its two entries. */
uint64_t mk_session_idle_limit_ns(uint8_t proto, uint8_t flags, uint8_t pair_flags);
/* Return the key of the other direction's entry. */
struct mk_tuple mk_session_pair_key(const struct mk_session *session);

struct mk_sweep;

struct mk_sweep_options {
	const struct mk_table *tables; /* of sessions; owned by the caller, outlive the sweep */
	int table_count; /* at most MK_SESSION_TABLES */
	/* Is the flow's backend gone? NULL: not checked. */
	bool (*cut)(void *ctx, const struct mk_tuple *key, const struct mk_session *session);
	/* The sweep keeps an entry. NULL: not called. */
	void (*stays)(void *ctx, const struct mk_tuple *key, const struct mk_session *session);
	/* The sweep removed an entry with Service packets that are not counted yet. NULL: they are
	 * lost. */
	void (*ended)(void *ctx, const struct mk_session *session);
	void *ctx;
};

struct mk_sweep_counts {
	uint64_t seen, expired, cut;
};

struct mk_sweep *mk_sweep_new(const struct mk_sweep_options *options, struct mk_error *err);
void mk_sweep_free(struct mk_sweep *sweep);

/* Visit about @budget entries; a removed pair counts as several. Returns 1 if this step ended a
 * pass over all tables (the next step starts a new pass), otherwise 0. */
mk_must_check int mk_sweep_step(struct mk_sweep *sweep, uint64_t now_ns, uint32_t budget,
				struct mk_error *err);
/* Counts of the last complete pass. */
const struct mk_sweep_counts *mk_sweep_last_pass(const struct mk_sweep *sweep);
const struct mk_session_counts *mk_sweep_counts(const struct mk_sweep *sweep);
/* Counts of all passes, including the current one. */
const struct mk_sweep_counts *mk_sweep_totals(const struct mk_sweep *sweep);

#endif

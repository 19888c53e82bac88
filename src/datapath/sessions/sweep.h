/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/sweep.h - expire sessions: read their tables in batches, so that the loop
 * stays free, and remove the pairs that are over or idle.
 *
 * Idle for longer than this, counted from the last packet of either direction:
 *	TCP, established			24 h	(a client may keep a connection without a word)
 *	TCP, one side has sent FIN		1 h	(the other may go on sending)
 *	TCP, both have, or one a RST		10 s	(late repeats of the last packets)
 *	... both have, and masqueraded		60 s	(the server's TIME-WAIT), while the table is less than half full
 *	TCP, handshake not done			120 s	(the kernel gives up after that as well)
 *	SCTP, established			10 min	(its ends send a heartbeat every 30 s and give a
 *							path up after 210 s, RFC 9260, 16, which is
 *							what Linux's connection tracking waits)
 *	SCTP, shut down or aborted, half open	as TCP
 *	UDP					120 s	(RFC 4787, REQ-5)
 *	ICMP echo				30 s
 *	anything else				10 min
 * What a UDP session left behind in the half-open table goes with the next pass (MK_SESSION_MOVED).
 */
#ifndef MK_DATAPATH_SESSIONS_SWEEP_H
#define MK_DATAPATH_SESSIONS_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "datapath/maps/table.h"
#include "datapath/sessions/counts.h"

/* How long a session of @proto may be idle, from the flags of its two entries. */
uint64_t mk_session_idle_limit_ns(uint8_t proto, uint8_t flags, uint8_t pair_flags);
/* The key of the other direction's entry. */
struct mk_tuple mk_session_pair_key(const struct mk_session *session);

struct mk_sweep;

struct mk_sweep_options {
	const struct mk_table *tables; /* of sessions; the caller's, outlive the sweep */
	int table_count; /* at most MK_SESSION_TABLES */
	/* Is the flow's backend gone? NULL: nobody knows. */
	bool (*cut)(void *ctx, const struct mk_tuple *key, const struct mk_session *session);
	/* An entry was looked at and stays. NULL: nobody asks. */
	void (*stays)(void *ctx, const struct mk_tuple *key, const struct mk_session *session);
	/* An entry was removed that held packets of a Service, not yet counted. NULL: lost. */
	void (*ended)(void *ctx, const struct mk_session *session);
	void *ctx;
};

struct mk_sweep_counts {
	uint64_t seen, expired, cut;
};

struct mk_sweep *mk_sweep_new(const struct mk_sweep_options *options, struct mk_error *err);
void mk_sweep_free(struct mk_sweep *sweep);

/* Look at @budget entries, roughly; a pair that is removed counts as several. Returns 1 when this step
 * ended a pass over all tables (the next one starts at the beginning), else 0. */
mk_must_check int mk_sweep_step(struct mk_sweep *sweep, uint64_t now_ns, uint32_t budget,
				struct mk_error *err);
/* Of the pass that ended last. */
const struct mk_sweep_counts *mk_sweep_last_pass(const struct mk_sweep *sweep);
const struct mk_census *mk_sweep_census(const struct mk_sweep *sweep);
/* Of all passes, that under way too. */
const struct mk_sweep_counts *mk_sweep_totals(const struct mk_sweep *sweep);

#endif

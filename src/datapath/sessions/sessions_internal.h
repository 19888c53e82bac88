/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/sessions_internal.h - functions that only this folder uses. */
#ifndef MK_DATAPATH_SESSIONS_SESSIONS_INTERNAL_H
#define MK_DATAPATH_SESSIONS_SESSIONS_INTERNAL_H

#include "datapath/sessions/counts.h"
#include "datapath/sessions/half_open_quota.h"
#include "datapath/sessions/sweep.h"

/* Return the sessions that the quota allows now, on all CPUs together, with tables of @max_entries
 * each. The quota is a sixteenth of the entries (two per session), less the half-open sessions
 * counted. It is 0 if a table is more than three quarters full. */
uint64_t half_open_quota_left(uint32_t max_entries, const struct mk_session_counts *counts);

/* Has @session been idle for longer than its limit at @now_ns? @pair: the other direction's entry,
 * or NULL. */
bool session_expired(uint64_t now_ns, uint8_t proto, const struct mk_session *session,
		     const struct mk_session *pair);

/* Remove the entry @key of an ended session from @table and copy its value to *@held. The session
 * must have ended seconds ago: an entry younger than a second is a new session's (the client reuses
 * its port) and is put back. Returns 1 if removed; 0 if there was no entry, or a new session's. */
mk_must_check int session_remove_old(const struct mk_table *table, const struct mk_tuple *key,
				     uint64_t now_ns, struct mk_session *held,
				     struct mk_error *err);

/* Source ports in use per destination and source address. Pairs with the same hash share a counter,
 * so memory does not grow with sessions. The largest counter is an upper bound. */
#define NAT_PORT_COUNTERS 65536
struct nat_port_counts {
	uint16_t used[NAT_PORT_COUNTERS]; /* enough: no range has more ports */
};

/* Count the entry @key of table number @table. */
void session_counts_add(struct mk_session_counts *counts, struct nat_port_counts *nat, int table,
			const struct mk_tuple *key, const struct mk_session *session);
/* Return an upper bound of the source ports in use for one destination. */
uint64_t nat_ports_busiest(const struct nat_port_counts *nat);

#endif

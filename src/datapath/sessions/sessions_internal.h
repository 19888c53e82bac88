/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/sessions_internal.h - functions that only this folder uses. */
#ifndef MK_DATAPATH_SESSIONS_SESSIONS_INTERNAL_H
#define MK_DATAPATH_SESSIONS_SESSIONS_INTERNAL_H

#include "datapath/sessions/counts.h"
#include "datapath/sessions/half_open_quota.h"
#include "datapath/sessions/sweep.h"

/* Sessions that the quota allows now, on all CPUs together, in tables of @max_entries each: a
 * sixteenth of the entries, less the half-open sessions counted; 0 if a table is more than three
 * quarters full. */
uint64_t half_open_quota_left(uint32_t max_entries, const struct mk_census *census);

/* Is it over at @now_ns? @pair is the other direction's entry, NULL if it has none. */
bool session_expired(uint64_t now_ns, uint8_t proto, const struct mk_session *session,
		     const struct mk_session *pair);

/* Remove an entry of a TCP session that is over, of a table of established ones, and put what it held into *@held. Where a
 * new session has taken its place meanwhile (the client uses its port again), that goes back: to be asked
 * for with what was over for seconds. Returns 1, or 0: it was not there, or is a new one's. */
mk_must_check int session_remove_old(const struct mk_table *table, const struct mk_tuple *key,
				     uint64_t now_ns, struct mk_session *held,
				     struct mk_error *err);

/* Source ports in use, by destination and source address. Several pairs share a counter, by hash, so
 * a million sessions need no more memory than ten. The largest counter is an upper bound. */
#define MK_CENSUS_COUNTERS 65536
struct mk_nat_census {
	uint16_t used[MK_CENSUS_COUNTERS]; /* no range has more ports */
};

/* Count the entry @key of table number @table. */
void census_add(struct mk_census *census, struct mk_nat_census *nat, int table,
		const struct mk_tuple *key, const struct mk_session *session);
/* Return the most ports that one destination uses, or a few more. */
uint64_t census_busiest(const struct mk_nat_census *nat);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "datapath/sessions/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "monokube/idle.h"
#include "datapath/sessions/sessions_internal.h"

#define BATCH	  4096 /* with 512 a pass takes a seventh longer */
#define SECOND_NS MK_SECOND_NS

#define REMOVAL_COST 8 /* of a pair, measured in entries that stay */

#define TIME_WAIT_S 60 /* Linux: TCP_TIMEWAIT_LEN */

/* ---- rules ---------------------------------------------------------------------------------- */

uint64_t mk_session_idle_limit_ns(uint8_t proto, uint8_t flags, uint8_t pair_flags)
{
	return mk_idle_limit_s(proto, flags, pair_flags) * SECOND_NS;
}

/* A packet may have been seen after the caller looked at the clock. */
static uint64_t idle_ns(uint64_t now_ns, uint64_t last_seen_ns)
{
	return now_ns > last_seen_ns ? now_ns - last_seen_ns : 0;
}

bool session_expired(uint64_t now_ns, uint8_t proto, const struct mk_session *session,
		     const struct mk_session *pair)
{
	uint64_t last_ns = session->last_seen_ns;

	if (pair && pair->last_seen_ns > last_ns)
		last_ns = pair->last_seen_ns;
	return idle_ns(now_ns, last_ns) >
	       mk_session_idle_limit_ns(proto, mk_session_flags(session),
					pair ? mk_session_flags(pair) : 0);
}

struct mk_tuple mk_session_pair_key(const struct mk_session *session)
{
	return (struct mk_tuple){
		.saddr = session->to.daddr,
		.daddr = session->to.saddr,
		.sport = session->to.dport,
		.dport = session->to.sport,
		.proto = session->to.proto,
	};
}

/* ---- walk ----------------------------------------------------------------------------------- */

struct mk_sweep {
	struct mk_sweep_options options;
	int table;
	struct mk_cursor cursor;
	int count, visited; /* entries of the last batch */
	struct mk_sweep_counts pass, last_pass, totals;
	struct mk_session_counts counts, last_census;
	struct nat_port_counts nat;
	struct mk_tuple keys[BATCH];
	struct mk_session values[BATCH];
};

struct mk_sweep *mk_sweep_new(const struct mk_sweep_options *options, struct mk_error *err)
{
	struct mk_sweep *sweep = calloc(1, sizeof(*sweep));

	if (!sweep) {
		(void)mk_error_errno(err, ENOMEM, "cannot start the sweep of sessions");
		return NULL;
	}
	sweep->options = *options;
	return sweep;
}

void mk_sweep_free(struct mk_sweep *sweep)
{
	free(sweep);
}

static void begin_table(struct mk_sweep *sweep, int table)
{
	sweep->table = table;
	sweep->cursor = (struct mk_cursor){ 0 };
	sweep->count = 0;
	sweep->visited = 0;
}

static void begin_pass(struct mk_sweep *sweep)
{
	begin_table(sweep, 0);
	sweep->pass = (struct mk_sweep_counts){ 0 };
	sweep->counts = (struct mk_session_counts){ 0 };
	memset(&sweep->nat, 0, sizeof(sweep->nat));
}

const struct mk_sweep_counts *mk_sweep_last_pass(const struct mk_sweep *sweep)
{
	return &sweep->last_pass;
}

const struct mk_session_counts *mk_sweep_counts(const struct mk_sweep *sweep)
{
	return &sweep->last_census;
}

const struct mk_sweep_counts *mk_sweep_totals(const struct mk_sweep *sweep)
{
	return &sweep->totals;
}

/* Look up and delete in one step; before Linux 5.14 in two. */
static int take(const struct mk_table *table, const struct mk_tuple *key, struct mk_session *held,
		struct mk_error *err)
{
	int ret = mk_table_take(table, key, held, err);

	if (ret != -EOPNOTSUPP)
		return ret;
	if (mk_table_get(table, key, held, NULL) < 0)
		return 0;
	return mk_table_delete(table, key, err);
}

int session_remove_old(const struct mk_table *table, const struct mk_tuple *key, uint64_t now_ns,
		       struct mk_session *held, struct mk_error *err)
{
	int ret = take(table, key, held, err);

	if (ret <= 0 || held->created_ns + SECOND_NS < now_ns)
		return ret;
	ret = mk_table_add(table, key, held, err);
	return ret == -EEXIST ? 0 : ret;
}

/* Returns 1 if it removed @key. @now_ns: UINT64_MAX removes the entry however young it is. */
static int remove_entry(const struct mk_sweep *sweep, const struct mk_table *table,
			const struct mk_tuple *key, uint64_t now_ns, struct mk_error *err)
{
	struct mk_session held;
	int ret = session_remove_old(table, key, now_ns, &held, err);

	if (ret > 0 && sweep->options.ended && held.service_id && held.packets)
		sweep->options.ended(sweep->options.ctx, &held);
	return ret;
}

/* Returns 1 if it removed @key. */
static int remove_pair(const struct mk_sweep *sweep, const struct mk_table *table,
		       const struct mk_tuple *key, const struct mk_session *session,
		       uint64_t now_ns, struct mk_error *err)
{
	struct mk_tuple pair_key = mk_session_pair_key(session);
	int found = remove_entry(sweep, table, key, now_ns, err), ret;

	if (found < 0)
		return found;
	ret = remove_entry(sweep, table, &pair_key, now_ns, err);
	return ret < 0 ? ret : found;
}

/* Could the session be over, judged by this entry only? The pair is looked up only then: a busy
 * table costs no look-ups. This entry's flags stand for both directions, which gives the shortest
 * possible limit. */
static bool is_candidate(uint64_t now_ns, const struct mk_tuple *key,
			 const struct mk_session *session)
{
	uint8_t flags = mk_session_flags(session);

	return idle_ns(now_ns, session->last_seen_ns) >
	       mk_session_idle_limit_ns(key->proto, flags, flags);
}

static bool has_other_source(const struct mk_tuple *key, const struct mk_session *session)
{
	const struct mk_tuple *to = &session->to;

	if (session->flags & MK_SESSION_FORWARD)
		return !mk_addr_eq(&key->saddr, &to->saddr) || key->sport != to->sport;
	return !mk_addr_eq(&key->daddr, &to->daddr) || key->dport != to->dport;
}

/* May the server of a masqueraded connection still be in TIME-WAIT? Then the entry stays while the
 * table is less than half full, so that its port is not given to another client. The programs reuse
 * such a port only if they find no free one. */
static bool is_remembered(const struct mk_sweep *sweep, uint64_t now_ns, const struct mk_tuple *key,
			  const struct mk_session *session, const struct mk_session *pair)
{
	const struct mk_table *table = &sweep->options.tables[sweep->table];
	uint64_t last_ns = session->last_seen_ns > pair->last_seen_ns ? session->last_seen_ns
								      : pair->last_seen_ns;

	return key->proto == IPPROTO_TCP && session->fin && pair->fin &&
	       has_other_source(key, session) &&
	       idle_ns(now_ns, last_ns) <= TIME_WAIT_S * SECOND_NS &&
	       sweep->last_census.entries[sweep->table] < table->max_entries / 2;
}

static bool is_over(const struct mk_sweep *sweep, const struct mk_table *table, uint64_t now_ns,
		    const struct mk_tuple *key, const struct mk_session *session)
{
	struct mk_tuple pair_key = mk_session_pair_key(session);
	struct mk_session pair;
	bool has_pair;

	if (!is_candidate(now_ns, key, session))
		return false;
	has_pair = mk_table_get(table, &pair_key, &pair, NULL) == 0;
	if (has_pair && is_remembered(sweep, now_ns, key, session, &pair))
		return false;
	return session_expired(now_ns, key->proto, session, has_pair ? &pair : NULL);
}

static int stays(struct mk_sweep *sweep, const struct mk_tuple *key,
		 const struct mk_session *session)
{
	session_counts_add(&sweep->counts, &sweep->nat, sweep->table, key, session);
	if (sweep->options.stays)
		sweep->options.stays(sweep->options.ctx, key, session);
	return 0;
}

enum verdict { STAYS, CUT, OVER };

static enum verdict judge(const struct mk_sweep *sweep, const struct mk_table *table,
			  uint64_t now_ns, const struct mk_tuple *key,
			  const struct mk_session *session)
{
	if (sweep->options.cut && sweep->options.cut(sweep->options.ctx, key, session))
		return CUT;
	return is_over(sweep, table, now_ns, key, session) ? OVER : STAYS;
}

/* Are @a and @b equal in all fields that a verdict depends on? */
static bool is_same(const struct mk_session *a, const struct mk_session *b)
{
	return a->created_ns == b->created_ns && a->last_seen_ns == b->last_seen_ns &&
	       mk_session_flags(a) == mk_session_flags(b) && a->set_id == b->set_id &&
	       a->service_id == b->service_id && memcmp(&a->to, &b->to, sizeof(a->to)) == 0;
}

/* Read @key again: the batch may be older than the entry's last packet, or hold both entries of a
 * pair. Puts the current value into *@session; returns false if the entry is gone. */
static bool read_again(const struct mk_table *table, const struct mk_tuple *key,
		       struct mk_session *session, bool *changed)
{
	const struct mk_session before = *session;

	if (mk_table_get(table, key, session, NULL) < 0)
		return false;
	*changed = !is_same(&before, session);
	return true;
}

static int remove_moved(const struct mk_sweep *sweep, const struct mk_table *table,
			const struct mk_tuple *key, struct mk_session *session,
			struct mk_error *err)
{
	bool changed;

	if (!read_again(table, key, session, &changed) || session->stage != MK_SESSION_MOVED)
		return 0;
	return remove_entry(sweep, table, key, UINT64_MAX, err);
}

/* Visit one entry. Returns 1 if it removed something. */
static int visit(struct mk_sweep *sweep, const struct mk_table *table, uint64_t now_ns,
		 const struct mk_tuple *key, struct mk_session *session, struct mk_error *err)
{
	enum verdict verdict;
	bool changed;
	int ret;

	if (session->stage == MK_SESSION_MOVED)
		return remove_moved(sweep, table, key, session, err);
	sweep->pass.seen++;
	sweep->totals.seen++;
	verdict = judge(sweep, table, now_ns, key, session);
	if (verdict != STAYS) {
		if (!read_again(table, key, session, &changed))
			return 0;
		if (changed)
			verdict = judge(sweep, table, now_ns, key, session);
	}
	if (verdict == STAYS)
		return stays(sweep, key, session);
	ret = remove_pair(sweep, table, key, session, verdict == CUT ? UINT64_MAX : now_ns, err);
	if (ret > 0) {
		(*(verdict == CUT ? &sweep->pass.cut : &sweep->pass.expired))++;
		(*(verdict == CUT ? &sweep->totals.cut : &sweep->totals.expired))++;
	}
	return ret;
}

/* Visit the last batch. If many entries are removed, the rest waits for the next step. */
static int visit_batch(struct mk_sweep *sweep, uint64_t now_ns, uint32_t *used, uint32_t budget,
		       struct mk_error *err)
{
	const struct mk_table *table = &sweep->options.tables[sweep->table];

	while (sweep->visited < sweep->count && *used < budget) {
		int at = sweep->visited++;
		int ret = visit(sweep, table, now_ns, &sweep->keys[at], &sweep->values[at], err);

		if (ret < 0)
			return ret;
		*used += ret > 0 ? REMOVAL_COST : 1;
	}
	return 0;
}

static void end_pass(struct mk_sweep *sweep)
{
	sweep->last_pass = sweep->pass;
	sweep->counts.busiest_nat_ports = nat_ports_busiest(&sweep->nat);
	sweep->last_census = sweep->counts;
	begin_pass(sweep);
}

static int read_batch(struct mk_sweep *sweep, struct mk_error *err)
{
	int count = mk_table_next(&sweep->options.tables[sweep->table], &sweep->cursor, sweep->keys,
				  sweep->values, BATCH, err);

	sweep->count = count > 0 ? count : 0;
	sweep->visited = 0;
	return count < 0 ? count : 0;
}

int mk_sweep_step(struct mk_sweep *sweep, uint64_t now_ns, uint32_t budget, struct mk_error *err)
{
	uint32_t used = 0;

	do {
		int ret = sweep->visited < sweep->count ? 0 : read_batch(sweep, err);

		ret = ret ?: visit_batch(sweep, now_ns, &used, budget, err);
		if (ret < 0 || sweep->visited < sweep->count)
			return ret;
		if (!sweep->cursor.done)
			continue;
		begin_table(sweep, sweep->table + 1);
		if (sweep->table < sweep->options.table_count)
			continue;
		end_pass(sweep);
		return 1;
	} while (used + BATCH / 2 <= budget); /* the kernel's batches are slightly smaller */
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "datapath/sweep.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/walk.h"
#include "monokube/idle.h"

#define BATCH	  4096 /* of 512 a pass takes a seventh longer */
#define SECOND_NS MK_SECOND_NS

#define REMOVAL_COST 8 /* of a pair, in entries that stay */

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

bool mk_session_expired(uint64_t now_ns, uint8_t proto, const struct mk_session *session,
			const struct mk_session *pair)
{
	uint64_t last_ns = session->last_seen_ns;

	if (pair && pair->last_seen_ns > last_ns)
		last_ns = pair->last_seen_ns;
	return idle_ns(now_ns, last_ns) >
	       mk_session_idle_limit_ns(proto, session->flags, pair ? pair->flags : 0);
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

/* Entries of one table, as whoever read them has laid them out. */
struct piece {
	struct mk_tuple *keys;
	struct mk_session *sessions;
	size_t key_stride, session_stride; /* bytes from one to the next */
	int count, visited;
	bool last; /* of its table */
};

struct mk_sweep {
	struct mk_sweep_options options;
	int table;
	struct mk_cursor cursor;
	struct mk_walker *walker; /* NULL: none is needed yet, or: */
	bool refused; /* the kernel can have none */
	bool by_program; /* this table */
	struct mk_walk_cursor walk_cursor;
	struct piece piece;
	struct mk_sweep_counts pass, last_pass, totals;
	struct mk_census census, last_census;
	struct mk_nat_census nat;
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
	if (sweep)
		mk_walker_free(sweep->walker);
	free(sweep);
}

static void begin_table(struct mk_sweep *sweep, int table)
{
	sweep->table = table;
	sweep->cursor = (struct mk_cursor){ 0 };
	sweep->walk_cursor = (struct mk_walk_cursor){ 0 };
	sweep->piece = (struct piece){ 0 };
}

static void begin_pass(struct mk_sweep *sweep)
{
	begin_table(sweep, 0);
	sweep->pass = (struct mk_sweep_counts){ 0 };
	sweep->census = (struct mk_census){ 0 };
	memset(&sweep->nat, 0, sizeof(sweep->nat));
}

const struct mk_sweep_counts *mk_sweep_last_pass(const struct mk_sweep *sweep)
{
	return &sweep->last_pass;
}

const struct mk_census *mk_sweep_census(const struct mk_sweep *sweep)
{
	return &sweep->last_census;
}

const struct mk_sweep_counts *mk_sweep_totals(const struct mk_sweep *sweep)
{
	return &sweep->totals;
}

/* Before Linux 5.14 in two steps. */
static int take(const struct mk_table *table, const struct mk_tuple *key, struct mk_session *held,
		struct mk_error *err)
{
	int ret = mk_table_take(table, key, held, err);

	if (ret != -EOPNOTSUPP)
		return ret;
	if (bpf_map_lookup_elem(table->fd, key, held) < 0)
		return 0;
	return mk_table_delete(table, key, err);
}

int mk_session_remove_old(const struct mk_table *table, const struct mk_tuple *key, uint64_t now_ns,
			  struct mk_session *held, struct mk_error *err)
{
	int ret = take(table, key, held, err);

	if (ret <= 0 || held->created_ns + SECOND_NS < now_ns)
		return ret;
	if (bpf_map_update_elem(table->fd, key, held, BPF_NOEXIST) < 0 && errno != EEXIST)
		return mk_error_errno(err, errno, "cannot put a session back into map '%s'",
				      table->name);
	return 0;
}

/* Returns 1 if @key was there. @now_ns: UINT64_MAX for one that goes however young it is. */
static int remove_entry(const struct mk_sweep *sweep, const struct mk_table *table,
			const struct mk_tuple *key, uint64_t now_ns, struct mk_error *err)
{
	struct mk_session held;
	int ret = mk_session_remove_old(table, key, now_ns, &held, err);

	if (ret > 0 && sweep->options.ended && held.account_id && held.packets)
		sweep->options.ended(sweep->options.ctx, &held);
	return ret;
}

/* Returns 1 if @key was there. */
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

/* The pair is only looked up when this entry alone could be over: a busy table costs no look-ups.
 * Its flags are taken for both directions here, which gives the shortest limit possible. */
static bool is_candidate(uint64_t now_ns, const struct mk_tuple *key,
			 const struct mk_session *session)
{
	return idle_ns(now_ns, session->last_seen_ns) >
	       mk_session_idle_limit_ns(key->proto, session->flags, session->flags);
}

static bool is_over(const struct mk_table *table, uint64_t now_ns, const struct mk_tuple *key,
		    const struct mk_session *session)
{
	struct mk_tuple pair_key = mk_session_pair_key(session);
	struct mk_session pair;
	bool has_pair;

	if (!is_candidate(now_ns, key, session))
		return false;
	has_pair = bpf_map_lookup_elem(table->fd, &pair_key, &pair) == 0;
	return mk_session_expired(now_ns, key->proto, session, has_pair ? &pair : NULL);
}

static int stays(struct mk_sweep *sweep, const struct mk_tuple *key,
		 const struct mk_session *session)
{
	mk_census_add(&sweep->census, &sweep->nat, sweep->table, key, session);
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
	return is_over(table, now_ns, key, session) ? OVER : STAYS;
}

/* Does a verdict say the same of both? */
static bool is_same(const struct mk_session *a, const struct mk_session *b)
{
	return a->created_ns == b->created_ns && a->last_seen_ns == b->last_seen_ns &&
	       a->flags == b->flags && a->service_id == b->service_id &&
	       a->account_id == b->account_id && memcmp(&a->to, &b->to, sizeof(a->to)) == 0;
}

/* The piece may be older than the entry's last packet, hold both entries of a pair, or a key with a session
 * that is another's (walk.h). Puts into *@session what is there now; returns false if nothing is. */
static bool read_again(const struct mk_table *table, const struct mk_tuple *key,
		       struct mk_session *session, bool *changed)
{
	const struct mk_session before = *session;

	if (bpf_map_lookup_elem(table->fd, key, session) < 0)
		return false;
	*changed = !is_same(&before, session);
	return true;
}

static int remove_moved(const struct mk_sweep *sweep, const struct mk_table *table,
			const struct mk_tuple *key, struct mk_session *session,
			struct mk_error *err)
{
	bool changed;

	if (!read_again(table, key, session, &changed) || !(session->flags & MK_SESSION_MOVED))
		return 0;
	return remove_entry(sweep, table, key, UINT64_MAX, err);
}

/* Returns 1 if it removed something. */
static int visit(struct mk_sweep *sweep, const struct mk_table *table, uint64_t now_ns,
		 const struct mk_tuple *key, struct mk_session *session, struct mk_error *err)
{
	enum verdict verdict;
	bool changed;
	int ret;

	if (session->flags & MK_SESSION_MOVED)
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

/* Entries of the piece that was read last; where many are removed, some are left for the next step. */
static int visit_piece(struct mk_sweep *sweep, uint64_t now_ns, uint32_t *used, uint32_t budget,
		       struct mk_error *err)
{
	const struct mk_table *table = &sweep->options.tables[sweep->table];
	struct piece *piece = &sweep->piece;

	while (piece->visited < piece->count && *used < budget) {
		size_t at = (size_t)piece->visited++;
		void *key = (char *)piece->keys + at * piece->key_stride;
		void *session = (char *)piece->sessions + at * piece->session_stride;
		int ret = visit(sweep, table, now_ns, key, session, err);

		if (ret < 0)
			return ret;
		*used += ret > 0 ? REMOVAL_COST : 1;
	}
	return 0;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int read_by_calls(struct mk_sweep *sweep, struct mk_error *err)
{
	int count = mk_table_next(&sweep->options.tables[sweep->table], &sweep->cursor, sweep->keys,
				  sweep->values, BATCH, err);

	sweep->piece = (struct piece){
		.keys = sweep->keys,
		.key_stride = sizeof(sweep->keys[0]),
		.sessions = sweep->values,
		.session_stride = sizeof(sweep->values[0]),
		.count = count > 0 ? count : 0,
		.last = sweep->cursor.done,
	};
	return count < 0 ? count : 0;
}

static int read_by_program(struct mk_sweep *sweep, struct mk_error *err)
{
	struct mk_walk_entry *entries;
	int count = mk_walker_next(sweep->walker, sweep->table, &sweep->walk_cursor, BATCH,
				   &entries, err);

	sweep->piece = (struct piece){
		.keys = &entries->key,
		.key_stride = sizeof(*entries),
		.sessions = &entries->session,
		.session_stride = sizeof(*entries),
		.count = count > 0 ? count : 0,
		.last = sweep->walk_cursor.done,
	};
	return count < 0 ? count : 0;
}

static void refuse(struct mk_sweep *sweep, const struct mk_error *why)
{
	mk_log_info(
		"sessions are many, and read by bpf_map_lookup_batch, which takes the agent twice "
		"the time of a program: %s",
		mk_error_text(why));
	mk_walker_free(sweep->walker);
	sweep->walker = NULL;
	sweep->refused = true;
}

static bool is_worth_a_program(const struct mk_sweep *sweep)
{
	uint64_t entries = sweep->last_census.entries[sweep->table];

	switch (sweep->options.reading) {
	case MK_SWEEP_BY_CALLS:
		return false;
	case MK_SWEEP_BY_PROGRAM:
		return true;
	case MK_SWEEP_AS_SUITS:
		break;
	}
	return entries >= MK_SWEEP_MANY &&
	       entries >= sweep->options.tables[sweep->table].max_entries / MK_SWEEP_FULL_BY;
}

static bool has_walker(struct mk_sweep *sweep)
{
	const struct mk_sweep_options *options = &sweep->options;
	struct mk_error err = { 0 };

	if (sweep->walker || sweep->refused)
		return sweep->walker;
	sweep->walker =
		mk_walker_open(options->tables, options->table_count, options->btf_path, &err);
	if (sweep->walker)
		mk_log_info("sessions are many, and read by a program");
	else
		refuse(sweep, &err);
	return sweep->walker;
}

/* Who has read the first piece of a table reads all of it. */
static int read_piece(struct mk_sweep *sweep, struct mk_error *err)
{
	struct mk_error why = { 0 };

	if (!sweep->cursor.started && !sweep->walk_cursor.bucket)
		sweep->by_program = is_worth_a_program(sweep) && has_walker(sweep);
	if (!sweep->by_program)
		return read_by_calls(sweep, err);
	if (read_by_program(sweep, &why) == 0)
		return 0;
	refuse(sweep, &why);
	sweep->by_program = false;
	begin_pass(sweep);
	return read_by_calls(sweep, err);
}

bool mk_sweep_by_program(const struct mk_sweep *sweep)
{
	return sweep->by_program;
}

static void end_pass(struct mk_sweep *sweep)
{
	sweep->last_pass = sweep->pass;
	sweep->census.busiest_nat_ports = mk_census_busiest(&sweep->nat);
	sweep->last_census = sweep->census;
	begin_pass(sweep);
}

int mk_sweep_step(struct mk_sweep *sweep, uint64_t now_ns, uint32_t budget, struct mk_error *err)
{
	const struct piece *piece = &sweep->piece;
	uint32_t used = 0;

	do {
		int ret = piece->visited < piece->count ? 0 : read_piece(sweep, err);

		if (ret == 0)
			ret = visit_piece(sweep, now_ns, &used, budget, err);
		if (ret < 0 || piece->visited < piece->count)
			return ret;
		if (!piece->last)
			continue;
		begin_table(sweep, sweep->table + 1);
		if (sweep->table < sweep->options.table_count)
			continue;
		end_pass(sweep);
		return 1;
	} while (used + BATCH / 2 <= budget); /* the kernel's pieces are a little smaller */
	return 0;
}

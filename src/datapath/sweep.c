// SPDX-License-Identifier: Apache-2.0
#include "datapath/sweep.h"

#include <bpf/bpf.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define BATCH	  4096 /* of 512 a pass takes a seventh longer */
#define SECOND_NS 1000000000ULL

/* ---- rules ---------------------------------------------------------------------------------- */

static uint64_t tcp_limit_s(uint8_t flags, uint8_t pair_flags)
{
	uint8_t either = flags | pair_flags;

	if (either & MK_SESSION_RST || flags & pair_flags & MK_SESSION_FIN)
		return 10;
	if (!(either & MK_SESSION_OPEN))
		return 120;
	return either & MK_SESSION_FIN ? 3600 : 24 * 3600;
}

static uint64_t sctp_limit_s(uint8_t flags, uint8_t pair_flags)
{
	uint8_t either = flags | pair_flags;

	if (either & MK_SESSION_RST || flags & pair_flags & MK_SESSION_FIN)
		return 10;
	return either & MK_SESSION_OPEN ? 600 : 120;
}

uint64_t mk_session_idle_limit_ns(uint8_t proto, uint8_t flags, uint8_t pair_flags)
{
	switch (proto) {
	case IPPROTO_TCP:
		return tcp_limit_s(flags, pair_flags) * SECOND_NS;
	case IPPROTO_SCTP:
		return sctp_limit_s(flags, pair_flags) * SECOND_NS;
	case IPPROTO_UDP:
		return 120 * SECOND_NS;
	case IPPROTO_ICMP:
		return 30 * SECOND_NS;
	default:
		return 600 * SECOND_NS;
	}
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

struct mk_sweep {
	struct mk_sweep_options options;
	int table;
	struct mk_cursor cursor;
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
	free(sweep);
}

static void begin_pass(struct mk_sweep *sweep)
{
	sweep->table = 0;
	sweep->cursor = (struct mk_cursor){ 0 };
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

/* What a Service's entry holds is read again: the batch is older than its last packet may be. */
static int delete_entry(const struct mk_sweep *sweep, const struct mk_table *table,
			const struct mk_tuple *key, bool counted, struct mk_error *err)
{
	struct mk_session last = { 0 };
	int ret;

	if (counted && sweep->options.ended && bpf_map_lookup_elem(table->fd, key, &last) < 0)
		last.packets = 0;
	ret = mk_table_delete(table, key, err);
	if (ret > 0 && last.packets)
		sweep->options.ended(sweep->options.ctx, &last);
	return ret;
}

/* Returns 1 if @key was there. One batch may hold both entries of a pair: the second visit finds
 * nothing left. */
static int delete_pair(const struct mk_sweep *sweep, const struct mk_table *table,
		       const struct mk_tuple *key, const struct mk_session *session,
		       struct mk_error *err)
{
	struct mk_tuple pair_key = mk_session_pair_key(session);
	int found = delete_entry(sweep, table, key, session->account_id, err);
	int ret =
		found < 0 ? found : delete_entry(sweep, table, &pair_key, session->account_id, err);

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

static int visit(struct mk_sweep *sweep, const struct mk_table *table, uint64_t now_ns,
		 const struct mk_tuple *key, const struct mk_session *session, struct mk_error *err)
{
	uint64_t *counter, *total;
	int ret;

	if (session->flags & MK_SESSION_MOVED) {
		ret = delete_entry(sweep, table, key, session->account_id, err);
		return ret < 0 ? ret : 0;
	}
	sweep->pass.seen++;
	sweep->totals.seen++;
	if (sweep->options.cut && sweep->options.cut(sweep->options.ctx, key, session))
		counter = &sweep->pass.cut, total = &sweep->totals.cut;
	else if (is_over(table, now_ns, key, session))
		counter = &sweep->pass.expired, total = &sweep->totals.expired;
	else
		return stays(sweep, key, session);
	ret = delete_pair(sweep, table, key, session, err);
	if (ret > 0) {
		(*counter)++;
		(*total)++;
	}
	return ret < 0 ? ret : 0;
}

/* One batch of the current table. Returns the number of entries, or an error. */
static int batch(struct mk_sweep *sweep, uint64_t now_ns, struct mk_error *err)
{
	const struct mk_table *table = &sweep->options.tables[sweep->table];
	int count = mk_table_next(table, &sweep->cursor, sweep->keys, sweep->values, BATCH, err);

	for (int i = 0; i < count; i++) {
		int ret = visit(sweep, table, now_ns, &sweep->keys[i], &sweep->values[i], err);

		if (ret < 0)
			return ret;
	}
	return count;
}

int mk_sweep_step(struct mk_sweep *sweep, uint64_t now_ns, uint32_t budget, struct mk_error *err)
{
	uint32_t used = 0;

	do {
		int count = batch(sweep, now_ns, err);

		if (count < 0)
			return count;
		used += (uint32_t)count;
		if (!sweep->cursor.done)
			continue;
		sweep->cursor = (struct mk_cursor){ 0 };
		if (++sweep->table < sweep->options.table_count)
			continue;
		sweep->last_pass = sweep->pass;
		sweep->census.busiest_nat_ports = mk_census_busiest(&sweep->nat);
		sweep->last_census = sweep->census;
		begin_pass(sweep);
		return 1;
	} while (used + BATCH / 2 <= budget); /* the kernel's pieces are a little smaller */
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "datapath/services/counters.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define BATCH 1024

int mk_counters_open(struct mk_counter_tables *tables, const char *bpf_dir, struct mk_error *err)
{
	const size_t counter = sizeof(struct mk_service_counter);
	int ret;

	*tables = (struct mk_counter_tables){ { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };
	ret = mk_table_open(&tables->live, bpf_dir, "service_counters", sizeof(__u32), counter,
			    err);
	if (ret == 0)
		ret = mk_table_open(&tables->ended, bpf_dir, "service_counters_ended",
				    sizeof(__u32), counter, err);
	if (ret == 0)
		ret = mk_table_open(&tables->drops, bpf_dir, "service_drops",
				    sizeof(struct mk_service_drop_key), sizeof(__u64), err);
	if (ret < 0)
		mk_counters_close(tables);
	return ret;
}

void mk_counters_close(struct mk_counter_tables *tables)
{
	mk_table_close(&tables->live);
	mk_table_close(&tables->ended);
	mk_table_close(&tables->drops);
}

/* ---- reading a table ------------------------------------------------------------------------- */

struct rows {
	char *keys, *values; /* owned */
	size_t count;
};

static void rows_release(struct rows *rows)
{
	free(rows->keys);
	free(rows->values);
}

static int rows_grow(const struct mk_table *table, struct rows *rows, struct mk_error *err)
{
	size_t room = rows->count + BATCH;
	char *keys = reallocarray(rows->keys, room, table->key_size), *values;

	if (keys)
		rows->keys = keys;
	values = keys ? reallocarray(rows->values, room, table->value_size) : NULL;
	if (!values)
		return mk_error_errno(err, ENOMEM, "cannot read map '%s'", table->name);
	rows->values = values;
	return 0;
}

/* Read all rows. Call rows_release() even after an error. */
static int rows_read(const struct mk_table *table, struct rows *rows, struct mk_error *err)
{
	struct mk_cursor cursor = { 0 };

	*rows = (struct rows){ 0 };
	while (!cursor.done) {
		int count = rows_grow(table, rows, err);

		if (count == 0)
			count = mk_table_next(table, &cursor,
					      rows->keys + rows->count * table->key_size,
					      rows->values + rows->count * table->value_size, BATCH,
					      err);
		if (count < 0)
			return count;
		rows->count += (size_t)count;
	}
	return 0;
}

/* ---- services -------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static size_t sort_unique(uint32_t *ids, size_t count)
{
	size_t kept = 0;

	qsort(ids, count, sizeof(*ids), compare_ids);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || ids[kept - 1] != ids[i])
			ids[kept++] = ids[i];
	return kept;
}

static uint32_t drop_service_id(const struct rows *drops, size_t i)
{
	return ((const struct mk_service_drop_key *)(const void *)drops->keys)[i].service_id;
}

/* Return a zeroed record for each Service in the rows, sorted. */
static struct mk_service_totals *totals_new(const struct rows *live, const struct rows *ended,
					    const struct rows *drops, size_t *count)
{
	cleanup_free uint32_t *ids =
		calloc(live->count + ended->count + drops->count + 1, sizeof(*ids));
	struct mk_service_totals *totals;
	size_t used = live->count + ended->count;

	if (!ids)
		return NULL;
	if (live->count)
		memcpy(ids, live->keys, live->count * sizeof(*ids));
	if (ended->count)
		memcpy(ids + live->count, ended->keys, ended->count * sizeof(*ids));
	for (size_t i = 0; i < drops->count; i++)
		ids[used++] = drop_service_id(drops, i);
	*count = sort_unique(ids, used);
	totals = calloc(*count + 1, sizeof(*totals));
	for (size_t i = 0; totals && i < *count; i++)
		totals[i].service_id = ids[i];
	return totals;
}

static struct mk_service_totals *find(struct mk_service_totals *totals, size_t count,
				      uint32_t service_id)
{
	/* service_id is the first member */
	return bsearch(&service_id, totals, count, sizeof(*totals), compare_ids);
}

const struct mk_service_totals *mk_counters_find(const struct mk_service_totals *totals,
						 size_t count, uint32_t service_id)
{
	return count ? bsearch(&service_id, totals, count, sizeof(*totals), compare_ids) : NULL;
}

static void add(struct mk_service_counter *sum, const struct mk_service_counter *more)
{
	sum->connections += more->connections;
	for (int i = 0; i < MK_FLOW_DIRECTIONS; i++) {
		sum->packets[i] += more->packets[i];
		sum->bytes[i] += more->bytes[i];
	}
}

static void add_counters(struct mk_service_totals *totals, size_t count, const struct rows *rows)
{
	const uint32_t *ids = (const void *)rows->keys;
	const struct mk_service_counter *counters = (const void *)rows->values;

	for (size_t i = 0; i < rows->count; i++)
		add(&find(totals, count, ids[i])->counter, &counters[i]);
}

static void add_drops(struct mk_service_totals *totals, size_t count, const struct rows *rows)
{
	const struct mk_service_drop_key *keys = (const void *)rows->keys;
	const __u64 *packets = (const void *)rows->values;

	for (size_t i = 0; i < rows->count; i++)
		if (keys[i].reason < MK_DROP_COUNT) /* otherwise a newer version's */
			find(totals, count, keys[i].service_id)->drops[keys[i].reason] = packets[i];
}

int mk_counters_read(const struct mk_counter_tables *tables, struct mk_service_totals **totals,
		     size_t *count, struct mk_error *err)
{
	struct rows live = { 0 }, ended = { 0 }, drops = { 0 };
	int ret = rows_read(&tables->live, &live, err);

	if (ret == 0)
		ret = rows_read(&tables->ended, &ended, err);
	if (ret == 0)
		ret = rows_read(&tables->drops, &drops, err);
	if (ret == 0) {
		*totals = totals_new(&live, &ended, &drops, count);
		if (!*totals)
			ret = mk_error_errno(err, ENOMEM, "cannot read the Services' counters");
	}
	if (ret == 0) {
		add_counters(*totals, *count, &live);
		add_counters(*totals, *count, &ended);
		add_drops(*totals, *count, &drops);
	}
	rows_release(&live);
	rows_release(&ended);
	rows_release(&drops);
	return ret;
}

/* ---- counts of ended sessions ---------------------------------------------------------------- */

int mk_counters_add_ended(const struct mk_counter_tables *tables, const struct mk_session *session,
			  struct mk_error *err)
{
	int direction = session->flags & MK_SESSION_FORWARD ? MK_FLOW_REQUEST : MK_FLOW_REPLY;
	struct mk_service_counter counter = { 0 };
	int ret;

	if (session->service_id == 0 || (session->packets == 0 && session->bytes == 0))
		return 0;
	ret = mk_table_get(&tables->ended, &session->service_id, &counter, err);
	if (ret < 0 && ret != -ENOENT)
		return ret;
	/* may be negative if two CPUs add at once: bpf/account.h */
	counter.packets[direction] += (uint64_t)(int64_t)(int32_t)session->packets;
	counter.bytes[direction] += session->bytes;
	return mk_table_put(&tables->ended, &session->service_id, &counter, err);
}

static int read_service_ids(const struct mk_table *services, uint32_t **ids, size_t *count,
			    struct mk_error *err)
{
	struct rows rows = { 0 };
	int ret = rows_read(services, &rows, err);
	const struct mk_frontend *frontends = (const void *)rows.values;

	if (ret == 0) {
		*ids = calloc(rows.count + 1, sizeof(**ids));
		if (!*ids)
			ret = mk_error_errno(err, ENOMEM, "cannot read map '%s'", services->name);
	}
	for (size_t i = 0; ret == 0 && i < rows.count; i++)
		(*ids)[i] = frontends[i].service_id;
	if (ret == 0)
		*count = sort_unique(*ids, rows.count);
	rows_release(&rows);
	return ret;
}

/* Remove rows of unknown Services. The keys of @table begin with service_id. */
static int prune_table(const struct mk_table *table, const uint32_t *ids, size_t count,
		       struct mk_error *err)
{
	struct rows rows = { 0 };
	int removed = 0, ret = rows_read(table, &rows, err);

	for (size_t i = 0; ret == 0 && i < rows.count; i++) {
		const void *key = rows.keys + i * table->key_size;

		if (bsearch(key, ids, count, sizeof(*ids), compare_ids))
			continue;
		ret = mk_table_delete(table, key, err);
		if (ret > 0) {
			removed++;
			ret = 0;
		}
	}
	rows_release(&rows);
	return ret < 0 ? ret : removed;
}

int mk_counters_prune(const struct mk_counter_tables *tables, const struct mk_table *services,
		      struct mk_error *err)
{
	const struct mk_table *const all[] = { &tables->live, &tables->ended, &tables->drops };
	cleanup_free uint32_t *ids = NULL;
	size_t count = 0;
	int removed = 0, ret = read_service_ids(services, &ids, &count, err);

	for (size_t i = 0; ret >= 0 && i < MK_ARRAY_SIZE(all); i++) {
		ret = prune_table(all[i], ids, count, err);
		removed += ret > 0 ? ret : 0;
	}
	return ret < 0 ? ret : removed;
}

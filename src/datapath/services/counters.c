// SPDX-License-Identifier: Apache-2.0
#include "datapath/services/counters.h"

#include <stdlib.h>
#include <uthash.h>

#include "base/cleanup.h"

int mk_counters_open(struct mk_counter_tables *tables, const char *bpf_dir, struct mk_error *err)
{
	const size_t counter = sizeof(struct mk_service_counter);
	int ret;

	*tables = (struct mk_counter_tables){ 0 };
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

/* ---- services -------------------------------------------------------------------------------- */

/* The totals of one Service, or only its id. */
struct record {
	struct mk_service_totals totals;
	UT_hash_handle hh;
};

static struct record *record_of(struct record **records, uint32_t service_id, struct mk_error *err)
{
	struct record *record;

	HASH_FIND(hh, *records, &service_id, sizeof(service_id), record);
	if (record)
		return record;
	record = calloc(1, sizeof(*record));
	if (!record) {
		(void)mk_error_errno(err, ENOMEM, "cannot read the Services' counters");
		return NULL;
	}
	record->totals.service_id = service_id;
	HASH_ADD(hh, *records, totals.service_id, sizeof(service_id), record);
	return record;
}

static void records_free(struct record **records)
{
	struct record *record, *next;

	HASH_ITER(hh, *records, record, next) {
		HASH_DEL(*records, record);
		free(record);
	}
}
#define cleanup_records __attribute__((cleanup(records_free)))

const struct mk_service_totals *mk_counters_find(const struct mk_service_totals *totals,
						 size_t count, uint32_t service_id)
{
	return mk_find(&service_id, totals, count, mk_compare_ids);
}

static void add(struct mk_service_counter *sum, const struct mk_service_counter *more)
{
	sum->connections += more->connections;
	for (int i = 0; i < MK_FLOW_DIRECTIONS; i++) {
		sum->packets[i] += more->packets[i];
		sum->bytes[i] += more->bytes[i];
	}
}

void mk_counters_add(struct mk_service_totals *sum, const struct mk_service_totals *more)
{
	add(&sum->counter, &more->counter);
	for (unsigned int reason = 0; reason < MK_DROP_COUNT; reason++)
		sum->drops[reason] += more->drops[reason];
}

static int add_counter(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct record *record = record_of(ctx, *(const __u32 *)key, err);

	if (!record)
		return -ENOMEM;
	add(&record->totals.counter, value);
	return 0;
}

static int add_drops(void *ctx, const void *key_, const void *value, struct mk_error *err)
{
	const struct mk_service_drop_key *key = key_;
	struct record *record = record_of(ctx, key->service_id, err);

	if (!record)
		return -ENOMEM;
	if (key->reason < MK_DROP_COUNT) /* otherwise a newer version's */
		record->totals.drops[key->reason] = *(const __u64 *)value;
	return 0;
}

int mk_counters_read(const struct mk_counter_tables *tables, struct mk_service_totals **totals,
		     size_t *count, struct mk_error *err)
{
	cleanup_records struct record *records = NULL;
	int ret = mk_table_each(&tables->live, add_counter, &records, err);

	ret = ret ?: mk_table_each(&tables->ended, add_counter, &records, err);
	ret = ret ?: mk_table_each(&tables->drops, add_drops, &records, err);
	if (ret < 0)
		return ret;
	*count = 0;
	*totals = calloc(HASH_COUNT(records) + 1, sizeof(**totals));
	if (!*totals)
		return mk_error_errno(err, ENOMEM, "cannot read the Services' counters");
	for (const struct record *record = records; record; record = record->hh.next)
		(*totals)[(*count)++] = record->totals;
	qsort(*totals, *count, sizeof(**totals), mk_compare_ids);
	return 0;
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

static int know_service(void *ctx, const void *key, const void *frontend, struct mk_error *err)
{
	(void)key;
	return record_of(ctx, ((const struct mk_frontend *)frontend)->service_id, err) ? 0
										       : -ENOMEM;
}

/* Remove rows of unknown Services. The keys of @table begin with service_id. */
static int prune_table(const struct mk_table *table, const struct record *known,
		       struct mk_error *err)
{
	cleanup_free void *keys = NULL;
	size_t count;
	int removed = 0, ret = mk_table_keys(table, &keys, &count, err);

	for (size_t i = 0; ret >= 0 && i < count; i++) {
		const char *key = (char *)keys + i * table->key_size;
		const struct record *record;

		HASH_FIND(hh, known, key, sizeof(__u32), record);
		ret = record ? 0 : mk_table_delete(table, key, err);
		removed += ret > 0;
	}
	return ret < 0 ? ret : removed;
}

int mk_counters_prune(const struct mk_counter_tables *tables, const struct mk_table *services,
		      struct mk_error *err)
{
	const struct mk_table *const all[] = { &tables->live, &tables->ended, &tables->drops };
	cleanup_records struct record *known = NULL;
	int removed = 0, ret = mk_table_each(services, know_service, &known, err);

	for (size_t i = 0; ret >= 0 && i < MK_ARRAY_SIZE(all); i++) {
		ret = prune_table(all[i], known, err);
		removed += ret > 0 ? ret : 0;
	}
	return ret < 0 ? ret : removed;
}

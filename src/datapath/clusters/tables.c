// SPDX-License-Identifier: Apache-2.0
#include "datapath/clusters/tables.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"

enum { CLUSTERS, NODES, CARRIERS, EXPORTS, COUNTERS, SETS };

/* An entry of any of the tables. Counters have no value here. */
struct entry {
	uint8_t key[20];
	uint8_t value[64];
};
_Static_assert(sizeof(struct mk_cluster) <= sizeof(((struct entry *)0)->value), "it fits");
_Static_assert(sizeof(struct mk_export) <= sizeof(((struct entry *)0)->key), "it fits");

/* A table as last read or written, or as it should be. */
struct set {
	struct entry *of; /* by key, in memcmp(3) order */
	size_t count;
};

struct mk_clusters_sync {
	const struct mk_clusters_tables *tables;
	struct set sets[SETS];
	bool is_known; /* the sets are what the tables have */
};

struct applying {
	struct mk_clusters_sync *sync;
	struct set wanted[SETS];
	struct mk_clusters_counts *counts;
	struct mk_error *err;
};

static const struct mk_table *table_of(const struct mk_clusters_sync *sync, int set)
{
	const struct mk_table *const tables[SETS] = {
		[CLUSTERS] = &sync->tables->clusters, [NODES] = &sync->tables->nodes,
		[CARRIERS] = &sync->tables->carriers, [EXPORTS] = &sync->tables->exports,
		[COUNTERS] = &sync->tables->counters,
	};

	return tables[set];
}

/* ---- sets ------------------------------------------------------------------------------------ */

static int compare(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return memcmp(a->key, b->key, sizeof(a->key));
}

static void sort(struct set *set)
{
	if (set->count)
		qsort(set->of, set->count, sizeof(*set->of), compare);
}

static struct entry *find(const struct set *set, const struct entry *entry)
{
	return mk_find(entry, set->of, set->count, compare);
}

/* The place of the first entry that is not before @entry. */
static size_t lower_bound(const struct set *set, const struct entry *entry)
{
	size_t low = 0, high = set->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare(&set->of[middle], entry) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool has(const struct set *set, const struct entry *entry)
{
	const struct entry *found = find(set, entry);

	return found && memcmp(found->value, entry->value, sizeof(found->value)) == 0;
}

static void release(struct set *sets)
{
	for (int i = 0; i < SETS; i++)
		free(sets[i].of);
	memset(sets, 0, SETS * sizeof(*sets));
}

static int add(struct set *set, const void *key, size_t key_bytes, const void *value,
	       size_t value_bytes, struct mk_error *err)
{
	struct entry *added = mk_append(set->of, set->count);

	if (!added)
		return mk_error_errno(err, ENOMEM, "cannot compute the tables of clusters");
	memcpy(added->key, key, key_bytes);
	if (value_bytes)
		memcpy(added->value, value, value_bytes);
	return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reading {
	const struct mk_table *table;
	struct set *set;
};

static int read_entry(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct reading *reading = ctx;

	return add(reading->set, key, reading->table->key_size, value, reading->table->value_size,
		   err);
}

static int read_counters(const struct mk_table *table, struct set *set, struct mk_error *err)
{
	cleanup_free void *keys = NULL;
	size_t count;
	int ret = mk_table_keys(table, &keys, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = add(set, (uint32_t *)keys + i, sizeof(uint32_t), NULL, 0, err);
	return ret;
}

/* Read all tables into @sets, which are empty. The caller releases them. */
static int read_sets(const struct mk_clusters_sync *sync, struct set *sets, struct mk_error *err)
{
	int ret = read_counters(table_of(sync, COUNTERS), &sets[COUNTERS], err);

	for (int i = 0; ret == 0 && i < COUNTERS; i++) {
		struct reading reading = { table_of(sync, i), &sets[i] };

		ret = mk_table_each(reading.table, read_entry, &reading, err);
	}
	for (int i = 0; i < SETS; i++)
		sort(&sets[i]);
	return ret;
}

static int read_again(struct mk_clusters_sync *sync, struct mk_error *err)
{
	struct set now[SETS] = { 0 };
	int ret = read_sets(sync, now, err);

	if (ret < 0) {
		release(now);
		return ret;
	}
	release(sync->sets);
	memcpy(sync->sets, now, sizeof(now));
	sync->is_known = true;
	return 0;
}

struct mk_clusters_sync *mk_clusters_sync_new(const struct mk_clusters_tables *tables,
					      struct mk_error *err)
{
	struct mk_clusters_sync *sync =
		mk_new(sizeof(*sync), "cannot read the tables of clusters", err);

	if (!sync)
		return NULL;
	sync->tables = tables;
	if (read_again(sync, err) == 0)
		return sync;
	mk_clusters_sync_free(sync);
	return NULL;
}

void mk_clusters_sync_free(struct mk_clusters_sync *sync)
{
	if (!sync)
		return;
	release(sync->sets);
	free(sync);
}

bool mk_clusters_sync_is_empty(const struct mk_clusters_sync *sync)
{
	size_t count = 0;

	for (int i = 0; i < SETS; i++)
		count += sync->sets[i].count;
	return count == 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int want(struct set *wanted, const struct mk_clusters_rows *rows, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < rows->cluster_count; i++) {
		const struct mk_clusters_cluster *of = &rows->clusters[i];

		ret = add(&wanted[CLUSTERS], &of->number, sizeof(uint32_t), &of->row,
			  sizeof(of->row), err);
		if (ret == 0 && !(of->number & MK_CLUSTER_EXTERNAL))
			ret = add(&wanted[COUNTERS], &of->number, sizeof(uint32_t), NULL, 0, err);
	}
	for (size_t i = 0; ret == 0 && i < rows->node_count; i++)
		ret = add(&wanted[NODES], &rows->nodes[i].key, sizeof(rows->nodes[i].key),
			  &rows->nodes[i].hop, sizeof(rows->nodes[i].hop), err);
	for (size_t i = 0; ret == 0 && i < rows->carrier_count; i++)
		ret = add(&wanted[CARRIERS], &rows->carriers[i].addr,
			  sizeof(rows->carriers[i].addr), &rows->carriers[i].number,
			  sizeof(rows->carriers[i].number), err);
	for (int i = 0; i < SETS; i++)
		sort(&wanted[i]);
	return ret;
}

static int put_entry(const struct applying *apply, int set, const struct entry *entry)
{
	const struct mk_table *table = table_of(apply->sync, set);
	cleanup_free struct mk_cluster_counters *zeros = NULL;

	if (set != COUNTERS)
		return mk_table_put(table, entry->key, entry->value, apply->err);
	zeros = calloc(mk_table_cpus(), sizeof(*zeros));
	return zeros ? mk_table_put(table, entry->key, zeros, apply->err)
		     : mk_error_errno(apply->err, ENOMEM, "cannot count a cluster's packets");
}

/* Write the entries of @set that are not as wanted. */
static int put(const struct applying *apply, int set)
{
	const struct set *wanted = &apply->wanted[set];
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < wanted->count; i++) {
		if (has(&apply->sync->sets[set], &wanted->of[i]))
			continue;
		ret = put_entry(apply, set, &wanted->of[i]);
		apply->counts->put += ret == 0;
	}
	return ret;
}

/* Must the row vanish before the other tables change? */
typedef bool is_gone_fn(const struct applying *apply, int set, const struct entry *entry);

static bool is_unwanted(const struct applying *apply, int set, const struct entry *entry)
{
	return !find(&apply->wanted[set], entry);
}

/* Are the networks of a cluster others than those of its row? Another way is written over it. */
static bool is_another(const struct applying *apply, int set, const struct entry *entry)
{
	const struct entry *found = find(&apply->wanted[set], entry);
	struct mk_cluster now, then;

	if (!found)
		return true;
	memcpy(&now, entry->value, sizeof(now));
	memcpy(&then, found->value, sizeof(then));
	return memcmp(&now, &then, offsetof(struct mk_cluster, via)) != 0;
}

static int delete_if(const struct applying *apply, int set, is_gone_fn *is_gone)
{
	struct set *have = &apply->sync->sets[set];
	size_t kept = 0;
	int ret = 0;

	for (size_t i = 0; i < have->count; i++) {
		if (ret >= 0 && is_gone(apply, set, &have->of[i])) {
			ret = mk_table_delete(table_of(apply->sync, set), have->of[i].key,
					      apply->err);
			apply->counts->deleted += ret > 0;
			if (ret >= 0)
				continue;
		}
		have->of[kept++] = have->of[i];
	}
	have->count = kept;
	return ret < 0 ? ret : 0;
}

static int write_all(const struct applying *apply)
{
	int ret = delete_if(apply, CLUSTERS, is_another);

	ret = ret ?: delete_if(apply, CARRIERS, is_unwanted);
	/* the map would be full otherwise */
	if (ret == 0 &&
	    apply->sync->sets[NODES].count + apply->wanted[NODES].count > MK_CLUSTER_NODES)
		ret = delete_if(apply, NODES, is_unwanted);
	if (ret == 0 &&
	    apply->sync->sets[COUNTERS].count + apply->wanted[COUNTERS].count > MK_CLUSTERS)
		ret = delete_if(apply, COUNTERS, is_unwanted);
	ret = ret ?: put(apply, COUNTERS);
	ret = ret ?: put(apply, NODES);
	ret = ret ?: put(apply, CARRIERS);
	ret = ret ?: put(apply, CLUSTERS);
	ret = ret ?: delete_if(apply, NODES, is_unwanted);
	return ret ?: delete_if(apply, COUNTERS, is_unwanted);
}

/* The table has the wanted entries of @set now. */
static void adopt(struct applying *apply, int set)
{
	free(apply->sync->sets[set].of);
	apply->sync->sets[set] = apply->wanted[set];
	apply->wanted[set] = (struct set){ 0 };
}

int mk_clusters_sync_apply(struct mk_clusters_sync *sync, const struct mk_clusters_rows *rows,
			   struct mk_clusters_counts *counts, struct mk_error *err)
{
	struct applying apply = { .sync = sync, .counts = counts, .err = err };
	int ret = sync->is_known ? 0 : read_again(sync, err);

	ret = ret ?: want(apply.wanted, rows, err);
	if (ret == 0) {
		sync->is_known = false;
		ret = write_all(&apply);
	}
	if (ret == 0) {
		for (int i = 0; i < SETS; i++)
			if (i != EXPORTS)
				adopt(&apply, i);
		sync->is_known = true;
	}
	release(apply.wanted);
	return ret < 0 ? ret : 0;
}

/* Returns how many rows do not fit. */
static size_t unite(struct set *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->count; i++)
		if (i == 0 || compare(&set->of[kept - 1], &set->of[i]) != 0)
			set->of[kept++] = set->of[i];
	set->count = kept < MK_EXPORTS ? kept : MK_EXPORTS;
	return kept - set->count;
}

int mk_clusters_sync_exports(struct mk_clusters_sync *sync, const struct mk_clusters_export *rows,
			     size_t count, struct mk_clusters_counts *counts, struct mk_error *err)
{
	struct applying apply = { .sync = sync, .counts = counts, .err = err };
	struct set *wanted = &apply.wanted[EXPORTS];
	int ret = sync->is_known ? 0 : read_again(sync, err);

	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = add(wanted, &rows[i].key, sizeof(rows[i].key), &rows[i].target,
			  sizeof(rows[i].target), err);
	if (ret == 0) {
		sort(wanted);
		counts->left_out += unite(wanted);
		sync->is_known = false;
		ret = delete_if(&apply, EXPORTS, is_unwanted) ?: put(&apply, EXPORTS);
	}
	if (ret == 0) {
		adopt(&apply, EXPORTS);
		sync->is_known = true;
	}
	release(apply.wanted);
	return ret < 0 ? ret : 0;
}

/* ---- reading back ---------------------------------------------------------------------------- */

/* Return how many entries of @set are missing in @now or have another value there, or are new. */
static int changes_of(const struct set *set, const struct set *now)
{
	int changes = 0;

	for (size_t i = 0; i < set->count; i++)
		changes += !has(now, &set->of[i]);
	for (size_t i = 0; i < now->count; i++)
		changes += !find(set, &now->of[i]);
	return changes;
}

int mk_clusters_sync_reconcile(struct mk_clusters_sync *sync, struct mk_error *err)
{
	struct set now[SETS] = { 0 };
	int ret = read_sets(sync, now, err), changes = 0;

	if (ret < 0) {
		release(now);
		return ret;
	}
	for (int i = 0; sync->is_known && i < SETS; i++) {
		int of_map = changes_of(&sync->sets[i], &now[i]);

		if (of_map)
			mk_log_warn(
				"entries were changed by another process and are written again map=%s entries=%d",
				table_of(sync, i)->name, of_map);
		changes += of_map;
	}
	release(sync->sets);
	memcpy(sync->sets, now, sizeof(now));
	sync->is_known = true;
	return changes;
}

bool mk_clusters_sync_sends_to(const struct mk_clusters_sync *sync,
			       const struct mk_cluster_node_key *key)
{
	struct entry entry = { 0 };
	const struct entry *found;
	uint32_t hop = MK_CLUSTER_HOP_TRIAL;

	memcpy(entry.key, key, sizeof(*key));
	found = find(&sync->sets[NODES], &entry);
	if (found)
		memcpy(&hop, found->value, sizeof(hop));
	return !(hop & MK_CLUSTER_HOP_TRIAL);
}

uint16_t mk_clusters_sync_mtu(const struct mk_clusters_sync *sync, uint32_t number)
{
	struct entry entry = { 0 };
	const struct entry *found;
	struct mk_cluster row = { 0 };

	memcpy(entry.key, &number, sizeof(number));
	found = find(&sync->sets[CLUSTERS], &entry);
	if (found)
		memcpy(&row, found->value, sizeof(row));
	return row.mtu_bytes;
}

bool mk_clusters_sync_spreads_to(const struct mk_clusters_sync *sync, uint32_t number, uint32_t hop)
{
	const struct set *set = &sync->sets[NODES];
	struct entry first = { 0 };
	size_t at, count = 0;

	memcpy(first.key, &number, sizeof(number));
	for (at = lower_bound(set, &first); at < set->count; at++) {
		struct mk_cluster_node_key key;
		uint32_t value;

		memcpy(&key, set->of[at].key, sizeof(key));
		memcpy(&value, set->of[at].value, sizeof(value));
		if (key.cluster != number)
			break;
		if (!(key.index & MK_CLUSTER_BY_INDEX))
			continue;
		if (value == hop)
			return true;
		count++;
	}
	return count == 0;
}

int mk_clusters_sync_counters(const struct mk_clusters_sync *sync, uint32_t number,
			      struct mk_cluster_counters *counters, struct mk_error *err)
{
	struct mk_error why = { 0 };
	int ret;

	*counters = (struct mk_cluster_counters){ 0 };
	ret = mk_table_sum(&sync->tables->counters, &number, counters, &why);
	if (ret < 0 && ret != -ENOENT) {
		*err = why;
		return ret;
	}
	return 0;
}

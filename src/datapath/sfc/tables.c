// SPDX-License-Identifier: Apache-2.0
#include "datapath/sfc/tables.h"

#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/sfc/tables_internal.h"

/* ---- images ---------------------------------------------------------------------------------- */

static bool is_zero(const void *row, size_t bytes)
{
	const char *at = row;

	return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

/* Clear the member that programs write, before rows are compared. */
static void forget_programs(const struct sfc_image *image, void *row)
{
	if (image->programs_at)
		memset((char *)row + image->programs_at, 0, sizeof(uint32_t));
}

static void image_set(struct sfc_image *image, size_t number, const void *row)
{
	memcpy(image_row(image, number), row, image->table->value_size);
	forget_programs(image, image_row(image, number));
	if (number >= image->top && !is_zero(row, image->table->value_size))
		image->top = number + 1;
}

/* Pages of rows that are never used take no memory. */
static bool make(struct mk_sfc_sync *sync, const struct mk_sfc_tables *tables)
{
	const struct sfc_image images[SFC_MAPS] = {
		[SFC_CHAINS] = { .table = &tables->chains, .room = MK_SFC_CHAINS },
		[SFC_FUNCTIONS] = { .table = &tables->functions,
				    .room = MK_SFC_FUNCTIONS_ALL,
				    .is_hash = true },
		[SFC_REPLICAS] = { .table = &tables->replicas,
				   .room = MK_SFC_REPLICAS,
				   .programs_at = offsetof(struct mk_sfc_replica, back_ms) },
	};

	sync->tables = tables;
	sync->family = mk_table_family(&tables->replicas);
	sync->counter = calloc(mk_table_cpus(), sizeof(struct mk_sfc_counters));
	sync->sets[SFC_PORTS] = (struct sfc_set){ .table = &tables->ports, .room = MK_SFC_PORTS };
	sync->sets[SFC_TAGS] = (struct sfc_set){ .table = &tables->tags, .room = MK_SFC_REPLICAS };
	for (size_t i = 0; i < SFC_MAPS; i++) {
		sync->images[i] = images[i];
		sync->images[i].rows = calloc(images[i].room, images[i].table->value_size);
		if (!sync->images[i].rows)
			return false;
	}
	return sync->counter != NULL && set_make(&sync->sets[SFC_PORTS]) &&
	       set_make(&sync->sets[SFC_TAGS]);
}

static int read_row(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct sfc_image *image = ctx;
	uint32_t number = *(const uint32_t *)key;

	(void)err;
	if (number < image->room)
		image_set(image, number, value);
	return 0;
}

static int read_counters(struct mk_sfc_sync *sync, struct mk_error *err)
{
	cleanup_free void *keys = NULL;
	size_t count;
	int ret = mk_table_keys(&sync->tables->counters, &keys, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		uint32_t number = ((const uint32_t *)keys)[i];

		if (number < MK_SFC_REPLICAS)
			sync->counted[number] = true;
	}
	return ret;
}

static int read_all(struct mk_sfc_sync *sync, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < SFC_MAPS; i++)
		ret = mk_table_each(sync->images[i].table, read_row, &sync->images[i], err);
	for (size_t i = 0; ret == 0 && i < SFC_SETS; i++)
		ret = set_read(&sync->sets[i], err);
	ret = ret ?: ends_open(sync, err);
	return ret ?: read_counters(sync, err);
}

struct mk_sfc_sync *mk_sfc_sync_new(const struct mk_sfc_tables *tables, struct mk_error *err)
{
	struct mk_sfc_sync *sync = calloc(1, sizeof(*sync));
	int ret;

	if (sync && make(sync, tables))
		ret = read_all(sync, err);
	else
		ret = mk_error_errno(err, ENOMEM, "cannot read the tables of chains");
	if (ret == 0)
		return sync;
	mk_sfc_sync_free(sync);
	return NULL;
}

void mk_sfc_sync_free(struct mk_sfc_sync *sync)
{
	if (!sync)
		return;
	for (size_t i = 0; i < SFC_MAPS; i++)
		free(sync->images[i].rows);
	for (size_t i = 0; i < SFC_SETS; i++)
		free(sync->sets[i].of);
	ends_close(sync);
	free(sync->counter);
	free(sync->paths);
	free(sync);
}

bool mk_sfc_sync_is_empty(const struct mk_sfc_sync *sync)
{
	return !sync->images[SFC_CHAINS].top && !sync->images[SFC_FUNCTIONS].top &&
	       !sync->images[SFC_REPLICAS].top;
}

void mk_sfc_sync_recall(const struct mk_sfc_sync *sync, struct mk_sfc *sfc)
{
	const struct sfc_image *images = sync->images;

	for (uint32_t i = 0; i < images[SFC_CHAINS].top; i++)
		mk_sfc_recall_chain(sfc, i, image_row(&images[SFC_CHAINS], i));
	for (uint32_t i = 0; i < images[SFC_FUNCTIONS].top; i++)
		mk_sfc_recall_function(sfc, i, image_row(&images[SFC_FUNCTIONS], i));
	for (uint32_t i = 0; i < images[SFC_REPLICAS].top; i++)
		mk_sfc_recall_replica(sfc, i, image_row(&images[SFC_REPLICAS], i));
}

bool mk_sfc_sync_has_chain(const struct mk_sfc_sync *sync, const struct mk_sfc_rows *rows,
			   uint16_t number)
{
	const struct mk_sfc_chain *row = image_row(&sync->images[SFC_CHAINS], number);

	return number < rows->chain_count && row->uid_hash == rows->chains[number].uid_hash;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct mk_sfc_replica replica_row(const struct mk_sfc_sync *sync,
					 const struct mk_sfc_replica_row *row)
{
	struct mk_sfc_replica replica = row->row;

	replica.addr = mk_ip_to_addr(&row->ips[mk_family_index(sync->family)]);
	return replica;
}

/* Return the row that the map should have. *@room is used for a replica. */
static const void *wanted(const struct applying *apply, enum sfc_map map, size_t number,
			  struct mk_sfc_replica *room)
{
	static const union {
		struct mk_sfc_chain chain;
		struct mk_sfc_function function;
		struct mk_sfc_replica replica;
	} nothing;
	const struct mk_sfc_rows *rows = apply->rows;

	if (map == SFC_CHAINS && number < rows->chain_count)
		return &rows->chains[number];
	if (map == SFC_FUNCTIONS && number < rows->function_count && rows->functions[number])
		return rows->functions[number];
	if (map == SFC_REPLICAS && number < rows->replica_count) {
		*room = replica_row(apply->sync, &rows->replicas[number]);
		return room;
	}
	return &nothing;
}

static size_t rows_of(const struct applying *apply, enum sfc_map map)
{
	const size_t counts[SFC_MAPS] = {
		[SFC_CHAINS] = apply->rows->chain_count,
		[SFC_FUNCTIONS] = apply->rows->function_count,
		[SFC_REPLICAS] = apply->rows->replica_count,
	};
	size_t top = apply->sync->images[map].top;

	return counts[map] > top ? counts[map] : top;
}

/* Programs may write into the row meanwhile. That is lost, and they write it again. */
static int put_row(const struct applying *apply, const struct sfc_image *image, uint32_t number,
		   const void *row)
{
	struct mk_sfc_replica replica, now;

	if (!image->programs_at)
		return mk_table_put(image->table, &number, row, apply->err);
	memcpy(&replica, row, sizeof(replica));
	if (mk_table_get(image->table, &number, &now, NULL) == 0 &&
	    now.uid_hash == replica.uid_hash)
		replica.back_ms = now.back_ms;
	return mk_table_put(image->table, &number, &replica, apply->err);
}

static int write_row(const struct applying *apply, enum sfc_map map, uint32_t number,
		     const void *row)
{
	struct sfc_image *image = &apply->sync->images[map];
	bool gone = image->is_hash && is_zero(row, image->table->value_size);
	int ret;

	if (gone)
		ret = mk_table_delete(image->table, &number, apply->err);
	else
		ret = put_row(apply, image, number, row);
	if (ret < 0)
		return ret;
	image_set(image, number, row);
	(*(gone ? &apply->counts->deleted : &apply->counts->put))++;
	return 0;
}

/* Is the row one that flows get, or keep? */
static bool is_in_use(enum sfc_map map, const void *row, size_t bytes)
{
	if (map == SFC_REPLICAS)
		return ((const struct mk_sfc_replica *)row)->state == MK_SFC_USABLE;
	return !is_zero(row, bytes);
}

/* Write the rows that are in use, or the others. */
static int write_rows(const struct applying *apply, enum sfc_map map, bool in_use)
{
	const struct sfc_image *image = &apply->sync->images[map];
	size_t count = rows_of(apply, map), bytes = image->table->value_size;
	struct mk_sfc_replica room;
	int ret = 0;

	for (uint32_t number = 0; ret == 0 && number < count; number++) {
		const void *row = wanted(apply, map, number, &room);

		if (memcmp(row, image_row(image, number), bytes) != 0 &&
		    is_in_use(map, row, bytes) == in_use)
			ret = write_row(apply, map, number, row);
	}
	return ret;
}

/* ---- counters -------------------------------------------------------------------------------- */

static int put_counter(const struct applying *apply, uint32_t number)
{
	struct mk_sfc_sync *sync = apply->sync;
	int ret = 0;

	memset(sync->counter, 0, mk_table_cpus() * sizeof(struct mk_sfc_counters));
	ret = mk_table_put(&sync->tables->counters, &number, sync->counter, apply->err);
	if (ret == 0) {
		sync->counted[number] = true;
		apply->counts->put++;
	}
	return ret;
}

/* Add the counters of new replicas. Before the replicas: a number may have a new owner. */
static int add_counters(const struct applying *apply)
{
	const struct sfc_image *image = &apply->sync->images[SFC_REPLICAS];
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < apply->rows->replica_count; i++) {
		uint64_t hash = apply->rows->replicas[i].row.uid_hash;
		uint64_t was = ((const struct mk_sfc_replica *)image_row(image, i))->uid_hash;

		if (hash && (!apply->sync->counted[i] || (was && was != hash)))
			ret = put_counter(apply, i);
	}
	return ret;
}

static int remove_counters(const struct applying *apply)
{
	struct mk_sfc_sync *sync = apply->sync;
	int ret = 0;

	for (uint32_t i = 0; ret >= 0 && i < MK_SFC_REPLICAS; i++) {
		if (!sync->counted[i] ||
		    (i < apply->rows->replica_count && apply->rows->replicas[i].row.uid_hash))
			continue;
		ret = mk_table_delete(&sync->tables->counters, &i, apply->err);
		sync->counted[i] = ret < 0;
		apply->counts->deleted += ret > 0;
	}
	return ret < 0 ? ret : 0;
}

int mk_sfc_sync_counters(const struct mk_sfc_sync *sync, uint16_t replica,
			 struct mk_sfc_counters *counters, struct mk_error *err)
{
	struct mk_error why = { 0 };
	uint32_t number = replica;
	int ret;

	*counters = (struct mk_sfc_counters){ 0 };
	ret = mk_table_sum(&sync->tables->counters, &number, counters, &why);
	if (ret < 0 && ret != -ENOENT)
		*err = why;
	return ret == -ENOENT ? 0 : ret;
}

/* ---- all ------------------------------------------------------------------------------------- */

int mk_sfc_sync_apply(struct mk_sfc_sync *sync, const struct mk_sfc_rows *rows,
		      struct mk_sfc_counts *counts, struct mk_error *err)
{
	const struct applying apply = { sync, rows, counts, err };
	int ret = add_counters(&apply);

	ret = ret ?: write_rows(&apply, SFC_REPLICAS, true);
	ret = ret ?: sets_put(&apply);
	ret = ret ?: write_rows(&apply, SFC_FUNCTIONS, true);
	ret = ret ?: ends_put(&apply);
	ret = ret ?: write_rows(&apply, SFC_CHAINS, true);
	ret = ret ?: write_rows(&apply, SFC_CHAINS, false);
	ret = ret ?: ends_remove(&apply);
	ret = ret ?: write_rows(&apply, SFC_FUNCTIONS, false);
	ret = ret ?: write_rows(&apply, SFC_REPLICAS, false);
	return ret ?: sets_remove(&apply) ?: remove_counters(&apply);
}

/* ---- repair ---------------------------------------------------------------------------------- */

void say_changed(const struct mk_table *table, uint64_t key)
{
	mk_log_warn(
		"an entry of a chain was removed or changed by another process and is restored map=%s key=%lu",
		table->name, key);
}

/* Read one row again. Returns 1 if it is not as it was written. */
static int reconcile_row(struct sfc_image *image, uint32_t number, struct mk_error *err)
{
	cleanup_free void *row = calloc(1, image->table->value_size);
	struct mk_error why = { 0 };
	int ret = row ? mk_table_get(image->table, &number, row, &why) : -ENOMEM;

	if (ret < 0 && ret != -ENOENT) {
		*err = why;
		return ret;
	}
	if (ret == -ENOENT)
		memset(row, 0, image->table->value_size);
	forget_programs(image, row);
	if (memcmp(row, image_row(image, number), image->table->value_size) == 0)
		return 0;
	image_set(image, number, row);
	say_changed(image->table, number);
	return 1;
}

static int reconcile_counter(struct mk_sfc_sync *sync, uint32_t number)
{
	if (!sync->counted[number] ||
	    mk_table_get(&sync->tables->counters, &number, sync->counter, NULL) == 0)
		return 0;
	sync->counted[number] = false;
	say_changed(&sync->tables->counters, number);
	return 1;
}

static int reconcile_next(struct mk_sfc_sync *sync, struct mk_error *err)
{
	struct sfc_image *image = &sync->images[sync->due_map];
	uint32_t number = (uint32_t)sync->due;
	int ret;

	if (sync->due >= image->top) {
		sync->due = 0;
		sync->due_map = (sync->due_map + 1) % SFC_MAPS;
		return 0;
	}
	sync->due++;
	ret = reconcile_row(image, number, err);
	if (ret >= 0 && sync->due_map == SFC_REPLICAS)
		ret += reconcile_counter(sync, number);
	return ret;
}

static int reconcile_all(struct mk_sfc_sync *sync, size_t budget, int *differ, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < SFC_SETS; i++) {
		ret = set_reconcile(&sync->sets[i], err);
		*differ += ret > 0 ? ret : 0;
	}
	for (size_t i = 0; ret >= 0 && i < budget; i++) {
		ret = reconcile_next(sync, err);
		*differ += ret > 0 ? ret : 0;
	}
	if (ret >= 0)
		ret = ends_reconcile(sync, err);
	*differ += ret > 0 ? ret : 0;
	return ret;
}

/* What differs is restored first; an error comes again with the next call. */
int mk_sfc_sync_reconcile(struct mk_sfc_sync *sync, size_t budget, struct mk_error *err)
{
	int differ = 0, ret;

	if (mk_sfc_sync_is_empty(sync) && !sync->sets[SFC_PORTS].count &&
	    !sync->sets[SFC_TAGS].count)
		return 0;
	ret = reconcile_all(sync, budget, &differ, err);
	return differ ?: ret;
}

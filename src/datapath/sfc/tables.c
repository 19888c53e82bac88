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

static void image_set(struct sfc_image *image, size_t number, const void *row)
{
	memcpy(image_row(image, number), row, image->table->value_size);
	if (number >= image->top && !is_zero(row, image->table->value_size))
		image->top = number + 1;
}

size_t counter_values(void)
{
	int cpus = libbpf_num_possible_cpus();

	return cpus > 0 ? (size_t)cpus : 1;
}

/* Pages of rows that are never used take no memory. */
static bool make(struct mk_sfc_sync *sync, const struct mk_sfc_tables *tables)
{
	const struct sfc_image images[SFC_MAPS] = {
		[SFC_CHAINS] = { .table = &tables->chains, .room = MK_SFC_CHAINS },
		[SFC_FUNCTIONS] = { .table = &tables->functions,
				    .room = MK_SFC_FUNCTIONS_ALL,
				    .is_hash = true },
		[SFC_REPLICAS] = { .table = &tables->replicas, .room = MK_SFC_REPLICAS },
	};

	sync->tables = tables;
	sync->family = mk_table_family(&tables->replicas);
	sync->counter = calloc(counter_values(), sizeof(struct mk_sfc_counters));
	for (size_t i = 0; i < SFC_MAPS; i++) {
		sync->images[i] = images[i];
		sync->images[i].rows = calloc(images[i].room, images[i].table->value_size);
		if (!sync->images[i].rows)
			return false;
	}
	return sync->counter != NULL;
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

static int compare_ports(const void *left, const void *right)
{
	uint32_t a = ((const struct mk_sfc_port_row *)left)->ifindex,
		 b = ((const struct mk_sfc_port_row *)right)->ifindex;

	return (a > b) - (a < b);
}

static int read_port(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct mk_sfc_sync *sync = ctx;
	struct mk_sfc_port_row *row = &sync->ports[sync->port_count];

	(void)err;
	if (sync->port_count == MK_SFC_PORTS)
		return 0;
	row->ifindex = *(const uint32_t *)key;
	row->port = *(const struct mk_sfc_port *)value;
	sync->port_count++;
	return 0;
}

static int read_ports(struct mk_sfc_sync *sync, struct mk_error *err)
{
	int ret;

	sync->port_count = 0;
	ret = mk_table_each(&sync->tables->ports, read_port, sync, err);
	qsort(sync->ports, sync->port_count, sizeof(*sync->ports), compare_ports);
	return ret;
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
	return ret ?: read_ports(sync, err) ?: read_counters(sync, err);
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

struct applying {
	struct mk_sfc_sync *sync;
	const struct mk_sfc_rows *rows;
	struct mk_sfc_counts *counts;
	struct mk_error *err;
};

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

static int write_row(const struct applying *apply, enum sfc_map map, uint32_t number,
		     const void *row)
{
	struct sfc_image *image = &apply->sync->images[map];
	bool gone = image->is_hash && is_zero(row, image->table->value_size);
	int ret;

	if (gone)
		ret = mk_table_delete(image->table, &number, apply->err);
	else
		ret = mk_table_put(image->table, &number, row, apply->err);
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

	memset(sync->counter, 0, counter_values() * sizeof(struct mk_sfc_counters));
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
	const struct mk_sfc_counters *of = (const void *)sync->counter;
	struct mk_error why = { 0 };
	uint32_t number = replica;
	int ret = mk_table_get(&sync->tables->counters, &number, sync->counter, &why);

	*counters = (struct mk_sfc_counters){ 0 };
	for (size_t cpu = 0; ret == 0 && cpu < counter_values(); cpu++)
		for (size_t side = 0; side < MK_SFC_SIDES; side++) {
			counters->sent_packets[side] += of[cpu].sent_packets[side];
			counters->sent_bytes[side] += of[cpu].sent_bytes[side];
			counters->received_packets[side] += of[cpu].received_packets[side];
			counters->received_bytes[side] += of[cpu].received_bytes[side];
		}
	if (ret < 0 && ret != -ENOENT)
		*err = why;
	return ret == -ENOENT ? 0 : ret;
}

/* ---- ports ----------------------------------------------------------------------------------- */

static const struct mk_sfc_port_row *find_port(const struct mk_sfc_port_row *ports, size_t count,
					       uint32_t ifindex)
{
	const struct mk_sfc_port_row key = { .ifindex = ifindex };

	return bsearch(&key, ports, count, sizeof(*ports), compare_ports);
}

static int put_ports(const struct applying *apply)
{
	struct mk_sfc_sync *sync = apply->sync;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < apply->rows->port_count; i++) {
		const struct mk_sfc_port_row *row = &apply->rows->ports[i], *has;

		has = find_port(sync->ports, sync->port_count, row->ifindex);
		if (has && memcmp(&has->port, &row->port, sizeof(row->port)) == 0)
			continue;
		ret = mk_table_put(&sync->tables->ports, &row->ifindex, &row->port, apply->err);
		apply->counts->put += ret == 0;
	}
	return ret;
}

/* Remove the others. */
static int remove_ports(const struct applying *apply)
{
	struct mk_sfc_sync *sync = apply->sync;
	const struct mk_sfc_rows *rows = apply->rows;
	size_t kept = 0;
	int ret = 0;

	for (size_t i = 0; i < sync->port_count; i++) {
		uint32_t ifindex = sync->ports[i].ifindex;

		if (ret >= 0 && !find_port(rows->ports, rows->port_count, ifindex)) {
			ret = mk_table_delete(&sync->tables->ports, &ifindex, apply->err);
			apply->counts->deleted += ret > 0;
		} else {
			sync->ports[kept++] = sync->ports[i];
		}
	}
	sync->port_count = ret < 0 ? sync->port_count : kept;
	return ret < 0 ? ret : 0;
}

/* Ports that are gone go before new ones come, if the map would be full otherwise. */
static int make_ports_fit(const struct applying *apply)
{
	bool fits = apply->sync->port_count + apply->rows->port_count <= MK_SFC_PORTS;

	return fits ? 0 : remove_ports(apply);
}

static int ports_written(const struct applying *apply)
{
	const struct mk_sfc_rows *rows = apply->rows;

	memcpy(apply->sync->ports, rows->ports, rows->port_count * sizeof(*rows->ports));
	apply->sync->port_count = rows->port_count;
	return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

int mk_sfc_sync_apply(struct mk_sfc_sync *sync, const struct mk_sfc_rows *rows,
		      struct mk_sfc_counts *counts, struct mk_error *err)
{
	const struct applying apply = { sync, rows, counts, err };
	int ret = add_counters(&apply);

	ret = ret ?: write_rows(&apply, SFC_REPLICAS, true);
	ret = ret ?: make_ports_fit(&apply) ?: put_ports(&apply);
	ret = ret ?: write_rows(&apply, SFC_FUNCTIONS, true);
	ret = ret ?: write_rows(&apply, SFC_CHAINS, true);
	ret = ret ?: write_rows(&apply, SFC_CHAINS, false);
	ret = ret ?: write_rows(&apply, SFC_FUNCTIONS, false);
	ret = ret ?: write_rows(&apply, SFC_REPLICAS, false);
	ret = ret ?: remove_ports(&apply) ?: ports_written(&apply);
	return ret ?: remove_counters(&apply);
}

/* ---- repair ---------------------------------------------------------------------------------- */

static void say(const struct mk_table *table, uint32_t key)
{
	mk_log_warn(
		"an entry of a chain was removed or changed by another process and is restored map=%s key=%u",
		table->name, key);
}

/* Read one row again. Returns 1 if it is not as it was written. */
static int audit_row(struct sfc_image *image, uint32_t number, struct mk_error *err)
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
	if (memcmp(row, image_row(image, number), image->table->value_size) == 0)
		return 0;
	image_set(image, number, row);
	say(image->table, number);
	return 1;
}

static int audit_counter(struct mk_sfc_sync *sync, uint32_t number)
{
	if (!sync->counted[number] ||
	    mk_table_get(&sync->tables->counters, &number, sync->counter, NULL) == 0)
		return 0;
	sync->counted[number] = false;
	say(&sync->tables->counters, number);
	return 1;
}

static int audit_next(struct mk_sfc_sync *sync, struct mk_error *err)
{
	struct sfc_image *image = &sync->images[sync->audited_map];
	uint32_t number = (uint32_t)sync->audited;
	int ret;

	if (sync->audited >= image->top) {
		sync->audited = 0;
		sync->audited_map = (sync->audited_map + 1) % SFC_MAPS;
		return 0;
	}
	sync->audited++;
	ret = audit_row(image, number, err);
	if (ret >= 0 && sync->audited_map == SFC_REPLICAS)
		ret += audit_counter(sync, number);
	return ret;
}

/* An entry that should not be there counts, too. */
static int audit_ports(struct mk_sfc_sync *sync, struct mk_error *err)
{
	cleanup_free struct mk_sfc_port_row *was = calloc(MK_SFC_PORTS, sizeof(*was));
	size_t count = sync->port_count;
	int differ = 0, ret;

	if (!was)
		return mk_error_errno(err, ENOMEM, "cannot read the ports of function pods");
	memcpy(was, sync->ports, count * sizeof(*was));
	ret = read_ports(sync, err);
	for (size_t i = 0; ret == 0 && i < count; i++) {
		const struct mk_sfc_port_row *has =
			find_port(sync->ports, sync->port_count, was[i].ifindex);

		if (has && memcmp(has, &was[i], sizeof(*has)) == 0)
			continue;
		say(&sync->tables->ports, was[i].ifindex);
		differ++;
	}
	for (size_t i = 0; ret == 0 && i < sync->port_count; i++)
		differ += !find_port(was, count, sync->ports[i].ifindex);
	return ret < 0 ? ret : differ;
}

int mk_sfc_sync_audit(struct mk_sfc_sync *sync, size_t budget, struct mk_error *err)
{
	int differ, ret = 0;

	if (mk_sfc_sync_is_empty(sync) && !sync->port_count)
		return 0;
	differ = audit_ports(sync, err);
	for (size_t i = 0; differ >= 0 && ret >= 0 && i < budget; i++) {
		ret = audit_next(sync, err);
		differ += ret > 0 ? ret : 0;
	}
	return ret < 0 ? ret : differ;
}

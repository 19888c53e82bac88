// SPDX-License-Identifier: Apache-2.0
/* Source ranges of Services. New contents get a new id: all ranges are written before a frontend
 * names the id. The old ranges are removed when no program can be reading them any more. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/services/services_internal.h"

/* The id is part of the prefix. */
#define ID_BITS 32

static struct mk_source_range_key range_key(uint32_t id, const struct mk_cidr *cidr)
{
	return (struct mk_source_range_key){
		.prefix_bits = ID_BITS + cidr->prefix_bits,
		.ranges_id = id,
		.addr = mk_ip_to_addr(&cidr->ip),
	};
}

static struct ranges *ranges_new(uint32_t id, const struct mk_cidr *list, size_t count)
{
	struct ranges *ranges = calloc(1, sizeof(*ranges));

	if (!ranges)
		return NULL;
	ranges->id = id;
	ranges->list = calloc(count ? count : 1, sizeof(*ranges->list));
	if (!ranges->list) {
		free(ranges);
		return NULL;
	}
	if (count)
		memcpy(ranges->list, list, count * sizeof(*list));
	ranges->count = count;
	return ranges;
}

void sync_ranges_free(struct ranges *ranges)
{
	if (!ranges)
		return;
	free(ranges->list);
	free(ranges);
}

void sync_ranges_free_list(struct ranges *head)
{
	struct ranges *ranges, *next;

	LL_FOREACH_SAFE(head, ranges, next)
		sync_ranges_free(ranges);
}

/* ---- recovery from an earlier agent ------------------------------------------------------- */

static int recover_one(struct mk_service_sync *sync, const struct mk_source_range_key *key)
{
	const sa_family_t family = mk_table_family(&sync->tables.source_ranges);
	struct mk_cidr cidr = { .ip = mk_ip_of_family(&key->addr, family) }, *more;
	struct ranges *ranges;

	mk_service_sync_reserve_ids(sync, key->ranges_id);
	cidr.prefix_bits = (uint8_t)(key->prefix_bits - ID_BITS);
	HASH_FIND(hh, sync->recovered_ranges, &key->ranges_id, sizeof(key->ranges_id), ranges);
	if (!ranges) {
		ranges = ranges_new(key->ranges_id, NULL, 0);
		if (!ranges)
			return -ENOMEM;
		HASH_ADD(hh, sync->recovered_ranges, id, sizeof(ranges->id), ranges);
	}
	more = reallocarray(ranges->list, ranges->count + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	more[ranges->count++] = cidr;
	ranges->list = more;
	return 0;
}

int sync_ranges_recover(struct mk_service_sync *sync, struct mk_error *err)
{
	const struct mk_table *table = &sync->tables.source_ranges;
	cleanup_free void *keys = NULL;
	struct ranges *ranges, *next;
	size_t count;
	int ret = mk_table_keys(table, &keys, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++)
		if (recover_one(sync, (struct mk_source_range_key *)keys + i) < 0)
			ret = mk_error_errno(err, ENOMEM, "cannot read map '%s'", table->name);
	HASH_ITER(hh, sync->recovered_ranges, ranges, next)
		mk_cidrs_sort(ranges->list, &ranges->count);
	return ret;
}

struct ranges *sync_ranges_take(struct mk_service_sync *sync, uint32_t id)
{
	struct ranges *ranges;

	HASH_FIND(hh, sync->recovered_ranges, &id, sizeof(id), ranges);
	if (ranges)
		HASH_DEL(sync->recovered_ranges, ranges);
	return ranges;
}

/* ---- change ------------------------------------------------------------------------------- */

bool sync_ranges_are(const struct ranges *ranges, const struct mk_cidr *list, size_t count)
{
	return mk_cidrs_equal(ranges ? ranges->list : NULL, ranges ? ranges->count : 0, list,
			      count);
}

/* What was written before an error is on record, too: it goes with the rest of @ranges. */
int sync_ranges_write(struct mk_service_sync *sync, const struct mk_cidr *list, size_t count,
		      struct ranges **ranges, struct mk_service_counts *counts,
		      struct mk_error *err)
{
	static const __u32 nothing;

	*ranges = ranges_new(sync_new_id(sync), list, count);
	if (!*ranges)
		return mk_error_errno(err, ENOMEM, "%zu source ranges", count);
	for (size_t i = 0; i < count; i++) {
		struct mk_source_range_key key = range_key((*ranges)->id, &list[i]);
		int ret = mk_table_put(&sync->tables.source_ranges, &key, &nothing, err);

		if (ret < 0)
			return ret;
		counts->put++;
	}
	return 0;
}

/* Restore missing ranges. A missing range inside another one is not noticed while the other exists;
 * programs find the other as well. */
int sync_ranges_restore(struct mk_service_sync *sync, const struct ranges *ranges,
			struct mk_service_counts *counts, struct mk_error *err)
{
	const struct mk_table *table = &sync->tables.source_ranges;
	__u32 nothing;

	for (size_t i = 0; i < ranges->count; i++) {
		struct mk_source_range_key key = range_key(ranges->id, &ranges->list[i]);
		int ret = mk_table_get(table, &key, &nothing, err);

		if (ret == -ENOENT) {
			nothing = 0;
			ret = mk_table_put(table, &key, &nothing, err);
			counts->put++;
		}
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int remove_ranges(struct mk_service_sync *sync, const struct ranges *ranges,
			 struct mk_service_counts *counts, struct mk_error *err)
{
	for (size_t i = 0; i < ranges->count; i++) {
		struct mk_source_range_key key = range_key(ranges->id, &ranges->list[i]);
		int ret = mk_table_delete(&sync->tables.source_ranges, &key, err);

		if (ret < 0)
			return ret;
		counts->deleted += (unsigned int)ret;
	}
	return 0;
}

int sync_ranges_collect(struct mk_service_sync *sync, uint64_t now_ns,
			struct mk_service_counts *counts, struct mk_error *err)
{
	while (sync->retired_ranges && now_ns - sync->retired_ranges->since_ns >= MK_RETIRE_NS) {
		struct ranges *oldest = sync->retired_ranges;
		int ret = remove_ranges(sync, oldest, counts, err);

		if (ret < 0)
			return ret;
		LL_DELETE(sync->retired_ranges, oldest);
		sync_ranges_free(oldest);
	}
	return 0;
}

void sync_ranges_retire(struct mk_service_sync *sync, struct ranges *head, uint64_t now_ns)
{
	struct ranges *ranges;

	LL_FOREACH(head, ranges)
		ranges->since_ns = now_ns;
	LL_CONCAT(sync->retired_ranges, head);
}

void sync_ranges_prune(struct mk_service_sync *sync, uint64_t now_ns)
{
	struct ranges *ranges, *next;

	HASH_ITER(hh, sync->recovered_ranges, ranges, next) {
		HASH_DEL(sync->recovered_ranges, ranges);
		ranges->next = NULL;
		sync_ranges_retire(sync, ranges, now_ns);
	}
}

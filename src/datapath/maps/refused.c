// SPDX-License-Identifier: Apache-2.0
/* Which map the kernel refused, and what a user can do. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "datapath/maps/maps_internal.h"

void list_maps_to_create(const struct bpf_object *object, struct maps_to_create *list)
{
	const struct bpf_map *map;

	list->count = 0;
	bpf_object__for_each_map(map, object)
	{
		if (bpf_map__fd(map) < 0 && !bpf_map__is_internal(map) &&
		    bpf_map__type(map) != BPF_MAP_TYPE_ARRAY_OF_MAPS &&
		    list->count < MAPS_TO_CREATE_MAX)
			list->map[list->count++] = map;
	}
}

static const char *remedy(const char *map)
{
	static const struct {
		const char *map, *text;
	} remedies[] = {
		{ "sessions", "lower sessionTableSize" },
		{ "nat_sessions", "lower sessionTableSize" },
		{ "sessions_young", "lower newSessionTableSize" },
		{ "nat_sessions_young", "lower newSessionTableSize" },
		{ "sessions_order", "lower newSessionTableSize" },
		{ "nat_sessions_order", "lower newSessionTableSize" },
		{ "sessions_kept", "lower sessionTableSize" },
		{ "nat_sessions_kept", "lower sessionTableSize" },
		{ "affinity", "lower affinityTableSize" },
		{ "affinity_new", "lower affinityTableSize" },
		{ "maglev", "lower maglevTableSize" },
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(remedies); i++)
		if (strcmp(remedies[i].map, map) == 0)
			return remedies[i].text;
	return "lower the others' sizes";
}

/* Memory of a hash map (linux/kernel/bpf/hashtab.c): 16 bytes per bucket, whose number is a power
 * of two, and 48 bytes plus key and value per entry. */
static uint64_t hash_bytes(const struct bpf_map *map, bool full)
{
	uint64_t entries = bpf_map__max_entries(map), buckets = 1;
	uint64_t entry_bytes =
		48 + (bpf_map__key_size(map) + 7) / 8 * 8 + (bpf_map__value_size(map) + 7) / 8 * 8;

	while (buckets < entries)
		buckets *= 2;
	if (!full && bpf_map__map_flags(map) & BPF_F_NO_PREALLOC)
		entries = 0;
	return buckets * 16 + entries * entry_bytes;
}

static int refused(const struct bpf_map *map, int code, struct mk_error *err)
{
	const char *name = bpf_map__name(map);

	return mk_error_set(err, code,
			    "the kernel refuses map '%s' of %u entries (%" PRIu64
			    " MiB at once, %" PRIu64
			    " MiB when full): %s; %s, or give the agent's container more memory",
			    name, bpf_map__max_entries(map), hash_bytes(map, false) >> 20,
			    hash_bytes(map, true) >> 20,
			    code == E2BIG ? "too large" : strerror(code), remedy(name));
}

/* Create the maps one after the other until one fails. */
int find_refused_map(const struct maps_to_create *list, struct mk_error *err)
{
	int fds[MAPS_TO_CREATE_MAX], ret = 0;
	size_t made = 0;

	while (ret == 0 && made < list->count) {
		const struct bpf_map *map = list->map[made];
		LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = bpf_map__map_flags(map));

		fds[made] = bpf_map_create(bpf_map__type(map), bpf_map__name(map),
					   bpf_map__key_size(map), bpf_map__value_size(map),
					   bpf_map__max_entries(map), &options);
		if (fds[made] < 0)
			ret = refused(map, errno, err);
		else
			made++;
	}
	while (made > 0)
		close(fds[--made]);
	return ret;
}

// SPDX-License-Identifier: Apache-2.0
/* Remove entries of an earlier agent for Services that are gone. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "datapath/services/services_internal.h"

#define BATCH 512

static bool is_current(const struct mk_service_sync *sync, uint32_t id, uint32_t generation)
{
	const struct set *set = sync_set(sync, id);

	return set && set->generation == generation;
}

static int prune_maglev(struct mk_service_sync *sync, struct mk_service_counts *counts,
			struct mk_error *err)
{
	const struct mk_table *table = &sync->tables.maglev;
	cleanup_free void *keys = NULL;
	size_t count;
	int ret = mk_table_keys(table, &keys, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		const struct mk_maglev_key *key = (struct mk_maglev_key *)keys + i;

		if (sync_retired(sync, key->set_id, key->generation))
			continue;
		if (is_current(sync, key->set_id, key->generation) &&
		    sync_set(sync, key->set_id)->has_maglev)
			continue;
		ret = sync_delete(table, key, counts, err);
	}
	return ret;
}

/* Remove some of the unused frontends. Returns 1 until none is left. */
static int prune_frontends(struct mk_service_sync *sync, struct mk_service_counts *counts,
			   struct mk_error *err)
{
	struct frontend *frontend, *next;
	unsigned int removed = 0;

	HASH_ITER(hh, sync->frontends, frontend, next) {
		if (frontend->owner)
			continue;
		if (removed++ == BATCH)
			return 1;
		int ret = sync_frontend_delete(sync, frontend, counts, err);

		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Retire unused sets. Their backends are removed later, like replaced ones: a program may be
 * reading them. */
static int retire_sets(struct mk_service_sync *sync, uint64_t now_ns, struct mk_error *err)
{
	struct retired *retiring = NULL;
	struct set *set, *next;

	HASH_ITER(hh, sync->sets, set, next) {
		int ret = set->owner ? 0 : sync_retire(&retiring, set, err);

		if (ret < 0)
			return ret;
		if (!set->owner)
			sync_set_forget(sync, set);
	}
	sync_retirement_begins(sync, &retiring, now_ns);
	return 0;
}

/* Prune a part. Returns 1 if the stage has more to do. */
static int prune_part(struct mk_service_sync *sync, uint64_t now_ns,
		      struct mk_service_counts *counts, struct mk_error *err)
{
	switch (sync->pruning.stage) {
	case MK_PRUNE_FRONTENDS:
		return prune_frontends(sync, counts, err);
	case MK_PRUNE_SETS:
		return retire_sets(sync, now_ns, err);
	case MK_PRUNE_BACKENDS:
		return sync_backends_prune(sync, counts, err);
	case MK_PRUNE_MAGLEV:
		return prune_maglev(sync, counts, err);
	case MK_PRUNE_MEMBERS:
		return sync_members_prune(sync, counts, err);
	case MK_PRUNE_REST:
		sync_ranges_prune(sync, now_ns);
		sync_recovered_forget(sync);
		return 0;
	case MK_PRUNE_DONE:
		break;
	}
	return 0;
}

int mk_service_sync_prune(struct mk_service_sync *sync, uint64_t now_ns, uint64_t until_ns,
			  struct mk_service_counts *counts, struct mk_error *err)
{
	while (sync->pruning.stage != MK_PRUNE_DONE) {
		int ret = prune_part(sync, now_ns, counts, err);

		if (ret < 0) {
			sync->pruning = (struct pruning){ 0 };
			return ret;
		}
		if (ret == 0)
			sync->pruning.stage++;
		if (sync->pruning.stage != MK_PRUNE_DONE && mk_time_monotonic_ns() >= until_ns)
			return 1;
	}
	sync->pruning = (struct pruning){ 0 };
	return 0;
}

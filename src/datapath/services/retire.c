// SPDX-License-Identifier: Apache-2.0
/* Retire replaced generations of backends. A generation is removed when no program can be reading
 * it any more. */
#include <stdlib.h>

#include "datapath/services/services_internal.h"

int sync_retire(struct retired **head, const struct set *set, struct mk_error *err)
{
	struct retired *retired;

	if (set->count == 0)
		return 0;
	retired = calloc(1, sizeof(*retired));
	if (!retired)
		return mk_error_errno(err, ENOMEM, "cannot retire generation %u of set %u",
				      set->generation, set->id);
	retired->id = set->id;
	retired->generation = set->generation;
	retired->count = (uint32_t)set->count;
	/* not known yet for an earlier agent's set */
	retired->has_members = set->has_members || set->affinity_id;
	LL_PREPEND(*head, retired);
	return 0;
}

const struct retired *sync_retired(const struct mk_service_sync *sync, uint32_t id,
				   uint32_t generation)
{
	const struct retired key = { .id = id, .generation = generation };
	const struct retired *retired;

	HASH_FIND(hh, sync->retired, &key.id, sizeof(key.id) + sizeof(key.generation), retired);
	return retired;
}

void sync_retirement_begins(struct mk_service_sync *sync, struct retired **head, uint64_t now_ns)
{
	struct retired *retired, *next;

	LL_FOREACH_SAFE(*head, retired, next) {
		retired->since_ns = now_ns;
		HASH_ADD(hh, sync->retired, id, sizeof(retired->id) + sizeof(retired->generation),
			 retired);
	}
	*head = NULL;
}

int sync_delete(const struct mk_table *table, const void *key, struct mk_service_counts *counts,
		struct mk_error *err)
{
	int ret = mk_table_delete(table, key, err);

	if (ret > 0)
		counts->deleted++;
	return ret < 0 ? ret : 0;
}

static int remove_generation(struct mk_service_sync *sync, const struct retired *retired,
			     struct mk_service_counts *counts, struct mk_error *err)
{
	struct mk_backend_key key = { .set_id = retired->id, .generation = retired->generation };
	struct mk_maglev_key maglev_key = { .set_id = retired->id,
					    .generation = retired->generation };
	int ret = 0;

	for (; ret == 0 && key.index < retired->count; key.index++) {
		ret = retired->has_members ? sync_member_remove(sync, &key, counts, err) : 0;
		ret = ret ?: sync_delete(&sync->tables.backends, &key, counts, err);
	}
	return ret ?: sync_delete(&sync->tables.maglev, &maglev_key, counts, err);
}

int mk_service_sync_collect(struct mk_service_sync *sync, uint64_t now_ns,
			    struct mk_service_counts *counts, struct mk_error *err)
{
	int ret = 0;

	while (sync->retired && now_ns - sync->retired->since_ns >= MK_RETIRE_NS) {
		struct retired *oldest = sync->retired;

		ret = remove_generation(sync, oldest, counts, err);
		if (ret < 0)
			return ret;
		HASH_DEL(sync->retired, oldest);
		free(oldest);
	}
	ret = sync_ranges_collect(sync, now_ns, counts, err);
	if (ret < 0)
		return ret;
	return sync->retired || sync->retired_ranges ? 1 : 0;
}

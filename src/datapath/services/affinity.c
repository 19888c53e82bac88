// SPDX-License-Identifier: Apache-2.0
/* Map affinity_backends: the backends that a client of a port with affinity may return to. It is an
 * index of map service_backends: its entries are written before their generation is published, and
 * removed with it. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/services/services_internal.h"

static int write_member(struct mk_service_sync *sync, const struct mk_affinity_backend_key *key,
			struct mk_service_counts *counts, struct mk_error *err)
{
	const struct mk_table *table = &sync->tables.affinity_backends;
	__u32 nothing = 0;
	int ret = mk_table_get(table, key, &nothing, err);

	if (ret != -ENOENT)
		return ret;
	ret = mk_table_put(table, key, &nothing, err);
	if (ret == 0)
		counts->put++;
	return ret;
}

int sync_members_write(struct mk_service_sync *sync, struct set *set,
		       struct mk_service_counts *counts, struct mk_error *err)
{
	struct mk_affinity_backend_key key = { .set_id = set->id, .generation = set->generation };

	for (size_t i = 0; !set->has_members && i < set->count; i++) {
		int ret;

		key.backend = set->backends[i];
		ret = write_member(sync, &key, counts, err);
		if (ret < 0)
			return ret;
	}
	set->has_members = true;
	return 0;
}

int sync_member_remove(struct mk_service_sync *sync, const struct mk_backend_key *key,
		       struct mk_service_counts *counts, struct mk_error *err)
{
	const struct mk_table *backends = &sync->tables.backends;
	struct mk_affinity_backend_key member = { .set_id = key->set_id,
						  .generation = key->generation };
	int ret = mk_table_get(backends, key, &member.backend, err);

	if (ret == 0)
		return sync_delete(&sync->tables.affinity_backends, &member, counts, err);
	return ret == -ENOENT ? 0 : ret; /* removed before an earlier error */
}

/* ---- prune -------------------------------------------------------------------------------- */

/* The sorted backends of one set, for many look-ups. */
struct members {
	const struct set *of;
	struct mk_backend *sorted;
};

static int compare_backends(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct mk_backend));
}

static int sort_members(struct members *members, const struct set *set, struct mk_error *err)
{
	size_t size = set->count * sizeof(*members->sorted);

	free(members->sorted);
	members->of = set;
	members->sorted = malloc(size ? size : 1);
	if (!members->sorted)
		return mk_error_errno(err, ENOMEM, "%zu backends", set->count);
	if (size)
		memcpy(members->sorted, set->backends, size);
	qsort(members->sorted, set->count, sizeof(*members->sorted), compare_backends);
	return 0;
}

/* Returns 1 if a program may look the entry up. An entry with the current generation may still be
 * unused: a killed agent may have written it for a generation that it did not publish. */
static int is_wanted(struct mk_service_sync *sync, struct members *members,
		     const struct mk_affinity_backend_key *key, struct mk_error *err)
{
	const struct retired *retired = sync_retired(sync, key->set_id, key->generation);
	const struct set *set = sync_set(sync, key->set_id);

	if (retired)
		return retired->has_members;
	if (!set || set->generation != key->generation || !set->has_members || set->count == 0)
		return 0;
	if (members->of != set && sort_members(members, set, err) < 0)
		return -ENOMEM;
	return bsearch(&key->backend, members->sorted, set->count, sizeof(*members->sorted),
		       compare_backends) != NULL;
}

int sync_members_prune(struct mk_service_sync *sync, struct mk_service_counts *counts,
		       struct mk_error *err)
{
	const struct mk_table *table = &sync->tables.affinity_backends;
	struct members members = { 0 };
	cleanup_free void *keys = NULL;
	size_t count;
	int ret = mk_table_keys(table, &keys, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		const struct mk_affinity_backend_key *key =
			(struct mk_affinity_backend_key *)keys + i;

		ret = is_wanted(sync, &members, key, err);
		if (ret == 0)
			ret = sync_delete(table, key, counts, err);
		else if (ret > 0)
			ret = 0;
	}
	free(members.sorted);
	return ret;
}

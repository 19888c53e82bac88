// SPDX-License-Identifier: Apache-2.0
/* Recover map service_backends from an earlier agent. It is read once, in large batches, when the
 * tables are opened. Reading single entries while Services are applied takes far longer. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/services/services_internal.h"

#define PRUNE_BATCH 512

static int keep_left_over(struct mk_service_sync *sync, const struct mk_backend_key *key,
			  struct mk_error *err)
{
	struct mk_backend_key *added = mk_append(sync->left_over.keys, sync->left_over.count);

	if (!added)
		return mk_error_errno(err, ENOMEM, "cannot read map 'service_backends'");
	*added = *key;
	return 0;
}

static int take_entry(void *ctx, const void *key_, const void *value, struct mk_error *err)
{
	const struct mk_backend_key *key = key_;
	struct mk_service_sync *sync = ctx;
	struct set *set = sync_set(sync, key->set_id);

	if (!set || set->generation != key->generation || key->index >= set->count)
		return keep_left_over(sync, key, err);
	if (!set->backends)
		set->backends = calloc(set->count, sizeof(*set->backends));
	if (!set->backends)
		return mk_error_errno(err, ENOMEM, "cannot read map 'service_backends'");
	memcpy(&set->backends[key->index], value, sizeof(set->backends[0]));
	set->found++;
	return 0;
}

/* Mark complete sets as known. A set with missing backends is read again when its Service is
 * applied. */
static void settle(struct mk_service_sync *sync)
{
	struct set *set, *next;

	HASH_ITER(hh, sync->sets, set, next) {
		set->known = set->backends && set->found == set->count;
		if (!set->known)
			free(mk_steal_ptr(set->backends));
	}
}

int sync_backends_recover(struct mk_service_sync *sync, struct mk_error *err)
{
	int ret = mk_table_each(&sync->tables.backends, take_entry, sync, err);

	if (ret == 0)
		settle(sync);
	return ret;
}

static bool is_left_over(struct mk_service_sync *sync, const struct mk_backend_key *key)
{
	const struct set *set = sync_set(sync, key->set_id);

	return !sync_retired(sync, key->set_id, key->generation) &&
	       !(set && set->generation == key->generation && key->index < set->count);
}

int sync_backends_prune(struct mk_service_sync *sync, struct mk_service_counts *counts,
			struct mk_error *err)
{
	struct left_over *left = &sync->left_over;

	for (int i = 0; left->count && i < PRUNE_BATCH; i++) {
		const struct mk_backend_key *key = &left->keys[left->count - 1];
		int ret = 0;

		if (is_left_over(sync, key))
			ret = sync_delete(&sync->tables.backends, key, counts, err);
		if (ret < 0)
			return ret;
		left->count--;
	}
	if (left->count)
		return 1;
	sync_left_over_free(sync);
	return 0;
}

void sync_left_over_free(struct mk_service_sync *sync)
{
	free(sync->left_over.keys);
	sync->left_over = (struct left_over){ 0 };
}

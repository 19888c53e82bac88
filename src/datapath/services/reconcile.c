// SPDX-License-Identifier: Apache-2.0
/* Check that the Services' tables still hold what was written, a part per call: frontends, and
 * backend sets with what belongs to them, each with its own cursor. Missing entries are restored
 * from memory under the same ids and generations, so flows notice only the gap. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/services/services_internal.h"

struct look {
	struct mk_service_sync *sync;
	void (*lost)(void *ctx, const char *service);
	void *ctx;
	size_t budget; /* look-ups left */
	struct mk_error *err;
	int repaired;
};

/* Restore the entry if it is missing or has another value. Returns 1 if it did. */
static int put_back(struct look *look, const struct mk_table *table, const void *key,
		    const void *value, void *now)
{
	int ret = mk_table_get(table, key, now, look->err);

	look->budget -= look->budget > 0;
	if (ret == 0 && memcmp(now, value, table->value_size) == 0)
		return 0;
	if (ret < 0 && ret != -ENOENT)
		return ret;
	ret = mk_table_put(table, key, value, look->err);
	if (ret < 0)
		return ret;
	look->repaired++;
	return 1;
}

static void say(const struct mk_table *table, const char *service, int entries)
{
	if (entries > 0)
		mk_log_warn("entries were missing and are back map=%s service=%s entries=%d",
			    table->name, service, entries);
}

static int reconcile_frontend(struct look *look, const struct frontend *frontend)
{
	const struct mk_table *table = &look->sync->tables.frontends;
	struct mk_frontend now;
	int ret;

	if (!frontend->owner)
		return 0;
	ret = put_back(look, table, &frontend->key, &frontend->value, &now);
	if (ret > 0)
		say(table, frontend->owner->name, ret);
	return ret < 0 ? ret : 0;
}

static int reconcile_backends(struct look *look, const struct set *set)
{
	const struct mk_table *table = &look->sync->tables.backends;
	struct mk_backend_key key = { .set_id = set->id, .generation = set->generation };
	struct mk_backend now;
	int entries = 0;

	for (; key.index < set->count; key.index++) {
		int ret = put_back(look, table, &key, &set->backends[key.index], &now);

		if (ret < 0)
			return ret;
		entries += ret;
	}
	say(table, set->owner->name, entries);
	return 0;
}

/* Maglev tables are not kept in memory: if one is missing, its Service is compiled again. */
static int reconcile_maglev(struct look *look, struct set *set)
{
	const struct mk_table *table = &look->sync->tables.maglev;
	struct mk_maglev_key key = { .set_id = set->id, .generation = set->generation };
	cleanup_free void *now = set->has_maglev ? malloc(table->value_size) : NULL;

	if (!now)
		return 0;
	look->budget -= look->budget > 0;
	if (mk_table_get(table, &key, now, NULL) != -ENOENT)
		return 0;
	set->has_maglev = false;
	mk_log_warn("entry was missing and is computed again map=%s service=%s", table->name,
		    set->owner->name);
	look->repaired++;
	look->lost(look->ctx, set->owner->name);
	return 0;
}

static int reconcile_members(struct look *look, struct set *set)
{
	struct mk_service_counts counts = { 0 };
	int ret;

	if (!set->has_members)
		return 0;
	look->budget -= look->budget < set->count ? look->budget : set->count;
	set->has_members = false;
	ret = sync_members_write(look->sync, set, &counts, look->err);
	say(&look->sync->tables.affinity_backends, set->owner->name, (int)counts.put);
	look->repaired += (int)counts.put;
	return ret;
}

/* Called once per set of the Service; there are few. */
static int reconcile_ranges(struct look *look, const struct service *service)
{
	struct mk_service_counts counts = { 0 };
	int ret;

	if (!service->ranges)
		return 0;
	look->budget -= look->budget > 0;
	ret = sync_ranges_restore(look->sync, service->ranges, &counts, look->err);
	say(&look->sync->tables.source_ranges, service->name, (int)counts.put);
	look->repaired += (int)counts.put;
	return ret;
}

static int reconcile_set(struct look *look, struct set *set)
{
	int ret;

	if (!set->owner || !set->known)
		return 0;
	ret = reconcile_backends(look, set) ?: reconcile_maglev(look, set);
	ret = ret ?: reconcile_members(look, set);
	return ret < 0 ? ret : reconcile_ranges(look, set->owner);
}

/* Frontends and sets have a cursor each, so that every call checks some of both. */
int mk_service_sync_reconcile(struct mk_service_sync *sync, size_t budget,
			      void (*lost)(void *ctx, const char *service), void *ctx,
			      struct mk_error *err)
{
	struct look look = { sync, lost, ctx, budget / 2, err, 0 };
	int ret = 0;

	if (!sync->due_frontend)
		sync->due_frontend = sync->frontends;
	while (ret == 0 && look.budget && sync->due_frontend) {
		ret = reconcile_frontend(&look, sync->due_frontend);
		sync->due_frontend = sync->due_frontend->hh.next;
		look.budget -= look.budget > 0;
	}
	look.budget = budget - budget / 2;
	if (!sync->due_set)
		sync->due_set = sync->sets;
	while (ret == 0 && look.budget && sync->due_set) {
		ret = reconcile_set(&look, sync->due_set);
		sync->due_set = sync->due_set->hh.next;
		look.budget -= look.budget > 0;
	}
	return ret < 0 ? ret : look.repaired;
}

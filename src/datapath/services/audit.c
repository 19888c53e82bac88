// SPDX-License-Identifier: Apache-2.0
/* Check that the Services' tables still hold what was written, a part per call: frontends, and
 * backend sets with what belongs to them, each with its own cursor. Missing entries are restored
 * from memory under the same ids and generations, so flows notice only the gap. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/services/services_internal.h"

struct audit {
	struct mk_service_sync *sync;
	void (*lost)(void *ctx, const char *service);
	void *ctx;
	size_t budget; /* look-ups left */
	struct mk_error *err;
	int repaired;
};

/* Restore the entry if it is missing or has another value. Returns 1 if it did. */
static int put_back(struct audit *audit, const struct mk_table *table, const void *key,
		    const void *value, void *now)
{
	int ret = mk_table_get(table, key, now, audit->err);

	audit->budget -= audit->budget > 0;
	if (ret == 0 && memcmp(now, value, table->value_size) == 0)
		return 0;
	if (ret < 0 && ret != -ENOENT)
		return ret;
	ret = mk_table_put(table, key, value, audit->err);
	if (ret < 0)
		return ret;
	audit->repaired++;
	return 1;
}

static void say(const struct mk_table *table, const char *service, int entries)
{
	if (entries > 0)
		mk_log_warn("entries were missing and are back map=%s service=%s entries=%d",
			    table->name, service, entries);
}

static int audit_frontend(struct audit *audit, const struct frontend *frontend)
{
	const struct mk_table *table = &audit->sync->tables.frontends;
	struct mk_frontend now;
	int ret;

	if (!frontend->owner)
		return 0;
	ret = put_back(audit, table, &frontend->key, &frontend->value, &now);
	if (ret > 0)
		say(table, frontend->owner->name, ret);
	return ret < 0 ? ret : 0;
}

static int audit_backends(struct audit *audit, const struct set *set)
{
	const struct mk_table *table = &audit->sync->tables.backends;
	struct mk_backend_key key = { .set_id = set->id, .generation = set->generation };
	struct mk_backend now;
	int entries = 0;

	for (; key.index < set->count; key.index++) {
		int ret = put_back(audit, table, &key, &set->backends[key.index], &now);

		if (ret < 0)
			return ret;
		entries += ret;
	}
	say(table, set->owner->name, entries);
	return 0;
}

/* Maglev tables are not kept in memory: if one is missing, its Service is compiled again. */
static int audit_maglev(struct audit *audit, struct set *set)
{
	const struct mk_table *table = &audit->sync->tables.maglev;
	struct mk_maglev_key key = { .set_id = set->id, .generation = set->generation };
	cleanup_free void *now = set->has_maglev ? malloc(table->value_size) : NULL;

	if (!now)
		return 0;
	audit->budget -= audit->budget > 0;
	if (mk_table_get(table, &key, now, NULL) != -ENOENT)
		return 0;
	set->has_maglev = false;
	mk_log_warn("entry was missing and is computed again map=%s service=%s", table->name,
		    set->owner->name);
	audit->repaired++;
	audit->lost(audit->ctx, set->owner->name);
	return 0;
}

static int audit_members(struct audit *audit, struct set *set)
{
	struct mk_service_counts counts = { 0 };
	int ret;

	if (!set->has_members)
		return 0;
	audit->budget -= audit->budget < set->count ? audit->budget : set->count;
	set->has_members = false;
	ret = sync_members_write(audit->sync, set, &counts, audit->err);
	say(&audit->sync->tables.affinity_backends, set->owner->name, (int)counts.put);
	audit->repaired += (int)counts.put;
	return ret;
}

/* Called once per set of the Service; there are few. */
static int audit_ranges(struct audit *audit, const struct service *service)
{
	struct mk_service_counts counts = { 0 };
	int ret;

	if (!service->ranges)
		return 0;
	audit->budget -= audit->budget > 0;
	ret = sync_ranges_restore(audit->sync, service->ranges, &counts, audit->err);
	say(&audit->sync->tables.source_ranges, service->name, (int)counts.put);
	audit->repaired += (int)counts.put;
	return ret;
}

static int audit_set(struct audit *audit, struct set *set)
{
	int ret;

	if (!set->owner || !set->known)
		return 0;
	ret = audit_backends(audit, set) ?: audit_maglev(audit, set);
	ret = ret ?: audit_members(audit, set);
	return ret < 0 ? ret : audit_ranges(audit, set->owner);
}

/* Frontends and sets have a cursor each, so that every call checks some of both. */
int mk_service_sync_audit(struct mk_service_sync *sync, size_t budget,
			  void (*lost)(void *ctx, const char *service), void *ctx,
			  struct mk_error *err)
{
	struct audit audit = { sync, lost, ctx, budget / 2, err, 0 };
	int ret = 0;

	if (!sync->audited_frontend)
		sync->audited_frontend = sync->frontends;
	while (ret == 0 && audit.budget && sync->audited_frontend) {
		ret = audit_frontend(&audit, sync->audited_frontend);
		sync->audited_frontend = sync->audited_frontend->hh.next;
		audit.budget -= audit.budget > 0;
	}
	audit.budget = budget - budget / 2;
	if (!sync->audited_set)
		sync->audited_set = sync->sets;
	while (ret == 0 && audit.budget && sync->audited_set) {
		ret = audit_set(&audit, sync->audited_set);
		sync->audited_set = sync->audited_set->hh.next;
		audit.budget -= audit.budget > 0;
	}
	return ret < 0 ? ret : audit.repaired;
}

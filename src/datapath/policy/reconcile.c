// SPDX-License-Identifier: Apache-2.0
/* Check that the policy tables still hold what was written, a part per call. A missing block or
 * port inside another one with the same value is not noticed: programs find the other as well. */
#include <string.h>

#include "base/log.h"
#include "datapath/policy/tables_internal.h"

static bool is_checked(const struct record *record)
{
	return !record->dirty && record->state != RECORD_GONE;
}

/* Returns 1 if the entry was missing or had another value, and is back. */
static int restore(const struct mk_policy_sync *sync, struct record *record, struct mk_error *err)
{
	struct policy_entry should_be, now;
	int ret = record_read(sync, record, &now.value, err);

	record_rows(sync, record, &should_be);
	if (ret == 0 &&
	    memcmp(&now.value, &should_be.value, sync->maps[record->map]->value_size) == 0)
		return 0;
	if (ret < 0 && ret != -ENOENT)
		return ret;
	ret = record_write(sync, record, err);
	return ret < 0 ? ret : 1;
}

/* Check at most @budget entries of one map. Returns the number that was restored. */
static int reconcile_map(struct mk_policy_sync *sync, size_t *budget, struct mk_error *err)
{
	const struct mk_table *table = sync->maps[sync->due_map];
	int restored = 0, ret = 0;

	while (ret >= 0 && sync->due && *budget > 0) {
		struct record *record = sync->due;

		--*budget;
		sync->due = record_after(sync, sync->due_map, record);
		if (!is_checked(record))
			continue;
		ret = restore(sync, record, err);
		restored += ret > 0;
	}
	if (restored)
		mk_log_warn("entries were missing or changed and are back map=%s entries=%d",
			    table->name, restored);
	return ret < 0 ? ret : restored;
}

/* An emptied map lacks any entry, so it lacks the first one. */
static bool lacks_first(const struct mk_policy_sync *sync, enum policy_map map)
{
	struct record *record = record_after(sync, map, NULL);
	struct policy_entry now;

	while (record && !is_checked(record))
		record = record_after(sync, map, record);
	return record && record_read(sync, record, &now.value, NULL) == -ENOENT;
}

/* Programs must not be without a whole map until its turn comes. */
static int reconcile_emptied(struct mk_policy_sync *sync, struct mk_error *err)
{
	int restored = 0;

	for (enum policy_map map = 0; map < POLICY_MAPS; map++) {
		size_t all = sync->records[map].count;
		int ret;

		if (!lacks_first(sync, map))
			continue;
		sync->due_map = map;
		sync->due = record_after(sync, map, NULL);
		ret = reconcile_map(sync, &all, err);
		if (ret < 0)
			return ret;
		restored += ret;
	}
	return restored;
}

static int reconcile_entries(struct mk_policy_sync *sync, size_t budget, struct mk_error *err)
{
	int restored = reconcile_emptied(sync, err);

	if (restored < 0)
		return restored;
	for (int i = 0; i <= POLICY_MAPS && budget > 0; i++) {
		int ret = reconcile_map(sync, &budget, err);

		if (ret < 0)
			return ret;
		restored += ret;
		if (sync->due)
			break;
		sync->due_map = (enum policy_map)((sync->due_map + 1) % POLICY_MAPS);
		sync->due = record_after(sync, sync->due_map, NULL);
	}
	return restored;
}

/* Returns 1 if another process had cleared `on`, or changed `listed`. `on` may go at any time, with
 * the last pod that has a set; slots_switch() says if it is back. */
static int state_is_back(const struct mk_policy_sync *sync, const struct mk_policy_state *was)
{
	if (!was->on && sync->state->on)
		return 1;
	if (was->listed == sync->state->listed)
		return 0;
	slots_say_state(sync);
	return 1;
}

int mk_policy_sync_reconcile(struct mk_policy_sync *sync, size_t budget, struct mk_error *err)
{
	const struct mk_policy_state was = *sync->state;
	struct mk_policy_counts counts = { 0 };
	int ret = reconcile_entries(sync, budget, err);

	if (!sync->applied)
		return ret;
	/* what passed meanwhile is evaluated again */
	sync->raise_all |= ret != 0;
	slots_switch(sync, &counts);
	slots_raise(sync, &counts);
	if (counts.switched && !counts.lost)
		mk_log_warn("entries were changed and are back map=%s entries=%u",
			    sync->tables->pods.name, counts.switched);
	return ret < 0 ? ret : ret + (int)counts.switched + state_is_back(sync, &was);
}

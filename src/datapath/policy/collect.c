// SPDX-License-Identifier: Apache-2.0
/* Remove what has been gone for a second. A pod may keep a former set, if a table was full. The
 * rows of such a set stay, and the tables of ports that they name. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "datapath/policy/tables_internal.h"
#include "datapath/services/services.h"

struct collection {
	struct mk_policy_sync *sync;
	uint64_t now_ns;
	struct mk_policy_counts *counts;
	struct mk_error *err;
	struct mk_index tables; /* that rows of sets name */
	bool set_gone;
};

static bool is_special(uint64_t peer)
{
	return peer == MK_PEER_ANY_POD || peer == MK_PEER_UNKNOWN_POD;
}

static bool is_needed(const struct collection *collection, struct record *record)
{
	const struct mk_policy_sync *sync = collection->sync;
	const struct mk_policy_peer_key *peer = record_key(record);

	switch (record->map) {
	case POLICY_PEERS:
		return id_find(&sync->in_force, peer->set) &&
		       (is_special(peer->peer) || id_find(&sync->classes, peer->peer));
	case POLICY_BLOCKS:
		return id_find(&sync->in_force, policy_block_set(record_key(record)));
	case POLICY_PORTS:
		return id_find(&collection->tables, policy_port_table(record_key(record)));
	default:
		return false;
	}
}

static int remove_record(struct collection *collection, struct record *record)
{
	struct mk_policy_sync *sync = collection->sync;
	const struct mk_policy_peer_key *peer = record_key(record);
	int ret = record_remove(sync, record, collection->err);

	if (ret < 0)
		return ret;
	collection->counts->deleted += (unsigned int)ret;
	collection->set_gone |= record->map == POLICY_PEERS && is_special(peer->peer);
	record_free(sync, record);
	sync_wrote(sync);
	return 0;
}

/* Remove tables of ports, or everything else. Returns the number of records that are due and of the
 * other kind. */
static int remove_due(struct collection *collection, bool ports)
{
	const struct mk_policy_sync *sync = collection->sync;
	struct record *record;
	int left = 0;

	for (size_t at = 0; (record = places_next(&sync->gone, &at));) {
		int ret = 0;

		if (collection->now_ns - record_gone_since(sync, record) < MK_RETIRE_NS)
			break;
		if ((record->map == POLICY_PORTS) != ports)
			left++;
		else if (!is_needed(collection, record))
			ret = remove_record(collection, record);
		if (ret < 0)
			return ret;
	}
	return left;
}

static int read_tables(struct collection *collection)
{
	static const enum policy_map maps[] = { POLICY_PEERS, POLICY_BLOCKS };
	struct mk_policy_sync *sync = collection->sync;
	for (size_t i = 0; i < MK_ARRAY_SIZE(maps); i++)
		for (struct record *record = NULL;
		     (record = record_after(sync, maps[i], record));) {
			const struct mk_policy_peer *value = record_value(sync, record);

			if (!id_add(&collection->tables, value->table))
				return mk_error_errno(collection->err, ENOMEM, "tables of ports");
		}
	return 0;
}

/* Remove what is counted for sets that no longer exist. */
static int remove_counts(struct collection *collection)
{
	const struct mk_table *table = &collection->sync->tables->counts;
	cleanup_free void *keys = NULL;
	size_t count = 0;
	int ret = mk_table_keys(table, &keys, &count, collection->err);

	for (size_t i = 0; ret >= 0 && i < count; i++) {
		const struct mk_policy_count_key *key = (struct mk_policy_count_key *)keys + i;
		const struct mk_policy_peer_key any = { .set = key->set, .peer = MK_PEER_ANY_POD };

		if (key->set != MK_SET_OPEN && key->set != MK_SET_PENDING &&
		    !record_find(collection->sync, POLICY_PEERS, &any))
			ret = mk_table_delete(table, key, collection->err);
	}
	return ret < 0 ? ret : 0;
}

int mk_policy_sync_collect(struct mk_policy_sync *sync, uint64_t now_ns,
			   struct mk_policy_counts *counts, struct mk_error *err)
{
	struct collection collection = { .sync = sync, now_ns, counts, err, { 0 }, false };
	int ret;

	places_find_missing(sync, now_ns);
	if (sync->gone.used == 0)
		return sync->places_missing;
	ret = slots_read(sync, err);
	ret = ret ?: remove_due(&collection, false);
	if (ret > 0)
		ret = read_tables(&collection) ?: remove_due(&collection, true);
	ids_clear(&collection.tables);
	ids_clear(&sync->in_force);
	if (ret >= 0 && collection.set_gone)
		ret = remove_counts(&collection);
	return ret < 0 ? ret : sync->gone.used > 0 || sync->places_missing;
}

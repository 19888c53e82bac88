// SPDX-License-Identifier: Apache-2.0
/* What the maps hold and should hold, by key. Records of an earlier agent are read from the
 * maps. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/policy/tables_internal.h"

/* ---- ids ------------------------------------------------------------------------------------- */

static struct policy_id *id_of(struct mk_index_link *link)
{
	return link ? mk_index_entry(link, struct policy_id, link) : NULL;
}

struct policy_id *id_find(const struct mk_index *ids, uint64_t id)
{
	struct mk_index_link *link = mk_index_find(ids, mk_index_hash(&id, sizeof(id)));

	while (link && id_of(link)->id != id)
		link = mk_index_find_next(link);
	return id_of(link);
}

struct policy_id *id_after(const struct mk_index *ids, const struct policy_id *id)
{
	return id_of(mk_index_after(ids, id ? &id->link : NULL));
}

struct policy_id *id_add(struct mk_index *ids, uint64_t id)
{
	struct policy_id *found = id_find(ids, id);

	if (found)
		return found;
	found = calloc(1, sizeof(*found));
	if (!found)
		return NULL;
	found->id = id;
	if (mk_index_add(ids, &found->link, mk_index_hash(&id, sizeof(id))) == 0)
		return found;
	free(found);
	return NULL;
}

void ids_clear(struct mk_index *ids)
{
	struct policy_id *id, *next;

	for (id = id_after(ids, NULL); id; id = next) {
		next = id_after(ids, id);
		free(id);
	}
	mk_index_release(ids);
}

void class_unuse(struct mk_policy_sync *sync, uint64_t class_id)
{
	struct policy_id *class = id_find(&sync->classes, class_id);

	if (!class || --class->uses > 0)
		return;
	mk_index_remove(&sync->classes, &class->link);
	free(class);
}

/* ---- one record ------------------------------------------------------------------------------ */

static size_t value_at(const struct mk_table *table)
{
	return (table->stored_key_size + 7u) / 8;
}

void *record_value(const struct mk_policy_sync *sync, struct record *record)
{
	return record->bytes + value_at(sync->maps[record->map]);
}

static size_t owner_at(const struct mk_table *table)
{
	return value_at(table) + (table->stored_value_size + 7u) / 8;
}

const struct record **record_owner(const struct mk_policy_sync *sync, struct record *record)
{
	return (const struct record **)(record->bytes + owner_at(sync->maps[record->map]));
}

static size_t record_bytes(const struct mk_policy_sync *sync, enum policy_map map)
{
	const struct mk_table *table = sync->maps[map];
	size_t bytes = sizeof(struct record) + owner_at(table) * 8;

	return map == POLICY_EXPECTED ? bytes + sizeof(struct record *) : bytes;
}

static struct record *record_of(struct mk_index_link *link)
{
	return link ? mk_index_entry(link, struct record, link) : NULL;
}

struct record *record_find(const struct mk_policy_sync *sync, enum policy_map map, const void *key)
{
	const struct mk_table *table = sync->maps[map];
	uint8_t room[MK_STORED_MAX];
	const void *stored = mk_table_stored_key(table, key, room);
	size_t bytes = table->stored_key_size;
	struct mk_index_link *link =
		mk_index_find(&sync->records[map], mk_index_hash(stored, bytes));

	while (link && memcmp(record_of(link)->bytes, stored, bytes) != 0)
		link = mk_index_find_next(link);
	return record_of(link);
}

struct record *record_after(const struct mk_policy_sync *sync, enum policy_map map,
			    const struct record *record)
{
	return record_of(mk_index_after(&sync->records[map], record ? &record->link : NULL));
}

static struct record *record_new(struct mk_policy_sync *sync, enum policy_map map, const void *key)
{
	const struct mk_table *table = sync->maps[map];
	struct record *record = mk_cell_new(&sync->cells[map]);
	uint8_t room[MK_STORED_MAX];

	if (!record)
		return NULL;
	record->map = map;
	memcpy(record->bytes, mk_table_stored_key(table, key, room), table->stored_key_size);
	if (mk_index_add(&sync->records[map], &record->link,
			 mk_index_hash(record->bytes, table->stored_key_size)) == 0)
		return record;
	mk_cell_free(&sync->cells[map], record);
	return NULL;
}

/* ---- the map's entry of a record ------------------------------------------------------------- */

void record_rows(const struct mk_policy_sync *sync, struct record *record,
		 struct policy_entry *entry)
{
	mk_table_key_row(sync->maps[record->map], &entry->key, record_key(record));
	mk_table_value_row(sync->maps[record->map], &entry->value, record_value(sync, record));
}

int record_read(const struct mk_policy_sync *sync, struct record *record, void *value,
		struct mk_error *err)
{
	struct policy_entry entry;

	record_rows(sync, record, &entry);
	return mk_table_get(sync->maps[record->map], &entry.key, value, err);
}

int record_write(const struct mk_policy_sync *sync, struct record *record, struct mk_error *err)
{
	struct policy_entry entry;

	record_rows(sync, record, &entry);
	return mk_table_put(sync->maps[record->map], &entry.key, &entry.value, err);
}

int record_remove(const struct mk_policy_sync *sync, struct record *record, struct mk_error *err)
{
	struct policy_entry entry;

	record_rows(sync, record, &entry);
	return mk_table_delete(sync->maps[record->map], &entry.key, err);
}

/* ---- lists of records ------------------------------------------------------------------------ */

/* Close the gaps that records have left. */
static void places_pack(struct places *places)
{
	size_t kept = 0;

	for (size_t i = 0; i < places->count; i++) {
		if (!places->of[i].record)
			continue;
		places->of[kept++] = places->of[i];
		places->of[kept - 1].record->place = (unsigned int)kept & PLACE_MAX;
	}
	places->count = kept;
}

static int places_grow(struct places *places)
{
	size_t room = places->room ? 2 * places->room : 8;
	struct place *of;

	if (places->count < places->room)
		return 0;
	if (places->used <= places->count / 2 && places->count > 0) {
		places_pack(places);
		return 0;
	}
	of = room <= PLACE_MAX ? reallocarray(places->of, room, sizeof(*of)) : NULL;
	if (!of)
		return -ENOMEM;
	places->of = of;
	places->room = room;
	return 0;
}

static int places_add(struct places *places, struct record *record, uint64_t since_ns)
{
	if (places_grow(places) < 0)
		return -ENOMEM;
	places->of[places->count++] = (struct place){ record, since_ns };
	record->place = (unsigned int)places->count & PLACE_MAX;
	places->used++;
	return 0;
}

static void places_remove(struct places *places, struct record *record)
{
	places->of[record->place - 1].record = NULL;
	record->place = 0;
	if (--places->used > 0)
		return;
	free(places->of);
	*places = (struct places){ 0 };
}

struct record *places_next(const struct places *places, size_t *at)
{
	while (*at < places->count) {
		struct record *record = places->of[(*at)++].record;

		if (record)
			return record;
	}
	return NULL;
}

static struct places *places_for(struct mk_policy_sync *sync, const struct record *record)
{
	if (record->dirty)
		return &sync->dirty[record->map];
	return record->state == RECORD_GONE ? &sync->gone : NULL;
}

/* Without memory, the next call writes or removes what the record stands for. */
static void record_list(struct mk_policy_sync *sync, struct record *record, uint64_t now_ns)
{
	if (places_add(places_for(sync, record), record, now_ns) < 0)
		sync->places_missing = true;
}

static void unlist(struct mk_policy_sync *sync, struct record *record)
{
	if (record->place)
		places_remove(places_for(sync, record), record);
	record->dirty = false;
}

static void find_missing(struct mk_policy_sync *sync, enum policy_map map, uint64_t now_ns)
{
	for (struct record *record = NULL; (record = record_after(sync, map, record));)
		if (!record->place && places_for(sync, record))
			record_list(sync, record, now_ns);
}

void places_find_missing(struct mk_policy_sync *sync, uint64_t now_ns)
{
	if (!sync->places_missing)
		return;
	sync->places_missing = false;
	for (enum policy_map map = 0; map < POLICY_MAPS; map++)
		find_missing(sync, map, now_ns);
}

uint64_t record_gone_since(const struct mk_policy_sync *sync, const struct record *record)
{
	return sync->gone.of[record->place - 1].since_ns;
}

/* ---- changes of records ---------------------------------------------------------------------- */

void record_clean(struct mk_policy_sync *sync, struct record *record)
{
	unlist(sync, record);
	record->written = true;
}

struct record *record_put(struct mk_policy_sync *sync, enum policy_map map, const void *key,
			  const void *value, enum record_state state)
{
	struct record *record = record_find(sync, map, key) ?: record_new(sync, map, key);
	const size_t bytes = sync->maps[map]->stored_value_size;
	uint8_t room[MK_STORED_MAX];
	const void *stored = mk_table_stored_value(sync->maps[map], value, room);
	bool dirty;

	if (!record)
		return NULL;
	dirty = record->dirty || !record->written ||
		memcmp(record_value(sync, record), stored, bytes) != 0;
	unlist(sync, record);
	memcpy(record_value(sync, record), stored, bytes);
	record->state = state;
	record->dirty = dirty;
	sync->has_former |= state == RECORD_FORMER;
	if (dirty)
		record_list(sync, record, 0);
	return record;
}

/* An address without identity has another verdict, so its removal does not wait. */
void record_gone(struct mk_policy_sync *sync, struct record *record, uint64_t now_ns)
{
	if (record->state == RECORD_GONE)
		return;
	if (!record->written) {
		record_free(sync, record);
		return;
	}
	unlist(sync, record);
	record->state = RECORD_GONE;
	record->dirty = record->map == POLICY_IDENTITIES;
	record_list(sync, record, now_ns);
}

void record_free(struct mk_policy_sync *sync, struct record *record)
{
	if (sync->due == record)
		sync->due = record_after(sync, record->map, record);
	unlist(sync, record);
	mk_index_remove(&sync->records[record->map], &record->link);
	mk_cell_free(&sync->cells[record->map], record);
}

/* ---- an earlier agent's ---------------------------------------------------------------------- */

struct reading {
	struct mk_policy_sync *sync;
	enum policy_map map;
};

static int recover_class(struct mk_policy_sync *sync, const struct mk_policy_identity *identity)
{
	struct policy_id *class =
		identity->class_id ? id_add(&sync->classes, identity->class_id) : NULL;

	if (class)
		class->uses++;
	return identity->class_id && !class ? -ENOMEM : 0;
}

static int recover_record(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	const struct reading *reading = ctx;
	struct mk_policy_sync *sync = reading->sync;
	struct record *record;

	/* a walk over a map that changes meanwhile may repeat a key */
	if (record_find(sync, reading->map, key))
		return 0;
	record = record_put(sync, reading->map, key, value, RECORD_FORMER);
	if (!record || (reading->map == POLICY_IDENTITIES && recover_class(sync, value) < 0))
		return mk_error_errno(err, ENOMEM, "cannot read map '%s'",
				      sync->maps[reading->map]->name);
	record_clean(sync, record);
	return 0;
}

/* ---- life cycle ------------------------------------------------------------------------------ */

static int read_all(struct mk_policy_sync *sync, struct mk_error *err)
{
	int ret = slots_open(sync, err);

	for (int map = 0; ret == 0 && map < POLICY_MAPS; map++) {
		struct reading reading = { sync, (enum policy_map)map };

		ret = mk_table_each(sync->maps[map], recover_record, &reading, err);
	}
	return ret;
}

struct mk_policy_sync *mk_policy_sync_new(const struct mk_policy_tables *tables,
					  struct mk_error *err)
{
	struct mk_policy_sync *sync = calloc(1, sizeof(*sync));

	if (!sync) {
		(void)mk_error_errno(err, ENOMEM, "cannot read the policy tables");
		return NULL;
	}
	*sync = (struct mk_policy_sync){
		.tables = tables,
		.maps = { [POLICY_PORTS] = &tables->ports,
			  [POLICY_PEERS] = &tables->peers,
			  [POLICY_BLOCKS] = &tables->blocks,
			  [POLICY_IDENTITIES] = &tables->identities,
			  [POLICY_NAMESPACES] = &tables->namespaces,
			  [POLICY_EXPECTED] = &tables->expected },
		.family = mk_table_family(&tables->identities),
		.listed = -1,
		.raise_all = true,
	};
	for (enum policy_map map = 0; map < POLICY_MAPS; map++)
		sync->cells[map].bytes = record_bytes(sync, map);
	if (read_all(sync, err) < 0) {
		mk_policy_sync_free(sync);
		return NULL;
	}
	return sync;
}

void mk_policy_sync_free(struct mk_policy_sync *sync)
{
	struct record *record, *next;

	if (!sync)
		return;
	sync->due = NULL;
	for (enum policy_map map = 0; map < POLICY_MAPS; map++) {
		for (record = record_after(sync, map, NULL); record; record = next) {
			next = record_after(sync, map, record);
			record_free(sync, record);
		}
		mk_index_release(&sync->records[map]);
	}
	ids_clear(&sync->classes);
	ids_clear(&sync->in_force);
	ids_clear(&sync->blocked);
	sandboxes_free(sync);
	slots_close(sync);
	free(sync);
}

void mk_policy_sync_release(struct mk_policy_sync *sync, uint64_t now_ns)
{
	struct record *record, *next;

	for (enum policy_map map = 0; map < POLICY_MAPS; map++)
		for (record = record_after(sync, map, NULL); record; record = next) {
			next = record_after(sync, map, record);
			if (record->state == RECORD_FORMER)
				record_gone(sync, record, now_ns);
		}
	sync->has_former = false;
}

void mk_policy_sync_entries(const struct mk_policy_sync *sync, struct mk_policy_entries *entries)
{
	*entries = (struct mk_policy_entries){
		.identities = sync->records[POLICY_IDENTITIES].count,
		.peers = sync->records[POLICY_PEERS].count,
		.blocks = sync->records[POLICY_BLOCKS].count,
		.ports = sync->records[POLICY_PORTS].count,
		.expected = sync->records[POLICY_EXPECTED].count,
		.namespaces = sync->records[POLICY_NAMESPACES].count,
	};
}

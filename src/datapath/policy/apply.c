// SPDX-License-Identifier: Apache-2.0
/* Write what changed, in the order that tables.h states. An entry that cannot be written blocks
 * what refers to it: a table blocks sets, a set its pods, a row of a set in force the class it is
 * for. All else goes on. */
#include <string.h>

#include "datapath/policy/tables_internal.h"

struct work {
	struct mk_policy_sync *sync;
	uint64_t now_ns;
	struct mk_policy_counts *counts;
	struct mk_error *err; /* keeps the first failure */
	int failed;
};

static struct mk_error *first_error(const struct work *work)
{
	return work->failed ? NULL : work->err;
}

static int no_memory(const struct work *work)
{
	return mk_error_errno(work->err, ENOMEM, "cannot bring the policy tables up to date");
}

/* ---- what changed ---------------------------------------------------------------------------- */

/* A runtime may give ADD no UID. So a pod's name stands for its UID, unless a row has that name. */
static int put_name(const struct work *work, const struct mk_pod_row *row, struct record *record)
{
	struct mk_policy_pod_key key;
	struct record *name;

	*record_owner(work->sync, record) = NULL;
	if (!row->uid)
		return 0;
	policy_pod_name(&key, row);
	name = record_find(work->sync, POLICY_EXPECTED, &key);
	if (name && name->state == RECORD_WANTED && !*record_owner(work->sync, name))
		return 0;
	name = record_put(work->sync, POLICY_EXPECTED, &key, record_value(work->sync, record),
			  RECORD_WANTED);
	if (!name)
		return no_memory(work);
	*record_owner(work->sync, name) = record;
	return 0;
}

static void name_gone(const struct work *work, const struct mk_pod_row *row,
		      const struct record *record)
{
	struct mk_policy_pod_key key;
	struct record *name;

	policy_pod_name(&key, row);
	name = record_find(work->sync, POLICY_EXPECTED, &key);
	if (name && name->state == RECORD_WANTED && *record_owner(work->sync, name) == record)
		record_gone(work->sync, name, work->now_ns);
}

static void note_gone(const struct work *work, const struct row_list *rows)
{
	for (size_t i = 0; i < rows->gone_count; i++) {
		const void *row = rows->gone + i * rows->row_bytes;
		struct policy_entry entry;
		struct record *record;

		if (!rows->convert(work->sync->family, row, &entry))
			continue;
		record = record_find(work->sync, rows->map, &entry.key);
		if (record && rows->map == POLICY_EXPECTED)
			name_gone(work, row, record);
		if (record)
			record_gone(work->sync, record, work->now_ns);
	}
}

static int note_put(const struct work *work, const struct row_list *rows)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < rows->put_count; i++) {
		const void *row = rows->put + i * rows->row_bytes;
		struct policy_entry entry;
		struct record *record;

		if (!rows->convert(work->sync->family, row, &entry))
			continue;
		record = record_put(work->sync, rows->map, &entry.key, &entry.value, RECORD_WANTED);
		if (!record)
			return no_memory(work);
		if (rows->map == POLICY_EXPECTED)
			ret = put_name(work, row, record);
	}
	return ret;
}

/* ---- one entry ------------------------------------------------------------------------------- */

/* Does the entry refer to something that could not be written? */
static bool must_wait(const struct mk_policy_sync *sync, struct record *record)
{
	const void *value = record_value(sync, record);
	const struct mk_policy_expected *expected = value;

	switch (record->map) {
	case POLICY_PEERS:
	case POLICY_BLOCKS:
		return id_find(&sync->blocked, ((const struct mk_policy_peer *)value)->table);
	case POLICY_IDENTITIES:
		return id_find(&sync->blocked,
			       ((const struct mk_policy_identity *)value)->class_id);
	case POLICY_EXPECTED:
		return id_find(&sync->blocked, expected->set[MK_POLICY_INGRESS]) ||
		       id_find(&sync->blocked, expected->set[MK_POLICY_EGRESS]);
	default:
		return false;
	}
}

/* What must not be used while this entry is not written. 0: nothing. */
static uint64_t needs_it(const struct mk_policy_sync *sync, struct record *record)
{
	const struct mk_policy_peer_key *peer = record_key(record);

	switch (record->map) {
	case POLICY_PORTS:
		return policy_port_table(record_key(record));
	case POLICY_PEERS:
		return id_find(&sync->in_force, peer->set) ? peer->peer : peer->set;
	case POLICY_BLOCKS:
		return policy_block_set(record_key(record));
	default:
		return 0;
	}
}

static int put_off(const struct work *work, struct record *record)
{
	uint64_t id = needs_it(work->sync, record);

	return id && !id_add(&work->sync->blocked, id) ? no_memory(work) : 0;
}

static int put(struct work *work, struct record *record)
{
	struct mk_policy_sync *sync = work->sync;
	int ret = record_write(sync, record, first_error(work));

	if (ret < 0) {
		work->failed = work->failed ?: ret;
		return ret;
	}
	record_clean(sync, record);
	work->counts->put++;
	sync_wrote(sync);
	return 0;
}

static int take_out(struct work *work, struct record *record)
{
	struct mk_policy_sync *sync = work->sync;
	int ret = record_remove(sync, record, first_error(work));

	if (ret < 0) {
		work->failed = work->failed ?: ret;
		return ret;
	}
	record_free(sync, record);
	work->counts->deleted += (unsigned int)ret;
	sync_wrote(sync);
	return 0;
}

/* ---- peers that change in place -------------------------------------------------------------- */

static struct record *peer_record(const struct mk_policy_sync *sync, uint64_t set, uint64_t peer)
{
	const struct mk_policy_peer_key key = { .set = set, .peer = peer };

	return record_find(sync, POLICY_PEERS, &key);
}

static uint64_t table_of(const struct mk_policy_sync *sync, struct record *record)
{
	return record ? ((const struct mk_policy_peer *)record_value(sync, record))->table : 0;
}

static uint64_t table_for(const struct mk_policy_sync *sync, uint64_t set, uint64_t class)
{
	return table_of(sync,
			peer_record(sync, set, class) ?: peer_record(sync, set, MK_PEER_ANY_POD));
}

/* Do the compiled rows still have the set? */
static bool is_compiled(const struct mk_policy_sync *sync, uint64_t set)
{
	const struct record *any = peer_record(sync, set, MK_PEER_ANY_POD);

	return any && any->state == RECORD_WANTED;
}

/* Does this row change the ports of pods in use, by itself? Then it is written after the pods have
 * their sets: a pod that gets another set for the same reason must not meet it in its former
 * set. */
static bool is_in_place(const struct mk_policy_sync *sync, struct record *record)
{
	const struct mk_policy_peer_key *key = record_key(record);

	return id_find(&sync->in_force, key->set) && id_find(&sync->classes, key->peer);
}

/* Before @record is written: does this change the ports that a set in force has for a class in
 * use? */
static void note_peer(const struct work *work, struct record *record)
{
	const struct mk_policy_sync *sync = work->sync;
	const struct mk_policy_peer_key *key = record_key(record);
	struct policy_id *set = id_find(&sync->in_force, key->set);
	struct mk_policy_peer now;

	if (!set || !id_find(&sync->classes, key->peer))
		return;
	if (mk_table_get(sync->maps[POLICY_PEERS], key, &now, NULL) < 0)
		now.table = table_of(sync, peer_record(sync, key->set, MK_PEER_ANY_POD));
	set->changed |= now.table != table_of(sync, record);
}

/* A class that has lost its row has the ports of MK_PEER_ANY_POD. If pods have the class, this is a
 * change, so the removal does not wait. */
static void remove_fallen(struct work *work)
{
	struct mk_policy_sync *sync = work->sync;
	struct record *record;

	if (sync->dirty[POLICY_IDENTITIES].used > 0)
		return;
	for (size_t at = 0; (record = places_next(&sync->gone, &at));) {
		const struct mk_policy_peer_key *key = record_key(record);
		struct policy_id *set;

		if (record->map != POLICY_PEERS || !id_find(&sync->classes, key->peer))
			continue;
		set = id_find(&sync->in_force, key->set);
		if (!set || !is_compiled(sync, key->set))
			continue;
		set->changed |= table_of(sync, record) !=
				table_of(sync, peer_record(sync, key->set, MK_PEER_ANY_POD));
		(void)take_out(work, record);
	}
}

/* A set comes into force again before rows that it has lost were removed. */
static void remove_stale(struct work *work)
{
	struct mk_policy_sync *sync = work->sync;
	struct record *record;

	for (size_t at = 0; (record = places_next(&sync->gone, &at));) {
		const struct mk_policy_peer_key *key = record_key(record);

		if (record->map == POLICY_PEERS && !id_find(&sync->in_force, key->set) &&
		    is_compiled(sync, key->set))
			(void)take_out(work, record);
	}
}

/* ---- identities ------------------------------------------------------------------------------ */

/* Has an unknown address the same ports in @set as a pod of @class? */
static bool is_as_unknown(const struct mk_policy_sync *sync, uint64_t set, uint64_t class)
{
	const struct mk_policy_block_key key = policy_any_block(set);
	uint64_t ports = table_for(sync, set, class);

	if (ports != table_of(sync, peer_record(sync, set, MK_PEER_UNKNOWN_POD)))
		return false;
	return (set & MK_SET_HAS_BLOCKS) ||
	       ports == table_of(sync, record_find(sync, POLICY_BLOCKS, &key));
}

static bool differs(const struct mk_policy_sync *sync, uint64_t set,
		    const struct mk_policy_identity *a, const struct mk_policy_identity *b)
{
	if (!mk_addr_eq(&a->counts_as, &b->counts_as))
		return true;
	if (a->class_id == b->class_id)
		return false;
	if (a->class_id && b->class_id)
		return table_for(sync, set, a->class_id) != table_for(sync, set, b->class_id);
	return !is_as_unknown(sync, set, a->class_id ?: b->class_id);
}

static void note_identity(const struct work *work, const struct mk_policy_identity *was,
			  const struct mk_policy_identity *will_be)
{
	struct policy_id *set = NULL;

	while ((set = id_after(&work->sync->in_force, set)))
		set->changed = set->changed || differs(work->sync, set->id, was, will_be);
}

/* An address gets another class. In a set in force that the compiler does not know, the new class
 * gets the ports of the old one. Returns 1 if a row could not be written. */
static int copy_class(struct work *work, uint64_t was, uint64_t will_be)
{
	struct mk_policy_sync *sync = work->sync;
	struct policy_id *set = NULL;

	while ((set = id_after(&sync->in_force, set))) {
		const struct mk_policy_peer_key key = { .set = set->id, .peer = will_be };
		struct record *from = peer_record(sync, set->id, was), *copy;

		if (!from || is_compiled(sync, set->id) || record_find(sync, POLICY_PEERS, &key))
			continue;
		copy = record_put(sync, POLICY_PEERS, &key, record_value(sync, from),
				  RECORD_FORMER);
		if (!copy)
			return no_memory(work);
		if (put(work, copy) < 0)
			return 1;
		if (from->state == RECORD_GONE)
			record_gone(sync, copy, work->now_ns);
	}
	return 0;
}

static int put_identity(struct work *work, struct record *record, uint64_t was, uint64_t will_be)
{
	struct mk_policy_sync *sync = work->sync;
	struct policy_id *class = NULL;

	if (will_be) {
		class = id_add(&sync->classes, will_be);
		if (!class)
			return no_memory(work);
		class->uses++;
	}
	class_unuse(sync, put(work, record) < 0 ? will_be : was);
	return 0;
}

static int write_identity(struct work *work, struct record *record)
{
	struct mk_policy_sync *sync = work->sync;
	static const struct mk_policy_identity nothing;
	struct policy_entry rows;
	const struct mk_policy_identity *will_be = &rows.value.identity;
	struct mk_policy_identity was;
	int ret;

	record_rows(sync, record, &rows);
	if (record_read(sync, record, &was, NULL) < 0)
		was = nothing;
	if (record->state == RECORD_GONE) {
		note_identity(work, &was, &nothing);
		if (take_out(work, record) == 0)
			class_unuse(sync, was.class_id);
		return 0;
	}
	ret = was.class_id != will_be->class_id ? copy_class(work, was.class_id, will_be->class_id)
						: 0;
	if (ret != 0)
		return ret < 0 ? ret : 0;
	note_identity(work, &was, will_be);
	return put_identity(work, record, was.class_id, will_be->class_id);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* A class that has a row in a compiled set only because of an earlier agent. */
static void drop_former(const struct work *work)
{
	struct mk_policy_sync *sync = work->sync;
	struct record *record = record_after(sync, POLICY_PEERS, NULL), *next;

	for (; record; record = next) {
		const struct mk_policy_peer_key *key = record_key(record);

		next = record_after(sync, POLICY_PEERS, record);
		if (record->state == RECORD_FORMER && is_compiled(sync, key->set))
			record_gone(sync, record, work->now_ns);
	}
}

static int note(const struct work *work, const struct mk_policy_changes *changes)
{
	struct row_list rows[POLICY_MAPS];
	int ret = 0;

	row_lists_of(changes, rows);
	for (int map = 0; ret == 0 && map < POLICY_MAPS; map++) {
		note_gone(work, &rows[map]);
		ret = note_put(work, &rows[map]);
	}
	if (ret == 0 && work->sync->has_former)
		drop_former(work);
	return ret;
}

static int write_record(struct work *work, struct record *record)
{
	if (must_wait(work->sync, record))
		return put_off(work, record);
	if (record->map == POLICY_IDENTITIES)
		return write_identity(work, record);
	return put(work, record) < 0 ? put_off(work, record) : 0;
}

static int write_map(struct work *work, enum policy_map map)
{
	struct record *record;
	int ret = 0;

	for (size_t at = 0; (record = places_next(&work->sync->dirty[map], &at));) {
		if (map != POLICY_PEERS || !is_in_place(work->sync, record))
			ret = write_record(work, record);
		if (ret < 0)
			return ret;
	}
	return 0;
}

/* Write the rows that change pods in use by themselves. */
static int write_in_place(struct work *work)
{
	struct record *record;
	int ret = 0;

	for (size_t at = 0; (record = places_next(&work->sync->dirty[POLICY_PEERS], &at));) {
		if (must_wait(work->sync, record))
			continue;
		note_peer(work, record);
		ret = write_record(work, record);
		if (ret < 0)
			return ret;
	}
	remove_fallen(work);
	return 0;
}

static int run(struct work *work, const struct mk_policy_changes *changes)
{
	struct mk_policy_sync *sync = work->sync;
	int ret;

	places_find_missing(sync, work->now_ns);
	ret = changes ? note(work, changes) : 0;
	if (ret == 0 && sync->places_missing)
		ret = no_memory(work);
	ids_clear(&sync->blocked);
	ret = ret ?: slots_read(sync, work->err);
	for (int map = 0; ret == 0 && map < POLICY_MAPS; map++)
		ret = write_map(work, (enum policy_map)map);
	if (ret < 0)
		return ret;
	remove_stale(work);
	slots_switch(sync, work->counts);
	ret = write_in_place(work);
	slots_raise(sync, work->counts);
	return ret;
}

/* CNI ADD reads these maps: their entries do not wait. */
static void empty_map(struct work *work, enum policy_map map)
{
	struct record *record = record_after(work->sync, map, NULL), *next;

	for (; record; record = next) {
		next = record_after(work->sync, map, record);
		(void)take_out(work, record);
	}
}

static void all_gone(const struct work *work, enum policy_map map)
{
	struct record *record = record_after(work->sync, map, NULL), *next;

	for (; record; record = next) {
		next = record_after(work->sync, map, record);
		record_gone(work->sync, record, work->now_ns);
	}
}

int mk_policy_sync_open_all(struct mk_policy_sync *sync, uint64_t now_ns,
			    struct mk_policy_counts *counts, struct mk_error *err)
{
	struct work work = { sync, now_ns, counts, err, 0 };

	sync->opens_all = true;
	mk_policy_sync_set_listed(sync, MK_POLICY_LISTED_NONE);
	empty_map(&work, POLICY_EXPECTED);
	empty_map(&work, POLICY_NAMESPACES);
	slots_switch(sync, counts);
	for (int map = 0; map < POLICY_MAPS; map++)
		all_gone(&work, (enum policy_map)map);
	if (work.failed)
		return work.failed;
	return mk_policy_sync_apply(sync, NULL, now_ns, counts, err);
}

int mk_policy_sync_apply(struct mk_policy_sync *sync, const struct mk_policy_changes *changes,
			 uint64_t now_ns, struct mk_policy_counts *counts, struct mk_error *err)
{
	struct work work = { sync, now_ns, counts, err, 0 };
	int ret = run(&work, changes);

	if (ret < 0) {
		sync->raise_all = true;
		return ret;
	}
	if (!work.failed)
		return 0;
	(void)mk_error_wrap(
		err,
		"some pods keep their former policies; use fewer policies, or selectors with fewer label keys");
	return work.failed;
}

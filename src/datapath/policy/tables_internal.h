/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/policy/tables_internal.h - the records behind tables.h, shared by its files:
 * entries.c (rows become keys and values), records.c (what the tables hold and should hold),
 * apply.c (the order of writes), slots.c (pods, `on`, generations), collect.c (removal),
 * reconcile.c (repair). */
#ifndef MK_DATAPATH_POLICY_TABLES_INTERNAL_H
#define MK_DATAPATH_POLICY_TABLES_INTERNAL_H

#include <stdbool.h>

#include "base/index.h"
#include "datapath/policy/tables.h"

/* In the order in which they are written. */
enum policy_map {
	POLICY_PORTS,
	POLICY_PEERS,
	POLICY_BLOCKS,
	POLICY_IDENTITIES,
	POLICY_NAMESPACES,
	POLICY_EXPECTED,
	POLICY_MAPS
};

#define PLACE_BITS 25
#define PLACE_MAX  ((1U << PLACE_BITS) - 1)

enum record_state {
	RECORD_WANTED, /* a compiled row */
	RECORD_FORMER, /* an earlier agent's row, or a copy of it for a new class */
	RECORD_GONE, /* no row any more; to be removed */
};

/* An entry of a map. Most are clean, so what only others need is in their list. */
struct record {
	struct mk_index_link link;
	unsigned int map : 3; /* enum policy_map */
	unsigned int state : 2; /* enum record_state */
	bool written : 1; /* the map has an entry of this key */
	/* In the list `dirty` of its map: to be written, or an identity to be removed. Otherwise,
	 * if it is gone, in the list `gone`. */
	bool dirty : 1;
	unsigned int place : PLACE_BITS; /* in its list, from 1; 0: in none, see places_missing */
	/* The key; from the next multiple of 8 bytes the value, then the owner. Both are as the map
	 * stores them: in IPv4 an identity takes 24 bytes, its row 48. */
	uint64_t bytes[];
};

struct place {
	struct record *record; /* NULL: it has left the list */
	uint64_t since_ns; /* since when it is gone */
};

/* Records in order. */
struct places {
	struct place *of;
	size_t count, room;
	size_t used; /* of @count */
};

/* A set, a class or a table, by its name. */
struct policy_id {
	struct mk_index_link link;
	uint32_t uses : 31; /* of a class: identities in the map */
	bool changed : 1; /* of a set in force: an address or a class has other ports now */
	uint64_t id;
};

struct sandbox {
	char *uid, *name; /* name: "namespace/name"; NULL: none */
	struct mk_addr addr;
	uint32_t ifindex;
};

struct mk_policy_sync {
	const struct mk_policy_tables *tables;
	const struct mk_table *maps[POLICY_MAPS];
	sa_family_t family;
	struct mk_index records[POLICY_MAPS]; /* by key */
	struct mk_cells cells[POLICY_MAPS]; /* of records */
	struct places dirty[POLICY_MAPS];
	struct places gone; /* the oldest first */
	/* Out of memory: records that belong in a list are in none. */
	bool places_missing;
	struct mk_index classes; /* of identities in the map */
	struct mk_index in_force; /* sets of pods when the last call began */
	/* Sets, classes and tables that could not be written completely in the last apply: nothing
	 * may refer to them. */
	struct mk_index blocked;
	struct sandbox *sandboxes;
	size_t sandbox_count;
	char *slots; /* map pod_policies in memory */
	size_t slots_bytes;
	bool *raise; /* by slot: raise the generation */
	struct mk_policy_state *state; /* map policy_state in memory */
	size_t state_bytes;
	int listed; /* enum mk_policy_listed; -1: not known yet */
	bool has_former; /* there may be records in state RECORD_FORMER */
	bool opens_all; /* policies are not enforced */
	bool applied; /* at least once: before that, no pod is touched */
	/* Raise the generation of all pods: a call may have ended before it did so. */
	bool raise_all;
	struct record *due; /* the next one to be checked */
	enum policy_map due_map;
	/* For tests: called after each write. */
	void (*after_write)(void *ctx);
	void *after_write_ctx;
};

static inline void sync_wrote(const struct mk_policy_sync *sync)
{
	if (sync->after_write)
		sync->after_write(sync->after_write_ctx);
}

/* ---- entries.c ------------------------------------------------------------------------------- */

struct policy_entry {
	union {
		struct mk_addr address;
		struct mk_policy_peer_key peer;
		struct mk_policy_block_key block;
		struct mk_policy_port_key port;
		struct mk_policy_pod_key pod;
		struct mk_policy_namespace_key namespace_;
	} key;
	union {
		struct mk_policy_identity identity;
		struct mk_policy_peer peer;
		struct mk_policy_port port;
		struct mk_policy_expected expected;
		struct mk_policy_namespace namespace_;
	} value;
};

/* The rows of one map in a struct mk_policy_changes. */
struct row_list {
	enum policy_map map;
	const char *put, *gone;
	size_t put_count, gone_count, row_bytes;
	/* Returns false if the row is not of this family. */
	bool (*convert)(sa_family_t family, const void *row, struct policy_entry *entry);
};
void row_lists_of(const struct mk_policy_changes *changes, struct row_list rows[POLICY_MAPS]);
/* @name: "namespace/name". @uid NULL: none. */
void policy_pod_key(struct mk_policy_pod_key *key, const char *uid, const char *name);
void policy_pod_name(struct mk_policy_pod_key *key, const struct mk_pod_row *row);
struct mk_policy_block_key policy_any_block(uint64_t set);
uint64_t policy_block_set(const struct mk_policy_block_key *key);
uint64_t policy_port_table(const struct mk_policy_port_key *key);

/* ---- records.c ------------------------------------------------------------------------------- */

/* As the map stores them, see mk_table_stored_key(): sets, classes and tables of ports are where
 * the row has them. */
static inline void *record_key(struct record *record)
{
	return record->bytes;
}
void *record_value(const struct mk_policy_sync *sync, struct record *record);
/* Key and value as rows. */
void record_rows(const struct mk_policy_sync *sync, struct record *record,
		 struct policy_entry *entry);
/* Read what the map has of @record into @value, a row; write the record; remove it from the map.
 * They return what mk_table_get(), mk_table_put() and mk_table_delete() do. */
mk_must_check int record_read(const struct mk_policy_sync *sync, struct record *record, void *value,
			      struct mk_error *err);
mk_must_check int record_write(const struct mk_policy_sync *sync, struct record *record,
			       struct mk_error *err);
mk_must_check int record_remove(const struct mk_policy_sync *sync, struct record *record,
				struct mk_error *err);
/* @key: a row. */
struct record *record_find(const struct mk_policy_sync *sync, enum policy_map map, const void *key);
/* Visit all records of a map: after NULL the first one. Get the next one before @record is
 * freed. */
struct record *record_after(const struct mk_policy_sync *sync, enum policy_map map,
			    const struct record *record);
/* Return the next record of @places from *@at on, which moves, or NULL. Meanwhile records may leave
 * @places, but none may come. */
struct record *places_next(const struct places *places, size_t *at);
/* Put records into their lists that had no memory for it. */
void places_find_missing(struct mk_policy_sync *sync, uint64_t now_ns);
/* Since when is the record in the list `gone`? */
uint64_t record_gone_since(const struct mk_policy_sync *sync, const struct record *record);
/* Of a pod's "namespace/name": the record of its UID, if it comes from there. */
const struct record **record_owner(const struct mk_policy_sync *sync, struct record *record);
/* Note that the map should have this entry, given as rows. NULL: out of memory. */
struct record *record_put(struct mk_policy_sync *sync, enum policy_map map, const void *key,
			  const void *value, enum record_state state);
/* Note that the entry is gone. This cannot fail. */
void record_gone(struct mk_policy_sync *sync, struct record *record, uint64_t now_ns);
/* The map has the entry now. */
void record_clean(struct mk_policy_sync *sync, struct record *record);
/* Forget a record that the map no longer has. */
void record_free(struct mk_policy_sync *sync, struct record *record);

/* Return the id, which is added if it is missing. NULL: out of memory. */
struct policy_id *id_add(struct mk_index *ids, uint64_t id);
struct policy_id *id_find(const struct mk_index *ids, uint64_t id);
/* Visit all ids: after NULL the first one. */
struct policy_id *id_after(const struct mk_index *ids, const struct policy_id *id);
void ids_clear(struct mk_index *ids);
/* One identity less has the class. */
void class_unuse(struct mk_policy_sync *sync, uint64_t class_id);

/* ---- slots.c --------------------------------------------------------------------------------- */

mk_must_check int slots_open(struct mk_policy_sync *sync, struct mk_error *err);
void slots_close(struct mk_policy_sync *sync);
void sandboxes_free(struct mk_policy_sync *sync);
/* Read the sets of all pods into `in_force`. */
mk_must_check int slots_read(struct mk_policy_sync *sync, struct mk_error *err);
/* Give the pods their sets, then write `on`. */
void slots_switch(struct mk_policy_sync *sync, struct mk_policy_counts *counts);
/* Log that map policy_state is as it should be again. */
void slots_say_state(const struct mk_policy_sync *sync);
/* Raise the generations of pods for which something may be forbidden now. */
void slots_raise(struct mk_policy_sync *sync, struct mk_policy_counts *counts);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sfc/tables_internal.h - the object behind tables.h, shared by its files: tables.c
 * (rows), sets.c (ports and tags), paths.c, ends.c. */
#ifndef MK_DATAPATH_SFC_TABLES_INTERNAL_H
#define MK_DATAPATH_SFC_TABLES_INTERNAL_H

#include "datapath/sfc/tables.h"

/* Tables whose keys are numbers. */
enum sfc_map { SFC_CHAINS, SFC_FUNCTIONS, SFC_REPLICAS, SFC_MAPS };

/* A table as last read or written. A row of zeros: a hash has no entry. */
struct sfc_image {
	const struct mk_table *table;
	char *rows;
	size_t top; /* above the highest row that is not zeros */
	size_t room;
	size_t programs_at; /* offset of a member that programs write, 4 bytes; 0: none */
	bool is_hash;
};

/* A hash whose values have at most 8 bytes, as last read or written. Shorter ones are the low bytes
 * of a number. */
enum sfc_set_id { SFC_PORTS, SFC_TAGS, SFC_SETS };
struct sfc_pair {
	uint64_t key, value;
};
struct sfc_set {
	const struct mk_table *table;
	struct sfc_pair *of; /* by key */
	size_t count, room;
};

/* When a path was last named by a session. */
struct path_use {
	uint32_t named_s; /* CLOCK_MONOTONIC */
	uint32_t entries; /* of sessions, in this pass */
	uint8_t passes; /* that have ended since, at most PATH_PASSES */
	bool is_known; /* the map had it when the last pass ended */
};

/* The flows of a chain with ends. */
struct sfc_flows {
	uint32_t id; /* of the map that programs use; 0: there is none */
	bool is_open; /* `table` is that map */
	struct mk_table table;
	uint32_t count; /* at the last sweep */
};
#define SFC_END_FLOW "sfc_end_flow"

/* Where the sweep of such flows is. */
struct ends_sweep {
	uint32_t chain;
	struct mk_cursor cursor;
	uint32_t count; /* of this chain */
};

/* The chains and replicas that a pass over sessions, paths and flows has found in use. */
struct sfc_seen {
	struct mk_sfc_named named;
	uint32_t entries[MK_SFC_REPLICAS]; /* of sessions through a replica */
};

struct mk_sfc_sync {
	const struct mk_sfc_tables *tables;
	sa_family_t family;
	struct sfc_image images[SFC_MAPS];
	bool counted[MK_SFC_REPLICAS]; /* map sfc_counters has an entry */
	struct sfc_set sets[SFC_SETS];
	char *counter; /* a value of map sfc_counters */
	enum sfc_map due_map; /* the next entry to be read */
	size_t due;
	struct path_use *paths; /* by id; NULL: no path was ever seen */
	bool saw_path; /* since the last pass ended */
	size_t path_count;
	struct sfc_seen seen; /* in the last pass */
	struct sfc_seen seeing; /* in the one that is ending */
	bool is_ending;
	struct ends_sweep ends;
	struct sfc_flows flows[MK_SFC_CHAINS];
};

struct applying {
	struct mk_sfc_sync *sync;
	const struct mk_sfc_rows *rows;
	struct mk_sfc_counts *counts;
	struct mk_error *err;
};

/* sets.c: false: out of memory. */
bool set_make(struct sfc_set *set);
mk_must_check int set_read(struct sfc_set *set, struct mk_error *err);
/* Write what the rows have, */
mk_must_check int sets_put(const struct applying *apply);
/* and remove the rest. */
mk_must_check int sets_remove(const struct applying *apply);
/* Read all again. Returns how many entries are not as they were. */
mk_must_check int set_reconcile(struct sfc_set *set, struct mk_error *err);

/* ends.c: take over the maps of flows that the tables have. */
mk_must_check int ends_open(struct mk_sfc_sync *sync, struct mk_error *err);
void ends_close(struct mk_sfc_sync *sync);
/* Make maps for chains that have got ends, before their rows are written, */
mk_must_check int ends_put(const struct applying *apply);
/* and remove the others, after the rows. */
mk_must_check int ends_remove(const struct applying *apply);
/* Pin maps again whose pins are gone. Returns how many maps and pins were not as they were. */
mk_must_check int ends_reconcile(struct mk_sfc_sync *sync, struct mk_error *err);
/* Read the next flows: remove those that are idle, and note in `seeing` which replicas the others
 * name. Returns 1 if all are read, otherwise 0. */
mk_must_check int ends_sweep(struct mk_sfc_sync *sync, uint64_t now_ns, struct mk_error *err);

/* Log that an entry was changed. */
void say_changed(const struct mk_table *table, uint64_t key);

/* Return the number of values of an entry of map sfc_counters. */

static inline void *image_row(const struct sfc_image *image, size_t number)
{
	return image->rows + number * image->table->value_size;
}

#endif

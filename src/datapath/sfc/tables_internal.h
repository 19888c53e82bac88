/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sfc/tables_internal.h - the object behind tables.h, shared by its files: tables.c
 * (rows), paths.c. */
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
	bool is_hash;
};

/* When a path was last named by a session. */
struct path_use {
	uint32_t named_s; /* CLOCK_MONOTONIC */
	uint32_t entries; /* of sessions, in this pass */
	uint8_t passes; /* that have ended since, at most PATH_PASSES */
	bool is_known; /* the map had it when the last pass ended */
};

struct mk_sfc_sync {
	const struct mk_sfc_tables *tables;
	sa_family_t family;
	struct sfc_image images[SFC_MAPS];
	bool counted[MK_SFC_REPLICAS]; /* map sfc_counters has an entry */
	struct mk_sfc_port_row ports[MK_SFC_PORTS]; /* by ifindex */
	size_t port_count;
	char *counter; /* a value of map sfc_counters */
	enum sfc_map audited_map; /* the next entry to be read */
	size_t audited;
	struct path_use *paths; /* by id; NULL: no path was ever seen */
	bool saw_path; /* since the last pass ended */
	size_t path_count;
	uint32_t entries[MK_SFC_REPLICAS]; /* of sessions through a replica, in the last pass */
	struct mk_sfc_named named;
};

/* Return the number of values of an entry of map sfc_counters. */
size_t counter_values(void);

static inline void *image_row(const struct sfc_image *image, size_t number)
{
	return image->rows + number * image->table->value_size;
}

#endif

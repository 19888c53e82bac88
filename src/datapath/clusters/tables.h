/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/clusters/tables.h - bring the tables of other clusters of one family to the rows
 * that src/clusters computes. Only the difference is written.
 *
 * Order of writes: a cluster that is gone or whose networks change loses its row first. Then
 * come counters, nodes, carriers and rows, and last the removal of nodes and counters. So a kill
 * after any write leaves no row with another cluster's nodes, and a change of the way loses no
 * packet. Programs translate an address only
 * if it is in the row's view, so a route that names another row is harmless.
 *
 * The caller writes routes (MK_ROUTE_CLUSTER) and FDB entries: both before the rows are applied, if
 * they are new, and the removal of FDB entries after it. */
#ifndef MK_DATAPATH_CLUSTERS_TABLES_H
#define MK_DATAPATH_CLUSTERS_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "clusters/clusters.h"
#include "datapath/maps/table.h"

struct mk_clusters_tables {
	struct mk_table clusters, nodes, carriers, counters, exports;
};

struct mk_clusters_sync;

/* Read @tables, which the caller owns and which must outlive the result. */
struct mk_clusters_sync *mk_clusters_sync_new(const struct mk_clusters_tables *tables,
					      struct mk_error *err);
void mk_clusters_sync_free(struct mk_clusters_sync *sync);

/* Have the tables no entry, as last read or written? */
bool mk_clusters_sync_is_empty(const struct mk_clusters_sync *sync);

struct mk_clusters_counts {
	unsigned int put, deleted; /* entries written and removed, all tables together */
	size_t left_out; /* exports for which map exports has no room */
};

/* Write what differs from @rows, whose family is that of the tables. After an error, call again:
 * the tables are then read again. Adds to @counts. */
mk_must_check int mk_clusters_sync_apply(struct mk_clusters_sync *sync,
					 const struct mk_clusters_rows *rows,
					 struct mk_clusters_counts *counts, struct mk_error *err);
/* Write what differs in map exports from @rows, in any order. If two have one key, one of them
 * counts. Entries that are gone are removed first. No other table changes, and
 * mk_clusters_sync_apply() does not change this one. If there are more than MK_EXPORTS rows, those
 * with the lowest addresses are written. After an error, call again. Adds to @counts. */
mk_must_check int mk_clusters_sync_exports(struct mk_clusters_sync *sync,
					   const struct mk_clusters_export *rows, size_t count,
					   struct mk_clusters_counts *counts, struct mk_error *err);
/* Read all tables again. Returns how many entries other processes have removed or changed: the next
 * apply restores them. */
mk_must_check int mk_clusters_sync_reconcile(struct mk_clusters_sync *sync, struct mk_error *err);

/* Do packets go to the node with the row @key, as last read or written, and not only probes? */
bool mk_clusters_sync_sends_to(const struct mk_clusters_sync *sync,
			       const struct mk_cluster_node_key *key);
/* Does node @hop of cluster @number get packets that may go to any node? True, too, if no node
 * does. */
bool mk_clusters_sync_spreads_to(const struct mk_clusters_sync *sync, uint32_t number,
				 uint32_t hop);
/* Return mtu_bytes of the row; 0: there is none. */
uint16_t mk_clusters_sync_mtu(const struct mk_clusters_sync *sync, uint32_t number);

/* Read the counters of a cluster, all CPUs together. Zeros: it has none. */
mk_must_check int mk_clusters_sync_counters(const struct mk_clusters_sync *sync, uint32_t number,
					    struct mk_cluster_counters *counters,
					    struct mk_error *err);

#endif

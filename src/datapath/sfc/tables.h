/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sfc/tables.h - bring the tables of service function chains of one family to the rows
 * that src/sfc computes, and follow the paths that programs make. Only the difference is written.
 *
 * Order of writes: replicas that are usable, tags, ports and counters, then functions, maps of
 * flows, and chains. What is gone goes in the reverse order. So a kill after any write leaves no
 * slot or chain that names something unknown. Policies name a chain after its row is written. */
#ifndef MK_DATAPATH_SFC_TABLES_H
#define MK_DATAPATH_SFC_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "datapath/maps/table.h"
#include "sfc/sfc.h"

struct mk_sfc_tables {
	struct mk_table chains, functions, replicas, tags, ports, paths, counters, end_flows;
	const char *pins; /* the directory of the family, for maps of flows (maps/pin.h) */
};

struct mk_sfc_sync;

/* Read @tables, which the caller owns and which must outlive the result. */
struct mk_sfc_sync *mk_sfc_sync_new(const struct mk_sfc_tables *tables, struct mk_error *err);
void mk_sfc_sync_free(struct mk_sfc_sync *sync);

/* Have the tables no chain, function or replica? */
bool mk_sfc_sync_is_empty(const struct mk_sfc_sync *sync);
/* Let @sfc take over the numbers that the tables had when they were read. */
void mk_sfc_sync_recall(const struct mk_sfc_sync *sync, struct mk_sfc *sfc);

/* Has map sfc_chains the chain of this number in @rows? */
bool mk_sfc_sync_has_chain(const struct mk_sfc_sync *sync, const struct mk_sfc_rows *rows,
			   uint16_t number);

struct mk_sfc_counts {
	unsigned int put, deleted; /* entries written and removed, all tables together */
};

/* Write what differs from @rows. After an error, call again: the rest is written then. Adds to
 * @counts. */
mk_must_check int mk_sfc_sync_apply(struct mk_sfc_sync *sync, const struct mk_sfc_rows *rows,
				    struct mk_sfc_counts *counts, struct mk_error *err);
/* Read all ports and tags and about @budget other entries; the next call continues from there.
 * Returns how many other processes have removed or changed: the next apply restores them. Pins of
 * maps of flows are back at once. */
mk_must_check int mk_sfc_sync_reconcile(struct mk_sfc_sync *sync, size_t budget,
					struct mk_error *err);

/* ---- paths ----------------------------------------------------------------------------------- */

/* The sweep of sessions has met one with this path (mk_tuple.path; 0: none). */
void mk_sfc_sync_see_path(struct mk_sfc_sync *sync, uint16_t path);
/* A pass over all sessions of the family has ended: remove paths that none has had for a minute,
 * and idle flows of chains with ends. Returns 1 if all is read. 0: there are more such flows. Then
 * call again, in another turn of the loop and before the next pass. @now_ns is CLOCK_MONOTONIC. */
mk_must_check int mk_sfc_sync_pass_ended(struct mk_sfc_sync *sync, uint64_t now_ns,
					 struct mk_error *err);
/* What paths and flows named when the last pass ended. It belongs to @sync. */
const struct mk_sfc_named *mk_sfc_sync_named(const struct mk_sfc_sync *sync);
/* Return how many flows passed the replica then. */
uint32_t mk_sfc_sync_flows(const struct mk_sfc_sync *sync, uint16_t replica);
/* Return how many flows a chain with ends had then. */
uint32_t mk_sfc_sync_end_flows(const struct mk_sfc_sync *sync, uint16_t chain);
/* Read the counters of a replica, all CPUs together. Zeros: it has none. */
mk_must_check int mk_sfc_sync_counters(const struct mk_sfc_sync *sync, uint16_t replica,
				       struct mk_sfc_counters *counters, struct mk_error *err);
/* Return how many paths there were then. */
size_t mk_sfc_sync_path_count(const struct mk_sfc_sync *sync);

#endif

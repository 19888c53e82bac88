/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/services/counters.h - counters per Service (struct mk_service_counter), by
 * service_id. Programs add to map service_counters. When the agent removes a session, it adds the
 * session's counts to map service_counters_ended. Only the agent writes that map: a read, change
 * and write from user space would lose what a program adds meanwhile. A Service's count is the sum
 * of both. */
#ifndef MK_DATAPATH_SERVICES_COUNTERS_H
#define MK_DATAPATH_SERVICES_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "datapath/maps/table.h"

struct mk_counter_tables {
	struct mk_table live, ended, drops;
};

/* Open the pinned tables. -ENOENT: the datapath is not loaded. Call mk_counters_close() after
 * success. */
mk_must_check int mk_counters_open(struct mk_counter_tables *tables, const char *bpf_dir,
				   struct mk_error *err);
void mk_counters_close(struct mk_counter_tables *tables);

struct mk_service_totals {
	uint32_t service_id; /* mk_frontend.service_id; first, for mk_compare_ids() */
	struct mk_service_counter counter;
	uint64_t drops[MK_DROP_COUNT]; /* first packets, by enum mk_drop_reason */
};
/* Read the totals of every Service with traffic or drops, sorted by service_id. The caller frees
 * *@totals. */
mk_must_check int mk_counters_read(const struct mk_counter_tables *tables,
				   struct mk_service_totals **totals, size_t *count,
				   struct mk_error *err);
/* Find @service_id in the result of mk_counters_read(), or return NULL. */
const struct mk_service_totals *mk_counters_find(const struct mk_service_totals *totals,
						 size_t count, uint32_t service_id);
/* Add @more to @sum: what another family's tables hold of the same Service. */
void mk_counters_add(struct mk_service_totals *sum, const struct mk_service_totals *more);

/* Add the counts of @session. Only for the process that holds the agent's lock. */
mk_must_check int mk_counters_add_ended(const struct mk_counter_tables *tables,
					const struct mk_session *session, struct mk_error *err);
/* Remove the counters of Services that no entry of map `frontends` (@services) names. Returns the
 * number of entries. */
mk_must_check int mk_counters_prune(const struct mk_counter_tables *tables,
				    const struct mk_table *services, struct mk_error *err);

#endif

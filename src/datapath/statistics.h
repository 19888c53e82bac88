/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/statistics.h - what tables and programs say about themselves, for metrics. */
#ifndef MK_DATAPATH_STATISTICS_H
#define MK_DATAPATH_STATISTICS_H

#include <stdint.h>

#include "datapath/datapath.h"

/* Of a program on a hook; the kernel counts while its setting kernel.bpf_stats_enabled is 1. */
struct mk_program_stats {
	const char *name;
	uint64_t runs, run_ns;
};
/* Up to @room of them into @stats; returns how many. */
size_t mk_datapath_program_stats(const struct mk_datapath *datapath, struct mk_program_stats *stats,
				 size_t room);

struct mk_table_fill {
	const char *name;
	uint64_t entries, max_entries;
};
/* How full the tables are whose entries somebody has counted, after load; @census: what the last sweep
 * saw, NULL: there was none. Up to @room of them into @fills; returns how many. */
size_t mk_datapath_fill(const struct mk_datapath *datapath, const struct mk_census *census,
			struct mk_table_fill *fills, size_t room);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/statistics.h - statistics of tables and programs, for metrics. */
#ifndef MK_DATAPATH_STATISTICS_H
#define MK_DATAPATH_STATISTICS_H

#include <stdint.h>

#include "datapath/datapath.h"

/* Statistics of a hook's program. The kernel counts while the sysctl kernel.bpf_stats_enabled is
 * 1. */
struct mk_program_stats {
	const char *name;
	uint64_t runs, run_ns;
};
/* Write up to @room statistics to @stats; return their number. */
size_t mk_datapath_program_stats(const struct mk_datapath *datapath, struct mk_program_stats *stats,
				 size_t room);

struct mk_table_fill {
	const char *name;
	uint64_t entries, max_entries;
};
/* After load: write how full the tables are, up to @room of them, to @fills; return their number.
 * @counts: the counts of the last sweep pass, which tables of sessions need; NULL: none yet. */
size_t mk_datapath_fill(const struct mk_datapath *datapath, const struct mk_session_counts *counts,
			struct mk_table_fill *fills, size_t room);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/fullness.h - report a table as full when it becomes full, and every ten
 * minutes while it stays full. A sweep's counts are approximate, hence hysteresis: a table is full
 * from 95 % on, and no longer full below 90 %. */
#ifndef MK_DATAPATH_SESSIONS_FULLNESS_H
#define MK_DATAPATH_SESSIONS_FULLNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define MK_FULL_AGAIN_NS (600 * (uint64_t)MK_NS_PER_S)

struct mk_fullness {
	bool full;
	uint64_t told_ns;
};

enum mk_fullness_news { MK_FULLNESS_NOTHING, MK_FULLNESS_FULL, MK_FULLNESS_ROOM };

static inline enum mk_fullness_news mk_fullness_see(struct mk_fullness *table, uint64_t entries,
						    uint64_t max_entries, uint64_t now_ns)
{
	bool was_full = table->full;

	if (entries >= max_entries / 20 * 19)
		table->full = true;
	else if (entries < max_entries / 10 * 9)
		table->full = false;
	if (!table->full)
		return was_full ? MK_FULLNESS_ROOM : MK_FULLNESS_NOTHING;
	if (was_full && now_ns - table->told_ns < MK_FULL_AGAIN_NS)
		return MK_FULLNESS_NOTHING;
	table->told_ns = now_ns;
	return MK_FULLNESS_FULL;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/monitor/drops.h - dropped packets: counts by reason and hook. For single packets see
 * monitor.h. */
#ifndef MK_DATAPATH_MONITOR_DROPS_H
#define MK_DATAPATH_MONITOR_DROPS_H

#include "monokube/abi.h"
#include "base/error.h"

const char *mk_drop_reason_name(unsigned int reason); /* "no_backend" */
const char *mk_drop_reason_text(unsigned int reason); /* the explanation for operators */
const char *mk_hook_name(unsigned int hook);

/* Counters summed over all CPUs. */
struct mk_drop_totals {
	struct mk_drop_counter counter[MK_DROP_COUNT][MK_HOOK_COUNT];
};
mk_must_check int mk_drops_read(const char *bpf_dir, struct mk_drop_totals *totals,
				struct mk_error *err);

#endif

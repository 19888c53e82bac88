/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/maps_internal.h - functions that only this folder uses. */
#ifndef MK_DATAPATH_MAPS_MAPS_INTERNAL_H
#define MK_DATAPATH_MAPS_MAPS_INTERNAL_H

#include "datapath/maps/bpflog.h"
#include "datapath/maps/object.h"

/* Suppress libbpf's messages while @quiet, for requests whose failure is an expected answer.
 * Returns the previous setting. */
bool bpflog_quiet(bool quiet);

/* Does this kernel have the helper bpf_ktime_get_coarse_ns()? See mk_node.has_coarse_clock. */
bool object_has_coarse_clock(void);

#endif

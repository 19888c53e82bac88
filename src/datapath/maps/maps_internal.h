/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/maps_internal.h - functions that only this folder uses. */
#ifndef MK_DATAPATH_MAPS_MAPS_INTERNAL_H
#define MK_DATAPATH_MAPS_MAPS_INTERNAL_H

#include "datapath/maps/bpflog.h"
#include "datapath/maps/object.h"

/* While @quiet nothing is passed on: for requests whose failure is an answer ("is it there?").
 * Returns the former setting. */
bool bpflog_quiet(bool quiet);

/* Does this kernel offer programs the time of the last tick? mk_node.has_coarse_clock */
bool object_has_coarse_clock(void);

#endif

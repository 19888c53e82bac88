/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/bpflog.h - what libbpf says goes through our log, one level lower: it reports as
 * warnings what its caller has asked about and handles. */
#ifndef MK_DATAPATH_MAPS_BPFLOG_H
#define MK_DATAPATH_MAPS_BPFLOG_H

#include <stdbool.h>

/* Idempotent; every entry into libbpf's logging parts calls it first. */
void mk_bpflog_init(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/bpflog.h - pass libbpf's messages to our log, one level lower: libbpf warns of
 * failures that its caller expects and handles. */
#ifndef MK_DATAPATH_MAPS_BPFLOG_H
#define MK_DATAPATH_MAPS_BPFLOG_H

#include <stdbool.h>

/* Install the log function. Idempotent; call it before any libbpf function that may log. */
void mk_bpflog_init(void);

#endif

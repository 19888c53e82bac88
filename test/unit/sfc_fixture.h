/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/sfc_fixture.h - the tables of service function chains as maps of a test. */
#ifndef MK_TEST_SFC_FIXTURE_H
#define MK_TEST_SFC_FIXTURE_H

#include "datapath/sfc/tables.h"

extern struct mk_sfc_tables sfc_tables;

/* Make those of @family. The caller sets sfc_tables.pins, */
void sfc_maps_make(sa_family_t family);
/* or has a bpffs mounted for it, in a mount namespace of the test. */
#define SFC_PINS "/mnt/bpf"
void sfc_pins_mount(void);
void sfc_maps_close(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/sfc_fixture.h - the tables of service function chains as maps of a test. */
#ifndef MK_TEST_SFC_FIXTURE_H
#define MK_TEST_SFC_FIXTURE_H

#include "datapath/sfc/tables.h"

extern struct mk_sfc_tables sfc_tables;

/* Make those of @family. */
void sfc_maps_make(sa_family_t family);
void sfc_maps_close(void);

#endif

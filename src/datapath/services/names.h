/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/services/names.h - names of Services: the tables know Services by number only. The
 * agent keeps a file per family in its state directory, one line `ACCOUNT NAMESPACE/NAME` per
 * Service. Commands that show counters read it, also while no agent runs. */
#ifndef MK_DATAPATH_SERVICES_NAMES_H
#define MK_DATAPATH_SERVICES_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "datapath/services/services.h"

#define MK_NAMES_FILE	   "services.names"
#define MK_NAMES_FILE_IPV6 "services6.names"

/* Replace the file atomically. It is not synced to the disk, since the numbers do not outlive a
 * reboot. */
mk_must_check int mk_names_write(const char *state_dir, sa_family_t family,
				 const struct mk_service_sync *sync, struct mk_error *err);

struct mk_service_name {
	uint32_t service_id; /* first, for mk_compare_ids() */
	const char *name; /* "namespace/name" */
};
struct mk_service_names {
	struct mk_service_name *list; /* sorted by service_id */
	size_t count;
	char *text; /* the names point into it */
};
/* Read the names; none if there is no file. Skips other lines. Call mk_names_release() in any
 * case. */
mk_must_check int mk_names_read(const char *state_dir, sa_family_t family,
				struct mk_service_names *names, struct mk_error *err);
void mk_names_release(struct mk_service_names *names);
/* Return the name of @service_id, or NULL. */
const char *mk_names_find(const struct mk_service_names *names, uint32_t service_id);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/services/names.h - whose an account is: the tables know Services by number only. The agent
 * keeps a file in its state directory, one line `ACCOUNT NAMESPACE/NAME` per Service, for those who
 * show counters, also while no agent runs. */
#ifndef MK_DATAPATH_SERVICES_NAMES_H
#define MK_DATAPATH_SERVICES_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "datapath/services/services.h"

#define MK_NAMES_FILE "services.names"

/* Replace the file: a reader sees the old one or the new, whole. Not synced to the disk: the
 * numbers do not outlive a reboot either. */
mk_must_check int mk_names_write(const char *state_dir, const struct mk_service_sync *sync,
				 struct mk_error *err);

struct mk_account_name {
	uint32_t account_id;
	const char *name; /* "namespace/name" */
};
struct mk_account_names {
	struct mk_account_name *list; /* sorted by account_id */
	size_t count;
	char *text; /* what the names point into */
};
/* No file: no names. What is not such a line is left out. mk_names_release() in any case. */
mk_must_check int mk_names_read(const char *state_dir, struct mk_account_names *names,
				struct mk_error *err);
void mk_names_release(struct mk_account_names *names);
/* NULL: not known. */
const char *mk_names_find(const struct mk_account_names *names, uint32_t account_id);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/half_open_quota.h - how many half-open TCP sessions may be in the table of
 * established ones (map sessions_room, bpf/pair.h: session_room()).
 *
 * A session that is there from its SYN on need not be moved after its handshake, which saves a fifth
 * of what a short connection costs the programs. The programs cannot evict it, so the quota is small: a
 * flood of SYNs soon uses it up, and then only evicts sessions in the table of new ones. Programs take
 * from the quota and return to it; the agent writes it again after each pass of the sweep. */
#ifndef MK_DATAPATH_SESSIONS_HALF_OPEN_QUOTA_H
#define MK_DATAPATH_SESSIONS_HALF_OPEN_QUOTA_H

#include "base/error.h"
#include "datapath/sessions/counts.h"
#include "datapath/maps/table.h"

/* Write @quota, a value per CPU. It is 0 before Linux 5.14, where the sweep cannot tell an old
 * session's entry from one that replaced it (session_remove_old()). */
mk_must_check int mk_half_open_quota_write(const struct mk_table *quota,
					   const struct mk_table *sessions,
					   const struct mk_census *census, struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/half_open_quota.h - how many half-open TCP sessions may be in the table of
 * established ones (map half_open_quota, bpf/pair.h: quota_of_this_cpu()).
 *
 * A session that enters this table with its SYN is not moved after its handshake. This saves a
 * fifth of the programs' cost of a short connection. The programs cannot evict such a session, so
 * the quota is small. A flood of SYNs soon uses it up, and from then on evicts only sessions in the
 * table of new ones. Programs take from the quota and return to it; the agent writes it again after
 * each sweep pass. */
#ifndef MK_DATAPATH_SESSIONS_HALF_OPEN_QUOTA_H
#define MK_DATAPATH_SESSIONS_HALF_OPEN_QUOTA_H

#include "base/error.h"
#include "datapath/sessions/counts.h"
#include "datapath/maps/table.h"

/* Write @quota, one value per CPU. The quota is 0 before Linux 5.14: there the sweep cannot
 * distinguish an old session's entry from a new one with the same key (session_remove_old()). */
mk_must_check int mk_half_open_quota_write(const struct mk_table *quota,
					   const struct mk_table *sessions,
					   const struct mk_session_counts *counts,
					   struct mk_error *err);

#endif

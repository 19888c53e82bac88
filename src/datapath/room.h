/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/room.h - how many half-open TCP sessions may stand among the established ones (map
 * sessions_room, bpf/pair.h: session_room()). One that is there from its SYN on need not be moved
 * when its handshake is done, which is a fifth of what a short connection costs the programs. It is never evicted
 * either, so there is room for few: a flood of SYNs that has used it up is left to the tables that
 * evict. Programs take and give back; after each pass of the sweep the agent says anew what there is. */
#ifndef MK_DATAPATH_ROOM_H
#define MK_DATAPATH_ROOM_H

#include "base/error.h"
#include "datapath/census.h"

struct mk_datapath;

/* Sessions that have room, on all CPUs together, in tables of @max_entries each: what the half-open ones
 * that were counted leave of a sixteenth, none where a table is more than three quarters full. */
uint64_t mk_room_left(uint32_t max_entries, const struct mk_census *census);

/* Tell the programs. None before Linux 5.14, where the sweep could not tell an old session's entry from
 * a new one's that came in its place (mk_session_remove_old()). */
mk_must_check int mk_datapath_give_room(const struct mk_datapath *datapath,
					const struct mk_census *census, struct mk_error *err);

#endif

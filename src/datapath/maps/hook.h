/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/hook.h - one tc filter per hook: clsact, direct action, always the same handle and
 * priority, so that a program is replaced in place and only what is ours is ever removed. */
#ifndef MK_DATAPATH_MAPS_HOOK_H
#define MK_DATAPATH_MAPS_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/netlink/netlink.h"

#define MK_TC_HANDLE   0x4d4b /* "MK" */
#define MK_TC_PRIORITY 77 /* room before and after for others */

enum mk_direction { MK_INGRESS, MK_EGRESS };

/* Put @prog_fd there, atomically in place of the one before. */
mk_must_check int mk_hook_attach(struct mk_nl *nl, int ifindex, enum mk_direction direction,
				 int prog_fd, struct mk_error *err);
/* The id of the program in our filter there. 0: none, or no such device. */
mk_must_check int mk_hook_query(int ifindex, enum mk_direction direction, uint32_t *prog_id,
				struct mk_error *err);
/* Remove our filter, if its program is one of ours. Returns 1 if there was one, else 0. */
mk_must_check int mk_hook_detach(int ifindex, enum mk_direction direction, struct mk_error *err);
/* The same, of the programs of devices that a node has one of: a pod's stays. */
mk_must_check int mk_hook_detach_fixed(int ifindex, enum mk_direction direction,
				       struct mk_error *err);
/* Remove the clsact qdisc from @ifindex unless somebody's filter is left on it. */
mk_must_check int mk_hook_remove_empty_qdisc(int ifindex, struct mk_error *err);

#endif

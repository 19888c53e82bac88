/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/hook.h - one tc filter per hook: clsact, direct action. Handle and priority are
 * fixed, so that a program is replaced in place and only monokube's filters are removed. */
#ifndef MK_DATAPATH_MAPS_HOOK_H
#define MK_DATAPATH_MAPS_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/netlink/netlink.h"

#define MK_TC_HANDLE   0x4d4b /* "MK" */
#define MK_TC_PRIORITY 77 /* leaves priorities before and after it for others */

enum mk_direction { MK_INGRESS, MK_EGRESS };

/* Attach @prog_fd to @ifindex; it replaces the previous program atomically. */
mk_must_check int mk_hook_attach(struct mk_nl *nl, int ifindex, enum mk_direction direction,
				 int prog_fd, struct mk_error *err);
/* Put the id of the program in our filter into *@prog_id. 0: no filter, or no such device. */
mk_must_check int mk_hook_query(struct mk_nl *nl, int ifindex, enum mk_direction direction,
				uint32_t *prog_id, struct mk_error *err);
/* Remove our filter if its program is one of ours. Returns 1 if it removed a filter, otherwise
 * 0. */
mk_must_check int mk_hook_detach(struct mk_nl *nl, int ifindex, enum mk_direction direction,
				 struct mk_error *err);
/* As mk_hook_detach(), but a pod's program stays. */
mk_must_check int mk_hook_detach_fixed(struct mk_nl *nl, int ifindex, enum mk_direction direction,
				       struct mk_error *err);
/* Remove the clsact qdisc from @ifindex unless it still has filters. */
mk_must_check int mk_hook_remove_empty_qdisc(struct mk_nl *nl, int ifindex, struct mk_error *err);

#endif

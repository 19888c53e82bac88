/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/hooks_internal.h - hooks.c, for attach.c and repair_hooks.c. */
#ifndef MK_DATAPATH_HOOKS_INTERNAL_H
#define MK_DATAPATH_HOOKS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "datapath/maps/hook.h"
#include "monokube/abi.h"

struct mk_datapath;

struct hook {
	int ifindex;
	enum mk_direction direction;
	const char *program;
};

#define FIXED_HOOKS (7 + 2 * 2 * MK_UPLINKS_MAX) /* of both families */

/* List the hooks of both families' links in @hooks (FIXED_HOOKS). Returns their number. */
size_t fixed_hooks(const struct mk_datapath *datapath, struct hook *hooks);
/* Attach the hook's program. Returns 1 if it did, 0 if the program was attached already. */
mk_must_check int ensure_hook(const struct mk_datapath *datapath, const struct hook *hook,
			      struct mk_error *err);
/* Does the device exist? */
bool is_there(const struct mk_datapath *datapath, int ifindex);
/* Is the interface a pod's veth, with the gateway's MAC? Its index may belong to another interface
 * since the pod's entry was written. */
bool is_pod_veth(const struct mk_datapath *datapath, int ifindex);
/* Each returns how many programs or entries were not there yet, or differed. */
mk_must_check int ensure_fixed_hooks(const struct mk_datapath *datapath, struct mk_error *err);
mk_must_check int ensure_pod_hooks(struct mk_datapath *datapath, struct mk_error *err);
/* Call @ensure for every port of a function pod; it returns 1 if it changed something. Only the
 * family that has the hooks looks for ports. */
mk_must_check int each_port_hook(struct mk_datapath *datapath,
				 int (*ensure)(const struct mk_datapath *datapath,
					       const struct hook *hook, struct mk_error *err),
				 struct mk_error *err);
/* Fill map `other_family`, which IPv4's datapath has pinned. 0: this family has the hooks. */
mk_must_check int ensure_entries(const struct mk_datapath *datapath, struct mk_error *err);
/* Detach our programs from devices that have none of these hooks. */
mk_must_check int remove_stray_hooks(struct mk_datapath *datapath, struct mk_error *err);

#endif

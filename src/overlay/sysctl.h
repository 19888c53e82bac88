/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/sysctl.h - kernel settings the datapath needs; what was changed is logged, and
 * remembered in the state directory so that `monokube cleanup` can put it back. */
#ifndef MK_OVERLAY_SYSCTL_H
#define MK_OVERLAY_SYSCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct mk_sysctl_wanted {
	const char *vxlan_name;
	uint16_t nat_port_min, nat_port_max;
	const char *state_dir;
	bool again; /* they were right before: the log says that somebody else changed them */
};
/* Returns how many had to be set. */
mk_must_check int mk_sysctls_apply(const struct mk_sysctl_wanted *wanted, struct mk_error *err);
/* Put back what mk_sysctls_apply() changed for the whole host. Returns how many. */
mk_must_check int mk_sysctls_restore(const char *state_dir, struct mk_error *err);

/* @list is what ip_local_reserved_ports says ("8080,9148-9150"). 1: every port of the range is in
 * it already, else 0: @out gets the list with the range added. Pure. */
mk_must_check int mk_reserved_ports_add(const char *list, uint16_t min, uint16_t max, char *out,
					size_t size, struct mk_error *err);

/* How strict the kernel is about where a packet for the host itself comes in (rp_filter: 0 off, 1 only
 * where the way back leads, 2 where any way leads): the greater of all devices' and @device's setting.
 * -ENOENT: no such device. */
mk_must_check int mk_reverse_path_filter(const char *device, struct mk_error *err);

#endif

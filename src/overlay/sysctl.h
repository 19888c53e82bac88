/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/sysctl.h - kernel settings the datapath needs; what was changed is logged, and
 * remembered in the state directory so that `monokube cleanup` can put it back. */
#ifndef MK_OVERLAY_SYSCTL_H
#define MK_OVERLAY_SYSCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"

struct mk_sysctl_wanted {
	const char *vxlan_name;
	const char *reserved_ports; /* mk_reserved_ranges() */
	const char *state_dir;
	bool again; /* they were right before: the log says that somebody else changed them */
};
/* Returns how many had to be set. */
mk_must_check int mk_sysctls_apply(const struct mk_sysctl_wanted *wanted, struct mk_error *err);
/* The ports that no socket of the host's may be given by chance, as "30000-32767,49152-65535". */
#define MK_RESERVED_RANGES_BYTES 24
void mk_reserved_ranges(const struct mk_config *config, char text[MK_RESERVED_RANGES_BYTES]);

/* Put back what mk_sysctls_apply() changed for the whole host, but for what others have changed since. Returns how
 * many. */
mk_must_check int mk_sysctls_restore(const char *state_dir, struct mk_error *err);

/* How strict the kernel is about where a packet for the host itself comes in (rp_filter: 0 off, 1 only
 * where the way back leads, 2 where any way leads): the greater of all devices' and @device's setting.
 * -ENOENT: no such device. */
mk_must_check int mk_reverse_path_filter(const char *device, struct mk_error *err);

#endif

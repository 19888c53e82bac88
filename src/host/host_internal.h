/* SPDX-License-Identifier: Apache-2.0 */
/* src/host/host_internal.h - functions that only this folder uses. */
#ifndef MK_HOST_HOST_INTERNAL_H
#define MK_HOST_HOST_INTERNAL_H

#include "host/networks.h"
#include "host/privileges.h"
#include "host/sysctl.h"

/* Returns how the two overlap. Pure. */
enum mk_overlap networks_overlap(const struct mk_own_range *range,
				 const struct mk_network *network);

/* Returns which of the capabilities @permitted stay; 1 << CAP_*. */
uint64_t privileges_kept(const struct mk_config *config, uint64_t permitted);

/* Does the kernel @release, as in uname(2), count tables against RLIMIT_MEMLOCK, and is there a
 * limit? Pure. */
bool privileges_memlock_limited(const char *release, unsigned long limit_bytes);

/* Set @out to @list without those ports of @ranges that are not in @keep, in the kernel's form. */
mk_must_check int reserved_ports_remove(const char *list, const char *ranges, const char *keep,
					char *out, size_t size, struct mk_error *err);

#endif

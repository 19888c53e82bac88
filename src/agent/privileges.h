/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/privileges.h - the agent gives up what it no longer needs: capabilities (all but
 * NET_ADMIN, BPF, PERFMON, DAC_OVERRIDE), the right to gain any by exec, most system calls. */
#ifndef MK_AGENT_PRIVILEGES_H
#define MK_AGENT_PRIVILEGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"

/* For good, for this process and its threads to come. Before the event loop runs, which may start
 * threads; a BPF file system cannot be mounted any more, nor a port below 1024 bound, unless
 * @config has one. */
mk_must_check int mk_privileges_drop(const struct mk_config *config, struct mk_error *err);

/* Which of the capabilities @permitted stay; 1 << CAP_*. */
uint64_t mk_privileges_kept(const struct mk_config *config, uint64_t permitted);

/* Does the kernel @release, as uname(2) says it, count tables against RLIMIT_MEMLOCK, and is there a
 * limit? Pure. */
bool mk_privileges_memlock_limited(const char *release, unsigned long limit_bytes);

#endif

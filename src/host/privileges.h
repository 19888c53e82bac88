/* SPDX-License-Identifier: Apache-2.0 */
/* src/host/privileges.h - drop what the agent no longer needs: capabilities (all but NET_ADMIN,
 * BPF, PERFMON, DAC_OVERRIDE), the right to gain any by exec, most system calls. */
#ifndef MK_HOST_PRIVILEGES_H
#define MK_HOST_PRIVILEGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "config/config.h"

/* Drop rights for good, for this process and its later threads. Call before the event loop runs,
 * which may start threads. Afterwards no BPF file system can be mounted, and no port below 1024
 * bound, unless @config has one. */
mk_must_check int mk_privileges_drop(const struct mk_config *config, struct mk_error *err);

#endif

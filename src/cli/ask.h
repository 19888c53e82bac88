/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/ask.h - HTTP requests to the agent, like those of the kubelet and Prometheus. */
#ifndef MK_CLI_ASK_H
#define MK_CLI_ASK_H

#include <stddef.h>

#include "base/error.h"
#include "base/ip.h"

/* GET @path at @at, or at 127.0.0.1 if @at is 0.0.0.0. Returns the HTTP status. The caller frees
 * *@body, which ends in a NUL that *@size does not count. */
mk_must_check int cli_ask(const struct mk_ip_port *at, const char *path, char **body, size_t *size,
			  struct mk_error *err);

#endif

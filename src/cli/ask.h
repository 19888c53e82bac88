/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/ask.h - a question to the agent over HTTP, as the kubelet and Prometheus ask. */
#ifndef MK_CLI_ASK_H
#define MK_CLI_ASK_H

#include <stddef.h>

#include "base/error.h"
#include "base/ip.h"

/* GET @path at @at; where that is every address of the node, at 127.0.0.1. Returns the status of HTTP,
 * and the body in *@body, which the caller frees and which ends in a NUL that *@size does not count. */
mk_must_check int mk_cli_ask(const struct mk_ip_port *at, const char *path, char **body,
			     size_t *size, struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/host/reserved_ports.h - port lists in the form of net.ipv4.ip_local_reserved_ports,
 * "8080,9148-9150". Pure. */
#ifndef MK_HOST_RESERVED_PORTS_H
#define MK_HOST_RESERVED_PORTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Returns 1 if @list contains every port of @ranges. Otherwise returns 0, and
 * @out is both together. */
mk_must_check int mk_reserved_ports_add(const char *list, const char *ranges, char *out,
					size_t size, struct mk_error *err);

#endif

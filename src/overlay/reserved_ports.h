/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/reserved_ports.h - lists of ports as net.ipv4.ip_local_reserved_ports has them, "8080,9148-9150". Pure. */
#ifndef MK_OVERLAY_RESERVED_PORTS_H
#define MK_OVERLAY_RESERVED_PORTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Every port of @ranges is in @list already: 1. Else 0, and @out is @list with them. */
mk_must_check int mk_reserved_ports_add(const char *list, const char *ranges, char *out,
					size_t size, struct mk_error *err);

/* @list without the ports of @ranges that are not in @keep, in the kernel's form. */
mk_must_check int mk_reserved_ports_remove(const char *list, const char *ranges, const char *keep,
					   char *out, size_t size, struct mk_error *err);

#endif

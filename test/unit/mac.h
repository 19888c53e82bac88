/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/mac.h - MAC addresses of tests, written as text. */
#ifndef MK_TEST_MAC_H
#define MK_TEST_MAC_H

#include <errno.h>
#include <stdio.h>

#include "base/ip.h"

/* Returns 0, or -EINVAL if @text is not "02:4d:0a:f4:01:fe". */
static inline int mac_parse(const char *text, struct mk_mac *mac)
{
	uint8_t *b = mac->byte;
	int used = 0;

	if (sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &b[0], &b[1], &b[2], &b[3], &b[4],
		   &b[5], &used) != 6)
		return -EINVAL;
	return used == MK_MAC_STRLEN - 1 && text[used] == '\0' ? 0 : -EINVAL;
}

#endif

// SPDX-License-Identifier: Apache-2.0
#include "datapath/pods/port.h"

#include <string.h>

enum { LOCAL, MARK, MODE, SIDE, ZERO, END };

#define LOCAL_UNICAST 0x06
#define OURS	      0x4d /* "M" */
#define HOST_END      1
#define POD_END	      2

struct mk_mac mk_port_mac(enum mk_port_mode mode, enum mk_port_side side, bool is_host_end)
{
	return (struct mk_mac){ .byte = {
					[LOCAL] = LOCAL_UNICAST,
					[MARK] = OURS,
					[MODE] = (uint8_t)mode,
					[SIDE] = (uint8_t)side,
					[END] = is_host_end ? HOST_END : POD_END,
				} };
}

bool mk_port_of(const struct mk_link *link, enum mk_port_mode *mode, enum mk_port_side *side)
{
	const uint8_t *byte = link->mac.byte;

	if (strcmp(link->kind, "veth") != 0 || byte[LOCAL] != LOCAL_UNICAST || byte[MARK] != OURS ||
	    byte[MODE] == MK_PORT_NONE || byte[MODE] >= MK_PORT_MODES ||
	    byte[SIDE] >= MK_PORT_SIDES || byte[ZERO] != 0 || byte[END] != HOST_END)
		return false;
	if (mode)
		*mode = (enum mk_port_mode)byte[MODE];
	if (side)
		*side = (enum mk_port_side)byte[SIDE];
	return true;
}

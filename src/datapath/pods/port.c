// SPDX-License-Identifier: Apache-2.0
#include "datapath/pods/port.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/table.h"

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

bool mk_port_has_overlay_mtu(enum mk_port_mode mode)
{
	return mode == MK_PORT_INLINE || mode == MK_PORT_END;
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

/* ---- what chains know of a port -------------------------------------------------------------- */

/* No packet goes to the replica any more. If its number has another owner now, that one stays. */
static int clear_replica(const struct mk_table *replicas, const struct mk_sfc_port *port,
			 uint32_t ifindex, struct mk_error *err)
{
	uint32_t number = port->replica;
	struct mk_sfc_replica row;
	int ret = mk_table_get(replicas, &number, &row, err);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (row.ifindex[MK_SFC_INSIDE] != ifindex && row.ifindex[MK_SFC_OUTSIDE] != ifindex)
		return 0;
	memset(row.ifindex, 0, sizeof(row.ifindex));
	return mk_table_put(replicas, &number, &row, err);
}

static int forget_in(const char *dir, uint32_t ifindex, struct mk_error *err)
{
	cleanup_table struct mk_table ports = { 0 }, replicas = { 0 };
	struct mk_sfc_port port;
	int ret = mk_table_open(&ports, dir, "sfc_ports", sizeof(ifindex), sizeof(port), err);

	ret = ret ?: mk_table_get(&ports, &ifindex, &port, err);
	ret = ret
		      ?: mk_table_open(&replicas, dir, "sfc_replicas", sizeof(uint32_t),
				       sizeof(struct mk_sfc_replica), err);
	ret = ret ?: clear_replica(&replicas, &port, ifindex, err);
	ret = ret ?: mk_table_delete(&ports, &ifindex, err);
	return ret == -ENOENT || ret > 0 ? 0 : ret;
}

int mk_port_forget(const char *bpf_dir, int ifindex, struct mk_error *err)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	struct mk_error cause = { 0 };
	char dir[PATH_MAX];
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		ret = mk_pin_dir(dir, bpf_dir, families[i], &cause);
		ret = ret ?: forget_in(dir, (uint32_t)ifindex, &cause);
	}
	if (ret < 0)
		*err = cause;
	return ret;
}

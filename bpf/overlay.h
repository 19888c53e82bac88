/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/overlay.h - what carries the overlay's packets between nodes. */
#ifndef MK_BPF_OVERLAY_H
#define MK_BPF_OVERLAY_H

#include "maps.h"
#include "packet.h"

/* A VXLAN device takes what reaches its port at any address of its host, whoever sent it, and what it
 * unpacks counts as another node's: nothing that the router forwards may come to one, masqueraded as
 * this node's or not. The nodes' own carriers never come to the router. */
static __always_inline int is_overlay_carrier(const struct packet *pkt)
{
	return pkt->l4 == MK_L4_UDP && pkt->tuple.dport == mk_node.vxlan_port;
}

#endif

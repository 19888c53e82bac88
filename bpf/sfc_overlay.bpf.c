// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/sfc_overlay.bpf.c - service function chains between nodes (struct mk_sfc_mac). Program
 * `sfc_overlay`, at the VXLAN device of chains, takes packets to replicas of this node, and takes
 * up packets that replicas of other nodes have sent. */
#include "sfc.h"

SEC("tc")
int sfc_overlay(struct __sk_buff *skb)
{
	const struct mk_tuple unknown = { 0 };

	return drop(skb, MK_HOOK_FUNCTION, MK_DROP_SFC_NO_CHAIN, &unknown);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";

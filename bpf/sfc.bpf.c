// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/sfc.bpf.c - service function chains: packets of function pods, at the host's ends of their
 * ports. No chain exists in this version, so a packet belongs to none. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "drop.h"

SEC("tc")
int sfc_port(struct __sk_buff *skb)
{
	const struct mk_tuple unknown = { 0 };

	return drop(skb, MK_HOOK_FUNCTION, MK_DROP_SFC_NO_CHAIN, &unknown);
}

SEC("tc")
int sfc(struct __sk_buff *skb)
{
	const struct mk_tuple unknown = { 0 };

	return drop(skb, MK_HOOK_POD, MK_DROP_SFC_NO_CHAIN, &unknown);
}

SEC("tc")
int sfc_open(struct __sk_buff *skb)
{
	const struct mk_tuple unknown = { 0 };

	return drop(skb, MK_HOOK_POD, MK_DROP_SFC_NO_CHAIN, &unknown);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";

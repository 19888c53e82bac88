// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf/cluster.bpf.c - packets to and from other clusters (clusters.h). */
#include "chain.h"
#include "fragment.h"

SEC("tc")
int cluster_out(struct __sk_buff *skb)
{
	struct chain_ctx ctx;
	struct packet pkt;
	int ret = chain_packet(skb, &ctx, &pkt);

	return drop(skb, ctx.hook, ret == MK_GO_ON ? MK_DROP_PEER_UNKNOWN : ret, &pkt.tuple);
}

SEC("tc")
int cluster_in(struct __sk_buff *skb)
{
	struct packet pkt;
	int ret = packet_read(skb, &pkt);

	if (ret == MK_DROP_NOT_IPV4)
		ret = other_family_next(skb, MK_ENTRY_CLUSTER);
	return drop(skb, MK_HOOK_CLUSTER, ret == MK_GO_ON ? MK_DROP_PEER_UNKNOWN : ret,
		    &pkt.tuple);
}

char LICENSE[] __attribute__((weak)) SEC("license") = "Dual BSD/GPL";

// SPDX-License-Identifier: Apache-2.0
/* perf/redirect.bpf.c - the least that a program between two devices can do: pass packets from one
 * to the other. It shows what a packet's way through a host costs without any look at the packet
 * (systems.py, LimitRedirect and LimitDirectPods). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* The two devices have the interface numbers 100 and 101. */
SEC("tc/into_pod")
int redirect(struct __sk_buff *skb)
{
	return bpf_redirect_peer(skb->ifindex ^ 1, 0);
}

SEC("tc/to_wire")
int redirect_to_wire(struct __sk_buff *skb)
{
	return bpf_redirect(skb->ifindex ^ 1, 0);
}

char LICENSE[] SEC("license") = "Apache-2.0";

/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/lookup6.h - what the kernel's look-ups of sockets and routes call an IPv6 address
 * (lookup4.h). */
#ifndef MK_BPF_LOOKUP6_H
#define MK_BPF_LOOKUP6_H

#define MK_ADDRESS_FAMILY 10 /* AF_INET6; BPF programs cannot include sys/socket.h */
#define MK_SOCKET_BYTES	  sizeof(((struct bpf_sock_tuple *)0)->ipv6)

static __always_inline struct bpf_sock_tuple socket_tuple(const struct mk_tuple *tuple)
{
	struct bpf_sock_tuple flow = { .ipv6 = { .sport = tuple->sport, .dport = tuple->dport } };

	__builtin_memcpy(flow.ipv6.saddr, &tuple->saddr, sizeof(tuple->saddr));
	__builtin_memcpy(flow.ipv6.daddr, &tuple->daddr, sizeof(tuple->daddr));
	return flow;
}

static __always_inline void fib_set(struct bpf_fib_lookup *fib, const struct mk_tuple *tuple)
{
	fib->family = MK_ADDRESS_FAMILY;
	__builtin_memcpy(fib->ipv6_src, &tuple->saddr, sizeof(tuple->saddr));
	__builtin_memcpy(fib->ipv6_dst, &tuple->daddr, sizeof(tuple->daddr));
}

static __always_inline struct mk_addr fib_source(const struct bpf_fib_lookup *fib)
{
	struct mk_addr addr;

	__builtin_memcpy(&addr, fib->ipv6_src, sizeof(addr));
	return addr;
}

/* After the look-up: the next hop, or the destination if it is on the link. */
static __always_inline struct mk_addr fib_next_hop(const struct bpf_fib_lookup *fib)
{
	struct mk_addr addr;

	__builtin_memcpy(&addr, fib->ipv6_dst, sizeof(addr));
	return addr;
}

static __always_inline struct bpf_redir_neigh neighbour(const struct mk_addr *addr)
{
	struct bpf_redir_neigh next = { .nh_family = MK_ADDRESS_FAMILY };

	__builtin_memcpy(next.ipv6_nh, addr, sizeof(*addr));
	return next;
}

#endif

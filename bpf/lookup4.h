/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/lookup4.h - what the kernel's look-ups of sockets and routes call an IPv4 address. lookup6.h
 * has the same functions for IPv6; lookup.h includes one of them. */
#ifndef MK_BPF_LOOKUP4_H
#define MK_BPF_LOOKUP4_H

#define MK_ADDRESS_FAMILY 2 /* AF_INET; BPF programs cannot include sys/socket.h */
#define MK_SOCKET_BYTES	  sizeof(((struct bpf_sock_tuple *)0)->ipv4)

static __always_inline struct bpf_sock_tuple socket_tuple(const struct mk_tuple *tuple)
{
	return (struct bpf_sock_tuple){ .ipv4 = { .saddr = tuple->saddr.word[0],
						  .daddr = tuple->daddr.word[0],
						  .sport = tuple->sport,
						  .dport = tuple->dport } };
}

static __always_inline void fib_set(struct bpf_fib_lookup *fib, const struct mk_tuple *tuple)
{
	fib->family = MK_ADDRESS_FAMILY;
	fib->ipv4_src = tuple->saddr.word[0];
	fib->ipv4_dst = tuple->daddr.word[0];
}

static __always_inline struct mk_addr fib_source(const struct bpf_fib_lookup *fib)
{
	return (struct mk_addr){ { fib->ipv4_src } };
}

/* After the look-up: the next hop, or the destination if it is on the link; 0 if the next hop is of
 * the other family. */
static __always_inline struct mk_addr fib_next_hop(const struct bpf_fib_lookup *fib)
{
	return (struct mk_addr){ { fib->family == MK_ADDRESS_FAMILY ? fib->ipv4_dst : 0 } };
}

static __always_inline struct bpf_redir_neigh neighbour(const struct mk_addr *addr)
{
	return (struct bpf_redir_neigh){ .nh_family = MK_ADDRESS_FAMILY, .ipv4_nh = addr->word[0] };
}

#endif

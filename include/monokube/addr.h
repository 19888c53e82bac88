/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* include/monokube/addr.h - the address type of the tables: an address of the family that the
 * datapath object is built for, in network byte order. Only this header and bpf/packet.h know how
 * long an address is. */
#ifndef MONOKUBE_ADDR_H
#define MONOKUBE_ADDR_H

#include <linux/types.h>

#define MK_ADDR_WORDS 1 /* IPv4 */
#define MK_ADDR_BITS  (32 * MK_ADDR_WORDS)

struct mk_addr {
	__be32 word[MK_ADDR_WORDS];
};

_Static_assert(sizeof(struct mk_addr) == 4, "address of the IPv4 datapath");

static inline int mk_addr_eq(const struct mk_addr *a, const struct mk_addr *b)
{
	return a->word[0] == b->word[0];
}

/* Is @addr inside the network @net/@mask (mask as an address)? */
static inline int mk_addr_in(const struct mk_addr *addr, const struct mk_addr *net,
			     const struct mk_addr *mask)
{
	return (addr->word[0] & mask->word[0]) == net->word[0];
}

/* Return the last 32 bits of @addr as a number. */
static inline __u32 mk_addr_low_bits(const struct mk_addr *addr)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap32(addr->word[MK_ADDR_WORDS - 1]);
#else
	return addr->word[MK_ADDR_WORDS - 1];
#endif
}

/* Return the first byte of an IPv4 address, as on the wire. */
static inline __u8 mk_addr_first_byte(const struct mk_addr *addr)
{
	return *(const __u8 *)addr;
}

static inline int mk_addr_is_loopback(const struct mk_addr *addr)
{
	return mk_addr_first_byte(addr) == 127; /* 127.0.0.0/8 */
}

/* Is @addr in 224.0.0.0/4? */
static inline int mk_addr_is_multicast(const struct mk_addr *addr)
{
	return (mk_addr_first_byte(addr) & 0xf0) == 0xe0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* include/monokube/addr.h - the address type of the tables, in network byte order. The programs are
 * built once per family (MK_FAMILY 4 or 6), and each build has tables of its own. Only this header,
 * bpf/packet4.h and bpf/packet6.h know how long an address is. */
#ifndef MONOKUBE_ADDR_H
#define MONOKUBE_ADDR_H

#include <linux/types.h>

/* User space is not compiled for a family: its structs are rows (src/datapath/maps/table.h), which
 * have the layout of IPv6. An IPv4 address in a row is IPv4-mapped, but 0.0.0.0 is all zeros. */
#ifndef MK_FAMILY
#define MK_FAMILY 6
#define MK_ROWS
#endif

#if MK_FAMILY == 4
#define MK_ADDR_WORDS		 1
#define MK_BY_FAMILY(ipv4, ipv6) (ipv4)
#else
#define MK_ADDR_WORDS		 4
#define MK_BY_FAMILY(ipv4, ipv6) (ipv6)
#endif
#ifndef MK_ROWS
#define MK_ADDR_BITS (32 * MK_ADDR_WORDS)
#endif

struct mk_addr {
	__be32 word[MK_ADDR_WORDS];
};

_Static_assert(sizeof(struct mk_addr) == MK_BY_FAMILY(4, 16), "address of the datapath's family");

static inline int mk_addr_eq(const struct mk_addr *a, const struct mk_addr *b)
{
	__be32 differs = 0;

	for (int i = 0; i < MK_ADDR_WORDS; i++)
		differs |= a->word[i] ^ b->word[i];
	return differs == 0;
}

/* Is @addr inside the network @net/@mask (mask as an address)? */
static inline int mk_addr_in(const struct mk_addr *addr, const struct mk_addr *net,
			     const struct mk_addr *mask)
{
	__be32 differs = 0;

	for (int i = 0; i < MK_ADDR_WORDS; i++)
		differs |= (addr->word[i] & mask->word[i]) ^ net->word[i];
	return differs == 0;
}

/* Return word @i of @addr as a number, counted from the last word: 0 has the last 32 bits. */
static inline __u32 mk_addr_word_from_end(const struct mk_addr *addr, __u32 i)
{
	__be32 word = addr->word[MK_ADDR_WORDS - 1 - i];

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap32(word);
#else
	return word;
#endif
}

/* Return the last 32 bits of @addr as a number. */
static inline __u32 mk_addr_low_bits(const struct mk_addr *addr)
{
	return mk_addr_word_from_end(addr, 0);
}

/* Return the 32 bits of @addr that end @low_bits before its end, as a number. @low_bits is a
 * constant, below MK_ADDR_BITS. */
static inline __u32 mk_addr_bits_above(const struct mk_addr *addr, __u32 low_bits)
{
	__u32 word = low_bits / 32, shift = low_bits % 32;
	__u64 bits;

#if MK_FAMILY != 4
	bits = 0;
	for (__u32 i = 0; i < MK_ADDR_WORDS; i++) {
		if (i == word)
			bits |= mk_addr_word_from_end(addr, i);
		if (i == word + 1)
			bits |= (__u64)mk_addr_word_from_end(addr, i) << 32;
	}
#else
	bits = word ? 0 : mk_addr_low_bits(addr);
#endif
	return (__u32)(bits >> shift);
}

/* Return the first byte of @addr, as on the wire. */
static inline __u8 mk_addr_first_byte(const struct mk_addr *addr)
{
	return *(const __u8 *)addr;
}

#ifdef MK_ROWS
/* Is @addr an IPv4 address other than 0.0.0.0? */
static inline int mk_addr_is_ipv4(const struct mk_addr *addr)
{
	return !(addr->word[0] | addr->word[1]) && mk_addr_word_from_end(addr, 1) == 0xffff;
}

/* Is @addr in 127.0.0.0/8, or ::1? */
static inline int mk_addr_is_loopback(const struct mk_addr *addr)
{
	if (mk_addr_is_ipv4(addr))
		return mk_addr_low_bits(addr) >> 24 == 127;
	return !(addr->word[0] | addr->word[1] | addr->word[2]) && mk_addr_low_bits(addr) == 1;
}
#elif MK_FAMILY == 4
/* Is @addr in 127.0.0.0/8? */
static inline int mk_addr_is_loopback(const struct mk_addr *addr)
{
	return mk_addr_first_byte(addr) == 127;
}

/* Is @addr in 224.0.0.0/4? */
static inline int mk_addr_is_multicast(const struct mk_addr *addr)
{
	return (mk_addr_first_byte(addr) & 0xf0) == 0xe0;
}
#else
/* Is @addr ::1? */
static inline int mk_addr_is_loopback(const struct mk_addr *addr)
{
	return !(addr->word[0] | addr->word[1] | addr->word[2]) && mk_addr_low_bits(addr) == 1;
}

/* Is @addr in ff00::/8? */
static inline int mk_addr_is_multicast(const struct mk_addr *addr)
{
	return mk_addr_first_byte(addr) == 0xff;
}
#endif

#endif

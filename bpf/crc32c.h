/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/crc32c.h - update the CRC32c at the end of a packet after a change at its start, without
 * reading the bytes between. A CRC is linear. If two packets differ only in their first four bytes,
 * their CRCs differ by that difference, advanced over the length of the packet. To advance over n
 * bytes is to multiply by x^(8n) modulo P over GF(2).
 *
 * Bits are reflected as in CRC32c: bit 31 is x^0. The code is arithmetic only, so tests include it
 * too. */
#ifndef MK_BPF_CRC32C_H
#define MK_BPF_CRC32C_H

#include <linux/types.h>

#define MK_CRC32C_POLYNOMIAL 0x82f63b78U /* P, reflected (RFC 9260, appendix A) */

/* [d][v] = x^(8 * v * 16^d) mod P: a length has four hexadecimal digits, and each is one factor */
static const __u32 crc32c_powers[4][16] = {
	{ 0x80000000, 0x00800000, 0x00008000, 0x00000080, 0x82f63b78, 0xfbc3faf9, 0x8b277743,
	  0x52a0c93f, 0x6ea2d55c, 0x1c08b7d6, 0xf56e0ef4, 0x34019664, 0xa66805eb, 0x7a1f6b24,
	  0xe75d06aa, 0xc94ec098 },
	{ 0x80000000, 0x18b8ea18, 0x510ac59a, 0xb2dea967, 0xb82be955, 0x36c41f1c, 0x19b29a35,
	  0xc9e90b9e, 0xb8fdb1e7, 0xe55ef1f3, 0x1fe0b5c3, 0xe0553f1e, 0x18e4a304, 0x2b830011,
	  0x56993a31, 0x0246e2e6 },
	{ 0x80000000, 0x88e56f72, 0x74c360a4, 0x631bb273, 0xe4172b16, 0x71892b1b, 0x835305c9,
	  0x196b1eae, 0x0d65762a, 0xafc81338, 0xb5a50ab7, 0xf373c3ac, 0x5f60970f, 0xd46d3063,
	  0x3a5275ea, 0x02331c01 },
	{ 0x80000000, 0x35d73a62, 0x28461564, 0x43eefc9f, 0xbf455269, 0x5edcdeb9, 0x65059450,
	  0x4e6f41a4, 0xe2ea32dc, 0xf5b95b32, 0x695a4c87, 0xf204502c, 0x9a4f01b6, 0x941a0916,
	  0x4303cb97, 0x4c3d3d65 },
};

/* @value if @bit is 1, otherwise 0. The bit is hidden from the compiler, which would turn the
 * product into a branch. With a mask instead of a product Linux 6.18 would walk both cases. */
static inline __attribute__((always_inline)) __u32 crc32c_if(__u32 bit, __u32 value)
{
	asm volatile("" : "+r"(bit));
	return value * bit;
}

static inline __attribute__((always_inline)) __u32 crc32c_multiply(__u32 a, __u32 b)
{
	__u32 product = 0;

	for (int i = 0; i < 32; i++) {
		product ^= crc32c_if(a >> 31, b);
		a <<= 1;
		b = b >> 1 ^ crc32c_if(b & 1, MK_CRC32C_POLYNOMIAL);
	}
	return product;
}

/* The change (exclusive or) of the CRC of a packet of @bytes, below 65536, when its first four
 * bytes change by @difference. @difference is an exclusive or of little-endian numbers. */
static inline __attribute__((always_inline)) __u32 crc32c_change(__u32 difference, __u32 bytes)
{
	for (int digit = 0; digit < 4; digit++) {
		difference = crc32c_multiply(difference, crc32c_powers[digit][bytes & 0xf]);
		bytes >>= 4;
	}
	return difference;
}

#endif

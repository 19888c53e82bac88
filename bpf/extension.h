/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/extension.h - IPv6's extension headers (RFC 8200). Layer 4 is found by a walk over at most
 * MK_EXTENSION_HEADERS_MAX headers: hop-by-hop options, destination options, routing, fragment,
 * authentication (AH). */
#ifndef MK_BPF_EXTENSION_H
#define MK_BPF_EXTENSION_H

#define MK_EXTENSION_HEADERS_MAX 4
/* layer 4 begins before */
#define MK_EXTENSION_HEADERS_END MK_BY_FAMILY(0xc0, MK_L3_OFF + 256)
#define MK_FRAGMENT_OFFSET_MASK	 0xfff8
#define MK_FRAGMENT_MORE	 0x0001

/* RFC 8200, 4.5 */
struct fragment_header {
	__u8 next, reserved;
	__be16 offset_more;
	__be32 id;
};

/* The result of a walk over the headers. */
struct headers {
	__u32 l4_off; /* of the next header; a later fragment's first byte of data */
	__u32 fragment_off; /* of the fragment header; 0: none */
	__be16 fragment; /* its offset and flag */
	__u8 proto; /* of the next header */
	__u8 has_ah;
};

static __always_inline int is_extension(__u8 proto)
{
	return proto == IPPROTO_HOPOPTS || proto == IPPROTO_DSTOPTS || proto == IPPROTO_ROUTING ||
	       proto == IPPROTO_FRAGMENT || proto == IPPROTO_AH;
}

static __always_inline int is_later(const struct headers *headers)
{
	return !!(headers->fragment & bpf_htons(MK_FRAGMENT_OFFSET_MASK));
}

/* Step over the extension header at headers->l4_off. Returns MK_GO_ON or a drop reason. */
static __always_inline int step_header(struct __sk_buff *skb, struct headers *headers)
{
	__u32 off = headers->l4_off;
	const __u64 any = skb->hash;
	const __u8 *byte;
	__u32 bytes;

	packet_pull(skb, off + 8);
	byte = packet_at(skb, off, 8);
	if (!byte)
		return MK_DROP_TRUNCATED;
	bytes = (byte[1] + 1) * 8;
	if (headers->proto == IPPROTO_ROUTING && byte[3])
		return MK_DROP_SOURCE_ROUTE; /* segments left */
	if (headers->proto == IPPROTO_AH) {
		bytes = (byte[1] + 2) * 4;
		headers->has_ah = 1;
	}
	if (headers->proto == IPPROTO_FRAGMENT) {
		bytes = sizeof(struct fragment_header);
		headers->fragment_off = off;
		headers->fragment = *(__be16 *)(byte + 2);
	}
	/* the verifier walks what follows once, not once for each kind of header and each round */
	headers->proto = byte[0];
	headers->has_ah = forgotten(headers->has_ah, any);
	headers->fragment = forgotten(headers->fragment, any);
	headers->fragment_off = forgotten(headers->fragment_off, any) & (MK_HEADERS_END - 1);
	headers->l4_off = forgotten(off + bytes, any) & (MK_HEADERS_END - 1);
	return off + bytes < MK_EXTENSION_HEADERS_END ? MK_GO_ON : MK_DROP_EXTENSION_HEADER;
}

/* Walk from the header @proto at @off to layer 4, or to a later fragment's data. Returns
 * MK_GO_ON or a drop reason. */
static __always_inline int walk_headers(struct __sk_buff *skb, __u32 off, __u8 proto,
					struct headers *headers)
{
	__builtin_memset(headers, 0, sizeof(*headers));
	headers->l4_off = off;
	headers->proto = proto;
	for (int i = 0; i < MK_EXTENSION_HEADERS_MAX; i++) {
		int ret;

		if (!is_extension(headers->proto) || is_later(headers))
			return MK_GO_ON;
		if (headers->proto == IPPROTO_HOPOPTS && i > 0)
			return MK_DROP_BAD_HEADER;
		ret = step_header(skb, headers);
		if (ret != MK_GO_ON)
			return ret;
	}
	return is_extension(headers->proto) && !is_later(headers) ? MK_DROP_EXTENSION_HEADER
								  : MK_GO_ON;
}

#endif

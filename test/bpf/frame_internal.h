/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/frame_internal.h - the parts of a frame: its IP header (frame_ip.c) and layer 4
 * (frame_l4.c). */
#ifndef MK_TEST_FRAME_INTERNAL_H
#define MK_TEST_FRAME_INTERNAL_H

#include "base/ip.h"
#include "bpf/frame.h"

/* A flow as frame_make() reads it. */
struct frame_flow {
	char proto[16], from[32], to[32];
	unsigned sport, dport, id;
};

/* The headers of a packet. ICMPv6 has the number of ICMP. */
struct frame_ip {
	const uint8_t *header;
	struct mk_ip from, to;
	uint8_t proto, ttl;
	bool fragment;
	size_t fragment_at; /* not 0: without layer 4's header */
	size_t header_bytes; /* with options or extension headers: layer 4 begins behind them */
	size_t l4_bytes; /* as the header says */
};

/* Write the header for @proto (IPv4's number) and the options @o, except for lengths and checksums.
 * Returns its bytes. */
size_t frame_ip_make(uint8_t *header, uint8_t proto, const struct frame_flow *flow,
		     const struct frame_options *o);
/* Write the length of all behind the header, and the header's checksum if it has one. */
void frame_ip_finish(uint8_t *header, size_t header_bytes, size_t l4_bytes);
/* Read the header at @header. Returns false if the @available bytes do not hold all of it. */
bool frame_ip_read(const uint8_t *header, size_t available, struct frame_ip *ip);
bool frame_ip_checksum_right(const struct frame_ip *ip);
/* Return the sum over the pseudo header of layer 4; 0 if ICMP of this family has none. */
uint32_t frame_ip_pseudo_sum(const struct frame_ip *ip);

/* Make the header of a packet that of its fragment at @from, or the first fragment's that of the
 * whole packet. IPv6 packets have no extension headers but that of fragments. Returns the header's
 * bytes now. */
size_t frame_ip_cut(uint8_t *header, size_t from, bool more, uint16_t id);
size_t frame_ip_join(uint8_t *header);

uint8_t frame_l4_proto(const char *name);
/* Write the header of layer 4 and what belongs to it before the payload. Returns its bytes. */
size_t frame_l4_make(uint8_t *l4, uint8_t proto, const struct frame_flow *flow,
		     const struct frame_options *o);
/* Write the checksum of layer 4. */
void frame_l4_finish(uint8_t *l4, const struct frame_ip *ip, const struct frame_options *o);
/* Is it right, as far as it can be told from @available bytes of layer 4? */
bool frame_l4_right(const struct frame_ip *ip, size_t available);
/* Return the quoted packet of an ICMP error, NULL for other packets. */
const uint8_t *frame_l4_quoted(const struct frame_ip *ip);
/* Format "tcp A:1 > B:2". A packet that an ICMP error quotes is formatted as well if it is
 * within @available bytes. */
size_t frame_l4_tell(char *out, size_t room, const struct frame_ip *ip, size_t available);

uint32_t frame_sum(const void *data, size_t length, uint32_t sum);
uint16_t frame_fold(uint32_t sum);

#endif

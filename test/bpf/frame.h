/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/frame.h - packets for the BPF tests, made from one line of text and shown as such: "tcp
 * 10.244.1.2:40000 > 10.96.0.10:80". In a run for IPv6 the same line makes a frame of IPv6, and
 * that frame is shown as the line (family.h); IP options become a hop-by-hop header, fragments have
 * a fragment header, and quotes of IPv4's length are longer by the header. */
#ifndef MK_TEST_FRAME_H
#define MK_TEST_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

struct frame {
	uint8_t byte[4096];
	size_t length;
	uint16_t id; /* of the fragments that frame_fragment() makes */
};

#define FRAME_GATEWAY_MAC "02:4d:0a:f4:01:fe" /* of 10.244.1.254 */

/* The properties of a frame apart from its flow. Zero is the value of an ordinary packet. */
struct frame_options {
	uint8_t tcp_flags; /* 0: SYN */
	uint32_t seq, ack; /* TCP; 0: as between two ends whose initial number is 1000 */
	uint8_t ttl; /* 0: 64 */
	uint8_t ip_option_words; /* of 4 bytes (no-operations) */
	uint16_t payload_bytes;
	uint16_t packet_bytes; /* not 0: the payload makes a packet of so many */
	uint16_t fragment; /* IPv4's frag_off, host order: MF 0x2000, DF 0x4000, offset/8 */
	uint16_t id;
	bool no_checksum; /* UDP: checksum 0; SCTP: as before the device fills it in */
	uint16_t sctp_chunk; /* type of the first chunk; 0: INIT */
	bool sctp_bare; /* only the common header */
	uint8_t icmp_type, icmp_code; /* "icmp" with icmp_type 0 is an echo request */
	bool echo_reply;
	const struct frame *quote; /* an ICMP error about this frame, quoting quote_bytes of it */
	size_t quote_bytes; /* 0: IP header and 8 bytes */
	uint32_t icmp_mtu;
	const char *source_mac; /* NULL: the MAC that monokube gives to the source address */
	const char *dest_mac; /* NULL: FRAME_GATEWAY_MAC */
};

/* Types of SCTP chunks. */
#define SCTP_DATA	  0x100 /* 0 on the wire */
#define SCTP_INIT	  1
#define SCTP_INIT_ACK	  2
#define SCTP_ABORT	  6
#define SCTP_SHUTDOWN	  7
#define SCTP_SHUTDOWN_ACK 8
#define SCTP_COOKIE_ECHO  10
#define SCTP_INIT_BYTES	  20

#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10
#define DF  0x4000
#define MF  0x2000

/* Make a frame of @flow: "tcp|udp|sctp|esp A:port > B:port", or "icmp A > B id" (echo). Aborts on a
 * bad line. */
struct frame frame_make(const char *flow, const struct frame_options *options);
/* .. with a probe (struct mk_probe_packet) as payload, padded with zeros. */
struct frame frame_probe(const char *flow, uint32_t magic, const struct frame_options *options);

/* Format the flow of @frame as frame_make() reads it, into a static buffer. An ICMP error reads
 * "icmp-error A > B type/code [tcp ...quoted flow...]". */
const char *frame_flow(const struct frame *frame);

/* Are the checksums of IP header and layer 4 right, and those of a quoted packet, as far as it is
 * quoted completely? If not, *@what names the wrong one. */
bool frame_checksums_right(const struct frame *frame, const char **what);

uint8_t frame_ttl(const struct frame *frame); /* or the hop limit */
const char *frame_mac_dest(const struct frame *frame); /* "02:4d:...", static buffer */
void frame_fix_ip_checksum(struct frame *frame);
void frame_fix_icmp_checksum(struct frame *frame);
/* Write into the IP header that header and layer 4 have @bytes together. */
void frame_say_length(struct frame *frame, size_t bytes);
/* Cut the frame behind @l4_bytes of layer 4. */
void frame_cut_to(struct frame *frame, size_t l4_bytes);

size_t frame_ip_bytes(void); /* of this family's header, without options */
size_t frame_l4(const struct frame *frame); /* the offset of layer 4 */
/* Return @bytes bytes at @at, in network order, as a number. */
uint32_t frame_number(const struct frame *frame, size_t at, size_t bytes);
static inline uint32_t frame_icmp_mtu(const struct frame *frame)
{
	return frame_number(frame, frame_l4(frame) + 4, 4);
}

/* Cut bytes @from to @to of layer 4 out of @whole, as a fragment. */
struct frame frame_fragment(const struct frame *whole, size_t from, size_t to);
bool frame_is_fragment(const struct frame *frame);
size_t frame_fragment_at(const struct frame *frame); /* in bytes; 0: the first, or all */
/* Put the bytes of @part into @whole, and its header if it is the first. At the end call
 * frame_say_length(). */
void frame_join(struct frame *whole, const struct frame *part);

/* Compute a CRC32c, bit by bit (RFC 9260, appendix A); the first call's @crc is 0. */
uint32_t frame_crc32c(const void *data, size_t length, uint32_t crc);

#endif

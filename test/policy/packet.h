/* SPDX-License-Identifier: Apache-2.0 */
/* test/policy/packet.h - frames with one packet of TCP, UDP, SCTP or ping. Checksums of layer 4 are
 * made up: no program checks them. */
#ifndef MK_TEST_POLICY_PACKET_H
#define MK_TEST_POLICY_PACKET_H

#include <stddef.h>

#include "base/ip.h"

struct packet {
	uint8_t bytes[512];
	size_t length;
	sa_family_t family;
};

struct packet_flow {
	struct mk_ip from, to;
	uint16_t from_port, to_port; /* a ping's identifier is from_port */
	uint8_t proto; /* IPPROTO_ICMP for both families */
};

enum packet_kind {
	PACKET_OPENS, /* SYN, INIT, echo request, datagram */
	PACKET_MORE, /* of the client */
};

/* The MAC address that a device with this address has. */
struct mk_mac mac_of(const struct mk_ip *ip);
struct packet packet_make(const struct packet_flow *flow, enum packet_kind kind);
/* The answer to @packet. */
struct packet packet_answer(const struct packet *packet);
/* An ICMP error of @router about @packet, to its sender. */
struct packet packet_error(const struct packet *packet, const struct mk_ip *router);
/* The first 16 bytes of a datagram's payload, or the rest of it. */
struct packet packet_fragment(const struct packet *packet, bool first, uint16_t id);
void packet_set_macs(struct packet *packet, const uint8_t *source, const uint8_t *destination);
/* Who sends it: its source address. */
struct mk_ip packet_source(const struct packet *packet);
struct mk_ip packet_destination(const struct packet *packet);

#endif

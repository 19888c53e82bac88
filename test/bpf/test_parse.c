// SPDX-License-Identifier: Apache-2.0
/* Good and bad packets: what a pod may send, what is dropped and why. The host checks its own bad
 * packets. (The kernel refuses a frame cut in the IP header for a test run; a lab sends one.) */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <string.h>

#include "bpf/run.h"

#define IP_OF(frame) ((struct iphdr *)(void *)((frame)->byte + ETH_HLEN))

static void cut_in_l4_header(struct frame *f)
{
	frame_cut_to(f, 6);
}

static void cut_in_sctp_init(struct frame *f)
{
	frame_cut_to(f, 12 + 19);
}

static void say_longer_than_it_is(struct frame *f)
{
	frame_say_length(f, f->length + 100);
}

static void say_shorter_than_header(struct frame *f)
{
	frame_say_length(f, 16);
}

static void header_of_four_words(struct frame *f)
{
	IP_OF(f)->ihl = 4;
}

static void header_beyond_packet(struct frame *f)
{
	IP_OF(f)->ihl = 15;
	IP_OF(f)->tot_len = htons(40);
}

static void version_5(struct frame *f)
{
	f->byte[ETH_HLEN] = 0x50 | (f->byte[ETH_HLEN] & 0xf);
}

static void tcp_offset_too_small(struct frame *f)
{
	f->byte[frame_l4(f) + 12] = 0x40;
}

static void tcp_offset_beyond_packet(struct frame *f)
{
	f->byte[frame_l4(f) + 12] = 0xf0;
}

static void udp_length_too_small(struct frame *f)
{
	f->byte[frame_l4(f) + 5] = 7;
}

static void udp_length_beyond_packet(struct frame *f)
{
	f->byte[frame_l4(f) + 4] = 0x40;
}

static void ethertype_arp(struct frame *f)
{
	f->byte[12] = 0x08;
	f->byte[13] = 0x06;
}

static void ethertype_of_other_family(struct frame *f)
{
	f->byte[12] = family_is6() ? 0x08 : 0x86;
	f->byte[13] = family_is6() ? 0x00 : 0xdd;
}

static void pad_to_ethernet_minimum(struct frame *f)
{
	f->length += 20;
}

static const struct {
	const char *name, *flow;
	struct frame_options options;
	void (*spoil)(struct frame *frame);
	int reason; /* -1: forwarded to a pod */
} rows[] = {
	{ "plain TCP", "tcp 10.244.1.2:40000 > 10.244.1.3:80", { 0 }, NULL, -1 },
	{ "plain UDP", "udp 10.244.1.2:40000 > 10.244.1.3:53", { .payload_bytes = 33 }, NULL, -1 },
	{ "UDP without checksum",
	  "udp 10.244.1.2:40000 > 10.244.1.3:53",
	  { .no_checksum = true },
	  NULL,
	  -1 },
	{ "ping", "icmp 10.244.1.2 > 10.244.1.3 77", { 0 }, NULL, -1 },
	{ "SCTP", "sctp 10.244.1.2:40000 > 10.244.1.3:80", { .payload_bytes = 12 }, NULL, -1 },
	{ "IP options",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { .ip_option_words = 1, .payload_bytes = 5 },
	  NULL,
	  -1 },
	{ "as many IP options as fit",
	  "udp 10.244.1.2:40000 > 10.244.1.3:80",
	  { .ip_option_words = 10, .payload_bytes = 5 },
	  NULL,
	  -1 },
	{ "padding behind the packet",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  pad_to_ethernet_minimum,
	  -1 },
	{ "cut in the TCP header",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  cut_in_l4_header,
	  MK_DROP_TRUNCATED },
	{ "cut in the UDP header",
	  "udp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  cut_in_l4_header,
	  MK_DROP_TRUNCATED },
	{ "cut in the SCTP header",
	  "sctp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  cut_in_l4_header,
	  MK_DROP_TRUNCATED },
	{ "cut in an SCTP INIT",
	  "sctp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  cut_in_sctp_init,
	  MK_DROP_TRUNCATED },
	{ "cut in the ICMP header",
	  "icmp 10.244.1.2 > 10.244.1.3 9",
	  { 0 },
	  cut_in_l4_header,
	  MK_DROP_TRUNCATED },
	{ "total length beyond the frame",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  say_longer_than_it_is,
	  MK_DROP_BAD_HEADER },
	{ IPV4_ONLY("the header does not count") "total length below the header",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  say_shorter_than_header,
	  MK_DROP_BAD_HEADER },
	{ IPV4_ONLY("one length of header") "header length of 16 bytes",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  header_of_four_words,
	  MK_DROP_BAD_HEADER },
	{ IPV4_ONLY("one length of header") "header longer than the packet",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  header_beyond_packet,
	  MK_DROP_BAD_HEADER },
	{ "IP version 5",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  version_5,
	  MK_DROP_BAD_HEADER },
	{ "TCP data offset of 16 bytes",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  tcp_offset_too_small,
	  MK_DROP_BAD_HEADER },
	{ "TCP data offset beyond the packet",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  tcp_offset_beyond_packet,
	  MK_DROP_TRUNCATED },
	{ "UDP length of 7",
	  "udp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  udp_length_too_small,
	  MK_DROP_BAD_HEADER },
	{ "UDP length beyond the packet",
	  "udp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  udp_length_beyond_packet,
	  MK_DROP_BAD_HEADER },
	{ "ARP", "tcp 10.244.1.2:40000 > 10.244.1.3:80", { 0 }, ethertype_arp, MK_DROP_NOT_IPV4 },
	{ "the other family",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { 0 },
	  ethertype_of_other_family,
	  MK_DROP_NOT_IPV4 },
	{ "address of another pod",
	  "tcp 10.244.1.99:40000 > 10.244.1.3:80",
	  { 0 },
	  NULL,
	  MK_DROP_SPOOFED_ADDRESS },
	{ "address from outside",
	  "udp 8.8.8.8:53 > 10.244.1.3:80",
	  { 0 },
	  NULL,
	  MK_DROP_SPOOFED_ADDRESS },
	{ "address with the low bits of the pod's",
	  "udp 10.245.1.2:53 > 10.244.1.3:80",
	  { .source_mac = "02:4d:0a:f4:01:02" },
	  NULL,
	  MK_DROP_SPOOFED_ADDRESS },
	{ "no address, as in a free slot of map pods",
	  "udp 0.0.0.0:68 > 10.244.1.3:67",
	  { .source_mac = "00:00:00:00:00:00" },
	  NULL,
	  MK_DROP_SPOOFED_ADDRESS },
	{ "MAC of another pod",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { .source_mac = "02:4d:0a:f4:01:03" },
	  NULL,
	  MK_DROP_SPOOFED_MAC },
	{ "MAC that differs in the last byte only",
	  "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  { .source_mac = "02:4d:0a:f4:01:82" },
	  NULL,
	  MK_DROP_SPOOFED_MAC },
};

START_TEST(test_from_pod)
{
	struct frame in = frame_make(rows[_i].flow, &rows[_i].options);
	bool forwarded = rows[_i].reason < 0;

	if (family_leaves_out(rows[_i].name))
		return;
	if (family_is_behind() && rows[_i].spoil == ethertype_of_other_family)
		return; /* the other family runs, too */
	if (rows[_i].spoil)
		rows[_i].spoil(&in);
	fixture_expect(rows[_i].name, MK_HOOK_POD, &in, forwarded ? TO_POD : DROPPED,
		       forwarded ? rows[_i].flow : NULL);
	ck_assert_msg(fixture_drops_total() == !forwarded, "%s: %lu drops", rows[_i].name,
		      (unsigned long)fixture_drops_total());
	if (!forwarded)
		ck_assert_msg(fixture_drops(MK_HOOK_POD, (enum mk_drop_reason)rows[_i].reason) == 1,
			      "%s: dropped for another reason", rows[_i].name);
}
END_TEST

/* Change the source to one outside, because a pod's address would be dropped there. The header's
 * checksum stays wrong: no program reads it. */
static void come_from_outside(struct frame *frame)
{
	const struct mk_ip outside = family_ip("203.0.113.10");

	if (family_is6())
		memcpy(frame->byte + ETH_HLEN + 8, &outside.v6, sizeof(outside.v6));
	else
		memcpy(frame->byte + ETH_HLEN + 12, &outside.v4, sizeof(outside.v4));
}

/* On the uplink none of these packets is ours: they pass unchanged and uncounted. */
START_TEST(test_from_uplink)
{
	struct frame in = frame_make(rows[_i].flow, &rows[_i].options), out;

	if (family_leaves_out(rows[_i].name))
		return;
	if (rows[_i].spoil)
		rows[_i].spoil(&in);
	come_from_outside(&in);
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == TO_HOST, "%s", rows[_i].name);
	ck_assert_msg(in.length == out.length && memcmp(in.byte, out.byte, in.length) == 0,
		      "%s: changed on its way to the host", rows[_i].name);
	ck_assert_msg(fixture_drops_total() == 0, "%s", rows[_i].name);
}
END_TEST

START_TEST(test_chain_broken)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.244.2.7:80", NULL);

	fixture_break_chain(MK_PROG_ROUTER);
	fixture_expect("empty slot", MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_CHAIN_BROKEN), 1);
}
END_TEST

BPF_SUITE("packets, good and bad")
{
	TCase *tcase = bpf_case(suite, "parse");

	tcase_add_loop_test(tcase, test_from_pod, 0, ROWS(rows));
	tcase_add_loop_test(tcase, test_from_uplink, 0, ROWS(rows));
	tcase_add_test(tcase, test_chain_broken);
}

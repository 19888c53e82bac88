// SPDX-License-Identifier: Apache-2.0
/* The tests' own frames and addresses, in both families: what a row says is what the frame has, and
 * the frame is shown as the row again. Checksums are compared with a plain computation. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/ip6.h>
#include <stdio.h>
#include <string.h>

#include "bpf/family.h"
#include "bpf/run.h"

static const sa_family_t families[] = { AF_INET, AF_INET6 };
static sa_family_t before;

static void remember(void)
{
	before = family();
}

static void restore(void)
{
	family_use(before);
}

/* ---- addresses ---------------------------------------------------------------------------------- */

static const struct {
	const char *quad, *six;
} addresses[] = {
	{ "10.244.1.2", "fd00:a:f4:1::2" },
	{ "10.244.1.1", "fd00:a:f4:1::1" },
	{ "10.244.1.253", "fd00:a:f4:1::fd" },
	{ "10.244.1.254", "fd00:a:f4:1::3fe" },
	{ "10.244.200.254", "fd00:a:f4:c8::3fe" },
	{ "10.244.1.0", "fd00:a:f4:1::" },
	{ "10.244.0.0", "fd00:a:f4::" },
	{ "192.168.99.254", "fd00:c0:a8:63::fe" },
	{ "203.0.113.10", "fd00:cb:0:71::a" },
	{ "127.0.0.1", "::1" },
	{ "0.0.0.0", "::" },
	{ "0.1.2.3", "::0.1.2.3" },
	{ "240.0.0.1", "fd00:f0::1" },
	{ "169.254.7.8", "fe80::7:8" },
	{ "169.254.169.254", "fe80::a9:fe" },
	{ "224.0.0.251", "ff0e:e0::fb" },
	{ "239.255.255.255", "ff0e:ef:ff:ff::ff" },
	{ "255.255.255.255", "ff02::1" },
};

START_TEST(test_address)
{
	struct mk_ip ip, wanted;
	char text[MK_IP_STRLEN];

	family_use(AF_INET6);
	ip = family_ip(addresses[_i].quad);
	ck_assert_int_eq(mk_ip_parse(addresses[_i].six, &wanted), 0);
	ck_assert_msg(mk_ip_equal(&ip, &wanted), "%s is %s", addresses[_i].quad,
		      mk_ip_format(&ip, text));
	ck_assert_str_eq(family_text(&ip, text), addresses[_i].quad);
	family_use(AF_INET);
	ip = family_ip(addresses[_i].quad);
	ck_assert_int_eq(ip.family, AF_INET);
	ck_assert_str_eq(family_text(&ip, text), addresses[_i].quad);
}
END_TEST

START_TEST(test_foreign_address)
{
	static const char *const texts[] = { "2001:db8::1",	 "fd00:a:f4:1::100",
					     "fd00:a:f4:1:1::2", "fe80::1:0:0:1",
					     "ff02::2",		 "fd01:a:f4:1::2" };
	char text[MK_IP_STRLEN];
	struct mk_ip ip;

	for (int i = 0; i < ROWS(texts); i++) {
		ck_assert_int_eq(mk_ip_parse(texts[i], &ip), 0);
		ck_assert_str_eq(family_text(&ip, text), texts[i]);
	}
}
END_TEST

START_TEST(test_prefix)
{
	static const struct {
		unsigned four, six;
	} prefixes[] = {
		{ 0, 0 },   { 1, 25 },	{ 8, 32 },   { 9, 41 },	  { 12, 44 },  { 16, 48 },
		{ 23, 63 }, { 24, 64 }, { 25, 121 }, { 28, 124 }, { 31, 127 }, { 32, 128 }
	};

	for (int i = 0; i < ROWS(prefixes); i++) {
		family_use(AF_INET6);
		ck_assert_uint_eq(family_bits(prefixes[i].four), prefixes[i].six);
		family_use(AF_INET);
		ck_assert_uint_eq(family_bits(prefixes[i].four), prefixes[i].four);
	}
}
END_TEST

/* A prefix contains the same addresses in both families. */
START_TEST(test_contains)
{
	static const char *const nets[] = { "10.128.0.0/9",    "10.244.1.0/24", "203.0.113.0/25",
					    "203.0.113.72/29", "0.0.0.0/1",	"10.200.2.0/23" };
	static const char *const inside[] = { "10.128.0.0",   "10.255.7.9",    "10.244.1.2",
					      "203.0.113.10", "203.0.113.130", "203.0.113.77",
					      "126.0.0.1",    "128.0.0.1",     "10.200.3.1",
					      "10.200.4.1",   "10.127.0.1",    "203.0.113.80" };

	for (int i = 0; i < ROWS(nets); i++) {
		for (int j = 0; j < ROWS(inside); j++) {
			struct mk_cidr four, six;
			bool is_inside;
			struct mk_ip ip;
			char net[32];

			ck_assert_int_eq(mk_cidr_parse(nets[i], &four), 0);
			ck_assert_int_eq(mk_ip_parse(inside[j], &ip), 0);
			is_inside = mk_cidr_contains(&four, &ip);
			snprintf(net, sizeof(net), "%.*s", (int)strcspn(nets[i], "/"), nets[i]);
			family_use(AF_INET6);
			six = family_cidr(net, four.prefix_bits);
			ip = family_ip(inside[j]);
			ck_assert_msg(mk_cidr_contains(&six, &ip) == is_inside, "%s in %s",
				      inside[j], nets[i]);
		}
	}
}
END_TEST

static const struct {
	const char *four, *six;
} objects[] = {
	{ "{'a': '10.96.0.10', 'b': ['010.096.000.010', 'x', 'None', '']}",
	  "{'a': 'fd00:a:60::a', 'b': ['fd00:a:60::a', 'x', 'None', '']}" },
	{ "{'a': {'b': [{'c': '10.244.1.0/24'}]}}", "{'a': {'b': [{'c': 'fd00:a:f4:1::/64'}]}}" },
	{ "[' 10.1.2.0/28 ', '203.000.113.099/025', '0.0.0.0/0']",
	  "[' fd00:a:1:2::/124 ', 'fd00:cb:0:71::63/121', '::/0']" },
	{ "['10.96.0.300', '10.96.0', '10.96.0.1.2', '1', 7, true, null]",
	  "['10.96.0.300', '10.96.0', '10.96.0.1.2', '1', 7, true, null]" },
	{ "['IPv4', 'IPv6', 'fd00::10', '::/0', '2001:db8::/32', '::ffff:10.96.0.10']",
	  "['IPv6', 'IPv4', '100.64.0.16', '0.0.0.0/0', '100.64.0.0/10', 'fd00:a:60::a']" },
};

START_TEST(test_object)
{
	json_object *tree = json_tokener_parse(objects[_i].four);
	json_object *same = json_tokener_parse(objects[_i].four);
	json_object *wanted = json_tokener_parse(objects[_i].six);

	ck_assert(tree && same && wanted);
	family_use(AF_INET);
	family_json(tree);
	ck_assert_msg(json_object_equal(tree, same), "IPv4: %s", json_object_to_json_string(tree));
	family_use(AF_INET6);
	family_json(tree);
	ck_assert_msg(json_object_equal(tree, wanted), "%s", json_object_to_json_string(tree));
	json_object_put(tree);
	json_object_put(same);
	json_object_put(wanted);
}
END_TEST

/* ---- frames ------------------------------------------------------------------------------------- */

static const struct frame quoted_frame; /* the row's error quotes the TCP frame */
#define QUOTED_FLOW "tcp 10.96.0.10:80 > 10.244.1.2:40000"

static const struct {
	const char *flow;
	struct frame_options options;
	size_t ipv4_bytes, ipv6_bytes; /* without the Ethernet header */
	const char *seen; /* NULL: the flow */
} frames[] = {
	{ "tcp 10.244.1.2:40000 > 10.96.0.10:80", { .payload_bytes = 7 }, 47, 67, NULL },
	{ "udp 10.244.1.254:40000 > 203.0.113.10:53", { .payload_bytes = 6 }, 34, 54, NULL },
	{ "udp 10.244.1.2:1 > 127.0.0.1:2", { .no_checksum = true }, 28, 48, NULL },
	{ "sctp 10.244.1.2:40000 > 224.0.0.251:80", { 0 }, 52, 72, NULL },
	{ "sctp 10.244.1.2:1 > 10.0.0.1:80", { .sctp_chunk = SCTP_DATA }, 36, 56, NULL },
	{ "esp 10.244.1.2:1 > 10.0.0.1:80", { 0 }, 28, 48, NULL },
	{ "icmp 10.244.1.2 > 203.0.113.10 7", { .payload_bytes = 5 }, 33, 53, NULL },
	{ "icmp 10.244.1.2 > 203.0.113.10 0", { .echo_reply = true }, 28, 48, NULL },
	{ "tcp 0.0.0.0:1 > 255.255.255.255:2", { .ttl = 1 }, 40, 60, NULL },
	{ "tcp 10.244.1.2:1 > 10.0.0.1:80", { .ip_option_words = 1 }, 44, 68, NULL },
	{ "tcp 10.244.1.2:1 > 10.0.0.1:80", { .ip_option_words = 10 }, 80, 100, NULL },
	{ "udp 10.244.1.2:1 > 10.0.0.1:80",
	  { .fragment = MF, .id = 7, .payload_bytes = 64 },
	  92,
	  120,
	  NULL },
	{ "udp 10.244.1.2:1 > 10.0.0.1:80",
	  { .fragment = DF, .id = 7, .payload_bytes = 64 },
	  92,
	  112,
	  NULL },
	{ "udp 10.244.1.2:1 > 10.0.0.1:80",
	  { .fragment = MF | 9, .id = 7, .payload_bytes = 64 },
	  84,
	  112,
	  "udp 10.244.1.2:24930 > 10.0.0.1:25444" },
	{ "icmp 192.0.2.1 > 10.244.1.2",
	  { .icmp_type = 3, .icmp_code = 4, .icmp_mtu = 1400, .quote = &quoted_frame },
	  56,
	  96,
	  "icmp-error 192.0.2.1 > 10.244.1.2 3/4 [" QUOTED_FLOW "]" },
	{ "icmp 192.0.2.1 > 10.244.1.2",
	  { .icmp_type = 3, .icmp_code = 3, .quote = &quoted_frame, .quote_bytes = 40 },
	  68,
	  108,
	  "icmp-error 192.0.2.1 > 10.244.1.2 3/3 [" QUOTED_FLOW "]" },
	{ "icmp 192.0.2.1 > 10.244.1.2",
	  { .icmp_type = 11, .quote = &quoted_frame, .quote_bytes = 27 },
	  55,
	  95,
	  "icmp-error 192.0.2.1 > 10.244.1.2 11/0 []" },
};

static struct frame make(int row)
{
	struct frame_options options = frames[row].options;
	struct frame quoted;

	if (options.quote) {
		quoted = frame_make(QUOTED_FLOW, NULL);
		options.quote = &quoted;
	}
	return frame_make(frames[row].flow, &options);
}

START_TEST(test_frame)
{
	const char *seen = frames[_i].seen ? frames[_i].seen : frames[_i].flow, *what = NULL;
	uint8_t ttl = frames[_i].options.ttl ? frames[_i].options.ttl : 64;

	for (int f = 0; f < ROWS(families); f++) {
		bool six = families[f] == AF_INET6;
		struct frame frame;

		family_use(families[f]);
		frame = make(_i);
		ck_assert_str_eq(frame_flow(&frame), seen);
		ck_assert_uint_eq(frame.length - ETH_HLEN,
				  six ? frames[_i].ipv6_bytes : frames[_i].ipv4_bytes);
		ck_assert_uint_eq(frame_number(&frame, 12, 2), six ? ETH_P_IPV6 : ETH_P_IP);
		ck_assert_uint_eq(frame.byte[ETH_HLEN] >> 4, six ? 6 : 4);
		ck_assert_uint_eq(frame_ttl(&frame), ttl);
		ck_assert_msg(frame_checksums_right(&frame, &what), "wrong %s", what);
		ck_assert(frame_is_fragment(&frame) ==
			  ((frames[_i].options.fragment & 0x3fff) != 0));
		if (frames[_i].options.icmp_mtu)
			ck_assert_uint_eq(frame_icmp_mtu(&frame), 1400);
	}
}
END_TEST

/* Every byte of layer 4 and of the addresses counts, in both families. */
START_TEST(test_wrong_byte)
{
	static const char *const flows[] = { "tcp 10.244.1.2:40000 > 10.96.0.10:80",
					     "udp 10.244.1.2:40000 > 10.96.0.10:80",
					     "icmp 10.244.1.2 > 203.0.113.10 7" };
	const char *flow = flows[_i % ROWS(flows)], *what;
	struct frame frame;

	family_use(families[_i / ROWS(flows)]);
	frame = frame_make(flow, &(struct frame_options){ .payload_bytes = 9 });
	for (size_t at = ETH_HLEN + (family_is6() ? 8 : 12); at < frame.length; at++) {
		frame.byte[at] ^= 0x10;
		ck_assert_msg(!frame_checksums_right(&frame, &what), "byte %zu of '%s'", at, flow);
		frame.byte[at] ^= 0x10;
	}
	ck_assert(frame_checksums_right(&frame, &what));
}
END_TEST

/* Compute RFC 8200, 8.1 word by word, with the carry added at once. */
static uint16_t plain_checksum(const struct frame *frame, uint8_t next)
{
	size_t l4 = ETH_HLEN + sizeof(struct ip6_hdr), length = frame->length - l4;
	uint8_t all[2048] = { 0 };
	uint32_t sum = 0;

	memcpy(all, frame->byte + ETH_HLEN + 8, 32);
	all[34] = (uint8_t)(length >> 8);
	all[35] = (uint8_t)length;
	all[39] = next;
	memcpy(all + 40, frame->byte + l4, length);
	for (size_t i = 0; i < 40 + length; i += 2) {
		sum += all[i] * 256u + all[i + 1];
		if (sum > 0xffff)
			sum -= 0xffff;
	}
	return (uint16_t)(0xffff - sum);
}

START_TEST(test_plain_checksum)
{
	static const struct {
		const char *flow;
		uint8_t next;
		size_t at; /* of the checksum in layer 4 */
	} plain[] = {
		{ "tcp 10.244.1.2:40000 > 10.96.0.10:80", 6, 16 },
		{ "udp 10.244.1.2:40000 > 203.0.113.10:53", 17, 6 },
		{ "icmp 10.244.1.2 > 203.0.113.10 7", 58, 2 },
	};

	family_use(AF_INET6);
	for (int i = 0; i < ROWS(plain); i++) {
		for (uint16_t bytes = 0; bytes < 600; bytes++) {
			struct frame frame = frame_make(
				plain[i].flow, &(struct frame_options){ .payload_bytes = bytes });
			size_t at = ETH_HLEN + 40 + plain[i].at;
			uint32_t made = frame_number(&frame, at, 2);
			uint16_t wanted;

			frame.byte[at] = frame.byte[at + 1] = 0;
			wanted = plain_checksum(&frame, plain[i].next);
			if (wanted == 0 && plain[i].next == 17)
				wanted = 0xffff;
			ck_assert_msg(made == wanted, "'%s', %u bytes: %x, not %x", plain[i].flow,
				      bytes, made, wanted);
		}
	}
}
END_TEST

/* Both ends of a datagram in pieces; each piece has the headers that its family needs. */
START_TEST(test_pieces)
{
	static const size_t cuts[] = { 0, 1480, 2400, 3008 };
	struct frame whole, again = { .length = 0 };

	family_use(families[_i]);
	whole = frame_make("udp 10.244.1.2:1 > 10.0.0.1:80",
			   &(struct frame_options){ .payload_bytes = 3000, .id = 77 });
	for (int i = 2; i >= 0; i--) {
		struct frame part = frame_fragment(&whole, cuts[i], cuts[i + 1]);

		ck_assert(frame_is_fragment(&part));
		ck_assert_uint_eq(part.length - frame_l4(&part), cuts[i + 1] - cuts[i]);
		frame_join(&again, &part);
	}
	frame_say_length(&again, again.length - ETH_HLEN);
	ck_assert_uint_eq(again.length, whole.length);
	if (!family_is6()) /* the whole packet has an id as well */
		ck_assert_str_eq(frame_flow(&again), frame_flow(&whole));
	ck_assert_int_eq(memcmp(again.byte, whole.byte, whole.length), 0);
}
END_TEST

/* ---- ICMP --------------------------------------------------------------------------------------- */

START_TEST(test_icmp_numbers)
{
	static const struct family_icmp four[] = { { 8, 0 },  { 0, 0 },	 { 3, 0 }, { 3, 1 },
						   { 3, 2 },  { 3, 3 },	 { 3, 4 }, { 3, 13 },
						   { 11, 0 }, { 11, 1 }, { 12, 0 } };

	for (int i = 0; i < ROWS(four); i++) {
		struct family_icmp six, back;

		family_use(AF_INET6);
		six = family_icmp(four[i].type, four[i].code);
		back = family_icmp_back(six.type, six.code);
		ck_assert(back.type == four[i].type && back.code == four[i].code);
		family_use(AF_INET);
		six = family_icmp(four[i].type, four[i].code);
		ck_assert(six.type == four[i].type && six.code == four[i].code);
	}
}
END_TEST

/* A packet that ends within the header of SCTP has no checksum to compare. */
START_TEST(test_cut_sctp)
{
	static const struct frame_options options = { .payload_bytes = 16 };
	const char *what;

	family_use(families[_i]);
	for (size_t bytes = 1; bytes < 12; bytes++) {
		struct frame frame = frame_make("sctp 10.244.1.2:40000 > 10.96.0.10:80", &options);

		frame_cut_to(&frame, bytes);
		ck_assert_msg(frame_checksums_right(&frame, &what), "%zu bytes: %s", bytes, what);
	}
}
END_TEST

BPF_SUITE("frames")
{
	TCase *tcase = tcase_create("frames");

	tcase_add_checked_fixture(tcase, remember, restore);
	tcase_add_loop_test(tcase, test_address, 0, ROWS(addresses));
	tcase_add_test(tcase, test_foreign_address);
	tcase_add_test(tcase, test_prefix);
	tcase_add_test(tcase, test_contains);
	tcase_add_loop_test(tcase, test_object, 0, ROWS(objects));
	tcase_add_loop_test(tcase, test_frame, 0, ROWS(frames));
	tcase_add_loop_test(tcase, test_wrong_byte, 0, 6);
	tcase_add_test(tcase, test_plain_checksum);
	tcase_add_loop_test(tcase, test_pieces, 0, ROWS(families));
	tcase_add_loop_test(tcase, test_cut_sctp, 0, ROWS(families));
	tcase_add_test(tcase, test_icmp_numbers);
	suite_add_tcase(suite, tcase);
}

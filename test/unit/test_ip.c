// SPDX-License-Identifier: Apache-2.0
/* Addresses, ranges and MAC addresses: text and arithmetic. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "monokube/abi.h"
#include "base/cleanup.h"
#include "base/ip.h"
#include "unit/unit.h"

static const struct {
	const char *text, *expected; /* NULL: refused */
} ips[] = {
	{ "10.244.1.1", "10.244.1.1" },
	{ "0.0.0.0", "0.0.0.0" },
	{ "255.255.255.255", "255.255.255.255" },
	{ "fd00::1", "fd00::1" },
	{ "FD00:0:0:0:0:0:0:1", "fd00::1" },
	{ "::ffff:10.0.0.1", "::ffff:10.0.0.1" },
	{ "", NULL },
	{ "10.1", NULL },
	{ "10.0.0.256", NULL },
	{ "010.0.0.1", NULL },
	{ "10.0.0.1 ", NULL },
	{ " 10.0.0.1", NULL },
	{ "10.0.0.1/24", NULL },
	{ "0x0a000001", NULL },
	{ "fd00::1::2", NULL },
	{ "fe80::1%eth0", NULL },
	{ "name", NULL },
};

START_TEST(test_ip_parse)
{
	char buf[MK_IP_STRLEN];
	struct mk_ip ip;

	if (!ips[_i].expected) {
		ck_assert_msg(mk_ip_parse(ips[_i].text, &ip) < 0, "'%s'", ips[_i].text);
		return;
	}
	ck_assert_msg(mk_ip_parse(ips[_i].text, &ip) == 0, "'%s'", ips[_i].text);
	ck_assert_str_eq(mk_ip_format(&ip, buf), ips[_i].expected);
}
END_TEST

static const struct {
	const char *text;
	const char *network, *mask; /* NULL: refused */
} cidrs[] = {
	{ "10.244.1.7/24", "10.244.1.0/24", "255.255.255.0" },
	{ "10.244.1.7/32", "10.244.1.7/32", "255.255.255.255" },
	{ "10.244.1.7/31", "10.244.1.6/31", "255.255.255.254" },
	{ "10.244.1.7/9", "10.128.0.0/9", "255.128.0.0" },
	{ "10.244.1.7/0", "0.0.0.0/0", "0.0.0.0" },
	{ "fd00:1:2:3::9/56", "fd00:1:2::/56", "ffff:ffff:ffff:ff00::" },
	{ "fd00::1/128", "fd00::1/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
	{ "10.244.1.0", NULL, NULL },
	{ "10.244.1.0/", NULL, NULL },
	{ "10.244.1.0/33", NULL, NULL },
	{ "10.244.1.0/024", NULL, NULL },
	{ "10.244.1.0/+24", NULL, NULL },
	{ "10.244.1.0/-1", NULL, NULL },
	{ "10.244.1.0/24 ", NULL, NULL },
	{ "10.244.1.0/24x", NULL, NULL },
	{ "10.244.1.0/99999999999999999999", NULL, NULL },
	{ "10.244/16", NULL, NULL },
	{ "/24", NULL, NULL },
	{ "fd00::/129", NULL, NULL },
	{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/8", NULL, NULL },
};

START_TEST(test_cidr_parse)
{
	char buf[MK_CIDR_STRLEN];
	struct mk_cidr cidr;
	struct mk_ip mask;

	if (!cidrs[_i].network) {
		ck_assert_msg(mk_cidr_parse(cidrs[_i].text, &cidr) < 0, "'%s'", cidrs[_i].text);
		return;
	}
	ck_assert_msg(mk_cidr_parse(cidrs[_i].text, &cidr) == 0, "'%s'", cidrs[_i].text);
	ck_assert_str_eq(mk_cidr_format(&cidr, buf), cidrs[_i].text);
	mask = mk_cidr_mask(&cidr);
	ck_assert_str_eq(mk_ip_format(&mask, buf), cidrs[_i].mask);
	cidr = mk_cidr_network(&cidr);
	ck_assert_str_eq(mk_cidr_format(&cidr, buf), cidrs[_i].network);
}
END_TEST

/* As parsed by Go and k8s.io/utils/net. */
static const struct {
	const char *text, *expected; /* NULL: refused */
} lenient_ips[] = {
	{ "10.244.1.1", "10.244.1.1" },
	{ "010.1.2.3", "10.1.2.3" },
	{ "000010.001.0002.03", "10.1.2.3" },
	{ "0.00.000.0000", "0.0.0.0" },
	{ "08.09.010.0255", "8.9.10.255" },
	{ "fd00::1", "fd00::1" },
	{ "fd00::00a", "fd00::a" },
	{ "fd00::010.1.2.3", "fd00::a01:203" },
	{ "::ffff:10.0.0.1", "10.0.0.1" },
	{ "::ffff:010.0.0.1", "10.0.0.1" },
	{ "0256.0.0.1", NULL },
	{ "010.1", NULL },
	{ "010.1.2.3.4", NULL },
	{ "010..2.3", NULL },
	{ " 010.1.2.3", NULL },
	{ "010.1.2.3/8", NULL },
	{ "0x0a.1.2.3", NULL },
	{ "fd00::00000a", NULL },
	{ "0", NULL },
	{ "", NULL },
};

START_TEST(test_ip_parse_lenient)
{
	char buf[MK_IP_STRLEN];
	struct mk_ip ip;
	int ret = mk_ip_parse_lenient(lenient_ips[_i].text, &ip);

	ck_assert_msg((ret == 0) == !!lenient_ips[_i].expected, "'%s': %d", lenient_ips[_i].text,
		      ret);
	if (ret == 0)
		ck_assert_str_eq(mk_ip_format(&ip, buf), lenient_ips[_i].expected);
}
END_TEST

static const struct {
	const char *text, *expected; /* NULL: refused */
} lenient_cidrs[] = {
	{ "010.0.0.0/8", "10.0.0.0/8" },
	{ "10.0.0.0/08", "10.0.0.0/8" },
	{ "010.000.001.0/00024", "10.0.1.0/24" },
	{ "0.0.0.0/00", "0.0.0.0/0" },
	{ "fd00::/064", "fd00::/64" },
	{ "::ffff:10.0.0.0/104", "10.0.0.0/8" },
	{ "::/0", "::/0" },
	{ "010.0.0.0/033", NULL },
	{ "010.0.0.0/", NULL },
	{ "010.0.0.0", NULL },
	{ "010.0.0.0/+8", NULL },
	{ "010.0.0/8", NULL },
	{ "", NULL },
};

START_TEST(test_cidr_parse_lenient)
{
	char buf[MK_CIDR_STRLEN];
	struct mk_cidr cidr;
	int ret = mk_cidr_parse_lenient(lenient_cidrs[_i].text, &cidr);

	ck_assert_msg((ret == 0) == !!lenient_cidrs[_i].expected, "'%s': %d",
		      lenient_cidrs[_i].text, ret);
	if (ret == 0)
		ck_assert_str_eq(mk_cidr_format(&cidr, buf), lenient_cidrs[_i].expected);
}
END_TEST

static const struct {
	const char *outer, *inner;
	bool covers, contains; /* the range; its address */
} pairs[] = {
	{ "10.244.0.0/16", "10.244.1.0/24", true, true },
	{ "10.244.0.0/16", "10.244.0.0/16", true, true },
	{ "10.244.9.9/16", "10.244.1.0/24", true, true },
	{ "10.244.1.0/24", "10.244.0.0/16", false, false },
	{ "10.244.1.0/24", "10.244.1.0/16", false, true },
	{ "10.244.0.0/16", "10.245.0.0/24", false, false },
	{ "0.0.0.0/0", "10.245.0.0/24", true, true },
	{ "0.0.0.0/0", "fd00::/64", false, false },
	{ "fd00::/48", "fd00::1:0:0:0/64", true, true },
	{ "fd00::/48", "fd01::/64", false, false },
	{ "::/0", "10.0.0.0/8", false, false },
};

START_TEST(test_ranges)
{
	struct mk_cidr outer = cidr_of(pairs[_i].outer), inner = cidr_of(pairs[_i].inner);

	ck_assert_msg(mk_cidr_covers(&outer, &inner) == pairs[_i].covers, "%s covers %s",
		      pairs[_i].outer, pairs[_i].inner);
	ck_assert_msg(mk_cidr_contains(&outer, &inner.ip) == pairs[_i].contains, "%s contains %s",
		      pairs[_i].outer, pairs[_i].inner);
}
END_TEST

START_TEST(test_size_and_nth)
{
	static const struct {
		const char *cidr;
		uint32_t size, offset;
		const char *nth;
	} rows[] = {
		{ "10.244.1.0/24", 256, 254, "10.244.1.254" },
		{ "10.244.1.9/24", 256, 1, "10.244.1.1" },
		{ "10.244.1.8/29", 8, 7, "10.244.1.15" },
		{ "10.0.0.1/32", 1, 0, "10.0.0.1" },
		{ "10.0.0.0/8", 1u << 24, 256, "10.0.1.0" },
		{ "0.0.0.0/0", UINT32_MAX, 1, "0.0.0.1" },
		{ "fd00:10:244:1::/64", UINT32_MAX, 1022, "fd00:10:244:1::3fe" },
		{ "fd00::ff01/120", 256, 254, "fd00::fffe" },
		{ "fd00::/97", 1u << 31, 65536, "fd00::1:0" },
		{ "fd00::/96", UINT32_MAX, UINT32_MAX, "fd00::ffff:ffff" },
		{ "fd00::8000:0/97", 1u << 31, 1u << 31, "fd00::1:0:0" },
		{ "fd00::1/128", 1, 0, "fd00::1" },
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(rows); i++) {
		struct mk_cidr cidr = cidr_of(rows[i].cidr);
		struct mk_ip nth = mk_cidr_nth(&cidr, rows[i].offset);
		char buf[MK_IP_STRLEN];

		ck_assert_uint_eq(mk_cidr_size(&cidr), rows[i].size);
		ck_assert_str_eq(mk_ip_format(&nth, buf), rows[i].nth);
	}
}
END_TEST

struct random_case {
	char cidr[64], network[64], mask[64], nth[64], other[64], mac[MK_MAC_STRLEN];
	uint32_t size, offset;
	int contains;
};

/* Compare addresses, not texts: Python writes ::ffff:fffe where inet_ntop() writes a quad. */
static void check_random(const struct random_case *row)
{
	struct mk_cidr cidr = cidr_of(row->cidr), network = mk_cidr_network(&cidr);
	struct mk_cidr expected = cidr_of(row->network);
	struct mk_ip mask = mk_cidr_mask(&cidr), nth = mk_cidr_nth(&cidr, row->offset);
	struct mk_ip their_mask = ip_of(row->mask), their_nth = ip_of(row->nth);
	struct mk_ip other = ip_of(row->other);
	struct mk_mac mac = mk_mac_of_ip(&nth);
	char text[MK_MAC_STRLEN];

	ck_assert_msg(mk_cidr_equal(&network, &expected), "%s: network", row->cidr);
	ck_assert_msg(mk_ip_equal(&mask, &their_mask), "%s: mask", row->cidr);
	ck_assert_msg(mk_cidr_size(&cidr) == row->size, "%s: size", row->cidr);
	ck_assert_msg(mk_ip_equal(&nth, &their_nth), "%s: %" PRIu32 "th", row->cidr, row->offset);
	ck_assert_str_eq(mk_mac_format(&mac, text), row->mac);
	ck_assert_msg(mk_cidr_contains(&cidr, &other) == row->contains, "%s contains %s", row->cidr,
		      row->other);
	ck_assert_msg(mk_cidr_contains(&cidr, &nth), "%s contains %s", row->cidr, row->nth);
}

/* Ranges of both families at random, against Python's ipaddress. */
START_TEST(test_random)
{
	FILE *cases = popen("test/unit/ip_cases.py 10000 1", "r");
	struct random_case row;
	int count = 0;

	ck_assert_ptr_nonnull(cases);
	for (; fscanf(cases, "%63s %63s %63s %" SCNu32 " %" SCNu32 " %63s %63s %d %17s", row.cidr,
		      row.network, row.mask, &row.size, &row.offset, row.nth, row.other,
		      &row.contains, row.mac) == 9;
	     count++)
		check_random(&row);
	ck_assert_int_eq(pclose(cases), 0);
	ck_assert_int_eq(count, 10000);
}
END_TEST

START_TEST(test_order)
{
	static const char *const sorted[] = { "0.0.0.0",  "9.255.255.255", "10.0.0.1",
					      "10.0.0.2", "200.0.0.1",	   "::",
					      "::1",	  "fd00::" };
	struct mk_ip a = { 0 }, b = { 0 };
	char buf[MK_IP_STRLEN];

	ck_assert_int_eq(mk_ip_compare(&a, &b), 0);
	ck_assert_str_eq(mk_ip_format(&a, buf), "none");
	for (size_t i = 0; i < MK_ARRAY_SIZE(sorted); i++) {
		ck_assert_int_eq(mk_ip_parse(sorted[i], &b), 0);
		ck_assert_msg(mk_ip_compare(&a, &b) < 0 && mk_ip_compare(&b, &a) > 0, "%s",
			      sorted[i]);
		ck_assert(mk_ip_equal(&b, &b) && !mk_ip_equal(&a, &b));
		a = b;
	}
}
END_TEST

/* The part of either family of sorted lists, also of empty ones and of lists of one family. */
START_TEST(test_of_family)
{
	struct mk_ip sorted[] = { ip_of("10.0.0.1"), ip_of("10.0.0.2"), ip_of("fd00::1") };
	struct mk_cidr ranges[] = { cidr_of("10.0.0.0/8"), cidr_of("fd00::/8"),
				    cidr_of("fe00::/8") };
	size_t count = 3;

	ck_assert_ptr_eq(mk_ips_of_family(sorted, &count, AF_INET), sorted);
	ck_assert_uint_eq(count, 2);
	ck_assert_ptr_eq(mk_ips_of_family(sorted, &count, AF_INET6), sorted + 2);
	ck_assert_uint_eq(count, 0);
	count = 3;
	ck_assert_ptr_eq(mk_ips_of_family(sorted, &count, AF_INET6), sorted + 2);
	ck_assert_uint_eq(count, 1);
	count = 3;
	ck_assert_ptr_eq(mk_cidrs_of_family(ranges, &count, AF_INET), ranges);
	ck_assert_uint_eq(count, 1);
	count = 3;
	ck_assert_ptr_eq(mk_cidrs_of_family(ranges, &count, AF_INET6), ranges + 1);
	ck_assert_uint_eq(count, 2);
	count = 0;
	ck_assert_ptr_null(mk_ips_of_family(NULL, &count, AF_INET6));
	ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(test_mac)
{
	const struct mk_mac mac = { .byte = { 0x02, 0x4d, 0x0a, 0xf4, 0x01, 0xfe } };
	char buf[MK_MAC_STRLEN];

	ck_assert_str_eq(mk_mac_format(&mac, buf), "02:4d:0a:f4:01:fe");
}
END_TEST

/* Locally administered, unicast, and different for different addresses. */
START_TEST(test_mac_of_ip)
{
	char buf[MK_MAC_STRLEN];
	struct mk_mac mac;
	struct mk_ip ip;

	ck_assert_int_eq(mk_ip_parse("10.244.1.254", &ip), 0);
	mac = mk_mac_of_ip(&ip);
	ck_assert_str_eq(mk_mac_format(&mac, buf), "02:4d:0a:f4:01:fe");
	ck_assert_int_eq(mac.byte[0] & 3, 2);
	ip = ip_of("fd00:10:244:1::3fe");
	mac = mk_mac_of_ip(&ip);
	ck_assert_str_eq(mk_mac_format(&mac, buf), "02:4d:00:00:03:fe");
}
END_TEST

static const struct {
	const char *text, *row;
	bool loopback;
} table_addresses[] = {
	{ "10.244.1.254", "::ffff:10.244.1.254", false },
	{ "255.255.255.0", "::ffff:255.255.255.0", false },
	{ "0.0.0.0", "::", false },
	{ "127.0.0.1", "::ffff:127.0.0.1", true },
	{ "127.0.0.53", "::ffff:127.0.0.53", true },
	{ "126.255.255.255", "::ffff:126.255.255.255", false },
	{ "fd00:10:244:1::3fe", "fd00:10:244:1::3fe", false },
	{ "::", "::", false },
	{ "::1", "::1", true },
	{ "::2", "::2", false },
	{ "1::1", "1::1", false },
	{ "::127.0.0.1", "::127.0.0.1", false },
};

START_TEST(test_table_address)
{
	const struct mk_ip ip = ip_of(table_addresses[_i].text);
	const struct mk_addr addr = mk_ip_to_addr(&ip);
	const struct mk_ip back = mk_ip_of_family(&addr, ip.family);
	struct in6_addr row;

	ck_assert_int_eq(inet_pton(AF_INET6, table_addresses[_i].row, &row), 1);
	ck_assert_mem_eq(&addr, &row, sizeof(row));
	ck_assert(mk_ip_equal(&ip, &back));
	ck_assert_int_eq(mk_addr_is_loopback(&addr), table_addresses[_i].loopback);
}
END_TEST

/* Without an address and without a family, all zeros are IPv4's. */
START_TEST(test_no_table_address)
{
	const struct mk_ip none = { 0 }, any = ip_of("0.0.0.0");
	const struct mk_addr zero = { 0 }, addr = mk_ip_to_addr(&none);
	const struct mk_ip back = mk_ip_from_addr(&addr);

	ck_assert(mk_addr_eq(&addr, &zero));
	ck_assert(mk_ip_equal(&back, &any));
}
END_TEST

/* An address's node and slot, and the size of a pod CIDR, from rows. */
static const struct {
	const char *addr, *cluster_mask, *pod_mask;
	unsigned host_bits, slots, node, slot;
} numbers[] = {
	{ "10.244.3.7", "255.255.0.0", "255.255.255.0", 8, 256, 3, 7 },
	{ "10.244.3.7", "255.192.0.0", "255.255.255.240", 4, 16, 0x34030, 7 },
	{ "10.3.1.2", "255.0.0.0", "255.255.0.0", 16, 65536, 3, 0x102 },
	{ "10.3.1.2", "255.0.0.0", "255.128.0.0", 23, 65536, 0, 0x102 },
	{ "fd00:0:0:3::7", "ffff:ffff:ffff::", "ffff:ffff:ffff:ffff::", 64, 1024, 3, 7 },
	{ "fd00::307", "ffff:ffff:ffff:ffff::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00", 8, 256,
	  3, 7 },
	{ "fd00:0:1:2300::407", "ffff:ffff::", "ffff:ffff:ffff:ff00::", 72, 1024, 0x123, 7 },
	{ "fd00::12:3456:0:7", "ffff:ffff:ffff:ffff::", "ffff:ffff:ffff:ffff:ffff:ff00::", 40, 1024,
	  0x1234, 7 },
	{ "fd00:1230::7", "ffff::", "ffff:fff0::", 100, 1024, 0x123, 7 },
};

START_TEST(test_numbers)
{
	const struct mk_addr addr = addr_of(numbers[_i].addr), mask = addr_of(numbers[_i].pod_mask);
	const struct mk_addr cluster_mask = addr_of(numbers[_i].cluster_mask);

	ck_assert_uint_eq(mk_pod_host_bits(&mask), numbers[_i].host_bits);
	ck_assert_uint_eq(mk_pod_slots(&mask), numbers[_i].slots);
	ck_assert_uint_eq(mk_node_number(&addr, &cluster_mask, numbers[_i].host_bits),
			  numbers[_i].node);
	ck_assert_uint_eq(mk_pod_slot(&addr, numbers[_i].slots), numbers[_i].slot);
}
END_TEST

static const struct {
	const char *text, *expected; /* NULL: refused */
} ports[] = {
	{ "0.0.0.0:10256", "0.0.0.0:10256" },
	{ "127.0.0.1:1", "127.0.0.1:1" },
	{ "192.0.2.1:65535", "192.0.2.1:65535" },
	{ "192.0.2.1", NULL },
	{ "192.0.2.1:", NULL },
	{ "192.0.2.1:0", NULL },
	{ "192.0.2.1:080", NULL },
	{ "192.0.2.1:65536", NULL },
	{ "192.0.2.1:99999999999999999999", NULL },
	{ "192.0.2.1:80 ", NULL },
	{ "192.0.2.1:+80", NULL },
	{ "192.0.2.1:http", NULL },
	{ ":80", NULL },
	{ "", NULL },
	{ "[::]:10256", "[::]:10256" },
	{ "[FD00:0::1]:65535", "[fd00::1]:65535" },
	{ "[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535",
	  "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535" },
	{ "::80", NULL },
	{ "fd00::1:80", NULL },
	{ "[192.0.2.1]:80", NULL },
	{ "[fd00::1:80", NULL },
	{ "fd00::1]:80", NULL },
	{ "[fd00::1]80", NULL },
	{ "[fd00::1]:", NULL },
	{ "[fd00::1%eth0]:80", NULL },
	{ "[]:80", NULL },
	{ "[:80", NULL },
	{ "]:80", NULL },
	{ "1234567890123456789012345678901234567890123456789012345678901234567890:80", NULL },
};

START_TEST(test_ip_port)
{
	char buf[MK_IP_PORT_STRLEN];
	struct mk_ip_port at;
	int ret = mk_ip_port_parse(ports[_i].text, &at);

	ck_assert_msg((ret == 0) == (ports[_i].expected != NULL), "'%s'", ports[_i].text);
	if (ports[_i].expected)
		ck_assert_str_eq(mk_ip_port_format(&at, buf), ports[_i].expected);
}
END_TEST

START_TEST(test_ip_port_sockaddr)
{
	struct mk_ip_port v4 = { ip_of("192.0.2.1"), 80 }, v6 = { ip_of("2001:db8::1"), 443 };
	struct sockaddr_storage to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&to;
	struct sockaddr_in *in = (struct sockaddr_in *)&to;

	ck_assert_uint_eq(mk_ip_port_sockaddr(&v4, &to), sizeof(*in));
	ck_assert(in->sin_family == AF_INET && in->sin_port == htons(80));
	ck_assert_uint_eq(in->sin_addr.s_addr, v4.ip.v4.s_addr);
	ck_assert_uint_eq(mk_ip_port_sockaddr(&v6, &to), sizeof(*in6));
	ck_assert(in6->sin6_family == AF_INET6 && in6->sin6_port == htons(443));
	ck_assert(IN6_ARE_ADDR_EQUAL(&in6->sin6_addr, &v6.ip.v6));
}
END_TEST

UNIT_SUITE("ip")
{
	TCase *tc = unit_case(suite, "ip", NULL, NULL);

	tcase_add_loop_test(tc, test_ip_parse, 0, MK_ARRAY_SIZE(ips));
	tcase_add_loop_test(tc, test_cidr_parse, 0, MK_ARRAY_SIZE(cidrs));
	tcase_add_loop_test(tc, test_ip_parse_lenient, 0, MK_ARRAY_SIZE(lenient_ips));
	tcase_add_loop_test(tc, test_cidr_parse_lenient, 0, MK_ARRAY_SIZE(lenient_cidrs));
	tcase_add_loop_test(tc, test_ranges, 0, MK_ARRAY_SIZE(pairs));
	tcase_add_test(tc, test_size_and_nth);
	tcase_add_test(tc, test_random);
	tcase_add_test(tc, test_order);
	tcase_add_test(tc, test_of_family);
	tcase_add_test(tc, test_mac);
	tcase_add_loop_test(tc, test_ip_port, 0, MK_ARRAY_SIZE(ports));
	tcase_add_test(tc, test_ip_port_sockaddr);
	tcase_add_test(tc, test_mac_of_ip);
	tcase_add_loop_test(tc, test_table_address, 0, MK_ARRAY_SIZE(table_addresses));
	tcase_add_test(tc, test_no_table_address);
	tcase_add_loop_test(tc, test_numbers, 0, MK_ARRAY_SIZE(numbers));
}

// SPDX-License-Identifier: Apache-2.0
/* The addresses of a node from its pod CIDR. */
#include <string.h>

#include "base/cleanup.h"
#include "config/addresses.h"
#include "unit/unit.h"

static const struct {
	const char *name, *cluster, *vtep, *pod;
	/* expected; error: a part of the message, then the rest is not checked */
	const char *error;
	const char *virtual_pod, *first, *last, *gateway, *gateway_mac, *vtep_ip, *vtep_mac;
} cases[] = {
	{ "the design's example", "10.244.0.0/16", "10.18.0.0/16", "10.244.1.0/24", NULL,
	  "10.244.1.1", "10.244.1.2", "10.244.1.253", "10.244.1.254", "02:4d:0a:f4:01:fe",
	  "10.18.0.1", "02:4d:0a:12:00:01" },
	{ "first node", "10.244.0.0/16", "10.18.0.0/16", "10.244.0.0/24", NULL, "10.244.0.1",
	  "10.244.0.2", "10.244.0.253", "10.244.0.254", "02:4d:0a:f4:00:fe", "10.18.0.0",
	  "02:4d:0a:12:00:00" },
	{ "node bits across a byte", "10.0.0.0/8", "172.16.0.0/12", "10.129.3.0/24", NULL,
	  "10.129.3.1", "10.129.3.2", "10.129.3.253", "10.129.3.254", "02:4d:0a:81:03:fe",
	  "172.16.129.3", "02:4d:ac:10:81:03" },
	{ "host bits are ignored", "10.244.7.7/16", "10.18.1.1/16", "10.244.1.77/24", NULL,
	  "10.244.1.1", "10.244.1.2", "10.244.1.253", "10.244.1.254", "02:4d:0a:f4:01:fe",
	  "10.18.0.1", "02:4d:0a:12:00:01" },
	{ "smallest pod CIDR", "10.244.0.0/24", "10.18.0.0/24", "10.244.0.248/29", NULL,
	  "10.244.0.249", "10.244.0.250", "10.244.0.253", "10.244.0.254", "02:4d:0a:f4:00:fe",
	  "10.18.0.31", "02:4d:0a:12:00:1f" },
	{ "large pod CIDR", "10.0.0.0/8", "10.250.0.0/24", "10.64.0.0/10", NULL, "10.64.0.1",
	  "10.64.0.2", "10.64.255.255", "10.127.255.254", "02:4d:0a:7f:ff:fe", "10.250.0.1",
	  "02:4d:0a:fa:00:01" },
	{ "a slot for each address", "10.0.0.0/8", "10.250.0.0/24", "10.64.0.0/16", NULL,
	  "10.64.0.1", "10.64.0.2", "10.64.255.253", "10.64.255.254", "02:4d:0a:40:ff:fe",
	  "10.250.0.64", "02:4d:0a:fa:00:40" },
	{ "cluster of one node", "10.244.1.0/24", "10.18.0.9/32", "10.244.1.0/24", NULL,
	  "10.244.1.1", "10.244.1.2", "10.244.1.253", "10.244.1.254", "02:4d:0a:f4:01:fe",
	  "10.18.0.9", "02:4d:0a:12:00:09" },
	{ "VTEP CIDR just large enough", "10.244.0.0/16", "10.18.4.0/24", "10.244.255.0/24", NULL,
	  "10.244.255.1", "10.244.255.2", "10.244.255.253", "10.244.255.254", "02:4d:0a:f4:ff:fe",
	  "10.18.4.255", "02:4d:0a:12:04:ff" },
	{ "pod CIDR outside", .cluster = "10.244.0.0/16", .vtep = "10.18.0.0/16",
	  .pod = "10.245.1.0/24", .error = "'10.245.1.0/24' is not inside" },
	{ "pod CIDR wider than the cluster", .cluster = "10.244.0.0/16", .vtep = "10.18.0.0/16",
	  .pod = "10.244.0.0/15", .error = "'10.244.0.0/15' is not inside" },
	{ "pod CIDR too small", .cluster = "10.244.0.0/16", .vtep = "10.18.0.0/16",
	  .pod = "10.244.1.0/30", .error = "too small for a pod: expected a prefix from 1 to 29" },
	{ "pod CIDR is everything", .cluster = "0.0.0.0/0", .vtep = "10.18.0.0/16",
	  .pod = "0.0.0.0/0", .error = "too large: expected a prefix from 1 to 29" },
	{ "VTEP CIDR too small", .cluster = "10.244.0.0/16", .vtep = "10.18.0.0/25",
	  .pod = "10.244.1.0/24", .error = "need a prefix of at most 24" },
	{ "VTEP CIDR of another family", .cluster = "fd00::/48", .vtep = "10.18.0.0/16",
	  .pod = "fd00::/64", .error = "expected ranges of one family" },
	{ "cluster CIDR of another family", .cluster = "10.244.0.0/16", .vtep = "fd4d::/64",
	  .pod = "fd00::/64", .error = "expected ranges of one family" },
	{ "the design's example, IPv6", "fd00:10:244::/48", "fd4d:4b00:12::/64",
	  "fd00:10:244:1::/64", NULL, "fd00:10:244:1::1", "fd00:10:244:1::2", "fd00:10:244:1::3fd",
	  "fd00:10:244:1::3fe", "02:4d:00:00:03:fe", "fd4d:4b00:12::1", "02:4d:00:00:00:01" },
	{ "IPv6, 256 addresses", "fd00:10:244::/112", "fd4d:4b00:12::/64", "fd00:10:244::500/120",
	  NULL, "fd00:10:244::501", "fd00:10:244::502", "fd00:10:244::5fd", "fd00:10:244::5fe",
	  "02:4d:00:00:05:fe", "fd4d:4b00:12::5", "02:4d:00:00:00:05" },
	{ "IPv6, host bits are ignored", "fd00:10:244::7/48", "fd4d:4b00:12::7/64",
	  "fd00:10:244:1::7/64", NULL, "fd00:10:244:1::1", "fd00:10:244:1::2", "fd00:10:244:1::3fd",
	  "fd00:10:244:1::3fe", "02:4d:00:00:03:fe", "fd4d:4b00:12::1", "02:4d:00:00:00:01" },
	{ "IPv6, smallest pod CIDR", "fd00::/112", "fd4d::/64", "fd00::ff8/125", NULL, "fd00::ff9",
	  "fd00::ffa", "fd00::ffd", "fd00::ffe", "02:4d:00:00:0f:fe", "fd4d::1ff",
	  "02:4d:00:00:01:ff" },
	{ "IPv6, largest pod CIDR", "2000::/8", "fd4d::/64", "2012::/16", NULL, "2012::1",
	  "2012::2", "2012::3fd", "2012::3fe", "02:4d:00:00:03:fe", "fd4d::12",
	  "02:4d:00:00:00:12" },
	{ "IPv6, 32 node's bits", "fd00:10::/32", "fd4d:4b00:12::/96", "fd00:10:ffff:ffff::/64",
	  NULL, "fd00:10:ffff:ffff::1", "fd00:10:ffff:ffff::2", "fd00:10:ffff:ffff::3fd",
	  "fd00:10:ffff:ffff::3fe", "02:4d:00:00:03:fe", "fd4d:4b00:12::ffff:ffff",
	  "02:4d:ff:ff:ff:ff" },
	{ "IPv6, pod CIDR too small", .cluster = "fd00::/112", .vtep = "fd4d::/64",
	  .pod = "fd00::8/126",
	  .error = "'fd00::8/126' is too small for a pod: expected a prefix from 16 to 125" },
	{ "IPv6, pod CIDR too large", .cluster = "fd00::/8", .vtep = "fd4d::/64",
	  .pod = "fd00::/15",
	  .error = "'fd00::/15' is too large: expected a prefix from 16 to 125" },
	{ "IPv6, cluster of one range", .cluster = "fd00::/64", .vtep = "fd4d::/64",
	  .pod = "fd00::/64",
	  .error =
		  "0 bits of pod CIDR 'fd00::/64' identify the node in cluster CIDR 'fd00::/64': expected from 1 to 32" },
	{ "IPv6, 33 node's bits", .cluster = "fd00::/31", .vtep = "fd4d::/64", .pod = "fd00::/64",
	  .error = "33 bits of pod CIDR" },
	{ "IPv6, VTEP CIDR too small", .cluster = "fd00::/48", .vtep = "fd4d::/113",
	  .pod = "fd00::/64", .error = "need a prefix of at most 112" },
	{ "IPv6, pod CIDR outside", .cluster = "fd00::/48", .vtep = "fd4d::/64",
	  .pod = "fd00:0:1::/64", .error = "'fd00:0:1::/64' is not inside" },
};

static const char *ip_text(const struct mk_ip *ip)
{
	static char buf[MK_IP_STRLEN];

	return mk_ip_format(ip, buf);
}

static const char *mac_text(const struct mk_mac *mac)
{
	static char buf[MK_MAC_STRLEN];

	return mk_mac_format(mac, buf);
}

START_TEST(test_compute)
{
	struct mk_cidr cluster, vtep, pod;
	struct mk_addresses out;
	struct mk_ip first, ip;
	struct mk_error err = { 0 };
	int ret;

	ck_assert_int_eq(mk_cidr_parse(cases[_i].cluster, &cluster), 0);
	ck_assert_int_eq(mk_cidr_parse(cases[_i].vtep, &vtep), 0);
	ck_assert_int_eq(mk_cidr_parse(cases[_i].pod, &pod), 0);
	ret = mk_addresses_compute(&cluster, &vtep, &pod, &out, &err);
	if (cases[_i].error) {
		ck_assert_msg(ret < 0, "%s", cases[_i].name);
		ck_assert_msg(strstr(err.text, cases[_i].error), "%s: %s", cases[_i].name,
			      err.text);
		return;
	}
	ck_assert_msg(ret == 0, "%s: %s", cases[_i].name, err.text);
	ck_assert_str_eq(ip_text(&out.virtual_pod), cases[_i].virtual_pod);
	ck_assert_str_eq(ip_text(&out.first_pod), cases[_i].first);
	ck_assert_str_eq(ip_text(&out.last_pod), cases[_i].last);
	first = out.first_pod;
	ip = mk_cidr_nth(&(struct mk_cidr){ first, (uint8_t)mk_ip_bits(first.family) },
			 out.pod_count - 1);
	ck_assert_str_eq(ip_text(&ip), cases[_i].last);
	ck_assert_str_eq(ip_text(&out.gateway), cases[_i].gateway);
	ck_assert_str_eq(mac_text(&out.gateway_mac), cases[_i].gateway_mac);
	ck_assert_str_eq(ip_text(&out.vtep), cases[_i].vtep_ip);
	ck_assert_str_eq(mac_text(&out.vtep_mac), cases[_i].vtep_mac);
}
END_TEST

static int compute6(unsigned cluster_bits, unsigned pod_bits, struct mk_addresses *out)
{
	struct mk_cidr vteps = cidr_of("fd4d:4b00:12::/64");
	struct mk_cidr cluster = { ip_of("fd00::"), (uint8_t)cluster_bits };
	struct mk_cidr pods = { ip_of("fd00::"), (uint8_t)pod_bits };
	struct mk_error err;

	return mk_addresses_compute(&cluster, &vteps, &pods, out, &err);
}

/* Each prefix of an IPv6 pod CIDR, with the fewest and the most node's bits. */
START_TEST(test_ipv6_prefix)
{
	unsigned bits = (unsigned)_i, most = bits > 32 ? bits - 32 : 0;
	bool valid = bits >= 16 && bits <= 125;
	uint32_t slots = bits <= 118 ? 1024 : 1u << (128 - bits);
	struct mk_cidr pods = { ip_of("fd00::"), (uint8_t)bits };
	struct mk_addresses out;
	struct mk_ip ip;

	ck_assert_msg((compute6(bits - 1, bits, &out) == 0) == valid, "/%u", bits);
	ck_assert_msg((compute6(most, bits, &out) == 0) == valid, "/%u", bits);
	ck_assert_int_lt(compute6(bits, bits, &out), 0);
	if (most > 0)
		ck_assert_int_lt(compute6(most - 1, bits, &out), 0);
	if (!valid)
		return;
	ck_assert_int_eq(compute6(bits - 1, bits, &out), 0);
	ip = mk_cidr_nth(&pods, slots - 2);
	ck_assert_msg(mk_ip_equal(&out.gateway, &ip), "/%u: %s", bits, ip_text(&out.gateway));
	ck_assert_uint_eq(out.pod_count, slots - 4);
	ip = mk_cidr_nth(&pods, slots - 3);
	ck_assert_msg(mk_ip_equal(&out.last_pod, &ip), "/%u: %s", bits, ip_text(&out.last_pod));
	ck_assert(mk_cidr_contains(&pods, &out.gateway));
}
END_TEST

static const struct {
	const char *pods;
	enum mk_choice setting;
	bool masqueraded;
	const char *reason;
} masquerades[] = {
	{ "fd00:10:244:1::/64", MK_AUTO, true, "auto, and the pod CIDR is not public" },
	{ "2a01:4f8:1:2::/64", MK_AUTO, false, "auto, and the pod CIDR is public" },
	{ "2000::/16", MK_AUTO, false, "public" },
	{ "3ffe::/64", MK_AUTO, false, "public" },
	{ "2001:db8:1::/64", MK_AUTO, true, "not public" },
	{ "2001:db7:ffff:ffff::/64", MK_AUTO, false, "public" },
	{ "2001:db9::/64", MK_AUTO, false, "public" },
	{ "3fff:fff:1::/64", MK_AUTO, true, "not public" },
	{ "3fff:1000::/64", MK_AUTO, false, "public" },
	{ "4000::/64", MK_AUTO, true, "not public" },
	{ "1fff::/64", MK_AUTO, true, "not public" },
	{ "64:ff9b::/96", MK_AUTO, true, "not public" },
	{ "2a01:4f8:1:2::/64", MK_TRUE, true, "masqueradeIPv6 is true" },
	{ "fd00:10:244:1::/64", MK_FALSE, false, "masqueradeIPv6 is false" },
};

START_TEST(test_masquerade)
{
	struct mk_cidr pods = cidr_of(masquerades[_i].pods);
	const char *reason;

	ck_assert_msg(mk_masquerade_ipv6(masquerades[_i].setting, &pods, &reason) ==
			      masquerades[_i].masqueraded,
		      "%s: %s", masquerades[_i].pods, reason);
	ck_assert_msg(strstr(reason, masquerades[_i].reason), "%s: %s", masquerades[_i].pods,
		      reason);
}
END_TEST

/* A device has one MAC address for both families. */
START_TEST(test_share_macs)
{
	struct mk_addresses ipv4 = { .gateway_mac = mac_of("02:4d:0a:f4:01:fe"),
				     .vtep_mac = mac_of("02:4d:0a:12:00:01") };
	struct mk_addresses ipv6 = { .gateway = ip_of("fd00:10:244:1::3fe") };

	mk_addresses_share_macs(&ipv6, &ipv4);
	ck_assert_mem_eq(&ipv6.gateway_mac, &ipv4.gateway_mac, sizeof(ipv4.gateway_mac));
	ck_assert_mem_eq(&ipv6.vtep_mac, &ipv4.vtep_mac, sizeof(ipv4.vtep_mac));
	ck_assert_int_eq(ipv6.gateway.family, AF_INET6);
}
END_TEST

UNIT_SUITE("addresses")
{
	TCase *tc = unit_case(suite, "compute", NULL, NULL);

	tcase_add_loop_test(tc, test_compute, 0, MK_ARRAY_SIZE(cases));
	tcase_add_loop_test(tc, test_ipv6_prefix, 1, 129);
	tcase_add_test(tc, test_share_macs);
	tcase_add_loop_test(tc, test_masquerade, 0, MK_ARRAY_SIZE(masquerades));
}

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
	  .pod = "10.244.1.0/30", .error = "too small for a pod" },
	{ "pod CIDR is everything", .cluster = "0.0.0.0/0", .vtep = "10.18.0.0/16",
	  .pod = "0.0.0.0/0", .error = "whole address space" },
	{ "VTEP CIDR too small", .cluster = "10.244.0.0/16", .vtep = "10.18.0.0/25",
	  .pod = "10.244.1.0/24", .error = "need a prefix of at most 24" },
	{ "IPv6", .cluster = "fd00::/48", .vtep = "10.18.0.0/16", .pod = "fd00::/64",
	  .error = "expected IPv4" },
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
	ck_assert_str_eq(ip_text(&out.gateway), cases[_i].gateway);
	ck_assert_str_eq(mac_text(&out.gateway_mac), cases[_i].gateway_mac);
	ck_assert_str_eq(ip_text(&out.vtep), cases[_i].vtep_ip);
	ck_assert_str_eq(mac_text(&out.vtep_mac), cases[_i].vtep_mac);
}
END_TEST

UNIT_SUITE("addresses")
{
	TCase *tc = unit_case(suite, "compute", NULL, NULL);

	tcase_add_loop_test(tc, test_compute, 0, MK_ARRAY_SIZE(cases));
}

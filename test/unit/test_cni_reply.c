// SPDX-License-Identifier: Apache-2.0
/* The plugin's output, byte by byte, and the names that it computes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/endpoint_internal.h"
#include "pod/request/reply.h"
#include "unit/unit.h"

static const char *text_of(json_object *json)
{
	static char text[2048];

	ck_assert_ptr_nonnull(json);
	snprintf(text, sizeof(text), "%s",
		 json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN |
							      JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(json);
	return text;
}

static const struct {
	enum mk_cni_version version;
	const char *dns, *json;
} results[] = {
	{ MK_CNI_0_3_1, NULL,
	  "{\"cniVersion\":\"0.3.1\",\"interfaces\":["
	  "{\"name\":\"mkabc\",\"mac\":\"02:4d:0a:f4:01:fe\"},"
	  "{\"name\":\"eth0\",\"mac\":\"02:4d:0a:f4:01:02\",\"sandbox\":\"/run/netns/x\"}],"
	  "\"ips\":[{\"version\":\"4\",\"address\":\"10.244.1.2/32\",\"gateway\":\"10.244.1.254\","
	  "\"interface\":1}],\"routes\":[{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.244.1.254\"}]}" },
	{ MK_CNI_0_4_0, "{\"nameservers\":[\"10.96.0.10\"]}",
	  "{\"cniVersion\":\"0.4.0\",\"interfaces\":["
	  "{\"name\":\"mkabc\",\"mac\":\"02:4d:0a:f4:01:fe\"},"
	  "{\"name\":\"eth0\",\"mac\":\"02:4d:0a:f4:01:02\",\"sandbox\":\"/run/netns/x\"}],"
	  "\"ips\":[{\"version\":\"4\",\"address\":\"10.244.1.2/32\",\"gateway\":\"10.244.1.254\","
	  "\"interface\":1}],\"routes\":[{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.244.1.254\"}],"
	  "\"dns\":{\"nameservers\":[\"10.96.0.10\"]}}" },
	{ MK_CNI_1_0_0, NULL,
	  "{\"cniVersion\":\"1.0.0\",\"interfaces\":["
	  "{\"name\":\"mkabc\",\"mac\":\"02:4d:0a:f4:01:fe\"},"
	  "{\"name\":\"eth0\",\"mac\":\"02:4d:0a:f4:01:02\",\"sandbox\":\"/run/netns/x\"}],"
	  "\"ips\":[{\"address\":\"10.244.1.2/32\",\"gateway\":\"10.244.1.254\",\"interface\":1}],"
	  "\"routes\":[{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.244.1.254\"}]}" },
	{ MK_CNI_1_1_0, NULL,
	  "{\"cniVersion\":\"1.1.0\",\"interfaces\":["
	  "{\"name\":\"mkabc\",\"mac\":\"02:4d:0a:f4:01:fe\",\"mtu\":65535},"
	  "{\"name\":\"eth0\",\"mac\":\"02:4d:0a:f4:01:02\",\"mtu\":65535,"
	  "\"sandbox\":\"/run/netns/x\"}],"
	  "\"ips\":[{\"address\":\"10.244.1.2/32\",\"gateway\":\"10.244.1.254\",\"interface\":1}],"
	  "\"routes\":[{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.244.1.254\",\"mtu\":1450}]}" },
};

START_TEST(test_result)
{
	struct mk_cni_result result = {
		.version = results[_i].version,
		.host_name = "mkabc",
		.ifname = "eth0",
		.netns = "/run/netns/x",
		.ip_count = 1,
		.device_mtu_bytes = 65535,
		.default_mtu_bytes = { 1450, 1450 },
	};

	ck_assert_int_eq(mk_ip_parse("10.244.1.2", &result.ips[0]), 0);
	ck_assert_int_eq(mk_ip_parse("10.244.1.254", &result.gateways[0]), 0);
	result.mac = mk_mac_of_ip(&result.ips[0]);
	result.host_mac = mk_mac_of_ip(&result.gateways[0]);
	if (results[_i].dns)
		result.dns = json_tokener_parse(results[_i].dns);
	ck_assert_str_eq(text_of(mk_cni_result_json(&result)), results[_i].json);
	json_object_put(result.dns); /* the result has its own reference */
}
END_TEST

/* Two families: the primary one first. */
static const struct {
	enum mk_cni_version version;
	const char *json;
} results_of_two[] = {
	{ MK_CNI_0_3_1,
	  "\"ips\":[{\"version\":\"6\",\"address\":\"fd00::2/128\",\"gateway\":\"fd00::3fe\","
	  "\"interface\":1},"
	  "{\"version\":\"4\",\"address\":\"10.244.1.2/32\",\"gateway\":\"10.244.1.254\","
	  "\"interface\":1}],\"routes\":[{\"dst\":\"::/0\",\"gw\":\"fd00::3fe\"},"
	  "{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.244.1.254\"}]}" },
	{ MK_CNI_1_1_0,
	  "\"ips\":[{\"address\":\"fd00::2/128\",\"gateway\":\"fd00::3fe\",\"interface\":1},"
	  "{\"address\":\"10.244.1.2/32\",\"gateway\":\"10.244.1.254\",\"interface\":1}],"
	  "\"routes\":[{\"dst\":\"::/0\",\"gw\":\"fd00::3fe\",\"mtu\":1450},"
	  "{\"dst\":\"0.0.0.0/0\",\"gw\":\"10.244.1.254\",\"mtu\":1450}]}" },
};

START_TEST(test_result_of_two)
{
	const struct mk_cni_result result = {
		.version = results_of_two[_i].version,
		.host_name = "mkabc",
		.ifname = "eth0",
		.netns = "/run/netns/x",
		.ips = { ip_of("fd00::2"), ip_of("10.244.1.2") },
		.gateways = { ip_of("fd00::3fe"), ip_of("10.244.1.254") },
		.ip_count = 2,
		.default_mtu_bytes = { 1450, 1450 },
	};
	const char *text = text_of(mk_cni_result_json(&result));

	ck_assert_msg(strstr(text, results_of_two[_i].json) != NULL, "%s", text);
}
END_TEST

START_TEST(test_loopback)
{
	ck_assert_str_eq(text_of(mk_cni_loopback_json(MK_CNI_0_3_1, "/run/netns/x", 65536, false)),
			 "{\"cniVersion\":\"0.3.1\",\"interfaces\":[{\"name\":\"lo\","
			 "\"mac\":\"00:00:00:00:00:00\",\"sandbox\":\"/run/netns/x\"}],"
			 "\"ips\":[{\"version\":\"4\",\"address\":\"127.0.0.1/8\","
			 "\"interface\":0}]}");
	ck_assert_str_eq(text_of(mk_cni_loopback_json(MK_CNI_1_1_0, "/run/netns/x", 65536, false)),
			 "{\"cniVersion\":\"1.1.0\",\"interfaces\":[{\"name\":\"lo\","
			 "\"mac\":\"00:00:00:00:00:00\",\"mtu\":65536,"
			 "\"sandbox\":\"/run/netns/x\"}],"
			 "\"ips\":[{\"address\":\"127.0.0.1/8\",\"interface\":0}]}");
	ck_assert_ptr_nonnull(
		strstr(text_of(mk_cni_loopback_json(MK_CNI_0_4_0, "/run/netns/x", 65536, true)),
		       "\"interface\":0},{\"version\":\"6\",\"address\":\"::1/128\","
		       "\"interface\":0}]"));
	ck_assert_ptr_nonnull(
		strstr(text_of(mk_cni_loopback_json(MK_CNI_1_0_0, "/run/netns/x", 65536, true)),
		       "\"interface\":0},{\"address\":\"::1/128\",\"interface\":0}]"));
}
END_TEST

START_TEST(test_failure)
{
	struct mk_cni_failure failure = { 0 };

	ck_assert_int_eq(mk_cni_failf(&failure, MK_CNI_TRY_AGAIN, "no free address",
				      "all %d are \"in use\"", 4),
			 -1);
	ck_assert_str_eq(text_of(mk_cni_failure_json(&failure, "0.4.0")),
			 "{\"cniVersion\":\"0.4.0\",\"code\":11,\"msg\":\"no free address\","
			 "\"details\":\"all 4 are \\\"in use\\\"\"}");
}
END_TEST

/* A lock was held for too long: the runtime tries again. STATUS has another code. */
START_TEST(test_limit_of_a_lock)
{
	struct mk_cni_failure failure = { .cause.code = ETIMEDOUT };

	mk_cni_fail(&failure, MK_CNI_IO_FAILURE, "cannot set up the pod's network");
	ck_assert_int_eq(failure.code, MK_CNI_TRY_AGAIN);
	mk_cni_fail(&failure, MK_CNI_SETUP_FAILED, "cannot set up the pod's network");
	ck_assert_int_eq(failure.code, MK_CNI_TRY_AGAIN);
	mk_cni_fail(&failure, MK_CNI_NOT_AVAILABLE, "monokube cannot serve ADD");
	ck_assert_int_eq(failure.code, MK_CNI_NOT_AVAILABLE);
}
END_TEST

START_TEST(test_versions)
{
	ck_assert_str_eq(text_of(mk_cni_versions_json("1.0.0")),
			 "{\"cniVersion\":\"1.0.0\",\"supportedVersions\":"
			 "[\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}");
}
END_TEST

static const struct {
	const char *prefix, *container_id, *ifname;
} owners[] = {
	{ "mk", "a", "eth0" },
	{ "mk", "a", "eth1" },
	{ "mk", "b", "eth0" },
	{ "m", "a", "eth0" },
	{ "mono", "a", "eth0" },
	{ "mk", "ab", "c" },
	{ "mk", "a", "bc" },
	{ "mk", "aeth0", "eth0" },
	{ "mk", "5f0c4e2d9a7b8c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d", "eth0" },
};

START_TEST(test_host_name)
{
	const char *prefix = owners[_i].prefix;
	char name[IFNAMSIZ], again[IFNAMSIZ], other[IFNAMSIZ];

	mk_cni_host_name(prefix, owners[_i].container_id, owners[_i].ifname, name);
	mk_cni_host_name(prefix, owners[_i].container_id, owners[_i].ifname, again);
	ck_assert_str_eq(name, again);
	ck_assert_uint_eq(strlen(name), strlen(prefix) + 11);
	ck_assert_msg(cni_is_host_name(prefix, name), "%s", name);
	for (int i = 0; i < (int)MK_ARRAY_SIZE(owners); i++) {
		mk_cni_host_name(owners[i].prefix, owners[i].container_id, owners[i].ifname, other);
		ck_assert_msg(i == _i || strcmp(name, other) != 0, "%d and %d: %s", i, _i, name);
	}
}
END_TEST

/* An upgraded plugin finds host ends by name: the computation must never change. */
START_TEST(test_host_name_is_stable)
{
	char name[IFNAMSIZ];

	mk_cni_host_name("mk", "c1.0.0", "eth0", name);
	ck_assert_str_eq(name, "mkveylxymq3bw");
}
END_TEST

static const char *const not_host_names[] = {
	"mkhost0",	"mkhost1",	  "mkvxlan",	   "eth0",	   "mk",
	"mkveylxymq3b", "mkveylxymq3bww", "mkVEYLXYMQ3BW", "mxveylxymq3bw"
};

START_TEST(test_not_host_name)
{
	ck_assert_msg(!cni_is_host_name("mk", not_host_names[_i]), "%s", not_host_names[_i]);
}
END_TEST

UNIT_SUITE("cni_reply")
{
	TCase *tc = unit_case(suite, "reply", NULL, NULL);

	tcase_add_loop_test(tc, test_result, 0, MK_ARRAY_SIZE(results));
	tcase_add_loop_test(tc, test_result_of_two, 0, MK_ARRAY_SIZE(results_of_two));
	tcase_add_test(tc, test_loopback);
	tcase_add_test(tc, test_failure);
	tcase_add_test(tc, test_limit_of_a_lock);
	tcase_add_test(tc, test_versions);
	tcase_add_loop_test(tc, test_host_name, 0, MK_ARRAY_SIZE(owners));
	tcase_add_test(tc, test_host_name_is_stable);
	tcase_add_loop_test(tc, test_not_host_name, 0, MK_ARRAY_SIZE(not_host_names));
}

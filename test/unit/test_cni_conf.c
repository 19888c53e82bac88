// SPDX-License-Identifier: Apache-2.0
/* The input from a runtime: environment and configuration, valid and invalid. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pod/request/conf.h"
#include "unit/unit.h"

#define NETWORK                                                            \
	"\"podCIDR\":\"10.244.1.0/24\",\"clusterCIDR\":\"10.244.0.0/16\"," \
	"\"vtepCIDR\":\"10.18.0.0/16\",\"mtu\":1450"
#define NETWORK_V6                                                                 \
	"\"podCIDR\":\"fd00:10:244:1::/64\",\"clusterCIDR\":\"fd00:10:244::/48\"," \
	"\"vtepCIDR\":\"fd4d:4b00:12::/64\",\"mtu\":1450"
#define LISTS(pods, clusters, vteps) \
	",\"podCIDRs\":[" pods "],\"clusterCIDRs\":[" clusters "],\"vtepCIDRs\":[" vteps "]"
#define POD4	     "\"10.244.1.0/24\""
#define POD6	     "\"fd00:10:244:1::/64\""
#define CL4	     "\"10.244.0.0/16\""
#define CL6	     "\"fd00:10:244::/48\""
#define VT4	     "\"10.18.0.0/16\""
#define VT6	     "\"fd4d:4b00:12::/64\""
#define CONF(fields) "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"type\":\"monokube\"," fields "}"

/* ---- environment ----------------------------------------------------------------------------- */

#define LONG_ID                                                                  \
	"a234567890123456789012345678901234567890123456789012345678901234567890" \
	"1234567890123456789012345678901234567890123456789012345678901234567890" \
	"1234567890123456789012345678901234567890123456789012345678901234567890" \
	"123456789012345678901234567890123456789012345678901234567890"

static const struct {
	const char *name, *container_id, *ifname, *netns;
	unsigned int needs;
	const char *text; /* in the error; NULL: none */
} environments[] = {
	{ "all", "c-1_2.3", "eth0", "/run/netns/x", MK_CNI_NEED_CONTAINER | MK_CNI_NEED_NETNS,
	  NULL },
	{ "DEL needs no netns", "c1", "eth0", NULL, MK_CNI_NEED_CONTAINER, NULL },
	{ "GC needs nothing", NULL, NULL, NULL, 0, NULL },
	{ "GC ignores what it does not need", "!", "a/b", "", 0, NULL },
	{ "no container", NULL, "eth0", "/x", MK_CNI_NEED_CONTAINER, "CNI_CONTAINERID is not set" },
	{ "empty container", "", "eth0", "/x", MK_CNI_NEED_CONTAINER,
	  "CNI_CONTAINERID is not set" },
	{ "container begins with a dot", ".c", "eth0", "/x", MK_CNI_NEED_CONTAINER, "'.c'" },
	{ "container with a slash", "c/../../x", "eth0", "/x", MK_CNI_NEED_CONTAINER,
	  "'c/../../x'" },
	{ "container with a newline", "c\nx", "eth0", "/x", MK_CNI_NEED_CONTAINER,
	  "CNI_CONTAINERID" },
	{ "container too long", LONG_ID, "eth0", "/x", MK_CNI_NEED_CONTAINER, "at most 255" },
	{ "no interface", "c", NULL, "/x", MK_CNI_NEED_CONTAINER, "CNI_IFNAME is not set" },
	{ "interface of 15", "c", "eth456789012345", "/x", MK_CNI_NEED_CONTAINER, NULL },
	{ "interface of 16", "c", "eth4567890123456", "/x", MK_CNI_NEED_CONTAINER, "CNI_IFNAME" },
	{ "interface .", "c", ".", "/x", MK_CNI_NEED_CONTAINER, "CNI_IFNAME='.'" },
	{ "interface ..", "c", "..", "/x", MK_CNI_NEED_CONTAINER, "CNI_IFNAME='..'" },
	{ "interface with slash", "c", "e/0", "/x", MK_CNI_NEED_CONTAINER, "'e/0'" },
	{ "interface with colon", "c", "e:0", "/x", MK_CNI_NEED_CONTAINER, "'e:0'" },
	{ "interface with blank", "c", "e 0", "/x", MK_CNI_NEED_CONTAINER, "'e 0'" },
	{ "interface with newline", "c", "e\n0", "/x", MK_CNI_NEED_CONTAINER, "CNI_IFNAME" },
	{ "no netns", "c", "eth0", NULL, MK_CNI_NEED_NETNS, "CNI_NETNS is not set" },
	{ "netns with newline", "c", "eth0", "/a\nb", MK_CNI_NEED_NETNS, "CNI_NETNS" },
};

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

START_TEST(test_environment)
{
	const char *row = environments[_i].name;
	struct mk_cni_failure failure = { 0 };
	struct mk_cni_args args;
	int ret;

	set("CNI_CONTAINERID", environments[_i].container_id);
	set("CNI_IFNAME", environments[_i].ifname);
	set("CNI_NETNS", environments[_i].netns);
	ret = mk_cni_args_read(&args, environments[_i].needs, &failure);
	if (!environments[_i].text) {
		ck_assert_msg(ret == 0, "%s: %s", row, failure.cause.text);
		ck_assert_ptr_nonnull(args.netns);
		return;
	}
	ck_assert_msg(ret < 0, "%s: accepted", row);
	ck_assert_msg(failure.code == MK_CNI_INVALID_ENVIRONMENT, "%s: code %d", row, failure.code);
	ck_assert_msg(strstr(failure.cause.text, environments[_i].text), "%s: %s", row,
		      failure.cause.text);
}
END_TEST

/* ---- configuration --------------------------------------------------------------------------- */

static const struct {
	const char *name, *json;
	int code; /* 0: good */
	const char *text; /* in the error */
} configurations[] = {
	{ "complete", CONF(NETWORK), 0, "" },
	{ "white space around", " \n" CONF(NETWORK) "\n\t ", 0, "" },
	{ "unknown fields are nobody's business", CONF(NETWORK ",\"runtimeConfig\":{\"x\":1}"), 0,
	  "" },
	{ "places", CONF(NETWORK ",\"stateDir\":\"/s\",\"bpfDir\":\"/b\",\"vethPrefix\":\"abcd\""),
	  0, "" },
	{ "nothing", "", MK_CNI_DECODING_FAILURE, "standard input" },
	{ "cut short", "{\"cniVersion\":", MK_CNI_DECODING_FAILURE, "byte" },
	{ "two objects", CONF(NETWORK) "{}", MK_CNI_DECODING_FAILURE, "byte" },
	{ "a list", "[1]", MK_CNI_DECODING_FAILURE, "not a JSON object" },
	{ "null", "null", MK_CNI_DECODING_FAILURE, "not a JSON object" },
	{ "single quotes", "{'cniVersion':'1.0.0'}", MK_CNI_DECODING_FAILURE, "byte" },
	{ "no version", "{" NETWORK "}", MK_CNI_INCOMPATIBLE_VERSION, "(none)" },
	{ "version from the future", "{\"cniVersion\":\"2.0.0\"," NETWORK "}",
	  MK_CNI_INCOMPATIBLE_VERSION, "'2.0.0'" },
	{ "version of the past", "{\"cniVersion\":\"0.2.0\"," NETWORK "}",
	  MK_CNI_INCOMPATIBLE_VERSION, "'0.2.0'" },
	{ "version that is a number", "{\"cniVersion\":1," NETWORK "}", MK_CNI_INCOMPATIBLE_VERSION,
	  "expected 0.3.1" },
	{ "no podCIDR", CONF("\"clusterCIDR\":\"10.244.0.0/16\""), MK_CNI_INVALID_CONFIG,
	  "podCIDR '(none)'" },
	{ "podCIDR that is none", CONF("\"podCIDR\":\"10.244.1.0/240\""), MK_CNI_INVALID_CONFIG,
	  "podCIDR '10.244.1.0/240'" },
	{ "podCIDR of another family", CONF(NETWORK ",\"podCIDR\":\"fd00::/64\""),
	  MK_CNI_INVALID_CONFIG, "fd00::/64" },
	{ "all of IPv6", CONF(NETWORK_V6), 0, NULL },
	{ "mtu too small for IPv6", CONF(NETWORK_V6 ",\"mtu\":1279"), MK_CNI_INVALID_CONFIG,
	  "'1279': expected a number from 1280" },
	{ "the smallest mtu for IPv6", CONF(NETWORK_V6 ",\"mtu\":1280"), 0, NULL },
	{ "an underlay of IPv6", CONF(NETWORK ",\"underlayFamily\":\"IPv6\""), 0, NULL },
	{ "an underlay of neither", CONF(NETWORK ",\"underlayFamily\":\"ipv6\""),
	  MK_CNI_INVALID_CONFIG, "'ipv6': expected IPv4 or IPv6" },
	{ "an underlay that is a number", CONF(NETWORK ",\"underlayFamily\":6"),
	  MK_CNI_INVALID_CONFIG, "underlayFamily '6'" },
	{ "ranges of two families", CONF(NETWORK LISTS(POD4 "," POD6, CL4 "," CL6, VT4 "," VT6)), 0,
	  NULL },
	{ "IPv6 first", CONF(NETWORK_V6 LISTS(POD6 "," POD4, CL6 "," CL4, VT6 "," VT4)), 0, NULL },
	{ "lists of one range", CONF(NETWORK LISTS(POD4, CL4, VT4)), 0, NULL },
	{ "a list of no range", CONF(NETWORK LISTS("", CL4, VT4)), MK_CNI_INVALID_CONFIG,
	  "podCIDRs '[]': expected a list of one network" },
	{ "a list of three ranges", CONF(NETWORK LISTS(POD4 "," POD6 "," POD6, CL4, VT4)),
	  MK_CNI_INVALID_CONFIG, "podCIDRs" },
	{ "a list that is a text", CONF(NETWORK ",\"clusterCIDRs\":\"10.244.0.0/16\""),
	  MK_CNI_INVALID_CONFIG, "clusterCIDRs '\"10.244.0.0/16\"': expected a list" },
	{ "a list that is null", CONF(NETWORK ",\"vtepCIDRs\":null"), MK_CNI_INVALID_CONFIG,
	  "vtepCIDRs 'null'" },
	{ "a list of numbers", CONF(NETWORK LISTS("4,6", CL4, VT4)), MK_CNI_INVALID_CONFIG,
	  "podCIDRs" },
	{ "a list with a senseless range",
	  CONF(NETWORK LISTS(POD4 ",\"fd00::/640\"", CL4 "," CL6, VT4 "," VT6)),
	  MK_CNI_INVALID_CONFIG, "fd00::/640" },
	{ "lists of different lengths", CONF(NETWORK LISTS(POD4 "," POD6, CL4 "," CL6, VT4)),
	  MK_CNI_INVALID_CONFIG, "vtepCIDRs 1 ranges" },
	{ "lists in different orders", CONF(NETWORK LISTS(POD4 "," POD6, CL6 "," CL4, VT4 "," VT6)),
	  MK_CNI_INVALID_CONFIG, "expected ranges of one family" },
	{ "one family twice", CONF(NETWORK LISTS(POD4 "," POD4, CL4 "," CL4, VT4 "," VT4)),
	  MK_CNI_INVALID_CONFIG, "different families" },
	{ "mtu too small for the second family",
	  CONF(NETWORK LISTS(POD4 "," POD6, CL4 "," CL6, VT4 "," VT6) ",\"mtu\":1279"),
	  MK_CNI_INVALID_CONFIG, "'1279': expected a number from 1280" },
	{ "podCIDR that is a list", CONF("\"podCIDR\":[\"10.244.1.0/24\"]"), MK_CNI_INVALID_CONFIG,
	  "podCIDR" },
	{ "no clusterCIDR", CONF("\"podCIDR\":\"10.244.1.0/24\""), MK_CNI_INVALID_CONFIG,
	  "clusterCIDR" },
	{ "no vtepCIDR", CONF("\"podCIDR\":\"10.244.1.0/24\",\"clusterCIDR\":\"10.244.0.0/16\""),
	  MK_CNI_INVALID_CONFIG, "vtepCIDR" },
	{ "podCIDR outside the cluster",
	  CONF("\"podCIDR\":\"10.99.1.0/24\",\"clusterCIDR\":\"10.244.0.0/16\","
	       "\"vtepCIDR\":\"10.18.0.0/16\",\"mtu\":1450"),
	  MK_CNI_INVALID_CONFIG, "10.99.1.0/24" },
	{ "no mtu",
	  CONF("\"podCIDR\":\"10.244.1.0/24\",\"clusterCIDR\":\"10.244.0.0/16\","
	       "\"vtepCIDR\":\"10.18.0.0/16\""),
	  MK_CNI_INVALID_CONFIG, "mtu '(none)'" },
	{ "mtu that is a word", CONF(NETWORK ",\"mtu\":\"big\""), MK_CNI_INVALID_CONFIG,
	  "mtu 'big'" },
	{ "mtu too small", CONF(NETWORK ",\"mtu\":575"), MK_CNI_INVALID_CONFIG, "'575'" },
	{ "mtu too large", CONF(NETWORK ",\"mtu\":65536"), MK_CNI_INVALID_CONFIG, "'65536'" },
	{ "mtu that wraps", CONF(NETWORK ",\"mtu\":4294968746"), MK_CNI_INVALID_CONFIG,
	  "'4294968746'" },
	{ "relative stateDir", CONF(NETWORK ",\"stateDir\":\"var\""), MK_CNI_INVALID_CONFIG,
	  "'var'" },
	{ "stateDir that is a number", CONF(NETWORK ",\"stateDir\":7"), MK_CNI_INVALID_CONFIG,
	  "'7'" },
	{ "relative bpfDir", CONF(NETWORK ",\"bpfDir\":\"\""), MK_CNI_INVALID_CONFIG, "bpfDir" },
	{ "vethPrefix too long", CONF(NETWORK ",\"vethPrefix\":\"abcde\""), MK_CNI_INVALID_CONFIG,
	  "'abcde'" },
	{ "vethPrefix with a slash", CONF(NETWORK ",\"vethPrefix\":\"a/\""), MK_CNI_INVALID_CONFIG,
	  "'a/'" },
	{ "empty vethPrefix", CONF(NETWORK ",\"vethPrefix\":\"\""), MK_CNI_INVALID_CONFIG,
	  "vethPrefix" },
	{ "a domain that is a list", CONF(NETWORK ",\"dns\":{\"domain\":[\"x\"]}"),
	  MK_CNI_INVALID_CONFIG, "dns.domain" },
	{ "a name server that is no list",
	  CONF(NETWORK ",\"dns\":{\"nameservers\":\"10.96.0.10\"}"), MK_CNI_INVALID_CONFIG,
	  "dns.nameservers" },
	{ "DNS options in numbers, capitals", CONF(NETWORK ",\"DNS\":{\"Options\":[5]}"),
	  MK_CNI_INVALID_CONFIG, "dns.options" },
	{ "dns that is a word", CONF(NETWORK ",\"dns\":\"8.8.8.8\""), MK_CNI_INVALID_CONFIG,
	  "dns" },
	{ "ipam", CONF(NETWORK ",\"ipam\":{\"type\":\"host-local\"}"), MK_CNI_UNSUPPORTED_FIELD,
	  "ipam" },
};

START_TEST(test_configuration)
{
	const char *row = configurations[_i].name, *json = configurations[_i].json;
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };
	int ret = mk_cni_conf_parse(&conf, json, strlen(json), &failure);

	if (ret == 0)
		ret = mk_cni_conf_read_network(&conf, &failure);
	if (!configurations[_i].code) {
		ck_assert_msg(ret == 0, "%s: %s", row, failure.cause.text);
		return;
	}
	ck_assert_msg(ret < 0, "%s: accepted", row);
	ck_assert_msg((int)failure.code == configurations[_i].code, "%s: code %d, %s", row,
		      failure.code, failure.cause.text);
	ck_assert_msg(strstr(failure.cause.text, configurations[_i].text), "%s: %s", row,
		      failure.cause.text);
}
END_TEST

START_TEST(test_values)
{
	static const char json[] = CONF(NETWORK ",\"stateDir\":\"/s\",\"dns\":{\"domain\":\"x\"}");
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };
	char text[MK_IP_STRLEN];

	ck_assert_int_eq(mk_cni_conf_parse(&conf, json, sizeof(json) - 1, &failure), 0);
	ck_assert_int_eq(mk_cni_conf_read_network(&conf, &failure), 0);
	ck_assert_int_eq(conf.version, MK_CNI_1_0_0);
	ck_assert_str_eq(conf.state_dir, "/s");
	ck_assert_str_eq(conf.bpf_dir, "/sys/fs/bpf/monokube"); /* the default */
	ck_assert_str_eq(conf.veth_prefix, "mk");
	ck_assert_uint_eq(conf.mtu_bytes, 1450);
	ck_assert_str_eq(mk_ip_format(&conf.networks[0].addresses.gateway, text), "10.244.1.254");
	ck_assert_str_eq(mk_cni_string(conf.dns, "domain"), "x");
	ck_assert_ptr_null(mk_cni_conf_prev_result(&conf));
}
END_TEST

/* Both families' addresses have the MAC addresses of the primary one. */
START_TEST(test_values_of_two)
{
	static const char *const json[] = {
		CONF(NETWORK LISTS(POD4 "," POD6, CL4 "," CL6, VT4 "," VT6)),
		CONF(NETWORK_V6 LISTS(POD6 "," POD4, CL6 "," CL4, VT6 "," VT4)),
	};
	static const char *const gateways[] = { "10.244.1.254", "fd00:10:244:1::3fe" };
	static const char *const macs[] = { "02:4d:0a:f4:01:fe", "02:4d:00:00:03:fe" };
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };
	char text[MK_IP_STRLEN];

	ck_assert_int_eq(mk_cni_conf_parse(&conf, json[_i], strlen(json[_i]), &failure), 0);
	ck_assert_int_eq(mk_cni_conf_read_network(&conf, &failure), 0);
	ck_assert_uint_eq(conf.network_count, 2);
	for (int i = 0; i < 2; i++) {
		const struct mk_addresses *addresses = &conf.networks[i].addresses;

		ck_assert_str_eq(mk_ip_format(&addresses->gateway, text), gateways[i ^ _i]);
		ck_assert_str_eq(mk_mac_format(&addresses->gateway_mac, text), macs[_i]);
	}
}
END_TEST

/* DEL must work with an incomplete configuration. */
#define RUNTIME(fields) CONF("\"runtimeConfig\":{" fields "}")

static const struct {
	const char *name, *args, *conf;
	const char *text; /* in the error; NULL: none */
} addresses[] = {
	{ "nothing", NULL, CONF("\"x\":1"), NULL },
	{ "what the kubelet sends", "IgnoreUnknown=1;K8S_POD_NAMESPACE=n;K8S_POD_NAME=p",
	  RUNTIME("\"portMappings\":[]"), NULL },
	{ "an IP, as of podman", "IgnoreUnknown=1;K8S_POD_NAME=b;IP=10.244.2.9", CONF("\"x\":1"),
	  "CNI_ARGS IP '10.244.2.9': monokube assigns the addresses itself" },
	{ "a MAC, as of podman", "MAC=02:00:00:00:00:77;IgnoreUnknown=1", CONF("\"x\":1"),
	  "CNI_ARGS MAC '02:00:00:00:00:77'" },
	{ "no value", "IP=;MAC=", CONF("\"x\":1"), NULL },
	{ "other names", "HOST_IP=10.0.0.1;IPS=10.0.0.1", CONF("\"x\":1"), NULL },
	{ "capability ips", NULL, RUNTIME("\"ips\":[\"10.244.2.9/24\"]"),
	  "runtimeConfig ips '[\"10.244.2.9/24\"]'" },
	{ "capability mac", NULL, RUNTIME("\"mac\":\"02:00:00:00:00:77\""),
	  "runtimeConfig mac '\"02:00:00:00:00:77\"'" },
	{ "empty capabilities", NULL, RUNTIME("\"ips\":[],\"mac\":\"\""), NULL },
	{ "capabilities that are null", NULL, RUNTIME("\"ips\":null,\"mac\":null"), NULL },
	{ "capability of another kind", NULL, RUNTIME("\"ips\":{}"), "runtimeConfig ips '{}'" },
};

START_TEST(test_addresses)
{
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };
	const char *text = addresses[_i].conf;
	int ret;

	ck_assert_int_eq(mk_cni_conf_parse(&conf, text, strlen(text), &failure), 0);
	ret = mk_cni_conf_no_address_wanted(&conf, addresses[_i].args, &failure);
	ck_assert_msg((ret < 0) == (addresses[_i].text != NULL), "%s: %d, %s", addresses[_i].name,
		      ret, failure.cause.text);
	ck_assert_msg(!addresses[_i].text || (failure.code == MK_CNI_UNSUPPORTED_FIELD &&
					      strstr(failure.cause.text, addresses[_i].text)),
		      "%s: %s", addresses[_i].name, failure.cause.text);
}
END_TEST

START_TEST(test_del_needs_little)
{
	static const char json[] = "{\"cniVersion\":\"0.3.1\",\"mtu\":\"big\",\"ipam\":{}}";
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };

	ck_assert_int_eq(mk_cni_conf_parse(&conf, json, sizeof(json) - 1, &failure), 0);
	ck_assert_str_eq(conf.state_dir, "/var/lib/monokube");
}
END_TEST

static const struct {
	const char *name, *field;
	int count; /* -1: refused */
} lists[] = {
	{ "two",
	  "\"cni.dev/valid-attachments\":[{\"containerID\":\"a\",\"ifname\":\"eth0\"},"
	  "{\"containerID\":\"b\",\"ifname\":\"eth0\"}]",
	  2 },
	{ "empty", "\"cni.dev/valid-attachments\":[]", 0 },
	{ "null is empty, as libcni writes it", "\"cni.dev/valid-attachments\":null", 0 },
	{ "absent is not empty", "\"x\":1", -1 },
	{ "an object", "\"cni.dev/valid-attachments\":{}", -1 },
	{ "an entry without interface", "\"cni.dev/valid-attachments\":[{\"containerID\":\"a\"}]",
	  -1 },
	{ "an entry that is a word", "\"cni.dev/valid-attachments\":[\"a\"]", -1 },
};

START_TEST(test_attachments)
{
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_failure failure = { 0 };
	json_object *list;
	char json[512];
	int ret;

	snprintf(json, sizeof(json), CONF("%s"), lists[_i].field);
	ck_assert_int_eq(mk_cni_conf_parse(&conf, json, strlen(json), &failure), 0);
	ret = mk_cni_conf_attachments(&conf, &list, &failure);
	if (lists[_i].count < 0) {
		ck_assert_msg(ret < 0, "%s: accepted", lists[_i].name);
		ck_assert_int_eq(failure.code, MK_CNI_INVALID_CONFIG);
		return;
	}
	ck_assert_msg(ret == 0, "%s: %s", lists[_i].name, failure.cause.text);
	ck_assert_int_eq(list ? (int)json_object_array_length(list) : 0, lists[_i].count);
}
END_TEST

UNIT_SUITE("cni_conf")
{
	TCase *tc = unit_case(suite, "conf", NULL, NULL);

	tcase_add_loop_test(tc, test_environment, 0, MK_ARRAY_SIZE(environments));
	tcase_add_loop_test(tc, test_configuration, 0, MK_ARRAY_SIZE(configurations));
	tcase_add_loop_test(tc, test_addresses, 0, MK_ARRAY_SIZE(addresses));
	tcase_add_test(tc, test_values);
	tcase_add_loop_test(tc, test_values_of_two, 0, 2);
	tcase_add_test(tc, test_del_needs_little);
	tcase_add_loop_test(tc, test_attachments, 0, MK_ARRAY_SIZE(lists));
}

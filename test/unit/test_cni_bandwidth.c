// SPDX-License-Identifier: Apache-2.0
/* The capability bandwidth: valid configurations, and their effect in ADD, CHECK and the agent. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/netlink/request.h"
#include "datapath/pods/pods.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/restore.h"
#include "unit/cni_node.h"

static struct mk_error err;

#define RUNTIME(members) ",\"runtimeConfig\":{\"bandwidth\":{" members "}}"
#define NONE		 "none none"

static const struct {
	const char *name, *fields;
	const char *text; /* rate, bucket and queue of both directions, or the error's text */
	bool fails;
} configs[] = {
	{ "nothing", "", NONE, false },
	{ "other capabilities", ",\"runtimeConfig\":{\"dns\":{}}", NONE, false },
	{ "null", ",\"runtimeConfig\":{\"bandwidth\":null}", NONE, false },
	{ "no member at all", RUNTIME(""), NONE, false },
	{ "all of it is 0",
	  RUNTIME("\"ingressRate\":0,\"ingressBurst\":0,\"egressRate\":0,\"egressBurst\":0"), NONE,
	  false },
	{ "received alone", RUNTIME("\"ingressRate\":80000000,\"ingressBurst\":8000000"),
	  "10000000/1000000/1250000 none", false },
	{ "sent alone", RUNTIME("\"egressRate\":80000000,\"egressBurst\":8000000"),
	  "none 10000000/1000000/1250000", false },
	{ "Go's field names, as containerd sends them: no burst is known",
	  RUNTIME("\"IngressRate\":10000000,\"IngressBurst\":4294967295,"
		  "\"EgressRate\":20000000,\"EgressBurst\":4294967295"),
	  "1250000/125000/156250 2500000/250000/312500", false },
	{ "dockershim's burst, CRI-O's burst",
	  RUNTIME("\"ingressRate\":10000000,\"ingressBurst\":2147483647,"
		  "\"egressRate\":20000000,\"egressBurst\":34359738360"),
	  "1250000/125000/156250 2500000/250000/312500", false },
	{ "the largest burst that is one",
	  RUNTIME("\"ingressRate\":8000,\"ingressBurst\":2147483646"),
	  "1000/268435455/268435480 none", false },
	{ "a bucket that the largest packet fits into",
	  RUNTIME("\"ingressRate\":8000,\"ingressBurst\":1"), "1000/65549/65574 none", false },
	{ "100 Gbit/s", RUNTIME("\"ingressRate\":100000000000,\"ingressBurst\":4294967295"),
	  "12500000000/1250000000/1562500000 none", false },
	{ "the largest number",
	  RUNTIME("\"ingressRate\":18446744073709551615,\"ingressBurst\":18446744073709551615"),
	  "2305843009213693951/4294967295/4294967295 none", false },
	{ "the configuration's own members", ",\"ingressRate\":80000000,\"ingressBurst\":8000000",
	  "10000000/1000000/1250000 none", false },
	{ "... come before the runtime's",
	  ",\"egressRate\":80000000,\"egressBurst\":8000000" RUNTIME(
		  "\"ingressRate\":8000,\"ingressBurst\":8000"),
	  "none 10000000/1000000/1250000", false },
	{ "a rate without burst", RUNTIME("\"ingressRate\":8000"),
	  "runtimeConfig.bandwidth.ingressRate is 8000 without ingressBurst", true },
	{ "a burst without rate", RUNTIME("\"egressBurst\":9000"),
	  "runtimeConfig.bandwidth.egressBurst is 9000 without egressRate", true },
	{ "a rate without burst in the configuration", ",\"egressRate\":8000",
	  "egressRate is 8000 without egressBurst", true },
	{ "less than a byte a second", RUNTIME("\"ingressRate\":7,\"ingressBurst\":8000"),
	  "runtimeConfig.bandwidth.ingressRate is 7: expected at least 8 bits a second", true },
	{ "below 0", RUNTIME("\"ingressRate\":-8000,\"ingressBurst\":8000"),
	  "runtimeConfig.bandwidth.ingressRate is -8000: expected a number of bits from 0", true },
	{ "a burst below 0", RUNTIME("\"ingressRate\":8000,\"ingressBurst\":-1"),
	  "runtimeConfig.bandwidth.ingressBurst is -1: expected", true },
	{ "in words", RUNTIME("\"ingressRate\":\"10M\",\"ingressBurst\":8000"),
	  "ingressRate is \"10M\": expected a number", true },
	{ "no whole number", RUNTIME("\"ingressRate\":8000.5,\"ingressBurst\":8000"),
	  "ingressRate is 8000.5: expected a number", true },
	{ "no object", ",\"runtimeConfig\":{\"bandwidth\":10000000}",
	  "runtimeConfig.bandwidth is 10000000: expected an object", true },
	{ "no member that is known", RUNTIME("\"ingress\":8000"),
	  "is {\"ingress\":8000}: expected ingressRate, ingressBurst", true },
};

static void tell_limit(const struct mk_nl_tbf *tbf, char *text, size_t size)
{
	if (tbf->rate_bytes)
		snprintf(text, size, "%llu/%u/%u", (unsigned long long)tbf->rate_bytes,
			 tbf->burst_bytes, tbf->limit_bytes);
	else
		snprintf(text, size, "none");
}

static void tell(const struct mk_cni_bandwidth *bandwidth, char text[160])
{
	char ingress[64], egress[64];

	tell_limit(&bandwidth->ingress, ingress, sizeof(ingress));
	tell_limit(&bandwidth->egress, egress, sizeof(egress));
	snprintf(text, 160, "%s %s", ingress, egress);
}

START_TEST(test_config)
{
	cleanup_cni_conf struct mk_cni_conf conf = { 0 };
	struct mk_cni_bandwidth bandwidth;
	struct mk_cni_failure failure = { 0 };
	const char *row = configs[_i].name;
	char input[1024], text[160];
	int ret;

	snprintf(input, sizeof(input), "{\"cniVersion\":\"1.0.0\",\"name\":\"n\"%s}",
		 configs[_i].fields);
	ck_assert_int_eq(mk_cni_conf_parse(&conf, input, strlen(input), &failure), 0);
	ret = mk_cni_bandwidth_read(&bandwidth, &conf, &failure);
	if (configs[_i].fails) {
		ck_assert_msg(ret < 0 && failure.code == MK_CNI_INVALID_CONFIG, "%s: accepted",
			      row);
		ck_assert_msg(strstr(failure.cause.text, configs[_i].text) != NULL, "%s: %s", row,
			      failure.cause.text);
		return;
	}
	ck_assert_msg(ret == 0, "%s: %s", row, failure.cause.text);
	tell(&bandwidth, text);
	ck_assert_msg(strcmp(text, configs[_i].text) == 0, "%s: '%s'", row, text);
}
END_TEST

START_TEST(test_kernel_without_qdisc)
{
	struct mk_error cause = { 0 };

	ck_assert_int_eq(nl_qdisc_failed(-ENOENT, MK_NL_TBF, 7, &cause), -ENOENT);
	ck_assert_msg(strstr(cause.text, "no qdisc 'tbf'") && strstr(cause.text, "sch_tbf") &&
			      strstr(cause.text, "interface number 7"),
		      "%s", cause.text);
}
END_TEST

/* ---- verbs ----------------------------------------------------------------------------------- */

#define LIMITS                                                      \
	RUNTIME("\"IngressRate\":10000000,\"IngressBurst\":800000," \
		"\"EgressRate\":20000000,\"EgressBurst\":800000")

static const char *host_device(const char *container_id)
{
	static char device[IFNAMSIZ];

	mk_cni_host_name("mk", container_id, "eth0", device);
	setenv("D", device, 1);
	return device;
}

static void ck_shell(const char *command)
{
	ck_assert_msg(system(command) == 0, "%s", command);
}

static struct mk_pod entry_of(const char *address)
{
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	struct mk_pod pod = { 0 };
	struct mk_ip ip;

	ck_assert_msg(pods != NULL, "%s", mk_error_text(&err));
	ck_assert_int_eq(mk_ip_parse(address, &ip), 0);
	ck_ok(mk_pods_get(pods, &ip, &pod, &err));
	return pod;
}

static const char *add_limited(const char *name, const char *limits)
{
	static char fields[4200];

	ck_assert_msg(call("ADD", name, netns_path(name), "1.0.0", limits) == 0, "%s", answer);
	snprintf(fields, sizeof(fields), "%s,\"prevResult\":%s", limits, answer);
	return fields;
}

START_TEST(test_add)
{
	char prev[4200];

	new_netns("a");
	new_netns("b");
	snprintf(prev, sizeof(prev), "%s", add_limited("a", LIMITS));
	host_device("a");
	ck_shell("tc qdisc show dev $D root | grep -q 'tbf .*rate 10Mbit burst 100000b'");
	inside("a", "tc qdisc show dev eth0 root | grep -q 'tbf .*rate 20Mbit burst 100000b'");
	ck_assert_uint_eq(entry_of("10.244.1.2").shaped, 1);
	ck_assert_uint_ne(entry_of("10.244.1.2").netns_ref, 0);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", prev) == 0, "%s", answer);
	add("b");
	host_device("b");
	ck_shell("tc qdisc show dev $D root | grep -q noqueue");
	ck_assert_uint_eq(entry_of("10.244.1.3").shaped, 0);
	ck_assert_int_eq(call("DEL", "b", "", "1.0.0", ""), 0);
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", prev), 0);
	ck_exist(0);
}
END_TEST

/* Only egress has a limit: packets to the pod keep the short path. */
START_TEST(test_add_egress)
{
	new_netns("a");
	add_limited("a", RUNTIME("\"EgressRate\":20000000,\"EgressBurst\":800000"));
	ck_assert_uint_eq(entry_of("10.244.1.2").shaped, 0);
	inside("a", "tc qdisc show dev eth0 root | grep -q 'tbf .*rate 20Mbit'");
}
END_TEST

START_TEST(test_add_invalid)
{
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", RUNTIME("\"ingressRate\":8000")),
		 MK_CNI_INVALID_CONFIG, "without ingressBurst");
	ck_exist(0);
	inside("a", "sh -c '! ip link show eth0 2>/dev/null'");
}
END_TEST

static const struct {
	const char *name;
	const char *pod, *host; /* shell commands in the pod, on the node; NULL: none */
	const char *text; /* expected text of CHECK */
} losses[] = {
	{ "the host's qdisc", NULL, "tc qdisc del dev $D root", "has no qdisc 'tbf'" },
	{ "the pod's qdisc", "tc qdisc del dev eth0 root", NULL,
	  "interface 'eth0' has no qdisc 'tbf'" },
	{ "another rate", NULL,
	  "tc qdisc replace dev $D root tbf rate 20mbit burst 100000 limit 131250",
	  "has rate 2500000 bytes/s and limit 131250 bytes, expected 1250000 and 131250" },
	{ "another queue", "tc qdisc replace dev eth0 root tbf rate 20mbit burst 100000 limit 5000",
	  NULL, "has rate 2500000 bytes/s and limit 5000 bytes, expected 2500000 and 162500" },
};

START_TEST(test_check)
{
	char prev[4200];

	new_netns("a");
	snprintf(prev, sizeof(prev), "%s", add_limited("a", LIMITS));
	host_device("a");
	if (losses[_i].pod)
		inside("a", losses[_i].pod);
	if (losses[_i].host)
		ck_shell(losses[_i].host);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev), MK_CNI_CHECK_FAILED,
		 losses[_i].text);
}
END_TEST

/* An entry without the mark bypasses the limit. */
START_TEST(test_check_entry)
{
	cleanup_pods struct mk_pods *pods = NULL;
	struct mk_pod pod;
	struct mk_ip ip;
	char prev[4200];

	new_netns("a");
	snprintf(prev, sizeof(prev), "%s", add_limited("a", LIMITS));
	pod = entry_of("10.244.1.2");
	pod.shaped = 0;
	pods = mk_pods_open(BPF_DIR, STATE, &err);
	ck_assert_int_eq(mk_ip_parse("10.244.1.2", &ip), 0);
	ck_ok(mk_pods_put(pods, &ip, &pod, &err));
	mk_pods_free(mk_steal_ptr(pods));
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev), MK_CNI_CHECK_FAILED,
		 "map 'pods' bypasses the ingress limit of 10.244.1.2");
}
END_TEST

/* The agent restores an entry with its mark. */
START_TEST(test_restore)
{
	bool in_vain;

	new_netns("a");
	add_limited("a", LIMITS);
	ck_shell("bpftool map update pinned " BPF_DIR
		 "/maps/pods key 2 1 0 0 value 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0");
	ck_assert_int_eq(mk_cni_restore(STATE, BPF_DIR, "mk", &in_vain, &err), 1);
	ck_assert_uint_eq(entry_of("10.244.1.2").shaped, 1);
	ck_assert_uint_ne(entry_of("10.244.1.2").netns_ref, 0);
}
END_TEST

UNIT_SUITE("cni_bandwidth")
{
	TCase *pure = unit_case(suite, "config", NULL, NULL), *tc = cni_case(suite, "verbs");

	tcase_add_loop_test(pure, test_config, 0, MK_ARRAY_SIZE(configs));
	tcase_add_test(pure, test_kernel_without_qdisc);
	tcase_add_test(tc, test_add);
	tcase_add_test(tc, test_add_egress);
	tcase_add_test(tc, test_add_invalid);
	tcase_add_loop_test(tc, test_check, 0, MK_ARRAY_SIZE(losses));
	tcase_add_test(tc, test_check_entry);
	tcase_add_test(tc, test_restore);
}

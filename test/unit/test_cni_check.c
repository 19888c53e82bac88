// SPDX-License-Identifier: Apache-2.0
/* CHECK against the kernel: it finds what is missing or wrong. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "pod/endpoint/endpoint.h"
#include "unit/cni_node.h"

static const struct {
	const char *name;
	const char *pod, *host; /* shell commands in the pod, on the node; NULL: none */
	const char *text; /* expected text of CHECK */
} losses[] = {
	{ "default route", "ip route del default", NULL,
	  "route to 0.0.0.0/0 via 10.244.1.254 is missing" },
	{ "gateway route", "ip route del 10.244.1.254/32", NULL,
	  "route to 10.244.1.254/32 is missing" },
	{ "route to all pods", "ip route del 10.244.0.0/16", NULL,
	  "route to 10.244.0.0/16 via 10.244.1.254 is missing" },
	{ "route to the node's pods", "ip route del 10.244.1.0/24", NULL,
	  "route to 10.244.1.0/24 via 10.244.1.254 is missing" },
	{ "route to the virtual pod", "ip route del 10.244.1.1/32", NULL,
	  "route to 10.244.1.1/32 via 10.244.1.254 is missing" },
	{ "neighbour", "ip neigh del 10.244.1.254 dev eth0", NULL, "neighbour 10.244.1.254" },
	{ "neighbour with another MAC",
	  "ip neigh replace 10.244.1.254 lladdr 02:00:00:00:00:01 dev eth0", NULL, "neighbour" },
	{ "address", "ip addr flush dev eth0", NULL, "address 10.244.1.2 is missing" },
	{ "pod's end down", "ip link set eth0 down", NULL, "'eth0' is down" },
	{ "pod's end renamed", "sh -c 'ip link set eth0 down; ip link set eth0 name eth1'", NULL,
	  "'eth0' is missing" },
	{ "pod's MAC", "ip link set eth0 address 02:00:00:00:00:01", NULL,
	  "'eth0' has MAC address 02:00:00:00:00:01, expected 02:4d:0a:f4:01:02" },
	{ "both ends", "ip link del eth0", NULL, "is missing; " },
	{ "host's end down", NULL, "ip link set $D down", "is down" },
	{ "host's MAC", NULL, "ip link set $D address 02:00:00:00:00:01", "has MAC address" },
	{ "table entry", NULL,
	  "bpftool map update pinned " BPF_DIR
	  "/maps/pods key 2 1 0 0 value 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
	  "no entry for 10.244.1.2" },
	{ "another table entry", NULL,
	  "bpftool map update pinned " BPF_DIR
	  "/maps/pods key 2 1 0 0 value 9 9 0 0 0 0 0 0 0 0 0 0 10 244 1 2",
	  "leads 10.244.1.2 to interface number 2313" },
	{ "program", NULL, "tc qdisc del dev $D clsact", "'ilb_pod' is not attached" },
	{ "address file", NULL, "rm " STATE "/ipam/10.244.1.2", "no address is allocated" },
	{ "datapath", NULL, "umount " ROOT "/bpf", "monokube agent" },
};

START_TEST(test_check)
{
	const char *row = losses[_i].name;
	char device[IFNAMSIZ], prev[4300];

	new_netns("a");
	snprintf(prev, sizeof(prev), "%s", add_result("a"));
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", prev) == 0, "%s: %s", row,
		      answer);
	mk_cni_host_name("mk", "a", "eth0", device);
	setenv("D", device, 1);
	if (losses[_i].pod)
		inside("a", losses[_i].pod);
	if (losses[_i].host)
		ck_assert_msg(system(losses[_i].host) == 0, "%s", row);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev), MK_CNI_CHECK_FAILED,
		 losses[_i].text);
	ck_assert_int_eq(call("DEL", "a", "", "1.0.0", ""), 0);
}
END_TEST

static const struct {
	const char *name, *fields;
	int code;
	const char *text;
} prev_results[] = {
	{ "none", "", MK_CNI_INVALID_CONFIG, "prevResult" },
	{ "a word", ",\"prevResult\":\"x\"", MK_CNI_INVALID_CONFIG, "prevResult" },
	{ "empty", ",\"prevResult\":{}", MK_CNI_CHECK_FAILED,
	  "does not list address 10.244.1.2; prevResult does not list interface 'eth0'" },
	{ "other types", ",\"prevResult\":{\"ips\":7,\"interfaces\":[7,null,[]]}",
	  MK_CNI_CHECK_FAILED, "does not list address 10.244.1.2" },
	{ "another address", ",\"prevResult\":{\"ips\":[{\"address\":\"10.244.1.3/32\"}]}",
	  MK_CNI_CHECK_FAILED, "does not list address 10.244.1.2" },
};

START_TEST(test_check_prev_result)
{
	new_netns("a");
	add("a");
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev_results[_i].fields),
		 prev_results[_i].code, prev_results[_i].text);
}
END_TEST

/* A later plugin may lower the MTU; before 1.1.0 a result cannot contain it. */
START_TEST(test_check_chained_mtu)
{
	char prev[4300];

	new_netns("a");
	snprintf(prev, sizeof(prev), "%s", add_result("a"));
	inside("a", "ip link set eth0 mtu 1300");
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", prev) == 0, "%s", answer);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.1.0",
		      ",\"prevResult\":{\"interfaces\":[{\"name\":\"eth0\",\"mtu\":65535}]}"),
		 MK_CNI_CHECK_FAILED, "'eth0' has MTU 1300, prevResult says 65535");
}
END_TEST

UNIT_SUITE("cni_check")
{
	TCase *tc = cni_case(suite, "verbs");

	tcase_add_loop_test(tc, test_check, 0, MK_ARRAY_SIZE(losses));
	tcase_add_loop_test(tc, test_check_prev_result, 0, MK_ARRAY_SIZE(prev_results));
	tcase_add_test(tc, test_check_chained_mtu);
}

// SPDX-License-Identifier: Apache-2.0
/* A further interface of a container (Multus), and devices with another prefix: each verb and the
 * agent find the right endpoint. */
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/pods/pods.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/restore.h"
#include "unit/cni_node.h"

static struct mk_error err;

static int verb(const char *name, const char *ifname, const char *fields)
{
	int ret;

	cni_ifname = ifname;
	ret = call(name, "a", netns_path("a"), "1.0.0", fields);
	cni_ifname = "eth0";
	return ret;
}

/* Run ADD; returns the prevResult for CHECK. */
static char *add_interface(const char *ifname)
{
	char *fields;

	ck_assert_msg(verb("ADD", ifname, "") == 0, "%s: %s", ifname, answer);
	ck_assert_int_gt(asprintf(&fields, ",\"prevResult\":%s", answer), 0);
	return fields;
}

static void ck_checks(const char *ifname, const char *prev)
{
	ck_assert_msg(verb("CHECK", ifname, prev) == 0, "%s: %s", ifname, answer);
}

static void ck_shell(const char *command)
{
	ck_assert_msg(system(command) == 0, "%s", command);
}

/* Only the first interface has the routes of table main. */
static void ck_first_has_main(void)
{
	inside("a", "sh -c 'test $(ip route show default | wc -l) = 1'");
	inside("a", "sh -c 'ip route show default | grep -q \"via 10.244.1.254 dev eth0 \"'");
	inside("a", "sh -c '! ip route show table main | grep net1'");
}

static void ck_has_rule(bool has)
{
	inside("a", has ? "sh -c 'ip rule | grep -q \"from 10.244.1.3 \"'"
			: "sh -c '! ip rule | grep \"from 10.244\"'");
}

START_TEST(test_second)
{
	cleanup_free char *first = NULL, *second = NULL;

	new_netns("a");
	first = add_interface("eth0");
	ck_assert_msg(strstr(first, "\"dst\":\"0.0.0.0/0\""), "%s", first);
	second = add_interface("net1");
	ck_assert_msg(strstr(second, "\"address\":\"10.244.1.3/32\"") &&
			      strstr(second, "\"routes\":[]"),
		      "%s", second);
	ck_exist(2);
	ck_first_has_main();
	ck_has_rule(true);
	inside("a", "sh -c 'ip route get 198.51.100.1 from 10.244.1.3 | grep -q \"dev net1\"'");
	inside("a", "sh -c 'ip route get 10.244.1.9 from 10.244.1.3 | grep -q \"dev net1\"'");
	inside("a", "sh -c 'ip route get 10.244.1.9 | grep -q \"dev eth0\"'");
	ck_checks("eth0", first);
	ck_checks("net1", second);
	ck_assert_msg(verb("DEL", "net1", second) == 0, "%s", answer);
	ck_exist(1);
	ck_first_has_main();
	ck_has_rule(false);
	ck_checks("eth0", first);
	ck_assert_msg(verb("DEL", "eth0", first) == 0, "%s", answer);
	ck_exist(0);
}
END_TEST

START_TEST(test_first_goes)
{
	cleanup_free char *first = NULL, *second = NULL, *again = NULL;

	new_netns("a");
	first = add_interface("eth0");
	second = add_interface("net1");
	ck_assert_msg(verb("DEL", "eth0", first) == 0, "%s", answer);
	ck_exist(1);
	ck_checks("net1", second);
	again = add_interface("eth0");
	ck_first_has_main();
	ck_checks("net1", second);
	ck_checks("eth0", again);
}
END_TEST

/* Another plugin's interface is the first. */
START_TEST(test_foreign_default_stays)
{
	cleanup_free char *second = NULL;

	new_netns("a");
	inside("a", "ip link add foreign type bridge");
	inside("a", "ip link set foreign up");
	inside("a", "ip route add default dev foreign");
	second = add_interface("net1");
	inside("a", "sh -c 'ip route show default | grep -q \"dev foreign\"'");
	inside("a", "sh -c '! ip route show table main | grep net1'");
	ck_checks("net1", second);
}
END_TEST

START_TEST(test_second_again)
{
	cleanup_free char *first = NULL, *second = NULL, *again = NULL;

	new_netns("a");
	first = add_interface("eth0");
	second = add_interface("net1");
	ck_fails(verb("ADD", "net1", ""), MK_CNI_INTERFACE_EXISTS, "'net1'");
	ck_exist(2);
	/* an ADD that was killed before its last route */
	inside("a", "sh -c 'ip route del default table "
		    "$((0x6d6b0000 + $(ip -o link show net1 | cut -d: -f1)))'");
	again = add_interface("net1");
	ck_exist(2);
	ck_checks("eth0", first);
	ck_checks("net1", again);
}
END_TEST

static const struct {
	const char *name, *command, *text;
} losses[] = {
	{ "rule", "ip rule del from 10.244.1.3", "routing rule from 10.244.1.3 to table" },
	{ "routes", "ip route flush table all proto 77 dev net1",
	  "route to 0.0.0.0/0 via 10.244.1.254 is missing on interface 'net1'" },
	{ "address", "ip addr flush dev net1", "address 10.244.1.3 is missing" },
};

START_TEST(test_check_finds)
{
	cleanup_free char *first = NULL, *second = NULL;

	new_netns("a");
	first = add_interface("eth0");
	second = add_interface("net1");
	inside("a", losses[_i].command);
	ck_fails(verb("CHECK", "net1", second), MK_CNI_CHECK_FAILED, losses[_i].text);
	ck_checks("eth0", first);
}
END_TEST

static void gc(const char *ifname)
{
	char fields[200];

	snprintf(fields, sizeof(fields),
		 ",\"cni.dev/valid-attachments\":[{\"containerID\":\"a\",\"ifname\":\"%s\"}]",
		 ifname);
	ck_assert_msg(call("GC", "", "", "1.1.0", fields) == 0, "%s", answer);
}

static const char *const kept[] = { "eth0", "net1" };

START_TEST(test_gc)
{
	cleanup_free char *first = NULL, *second = NULL;

	new_netns("a");
	first = add_interface("eth0");
	second = add_interface("net1");
	gc(kept[_i]);
	ck_exist(1);
	ck_checks(kept[_i], _i ? second : first);
}
END_TEST

static void empty_entry(const char *slot)
{
	char command[200];

	snprintf(command, sizeof(command),
		 "bpftool map update pinned " BPF_DIR
		 "/maps/pods key %s 1 0 0 value 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
		 slot);
	ck_shell(command);
}

START_TEST(test_agent)
{
	cleanup_free char *first = NULL, *second = NULL;
	bool in_vain;

	new_netns("a");
	first = add_interface("eth0");
	second = add_interface("net1");
	empty_entry("2");
	empty_entry("3");
	ck_assert_int_eq(mk_cni_restore(STATE, BPF_DIR, "mk", &in_vain, &err), 2);
	ck_checks("eth0", first);
	ck_checks("net1", second);
	ck_assert_int_eq(mk_cni_reap(STATE, BPF_DIR, "mk", &err), 0);
	gone_netns("a");
	ck_shell("for i in $(seq 50); do ip -o link show type veth | grep -q . || exit 0; sleep "
		 "0.1; "
		 "done; exit 1");
	ck_assert_int_eq(mk_cni_reap(STATE, BPF_DIR, "mk", &err), 2);
	ck_exist(0);
}
END_TEST

/* ---- dns ------------------------------------------------------------------------------------- */

#define DNS                                                                                    \
	"{\"nameservers\":[\"10.96.0.10\"],\"domain\":\"cluster.local\",\"search\":[\"a.b\"]," \
	"\"options\":[\"ndots:5\"]}"

static const char *const versions[] = { "0.3.1", "0.4.0", "1.0.0", "1.1.0" };

START_TEST(test_dns)
{
	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), versions[_i], ",\"dns\":" DNS) == 0, "%s",
		      answer);
	ck_assert_msg(strstr(answer, "\"dns\":" DNS) != NULL, "%s", answer);
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), versions[_i], ""), 0);
	ck_assert_msg(call("ADD", "a", netns_path("a"), versions[_i], ",\"dns\":null") == 0, "%s",
		      answer);
	ck_assert_msg(strstr(answer, "dns") == NULL, "%s", answer);
}
END_TEST

/* ---- another prefix -------------------------------------------------------------------------- */

#define OTHER ",\"vethPrefix\":\"ab\""

static const struct {
	const char *name, *kind;
	struct mk_mac mac;
	bool ours;
} links[] = {
	{ "mkabcdefghijk", "veth", { { 2, 0, 0, 0, 0, 1 } }, true }, /* by its name */
	{ "abcdabcdefghijk", "veth", { { 2, 0x4d, 10, 244, 1, 254 } }, true },
	{ "xabcdefghijk", "veth", { { 2, 0x4d, 10, 244, 1, 254 } }, true },
	{ "abcdefghijk", "veth", { { 2, 0x4d, 10, 244, 1, 254 } }, false }, /* no prefix */
	{ "cali2345abcdefg", "veth", { { 0xee, 0xee, 0xee, 0xee, 0xee, 0xee } }, false },
	{ "cali01234567890", "veth", { { 2, 0x4d, 10, 244, 1, 254 } }, false },
	{ "abcdabcdefghijk", "dummy", { { 2, 0x4d, 10, 244, 1, 254 } }, false },
	{ "eth0", "veth", { { 2, 0x4d, 10, 244, 1, 254 } }, false },
};

START_TEST(test_is_pod_device)
{
	struct mk_link link = { .mac = links[_i].mac };

	snprintf(link.name, sizeof(link.name), "%s", links[_i].name);
	snprintf(link.kind, sizeof(link.kind), "%s", links[_i].kind);
	ck_assert_msg(mk_cni_is_pod_device("mk", &link) == links[_i].ours, "'%s' of kind '%s'",
		      link.name, link.kind);
}
END_TEST

START_TEST(test_prefix_verbs)
{
	cleanup_free char *prev = NULL, *fields = NULL;

	new_netns("a");
	prev = add_interface("eth0");
	ck_assert_int_gt(asprintf(&fields, OTHER "%s", prev), 0);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", fields) == 0, "%s", answer);
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", OTHER), MK_CNI_INTERFACE_EXISTS,
		 "'eth0'");
	ck_assert_msg(call("DEL", "a", "", "1.0.0", OTHER) == 0, "%s", answer);
	ck_exist(0);
}
END_TEST

START_TEST(test_prefix_gc)
{
	new_netns("a");
	free(add_interface("eth0"));
	ck_assert_msg(call("GC", "", "", "1.1.0",
			   OTHER ",\"cni.dev/valid-attachments\":[{\"containerID\":\"a\","
				 "\"ifname\":\"eth0\"}]") == 0,
		      "%s", answer);
	ck_exist(1);
	/* its address file was lost: only the device identifies it */
	ck_shell("rm " STATE "/ipam/10.244.1.2");
	ck_assert_int_eq(call("GC", "", "", "1.1.0", OTHER ",\"cni.dev/valid-attachments\":[]"), 0);
	ck_exist(0);
}
END_TEST

START_TEST(test_prefix_agent)
{
	cleanup_close int held = -1;
	bool in_vain;

	new_netns("a");
	free(add_interface("eth0"));
	empty_entry("2");
	ck_assert_int_eq(mk_cni_restore(STATE, BPF_DIR, "ab", &in_vain, &err), 1);
	/* a process is still in the namespace, so the device exists too */
	held = open(netns_path("a"), O_RDONLY | O_CLOEXEC);
	gone_netns("a");
	ck_assert_int_eq(mk_cni_reap(STATE, BPF_DIR, "ab", &err), 0);
	ck_exist(1);
}
END_TEST

UNIT_SUITE("cni_further")
{
	TCase *pure = unit_case(suite, "names", NULL, NULL), *tc = cni_case(suite, "verbs");

	tcase_add_loop_test(pure, test_is_pod_device, 0, MK_ARRAY_SIZE(links));
	tcase_add_test(tc, test_second);
	tcase_add_test(tc, test_first_goes);
	tcase_add_test(tc, test_foreign_default_stays);
	tcase_add_test(tc, test_second_again);
	tcase_add_loop_test(tc, test_check_finds, 0, MK_ARRAY_SIZE(losses));
	tcase_add_loop_test(tc, test_gc, 0, MK_ARRAY_SIZE(kept));
	tcase_add_test(tc, test_agent);
	tcase_add_loop_test(tc, test_dns, 0, MK_ARRAY_SIZE(versions));
	tcase_add_test(tc, test_prefix_verbs);
	tcase_add_test(tc, test_prefix_gc);
	tcase_add_test(tc, test_prefix_agent);
}

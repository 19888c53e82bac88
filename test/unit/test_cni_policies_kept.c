// SPDX-License-Identifier: Apache-2.0
/* A pod's sets of policies after ADD: CHECK, GC, the agent's repair, what the agent reads, and ADDs
 * that are killed. */
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "datapath/pods/pods.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/restore.h"
#include "unit/cni_policies.h"

static struct mk_error err;

/* ---- afterwards ------------------------------------------------------------------------------ */

START_TEST(test_check)
{
	const char *last = kind->ips[IPS - 1];
	struct mk_pod_policy entry;
	char prev[4600], text[128];

	new_netns("a");
	add_pod("a", WEB);
	snprintf(prev, sizeof(prev), "%s,\"prevResult\":%s", kind->fields, answer);
	ck_assert_msg(call("CHECK", "a", netns_path("a"), "1.0.0", prev) == 0, "%s", answer);
	entry = entry_of(last);
	entry.ifindex++;
	put_entry(last, &entry);
	snprintf(text, sizeof(text), "map 'pod_policies' has no entry for %s", last);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev), MK_CNI_CHECK_FAILED, text);
	clear_entry(last);
	ck_fails(call("CHECK", "a", netns_path("a"), "1.0.0", prev), MK_CNI_CHECK_FAILED, text);
}
END_TEST

START_TEST(test_gc)
{
	new_netns("a");
	add_pod("a", WEB);
	ck_assert_msg(call("GC", "", "", "1.1.0", ",\"cni.dev/valid-attachments\":[]") == 0, "%s",
		      answer);
	for (int i = 0; i < IPS; i++)
		ck_assert(!has_entry(kind->ips[i]));
}
END_TEST

static void delete_pod_entry(const char *address)
{
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	const struct mk_ip ip = ip_of(address);

	ck_ok(mk_pods_delete(pods, &ip, &err));
}

static const struct {
	const char *name;
	bool on, is_expected, with_pod; /* the entry of map pods is lost, too */
	uint64_t sets[MK_POLICY_DIRECTIONS];
} losses[] = {
	{ "known", true, true, false, { KNOWN } },
	{ "known, both entries", true, true, true, { KNOWN } },
	{ "unknown", true, false, false, { PENDING } },
	{ "unknown, both entries", true, false, true, { PENDING } },
	{ "not enforced yet", false, true, false, { OPEN } },
	{ "not enforced yet, both entries", false, false, true, { OPEN } },
};

START_TEST(test_restore)
{
	const char *name = losses[_i].name;
	int count = losses[_i].on + losses[_i].with_pod;
	bool in_vain;

	new_netns("a");
	add_pod("a", WEB);
	for (int i = 0; i < IPS; i++) {
		if (losses[_i].with_pod)
			delete_pod_entry(kind->ips[i]);
		clear_entry(kind->ips[i]);
		set_state(family_at(i), losses[_i].on, MK_POLICY_LISTED_SOME);
		if (losses[_i].is_expected)
			expect(family_at(i), "shop/web/7a1c", KNOWN);
	}
	ck_assert_int_eq(mk_cni_restore(STATE, BPF_DIR, "mk", &in_vain, &err), count * IPS);
	ck_assert_msg(!in_vain, "%s", name);
	ck_sets(name, losses[_i].sets[0], losses[_i].sets[1]);
	for (int i = 0; i < IPS; i++)
		ck_assert_msg(on_of(family_at(i)) == losses[_i].on, "%s", name);
	ck_assert_int_eq(mk_cni_restore(STATE, BPF_DIR, "mk", &in_vain, &err), 0);
	ck_assert(!in_vain);
}
END_TEST

static int see_sandbox(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner,
		       int ifindex)
{
	char text[MK_IP_STRLEN];

	mk_ip_format(ip, text);
	ck_assert_int_eq((uint32_t)ifindex, ifindex_of(text));
	ck_assert(owner->second.family == (IPS > 1 ? AF_INET6 : AF_UNSPEC));
	if (strcmp(owner->ifname, "eth0") == 0)
		ck_assert(strcmp(owner->namespace_, "shop") == 0 &&
			  strcmp(owner->name, "web") == 0 && strcmp(owner->uid, "7a1c") == 0);
	else
		ck_assert_str_eq(owner->namespace_, "");
	++*(int *)ctx;
	return 0;
}

/* Policies do not cover a further interface (Multus): its address file names no Pod. */
START_TEST(test_further)
{
	int count = 0;

	new_netns("a");
	add_pod("a", WEB);
	cni_ifname = "net1";
	add_pod("a", WEB);
	cni_ifname = "eth0";
	ck_sets("first", PENDING);
	ck_sets_of("further", kind->next, OPEN);
	ck_ok(mk_cni_each_sandbox(STATE, BPF_DIR, see_sandbox, &count, &err));
	ck_assert_int_eq(count, 2);
}
END_TEST

static int see_without_device(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner,
			      int ifindex)
{
	(void)ip;
	(void)owner;
	*(int *)ctx = ifindex;
	return 7;
}

START_TEST(test_sandbox_without_entry)
{
	int ifindex = -1;

	new_netns("a");
	add_pod("a", WEB);
	delete_pod_entry(kind->ips[0]);
	ck_assert_int_eq(mk_cni_each_sandbox(STATE, BPF_DIR, see_without_device, &ifindex, &err),
			 7);
	ck_assert_int_eq(ifindex, 0);
}
END_TEST

/* ---- killed ---------------------------------------------------------------------------------- */

static bool device_is_up(void)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	struct mk_link link;

	return mk_cni_device_find(nl, "mk", "a", "eth0", &link, NULL) == 0 && link.flags & IFF_UP;
}

static int see_closed(void *ctx, const struct mk_ip *ip, const struct mk_pod *pod)
{
	char text[MK_IP_STRLEN];

	(void)pod;
	++*(int *)ctx;
	ck_sets_of("killed", mk_ip_format(ip, text), PENDING);
	if (device_is_up())
		ck_assert_uint_eq(on_of(ip->family), 1);
	return 0;
}

/* At any instant, a pod in map pods has its sets. If its device is up, they are enforced. */
static void ck_closed(void)
{
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	int count = 0;

	ck_ok(mk_pods_each(pods, see_closed, &count, &err));
	ck_assert(!device_is_up() || count == IPS);
}

START_TEST(test_add_killed)
{
	unsigned int seed = 11;

	new_netns("a");
	for (int round = 0; round < 60; round++) {
		struct timespec pause = { .tv_nsec = rand_r(&seed) % 2500000 };
		pid_t pid;

		for (int i = 0; i < IPS; i++)
			set_state(family_at(i), 0, MK_POLICY_LISTED_SOME);
		pid = start_add();
		nanosleep(&pause, NULL);
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		ck_closed();
		del_pod("a");
		ck_exist(0);
	}
}
END_TEST

UNIT_SUITE("cni_policies_kept")
{
	for (size_t i = 0; i < KINDS; i++) {
		TCase *tc = policy_case(suite, i);

		tcase_add_test(tc, test_check);
		tcase_add_test(tc, test_gc);
		tcase_add_loop_test(tc, test_restore, 0, MK_ARRAY_SIZE(losses));
		tcase_add_test(tc, test_further);
		tcase_add_test(tc, test_sandbox_without_entry);
		tcase_add_test(tc, test_add_killed);
	}
}

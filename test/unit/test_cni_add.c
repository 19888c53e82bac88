// SPDX-License-Identifier: Apache-2.0
/* ADD and DEL against the kernel: the state afterwards, and that a failure leaves
 * nothing behind. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "datapath/pods/pods.h"
#include "pod/endpoint/restore.h"
#include "unit/cni_node.h"

static struct mk_error err;

static const char *const versions[] = { "0.3.1", "0.4.0", "1.0.0", "1.1.0" };

/* Its entry has the namespace of its sockets. */
static void ck_has_number(const char *address)
{
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	struct mk_pod pod;
	struct mk_ip ip;

	ck_assert_msg(pods != NULL, "%s", mk_error_text(&err));
	ck_assert_int_eq(mk_ip_parse(address, &ip), 0);
	ck_ok(mk_pods_get(pods, &ip, &pod, &err));
	ck_assert_uint_ne(pod.netns_ref, 0);
}

START_TEST(test_add_del)
{
	const char *version = versions[_i];
	char prev[4200];

	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), version, "") == 0, "%s", answer);
	ck_assert_msg(strstr(answer, version) && strstr(answer, "\"10.244.1.2/32\""), "%s", answer);
	ck_exist(1);
	ck_has_number("10.244.1.2");
	inside("a", "ip -o addr show dev eth0 | grep -q 'inet 10.244.1.2/32 '");
	inside("a", "ip route show default | grep -q 'via 10.244.1.254 dev eth0.* onlink'");
	inside("a",
	       "ip neigh show dev eth0 | grep -q '10.244.1.254 lladdr 02:4d:0a:f4:01:fe PERM'");
	inside("a", "ip -o link show dev eth0 | grep -q 'mtu 65535.*02:4d:0a:f4:01:02'");
	inside("a", "ip route show default | grep -q 'mtu 1500'");
	inside("a", "ip route get 10.244.1.1 | grep -q 'mtu 1500'");
	inside("a", "ip route get 10.244.1.7 | grep -q 'via 10.244.1.254'");
	inside("a", "ip route show 10.244.0.0/16 | grep -q 'mtu 1450'");
	inside("a", "ip route show 10.244.1.0/24 | grep -qv mtu");
	inside("a", "ip -o link show dev lo up | grep -q lo");
	snprintf(prev, sizeof(prev), ",\"prevResult\":%s", answer);
	if (_i > 0)
		ck_assert_msg(call("CHECK", "a", netns_path("a"), version, prev) == 0, "%s",
			      answer);
	ck_assert_msg(call("DEL", "a", netns_path("a"), version, prev) == 0, "%s", answer);
	ck_assert_str_eq(answer, "");
	ck_exist(0);
}
END_TEST

START_TEST(test_del_idempotent)
{
	ck_assert_int_eq(call("DEL", "never", "", "1.0.0", ""), 0);
	new_netns("a");
	add("a");
	gone_netns("a");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", ""), 0);
	ck_exist(0);
	ck_assert_int_eq(call("DEL", "a", "", "1.0.0", ""), 0);
}
END_TEST

START_TEST(test_del_without_datapath)
{
	new_netns("a");
	add("a");
	ck_assert_int_eq(umount(ROOT "/bpf"), 0);
	ck_assert_msg(call("DEL", "a", "", "1.0.0", "") == 0, "%s", answer);
	ck_assert_int_eq(addresses(), 0);
	ck_assert_int_eq(devices(), 0);
}
END_TEST

START_TEST(test_del_without_address_file)
{
	new_netns("a");
	add("a");
	ck_assert_int_eq(unlink(STATE "/ipam/10.244.1.2"), 0);
	ck_assert_msg(call("DEL", "a", "", "1.0.0", "") == 0, "%s", answer);
	ck_exist(0);
}
END_TEST

START_TEST(test_add_again)
{
	new_netns("a");
	add("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ""), MK_CNI_INTERFACE_EXISTS, "'eth0'");
	ck_exist(1);
	/* another container, whose namespace this is not */
	ck_fails(call("ADD", "b", netns_path("a"), "1.0.0", ""), MK_CNI_INTERFACE_EXISTS, "'eth0'");
	ck_exist(1);
	inside("a", "ip route show default | grep -q 10.244.1.254");
}
END_TEST

START_TEST(test_add_foreign_interface)
{
	new_netns("a");
	inside("a", "ip link add eth0 type bridge");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ""), MK_CNI_INTERFACE_EXISTS,
		 "'bridge'");
	ck_exist(0);
	inside("a", "ip link show eth0 >/dev/null");
}
END_TEST

START_TEST(test_add_bad_netns)
{
	char plain[] = ROOT "/plain";

	ck_fails(call("ADD", "a", "/nowhere/x", "1.0.0", ""), MK_CNI_UNKNOWN_CONTAINER,
		 "/nowhere/x");
	close(open(plain, O_WRONLY | O_CREAT, 0600));
	ck_fails(call("ADD", "a", plain, "1.0.0", ""), MK_CNI_INVALID_ENVIRONMENT, plain);
	ck_fails(call("ADD", "a", "/proc/self/ns/net", "1.0.0", ""), MK_CNI_INVALID_ENVIRONMENT,
		 "the host's own");
	ck_fails(call("ADD", "a", "/proc/self/ns/mnt", "1.0.0", ""), MK_CNI_INVALID_ENVIRONMENT,
		 "not a network namespace");
	ck_exist(0);
}
END_TEST

START_TEST(test_add_not_first)
{
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ",\"prevResult\":{}"),
		 MK_CNI_INVALID_CONFIG, "first plugin");
}
END_TEST

/* DEL works for a pod to which an earlier version gave another address. */
START_TEST(test_address_wanted)
{
	new_netns("a");
	setenv("CNI_ARGS", "IgnoreUnknown=1;IP=10.244.1.77", 1);
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ""), MK_CNI_UNSUPPORTED_FIELD,
		 "10.244.1.77");
	ck_exist(0);
	setenv("CNI_ARGS", "IgnoreUnknown=1", 1);
	add("a");
	setenv("CNI_ARGS", "IgnoreUnknown=1;IP=10.244.1.77", 1);
	ck_assert_msg(call("DEL", "a", netns_path("a"), "1.0.0", "") == 0, "%s", answer);
	ck_exist(0);
}
END_TEST

START_TEST(test_add_without_datapath)
{
	new_netns("a");
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ",\"bpfDir\":\"/nowhere\""),
		 MK_CNI_TRY_AGAIN, "monokube agent");
	ck_exist(0);
}
END_TEST

/* A middle step fails: every slot of map pods belongs to another pod, which is gone. */
START_TEST(test_add_undone)
{
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	const struct mk_pod pod = { .ifindex = 4711 };
	struct mk_ip ip = { .family = AF_INET };

	new_netns("a");
	for (uint32_t i = 0; i < POD_SLOTS; i++) {
		ip.v4.s_addr = htonl(0x0b000000 + i);
		ck_ok(mk_pods_put(pods, &ip, &pod, &err));
	}
	ck_fails(call("ADD", "a", netns_path("a"), "1.0.0", ""), MK_CNI_SETUP_FAILED, "");
	ck_assert_int_eq(addresses(), 0);
	ck_assert_int_eq(devices(), 0);
	ck_assert_int_eq(pod_entries(), POD_SLOTS);
}
END_TEST

/* The node had another pod CIDR, and a pod of that CIDR is still alive: an address with the same
 * slot is not assigned. */
START_TEST(test_slot_of_former_cidr)
{
	static const char later[] = ",\"podCIDR\":\"10.244.3.0/24\"";

	new_netns("a");
	new_netns("b");
	ck_assert_int_eq(call("ADD", "a", netns_path("a"), "1.0.0", ""), 0);
	ck_assert_msg(strstr(answer, "10.244.1.2/") != NULL, "%s", answer);
	ck_assert_msg(call("ADD", "b", netns_path("b"), "1.0.0", later) == 0, "%s", answer);
	ck_assert_msg(strstr(answer, "10.244.3.3/") != NULL, "%s", answer);
	ck_assert_int_eq(pod_entries(), 2);
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", ""), 0);
	ck_ok(mk_cni_reap(STATE, BPF_DIR, "mk", &err));
	ck_assert_int_eq(addresses(), 1);
	ck_assert_int_eq(pod_entries(), 1);
}
END_TEST

/* A pod whose slot belongs to another pod does not keep other pods from being restored. */
START_TEST(test_restore_beside_former_cidr)
{
	static const char *const names[] = { "a", "b", "c" };
	cleanup_pods struct mk_pods *pods = mk_pods_open(BPF_DIR, STATE, &err);
	const struct mk_pod other = { .ifindex = 4711 };
	struct mk_ip ip = { .family = AF_INET };
	bool in_vain;

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++) {
		new_netns(names[i]);
		ck_assert_int_eq(call("ADD", names[i], netns_path(names[i]), "1.0.0", ""), 0);
		ip.v4.s_addr = htonl(0x0af40102 + (uint32_t)i);
		ck_ok(mk_pods_delete(pods, &ip, &err));
	}
	ip.v4.s_addr = htonl(0x0af40302);
	ck_ok(mk_pods_put(pods, &ip, &other, &err));
	mk_pods_free(mk_steal_ptr(pods));
	ck_assert_int_eq(mk_cni_restore(STATE, BPF_DIR, "mk", &in_vain, &err), 2);
	ck_assert_int_eq(mk_cni_restore(STATE, BPF_DIR, "mk", &in_vain, &err), 0);
	ck_assert(in_vain);
	ck_assert_int_eq(pod_entries(), 3);
}
END_TEST

START_TEST(test_add_full)
{
	static const char small[] = ",\"podCIDR\":\"10.244.1.240/29\"";
	char name[16];

	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		new_netns(name);
		if (i < 4)
			ck_assert_int_eq(call("ADD", name, netns_path(name), "1.0.0", small), 0);
	}
	ck_fails(call("ADD", "a4", netns_path("a4"), "1.0.0", small), MK_CNI_TRY_AGAIN, "all 4");
	ck_exist(4);
}
END_TEST

/* Killed at any instant, ADD leaves only what the next ADD, DEL or GC removes. */
static void kill_add(unsigned int *seed)
{
	struct timespec pause = { .tv_nsec = rand_r(seed) % 2500000 };
	cleanup_close int fd = open("/dev/null", O_WRONLY);
	pid_t pid = start_verb("ADD", "a", netns_path("a"),
			       "{\"cniVersion\":\"1.0.0\"," NETWORK "}", fd);

	nanosleep(&pause, NULL);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(test_add_killed)
{
	unsigned int seed = 7;
	int status;

	new_netns("a");
	for (int i = 0; i < 90; i++) {
		kill_add(&seed);
		switch (i % 3) {
		case 0:
			ck_assert_msg(call("DEL", "a", "", "1.0.0", "") == 0, "%s", answer);
			break;
		case 1:
			ck_assert_msg(call("GC", "", "", "1.1.0",
					   ",\"cni.dev/valid-attachments\":[]") == 0,
				      "%s", answer);
			break;
		default:
			status = call("ADD", "a", netns_path("a"), "1.0.0", "");
			ck_assert_msg(status == 0 || code_of_answer() == MK_CNI_INTERFACE_EXISTS,
				      "%s", answer);
			ck_exist(1);
			ck_assert_msg(call("DEL", "a", "", "1.0.0", "") == 0, "%s", answer);
		}
		ck_exist(0);
		inside("a", "ip -o link show type veth | { ! grep -q .; }");
	}
}
END_TEST

START_TEST(test_64_at_once)
{
	cleanup_close int fd = open("/dev/null", O_WRONLY);
	pid_t pids[64];
	char name[16];
	int status;

	for (int i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		new_netns(name);
	}
	for (int i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		pids[i] = start_verb("ADD", name, netns_path(name),
				     "{\"cniVersion\":\"1.0.0\"," NETWORK "}", fd);
	}
	for (int i = 0; i < 64; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	ck_exist(64);
}
END_TEST

/* Linux cuts no packet of an overlay over IPv6. */
START_TEST(test_ipv4_over_ipv6)
{
	new_netns("a");
	ck_assert_msg(call("ADD", "a", netns_path("a"), "1.0.0",
			   ",\"mtu\":1430,\"underlayFamily\":\"IPv6\"") == 0,
		      "%s", answer);
	inside("a", "sh -c 'ip route show default | grep -q \"mtu 1430\"'");
}
END_TEST

UNIT_SUITE("cni_add")
{
	TCase *tc = cni_case(suite, "verbs");

	tcase_add_loop_test(tc, test_add_del, 0, MK_ARRAY_SIZE(versions));
	tcase_add_test(tc, test_del_idempotent);
	tcase_add_test(tc, test_ipv4_over_ipv6);
	tcase_add_test(tc, test_del_without_datapath);
	tcase_add_test(tc, test_del_without_address_file);
	tcase_add_test(tc, test_add_again);
	tcase_add_test(tc, test_add_foreign_interface);
	tcase_add_test(tc, test_add_bad_netns);
	tcase_add_test(tc, test_add_not_first);
	tcase_add_test(tc, test_address_wanted);
	tcase_add_test(tc, test_add_without_datapath);
	tcase_add_test(tc, test_add_undone);
	tcase_add_test(tc, test_slot_of_former_cidr);
	tcase_add_test(tc, test_restore_beside_former_cidr);
	tcase_add_test(tc, test_add_full);
	tcase_add_test(tc, test_add_killed);
	tcase_add_test(tc, test_64_at_once);
}

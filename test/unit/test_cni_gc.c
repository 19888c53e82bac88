// SPDX-License-Identifier: Apache-2.0
/* Removal of endpoints that were not deleted, against the kernel: GC and the agent's reaper. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "pod/endpoint/restore.h"
#include "unit/cni_node.h"

static struct mk_error err;

/* ---- GC -------------------------------------------------------------------------------------- */

START_TEST(test_gc)
{
	new_netns("a");
	new_netns("b");
	new_netns("c");
	add("a");
	add("b");
	add("c");
	gone_netns("b");
	ck_assert_msg(call("GC", "", "", "1.1.0",
			   ",\"cni.dev/valid-attachments\":[{\"containerID\":\"c\","
			   "\"ifname\":\"eth0\"},{\"containerID\":\"zz\",\"ifname\":\"eth0\"}]") ==
			      0,
		      "%s", answer);
	ck_assert_str_eq(answer, "");
	ck_exist(1);
	inside("c", "ip route show default | grep -q 10.244.1.254");
	/* the same owner's other interface is another attachment */
	ck_assert_int_eq(call("GC", "", "", "1.1.0",
			      ",\"cni.dev/valid-attachments\":[{\"containerID\":\"c\","
			      "\"ifname\":\"eth1\"}]"),
			 0);
	ck_exist(0);
}
END_TEST

START_TEST(test_gc_lost_files)
{
	new_netns("a");
	new_netns("b");
	add("a");
	add("b");
	/* one address file vanished, one lost its content */
	ck_assert_int_eq(unlink(STATE "/ipam/10.244.1.2"), 0);
	ck_assert_int_eq(truncate(STATE "/ipam/10.244.1.3", 0), 0);
	ck_assert_msg(call("GC", "", "", "1.1.0", ",\"cni.dev/valid-attachments\":[]") == 0, "%s",
		      answer);
	ck_exist(0);
}
END_TEST

START_TEST(test_gc_needs_list)
{
	new_netns("a");
	add("a");
	ck_fails(call("GC", "", "", "1.1.0", ""), MK_CNI_INVALID_CONFIG, "valid-attachments");
	ck_exist(1);
}
END_TEST

/* An address that cannot be released does not keep others' devices and table
 * entries from removal. */
START_TEST(test_gc_goes_on)
{
	static const char released[] = STATE "/ipam/released";

	new_netns("a");
	add("a");
	ck_assert_int_eq(system("ip link add mkaaaaaaaaaaa type veth peer name x"), 0);
	ck_assert_int_eq(system("bpftool map update pinned " BPF_DIR "/maps/pods key 9 1 0 0 "
				"value 9 9 0 0 0 0 0 0 0 0 0 0 10 244 1 9"),
			 0);
	ck_assert_int_eq(mount(released, released, NULL, MS_BIND, NULL), 0);
	ck_fails(call("GC", "", "", "1.1.0", ",\"cni.dev/valid-attachments\":[]"),
		 MK_CNI_IO_FAILURE, "10.244.1.2");
	ck_assert_int_eq(devices(), 0);
	ck_assert_int_eq(pod_entries(), 0);
	ck_assert_int_eq(addresses(), 1);
	ck_assert_int_eq(umount(released), 0);
	ck_assert_int_eq(call("GC", "", "", "1.1.0", ",\"cni.dev/valid-attachments\":[]"), 0);
	ck_exist(0);
}
END_TEST

/* ---- the agent's reaper ---------------------------------------------------------------------- */

static int reap(void)
{
	int ret = mk_cni_reap(STATE, BPF_DIR, "mk", &err);

	ck_assert_msg(ret >= 0, "%s", mk_error_text(&err));
	return ret;
}

START_TEST(test_reap)
{
	new_netns("a");
	new_netns("b");
	add("a");
	add("b");
	ck_assert_int_eq(reap(), 0);
	ck_exist(2);
	/* the namespace's path is gone, but the namespace exists, and so does the device */
	gone_netns("b");
	inside("a", "true");
	ck_assert_int_eq(addresses(), 2);
	remove_device("b");
	ck_assert_int_eq(reap(), 1);
	ck_exist(1);
	ck_assert_int_eq(reap(), 0);
}
END_TEST

START_TEST(test_reap_keeps_device)
{
	cleanup_close int fd = -1;

	new_netns("a");
	add("a");
	fd = open(netns_path("a"), O_RDONLY); /* a process is still in the namespace */
	gone_netns("a");
	ck_assert_int_eq(reap(), 0);
	ck_exist(1);
}
END_TEST

START_TEST(test_reap_keeps_namespace)
{
	new_netns("a");
	add("a");
	remove_device("a"); /* as by the kernel or an administrator: DEL is still to come */
	ck_assert_int_eq(reap(), 0);
	ck_assert_int_eq(addresses(), 1);
}
END_TEST

static void see_lost(void *ctx, const struct mk_ip *ip, const struct mk_pod *entry,
		     const struct mk_ipam_owner *owner)
{
	char text[MK_IP_STRLEN], *seen = ctx;

	ck_assert_uint_ne(entry->ifindex, 0);
	snprintf(seen + strlen(seen), 64, "%s %s ", mk_ip_format(ip, text), owner->container_id);
}

static const char *lost_pods(void)
{
	static char seen[256];
	int ret;

	seen[0] = '\0';
	ret = mk_cni_each_lost_pod(STATE, BPF_DIR, see_lost, seen, &err);
	ck_assert_msg(ret >= 0 || ret == -EWOULDBLOCK, "%s", mk_error_text(&err));
	return ret < 0 ? "busy" : seen;
}

/* A deleted device is reported while its pod exists, but not during a DEL. */
START_TEST(test_lost)
{
	new_netns("a");
	new_netns("b");
	add("a");
	add("b");
	ck_assert_str_eq(lost_pods(), "");
	remove_device("a");
	ck_assert_str_eq(lost_pods(), "10.244.1.2 a ");
	remove_device("b");
	gone_netns("b"); /* no pod is left: the reaper handles it */
	ck_assert_str_eq(lost_pods(), "10.244.1.2 a ");
	ck_assert_int_eq(call("DEL", "a", netns_path("a"), "1.0.0", ""), 0);
	ck_assert_str_eq(lost_pods(), "");
}
END_TEST

/* In the middle of a DEL there is also an entry without a device. */
START_TEST(test_lost_waits)
{
	cleanup_pods struct mk_pods *pods = NULL;

	new_netns("a");
	add("a");
	pods = mk_pods_open(BPF_DIR, STATE, &err);
	ck_assert_ptr_nonnull(pods);
	remove_device("a");
	ck_assert_str_eq(lost_pods(), "busy");
}
END_TEST

/* The directory of the namespaces is missing from this mount namespace: nothing
 * can be concluded. */
START_TEST(test_reap_keeps_invisible)
{
	new_netns("a");
	add("a");
	gone_netns("a");
	remove_device("a");
	ck_assert_int_eq(rename(ROOT "/netns", ROOT "/elsewhere"), 0);
	ck_assert_int_eq(reap(), 0);
	ck_assert_int_eq(addresses(), 1);
	ck_assert_int_eq(rename(ROOT "/elsewhere", ROOT "/netns"), 0);
	ck_assert_int_eq(reap(), 1);
	ck_exist(0);
}
END_TEST

START_TEST(test_reap_waits_for_add)
{
	cleanup_close int fd = -1;

	new_netns("a");
	add("a");
	gone_netns("a");
	remove_device("a");
	fd = mk_state_lock(STATE, MK_LOCK_DATAPATH, LOCK_SH, &err); /* as an ADD holds it */
	ck_assert_int_eq(reap(), 0);
	ck_assert_int_eq(addresses(), 1);
	close(mk_steal_fd(&fd));
	ck_assert_int_eq(reap(), 1);
}
END_TEST

START_TEST(test_reap_lost_files)
{
	new_netns("a");
	new_netns("b");
	new_netns("c");
	add("a");
	add("b");
	add("c");
	ck_assert_int_eq(truncate(STATE "/ipam/10.244.1.2", 0), 0); /* alive: kept */
	ck_assert_int_eq(truncate(STATE "/ipam/10.244.1.3", 0), 0);
	remove_device("b");
	ck_assert_int_eq(unlink(STATE "/ipam/10.244.1.4"), 0);
	remove_device("c");
	ck_assert_int_eq(reap(), 1);
	ck_exist(1);
}
END_TEST

/* As after a reboot: files, no devices, no tables, no directory of namespaces yet. */
START_TEST(test_reap_without_datapath)
{
	new_netns("a");
	add("a");
	gone_netns("a");
	remove_device("a");
	ck_assert_int_eq(umount(ROOT "/bpf"), 0);
	ck_assert_int_eq(reap(), 1);
	ck_assert_int_eq(addresses(), 0);
}
END_TEST

UNIT_SUITE("cni_gc")
{
	TCase *tc = cni_case(suite, "verbs");

	tcase_add_test(tc, test_gc);
	tcase_add_test(tc, test_gc_lost_files);
	tcase_add_test(tc, test_gc_needs_list);
	tcase_add_test(tc, test_gc_goes_on);
	tcase_add_test(tc, test_lost);
	tcase_add_test(tc, test_lost_waits);
	tcase_add_test(tc, test_reap);
	tcase_add_test(tc, test_reap_keeps_device);
	tcase_add_test(tc, test_reap_keeps_namespace);
	tcase_add_test(tc, test_reap_keeps_invisible);
	tcase_add_test(tc, test_reap_waits_for_add);
	tcase_add_test(tc, test_reap_lost_files);
	tcase_add_test(tc, test_reap_without_datapath);
}

// SPDX-License-Identifier: Apache-2.0
/* The traffic sent by pods, for metrics: of current pods, and of those that DEL or GC removed. */
#include <unistd.h>

#include "base/cleanup.h"
#include "pod/endpoint/endpoint.h"
#include "unit/cni_node.h"

static struct mk_error err;

static struct mk_pod_traffic traffic(void)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	struct mk_pod_traffic seen = { 0 };

	ck_assert_ptr_nonnull(nl);
	ck_ok(mk_pod_traffic_read(nl, BPF_DIR, "mk", &seen, &err));
	return seen;
}

/* Send ten pings, which stay unanswered here; the permanent neighbour makes ARP unnecessary. */
static struct mk_pod_traffic after_pings(const char *netns, uint64_t least)
{
	struct mk_pod_traffic seen;

	inside(netns, "ping -q -c 10 -i 0.01 -W 0.01 -s 100 10.244.1.254 >/dev/null; true");
	seen = traffic();
	ck_assert_uint_ge(seen.packets, least + 10);
	ck_assert_uint_ge(seen.bytes, (least + 10) * 142);
	return seen;
}

static void ck_kept(const struct mk_pod_traffic *before)
{
	struct mk_pod_traffic now = traffic();

	ck_assert_uint_ge(now.packets, before->packets);
	ck_assert_uint_ge(now.bytes, before->bytes);
}

START_TEST(test_del_keeps)
{
	struct mk_pod_traffic seen;

	new_netns("a");
	add("a");
	seen = after_pings("a", 0);
	ck_assert_int_eq(call("DEL", "a", "", "1.1.0", ""), 0);
	ck_kept(&seen);
	ck_assert_int_eq(call("DEL", "a", "", "1.1.0", ""), 0); /* once more adds nothing */
	ck_assert_uint_lt(traffic().packets, seen.packets + 10);
}
END_TEST

START_TEST(test_gc_keeps)
{
	struct mk_pod_traffic seen;

	new_netns("a");
	new_netns("b");
	add("a");
	add("b");
	(void)after_pings("a", 0);
	seen = after_pings("b", 10);
	ck_assert_int_eq(unlink(STATE "/ipam/10.244.1.2"), 0); /* only its device is left */
	ck_assert_int_eq(call("GC", "", "", "1.1.0", ",\"cni.dev/valid-attachments\":[]"), 0);
	ck_exist(0);
	ck_kept(&seen);
}
END_TEST

/* No table to count in: the device is removed anyway. */
START_TEST(test_no_table)
{
	cleanup_nl struct mk_nl *nl = mk_nl_open(&err);
	struct mk_pod_traffic seen;

	new_netns("a");
	add("a");
	ck_assert_int_eq(unlink(BPF_DIR "/maps/pods_gone"), 0);
	ck_assert_int_eq(call("DEL", "a", "", "1.1.0", ""), 0);
	ck_exist(0);
	ck_assert_int_eq(mk_pod_traffic_read(nl, BPF_DIR, "mk", &seen, &err), -ENOENT);
}
END_TEST

UNIT_SUITE("cni_pod_traffic")
{
	TCase *tc = cni_case(suite, "traffic");

	tcase_add_test(tc, test_del_keeps);
	tcase_add_test(tc, test_gc_keeps);
	tcase_add_test(tc, test_no_table);
}

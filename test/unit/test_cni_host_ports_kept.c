// SPDX-License-Identifier: Apache-2.0
/* Host ports of pods that are gone are released; of other pods, lost entries are restored. */
#include <string.h>

#include "base/cleanup.h"
#include "datapath/pods/pod_table.h"
#include "datapath/pods/pods_internal.h"
#include "pod/endpoint/port_mappings.h"
#include "pod/endpoint/restore.h"
#include "unit/cni_node.h"
#include "unit/host_ports_fixture.h"
#include "unit/unit.h"

static struct mk_error err;

START_TEST(test_taken_over)
{
	add_mapped("a", MAPPINGS(TCP_8080));
	remove_device("a"); /* as if its namespace were removed without DEL */
	add_mapped("b", MAPPINGS(TCP_8080));
	ck_leads(8080, "10.244.1.3");
	del("a");
	ck_leads(8080, "10.244.1.3");
	ck_mapped(1);
}
END_TEST

/* Entries of an address that another pod has now, of an unassigned address, and of a
 * killed removal. */
static void leave_traces(void)
{
	add_mapped("a", MAPPINGS(TCP_8080));
	put_host_port(1, "10.244.1.2", 4711, false);
	put_host_port(2, "10.244.1.99", 4711, false);
	put_host_port(3, "10.244.1.2", host_port_at(8080).ifindex, true);
}

START_TEST(test_gc)
{
	leave_traces();
	ck_assert_int_eq(call("GC", "", "", "1.1.0",
			      ",\"cni.dev/valid-attachments\":[{\"containerID\":\"a\","
			      "\"ifname\":\"eth0\"}]"),
			 0);
	ck_mapped(1);
	ck_leads(8080, "10.244.1.2");
	ck_assert_int_eq(call("GC", "", "", "1.1.0", ",\"cni.dev/valid-attachments\":[]"), 0);
	ck_mapped(0);
}
END_TEST

START_TEST(test_reap)
{
	const struct mk_runtime_change off = { .set_host_ports = true };

	leave_traces();
	ck_ok(mk_runtime_change(BPF_DIR, STATE, &off, &err)); /* a kill before they were told */
	ck_ok(mk_cni_reap(STATE, BPF_DIR, "mk", &err));
	ck_mapped(1);
	ck_leads(8080, "10.244.1.2");
	gone_netns("a");
	remove_device("a");
	ck_assert_int_eq(mk_cni_reap(STATE, BPF_DIR, "mk", &err), 1);
	ck_mapped(0);
}
END_TEST

START_TEST(test_traces_are_taken_over)
{
	leave_traces();
	add_mapped("b", MAPPINGS("{\"hostPort\":1,\"containerPort\":80},"
				 "{\"hostPort\":2,\"containerPort\":80},"
				 "{\"hostPort\":3,\"containerPort\":80}"));
	ck_leads(1, "10.244.1.3");
	ck_leads(2, "10.244.1.3");
	ck_leads(3, "10.244.1.3");
	ck_mapped(4);
}
END_TEST

/* ---- lost entries ---------------------------------------------------------------------------- */

static void empty_host_ports(void)
{
	struct mk_table ports = open_table("host_ports", sizeof(struct mk_host_port_key),
					   sizeof(struct mk_host_port));
	cleanup_free void *keys = NULL;
	size_t count;

	ck_ok(mk_table_keys(&ports, &keys, &count, &err));
	for (size_t i = 0; i < count; i++)
		ck_assert_int_eq(mk_table_delete(&ports, (struct mk_host_port_key *)keys + i, &err),
				 1);
	mk_table_close(&ports);
}

static void ck_restores(int count, size_t *known)
{
	int ret = mk_cni_restore_host_ports(STATE, BPF_DIR, known, &err);

	ck_assert_msg(ret == count, "restored %d, expected %d: %s", ret, count,
		      ret < 0 ? mk_error_text(&err) : "");
}

START_TEST(test_emptied_is_restored)
{
	size_t known = SIZE_MAX;
	struct mk_host_port before;

	add_mapped("a", MAPPINGS(TCP_8080 ",{\"hostPort\":53,\"containerPort\":53,"
					  "\"hostIP\":\"10.0.0.1\",\"protocol\":\"udp\"}"));
	add_mapped("b", MAPPINGS("{\"hostPort\":8081,\"containerPort\":80}"));
	before = host_port_at(8080);
	ck_restores(0, &known);
	empty_host_ports();
	ck_restores(3, &known);
	ck_mapped(3);
	ck_leads(8081, "10.244.1.3");
	ck_assert_mem_eq(&before, &(struct mk_host_port[]){ host_port_at(8080) }, sizeof(before));
	ck_restores(0, &known);
	del("a");
	ck_restores(0, &known);
	empty_host_ports(); /* the previous check saw one entry; a new agent has seen none */
	known = _i ? SIZE_MAX : known;
	ck_restores(1, &known);
	del("b");
	ck_mapped(0);
	ck_restores(0, &known);
	ck_exist(0);
}
END_TEST

/* Another pod has meanwhile taken a port of one of them: the log says so, and the
 * rest is restored. */
START_TEST(test_taken_meanwhile)
{
	size_t known = SIZE_MAX;
	const char *said;

	add_mapped("a", MAPPINGS("{\"hostPort\":7001,\"containerPort\":80}"));
	add_mapped("b", MAPPINGS(TCP_8080 ",{\"hostPort\":7002,\"containerPort\":80}"));
	add_mapped("c", MAPPINGS("{\"hostPort\":7003,\"containerPort\":80}"));
	empty_host_ports();
	add_mapped("d", MAPPINGS(TCP_8080));
	capture_log();
	ck_restores(3, &known);
	said = captured_log();
	ck_assert_msg(strstr(said, "leads to another pod now") &&
			      strstr(said, "port=0.0.0.0:8080/tcp container=b other=10.244.1.5"),
		      "%s", said);
	ck_leads(7001, "10.244.1.2");
	ck_leads(7002, "10.244.1.3");
	ck_leads(7003, "10.244.1.4");
	ck_leads(8080, "10.244.1.5");
	ck_restores(0, &known);
}
END_TEST

/* Entries removed before the agent's first check since they were made are restored. */
START_TEST(test_emptied_at_once)
{
	size_t known = SIZE_MAX;

	ck_restores(0, &known);
	add_mapped("a", MAPPINGS(TCP_8080));
	empty_host_ports();
	ck_restores(1, &known);
	ck_mapped(1);
}
END_TEST

START_TEST(test_untold_is_told)
{
	const struct mk_runtime_change off = { .set_host_ports = true };
	size_t known = SIZE_MAX;

	add_mapped("a", MAPPINGS(TCP_8080));
	ck_restores(0, &known);
	ck_ok(mk_runtime_change(BPF_DIR, STATE, &off, &err));
	ck_restores(1, &known);
	ck_mapped(1);
}
END_TEST

/* A pod whose device is gone, or whose port another pod has taken meanwhile. */
START_TEST(test_what_is_gone_stays_gone)
{
	size_t known = SIZE_MAX;

	add_mapped("a", MAPPINGS(TCP_8080));
	ck_restores(0, &known);
	remove_device("a");
	add_mapped("b", MAPPINGS(TCP_8080));
	empty_host_ports();
	ck_restores(1, &known);
	ck_leads(8080, "10.244.1.3");
	ck_mapped(1);
}
END_TEST

/* ... nor is a pod gone whose entry was removed: it has its device. */
START_TEST(test_pod_without_entry_keeps_ports)
{
	const struct mk_ip ip = ip_of("10.244.1.2");
	const struct mk_addr key = mk_ip_to_addr(&ip);
	size_t known = SIZE_MAX;
	struct mk_table pods;

	add_mapped("a", MAPPINGS(TCP_8080));
	pods = open_table("pods", sizeof(__u32), sizeof(struct mk_pod));
	ck_assert_int_eq(pod_table_delete(&pods, &key, &err), 1);
	mk_table_close(&pods);
	ck_ok(mk_cni_reap(STATE, BPF_DIR, "mk", &err));
	ck_mapped(1);
	ck_restores(0, &known);
	ck_mapped(1);
	new_netns("b");
	ck_fails(call("ADD", "b", netns_path("b"), "1.0.0", MAPPINGS(TCP_8080)), MK_CNI_TRY_AGAIN,
		 "leads to container 'a'");
	ck_leads(8080, "10.244.1.2");
}
END_TEST

UNIT_SUITE("cni_host_ports_kept")
{
	TCase *tc = cni_case(suite, "host_ports");

	tcase_add_test(tc, test_taken_over);
	tcase_add_test(tc, test_gc);
	tcase_add_test(tc, test_reap);
	tcase_add_test(tc, test_traces_are_taken_over);
	tcase_add_loop_test(tc, test_emptied_is_restored, 0, 2);
	tcase_add_test(tc, test_emptied_at_once);
	tcase_add_test(tc, test_taken_meanwhile);
	tcase_add_test(tc, test_untold_is_told);
	tcase_add_test(tc, test_what_is_gone_stays_gone);
	tcase_add_test(tc, test_pod_without_entry_keeps_ports);
}

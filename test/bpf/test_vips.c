// SPDX-License-Identifier: Apache-2.0
/* Packets to addresses of Services, at other ports than theirs: which get an answer, which a
 * refusal, and none may loop. The addresses are a ClusterIP, and an external or load-balancer
 * address. If the latter is a node's own, only the Service's ports are used. */
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"

#define CLUSTER_IP "10.96.0.10"
#define VIP	   "198.51.100.7"

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	uint8_t tcp_flags;
	enum where to;
	const char *seen;
	int reason; /* -1: not counted */
} rows[] = {
	{ "unknown port of an external address, pod", MK_HOOK_POD,
	  "tcp 10.244.1.2:40000 > 198.51.100.7:81", SYN, TO_POD,
	  "icmp-error 198.51.100.7 > 10.244.1.2 3/3 [tcp 10.244.1.2:40000 > 198.51.100.7:81]",
	  MK_DROP_REFUSED },
	{ "unknown port of an external address, host", MK_HOOK_HOST,
	  "tcp 10.18.0.1:40000 > 198.51.100.7:81", SYN, TO_HOST,
	  "icmp-error 198.51.100.7 > 10.18.0.1 3/3 [tcp 10.18.0.1:40000 > 198.51.100.7:81]",
	  MK_DROP_REFUSED },
	{ "unknown port of an external address, outside", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 198.51.100.7:81", SYN, TO_UPLINK,
	  "icmp-error 198.51.100.7 > 203.0.113.10 3/3 [tcp 203.0.113.10:40000 > 198.51.100.7:81]",
	  MK_DROP_REFUSED },
	{ "unknown UDP port of an external address, outside", MK_HOOK_UPLINK,
	  "udp 203.0.113.10:40000 > 198.51.100.7:80", 0, TO_UPLINK,
	  "icmp-error 198.51.100.7 > 203.0.113.10 3/3 [udp 203.0.113.10:40000 > 198.51.100.7:80]",
	  MK_DROP_REFUSED },
	{ "unknown port of a ClusterIP, outside", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 10.96.0.10:81", SYN, TO_UPLINK,
	  "icmp-error 10.96.0.10 > 203.0.113.10 3/3 [tcp 203.0.113.10:40000 > 10.96.0.10:81]",
	  MK_DROP_REFUSED },
	{ "a stray answer to an external address, outside", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:443 > 198.51.100.7:40000", SYN | ACK, TO_UPLINK, NULL,
	  MK_DROP_REFUSED },
	{ "ping of an external address, pod", MK_HOOK_POD, "icmp 10.244.1.2 > 198.51.100.7 77", 0,
	  TO_POD, "icmp 198.51.100.7 > 10.244.1.2 77", -1 },
	{ "ping of an external address, host", MK_HOOK_HOST, "icmp 10.18.0.1 > 198.51.100.7 77", 0,
	  TO_HOST, "icmp 198.51.100.7 > 10.18.0.1 77", -1 },
	{ "ping of an external address, outside", MK_HOOK_UPLINK,
	  "icmp 203.0.113.10 > 198.51.100.7 77", 0, TO_UPLINK,
	  "icmp 198.51.100.7 > 203.0.113.10 77", -1 },
	{ "ping of a ClusterIP, outside", MK_HOOK_UPLINK, "icmp 203.0.113.10 > 10.96.0.10 77", 0,
	  TO_UPLINK, "icmp 10.96.0.10 > 203.0.113.10 77", -1 },
	{ "a Service's port on the node's own address, outside", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:80", SYN, TO_OVERLAY, NULL, -1 },
	{ "another port of the node's own address, outside", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:22", SYN, TO_HOST,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:22", -1 },
	{ "another port of the node's own address, pod", MK_HOOK_POD,
	  "tcp 10.244.1.2:40000 > 192.168.99.11:22", SYN, TO_HOST,
	  "tcp 10.244.1.2:40000 > 192.168.99.11:22", -1 },
	{ "ping of the node's own address, outside", MK_HOOK_UPLINK,
	  "icmp 203.0.113.10 > 192.168.99.11 77", 0, TO_HOST,
	  "icmp 203.0.113.10 > 192.168.99.11 77", -1 },
	{ "another port of the host's second address, outside", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.111:22", SYN, TO_HOST,
	  "tcp 203.0.113.10:40000 > 192.168.99.111:22", -1 },
	{ "an unused address, outside", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 198.51.100.8:80",
	  SYN, TO_HOST, "tcp 203.0.113.10:40000 > 198.51.100.8:80", -1 },
};

static void external(const char *frontend)
{
	fixture_service(frontend, MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE, remote_backend, 0, 1);
	fixture_service(frontend, MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE,
			remote_backend, 0, 1);
}

START_TEST(test_vip)
{
	const struct frame_options options = { .tcp_flags = rows[_i].tcp_flags };
	struct frame in = frame_make(rows[_i].flow, &options);

	external("tcp " CLUSTER_IP ":80");
	external("tcp " VIP ":80");
	external("tcp 192.168.99.11:80");
	fixture_vip(CLUSTER_IP);
	fixture_vip(VIP);
	/* an address of the host that is not in its Node object: marked, but not taken over */
	fixture_vip("192.168.99.111");
	fixture_host_address("192.168.99.111");
	fixture_expect(rows[_i].name, rows[_i].hook, &in, rows[_i].to, rows[_i].seen);
	if (rows[_i].reason >= 0)
		ck_assert_msg(fixture_drops(rows[_i].hook, (enum mk_drop_reason)rows[_i].reason) ==
				      1,
			      "%s: not counted", rows[_i].name);
	ck_assert_uint_eq(fixture_drops_total(), rows[_i].reason >= 0);
}
END_TEST

BPF_SUITE("vips")
{
	TCase *tcase = bpf_case(suite, "vips");

	tcase_add_loop_test(tcase, test_vip, 0, ROWS(rows));
}

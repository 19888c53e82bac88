// SPDX-License-Identifier: Apache-2.0
/* Plain forwarding: one packet by one hook, and where it must go. */
#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <string.h>

#include "bpf/run.h"
#include "datapath/maps/table.h"

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	enum where where;
	int reason; /* of the drop */
	const char *mac_dest; /* NULL: not checked */
	uint8_t ttl; /* afterwards */
} rows[] = {
	{ "pod to pod, same node", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.1.3:80", TO_POD, 0,
	  "02:4d:0a:f4:01:03", 63 },
	{ "pod to pod, other node", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.2.7:80", TO_OVERLAY,
	  0, "02:4d:0a:12:00:02", 63 },
	{ "pod to its own node", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 192.168.99.11:22", TO_HOST, 0,
	  "02:4d:0a:f4:01:fe", 64 },
	{ "pod to its gateway", MK_HOOK_POD, "icmp 10.244.1.2 > 10.244.1.254 5", TO_HOST, 0, NULL,
	  64 },
	{ "pod to its node's VTEP", MK_HOOK_POD, "tcp 10.244.1.2:8080 > 10.18.0.1:40000", TO_HOST,
	  0, NULL, 64 },
	{ "pod to another node's VTEP", MK_HOOK_POD, "tcp 10.244.1.2:8080 > 10.18.0.2:40000",
	  TO_OVERLAY, 0, "02:4d:0a:12:00:02", 63 },
	{ "SCTP between nodes", MK_HOOK_POD, "sctp 10.244.1.2:40000 > 10.244.2.7:80", TO_OVERLAY, 0,
	  NULL, 63 },
	{ "pod to a pod CIDR that no node has", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.244.9.9:80",
	  DROPPED, MK_DROP_NO_ROUTE, NULL, 0 },
	{ "pod to a VTEP that no node has", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.18.0.9:80",
	  DROPPED, MK_DROP_NO_ROUTE, NULL, 0 },
	{ "pod to multicast", MK_HOOK_POD, "udp 10.244.1.2:5353 > 224.0.0.251:5353", DROPPED,
	  MK_DROP_NOT_UNICAST, NULL, 0 },
	{ "pod to broadcast", MK_HOOK_POD, "udp 10.244.1.2:68 > 255.255.255.255:67", DROPPED,
	  MK_DROP_NOT_UNICAST, NULL, 0 },
	{ "pod to loopback", MK_HOOK_POD, "udp 10.244.1.2:68 > 127.0.0.1:67", DROPPED,
	  MK_DROP_NOT_UNICAST, NULL, 0 },
	{ "host to a local pod", MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.244.1.3:80", TO_POD, 0,
	  "02:4d:0a:f4:01:03", 64 },
	{ "another node's pod to a local pod", MK_HOOK_OVERLAY,
	  "tcp 10.244.2.7:40000 > 10.244.1.3:80", TO_POD, 0, "02:4d:0a:f4:01:03", 63 },
	{ "another node's pod to this host", MK_HOOK_OVERLAY,
	  "tcp 10.244.2.7:8080 > 10.18.0.1:40000", TO_HOST, 0, NULL, 64 },
	{ "another node's stray for a third node", MK_HOOK_OVERLAY,
	  "tcp 10.244.2.7:40000 > 10.18.0.2:80", DROPPED, MK_DROP_OVERLAY_STRAY, NULL, 0 },
	{ "another node's stray for outside", MK_HOOK_OVERLAY, "tcp 10.244.2.7:40000 > 8.8.8.8:80",
	  DROPPED, MK_DROP_OVERLAY_STRAY, NULL, 0 },
	{ "outside to the host", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:22",
	  TO_HOST, 0, NULL, 64 },
	{ "outside to the host's NAT range, no session", MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:443 > 192.168.99.11:50000", TO_HOST, 0, NULL, 64 },
	{ "outside pings the host", MK_HOOK_UPLINK, "icmp 203.0.113.10 > 192.168.99.11 50000",
	  TO_HOST, 0, NULL, 64 },
	{ "VXLAN carrier", MK_HOOK_UPLINK, "udp 192.168.99.12:55555 > 192.168.99.11:4789", TO_HOST,
	  0, NULL, 64 },
	{ "the host sends", MK_HOOK_UPLINK_EGRESS, "tcp 192.168.99.11:22 > 203.0.113.10:40000",
	  TO_HOST, 0, NULL, 64 },
};

START_TEST(test_path)
{
	struct frame in = frame_make(rows[_i].flow, NULL), out;
	const char *name = rows[_i].name;

	out = fixture_expect(name, rows[_i].hook, &in, rows[_i].where,
			     rows[_i].where == DROPPED ? NULL : rows[_i].flow);
	if (rows[_i].where == DROPPED) {
		ck_assert_msg(fixture_drops(rows[_i].hook, (enum mk_drop_reason)rows[_i].reason) ==
				      1,
			      "%s: dropped for another reason", name);
		return;
	}
	ck_assert_msg(fixture_drops_total() == 0, "%s: counted as dropped", name);
	ck_assert_msg(frame_ttl(&out) == rows[_i].ttl, "%s: TTL %u", name, frame_ttl(&out));
	if (rows[_i].mac_dest)
		ck_assert_msg(strcmp(frame_mac_dest(&out), rows[_i].mac_dest) == 0,
			      "%s: sent to MAC %s", name, frame_mac_dest(&out));
	if (rows[_i].hook == MK_HOOK_UPLINK || rows[_i].hook == MK_HOOK_UPLINK_EGRESS)
		ck_assert_msg(memcmp(in.byte, out.byte, in.length) == 0, "%s: changed", name);
}
END_TEST

/* The host forwards for another network: the answer must pass the host's stack again. */
START_TEST(test_via_host)
{
	struct frame in = frame_make("tcp 203.0.113.10:40000 > 10.244.1.3:80", NULL);
	struct frame back = frame_make("tcp 10.244.1.3:80 > 203.0.113.10:40000",
				       &(struct frame_options){ .tcp_flags = SYN | ACK });

	fixture_expect("forwarded by the host", MK_HOOK_HOST, &in, TO_POD,
		       "tcp 203.0.113.10:40000 > 10.244.1.3:80");
	fixture_expect("answer to the host's stack", MK_HOOK_POD, &back, TO_HOST,
		       "tcp 10.244.1.3:80 > 203.0.113.10:40000");
}
END_TEST

static int remember(void *ctx, void *data, size_t size)
{
	struct mk_drop_event row;
	const struct mk_drop_event *event = mk_event_row("drop_events", data, size, &row);

	ck_assert_ptr_nonnull(event);
	*(struct mk_drop_event *)ctx = *event;
	return 0;
}

/* A drop is reported in the ring buffer while a listener is attached, and always counted. */
START_TEST(test_drop_is_reported_when_asked)
{
	const struct mk_runtime loud = { .report_drops = 1 };
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.244.9.9:80", NULL);
	struct mk_drop_event event = { 0 };
	struct ring_buffer *ring =
		ring_buffer__new(fixture_map("drop_events"), remember, &event, NULL);

	ck_assert_ptr_nonnull(ring);
	fixture_expect("no listener", MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_int_eq(ring_buffer__consume(ring), 0);
	fixture_runtime(&loud);
	fixture_expect("a listener", MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_int_eq(ring_buffer__consume(ring), 1);
	ck_assert_uint_eq(event.reason, MK_DROP_NO_ROUTE);
	ck_assert_uint_eq(event.hook, MK_HOOK_POD);
	ck_assert_uint_eq(event.length_bytes, in.length);
	ck_assert_uint_eq(event.tuple.dport, htons(80));
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_NO_ROUTE), 2);
	ring_buffer__free(ring);
}
END_TEST

BPF_SUITE("paths")
{
	TCase *tcase = bpf_case(suite, "paths");

	tcase_add_loop_test(tcase, test_path, 0, ROWS(rows));
	tcase_add_test(tcase, test_via_host);
	tcase_add_test(tcase, test_drop_is_reported_when_asked);
}

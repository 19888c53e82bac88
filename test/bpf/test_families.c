// SPDX-License-Identifier: Apache-2.0
/* A node of both families: IPv4's programs have the hooks and pass IPv6's packets on to IPv6's
 * programs (map other_family). Every packet gets the program of its hook, and every drop is counted
 * by its family. */
#include <bpf/bpf.h>
#include <linux/if_ether.h>
#include <string.h>

#include "bpf/run.h"

static void use_ipv4(void)
{
	family_use(AF_INET);
	fixture_both_families();
}

static void use_ipv6(void)
{
	family_use_ipv6();
	fixture_both_families();
}

static void put_services(void)
{
	static const char *const local[] = { "10.244.1.3:8080", NULL }, *const host[] = {
		"192.168.99.11:6443", NULL
	};

	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, local, 1, 1);
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_INTERNAL, 0, local, 1, 1);
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, local, 1,
			1);
	fixture_service("tcp 192.168.99.11:30081", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, host, 1,
			1);
	fixture_runtime(&(struct mk_runtime){ .host_backends = 1 });
}

/* ---- the program of its hook ----------------------------------------------------------------- */

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	enum where where;
	const char *seen; /* NULL: any */
	enum mk_drop_reason reason;
} rows[] = {
	{ "pod to a Service", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", TO_POD,
	  "tcp 10.244.1.2:40000 > 10.244.1.3:8080", 0 },
	{ "pod with another's address", MK_HOOK_POD, "tcp 10.244.1.9:40000 > 10.244.1.3:80",
	  DROPPED, NULL, MK_DROP_SPOOFED_ADDRESS },
	{ "pod to outside", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 203.0.113.10:80", TO_UPLINK, NULL,
	  0 },
	{ "host to a pod", MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.244.1.3:80", TO_POD,
	  "tcp 10.18.0.1:40000 > 10.244.1.3:80", 0 },
	{ "host to no pod", MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.244.9.9:80", DROPPED, NULL,
	  MK_DROP_NO_ROUTE },
	{ "another node's pod", MK_HOOK_OVERLAY, "tcp 10.244.2.7:40000 > 10.244.1.3:80", TO_POD,
	  "tcp 10.244.2.7:40000 > 10.244.1.3:80", 0 },
	{ "another node's stray", MK_HOOK_OVERLAY, "tcp 10.244.2.7:40000 > 10.18.0.2:80", DROPPED,
	  NULL, MK_DROP_OVERLAY_STRAY },
	{ "outside to a NodePort", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:30080",
	  TO_POD, "tcp 203.0.113.10:40000 > 10.244.1.3:8080", 0 },
	{ "outside with a pod's address", MK_HOOK_UPLINK, "tcp 10.244.2.7:40000 > 10.244.1.3:80",
	  DROPPED, NULL, MK_DROP_MARTIAN_SOURCE },
	{ "outside to the host", MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:22",
	  TO_HOST, "tcp 203.0.113.10:40000 > 192.168.99.11:22", 0 },
	{ "host to its own NodePort", HOOK_LOOPBACK,
	  "tcp 192.168.99.11:40000 > 192.168.99.11:30080", TO_HOST_HOOK,
	  "tcp 192.168.99.11:40000 > 192.168.99.11:30080", 0 },
	{ "host to itself", HOOK_LOOPBACK, "tcp 192.168.99.11:40000 > 192.168.99.11:22", TO_HOST,
	  "tcp 192.168.99.11:40000 > 192.168.99.11:22", 0 },
};

START_TEST(test_hook)
{
	struct frame in = frame_make(rows[_i].flow, NULL);

	put_services();
	fixture_expect(rows[_i].name, rows[_i].hook, &in, rows[_i].where, rows[_i].seen);
	ck_assert_msg(fixture_drops_total() == (rows[_i].where == DROPPED), "%s", rows[_i].name);
	if (rows[_i].where == DROPPED)
		ck_assert_msg(fixture_drops(rows[_i].hook, rows[_i].reason) == 1,
			      "%s: dropped for another reason or at another hook", rows[_i].name);
}
END_TEST

/* A backend in the host's network: its answer leaves by the egress of the uplink. */
START_TEST(test_uplink_egress)
{
	struct frame in = frame_make("tcp 203.0.113.10:40000 > 192.168.99.11:30081", NULL);

	put_services();
	fixture_expect("request", MK_HOOK_UPLINK, &in, TO_HOST,
		       "tcp 203.0.113.10:40000 > 192.168.99.11:6443");
	in = frame_make("tcp 192.168.99.11:6443 > 203.0.113.10:40000",
			&(struct frame_options){ .tcp_flags = SYN | ACK });
	fixture_expect("answer", MK_HOOK_UPLINK_EGRESS, &in, TO_HOST,
		       "tcp 192.168.99.11:30081 > 203.0.113.10:40000");
}
END_TEST

/* Run a tunnel's program. Returns the number of bytes that it has added: an Ethernet header. */
static size_t added_by_tunnel(const struct frame *in)
{
	struct frame out;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in->byte, .data_size_in = (__u32)in->length,
		    .data_out = out.byte, .data_size_out = sizeof(out.byte), .repeat = 1);

	ck_assert_int_eq(bpf_prog_test_run_opts(fixture_hook_program(MK_ENTRY_TUNNEL), &opts), 0);
	return opts.data_size_out - in->length;
}

START_TEST(test_tunnel)
{
	struct frame in = frame_make("tcp 203.0.113.10:40000 > 192.168.99.11:22", NULL);

	memset(in.byte, 0, ETH_ALEN); /* for this device */
	ck_assert_uint_eq(added_by_tunnel(&in), ETH_HLEN);
}
END_TEST

/* ---- IPv6's programs are not there ----------------------------------------------------------- */

static struct frame make_ipv6(const char *flow)
{
	struct frame frame;

	family_use_ipv6();
	frame = frame_make(flow, NULL);
	family_use(AF_INET);
	return frame;
}

static const struct {
	const char *name;
	enum mk_hook hook;
	enum where where;
} empty[] = {
	{ "pod", MK_HOOK_POD, DROPPED },
	{ "host", MK_HOOK_HOST, DROPPED },
	{ "overlay", MK_HOOK_OVERLAY, DROPPED },
	{ "uplink", MK_HOOK_UPLINK, TO_HOST },
	{ "egress", MK_HOOK_UPLINK_EGRESS, TO_HOST },
	{ "loopback", HOOK_LOOPBACK, TO_HOST },
};

START_TEST(test_empty_slot)
{
	struct frame in = make_ipv6("tcp 10.244.1.2:40000 > 10.244.1.3:80"), out;

	ck_assert_msg(fixture_send(empty[_i].hook, &in, &out) == empty[_i].where, "%s",
		      empty[_i].name);
	ck_assert_uint_eq(fixture_drops_total(), empty[_i].where == DROPPED);
	if (empty[_i].where == DROPPED)
		ck_assert_uint_eq(fixture_drops(empty[_i].hook, MK_DROP_NOT_IPV4), 1);
	ck_assert_uint_eq(out.length, in.length);
	ck_assert_mem_eq(out.byte, in.byte, in.length);
}
END_TEST

/* Frames of neither family are not passed on. */
START_TEST(test_neither)
{
	struct frame in = make_ipv6("tcp 10.244.1.2:40000 > 10.244.1.3:80"), out;

	in.byte[12] = ETH_P_ARP >> 8;
	in.byte[13] = ETH_P_ARP & 0xff;
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_NOT_IPV4), 1);
}
END_TEST

static TCase *case_of(Suite *suite, const char *name, SFun setup)
{
	TCase *tcase = bpf_case_after(suite, name, setup, family_use_again);

	tcase_add_loop_test(tcase, test_hook, 0, ROWS(rows));
	tcase_add_test(tcase, test_uplink_egress);
	tcase_add_test(tcase, test_tunnel);
	return tcase;
}

BPF_SUITE("both families")
{
	TCase *tcase = case_of(suite, "IPv4 with IPv6 behind", use_ipv4);

	tcase_add_loop_test(tcase, test_empty_slot, 0, ROWS(empty));
	tcase_add_test(tcase, test_neither);
	case_of(suite, "IPv6 behind IPv4", use_ipv6);
}

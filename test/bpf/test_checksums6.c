// SPDX-License-Identifier: Apache-2.0
/* ICMPv6's checksum is also of the addresses, and in an error of all that is quoted: it changes
 * with the addresses of the packet, and with what changes in the quote. Always in a run for IPv6. */
#include <linux/if_ether.h>
#include <string.h>

#include "bpf/run.h"

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };

enum { QUOTE_MIN = 28 }; /* with an IPv4 header */

static const struct {
	const char *name, *request, *sent, *error, *seen;
	enum mk_hook hook, error_hook;
	enum where where, error_where;
} rows[] = {
	{ "Service, TCP", "tcp 10.244.1.2:40000 > 10.96.0.10:80",
	  "tcp 10.244.1.2:40000 > 10.244.2.7:8080", "icmp 10.244.2.7 > 10.244.1.2",
	  "icmp-error 10.96.0.10 > 10.244.1.2 3/4 [tcp 10.244.1.2:40000 > 10.96.0.10:80]",
	  MK_HOOK_POD, MK_HOOK_OVERLAY, TO_OVERLAY, TO_POD },
	{ "Service, UDP, from a router on the way", "udp 10.244.1.2:40000 > 10.96.0.10:53",
	  "udp 10.244.1.2:40000 > 10.244.2.7:8080", "icmp 10.18.0.2 > 10.244.1.2",
	  "icmp-error 10.18.0.2 > 10.244.1.2 3/4 [udp 10.244.1.2:40000 > 10.96.0.10:53]",
	  MK_HOOK_POD, MK_HOOK_OVERLAY, TO_OVERLAY, TO_POD },
	{ "masqueraded, UDP", "udp 10.244.1.2:40000 > 203.0.113.10:53", NULL,
	  "icmp 192.0.2.1 > 192.168.99.11",
	  "icmp-error 192.0.2.1 > 10.244.1.2 3/4 [udp 10.244.1.2:40000 > 203.0.113.10:53]",
	  MK_HOOK_POD, MK_HOOK_UPLINK, TO_UPLINK, TO_POD },
	{ "masqueraded, a ping", "icmp 10.244.1.2 > 203.0.113.10 7", NULL,
	  "icmp 192.0.2.1 > 192.168.99.11",
	  "icmp-error 192.0.2.1 > 10.244.1.2 3/4 [icmp 10.244.1.2 > 203.0.113.10 7]", MK_HOOK_POD,
	  MK_HOOK_UPLINK, TO_UPLINK, TO_POD },
};

/* Each length of quote, whose last byte may be the first of a word, or cut the checksum off. */
static void send_errors(int row)
{
	const struct frame_options with = { .payload_bytes = 160 };
	struct frame in = frame_make(rows[row].request, &with), sent;

	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	sent = fixture_expect(rows[row].name, rows[row].hook, &in, rows[row].where, rows[row].sent);
	for (size_t bytes = QUOTE_MIN; bytes + 20 <= sent.length - ETH_HLEN; bytes++) {
		const struct frame_options about = { .icmp_type = 3,
						     .icmp_code = 4,
						     .icmp_mtu = 1400,
						     .quote = &sent,
						     .quote_bytes = bytes };
		struct frame error = frame_make(rows[row].error, &about);

		fixture_expect(rows[row].name, rows[row].error_hook, &error, rows[row].error_where,
			       rows[row].seen);
	}
	ck_assert_uint_eq(fixture_drops_total(), 0);
}

START_TEST(test_errors)
{
	send_errors(_i);
}
END_TEST

START_TEST(test_errors_with_sum_of_device)
{
	if (fixture_checksum_complete())
		send_errors(_i);
}
END_TEST

/* A datagram without a checksum keeps none (RFC 6936). */
START_TEST(test_no_checksum)
{
	struct frame in = frame_make("udp 10.244.1.2:40000 > 10.96.0.10:53",
				     &(struct frame_options){ .no_checksum = true }),
		     out;

	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	out = fixture_expect("no checksum", MK_HOOK_POD, &in, TO_OVERLAY,
			     "udp 10.244.1.2:40000 > 10.244.2.7:8080");
	ck_assert_uint_eq(frame_number(&out, frame_l4(&out) + 6, 2), 0);
}
END_TEST

BPF_SUITE("checksums of ICMPv6")
{
	TCase *tcase = bpf_case_ipv6(suite, "checksums6");

	tcase_add_loop_test(tcase, test_errors, 0, ROWS(rows));
	tcase_add_loop_test(tcase, test_errors_with_sum_of_device, 0, ROWS(rows));
	tcase_add_test(tcase, test_no_checksum);
}

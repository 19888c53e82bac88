// SPDX-License-Identifier: Apache-2.0
/* Checksums of translated packets, as a sender or a device leaves them: complete ones, UDP without
 * one, and the device's sum over a frame (CHECKSUM_COMPLETE). lab/t_checksums.sh tests checksums
 * that the kernel has still to complete. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"

#define SAME_SUM "10.96.1.151" /* the same sum as 10.244.1.3 */

static void setup(void)
{
	static const char *const backends[] = { "10.244.1.3:8080", NULL };

	fixture_reset();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, backends, 1, 1);
	fixture_service("udp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, backends, 1, 1);
	fixture_service("tcp 10.96.0.10:8080", MK_SCOPE_INTERNAL, 0, backends, 1, 1);
	fixture_service("udp 10.96.0.10:8080", MK_SCOPE_INTERNAL, 0, backends, 1, 1);
	fixture_service("tcp " SAME_SUM ":80", MK_SCOPE_INTERNAL, 0, backends, 1, 1);
	fixture_service("udp " SAME_SUM ":80", MK_SCOPE_INTERNAL, 0, backends, 1, 1);
	fixture_service("udp " SAME_SUM ":8080", MK_SCOPE_INTERNAL, 0, backends, 1, 1);
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MASQUERADE,
			backends, 1, 1);
}

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *proto, *client, *server;
	enum where to;
} rows[] = {
	{ "TCP, another port", MK_HOOK_POD, "tcp", "10.244.1.2", "10.96.0.10:80", TO_POD },
	{ "UDP, another port", MK_HOOK_POD, "udp", "10.244.1.2", "10.96.0.10:80", TO_POD },
	{ "TCP, the same port", MK_HOOK_POD, "tcp", "10.244.1.2", "10.96.0.10:8080", TO_POD },
	{ "UDP, the same port", MK_HOOK_POD, "udp", "10.244.1.2", "10.96.0.10:8080", TO_POD },
	{ "TCP, another port, the sum of addresses stays", MK_HOOK_POD, "tcp", "10.244.1.2",
	  SAME_SUM ":80", TO_POD },
	{ "UDP, another port, the sum of addresses stays", MK_HOOK_POD, "udp", "10.244.1.2",
	  SAME_SUM ":80", TO_POD },
	{ "UDP, the same port, the sum of addresses stays", MK_HOOK_POD, "udp", "10.244.1.2",
	  SAME_SUM ":8080", TO_POD },
	{ "TCP, another source, too", MK_HOOK_HOST, "tcp", "192.168.99.11", "10.96.0.10:80",
	  TO_POD },
	{ "TCP from outside, another source, too", MK_HOOK_UPLINK, "tcp", "203.0.113.10",
	  "192.168.99.11:30080", TO_POD },
	{ "TCP to outside, another source", MK_HOOK_POD, "tcp", "10.244.1.2", "203.0.113.10:443",
	  TO_UPLINK },
	{ "UDP to outside, another source", MK_HOOK_POD, "udp", "10.244.1.2", "203.0.113.10:53",
	  TO_UPLINK },
	{ "UDP without a checksum", MK_HOOK_POD, "udp", "10.244.1.2", "10.96.0.10:80", TO_POD },
};
#define WITH_CHECKSUM (ROWS(rows) - 1) /* the last row has none */

/* Send many source ports and payloads, which give checksums of all kinds. */
static void send_many(int row)
{
	for (unsigned port = 1024; port < 1024 + 128; port++) {
		const struct frame_options options = { .no_checksum = row >= WITH_CHECKSUM,
						       .payload_bytes = (uint16_t)(port % 32) };
		char flow[96];
		struct frame in;

		snprintf(flow, sizeof(flow), "%s %s:%u > %s", rows[row].proto, rows[row].client,
			 port, rows[row].server);
		in = frame_make(flow, &options);
		fixture_expect(rows[row].name, rows[row].hook, &in, rows[row].to, NULL);
		fixture_expect(rows[row].name, rows[row].hook, &in, rows[row].to, NULL);
	}
}

START_TEST(test_complete)
{
	send_many(_i);
}
END_TEST

START_TEST(test_sum_of_device)
{
	if (fixture_checksum_complete())
		send_many(_i);
}
END_TEST

/* Return the checksum of a datagram from source port @port where it arrives. */
static uint16_t seen_from(unsigned port)
{
	char flow[96];
	struct frame in, out;

	snprintf(flow, sizeof(flow), "udp 10.244.1.2:%u > 10.96.0.10:80", port);
	in = frame_make(flow, NULL);
	out = fixture_expect(flow, MK_HOOK_POD, &in, TO_POD, NULL);
	return (uint16_t)frame_number(&out, frame_l4(&out) + 6, 2);
}

/* UDP writes a checksum of 0 as 0xffff, because 0 means none. The port is increased by the amount
 * that makes the checksum 0. */
START_TEST(test_zero)
{
	unsigned port = 1024, sum = port + seen_from(port);

	ck_assert_uint_ne(sum, port);
	ck_assert_uint_eq(seen_from(sum > 0xffff ? sum - 0xffff : sum), 0xffff);
}
END_TEST

static void use_earlier_kernel(void)
{
	family_use_ipv6();
	fixture_before_linux_6_16();
}

static void add_rows(TCase *checksums)
{
	tcase_add_checked_fixture(checksums, setup, NULL);
	tcase_add_loop_test(checksums, test_complete, 0, ROWS(rows));
	tcase_add_loop_test(checksums, test_sum_of_device, 0, WITH_CHECKSUM);
	tcase_add_test(checksums, test_zero);
}

BPF_SUITE("checksums")
{
	add_rows(bpf_case(suite, "checksums"));
	add_rows(bpf_case_after(suite, "IPv6 before Linux 6.16", use_earlier_kernel,
				family_use_again));
}

// SPDX-License-Identifier: Apache-2.0
/* A pod that forges packets. Each packet here is dropped for its own reason and leaves no entry in
 * a table. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <string.h>

#include "bpf/run.h"

static const char *const node_backend[] = { "192.168.99.12:4789", NULL };

/* ---- the overlay's port: what a VXLAN device unpacks counts as another node's --------------------- */

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	enum where where; /* DROPPED: as MK_DROP_OVERLAY_FORGED */
} carriers[] = {
	{ "to another node, would be masqueraded", MK_HOOK_POD,
	  "udp 10.244.1.2:40000 > 192.168.99.12:4789", DROPPED },
	{ "to its own node", MK_HOOK_POD, "udp 10.244.1.2:40000 > 192.168.99.11:4789", DROPPED },
	{ "to its gateway", MK_HOOK_POD, "udp 10.244.1.2:40000 > 10.244.1.254:4789", DROPPED },
	{ "to its node's overlay address", MK_HOOK_POD, "udp 10.244.1.2:40000 > 10.18.0.1:4789",
	  DROPPED },
	{ "from another node's pod to the overlay address", MK_HOOK_OVERLAY,
	  "udp 10.244.2.7:40000 > 10.18.0.1:4789", DROPPED },
	{ "from another node's pod to the gateway", MK_HOOK_OVERLAY,
	  "udp 10.244.2.7:40000 > 10.244.1.254:4789", DROPPED },
	{ "to a Service whose endpoint is a node", MK_HOOK_POD,
	  "udp 10.244.1.2:40000 > 10.96.0.10:53", DROPPED },
	{ "to outside", MK_HOOK_POD, "udp 10.244.1.2:40000 > 203.0.113.10:4789", DROPPED },
	{ "between pods: not unpacked", MK_HOOK_POD, "udp 10.244.1.2:40000 > 10.244.1.3:4789",
	  TO_POD },
	{ "TCP", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 192.168.99.12:4789", TO_UPLINK },
	{ "a node's own", MK_HOOK_UPLINK, "udp 192.168.99.12:40000 > 192.168.99.11:4789", TO_HOST },
};

START_TEST(test_carrier)
{
	struct frame in =
		frame_make(carriers[_i].flow, &(struct frame_options){ .payload_bytes = 64 });
	bool dropped = carriers[_i].where == DROPPED;

	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, node_backend, 0, 1);
	fixture_expect(carriers[_i].name, carriers[_i].hook, &in, carriers[_i].where, NULL);
	ck_assert_msg(fixture_drops(carriers[_i].hook, MK_DROP_OVERLAY_FORGED) == dropped,
		      "%s: not counted", carriers[_i].name);
	ck_assert_uint_eq(fixture_drops_total(), dropped);
}
END_TEST

/* ---- IP options ----------------------------------------------------------------------------------- */

#define OPTION "extension headers are in test_headers6"

static const struct {
	const char *name;
	uint8_t option[12], bytes; /* the rest: no operation */
	int reason; /* -1: passes */
} options[] = {
	{ IPV4_ONLY(OPTION) "no operation", { 1, 1, 1, 1 }, 4, -1 },
	{ IPV4_ONLY(OPTION) "record route", { 7, 7, 4, 0, 0, 0, 0 }, 7, -1 },
	{ IPV4_ONLY(OPTION) "router alert", { 148, 4, 0, 0 }, 4, -1 },
	{ IPV4_ONLY(OPTION) "loose source route",
	  { 131, 7, 4, 10, 244, 1, 3 },
	  7,
	  MK_DROP_SOURCE_ROUTE },
	{ IPV4_ONLY(OPTION) "strict source route",
	  { 137, 7, 4, 10, 244, 1, 3 },
	  7,
	  MK_DROP_SOURCE_ROUTE },
	{ IPV4_ONLY(OPTION) "source route behind another option",
	  { 148, 4, 0, 0, 1, 131, 7, 4, 10, 244, 1, 3 },
	  12,
	  MK_DROP_SOURCE_ROUTE },
	{ IPV4_ONLY(OPTION) "source route inside another option",
	  { 7, 7, 4, 131, 137, 131, 137 },
	  7,
	  -1 },
	{ IPV4_ONLY(OPTION) "source route behind the end", { 0, 131, 7, 4, 10, 244, 1, 3 }, 8, -1 },
	{ IPV4_ONLY(OPTION) "option of no length", { 148, 0 }, 2, MK_DROP_BAD_HEADER },
	{ IPV4_ONLY(OPTION) "option longer than the header", { 148, 255 }, 2, -1 },
};

START_TEST(test_option)
{
	struct frame in = frame_make("udp 10.244.1.2:40000 > 10.244.1.3:53",
				     &(struct frame_options){ .ip_option_words = 10 });
	bool passes = options[_i].reason < 0;

	if (family_leaves_out(options[_i].name))
		return;
	memcpy(in.byte + ETH_HLEN + 20, options[_i].option, options[_i].bytes);
	frame_fix_ip_checksum(&in);
	fixture_expect(options[_i].name, MK_HOOK_POD, &in, passes ? TO_POD : DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops_total(), !passes);
	if (!passes)
		ck_assert_uint_eq(
			fixture_drops(MK_HOOK_POD, (enum mk_drop_reason)options[_i].reason), 1);
}
END_TEST

/* ---- ICMP errors ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	const char *quoted, *error;
	size_t quote_bytes;
	int reason; /* -1: passes */
} errors[] = {
	{ "about a packet that it got", "udp 10.244.1.3:40000 > 10.244.1.2:53",
	  "icmp 10.244.1.2 > 10.244.1.3", 0, -1 },
	{ "about another pod's flow with a Service", "tcp 10.244.1.3:40000 > 10.96.0.10:80",
	  "icmp 10.244.1.2 > 10.244.1.3", 0, MK_DROP_FORGED_ERROR },
	{ "about what another pod got", "tcp 203.0.113.10:40000 > 10.244.1.3:80",
	  "icmp 10.244.1.2 > 203.0.113.10", 0, MK_DROP_FORGED_ERROR },
	{ "about a packet that it sent itself", "tcp 10.244.1.2:40000 > 10.244.1.3:80",
	  "icmp 10.244.1.2 > 10.244.1.3", 0, MK_DROP_FORGED_ERROR },
	{ "that quotes next to nothing", "udp 10.244.1.3:40000 > 10.244.1.2:53",
	  "icmp 10.244.1.2 > 10.244.1.3", 12, MK_DROP_TRUNCATED },
};

START_TEST(test_error)
{
	struct frame quoted = frame_make(errors[_i].quoted, NULL);
	struct frame_options about = { .icmp_type = 3,
				       .icmp_code = 3,
				       .quote = &quoted,
				       .quote_bytes = errors[_i].quote_bytes };
	struct frame in = frame_make(errors[_i].error, &about);
	bool passes = errors[_i].reason < 0;

	fixture_expect(errors[_i].name, MK_HOOK_POD, &in, passes ? TO_POD : DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops_total(), !passes);
	if (!passes)
		ck_assert_msg(fixture_drops(MK_HOOK_POD, (enum mk_drop_reason)errors[_i].reason) ==
				      1,
			      "%s: dropped for another reason", errors[_i].name);
}
END_TEST

/* ---- fragments ------------------------------------------------------------------------------------ */

/* The ports of a first fragment are stored by its addresses, but not if the pod has neither of
 * them. */
START_TEST(test_spoofed_first_fragment)
{
	struct frame_options spoofed = { .fragment = MF, .payload_bytes = 16, .id = 7 };
	struct frame_options stolen = spoofed;
	struct frame in = frame_make("udp 10.244.1.99:40000 > 10.96.0.10:53", &spoofed);

	stolen.source_mac = "02:4d:0a:f4:01:03";
	fixture_expect("another address", MK_HOOK_POD, &in, DROPPED, NULL);
	in = frame_make("udp 10.244.1.2:40000 > 10.96.0.10:53", &stolen);
	fixture_expect("another MAC", MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_count("fragments"), 0);
	in = frame_make("udp 10.244.1.2:40000 > 10.244.1.3:53", &spoofed);
	fixture_expect("its own", MK_HOOK_POD, &in, TO_POD, NULL);
	ck_assert_uint_eq(fixture_count("fragments"), 1);
}
END_TEST

BPF_SUITE("hostile pods")
{
	TCase *tcase = bpf_case(suite, "hostile");

	tcase_add_loop_test(tcase, test_carrier, 0, ROWS(carriers));
	tcase_add_loop_test(tcase, test_option, 0, ROWS(options));
	tcase_add_loop_test(tcase, test_error, 0, ROWS(errors));
	tcase_add_test(tcase, test_spoofed_first_fragment);
}

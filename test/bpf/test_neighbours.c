// SPDX-License-Identifier: Apache-2.0
/* IPv6's messages of a link: neighbour discovery, router advertisements, redirects, multicast
 * listeners. None passes between pods, host and nodes, and uplinks keep their own. Always in a run
 * for IPv6. */
#include <linux/if_ether.h>
#include <netinet/icmp6.h>
#include <string.h>

#include "bpf/peers.h"
#include "bpf/policy.h"
#include "bpf/run.h"

#define POD	    "fd00:a:f4:1::2"
#define OTHER_POD   "fd00:a:f4:1::3"
#define GATEWAY	    "fd00:a:f4:1::3fe"
#define FAR_POD	    "fd00:a:f4:2::7"
#define NODE	    "fd00:c0:a8:63::b"
#define ROUTER	    "fe80::1"
#define ALL_NODES   "ff02::1"
#define ALL_ROUTERS "ff02::2"
#define SOLICITED   "ff02::1:ff00:3fe" /* of the gateway */
#define POD_MAC	    "02:4d:0a:f4:01:02"
#define LISTENERS   143 /* report of version 2 (RFC 3810) */

enum { IP6 = ETH_HLEN, SOURCE = IP6 + 8, DEST = IP6 + 24, HOP_LIMIT = IP6 + 7, L4 = IP6 + 40 };

struct message {
	uint8_t type, code, hop_limit; /* hop_limit 0: 255 */
	const char *source, *dest, *target; /* target NULL: the message has none */
	const char *source_mac; /* NULL: the first pod's */
	bool bad_checksum, with_option; /* the option: the sender's link-layer address */
};

static void put_address(struct frame *frame, size_t at, const char *text)
{
	struct mk_ip ip;

	ck_assert_int_eq(mk_ip_parse(text, &ip), 0);
	memcpy(frame->byte + at, &ip.v6, sizeof(ip.v6));
}

/* Write the option 1 or 2 of neighbour discovery, an address of the link layer. */
static void put_link_option(struct frame *frame, size_t at, uint8_t option)
{
	frame->byte[at] = option;
	frame->byte[at + 1] = 1; /* unit of 8 bytes */
	memcpy(frame->byte + at + 2, frame->byte + ETH_ALEN, ETH_ALEN);
}

static struct frame make(const struct message *m)
{
	size_t bytes = (m->target ? 24u : 8u) + (m->with_option ? 8u : 0u);
	struct frame frame =
		frame_make("icmp 10.244.1.2 > 10.244.1.3 0",
			   &(struct frame_options){
				   .payload_bytes = (uint16_t)(bytes - 8),
				   .source_mac = m->source_mac ? m->source_mac : POD_MAC,
				   .ttl = m->hop_limit ? m->hop_limit : 255,
			   });

	memset(frame.byte + L4, 0, bytes);
	frame.byte[L4] = m->type;
	frame.byte[L4 + 1] = m->code;
	put_address(&frame, SOURCE, m->source);
	put_address(&frame, DEST, m->dest);
	if (m->target)
		put_address(&frame, L4 + 8, m->target);
	if (m->with_option)
		put_link_option(&frame, L4 + bytes - 8, 1);
	frame_fix_icmp_checksum(&frame);
	frame.byte[L4 + 2] ^= m->bad_checksum;
	return frame;
}

/* ---- a pod asks for its gateway ----------------------------------------------------------------- */

static const struct {
	const char *name;
	struct message message;
} answered[] = {
	{ "to the gateway's group",
	  { ND_NEIGHBOR_SOLICIT, .source = POD, .dest = SOLICITED, .target = GATEWAY,
	    .with_option = true } },
	{ "to the gateway",
	  { ND_NEIGHBOR_SOLICIT, .source = POD, .dest = GATEWAY, .target = GATEWAY,
	    .with_option = true } },
	{ "without its own MAC",
	  { ND_NEIGHBOR_SOLICIT, .source = POD, .dest = GATEWAY, .target = GATEWAY } },
};

static void expect_address(const char *name, const struct frame *frame, size_t at, const char *text)
{
	struct mk_ip ip;

	ck_assert_int_eq(mk_ip_parse(text, &ip), 0);
	ck_assert_msg(memcmp(frame->byte + at, &ip.v6, sizeof(ip.v6)) == 0, "%s: no %s at byte %zu",
		      name, text, at);
}

START_TEST(test_answered)
{
	static const uint8_t option[] = { 2, 1, 0x02, 0x4d, 0x0a, 0xf4, 0x01, 0xfe };
	const char *name = answered[_i].name;
	struct frame in = make(&answered[_i].message), out;

	out = fixture_expect(name, MK_HOOK_POD, &in, TO_POD, NULL);
	ck_assert_uint_eq(out.length, L4 + 32);
	ck_assert_str_eq(frame_mac_dest(&out), POD_MAC);
	ck_assert_uint_eq(out.byte[HOP_LIMIT], 255);
	ck_assert_uint_eq(frame_number(&out, L4, 2), ND_NEIGHBOR_ADVERT << 8);
	ck_assert_uint_eq(frame_number(&out, L4 + 4, 4),
			  0xe0000000); /* router, solicited, override */
	expect_address(name, &out, SOURCE, GATEWAY);
	expect_address(name, &out, DEST, POD);
	expect_address(name, &out, L4 + 8, GATEWAY);
	ck_assert_int_eq(memcmp(out.byte + L4 + 24, option, sizeof(option)), 0);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* ---- all else of a pod -------------------------------------------------------------------------- */

#define SOLICITATION ND_NEIGHBOR_SOLICIT, .source = POD, .dest = SOLICITED, .target = GATEWAY

static const struct {
	const char *name;
	struct message message;
} dropped[] = {
	{ "solicitation through a router", { SOLICITATION, .hop_limit = 254 } },
	{ "solicitation of another code", { SOLICITATION, .code = 1 } },
	{ "solicitation, wrong checksum", { SOLICITATION, .bad_checksum = true } },
	{ "solicitation with another pod's MAC",
	  { SOLICITATION, .source_mac = "02:4d:0a:f4:01:03" } },
	{ "solicitation from another pod's address",
	  { ND_NEIGHBOR_SOLICIT, .source = OTHER_POD, .dest = SOLICITED, .target = GATEWAY } },
	{ "solicitation for another pod",
	  { ND_NEIGHBOR_SOLICIT, .source = POD, .dest = "ff02::1:ff00:3", .target = OTHER_POD } },
	{ "solicitation for the node",
	  { ND_NEIGHBOR_SOLICIT, .source = POD, .dest = "ff02::1:ff00:b", .target = NODE } },
	{ "solicitation for its own address",
	  { ND_NEIGHBOR_SOLICIT, .source = POD, .dest = "ff02::1:ff00:2", .target = POD } },
	{ "duplicate address detection",
	  { ND_NEIGHBOR_SOLICIT, .source = "::", .dest = "ff02::1:ff00:2", .target = POD } },
	{ "duplicate address detection of the gateway",
	  { ND_NEIGHBOR_SOLICIT, .source = "::", .dest = SOLICITED, .target = GATEWAY } },
	{ "router solicitation", { ND_ROUTER_SOLICIT, .source = POD, .dest = ALL_ROUTERS } },
	{ "router solicitation, no address",
	  { ND_ROUTER_SOLICIT, .source = "::", .dest = ALL_ROUTERS } },
	{ "router advertisement",
	  { ND_ROUTER_ADVERT, .source = ROUTER, .dest = ALL_NODES, .target = "::" } },
	{ "router advertisement to a pod",
	  { ND_ROUTER_ADVERT, .source = POD, .dest = OTHER_POD, .target = "::" } },
	{ "router advertisement to another node's pod, hop limit 64",
	  { ND_ROUTER_ADVERT, .source = POD, .dest = FAR_POD, .target = "::", .hop_limit = 64 } },
	{ "router advertisement to the node",
	  { ND_ROUTER_ADVERT, .source = POD, .dest = NODE, .target = "::" } },
	{ "neighbour advertisement to all",
	  { ND_NEIGHBOR_ADVERT, .source = POD, .dest = ALL_NODES, .target = GATEWAY } },
	{ "neighbour advertisement to a pod",
	  { ND_NEIGHBOR_ADVERT, .source = POD, .dest = OTHER_POD, .target = GATEWAY } },
	{ "neighbour advertisement to the gateway",
	  { ND_NEIGHBOR_ADVERT, .source = POD, .dest = GATEWAY, .target = POD } },
	{ "redirect to a pod",
	  { ND_REDIRECT, .source = GATEWAY, .dest = OTHER_POD, .target = POD } },
	{ "redirect to another node's pod",
	  { ND_REDIRECT, .source = POD, .dest = FAR_POD, .target = POD } },
	{ "multicast listener query", { 130, .source = POD, .dest = ALL_NODES, .target = "::" } },
	{ "multicast listener report",
	  { 131, .source = POD, .dest = "ff02::1:ff00:2", .target = "ff02::1:ff00:2" } },
	{ "multicast listener report, version 2",
	  { LISTENERS, .source = "::", .dest = "ff02::16" } },
};

START_TEST(test_dropped)
{
	struct frame in = make(&dropped[_i].message);

	fixture_expect(dropped[_i].name, MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_msg(fixture_drops(MK_HOOK_POD, MK_DROP_NEIGHBOUR_DISCOVERY) == 1 &&
			      fixture_drops_total() == 1,
		      "%s: dropped for another reason", dropped[_i].name);
}
END_TEST

/* ---- to a pod, from any hook -------------------------------------------------------------------- */

static const enum mk_hook hooks[] = { MK_HOOK_POD,    MK_HOOK_HOST,	     MK_HOOK_OVERLAY,
				      MK_HOOK_UPLINK, MK_HOOK_UPLINK_EGRESS, HOOK_LOOPBACK };

/* Does a pod get it? Other outcomes differ by the hook. */
static bool reaches_pod(enum mk_hook hook, const struct frame *in)
{
	enum where where;
	struct frame out;

	where = fixture_send(hook, in, &out);
	return where == TO_POD || where == TO_OVERLAY;
}

START_TEST(test_never_to_a_pod)
{
	static const char *const sources[] = { ROUTER, POD, FAR_POD, NODE, GATEWAY, "::" };
	static const char *const dests[] = { OTHER_POD, FAR_POD, ALL_NODES };
	enum mk_hook hook = hooks[_i];

	for (uint8_t type = ND_ROUTER_SOLICIT; type <= ND_REDIRECT; type++) {
		for (int i = 0; i < ROWS(sources) * ROWS(dests); i++) {
			const struct message message = { .type = type,
							 .source = sources[i / ROWS(dests)],
							 .dest = dests[i % ROWS(dests)],
							 .target = POD,
							 .with_option = true };
			struct frame in = make(&message);

			ck_assert_msg(!reaches_pod(hook, &in), "type %u from %s to %s by hook %d",
				      type, message.source, message.dest, hook);
		}
	}
}
END_TEST

/* Pods of another cluster reach no link of this one either. */
START_TEST(test_of_another_cluster)
{
	static const uint8_t types[] = { 130, 131, 132, 133, 134, 135, 136, 137, LISTENERS };
	struct frame in = peers_frame(PEER_EAST, FIXTURE_CLUSTER, "icmp 10.244.2.9 > 10.244.1.3 7",
				      &(struct frame_options){ .payload_bytes = 16, .ttl = 255 });

	peers_reset();
	fixture_expect("a ping", MK_HOOK_CLUSTER, &in, TO_POD, NULL);
	for (int i = 0; i < ROWS(types); i++) {
		in.byte[L4] = types[i];
		frame_fix_icmp_checksum(&in);
		peers_expect_drop("to a pod", MK_HOOK_CLUSTER, &in, MK_DROP_NEIGHBOUR_DISCOVERY);
	}
}
END_TEST

#define A     "10.244.1.2"
#define R     "10.244.2.7"
#define VTEP2 "10.18.0.2"
#define CHAIN                                                                 \
	"chain 1 1", "function 1 1", "set e any=all+1 unknown=all+1 *=all+1", \
		"pod 10.244.1.2 in=open out=e"
#define THERE	      "icmp " A " > " R " 7"
#define BACK	      "icmp " R " > " A " 7"
#define DISCOVERS(to) to " solicits = NEIGHBOUR_DISCOVERY"

/* Functions of chains send and get none, on this node or between nodes. Rows as in policy.h. */
static const struct policy_row of_functions[] = {
	{ "a function's neighbour message enters no link",
	  { CHAIN, "replica 1 bridged", "pod " THERE " = into 1 inside " A,
	    "from 1 outside = passes", "from 1 outside " DISCOVERS(THERE),
	    "from 1 inside " DISCOVERS(BACK) } },
	{ ".. by the device of chains",
	  { CHAIN, "replica 1 on " VTEP2, "pod " THERE " = to " VTEP2 " 1 inside 0",
	    "returns 1 outside = passes", "returns 1 outside " DISCOVERS(THERE),
	    "returns 1 inside " DISCOVERS(BACK) } },
	{ ".. and enters no function by it",
	  { "replica 1 bridged", "arrives 1 inside 3 " BACK " = into 1 inside " R,
	    "arrives 1 inside 3 " DISCOVERS(BACK) } },
};

START_TEST(test_of_functions)
{
	policy_run(&of_functions[_i]);
}
END_TEST

/* No pod gets a packet from a link-local address: those of two links are not the same host. */
START_TEST(test_link_local_source)
{
	enum mk_hook hook = hooks[_i];
	static const char *const flows[] = { "udp 169.254.7.7:53 > 10.244.1.3:53",
					     "tcp 169.254.7.7:53 > 10.244.2.7:80",
					     "icmp 169.254.7.7 > 10.244.1.3 7" };

	for (int i = 0; i < ROWS(flows); i++) {
		struct frame in = frame_make(flows[i], NULL);

		ck_assert_msg(!reaches_pod(hook, &in), "%s by hook %d", flows[i], hook);
	}
}
END_TEST

/* ---- uplinks ------------------------------------------------------------------------------------ */

/* The host handles the messages of its own links, even if a Service has the address. */
START_TEST(test_uplink)
{
	static const uint8_t types[] = { 130, 131, 132, 133, 134, 135, 136, 137, LISTENERS };
	static const char *const dests[] = { ALL_NODES, NODE, "ff02::1:ff00:b",
					     "fd00:c6:33:64::7" };

	fixture_vip("198.51.100.7");
	for (int i = 0; i < ROWS(types) * ROWS(dests); i++) {
		const struct message message = { .type = types[i / ROWS(dests)],
						 .source = ROUTER,
						 .dest = dests[i % ROWS(dests)],
						 .target = NODE,
						 .source_mac = "02:00:00:00:00:09" };
		struct frame in = make(&message), out;

		ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == TO_HOST &&
				      memcmp(in.byte, out.byte, in.length) == 0,
			      "type %u to %s", message.type, message.dest);
	}
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

START_TEST(test_uplink_multicast)
{
	static const char *const flows[] = { "udp 192.168.99.77:5353 > 224.0.0.251:5353",
					     "udp 192.168.99.77:546 > 255.255.255.255:547" };

	for (int i = 0; i < ROWS(flows); i++) {
		struct frame in = frame_make(flows[i], NULL), out;

		ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
		ck_assert_int_eq(memcmp(in.byte, out.byte, in.length), 0);
	}
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* ---- addresses that a pod has no business with -------------------------------------------------- */

static const struct {
	const char *name, *address;
	bool is_unicast;
} addresses[] = {
	{ "no address", "::", false },
	{ "loopback", "::1", false },
	{ "link-local", "fe80::1", false },
	{ "link-local, the last", "febf:ffff::1", false },
	{ "all nodes of the link", ALL_NODES, false },
	{ "DHCP servers", "ff02::1:2", false },
	{ "multicast of the site", "ff05::2", false },
	{ "multicast, global", "ff0e::1", false },
	{ "IPv4-mapped", "::ffff:203.0.113.10", false },
	{ "IPv4-compatible", "::203.0.113.10", false },
	{ "site-local, an address like any other", "fec0::1", true },
	{ "outside", "2001:db8::1", true },
};

START_TEST(test_destination)
{
	struct frame in = frame_make("icmp 10.244.1.2 > 203.0.113.10 7", NULL);
	bool passes = addresses[_i].is_unicast;

	put_address(&in, DEST, addresses[_i].address);
	frame_fix_icmp_checksum(&in);
	fixture_expect(addresses[_i].name, MK_HOOK_POD, &in, passes ? TO_UPLINK : DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_NOT_UNICAST), !passes);
}
END_TEST

START_TEST(test_source)
{
	struct frame in = frame_make("icmp 10.244.1.2 > 203.0.113.10 7", NULL);

	put_address(&in, SOURCE, addresses[_i].address);
	frame_fix_icmp_checksum(&in);
	fixture_expect(addresses[_i].name, MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_SPOOFED_ADDRESS), 1);
}
END_TEST

static void use_ipv6_and_clusters(void)
{
	family_use_ipv6();
	fixture_clusters();
}

BPF_SUITE("neighbours")
{
	TCase *tcase = bpf_case_ipv6(suite, "neighbours");

	tcase_add_loop_test(tcase, test_answered, 0, ROWS(answered));
	tcase_add_loop_test(tcase, test_dropped, 0, ROWS(dropped));
	tcase_add_loop_test(tcase, test_never_to_a_pod, 0, ROWS(hooks));
	tcase_add_loop_test(tcase, test_link_local_source, 0, ROWS(hooks));
	tcase_add_test(tcase, test_uplink);
	tcase_add_test(tcase, test_uplink_multicast);
	tcase_add_loop_test(tcase, test_destination, 0, ROWS(addresses));
	tcase_add_loop_test(tcase, test_source, 0, ROWS(addresses));
	tcase = bpf_case_after(suite, "neighbours and clusters", use_ipv6_and_clusters,
			       family_use_again);
	tcase_add_test(tcase, test_of_another_cluster);
	tcase = bpf_case_ipv6(suite, "neighbours and chains");
	tcase_add_checked_fixture(tcase, policy_start, NULL);
	tcase_add_loop_test(tcase, test_of_functions, 0, ROWS(of_functions));
}

// SPDX-License-Identifier: Apache-2.0
/* Carriers, the overlay's packets between nodes, where pods have another family: they have the other
 * family themselves, or carry it. test_outside has the rows of one family. */
#include <bpf/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <netinet/in.h>
#include <string.h>

#include "bpf/run.h"
#include "monokube/sfc.h"

#define UDP_BYTES   8
#define VXLAN_BYTES 8

static const struct frame_options payload = { .payload_bytes = 16 };

static sa_family_t other_of(sa_family_t of)
{
	return of == AF_INET ? AF_INET6 : AF_INET;
}

static struct frame make_in(sa_family_t of, const char *flow, const struct frame_options *options)
{
	sa_family_t before = family();
	struct frame frame;

	family_use(of);
	frame = frame_make(flow, options);
	family_use(before);
	return frame;
}

/* A frame of family @of that carries @inner with VNI @vni. */
static struct frame carrier_with(sa_family_t of, uint8_t vni, const char *outer,
				 const struct frame *inner, uint16_t fragment)
{
	const struct frame_options with = { .payload_bytes =
						    (uint16_t)(VXLAN_BYTES + inner->length),
					    .fragment = fragment };
	const uint8_t header[VXLAN_BYTES] = { 0x08, [6] = vni };
	struct frame frame = make_in(of, outer, &with);
	uint8_t *at = frame.byte + frame.length - with.payload_bytes;

	memcpy(at, header, sizeof(header));
	memcpy(at + sizeof(header), inner->byte, inner->length);
	return frame;
}

static struct frame carrier_of(sa_family_t of, const char *outer, const struct frame *inner,
			       uint16_t fragment)
{
	return carrier_with(of, MK_VXLAN_VNI, outer, inner, fragment);
}

static void use_ipv4(void)
{
	family_use(AF_INET);
}

/* ---- carriers of the other family ------------------------------------------------------------ */

static void load_far_ipv4(void)
{
	use_ipv4();
	fixture_one_family();
	fixture_other_underlay();
}

static void load_far_ipv6(void)
{
	family_use_ipv6();
	fixture_one_family();
	fixture_other_underlay();
}

static void know_far(const char *address, const char *vtep)
{
	sa_family_t own = family();
	struct mk_ip ip;

	family_use(other_of(own));
	ip = family_ip(address);
	family_use(own);
	fixture_far_peer(&ip, vtep);
}

static void know_nodes(void)
{
	fixture_peer("10.244.3.0", "10.18.0.3");
	know_far("192.168.99.12", "10.18.0.2");
	know_far("192.168.99.13", "10.18.0.3");
}

#define MF 0x2000

static const struct {
	const char *name, *outer, *inner;
	uint16_t fragment;
	enum where where;
} far_rows[] = {
	{ "of a node, from its pod", "udp 192.168.99.12:40000 > 192.168.99.11:4789",
	  "udp 10.244.2.7:40000 > 10.244.1.3:53", 0, TO_HOST },
	{ "of a node, a first fragment", "udp 192.168.99.12:40000 > 192.168.99.11:4789",
	  "udp 10.244.2.7:40000 > 10.244.1.3:53", MF, TO_HOST },
	{ "of a stranger", "udp 192.168.99.200:40000 > 192.168.99.11:4789",
	  "udp 10.244.2.7:40000 > 10.244.1.3:53", 0, DROPPED },
	{ "of a stranger, a first fragment", "udp 192.168.99.200:40000 > 192.168.99.11:4789",
	  "udp 10.244.2.7:40000 > 10.244.1.3:53", MF, DROPPED },
	{ "of a stranger, a later fragment", "udp 192.168.99.200:40000 > 192.168.99.11:4789",
	  "udp 10.244.2.7:40000 > 10.244.1.3:53", 100, TO_HOST },
	{ "of a node, from another node's pod", "udp 192.168.99.12:40000 > 192.168.99.11:4789",
	  "udp 10.244.3.7:40000 > 10.244.1.3:53", 0, DROPPED },
	{ "of a node, from this node's pod", "udp 192.168.99.12:40000 > 192.168.99.11:4789",
	  "udp 10.244.1.2:40000 > 10.244.1.3:53", 0, DROPPED },
	{ "to another port", "udp 192.168.99.200:40000 > 192.168.99.11:4790",
	  "udp 10.244.2.7:40000 > 10.244.1.3:53", 0, TO_HOST },
	{ "of another protocol", "tcp 192.168.99.200:40000 > 192.168.99.11:4789",
	  "udp 10.244.2.7:40000 > 10.244.1.3:53", 0, TO_HOST },
};

static struct frame far_frame(size_t row)
{
	struct frame inner = frame_make(far_rows[row].inner, &payload);

	return carrier_of(other_of(family()), far_rows[row].outer, &inner, far_rows[row].fragment);
}

START_TEST(test_far)
{
	struct frame in = far_frame((size_t)_i), out;
	bool dropped = far_rows[_i].where == DROPPED;

	know_nodes();
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == far_rows[_i].where, "%s",
		      far_rows[_i].name);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_STRANGER), dropped);
	ck_assert_uint_eq(fixture_drops_total(), dropped);
}
END_TEST

/* Until the agent has read all Nodes, every sender is accepted. */
START_TEST(test_far_before_nodes_are_known)
{
	struct frame in = far_frame(2), out;

	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_HOST);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static const struct {
	const char *name, *error, *quoted;
	uint16_t fragment;
	size_t quote_bytes;
	enum where where;
	uint32_t mtu;
	bool passes_ipv4; /* whose carriers may be fragmented */
} far_errors[] = {
	{ "overlay packets are too big", "icmp 203.0.113.10 > 192.168.99.11",
	  "udp 192.168.99.11:40000 > 192.168.99.12:4789", 0, 0, DROPPED, 1280, false },
	{ ".. in a first fragment that hides what it is about", "icmp 203.0.113.10 > 192.168.99.11",
	  "udp 192.168.99.11:40000 > 192.168.99.12:4789", MF, 4, DROPPED, 1280, false },
	{ ".. to a host that is no node", "icmp 203.0.113.10 > 192.168.99.11",
	  "udp 192.168.99.11:40000 > 192.168.99.77:4789", 0, 0, DROPPED, 1280, false },
	{ "a ping of a node is too big", "icmp 192.168.99.12 > 192.168.99.11",
	  "icmp 192.168.99.11 > 192.168.99.12 7", 0, 0, DROPPED, 1499, false },
	{ ".. but overlay packets are not", "icmp 192.168.99.12 > 192.168.99.11",
	  "icmp 192.168.99.11 > 192.168.99.12 7", 0, 0, TO_HOST, 1500, false },
	{ "a connection to a node is too big, for a router", "icmp 203.0.113.10 > 192.168.99.11",
	  "tcp 192.168.99.11:10250 > 192.168.99.12:40000", 0, 0, DROPPED, 1499, true },
	{ "the host's own packets are too big", "icmp 203.0.113.10 > 192.168.99.11",
	  "tcp 192.168.99.11:40000 > 203.0.113.7:443", 0, 0, TO_HOST, 1280, false },
};

/* Carriers of IPv6 are 20 bytes longer. */
static struct frame far_error(size_t row)
{
	sa_family_t of = other_of(family());
	struct frame quoted = make_in(of, far_errors[row].quoted, NULL);
	const struct frame_options about = {
		.icmp_type = 3,
		.icmp_code = 4,
		.icmp_mtu = far_errors[row].mtu + (of == AF_INET6 ? 20 : 0),
		.fragment = far_errors[row].fragment,
		.quote = &quoted,
		.quote_bytes = far_errors[row].quote_bytes,
	};

	return make_in(of, far_errors[row].error, &about);
}

/* An error that any sender may forge makes no overlay packet smaller. */
START_TEST(test_far_shrinking)
{
	struct frame in = far_error((size_t)_i), out;
	bool dropped =
		far_errors[_i].where == DROPPED && !(far_errors[_i].passes_ipv4 && family_is6());

	know_nodes();
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == (dropped ? DROPPED : TO_HOST),
		      "%s", far_errors[_i].name);
	ck_assert_msg(fixture_drops(MK_HOOK_UPLINK, MK_DROP_FORGED_ERROR) == dropped, "%s",
		      far_errors[_i].name);
}
END_TEST

#define IPV6_BYTES 40

/* Insert @count extension headers (destination options, 8 bytes of padding) before UDP. */
static void put_extensions(struct frame *frame, int count)
{
	uint8_t *next = frame->byte + ETH_HLEN + 6, *at = frame->byte + ETH_HLEN + IPV6_BYTES;
	const uint8_t padding[8] = { IPPROTO_DSTOPTS, 0, 1, 4 };
	size_t bytes = (size_t)count * sizeof(padding);
	uint16_t length = htons((uint16_t)(frame->length - ETH_HLEN - IPV6_BYTES + bytes));

	memmove(at + bytes, at, frame->length - ETH_HLEN - IPV6_BYTES);
	for (int i = 0; i < count; i++)
		memcpy(at + (size_t)i * sizeof(padding), padding, sizeof(padding));
	at[bytes - sizeof(padding)] = *next;
	*next = IPPROTO_DSTOPTS;
	memcpy(frame->byte + ETH_HLEN + 4, &length, sizeof(length));
	frame->length += bytes;
}

/* IPv6 extension headers hide no carrier. */
START_TEST(test_far_hidden)
{
	struct frame in = far_frame(2), out;
	int count = _i ? 5 : 1;

	know_nodes();
	put_extensions(&in, count);
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK,
					_i ? MK_DROP_EXTENSION_HEADER : MK_DROP_OVERLAY_STRANGER),
			  1);
}
END_TEST

/* ---- carriers of frames of the other family -------------------------------------------------- */

static void load_both_ipv4(void)
{
	use_ipv4();
	fixture_both_families();
}

static void load_both_ipv6(void)
{
	family_use_ipv6();
	fixture_both_families();
}

static const struct {
	const char *name, *mac;
	enum where where;
} macs[] = {
	{ "the MAC address of the node", "02:4d:0a:12:00:02", TO_HOST },
	{ "another node's", "02:4d:0a:12:00:03", DROPPED },
	{ "an unknown one", "02:4d:0a:12:00:77", DROPPED },
};

/* The carrier shows which node sends; its address in the other family is checked by that. */
START_TEST(test_mac_of_other_family)
{
	const struct frame_options with = { .payload_bytes = 16, .source_mac = macs[_i].mac };
	struct frame out,
		in = make_in(other_of(family()), "udp 10.244.2.7:40000 > 10.244.1.3:53", &with);
	bool dropped = macs[_i].where == DROPPED;

	fixture_peer_address("192.168.99.12", "10.18.0.2");
	fixture_peer_address("192.168.99.13", "10.18.0.3");
	in = carrier_of(family(), "udp 192.168.99.12:40000 > 192.168.99.11:4789", &in, 0);
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == macs[_i].where, "%s",
		      macs[_i].name);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_STRANGER), dropped);
}
END_TEST

/* ---- unpacked frames whose carrier had the other family -------------------------------------- */

static void load_carried_ipv4(void)
{
	load_both_ipv4();
	fixture_other_underlay();
}

static void load_carried_ipv6(void)
{
	load_both_ipv6();
	fixture_other_underlay();
}

static const struct {
	const char *name, *flow, *mac;
	enum where where;
} unpacked[] = {
	{ "a node's pod", "udp 10.244.2.7:40000 > 10.244.1.3:53", "02:4d:0a:12:00:02", TO_POD },
	{ "a node's overlay address", "udp 10.18.0.2:40000 > 10.244.1.3:53", "02:4d:0a:12:00:02",
	  TO_POD },
	{ "a host that a node forwards for", "udp 203.0.113.9:40000 > 10.244.1.3:53",
	  "02:4d:0a:12:00:02", TO_POD },
	{ "another node's pod", "udp 10.244.3.7:40000 > 10.244.1.3:53", "02:4d:0a:12:00:02",
	  DROPPED },
	{ "another node's overlay address", "udp 10.18.0.3:40000 > 10.244.1.3:53",
	  "02:4d:0a:12:00:02", DROPPED },
	{ "this node's pod", "udp 10.244.1.2:40000 > 10.244.1.3:53", "02:4d:0a:12:00:02", DROPPED },
	{ "an unused address", "udp 10.244.77.1:40000 > 10.244.1.3:53", "02:4d:0a:12:00:02",
	  DROPPED },
};

START_TEST(test_unpacked)
{
	const struct frame_options with = { .payload_bytes = 16, .source_mac = unpacked[_i].mac };
	struct frame in = frame_make(unpacked[_i].flow, &with), out;
	bool dropped = unpacked[_i].where == DROPPED;

	fixture_peer("10.244.3.0", "10.18.0.3");
	ck_assert_msg(fixture_send(MK_HOOK_OVERLAY, &in, &out) == unpacked[_i].where, "%s",
		      unpacked[_i].name);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_OVERLAY, MK_DROP_OVERLAY_STRANGER), dropped);
}
END_TEST

/* ---- encryption ------------------------------------------------------------------------------ */

/* Nodes encrypt between addresses of IPv4, whatever family the pods have. */
static void load_only_ipv4(void)
{
	use_ipv4();
	fixture_one_family();
	fixture_encrypts_all();
}

static void load_only_ipv6(void)
{
	load_far_ipv6();
	fixture_encrypts_all();
}

static void know_encrypting_nodes(void)
{
	know_nodes();
	if (family_is6())
		return;
	fixture_peer_address("192.168.99.12", "10.18.0.2");
	fixture_peer_address("192.168.99.13", "10.18.0.3");
}

#define OUT "udp 192.168.99.11:40000 > 192.168.99.12:4789"
#define IN  "udp 192.168.99.12:40000 > 192.168.99.11:4789"

static const struct {
	const char *name, *outer;
	uint8_t vni;
	uint16_t fragment;
	sa_family_t of;
	bool dropped;
} plain_rows[] = {
	{ "of the overlay", OUT, MK_VXLAN_VNI, 0, AF_INET, true },
	{ ".. a first fragment", OUT, MK_VXLAN_VNI, MF, AF_INET, true },
	{ ".. between addresses of IPv6", OUT, MK_VXLAN_VNI, 0, AF_INET6, true },
	{ "of chains", OUT, MK_SFC_VNI, 0, AF_INET, true },
	{ ".. between addresses of IPv6", OUT, MK_SFC_VNI, 0, AF_INET6, true },
	{ "of another device", OUT, 9, 0, AF_INET, false },
	{ ".. between addresses of IPv6", OUT, 9, 0, AF_INET6, false },
	{ "to another port", "udp 192.168.99.11:40000 > 192.168.99.12:4790", MK_VXLAN_VNI, 0,
	  AF_INET, false },
};

/* With encryption: WireGuardOnly, whatever the FDB says: no carrier leaves in the clear. */
START_TEST(test_only_out)
{
	struct frame inner = frame_make("udp 10.244.1.3:53 > 10.244.2.7:40000", &payload), out;
	struct frame in = carrier_with(plain_rows[_i].of, plain_rows[_i].vni, plain_rows[_i].outer,
				       &inner, plain_rows[_i].fragment);

	know_encrypting_nodes();
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK_EGRESS, &in, &out) ==
			      (plain_rows[_i].dropped ? DROPPED : TO_HOST),
		      "%s", plain_rows[_i].name);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK_EGRESS, MK_DROP_OVERLAY_CLEAR),
			  plain_rows[_i].dropped);
}
END_TEST

static const struct {
	const char *name;
	uint8_t vni;
	uint16_t fragment;
	bool dropped;
} plain_in_rows[] = {
	{ "of the overlay", MK_VXLAN_VNI, 0, true },
	{ ".. a first fragment", MK_VXLAN_VNI, MF, true },
	{ "of chains", MK_SFC_VNI, 0, true },
	{ "of another device", 9, 0, false },
};

/* .. and none is unpacked, also before all Nodes are known. */
START_TEST(test_only_in)
{
	struct frame inner = frame_make("udp 10.244.2.7:40000 > 10.244.1.3:53", &payload), out;
	struct frame in = carrier_with(AF_INET, plain_in_rows[_i].vni, IN, &inner,
				       plain_in_rows[_i].fragment);
	enum where where = plain_in_rows[_i].dropped ? DROPPED : TO_HOST;

	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == where, "%s, before",
		      plain_in_rows[_i].name);
	know_encrypting_nodes();
	ck_assert_msg(fixture_send(MK_HOOK_UPLINK, &in, &out) == where, "%s",
		      plain_in_rows[_i].name);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_CLEAR),
			  plain_in_rows[_i].dropped ? 2 : 0);
	ck_assert_uint_eq(fixture_drops_total(), plain_in_rows[_i].dropped ? 2 : 0);
}
END_TEST

static const struct {
	const char *name, *outer, *inner;
	uint8_t vni;
	uint16_t fragment;
	bool passes;
} tunnelled[] = {
	{ "a node's pod", IN, "udp 10.244.2.7:4 > 10.244.1.3:53", MK_VXLAN_VNI, 0, true },
	{ "a node's overlay address", IN, "udp 10.18.0.2:4 > 10.244.1.3:53", MK_VXLAN_VNI, 0,
	  true },
	{ ".. a fragment", IN, "udp 10.244.2.7:4 > 10.244.1.3:53", MK_VXLAN_VNI, MF, false },
	{ "another node's pod", IN, "udp 10.244.3.7:4 > 10.244.1.3:53", MK_VXLAN_VNI, 0, false },
	{ "this node's pod", IN, "udp 10.244.1.2:4 > 10.244.1.3:53", MK_VXLAN_VNI, 0, false },
	{ "a packet for a replica", IN, "udp 10.244.2.7:4 > 10.244.1.3:53", MK_SFC_VNI, 0, true },
	{ ".. of a stranger", "udp 192.168.99.200:4 > 192.168.99.11:4789",
	  "udp 10.244.2.7:4 > 10.244.1.3:53", MK_SFC_VNI, 0, false },
	{ "another device", IN, "udp 10.244.2.7:4 > 10.244.1.3:53", 9, 0, false },
	{ "a stranger", "udp 192.168.99.200:4 > 192.168.99.11:4789",
	  "udp 10.244.2.7:4 > 10.244.1.3:53", MK_VXLAN_VNI, 0, false },
	{ "to another port", "udp 192.168.99.12:4 > 192.168.99.11:22",
	  "udp 10.244.2.7:4 > 10.244.1.3:53", MK_VXLAN_VNI, 0, false },
};

/* What WireGuard brings is checked as in the clear: a node sends for its own pods only. */
START_TEST(test_tunnelled)
{
	struct frame inner = frame_make(tunnelled[_i].inner, &payload);
	struct frame in = carrier_with(AF_INET, tunnelled[_i].vni, tunnelled[_i].outer, &inner,
				       tunnelled[_i].fragment);
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = in.byte, .data_size_in = (__u32)in.length,
		    .repeat = 1);

	know_encrypting_nodes();
	ck_assert_int_eq(bpf_prog_test_run_opts(fixture_program("wireguard_in"), &opts), 0);
	ck_assert_msg(opts.retval == (tunnelled[_i].passes ? (__u32)TC_ACT_UNSPEC : TC_ACT_SHOT),
		      "%s: verdict %u", tunnelled[_i].name, opts.retval);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_OVERLAY_STRANGER),
			  !tunnelled[_i].passes);
}
END_TEST

/* A node without a key gets nothing, and the drop shows the flow. */
START_TEST(test_only_to_clear_node)
{
	struct frame in = frame_make("udp 10.244.1.2:4 > 10.244.4.7:53", &payload), out;

	fixture_peer("10.244.4.0", "10.18.0.4");
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), TO_OVERLAY);
	fixture_clear_peer("10.244.4.0", "10.18.0.4");
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_OVERLAY_CLEAR), 1);
}
END_TEST

static void only_case(Suite *suite, const char *name, SFun setup)
{
	TCase *tcase = bpf_case_after(suite, name, setup, family_use_again);

	tcase_add_loop_test(tcase, test_only_out, 0, ROWS(plain_rows));
	tcase_add_loop_test(tcase, test_only_in, 0, ROWS(plain_in_rows));
	tcase_add_loop_test(tcase, test_tunnelled, 0, ROWS(tunnelled));
	tcase_add_test(tcase, test_only_to_clear_node);
}

static TCase *far_case(Suite *suite, const char *name, SFun setup)
{
	TCase *tcase = bpf_case_after(suite, name, setup, family_use_again);

	tcase_add_loop_test(tcase, test_far, 0, ROWS(far_rows));
	tcase_add_test(tcase, test_far_before_nodes_are_known);
	tcase_add_loop_test(tcase, test_far_shrinking, 0, ROWS(far_errors));
	return tcase;
}

BPF_SUITE("carriers of two families")
{
	TCase *tcase = far_case(suite, "IPv4 by IPv6", load_far_ipv4);

	tcase_add_loop_test(tcase, test_far_hidden, 0, 2);
	far_case(suite, "IPv6 by IPv4", load_far_ipv6);
	tcase = bpf_case_after(suite, "IPv6 inside IPv4", load_both_ipv4, family_use_again);
	tcase_add_loop_test(tcase, test_mac_of_other_family, 0, ROWS(macs));
	tcase = bpf_case_after(suite, "IPv4 inside IPv6", load_both_ipv6, family_use_again);
	tcase_add_loop_test(tcase, test_mac_of_other_family, 0, ROWS(macs));
	tcase = bpf_case_after(suite, "IPv4 unpacked from IPv6", load_carried_ipv4,
			       family_use_again);
	tcase_add_loop_test(tcase, test_unpacked, 0, ROWS(unpacked));
	tcase = bpf_case_after(suite, "IPv6 unpacked from IPv4", load_carried_ipv6,
			       family_use_again);
	tcase_add_loop_test(tcase, test_unpacked, 0, ROWS(unpacked));
	only_case(suite, "IPv4, WireGuardOnly", load_only_ipv4);
	only_case(suite, "IPv6 by IPv4, WireGuardOnly", load_only_ipv6);
}

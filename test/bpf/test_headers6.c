// SPDX-License-Identifier: Apache-2.0
/* IPv6's extension headers: which are walked, which packets are dropped for them, and that a packet
 * with them is translated like any other. Also the scope of a source. Always in a run for IPv6. */
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

#include "bpf/pieces.h"
#include "bpf/run.h"

#define POD_TO_POD     "udp 10.244.1.2:40000 > 10.244.1.3:53"
#define POD_TO_SERVICE "udp 10.244.1.2:40000 > 10.96.0.10:53"
#define IS_SERVED      "udp 10.244.1.2:40000 > 10.244.2.7:8080"
#define NEXT_HEADER    (ETH_HLEN + 6)
#define NO_NEXT	       59

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const local_backend[] = { "10.244.1.3:8080", NULL };

/* The headers of rows, by letter. The first byte, the next header, is filled in later. */
static const struct header {
	char letter;
	uint8_t type, bytes;
	uint8_t data[8]; /* the rest: zero, which is padding in options */
} headers[] = {
	{ 'h', IPPROTO_HOPOPTS, 8, { 0, 0, 1, 4 } },
	{ 'j', IPPROTO_HOPOPTS, 8, { 0, 0, 0xc2, 4, 0, 1, 0, 0 } }, /* jumbo payload, 65,536 */
	{ 'd', IPPROTO_DSTOPTS, 8, { 0, 0, 1, 4 } },
	{ 'D', IPPROTO_DSTOPTS, 208, { 0, 25 } }, /* layer 4 begins at byte 248 */
	{ 'E', IPPROTO_DSTOPTS, 216, { 0, 26 } }, /* ... at byte 256 */
	{ 'L', IPPROTO_DSTOPTS, 8, { 0, 200, 1, 4 } }, /* longer than the packet */
	{ 'r', IPPROTO_ROUTING, 8, { 0, 0, 3, 0 } }, /* no segment left */
	{ 'R', IPPROTO_ROUTING, 24, { 0, 2, 0, 1 } }, /* type 0, one segment left */
	{ 'S', IPPROTO_ROUTING, 24, { 0, 2, 4, 1 } }, /* segment routing */
	{ 'M', IPPROTO_ROUTING, 24, { 0, 2, 2, 1 } }, /* mobile IPv6 */
	{ 'f', IPPROTO_FRAGMENT, 8, { 0, 0, 0, 0, 0, 0, 0, 7 } }, /* atomic: all of the packet */
	{ 'F', IPPROTO_FRAGMENT, 8, { 0, 0, 0, 1, 0, 0, 0, 7 } }, /* first, with more to come */
	{ 'G', IPPROTO_FRAGMENT, 8, { 0, 0, 0, 64, 0, 0, 0, 7 } }, /* the last, at byte 64 */
	{ 'H', IPPROTO_FRAGMENT, 8, { 0, 0, 0, 64, 0, 1, 0, 7 } }, /* ... of packet 0x10007 */
	{ 'a', IPPROTO_AH, 24, { 0, 4 } },
};

static const struct header *header_of(char letter)
{
	for (int i = 0; i < ROWS(headers); i++)
		if (headers[i].letter == letter)
			return &headers[i];
	ck_abort_msg("no header has the letter '%c'", letter);
	return NULL;
}

/* Put the headers of @letters before layer 4. */
static void insert_headers(struct frame *frame, const char *letters)
{
	size_t at = NEXT_HEADER, l4 = ETH_HLEN + 40;
	uint8_t proto = frame->byte[NEXT_HEADER];

	for (; *letters; letters++) {
		const struct header *header = header_of(*letters);

		memmove(frame->byte + l4 + header->bytes, frame->byte + l4, frame->length - l4);
		memset(frame->byte + l4, 0, header->bytes);
		memcpy(frame->byte + l4, header->data, sizeof(header->data));
		frame->byte[at] = header->type;
		at = l4;
		l4 += header->bytes;
		frame->length += header->bytes;
	}
	frame->byte[at] = proto;
	frame->byte[ETH_HLEN + 4] = (uint8_t)((frame->length - ETH_HLEN - 40) >> 8);
	frame->byte[ETH_HLEN + 5] = (uint8_t)(frame->length - ETH_HLEN - 40);
}

static const struct {
	const char *name, *letters, *flow;
	enum where where;
	int reason; /* -1: passes */
	const char *seen;
} rows[] = {
	{ "hop-by-hop options", "h", POD_TO_POD, TO_POD, -1, POD_TO_POD },
	{ "destination options", "d", POD_TO_POD, TO_POD, -1, POD_TO_POD },
	{ "a routing header without segments left", "r", POD_TO_POD, TO_POD, -1, POD_TO_POD },
	{ "an atomic fragment", "f", POD_TO_POD, TO_POD, -1, POD_TO_POD },
	{ "AH", "a", POD_TO_POD, TO_POD, -1, POD_TO_POD },
	{ "four headers", "hdrf", POD_TO_POD, TO_POD, -1, POD_TO_POD },
	{ "four headers of one kind", "dddd", POD_TO_POD, TO_POD, -1, POD_TO_POD },
	{ "five headers", "hdrfd", POD_TO_POD, DROPPED, MK_DROP_EXTENSION_HEADER, NULL },
	{ "layer 4 at byte 248", "D", POD_TO_POD, TO_POD, -1, POD_TO_POD },
	{ "layer 4 at byte 256", "E", POD_TO_POD, DROPPED, MK_DROP_EXTENSION_HEADER, NULL },
	{ "hop-by-hop options behind others", "dh", POD_TO_POD, DROPPED, MK_DROP_BAD_HEADER, NULL },
	{ "two headers of hop-by-hop options", "hh", POD_TO_POD, DROPPED, MK_DROP_BAD_HEADER,
	  NULL },
	{ "a source route of type 0", "R", POD_TO_POD, DROPPED, MK_DROP_SOURCE_ROUTE, NULL },
	{ "segment routing", "S", POD_TO_POD, DROPPED, MK_DROP_SOURCE_ROUTE, NULL },
	{ "a routing header of another type", "M", POD_TO_POD, DROPPED, MK_DROP_SOURCE_ROUTE,
	  NULL },
	{ "a source route behind other headers", "hdR", POD_TO_POD, DROPPED, MK_DROP_SOURCE_ROUTE,
	  NULL },
	{ "a source route behind the fragment header", "fR", POD_TO_POD, DROPPED,
	  MK_DROP_SOURCE_ROUTE, NULL },
	{ "the Service, hop-by-hop options", "h", POD_TO_SERVICE, TO_OVERLAY, -1, IS_SERVED },
	{ "the Service, four headers", "hdrf", POD_TO_SERVICE, TO_OVERLAY, -1, IS_SERVED },
	{ "the Service, an atomic fragment", "f", POD_TO_SERVICE, TO_OVERLAY, -1, IS_SERVED },
	{ "the Service, layer 4 at byte 248", "D", POD_TO_SERVICE, TO_OVERLAY, -1, IS_SERVED },
	{ "the Service, AH: its checksum is of the address", "a", POD_TO_SERVICE, DROPPED,
	  MK_DROP_PROTOCOL, NULL },
	{ "the Service, TCP", "hd", "tcp 10.244.1.2:40000 > 10.96.0.10:80", TO_OVERLAY, -1,
	  "tcp 10.244.1.2:40000 > 10.244.2.7:8080" },
	{ "the Service, a first fragment with options", "hF", POD_TO_SERVICE, TO_OVERLAY, -1,
	  IS_SERVED },
	{ "outside, AH is not masqueraded", "a", "udp 10.244.1.2:40000 > 203.0.113.10:53", DROPPED,
	  MK_DROP_PROTOCOL, NULL },
};

static void expect_row(const char *name, enum mk_hook hook, const struct frame *in,
		       enum where where, int reason, const char *seen)
{
	fixture_expect(name, hook, in, where, seen);
	ck_assert_msg(fixture_drops_total() == (reason >= 0), "%s: not counted", name);
	if (reason >= 0)
		ck_assert_msg(fixture_drops(hook, (enum mk_drop_reason)reason) == 1,
			      "%s: dropped for another reason", name);
}

static void serve(void)
{
	fixture_service("udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			local_backend, 1, 1);
}

START_TEST(test_headers)
{
	struct frame in = frame_make(rows[_i].flow, &(struct frame_options){ .payload_bytes = 64 });

	serve();
	insert_headers(&in, rows[_i].letters);
	expect_row(rows[_i].name, MK_HOOK_POD, &in, rows[_i].where, rows[_i].reason, rows[_i].seen);
	if (!strchr(rows[_i].letters, 'F'))
		ck_assert_msg(fixture_count("fragments") == 0, "%s: an entry stays", rows[_i].name);
}
END_TEST

static void five_headers(struct frame *f)
{
	insert_headers(f, "hdrfd");
}

/* A client outside may send such packets, too. A packet whose layer 4 is not found does not go to
 * the host, whose kernel finds it: it may be a carrier, or have a pod's source. */
START_TEST(test_from_uplink)
{
	static const struct {
		const char *name, *letters;
		enum where where;
	} from_uplink[] = {
		{ "four headers", "hdrf", TO_POD },
		{ "five headers", "hdrfd", DROPPED },
		{ "layer 4 at byte 256", "E", DROPPED },
		{ "hop-by-hop options behind others", "dh", DROPPED },
		{ "AH", "a", TO_HOST },
	};
	struct frame in, out;

	serve();
	for (int i = 0; i < ROWS(from_uplink); i++) {
		in = frame_make("udp 203.0.113.10:40000 > 192.168.99.11:30053",
				&(struct frame_options){ .payload_bytes = 64 });
		insert_headers(&in, from_uplink[i].letters);
		out = fixture_expect(from_uplink[i].name, MK_HOOK_UPLINK, &in, from_uplink[i].where,
				     NULL);
		if (from_uplink[i].where == TO_HOST)
			ck_assert_int_eq(memcmp(in.byte, out.byte, in.length), 0);
	}
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_EXTENSION_HEADER), 2);
	ck_assert_uint_eq(fixture_drops_total(), 3);
}
END_TEST

/* It is of a link that pods are not on. The host answers or refuses it. */
START_TEST(test_link_local_source)
{
	struct frame in = frame_make("udp 169.254.7.8:40000 > 192.168.99.11:30053", NULL);

	serve();
	fixture_expect("to a NodePort", MK_HOOK_UPLINK, &in, TO_HOST, NULL);
	ck_assert_uint_eq(fixture_count("sessions_young") + fixture_count("sessions"), 0);
}
END_TEST

/* The answer's headers are walked as well. */
START_TEST(test_answer)
{
	struct frame in = frame_make(POD_TO_SERVICE, NULL);

	serve();
	fixture_expect("request", MK_HOOK_POD, &in, TO_OVERLAY, IS_SERVED);
	in = frame_make("udp 10.244.2.7:8080 > 10.244.1.2:40000",
			&(struct frame_options){ .payload_bytes = 64 });
	insert_headers(&in, "hd");
	fixture_expect("answer", MK_HOOK_OVERLAY, &in, TO_POD,
		       "udp 10.96.0.10:53 > 10.244.1.2:40000");
}
END_TEST

/* ---- bad lengths -------------------------------------------------------------------------------- */

static void no_next_header(struct frame *f)
{
	f->byte[NEXT_HEADER] = NO_NEXT;
}

static void longer_than_packet(struct frame *f)
{
	insert_headers(f, "L");
}

static void cut_in_header(struct frame *f)
{
	insert_headers(f, "d");
	f->length = ETH_HLEN + 40 + 4;
	f->byte[ETH_HLEN + 5] = 4;
}

/* RFC 7112: the first fragment has all headers. */
static void first_without_layer_4(struct frame *f)
{
	insert_headers(f, "Fd");
	f->length = ETH_HLEN + 40 + 16;
	f->byte[ETH_HLEN + 5] = 16;
}

static void first_ends_in_header(struct frame *f)
{
	insert_headers(f, "FD");
	f->length = ETH_HLEN + 40 + 24;
	f->byte[ETH_HLEN + 4] = 0;
	f->byte[ETH_HLEN + 5] = 24;
}

static void first_ends_before_header(struct frame *f)
{
	insert_headers(f, "Fdd");
	f->length = ETH_HLEN + 40 + 16;
	f->byte[ETH_HLEN + 5] = 16;
}

static void first_of_odd_length(struct frame *f)
{
	insert_headers(f, "F");
	frame_cut_to(f, 60);
}

static void jumbo(struct frame *f)
{
	insert_headers(f, "j");
	f->byte[ETH_HLEN + 4] = f->byte[ETH_HLEN + 5] = 0;
}

static void empty(struct frame *f)
{
	f->byte[ETH_HLEN + 4] = f->byte[ETH_HLEN + 5] = 0;
}

static const struct {
	const char *name;
	void (*spoil)(struct frame *frame);
	int reason; /* -1: passes */
} lengths[] = {
	{ "no next header", no_next_header, -1 },
	{ "a header longer than the packet", longer_than_packet, MK_DROP_EXTENSION_HEADER },
	{ "cut in an extension header", cut_in_header, MK_DROP_TRUNCATED },
	{ "a first fragment without layer 4", first_without_layer_4, MK_DROP_TRUNCATED },
	{ "a first fragment, no multiple of 8 bytes", first_of_odd_length, MK_DROP_BAD_HEADER },
	{ "a jumbo payload", jumbo, MK_DROP_BAD_HEADER },
	{ "no payload", empty, MK_DROP_TRUNCATED },
};

START_TEST(test_length)
{
	struct frame in = frame_make(POD_TO_POD, &(struct frame_options){ .payload_bytes = 64 });

	lengths[_i].spoil(&in);
	expect_row(lengths[_i].name, MK_HOOK_POD, &in, lengths[_i].reason < 0 ? TO_POD : DROPPED,
		   lengths[_i].reason, NULL);
}
END_TEST

/* The host's kernel puts fragments together, and would find layer 4. */
START_TEST(test_hidden_from_uplink)
{
	static void (*const spoils[])(struct frame *) = { first_without_layer_4,
							  first_ends_in_header,
							  first_ends_before_header, five_headers };
	struct frame in = frame_make("udp 203.0.113.10:40000 > 192.168.99.11:4789",
				     &(struct frame_options){ .payload_bytes = 64 });

	spoils[_i](&in);
	fixture_expect("hidden", MK_HOOK_UPLINK, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 1);
	ck_assert_uint_eq(fixture_count("fragments"), 0);
}
END_TEST

/* BIG TCP writes no length above 64 KiB, before Linux 6.18 a jumbo payload option. */
START_TEST(test_big_tcp)
{
	struct frame in = frame_make("tcp 10.244.1.2:40000 > 10.244.1.3:80",
				     &(struct frame_options){ .tcp_flags = ACK,
							      .payload_bytes = 1000 }),
		     out;

	if (_i)
		jumbo(&in);
	else
		empty(&in);
	fixture_gso(10, 100);
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), TO_POD);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Nothing is put together here, so fragments that overlap are the receiver's affair. */
START_TEST(test_overlap)
{
	struct frame first = frame_make(POD_TO_SERVICE,
					&(struct frame_options){ .payload_bytes = 80 }),
		     last = first;

	serve();
	insert_headers(&first, "F");
	insert_headers(&last, "G");
	fixture_expect("first", MK_HOOK_POD, &first, TO_OVERLAY, IS_SERVED);
	fixture_expect("last, from byte 64 of 88", MK_HOOK_POD, &last, TO_OVERLAY, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Options may be behind the fragment header. Later fragments then name them as their next header, or
 * anything else: only that of the first fragment counts (RFC 8200, 4.5). */
static const struct {
	const char *name;
	uint8_t next;
	bool in_order;
} behind_fragment[] = {
	{ "options behind the fragment header", IPPROTO_DSTOPTS, true },
	{ ".. the last one comes first", IPPROTO_DSTOPTS, false },
	{ "a later fragment names another protocol", IPPROTO_TCP, true },
};

START_TEST(test_options_behind_fragment)
{
	struct frame first = frame_make(POD_TO_SERVICE,
					&(struct frame_options){ .payload_bytes = 80 }),
		     last = first, out;

	serve();
	insert_headers(&first, "Fd");
	insert_headers(&last, "G");
	last.byte[ETH_HLEN + 40] = behind_fragment[_i].next;
	if (!behind_fragment[_i].in_order) {
		ck_assert_int_eq(fixture_send(MK_HOOK_POD, &last, &out), WAITS);
		ck_assert_uint_eq(pieces_held(), 1);
		return;
	}
	fixture_expect("first", MK_HOOK_POD, &first, TO_OVERLAY, IS_SERVED);
	fixture_expect(behind_fragment[_i].name, MK_HOOK_POD, &last, TO_OVERLAY, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Packets differ in any of the 32 bits of their identification. */
START_TEST(test_identification)
{
	struct frame first = frame_make(POD_TO_SERVICE,
					&(struct frame_options){ .payload_bytes = 80 }),
		     last = first, out;

	serve();
	insert_headers(&first, "F");
	insert_headers(&last, "H");
	fixture_expect("first", MK_HOOK_POD, &first, TO_OVERLAY, IS_SERVED);
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &last, &out), WAITS);
	ck_assert_uint_eq(fixture_count("fragments"), 2);
}
END_TEST

/* Traffic class and flow label pass unchanged, and packets with others are of the same flow. */
START_TEST(test_class_and_label)
{
	struct frame in = frame_make(POD_TO_SERVICE, NULL), out;

	serve();
	for (uint8_t i = 0; i < 3; i++) {
		in.byte[ETH_HLEN] = 0x6b;
		in.byte[ETH_HLEN + 1] = (uint8_t)(0x8a + i);
		in.byte[ETH_HLEN + 3] = i;
		out = fixture_expect("class and label", MK_HOOK_POD, &in, TO_OVERLAY, IS_SERVED);
		ck_assert_mem_eq(out.byte + ETH_HLEN, in.byte + ETH_HLEN, 4);
	}
	ck_assert_uint_eq(fixture_count("sessions_young") + fixture_count("sessions"), 2);
}
END_TEST

/* ---- errors ---------------------------------------------------------------------------------- */

enum { ERROR_QUOTE = ETH_HLEN + 40 + 8 };

/* An error quotes the headers that were walked, and the beginning of layer 4. */
START_TEST(test_error_quotes_headers)
{
	struct frame in = frame_make(POD_TO_POD,
				     &(struct frame_options){ .ttl = 1, .payload_bytes = 100 }),
		     out;

	insert_headers(&in, "hd");
	out = fixture_expect("hop limit 1", MK_HOOK_POD, &in, TO_POD, NULL);
	ck_assert_uint_eq(out.length, ERROR_QUOTE + 40 + 16 + 8);
	ck_assert_mem_eq(out.byte + ERROR_QUOTE, in.byte + ETH_HLEN, 40 + 16 + 8);
}
END_TEST

/* An error with an MTU below 1280 would be ignored (RFC 8201, 4). */
START_TEST(test_error_has_least_mtu)
{
	struct mk_datapath_links links = { .uplink_count = 1 };
	struct frame in = frame_make("udp 10.244.1.2:40000 > 203.0.113.10:53",
				     &(struct frame_options){ .payload_bytes = 1100 }),
		     out;

	links.uplinks[0] = (struct mk_uplink){ .ifindex = 1, .mtu_bytes = 1000 };
	links.uplinks[0].addr = fixture_addr("192.168.99.11");
	fixture_links(&links);
	out = fixture_expect("too big", MK_HOOK_POD, &in, TO_POD, NULL);
	ck_assert_uint_eq(frame_icmp_mtu(&out), 1280);
}
END_TEST

/* Errors of any type below 128, also unassigned ones, must be about a packet for the pod. */
START_TEST(test_error_of_unknown_type)
{
	static const uint8_t types[] = { 5, 101, 127 };
	struct frame mine = frame_make("udp 10.244.1.3:53 > 10.244.1.2:40000", NULL);
	struct frame others = frame_make("udp 10.244.1.2:40000 > 10.244.1.3:53", NULL);
	struct frame_options options = { .icmp_type = 3, .quote = &mine };
	struct frame in = frame_make("icmp 10.244.1.2 > 10.244.1.3", &options);

	in.byte[ETH_HLEN + 40] = types[_i];
	frame_fix_icmp_checksum(&in);
	fixture_expect("about a packet for the pod", MK_HOOK_POD, &in, TO_POD, NULL);
	options.quote = &others;
	in = frame_make("icmp 10.244.1.2 > 10.244.1.3", &options);
	in.byte[ETH_HLEN + 40] = types[_i];
	frame_fix_icmp_checksum(&in);
	fixture_expect("about another's", MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_FORGED_ERROR), 1);
}
END_TEST

/* ---- the scope of a source ------------------------------------------------------------------- */

#define GLOBAL	   "2001:db8::11"
#define LOCAL	   "fd00:c0:a8:63::b" /* of the Node: 192.168.99.11 */
#define FAR_GLOBAL "2001:db8:77::35"
#define FAR_LOCAL  "fd00:cb:71:71::a"
#define NODE_PORT  "udp 203.0.113.10:40000 > 192.168.99.11:30053"

static struct mk_addr address(const char *text)
{
	struct mk_ip ip;

	ck_assert_int_eq(mk_ip_parse(text, &ip), 0);
	return mk_ip_to_addr(&ip);
}

static void put_uplink(const char *addr, const char *addr_local)
{
	struct mk_datapath_links links = { .uplink_count = 1 };

	links.uplinks[0] = (struct mk_uplink){ .ifindex = 1, .mtu_bytes = 1500 };
	links.uplinks[0].addr = address(addr);
	if (addr_local)
		links.uplinks[0].addr_local = address(addr_local);
	fixture_links(&links);
}

static const struct {
	const char *name, *addr, *addr_local, *far, *source;
} scopes[] = {
	{ "a global destination", GLOBAL, LOCAL, FAR_GLOBAL, GLOBAL },
	{ "a unique local destination", GLOBAL, LOCAL, FAR_LOCAL, LOCAL },
	{ "a unique local destination, global source only", GLOBAL, NULL, FAR_LOCAL, GLOBAL },
	{ "a global destination, unique local source only", LOCAL, LOCAL, FAR_GLOBAL, LOCAL },
};

static void expect_source(const struct frame *out, int row)
{
	const struct mk_addr source = address(scopes[row].source);

	ck_assert_msg(memcmp(out->byte + ETH_HLEN + 8, &source, sizeof(source)) == 0, "%s: from %s",
		      scopes[row].name, frame_flow(out));
}

/* Masqueraded packets have a source of the scope of their destination (RFC 6724, rule 2). */
START_TEST(test_scope_of_source)
{
	struct frame in = frame_make("udp 10.244.1.2:40000 > 203.0.113.10:53",
				     &(struct frame_options){ .no_checksum = true }),
		     out;
	const struct mk_addr far = address(scopes[_i].far);

	put_uplink(scopes[_i].addr, scopes[_i].addr_local);
	memcpy(in.byte + ETH_HLEN + 24, &far, sizeof(far));
	ck_assert_int_eq(fixture_send(MK_HOOK_POD, &in, &out), TO_UPLINK);
	expect_source(&out, _i);
}
END_TEST

/* So have errors to hosts outside. */
START_TEST(test_scope_of_error)
{
	struct frame in = frame_make(NODE_PORT,
				     &(struct frame_options){ .no_checksum = true, .ttl = 1 }),
		     out;
	const struct mk_addr far = address(scopes[_i].far);

	put_uplink(scopes[_i].addr, scopes[_i].addr_local);
	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			remote_backend, 0, 1);
	memcpy(in.byte + ETH_HLEN + 8, &far, sizeof(far));
	ck_assert_int_eq(fixture_send(MK_HOOK_UPLINK, &in, &out), TO_UPLINK);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_TTL_EXPIRED), 1);
	/* the Node's own address is unique local, and serves such hosts */
	if (strcmp(scopes[_i].far, FAR_LOCAL) == 0)
		ck_assert_mem_eq(out.byte + ETH_HLEN + 8, (struct mk_addr[]){ address(LOCAL) }, 16);
	else
		expect_source(&out, _i);
}
END_TEST

BPF_SUITE("extension headers")
{
	TCase *tcase = bpf_case_ipv6(suite, "headers");

	tcase_add_loop_test(tcase, test_headers, 0, ROWS(rows));
	tcase_add_test(tcase, test_from_uplink);
	tcase_add_test(tcase, test_link_local_source);
	tcase_add_test(tcase, test_answer);
	tcase_add_loop_test(tcase, test_length, 0, ROWS(lengths));
	tcase_add_loop_test(tcase, test_hidden_from_uplink, 0, 4);
	tcase_add_loop_test(tcase, test_big_tcp, 0, 2);
	tcase_add_test(tcase, test_overlap);
	tcase_add_loop_test(tcase, test_options_behind_fragment, 0, ROWS(behind_fragment));
	tcase_add_test(tcase, test_identification);
	tcase_add_test(tcase, test_class_and_label);
	tcase_add_test(tcase, test_error_quotes_headers);
	tcase_add_test(tcase, test_error_has_least_mtu);
	tcase_add_loop_test(tcase, test_error_of_unknown_type, 0, 3);
	tcase_add_loop_test(tcase, test_scope_of_source, 0, ROWS(scopes));
	tcase_add_loop_test(tcase, test_scope_of_error, 0, ROWS(scopes));
}

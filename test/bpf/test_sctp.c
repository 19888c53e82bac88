// SPDX-License-Identifier: Apache-2.0
/* SCTP: balanced, masqueraded, refused. Its checksum is compared with one computed bit by bit
 * (frame_checksums_right() in every fixture_expect() checks the frames). */
#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/pieces.h"
#include "bpf/run.h"

#include "../../bpf/crc32c.h"

#define HEADER_BYTES 12 /* the common header */
#define L4	     (14 + frame_ip_bytes()) /* where it starts in a frame without IP options */

static const char *const local_backend[] = { "10.244.1.3:8080", NULL };
static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const same_port_backend[] = { "10.244.2.7:80", NULL };
static const char *const self_backend[] = { "10.244.1.2:8080", NULL };
static const char *const host_backend[] = { "192.168.99.11:3868", NULL };
static const char *const no_backend[] = { NULL };

static const struct frame_options init_ack = { .sctp_chunk = SCTP_INIT_ACK };
static const struct frame_options cookie_echo = { .sctp_chunk = SCTP_COOKIE_ECHO };
static const struct frame_options data = { .sctp_chunk = SCTP_DATA, .payload_bytes = 99 };
static const struct frame_options aborted = { .sctp_chunk = SCTP_ABORT };
static const struct frame_options shut_down = { .sctp_chunk = SCTP_SHUTDOWN };
static const struct frame_options shutdown_ack = { .sctp_chunk = SCTP_SHUTDOWN_ACK };

/* ---- the arithmetic ------------------------------------------------------------------------ */

static void expect_change(size_t bytes)
{
	static uint8_t packet[65536];
	uint32_t before, after, was, is;

	for (size_t i = 0; i < bytes; i++)
		packet[i] = (uint8_t)random();
	was = frame_crc32c(packet, bytes, 0);
	memcpy(&before, packet, 4);
	for (size_t i = 0; i < 4; i++)
		packet[i] = (uint8_t)random();
	memcpy(&after, packet, 4);
	is = frame_crc32c(packet, bytes, 0);
	ck_assert_msg((was ^ is) == crc32c_change(before ^ after, (uint32_t)bytes),
		      "%zu bytes: changed by %08x, computed %08x", bytes, was ^ is,
		      crc32c_change(before ^ after, (uint32_t)bytes));
}

START_TEST(test_reference)
{
	ck_assert_uint_eq(frame_crc32c("123456789", 9, 0), 0xe3069283); /* the check value */
}
END_TEST

START_TEST(test_change_of_any_length)
{
	for (size_t bytes = HEADER_BYTES; bytes <= 1500; bytes++)
		expect_change(bytes);
	for (size_t bytes = 1501; bytes <= 65515; bytes += 1009)
		expect_change(bytes);
	expect_change(65515);
}
END_TEST

/* ---- associations -------------------------------------------------------------------------- */

static const struct {
	const char *name, *frontend; /* NULL: no Service */
	enum mk_scope scope;
	uint16_t flags;
	const char *const *backends;
	uint16_t local_count;
	enum mk_hook hook;
	const char *request;
	enum where request_to;
	const char *source; /* the source that the backend sees */
	enum mk_hook answer_hook;
	enum where answer_to;
} flows[] = {
	{ "pod to ClusterIP, backend here", "sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0,
	  local_backend, 1, MK_HOOK_POD, "sctp 10.244.1.2:40000 > 10.96.0.10:80", TO_POD,
	  "10.244.1.2:40000", MK_HOOK_POD, TO_POD },
	{ "pod to ClusterIP, backend on the other node", "sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0,
	  remote_backend, 0, MK_HOOK_POD, "sctp 10.244.1.2:40000 > 10.96.0.10:80", TO_OVERLAY,
	  "10.244.1.2:40000", MK_HOOK_OVERLAY, TO_POD },
	{ "pod to ClusterIP, backend on the same port", "sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0,
	  same_port_backend, 0, MK_HOOK_POD, "sctp 10.244.1.2:40000 > 10.96.0.10:80", TO_OVERLAY,
	  "10.244.1.2:40000", MK_HOOK_OVERLAY, TO_POD },
	{ "pod to itself by ClusterIP", "sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, self_backend, 1,
	  MK_HOOK_POD, "sctp 10.244.1.2:40000 > 10.96.0.10:80", TO_POD, "10.244.1.1:", MK_HOOK_POD,
	  TO_POD },
	{ "host to ClusterIP", "sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0,
	  MK_HOOK_HOST, "sctp 10.18.0.1:40000 > 10.96.0.10:80", TO_OVERLAY,
	  "10.18.0.1:", MK_HOOK_OVERLAY, TO_HOST },
	{ "outside to NodePort, policy Local", "sctp 192.168.99.11:30080", MK_SCOPE_EXTERNAL,
	  MK_FRONTEND_MAGLEV, local_backend, 1, MK_HOOK_UPLINK,
	  "sctp 203.0.113.10:40000 > 192.168.99.11:30080", TO_POD, "203.0.113.10:40000",
	  MK_HOOK_POD, TO_UPLINK },
	{ "outside to NodePort, policy Cluster", "sctp 192.168.99.11:30080", MK_SCOPE_EXTERNAL,
	  MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, remote_backend, 0, MK_HOOK_UPLINK,
	  "sctp 203.0.113.10:40000 > 192.168.99.11:30080", TO_OVERLAY,
	  "10.244.1.1:", MK_HOOK_OVERLAY, TO_UPLINK },
	{ "outside to NodePort, the host is the backend", "sctp 192.168.99.11:30080",
	  MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, host_backend, 1, MK_HOOK_UPLINK,
	  "sctp 203.0.113.10:40000 > 192.168.99.11:30080", TO_HOST, "203.0.113.10:40000",
	  MK_HOOK_UPLINK_EGRESS, TO_HOST },
	{ "pod to outside", NULL, 0, 0, no_backend, 0, MK_HOOK_POD,
	  "sctp 10.244.1.2:40000 > 203.0.113.10:3868", TO_UPLINK, "192.168.99.11:", MK_HOOK_UPLINK,
	  TO_POD },
};

static const char *reversed(const char *flow)
{
	static char text[128];
	char from[48], to[48];

	ck_assert_int_eq(sscanf(flow, "sctp %47s > %47s", from, to), 2);
	snprintf(text, sizeof(text), "sctp %s > %s", to, from);
	return text;
}

static unsigned established(void)
{
	return fixture_count("sessions") + fixture_count("nat_sessions");
}

/* Send a packet of flow @i; the flow that the other side sees goes to @seen. */
static void request(int i, const struct frame_options *options, char *seen)
{
	struct frame in = frame_make(flows[i].request, options), out;

	out = fixture_expect(flows[i].name, flows[i].hook, &in, flows[i].request_to, NULL);
	snprintf(seen, 128, "%s", frame_flow(&out));
	ck_assert_msg(strncmp(seen + 5, flows[i].source, strlen(flows[i].source)) == 0,
		      "%s: '%s', expected it from %s", flows[i].name, seen, flows[i].source);
}

/* Send an answer. */
static void answer(int i, const struct frame_options *options, const char *seen)
{
	struct frame in = frame_make(reversed(seen), options);

	fixture_expect(flows[i].name, flows[i].answer_hook, &in, flows[i].answer_to,
		       reversed(flows[i].request));
}

static void start(int i)
{
	const struct mk_runtime runtime = { .host_backends = 1 };

	fixture_runtime(&runtime);
	if (flows[i].frontend)
		fixture_service(flows[i].frontend, flows[i].scope, flows[i].flags,
				flows[i].backends, flows[i].local_count, 1);
}

static void associate(int i, char *seen)
{
	start(i);
	request(i, NULL, seen);
	answer(i, &init_ack, seen);
	request(i, &cookie_echo, seen);
}

/* Half-open until the client's COOKIE ECHO, as TCP is until the client's ACK. */
START_TEST(test_association)
{
	char seen[128], again[128];

	start(_i);
	request(_i, NULL, seen);
	answer(_i, &init_ack, seen);
	ck_assert_msg(established() == 0, "%s: established by an INIT ACK", flows[_i].name);
	request(_i, &cookie_echo, again);
	ck_assert_str_eq(seen, again);
	/* an association to no Service also has a session (bpf/collision.h), besides nat's */
	ck_assert_msg(established() == (flows[_i].frontend ? 2 : 4), "%s: %u entries",
		      flows[_i].name, established());
	for (int round = 0; round < 2; round++) {
		request(_i, &data, again);
		ck_assert_str_eq(seen, again);
		answer(_i, &data, seen);
	}
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Make the options of a packet of @bytes, at least 12. */
static struct frame_options sized(size_t bytes)
{
	struct frame_options options = { .sctp_chunk = SCTP_DATA };

	options.sctp_bare = bytes < HEADER_BYTES + 4;
	options.payload_bytes = (uint16_t)(bytes - HEADER_BYTES - (options.sctp_bare ? 0 : 4));
	return options;
}

/* Every length, with and without a change of ports (flows 1 and 2). */
START_TEST(test_checksum_of_any_length)
{
	char seen[128];

	associate(_i, seen);
	for (size_t bytes = HEADER_BYTES; bytes <= 1450 - frame_ip_bytes(); bytes++) {
		struct frame_options options = sized(bytes);

		request(_i, &options, seen);
		answer(_i, &options, seen);
	}
}
END_TEST

/* The sending pod's device fills in the checksum. */
START_TEST(test_checksum_not_there_yet)
{
	struct frame_options options = { .no_checksum = true };
	struct frame in = frame_make("sctp 10.244.1.2:40000 > 10.96.0.10:80", &options), out;

	fixture_service("sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	out = fixture_expect("INIT", MK_HOOK_POD, &in, TO_OVERLAY,
			     "sctp 10.244.1.2:40000 > 10.244.2.7:8080");
	ck_assert_msg(memcmp(out.byte + L4 + 8, "\0\0\0\0", 4) == 0, "checksum filled in");
}
END_TEST

START_TEST(test_refused_stays_half_open)
{
	char seen[128];

	start(_i);
	request(_i, NULL, seen);
	answer(_i, &aborted, seen);
	request(_i, NULL, seen);
	ck_assert_uint_eq(established(), 0);
}
END_TEST

/* An INIT chooses a new backend if both sides have shut the association down, or one has aborted
 * it. On a live association it does not. */
START_TEST(test_port_reused)
{
	struct frame again = frame_make(flows[1].request, NULL);
	static const char *const kept = "sctp 10.244.1.2:40000 > 10.244.2.7:8080";
	char seen[128];

	associate(1, seen);
	fixture_service("sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, local_backend, 1, 1);
	fixture_expect("INIT on a live association", MK_HOOK_POD, &again, TO_OVERLAY, kept);
	if (_i) {
		answer(1, &aborted, seen);
	} else {
		request(1, &shut_down, seen);
		fixture_expect("INIT after one SHUTDOWN", MK_HOOK_POD, &again, TO_OVERLAY, kept);
		answer(1, &shutdown_ack, seen);
	}
	fixture_expect("INIT after the end", MK_HOOK_POD, &again, TO_POD,
		       "sctp 10.244.1.2:40000 > 10.244.1.3:8080");
}
END_TEST

/* ---- ICMP errors --------------------------------------------------------------------------- */

/* Refused with enough of the INIT for the sender to know it: type and tag (RFC 9260, 10). */
START_TEST(test_refused)
{
	struct frame in = frame_make("sctp 10.244.1.2:40000 > 10.96.0.10:80", NULL), out;

	fixture_service("sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, no_backend, 0, 1);
	out = fixture_expect("INIT", MK_HOOK_POD, &in, TO_POD,
			     "icmp-error 10.96.0.10 > 10.244.1.2 3/3 [sctp 10.244.1.2:40000 > "
			     "10.96.0.10:80]");
	ck_assert_uint_eq(out.length, 14 + frame_ip_bytes() + 8 + frame_ip_bytes() + 20);
	in = frame_make("sctp 10.244.1.2:40000 > 10.96.0.10:80", &cookie_echo);
	fixture_expect("COOKIE ECHO", MK_HOOK_POD, &in, TO_POD,
		       "icmp-error 10.96.0.10 > 10.244.1.2 3/3 [sctp 10.244.1.2:40000 > "
		       "10.96.0.10:80]");
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_REFUSED), 2);
}
END_TEST

static const size_t quotes[] = { 28, 40 }; /* with the verification tag; with the INIT's tag */

START_TEST(test_error_is_translated)
{
	struct frame in = frame_make("sctp 10.244.1.2:40000 > 10.96.0.10:80", NULL), seen, error;
	struct frame_options options = {
		.icmp_type = 3, .icmp_code = 2, .quote = &seen, .quote_bytes = quotes[_i]
	};

	fixture_service("sctp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, remote_backend, 0, 1);
	seen = fixture_expect("INIT", MK_HOOK_POD, &in, TO_OVERLAY, NULL);
	error = frame_make("icmp 10.244.2.7 > 10.244.1.2", &options);
	fixture_expect("from the backend", MK_HOOK_OVERLAY, &error, TO_POD,
		       "icmp-error 10.96.0.10 > 10.244.1.2 3/2 [sctp 10.244.1.2:40000 > "
		       "10.96.0.10:80]");
	in = frame_make("sctp 10.244.1.2:40000 > 203.0.113.10:3868", NULL);
	seen = fixture_expect("masqueraded", MK_HOOK_POD, &in, TO_UPLINK, NULL);
	error = frame_make("icmp 192.0.2.1 > 192.168.99.11", &options);
	fixture_expect("from a router", MK_HOOK_UPLINK, &error, TO_POD,
		       "icmp-error 192.0.2.1 > 10.244.1.2 3/2 [sctp 10.244.1.2:40000 > "
		       "203.0.113.10:3868]");
}
END_TEST

/* ---- fragments ----------------------------------------------------------------------------- */

/* Packets by their chunks' lengths. With new ports the checksum must be that of the whole packet.
 * Chunks begin after the 12 bytes of the common header. */
#define CUT 1024

static const struct {
	const char *name;
	uint16_t chunks[20]; /* lengths in bytes; ends with 0 */
} layouts[] = {
	{ "one chunk", { 2000 } },
	{ "one chunk, 1 byte of padding", { 1999 } },
	{ "one chunk, 3 bytes of padding", { 1997 } },
	{ "SACK, padded chunk, chunk", { 16, 333, 1500 } },
	{ "a byte beyond", { 1013 } },
	{ "a chunk ends with the fragment", { 1012, 500 } },
	{ "chunks behind the one that is cut", { 1008, 400, 400 } },
	{ "17 chunks", { 20, 21, 22, 23, 24, 20, 21, 22, 23, 24, 20, 21, 22, 23, 24, 20, 1300 } },
};

static void set_checksum(struct frame *frame, uint32_t checksum)
{
	checksum = htole32(checksum);
	memcpy(frame->byte + L4 + 8, &checksum, sizeof(checksum));
}

static uint32_t checksum_of(struct frame frame)
{
	set_checksum(&frame, 0);
	return frame_crc32c(frame.byte + L4, frame.length - L4, 0);
}

static struct frame of_chunks(const char *flow, const uint16_t *chunks)
{
	struct frame_options options = { .sctp_chunk = SCTP_DATA, .id = 7 };
	size_t at = L4 + HEADER_BYTES, bytes = 0;
	struct frame frame;

	for (size_t i = 0; chunks[i]; i++)
		bytes += (chunks[i] + 3u) & ~3u;
	options.payload_bytes = (uint16_t)(bytes - 4);
	frame = frame_make(flow, &options);
	for (size_t i = 0; chunks[i]; at += (chunks[i++] + 3u) & ~3u) {
		frame.byte[at] = 0; /* DATA */
		frame.byte[at + 2] = (uint8_t)(chunks[i] >> 8);
		frame.byte[at + 3] = (uint8_t)chunks[i];
	}
	set_checksum(&frame, checksum_of(frame));
	return frame;
}

/* Send @whole, cut @at. The packet put together again must have the flow @flow. */
static void send_cut(const char *name, enum mk_hook hook, const struct frame *whole,
		     const size_t *at, const char *order, enum where to, const char *flow)
{
	struct pieces in = pieces_cut(whole, at), out;
	struct frame joined;

	out = pieces_send(name, hook, &in, order, to);
	joined = pieces_join(name, &out);
	ck_assert_msg(strcmp(frame_flow(&joined), flow) == 0, "%s, %s: '%s'", name, order,
		      frame_flow(&joined));
	ck_assert_msg(fixture_count("fragments") == 0 && pieces_held() == 0,
		      "%s, %s: something stays", name, order);
}

/* Every flow with every layout, in both directions and both orders. */
START_TEST(test_fragments_whose_port_changes)
{
	static const char *const orders[] = { "01", "10" };
	static const size_t at[] = { CUT, 0 };
	int i = _i / ROWS(layouts), layout = _i % ROWS(layouts);
	const uint16_t *chunks = layouts[layout].chunks;
	struct frame packet;
	char name[128], seen[128];

	snprintf(name, sizeof(name), "%s: %s", flows[i].name, layouts[layout].name);
	associate(i, seen);
	for (int order = 0; order < ROWS(orders); order++) {
		packet = of_chunks(flows[i].request, chunks);
		send_cut(name, flows[i].hook, &packet, at, orders[order], flows[i].request_to,
			 seen);
		packet = of_chunks(reversed(seen), chunks);
		send_cut(name, flows[i].answer_hook, &packet, at, orders[order], flows[i].answer_to,
			 reversed(flows[i].request));
	}
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

static const char *const orders_of_three[] = { "012", "021", "102", "120", "201", "210" };

/* Packets one after the other, with the same id and other lengths. */
START_TEST(test_three_fragments)
{
	static const uint16_t longer[] = { 1600, 400, 0 }, shorter[] = { 1100, 0 };
	static const size_t at[] = { 512, CUT, 0 };
	struct frame packet;
	char seen[128];

	associate(1, seen);
	for (int order = 0; order < ROWS(orders_of_three); order++) {
		packet = of_chunks(flows[1].request, longer);
		send_cut("longer", MK_HOOK_POD, &packet, at, orders_of_three[_i], TO_OVERLAY, seen);
		packet = of_chunks(flows[1].request, shorter);
		send_cut("shorter", MK_HOOK_POD, &packet, at, orders_of_three[order], TO_OVERLAY,
			 seen);
	}
}
END_TEST

/* The length of a packet with lost fragments does not count for the next packet with its id. */
START_TEST(test_fragments_lost)
{
	static const uint16_t longer[] = { 1600, 400, 0 }, shorter[] = { 1100, 0 };
	static const size_t at[] = { 512, CUT, 0 };
	struct frame packet;
	struct pieces lost;
	char seen[128];

	associate(1, seen);
	packet = of_chunks(flows[1].request, longer);
	lost = pieces_cut(&packet, at);
	pieces_caught("first alone", MK_HOOK_POD, &lost.piece[0]);
	pieces_caught("middle", MK_HOOK_POD, &lost.piece[1]);
	pieces_wait(2 * MK_HELD_NS);
	packet = of_chunks(flows[1].request, shorter);
	send_cut("after a first", MK_HOOK_POD, &packet, at, orders_of_three[_i], TO_OVERLAY, seen);
	pieces_caught("last alone", MK_HOOK_POD, &lost.piece[2]);
	pieces_wait(2 * MK_HELD_NS);
	send_cut("after a last", MK_HOOK_POD, &packet, at, orders_of_three[_i], TO_OVERLAY, seen);
	pieces_caught("first alone", MK_HOOK_POD, &lost.piece[0]);
	lost = pieces_cut(&packet, at);
	lost = pieces_send("at once", MK_HOOK_POD, &lost, "012", TO_OVERLAY);
	packet = pieces_join("at once", &lost);
	ck_assert_str_eq(frame_flow(&packet), seen);
}
END_TEST

/* The packet is dropped, because its checksum would be wrong. */
START_TEST(test_fragments_without_room)
{
	static const uint16_t chunk[] = { 2000, 0 };
	struct frame whole = of_chunks(flows[1].request, chunk);
	static const size_t at[] = { CUT, 0 };
	char seen[128];

	associate(1, seen);
	pieces_fill_slots(A_MINUTE_NS);
	for (int i = 0; i < 2; i++) {
		struct pieces in = pieces_cut(&whole, at);

		pieces_send("first", MK_HOOK_POD, &in, "0", DROPPED);
		ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_PROTOCOL), i + 1);
	}
}
END_TEST

BPF_SUITE("SCTP")
{
	TCase *arithmetic = tcase_create("arithmetic"), *tcase = bpf_case(suite, "associations");

	tcase_add_unchecked_fixture(tcase, pieces_load, NULL);
	tcase_set_timeout(arithmetic, 60);
	tcase_add_test(arithmetic, test_reference);
	tcase_add_test(arithmetic, test_change_of_any_length);
	suite_add_tcase(suite, arithmetic);
	tcase_add_loop_test(tcase, test_association, 0, ROWS(flows));
	tcase_add_loop_test(tcase, test_checksum_of_any_length, 1, 3);
	tcase_add_test(tcase, test_checksum_not_there_yet);
	tcase_add_loop_test(tcase, test_refused_stays_half_open, 0, ROWS(flows));
	tcase_add_loop_test(tcase, test_port_reused, 0, 2);
	tcase_add_test(tcase, test_refused);
	tcase_add_loop_test(tcase, test_error_is_translated, 0, ROWS(quotes));
	tcase_add_loop_test(tcase, test_fragments_whose_port_changes, 0,
			    ROWS(flows) * ROWS(layouts));
	tcase_add_loop_test(tcase, test_three_fragments, 0, ROWS(orders_of_three));
	tcase_add_loop_test(tcase, test_fragments_lost, 0, ROWS(orders_of_three));
	tcase_add_test(tcase, test_fragments_without_room);
}

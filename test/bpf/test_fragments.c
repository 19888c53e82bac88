// SPDX-License-Identifier: Apache-2.0
/* Packets in fragments, in any order: translated as a whole, as by kube-proxy's conntrack. */
#include <stdio.h>
#include <string.h>

#include "bpf/pieces.h"
#include "bpf/run.h"

/* Of layer 4. No router cuts IPv6 fragments for the overlay. */
#define FIRST_BYTES (family_is6() ? 1400u : 1480u)

static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };

/* The orders of three pieces, in a burst of a new flow. */
static const char *const orders[] = { "012", "021", "102", "120", "201", "210" };

static const struct {
	const char *name, *frontend; /* NULL: no Service */
	enum mk_scope scope;
	uint16_t flags;
	enum mk_hook hook;
	const char *flow;
	enum where to;
	const char *seen; /* start of the flow that is seen */
	enum mk_hook answer_hook;
	enum where answer_to;
} flows[] = {
	{ "pod to ClusterIP", "udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, MK_HOOK_POD,
	  "udp 10.244.1.2:40000 > 10.96.0.10:53", TO_OVERLAY,
	  "udp 10.244.1.2:40000 > 10.244.2.7:8080", MK_HOOK_OVERLAY, TO_POD },
	{ "host to ClusterIP", "udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, MK_HOOK_HOST,
	  "udp 10.18.0.1:40000 > 10.96.0.10:53", TO_OVERLAY, "udp 10.18.0.1:", MK_HOOK_OVERLAY,
	  TO_HOST },
	{ "outside to NodePort", "udp 192.168.99.11:30053", MK_SCOPE_EXTERNAL,
	  MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, MK_HOOK_UPLINK,
	  "udp 203.0.113.10:40000 > 192.168.99.11:30053", TO_OVERLAY,
	  "udp 10.244.1.1:", MK_HOOK_OVERLAY, TO_UPLINK },
	{ "pod to outside", NULL, 0, 0, MK_HOOK_POD, "udp 10.244.1.2:40000 > 203.0.113.10:53",
	  TO_UPLINK, "udp 192.168.99.11:", MK_HOOK_UPLINK, TO_POD },
	{ "pod to outside, ping", NULL, 0, 0, MK_HOOK_POD, "icmp 10.244.1.2 > 203.0.113.10 77",
	  TO_UPLINK, "icmp 192.168.99.11 > 203.0.113.10", MK_HOOK_UPLINK, TO_POD },
	{ "pod to pod", NULL, 0, 0, MK_HOOK_POD, "udp 10.244.1.2:40000 > 10.244.1.3:53", TO_POD,
	  "udp 10.244.1.2:40000 > 10.244.1.3:53", MK_HOOK_POD, TO_POD },
};

static struct frame datagram(const char *flow, uint16_t id)
{
	const struct frame_options options = { .payload_bytes = 3000, .id = id };

	return frame_make(flow, &options);
}

static struct pieces in_three(const char *flow, uint16_t id)
{
	const size_t at[] = { FIRST_BYTES, 2400, 0 };
	const struct frame whole = datagram(flow, id);

	return pieces_cut(&whole, at);
}

static const char *reversed(const char *flow, bool answers_ping)
{
	static char text[128];
	char proto[8], from[48], to[48], id[8] = "";

	ck_assert_int_ge(sscanf(flow, "%7s %47s > %47s %7s", proto, from, to, id), 3);
	snprintf(text, sizeof(text), "%s %s > %s %s", proto, to, from, answers_ping ? id : "");
	return text;
}

static void start(int row)
{
	if (flows[row].frontend)
		fixture_service(flows[row].frontend, flows[row].scope, flows[row].flags,
				remote_backend, 0, 1);
}

/* Send a packet in pieces in this order and put it together; the flow that the other side sees goes
 * to @seen. */
static void send_in(int row, const char *order, uint16_t id, char *seen)
{
	struct pieces in = in_three(flows[row].flow, id), out;
	struct frame whole;
	char name[96];

	snprintf(name, sizeof(name), "%s, %s", flows[row].name, order);
	out = pieces_send(name, flows[row].hook, &in, order, flows[row].to);
	whole = pieces_join(name, &out);
	snprintf(seen, 128, "%s", frame_flow(&whole));
	ck_assert_msg(strncmp(seen, flows[row].seen, strlen(flows[row].seen)) == 0, "%s: as '%s'",
		      name, seen);
	ck_assert_uint_eq(fixture_drops_total(), 0);
	ck_assert_uint_eq(pieces_held(), 0);
	ck_assert_msg(fixture_count("fragments") == 0, "%s: an entry stays", name);
}

/* The first packet of a flow and the next one, which may have the same id. */
START_TEST(test_any_order)
{
	int row = _i / ROWS(orders);
	char seen[128], again[128];

	start(row);
	send_in(row, orders[_i % ROWS(orders)], 7, seen);
	for (int i = 0; i < ROWS(orders); i++) {
		send_in(row, orders[i], 7, again);
		ck_assert_str_eq(again, seen);
	}
}
END_TEST

START_TEST(test_answer_in_any_order)
{
	int row = _i / ROWS(orders);
	const char *order = orders[_i % ROWS(orders)];
	struct frame_options options = { .payload_bytes = 3000, .id = 9 };
	const size_t at[] = { FIRST_BYTES, 2400, 0 };
	bool ping = strncmp(flows[row].flow, "icmp", 4) == 0;
	struct pieces in, out;
	struct frame whole;
	char seen[128], wanted[128];

	start(row);
	send_in(row, "012", 7, seen);
	options.echo_reply = ping;
	whole = frame_make(reversed(seen, ping), &options);
	in = pieces_cut(&whole, at);
	out = pieces_send(flows[row].name, flows[row].answer_hook, &in, order,
			  flows[row].answer_to);
	whole = pieces_join(flows[row].name, &out);
	snprintf(wanted, sizeof(wanted), "%s", reversed(flows[row].flow, ping));
	ck_assert_msg(strncmp(frame_flow(&whole), wanted, strlen(wanted) - 1) == 0, "%s, %s: '%s'",
		      flows[row].name, order, frame_flow(&whole));
}
END_TEST

/* Held fragments come in again in their order and unchanged. */
START_TEST(test_as_they_were)
{
	struct pieces in = in_three(flows[0].flow, 7), caught;

	start(0);
	caught = pieces_caught("last", MK_HOOK_POD, &in.piece[2]);
	ck_assert_int_eq(caught.count, 0);
	caught = pieces_caught("middle", MK_HOOK_POD, &in.piece[1]);
	ck_assert_int_eq(caught.count, 0);
	ck_assert_uint_eq(pieces_held(), 2);
	caught = pieces_caught("first", MK_HOOK_POD, &in.piece[0]);
	ck_assert_int_eq(caught.count, 3);
	ck_assert_uint_eq(pieces_held(), 0);
	for (int i = 0; i < 3; i++) {
		const struct frame *was = &in.piece[i == 0 ? 0 : 3 - i];

		ck_assert_uint_eq(caught.piece[i].length, was->length);
		ck_assert_mem_eq(caught.piece[i].byte, was->byte, was->length);
	}
}
END_TEST

/* A sender with a wrong address or MAC leaves no data, and gets no fragment released. */
START_TEST(test_spoofed)
{
	struct frame_options options = { .fragment = 9, .payload_bytes = 64, .id = 7 };
	struct frame in = frame_make("udp 10.244.1.99:40000 > 10.96.0.10:53", &options);

	fixture_expect("another address", MK_HOOK_POD, &in, DROPPED, NULL);
	options.source_mac = "02:4d:0a:f4:01:03";
	in = frame_make("udp 10.244.1.2:40000 > 10.96.0.10:53", &options);
	fixture_expect("another MAC", MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_count("fragments"), 0);
	ck_assert_uint_eq(pieces_held(), 0);
}
END_TEST

/* Fragments of one hook are not mixed with those of another. */
START_TEST(test_of_another_hook)
{
	struct pieces in = in_three("udp 203.0.113.10:40000 > 192.168.99.11:30053", 7);

	start(2);
	pieces_caught("later", MK_HOOK_UPLINK, &in.piece[1]);
	fixture_expect("first, by the overlay", MK_HOOK_OVERLAY, &in.piece[0], TO_HOST, NULL);
	ck_assert_uint_eq(pieces_held(), 1);
}
END_TEST

/* ---- no room -------------------------------------------------------------------------------- */

#define MANY 20

static struct pieces in_many(void)
{
	const struct frame whole = datagram(flows[5].flow, 7);
	size_t at[MANY];

	for (size_t i = 0; i < MANY - 1; i++)
		at[i] = (i + 1) * 144;
	at[MANY - 1] = 0;
	return pieces_cut(&whole, at);
}

/* More fragments than a packet has slots: the others pass without waiting. A packet that needs no
 * translation loses none. */
START_TEST(test_too_many)
{
	struct pieces in = in_many(), all = { .count = 0 };

	for (int i = MANY - 1; i >= 0; i--) {
		struct pieces one = { .piece = { in.piece[i] }, .count = 1 }, out;

		out = pieces_send("backwards", MK_HOOK_POD, &one, "0", TO_POD);
		for (int k = 0; k < out.count; k++)
			all.piece[all.count++] = out.piece[k];
		if (i == MANY - MK_HELD_OF_PACKET)
			pieces_wait(-A_MINUTE_NS); /* independent of the machine's speed */
	}
	ck_assert_int_eq(all.count, MANY);
	ck_assert_uint_eq(frame_fragment_at(&all.piece[0]),
			  frame_fragment_at(&in.piece[MANY - 1 - MK_HELD_OF_PACKET]));
	pieces_join("backwards", &all);
	ck_assert_uint_eq(pieces_held(), 0);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Fragments of other packets use all slots. Fragments pass if they need no translation, or need not
 * wait. No fragment keeps its slot for long. */
START_TEST(test_slots_taken)
{
	struct pieces in = in_three(flows[5].flow, 7), out;

	pieces_fill_slots(A_MINUTE_NS);
	out = pieces_send("pod to pod", MK_HOOK_POD, &in, "210", TO_POD);
	pieces_join("pod to pod", &out);
	start(0);
	in = in_three(flows[0].flow, 8);
	out = pieces_send("in order", MK_HOOK_POD, &in, "012", TO_OVERLAY);
	pieces_join("in order", &out);
	ck_assert_uint_eq(pieces_held(), MK_HELD_SLOTS);
	ck_assert_uint_eq(fixture_drops_total(), 0);
	pieces_wait(A_MINUTE_NS);
	in = in_three(flows[3].flow, 9);
	out = pieces_send("later", flows[3].hook, &in, "210", TO_UPLINK);
	pieces_join("later", &out);
}
END_TEST

/* A first fragment never comes: the fragments that waited for it are not mixed with another
 * packet's. */
START_TEST(test_first_is_lost)
{
	struct pieces in = in_three(flows[0].flow, 7), caught;

	start(0);
	pieces_caught("middle", MK_HOOK_POD, &in.piece[1]);
	pieces_wait(MK_HELD_NS);
	caught = pieces_caught("last", MK_HOOK_POD, &in.piece[2]);
	ck_assert_int_eq(caught.count, 0);
	caught = pieces_caught("first", MK_HOOK_POD, &in.piece[0]);
	ck_assert_int_eq(caught.count, 2);
	ck_assert_uint_eq(caught.piece[1].length, in.piece[2].length);
}
END_TEST

BPF_SUITE("fragments")
{
	TCase *tcase = bpf_case(suite, "fragments");

	tcase_add_unchecked_fixture(tcase, pieces_load, NULL);
	tcase_add_loop_test(tcase, test_any_order, 0, ROWS(flows) * ROWS(orders));
	tcase_add_loop_test(tcase, test_answer_in_any_order, 0, ROWS(flows) * ROWS(orders));
	tcase_add_test(tcase, test_as_they_were);
	tcase_add_test(tcase, test_spoofed);
	tcase_add_test(tcase, test_of_another_hook);
	tcase_add_test(tcase, test_too_many);
	tcase_add_test(tcase, test_slots_taken);
	tcase_add_test(tcase, test_first_is_lost);
}

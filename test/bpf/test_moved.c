// SPDX-License-Identifier: Apache-2.0
/* Connections that a router moves to another node, with answers that go straight to the client
 * (bpf/direct_return.h): the new node's session becomes established. */
#include <linux/bpf.h>
#include <string.h>
#include <time.h>

#include "bpf/delegated.h"
#include "bpf/run.h"
#include "rows.h"

static const struct frame_options ack = { .tcp_flags = ACK };

/* Entries of established sessions. Half-open ones may be in the same table. */
static unsigned established(void)
{
	struct mk_session session;
	int fd = fixture_map("sessions");
	struct mk_tuple key;
	unsigned count = 0;

	for (void *last = NULL; row_next_key(fd, last, &key) == 0; last = &key) {
		ck_assert_int_eq(row_lookup(fd, &key, &session), 0);
		count += session.to.proto != IPPROTO_TCP || session.stage == MK_SESSION_OPEN;
	}
	return count;
}

/* ---- the node that takes the requests now ---------------------------------------------------- */

/* One answer, and the client's acknowledgement of it, establish the session. */
START_TEST(test_established_here)
{
	struct frame_options request = taken[_i].next, answer = taken[_i].answers;

	answer.tcp_flags = answer.tcp_flags ? ACK : 0;
	request.sctp_chunk = answer.sctp_chunk = answer.sctp_chunk ? SCTP_DATA : 0;
	to_node2("moved here", MK_HOOK_UPLINK, taken[_i].request, &request, taken[_i].request);
	ck_assert_uint_eq(established(), 0);
	from_node2("an answer", taken[_i].answer, &answer, TO_UPLINK, taken[_i].answer);
	to_node2("the next", MK_HOOK_UPLINK, taken[_i].request, &request, taken[_i].request);
	ck_assert_uint_eq(established(), 2);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Packets from a forged address establish none. The pod resets what it does not know. */
START_TEST(test_forged)
{
	const struct frame_options rst = { .tcp_flags = RST };
	struct frame_options forged = { .tcp_flags = ACK };

	for (forged.ack = 1; forged.ack < 20; forged.ack++)
		to_node2("forged", MK_HOOK_UPLINK, taken[0].request, &forged, taken[0].request);
	from_node2("RST", taken[0].answer, &rst, TO_UPLINK, taken[0].answer);
	to_node2("forged", MK_HOOK_UPLINK, taken[0].request, &forged, taken[0].request);
	ck_assert_uint_eq(established(), 0);
}
END_TEST

/* .. and an acknowledgement of another number establishes none, also after the pod's RST or FIN. */
static const uint8_t ends[] = { RST, RST | ACK, FIN | ACK };

START_TEST(test_forged_acknowledgement)
{
	const struct frame_options forged = { .tcp_flags = ACK, .ack = 1001 + (1 << 20) };
	const struct frame_options end = { .tcp_flags = ends[_i] };

	to_node2("SYN", MK_HOOK_UPLINK, taken[0].request, NULL, taken[0].request);
	from_node2("SYN-ACK", taken[0].answer, &taken[0].answers, TO_UPLINK, taken[0].answer);
	to_node2("forged", MK_HOOK_UPLINK, taken[0].request, &forged, taken[0].request);
	from_node2("the end", taken[0].answer, &end, TO_UPLINK, taken[0].answer);
	to_node2("forged again", MK_HOOK_UPLINK, taken[0].request, &forged, taken[0].request);
	ck_assert_uint_eq(established(), 0);
}
END_TEST

/* The client has acknowledged much more than the answer that this node has seen. */
START_TEST(test_acknowledges_more)
{
	const struct frame_options far = { .tcp_flags = ACK, .ack = 1001 + (1 << 20) };

	to_node2("moved here", MK_HOOK_UPLINK, taken[0].request, &ack, taken[0].request);
	from_node2("an answer", taken[0].answer, &ack, TO_UPLINK, taken[0].answer);
	to_node2("1 MiB more", MK_HOOK_UPLINK, taken[0].request, &far, taken[0].request);
	ck_assert_uint_eq(established(), 2);
}
END_TEST

/* Probes need seconds until they count node2 as on the link again. It has shown itself there @ago_s
 * ago; -1: never. */
static const struct {
	const char *name;
	int ago_s;
	bool is_delegated;
} back[] = {
	{ "shown before the link broke", 10, true },
	{ "shown long ago", 20, false },
	{ "never shown", -1, false },
};

START_TEST(test_link_is_back)
{
	const unsigned ago_s = back[_i].ago_s < 0 ? 0 : (unsigned)back[_i].ago_s;

	set_direct(false);
	put_link("10.18.0.2", "192.168.99.12", LINK2, back[_i].ago_s < 0 ? 0 : second(ago_s), true);
	hop(back[_i].name, MK_HOOK_UPLINK, taken[0].request, &ack,
	    back[_i].is_delegated ? TO_UPLINK : TO_OVERLAY,
	    back[_i].is_delegated ? taken[0].request : "tcp 203.0.113.9:5000 > 10.244.2.7:8080",
	    NULL);
}
END_TEST

/* ---- the node that has the pod --------------------------------------------------------------- */

/* Flows to the external address, by node2, in the order of served[]. */
static const struct served external[] = {
	{ "tcp 203.0.113.9:5000 > 198.51.100.9:81",
	  "tcp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "tcp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "tcp 198.51.100.9:81 > 203.0.113.9:5000",
	  { .tcp_flags = ACK },
	  { .tcp_flags = SYN | ACK } },
	{ "udp 203.0.113.9:5000 > 198.51.100.9:81",
	  "udp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "udp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "udp 198.51.100.9:81 > 203.0.113.9:5000",
	  { 0 },
	  { 0 } },
	{ "sctp 203.0.113.9:5000 > 198.51.100.9:81",
	  "sctp 203.0.113.9:5000 > 10.244.1.3:8080",
	  "sctp 10.244.1.3:8080 > 203.0.113.9:5000",
	  "sctp 198.51.100.9:81 > 203.0.113.9:5000",
	  { .sctp_chunk = SCTP_COOKIE_ECHO },
	  { .sctp_chunk = SCTP_INIT_ACK } },
};

static const struct frame_options data = { .tcp_flags = ACK, .sctp_chunk = SCTP_DATA };

static void by_node3(const char *name, const struct served *of, const struct frame_options *with)
{
	from_node(between.mac3, name, of->request, with, TO_POD, of->seen);
}

static const uint8_t link_mac[] = { 0x02, 0x00, 0x00, 0x00, 0x00 }; /* LINK2 and LINK3 begin so */

/* An answer goes by @mac's node; NULL: straight. */
static void answer(const char *name, const struct served *of, const struct frame_options *with,
		   const char *mac)
{
	struct frame out = hop(name, MK_HOOK_POD, of->answer, with, mac ? between.where : TO_UPLINK,
			       of->answered, mac);

	if (!mac)
		ck_assert_msg(memcmp(out.byte, link_mac, sizeof(link_mac)), "%s: to a node", name);
}

static const char *node3(void)
{
	return between.ifindex ? LINK3 : NODE3;
}

/* Read the answers' entry. */
static struct mk_session answers_entry(struct mk_tuple *key)
{
	struct mk_session session;
	int fd = fixture_map("sessions");

	for (void *last = NULL; row_next_key(fd, last, key) == 0; last = key) {
		ck_assert_int_eq(row_lookup(fd, key, &session), 0);
		if (!(session.flags & MK_SESSION_FORWARD))
			return session;
	}
	ck_abort_msg("no answers' entry in map sessions");
}

/* The last answer by the node was in @second. */
static void set_last(unsigned second)
{
	struct mk_tuple key;
	struct mk_session session = answers_entry(&key);

	session.spoke = second & MK_SPOKE_SECONDS;
	ck_assert_int_eq(row_update(fixture_map("sessions"), &key, &session, BPF_ANY), 0);
}

/* The second as programs see it, which may read the time of the last tick. */
static unsigned now_s(void)
{
	struct timespec tick, now;

	do {
		clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (tick.tv_sec != now.tv_sec);
	return (unsigned)now.tv_sec;
}

/* The first answer of a second goes by the node with @mac. */
static void expect_turn_by(const struct served *of, const char *mac)
{
	unsigned before = now_s(), last;
	struct mk_tuple key;

	set_last(before - 2);
	answer("by the node", of, &data, mac);
	last = answers_entry(&key).spoke;
	ck_assert_msg(last == (before & MK_SPOKE_SECONDS) || last == (now_s() & MK_SPOKE_SECONDS),
		      "noted second %u, began in %u", last, before & MK_SPOKE_SECONDS);
}

/* .. and all others straight. Tried again if a second ends meanwhile. */
static void expect_straight(const struct served *of)
{
	const struct frame in = frame_make(of->answer, &data);
	enum where where;
	struct frame out;
	unsigned at;

	do {
		at = now_s();
		set_last(at);
		where = fixture_send(MK_HOOK_POD, &in, &out);
	} while (now_s() != at);
	ck_assert_int_eq(where, TO_UPLINK);
}

static void expect_turns(const struct served *of)
{
	expect_turn_by(of, node3());
	expect_straight(of);
	by_node3("more", of, &of->next);
	expect_straight(of);
	expect_turn_by(of, node3());
	ck_assert_uint_eq(fixture_drops_total(), 0);
}

START_TEST(test_moves)
{
	const struct served *of = &external[_i];

	serve(of);
	by_node3("by node3", of, &of->next);
	expect_turns(of);
}
END_TEST

static void begin_here(const struct served *of)
{
	hop("the first", MK_HOOK_UPLINK, of->request, NULL, TO_POD, of->seen, NULL);
	answer("its answer", of, &of->first, NULL);
	hop("the second", MK_HOOK_UPLINK, of->request, &of->next, TO_POD, of->seen, NULL);
	answer("data", of, &data, NULL);
}

START_TEST(test_leaves_this_node)
{
	const struct served *of = &external[_i];

	begin_here(of);
	by_node3("by node3", of, &of->next);
	expect_turns(of);
}
END_TEST

/* What ends a connection goes by the node of its last request, also if it began at this one. */
START_TEST(test_end_follows)
{
	const struct frame_options end = { .tcp_flags = FIN | ACK, .sctp_chunk = SCTP_SHUTDOWN };
	const struct served *of = &external[2 * _i]; /* TCP and SCTP */

	begin_here(of);
	by_node3("by node3", of, &of->next);
	answer("its end", of, &end, node3());
	hop("back here", MK_HOOK_UPLINK, of->request, &of->next, TO_POD, of->seen, NULL);
	answer("its end", of, &end, NULL);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* An answer that is too long for the overlay goes straight; the next one takes the turn. */
START_TEST(test_long_answer)
{
	const struct frame_options is_long = { .tcp_flags = ACK, .packet_bytes = 1451 };
	const struct served *of = &external[0];

	serve(of);
	by_node3("by node3", of, &of->next);
	set_last(now_s() - 2);
	answer("a long one", of, &is_long, NULL);
	answer("a short one", of, &data, node3());
}
END_TEST

/* A pod answers forged segments of a connection whose handshake is not complete. Such an answer goes
 * straight: the node of the requests takes one without SYN for a sign of an established connection.
 * The session is in the established table while the quota lasts. */
START_TEST(test_half_open_pod)
{
	const struct served *of = &external[0];
	const char *mac = _i & 2 ? node3() : between.to_node2;

	fixture_quota(_i & 1 ? 4 : 0);
	from_node2("SYN", of->request, NULL, TO_POD, of->seen);
	answer("SYN-ACK", of, &of->first, between.to_node2);
	if (_i & 2)
		by_node3("SYN by node3", of, NULL);
	answer("its ACK", of, &data, NULL);
	answer("SYN-ACK again", of, &of->first, mac);
	ck_assert_uint_eq(established(), 0);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Both nodes have lost a connection's session: the request's node gets an answer, as if it had moved. */
START_TEST(test_begins_midway)
{
	const struct served *of = &external[0];

	from_node2("data", of->request, &of->next, TO_POD, of->seen);
	answer("an answer", of, &data, NULL);
	from_node2("its acknowledgement", of->request, &of->next, TO_POD, of->seen);
	ck_assert_uint_eq(established(), 2);
	expect_turn_by(of, between.to_node2);
	expect_straight(of);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* .. its answer is a GSO packet, and the client acknowledges nothing before its end. */
START_TEST(test_acknowledges_all)
{
	const struct frame_options whole = { .tcp_flags = ACK, .packet_bytes = 3000 };
	const struct frame_options end = { .tcp_flags = ACK, .ack = 1001 + 65535 + 2000 };
	const struct served *of = &external[0];

	from_node2("data", of->request, &of->next, TO_POD, of->seen);
	fixture_gso(2, 1400);
	answer("two segments", of, &whole, NULL);
	fixture_gso(0, 0);
	from_node2("its end and more", of->request, &end, TO_POD, of->seen);
	ck_assert_uint_eq(established(), 2);
}
END_TEST

static void add_all(TCase *tcase)
{
	tcase_add_loop_test(tcase, test_established_here, 0, ROWS(taken));
	tcase_add_test(tcase, test_forged);
	tcase_add_loop_test(tcase, test_forged_acknowledgement, 0, ROWS(ends));
	tcase_add_test(tcase, test_acknowledges_more);
	tcase_add_loop_test(tcase, test_moves, 0, ROWS(external));
	tcase_add_loop_test(tcase, test_leaves_this_node, 0, ROWS(external));
	tcase_add_loop_test(tcase, test_end_follows, 0, 2);
	tcase_add_test(tcase, test_long_answer);
	tcase_add_loop_test(tcase, test_half_open_pod, 0, 4);
	tcase_add_test(tcase, test_begins_midway);
	tcase_add_test(tcase, test_acknowledges_all);
}

BPF_SUITE("moved")
{
	TCase *tcase;

	add_all(clients_case(suite, "by the overlay", delegated_load, delegated_setup));
	tcase = clients_case(suite, "on the link", delegated_load_on_link, delegated_setup_on_link);
	add_all(tcase);
	tcase_add_loop_test(tcase, test_link_is_back, 0, ROWS(back));
}

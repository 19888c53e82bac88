// SPDX-License-Identifier: Apache-2.0
/* A flood of SYNs from outside: above a rate a client proves its address (bpf/syn_gate.h). */
#include "bpf/cpus.h"
#include "bpf/run.h"
#include "rows.h"

#define CLIENT	  "203.0.113.10"
#define NODE_PORT "192.168.99.11:30080"
#define FLOW	  "tcp " CLIENT ":40000 > " NODE_PORT
#define LATER	  "tcp " CLIENT ":40001 > " NODE_PORT
#define ISN	  0x12345678u
#define TTL_OWN	  64

static void setup(void)
{
	static const char *const backend[] = { "10.244.1.3:8080", NULL };

	fixture_service("tcp " NODE_PORT, MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, backend, 1, 1);
	cpus_one(true);
}

static void load_gate(void)
{
	fixture_syn_ns(4000000000u);
}

static enum where pass(const char *flow, const struct frame_options *options, struct frame *out)
{
	struct frame in = frame_make(flow, options);

	return fixture_send(MK_HOOK_UPLINK, &in, out);
}

static enum where send_syn(const char *flow)
{
	struct frame out;

	return pass(flow, &(struct frame_options){ .seq = ISN }, &out);
}

static unsigned sessions(void)
{
	return fixture_count("sessions") + fixture_count("sessions_young");
}

static uint64_t asked(void)
{
	return fixture_drops(MK_HOOK_UPLINK, MK_DROP_SYN_FLOOD);
}

/* Send a SYN that is asked, and return the number that proves the client's address. */
static uint32_t question(const char *flow, const struct frame_options *options, struct frame *out)
{
	uint64_t before = asked();

	ck_assert_int_eq(pass(flow, options, out), TO_UPLINK);
	ck_assert_uint_eq(asked(), before + 1);
	return frame_number(out, frame_l4(out) + 8, 4);
}

static uint32_t ask(const char *flow)
{
	struct frame out;

	return question(flow, &(struct frame_options){ .seq = ISN }, &out);
}

static enum where answer(const char *flow, uint32_t seq)
{
	struct frame out;

	return pass(flow, &(struct frame_options){ .tcp_flags = RST, .seq = seq }, &out);
}

static const struct {
	const char *name;
	struct frame_options options;
} syns[] = {
	{ "a SYN", { .seq = ISN } },
	{ "its number is 0", { .seq = 0x80000000u } },
	{ "data", { .seq = ISN, .payload_bytes = 301 } },
	{ "few hops left", { .seq = ISN, .ttl = 3 } },
	{ "IP options", { .seq = ISN, .ip_option_words = 2 } },
};

/* Each also with the device's sum over the frame. */
START_TEST(test_question)
{
	const bool of_device = _i >= ROWS(syns);
	static const char from[] = "02:00:00:00:00:aa";
	static const uint8_t own[6]; /* of the loopback device, which test runs have */
	struct frame_options options = syns[_i % ROWS(syns)].options;
	struct frame out, in;
	const char *wrong;
	uint32_t ack;

	options.source_mac = from;
	in = frame_make(FLOW, &options);
	fixture_syn_flood();
	if (of_device && !fixture_checksum_complete())
		return;
	ack = question(FLOW, &options, &out);
	ck_assert_str_eq(frame_flow(&out), "tcp " NODE_PORT " > " CLIENT ":40000");
	ck_assert_uint_le(options.seq - ack, 0x7fff);
	ck_assert_uint_eq(frame_number(&out, frame_l4(&out) + 13, 1), SYN | ACK);
	ck_assert_uint_eq(frame_number(&out, frame_l4(&out) + 14, 2), 0xffff);
	ck_assert_uint_eq(frame_ttl(&out), TTL_OWN);
	ck_assert_uint_eq(out.length, in.length);
	ck_assert_str_eq(frame_mac_dest(&out), from);
	ck_assert_mem_eq(out.byte + 6, own, sizeof(own));
	ck_assert_msg(frame_checksums_right(&out, &wrong), "%s: %s", syns[_i % ROWS(syns)].name,
		      wrong);
	ck_assert_uint_eq(sessions(), 0);
}
END_TEST

START_TEST(test_below_the_rate)
{
	ck_assert_int_eq(send_syn(FLOW), TO_POD);
	ck_assert_uint_eq(asked(), 0);
	ck_assert_int_eq(send_syn("tcp 203.0.113.11:40000 > " NODE_PORT), TO_UPLINK);
	ck_assert_uint_eq(asked(), 1);
}
END_TEST

START_TEST(test_proof)
{
	uint32_t seq;

	fixture_syn_flood();
	seq = ask(FLOW);
	(void)answer(FLOW, seq ^ 1);
	ck_assert_uint_eq(fixture_count("syn_verified"), 0);
	(void)answer("tcp 203.0.113.11:40000 > " NODE_PORT, seq);
	ck_assert_uint_eq(fixture_count("syn_verified"), 0);
	ck_assert_uint_eq(sessions(), 0);
	ck_assert_int_eq(answer(FLOW, seq), DROPPED);
	ck_assert_uint_eq(fixture_count("syn_verified"), 1);
	(void)ask("tcp 203.0.113.11:40000 > " NODE_PORT);
	ck_assert_int_eq(send_syn(FLOW), TO_POD);
}
END_TEST

/* A live host answers forged SYNs: it has a bound, and each further proof is worth one session. */
START_TEST(test_budget_of_a_client)
{
	uint32_t seq;

	fixture_syn_flood();
	ck_assert_int_eq(answer(FLOW, ask(FLOW)), DROPPED);
	ck_assert_int_eq(send_syn(FLOW), TO_POD);
	seq = ask(LATER);
	ck_assert_int_eq(answer(LATER, seq), DROPPED);
	ck_assert_int_eq(send_syn(LATER), TO_POD);
	(void)ask("tcp " CLIENT ":40002 > " NODE_PORT);
}
END_TEST

static void age_proof(unsigned seconds)
{
	const struct mk_addr client = fixture_addr(CLIENT);
	int fd = fixture_map("syn_verified");
	struct mk_syn_client proved;

	ck_assert_int_eq(row_lookup(fd, &client, &proved), 0);
	proved.since_ns -= seconds * 1000000000ULL;
	proved.paid_ns = 0; /* its budget is whole again */
	ck_assert_int_eq(row_update(fd, &client, &proved, BPF_EXIST), 0);
}

/* A proof is valid for 120 s, and the next one as long again. */
START_TEST(test_proof_ends)
{
	fixture_syn_flood();
	ck_assert_int_eq(answer(FLOW, ask(FLOW)), DROPPED);
	age_proof(110);
	ck_assert_int_eq(send_syn(FLOW), TO_POD);
	age_proof(10);
	ck_assert_int_eq(answer(LATER, ask(LATER)), DROPPED);
	age_proof(110);
	ck_assert_int_eq(send_syn(LATER), TO_POD);
}
END_TEST

static void age_question(unsigned seconds)
{
	int fd = fixture_map("syn_secret");
	struct mk_syn_secret secret;
	const __u32 zero = 0;

	ck_assert_int_eq(row_lookup(fd, &zero, &secret), 0);
	secret.asked_ns -= seconds * 1000000000ULL;
	ck_assert_int_eq(row_update(fd, &zero, &secret, BPF_EXIST), 0);
}

/* If no client was asked lately, an RST is no answer. */
START_TEST(test_late_proof)
{
	uint32_t seq;

	fixture_syn_flood();
	seq = ask(FLOW);
	age_question(37);
	ck_assert_int_eq(answer(FLOW, seq), DROPPED);
	ck_assert_uint_eq(fixture_count("syn_verified"), 0);
	ck_assert_uint_eq(asked(), 2);
	(void)ask(FLOW);
	ck_assert_int_eq(answer(FLOW, seq), DROPPED);
	ck_assert_uint_eq(fixture_count("syn_verified"), 1);
}
END_TEST

/* A Service without endpoints: the client proves its address, and is then refused. */
START_TEST(test_refused)
{
	static const char *const none[] = { NULL };
	struct frame out;

	fixture_service("tcp " NODE_PORT, MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, none, 0, 1);
	fixture_syn_flood();
	ck_assert_int_eq(answer(FLOW, ask(FLOW)), DROPPED);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_REFUSED), 0);
	ck_assert_int_eq(pass(FLOW, &(struct frame_options){ .seq = ISN }, &out), TO_UPLINK);
	ck_assert_str_eq(frame_flow(&out), "icmp-error 192.168.99.11 > " CLIENT " 3/3 [" FLOW "]");
	ck_assert_uint_eq(fixture_drops(MK_HOOK_UPLINK, MK_DROP_REFUSED), 1);
	ck_assert_uint_eq(asked(), 1);
	ck_assert_uint_eq(sessions(), 0);
}
END_TEST

#define OF_CLIENT(flags)                     \
	{                                    \
		MK_HOOK_UPLINK, FLOW,        \
		{                            \
			.tcp_flags = (flags) \
		}                            \
	}
#define OF_POD(flags)                                                  \
	{                                                              \
		MK_HOOK_POD, "tcp 10.244.1.3:8080 > " CLIENT ":40000", \
		{                                                      \
			.tcp_flags = (flags)                           \
		}                                                      \
	}

static const struct {
	const char *name;
	struct step {
		enum mk_hook hook;
		const char *flow;
		struct frame_options options;
	} steps[6];
} ended[] = {
	{ "refused by the pod", { OF_CLIENT(SYN), OF_POD(RST | ACK) } },
	{ "closed by both",
	  { OF_CLIENT(SYN), OF_POD(SYN | ACK), OF_CLIENT(ACK), OF_POD(FIN | ACK),
	    OF_CLIENT(FIN | ACK), OF_POD(ACK) } },
	{ "reset by the client",
	  { OF_CLIENT(SYN), OF_POD(SYN | ACK), OF_CLIENT(ACK), OF_CLIENT(RST) } },
};

/* The client's port has a session that is over: its RST is a proof, not a packet of that session. */
START_TEST(test_reused_port)
{
	const struct step *step = ended[_i].steps;
	struct frame in, out;

	for (; step < ended[_i].steps + ROWS(ended[_i].steps) && step->flow; step++) {
		in = frame_make(step->flow, &step->options);
		ck_assert_msg(fixture_send(step->hook, &in, &out) != DROPPED, "%s: %s",
			      ended[_i].name, step->flow);
	}
	ck_assert_uint_eq(sessions(), 2);
	fixture_syn_flood();
	ck_assert_int_eq(answer(FLOW, ask(FLOW)), DROPPED);
	ck_assert_uint_eq(fixture_count("syn_verified"), 1);
	ck_assert_int_eq(send_syn(FLOW), TO_POD);
	ck_assert_uint_eq(sessions(), 2);
}
END_TEST

static const struct {
	const char *name;
	struct frame_options options;
} others[] = {
	{ "ACK", { .tcp_flags = ACK, .seq = ISN } },
	{ "FIN", { .tcp_flags = FIN | ACK, .seq = ISN } },
	{ "RST", { .tcp_flags = RST, .seq = ISN } },
	{ "SYN in a first fragment", { .seq = ISN, .fragment = MF, .payload_bytes = 4 } },
};

/* They would open a session, too. */
START_TEST(test_no_question)
{
	struct frame out;

	fixture_syn_flood();
	ck_assert_msg(pass(FLOW, &others[_i].options, &out) == DROPPED, "%s", others[_i].name);
	ck_assert_uint_eq(asked(), 1);
	ck_assert_uint_eq(sessions(), 0);
}
END_TEST

START_TEST(test_open_session_goes_on)
{
	struct frame out;

	ck_assert_int_eq(send_syn(FLOW), TO_POD);
	fixture_syn_flood();
	ck_assert_int_eq(pass(FLOW, &(struct frame_options){ .tcp_flags = ACK, .seq = ISN + 1 },
			      &out),
			 TO_POD);
	ck_assert_int_eq(send_syn(FLOW), TO_POD);
	ck_assert_uint_eq(asked(), 0);
}
END_TEST

START_TEST(test_udp_goes_on)
{
	static const char *const backend[] = { "10.244.1.3:8080", NULL };
	struct frame out;

	fixture_service("udp " NODE_PORT, MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, backend, 1, 1);
	fixture_syn_flood();
	ck_assert_int_eq(pass("udp " CLIENT ":40000 > " NODE_PORT, &(struct frame_options){ 0 },
			      &out),
			 TO_POD);
	ck_assert_uint_eq(asked(), 0);
}
END_TEST

/* Its frames have no MAC address to which an answer could go. */
START_TEST(test_tunnel)
{
	struct mk_datapath_links links = { .uplink_count = 1 };

	links.uplinks[0] = (struct mk_uplink){ .ifindex = 1,
					       .mtu_bytes = 1500,
					       .addr = fixture_addr("192.168.99.11"),
					       .flags = MK_UPLINK_TUNNEL };
	fixture_links(&links);
	fixture_syn_flood();
	ck_assert_int_eq(send_syn(FLOW), TO_POD);
	ck_assert_uint_eq(asked(), 0);
}
END_TEST

START_TEST(test_off)
{
	fixture_syn_flood();
	ck_assert_int_eq(send_syn(FLOW), TO_POD);
	ck_assert_uint_eq(asked(), 0);
}
END_TEST

BPF_SUITE("syn_gate")
{
	TCase *gate = bpf_case_after(suite, "gate", load_gate, NULL);

	tcase_add_checked_fixture(gate, setup, NULL);
	tcase_add_loop_test(gate, test_question, 0, 2 * ROWS(syns));
	tcase_add_test(gate, test_below_the_rate);
	tcase_add_test(gate, test_proof);
	tcase_add_test(gate, test_proof_ends);
	tcase_add_test(gate, test_late_proof);
	tcase_add_test(gate, test_budget_of_a_client);
	tcase_add_test(gate, test_refused);
	tcase_add_loop_test(gate, test_reused_port, 0, ROWS(ended));
	tcase_add_loop_test(gate, test_no_question, 0, ROWS(others));
	tcase_add_test(gate, test_open_session_goes_on);
	tcase_add_test(gate, test_udp_goes_on);
	tcase_add_test(gate, test_tunnel);

	TCase *off = bpf_case(suite, "off");

	tcase_add_checked_fixture(off, setup, NULL);
	tcase_add_test(off, test_off);
}

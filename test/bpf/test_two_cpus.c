// SPDX-License-Identifier: Apache-2.0
/* Two packets of a connection pass on two CPUs at the same moment, many times. Both change flags of
 * the client's entry: the flags must not be added up, and none may be lost. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bpf/run.h"
#include "rows.h"

/* Through ilb: a pod's connection to a Service whose endpoint is on another node. */
#define ASKED	 "tcp 10.244.1.2:40000 > 10.96.0.10:80"
#define ANSWERED "tcp 10.244.2.7:8080 > 10.244.1.2:40000"

enum { ROUNDS = 30000, LIMIT_S = 4, SPINS = 2000, IGNORED_S = 10 };
#define STOP UINT32_MAX

#define CLIENT(tcp_flags)                   \
	{                                   \
		"ilb_pod", ASKED, tcp_flags \
	}
#define SERVER(tcp_flags)                          \
	{                                          \
		"ilb_overlay", ANSWERED, tcp_flags \
	}

/* The packets of the two CPUs, and the flags in the client's entry afterwards. */
static const struct row {
	const char *name;
	struct {
		const char *program, *flow;
		uint8_t tcp_flags;
	} sent[2];
	uint8_t noted; /* enum mk_session_flags */
	bool ignored; /* the server has ignored the client's RST: any packet clears its mark */
} rows[] = {
	{ "FIN twice", { CLIENT(FIN | ACK), CLIENT(FIN | ACK) }, MK_SESSION_FIN, false },
	{ "RST twice", { CLIENT(RST | ACK), CLIENT(RST | ACK) }, MK_SESSION_RST, false },
	{ "FIN, while an answer clears an RST",
	  { SERVER(ACK), CLIENT(FIN | ACK) },
	  MK_SESSION_FIN,
	  true },
};

/* Both entries of the session. */
struct pair {
	struct mk_session client, server;
};

static struct side {
	int cpu;
	const char *program;
	struct frame packet;
} sides[2];
static atomic_uint begun, ended;

static void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* Choose the first and the last CPU that we may use; with one CPU they are the same. */
static void choose_cpus(void)
{
	cpu_set_t ours;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(ours), &ours), 0);
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (!CPU_ISSET(cpu, &ours))
			continue;
		if (CPU_COUNT(&ours) == 1 || sides[1].cpu < 0)
			sides[1].cpu = cpu;
		sides[0].cpu = cpu;
	}
}

static void wait_for(atomic_uint *counter, unsigned value)
{
	for (unsigned spins = 0; atomic_load(counter) < value; spins++)
		if (spins % SPINS == SPINS - 1)
			sched_yield();
}

static void send_by(struct side *side)
{
	struct frame sent = side->packet;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = sent.byte,
		    .data_size_in = (__u32)sent.length, .repeat = 1);

	ck_assert_int_eq(bpf_prog_test_run_opts(fixture_program(side->program), &opts), 0);
}

static void *second_cpu(void *unused)
{
	pin_to(sides[1].cpu);
	for (unsigned round = 1;; round++) {
		wait_for(&begun, round);
		if (atomic_load(&begun) == STOP)
			return unused;
		send_by(&sides[1]);
		atomic_store(&ended, round);
	}
}

static uint64_t time_s(void)
{
	struct timespec now;

	ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (uint64_t)now.tv_sec;
}

static void setup(void)
{
	static const char *const backend[] = { "10.244.2.7:8080", NULL };

	fixture_reset();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, backend, 0, 1);
	sides[0].cpu = sides[1].cpu = -1;
	choose_cpus();
	atomic_store(&begun, 0);
	atomic_store(&ended, 0);
}

static void send_by_one(enum mk_hook hook, const char *flow, uint8_t tcp_flags)
{
	struct frame in = frame_make(flow, &(struct frame_options){ .tcp_flags = tcp_flags }), out;

	ck_assert_int_ne(fixture_send(hook, &in, &out), DROPPED);
}

static struct mk_tuple key_of(const char *saddr, uint16_t sport, const char *daddr, uint16_t dport)
{
	return (struct mk_tuple){ .saddr = fixture_addr(saddr),
				  .daddr = fixture_addr(daddr),
				  .sport = htons(sport),
				  .dport = htons(dport),
				  .proto = IPPROTO_TCP };
}

static struct pair read_pair(void)
{
	const struct mk_tuple asked = key_of("10.244.1.2", 40000, "10.96.0.10", 80);
	const struct mk_tuple answered = key_of("10.244.2.7", 8080, "10.244.1.2", 40000);
	int sessions = fixture_map("sessions");
	struct pair pair;

	ck_assert_int_eq(row_lookup(sessions, &asked, &pair.client), 0);
	ck_assert_int_eq(row_lookup(sessions, &answered, &pair.server), 0);
	return pair;
}

static void write_pair(const struct pair *pair)
{
	const struct mk_tuple asked = key_of("10.244.1.2", 40000, "10.96.0.10", 80);
	const struct mk_tuple answered = key_of("10.244.2.7", 8080, "10.244.1.2", 40000);
	int sessions = fixture_map("sessions");

	ck_assert_int_eq(row_update(sessions, &asked, &pair->client, BPF_EXIST), 0);
	ck_assert_int_eq(row_update(sessions, &answered, &pair->server, BPF_EXIST), 0);
}

/* Mark @pair with an RST of the client that is old enough to be cleared. */
static void mark_ignored_reset(struct pair *pair)
{
	uint16_t at_s = (uint16_t)(time_s() - IGNORED_S);

	pair->client.reset = MK_SESSION_RST;
	pair->server.reset_s = at_s ? at_s : UINT8_MAX;
}

static void one_round(const struct row *row, const struct pair *before, unsigned round)
{
	uint8_t wanted = MK_SESSION_FORWARD | MK_SESSION_OPEN | row->noted, flags;
	struct pair after;

	write_pair(before);
	atomic_store(&begun, round);
	send_by(&sides[0]);
	wait_for(&ended, round);
	after = read_pair();
	flags = mk_session_flags(&after.client);
	ck_assert_msg(flags == wanted, "%s, round %u: the entry says 0x%x, expected 0x%x",
		      row->name, round, flags, wanted);
}

/* On one CPU, or on busy ones, fewer rounds coincide. */
START_TEST(test_notes_meet)
{
	const struct row *row = &rows[_i];
	uint64_t began_s = time_s();
	struct pair established;
	pthread_t second;
	unsigned round;

	send_by_one(MK_HOOK_POD, ASKED, SYN);
	send_by_one(MK_HOOK_OVERLAY, ANSWERED, SYN | ACK);
	send_by_one(MK_HOOK_POD, ASKED, ACK);
	established = read_pair();
	if (row->ignored)
		mark_ignored_reset(&established);
	for (int i = 0; i < 2; i++) {
		sides[i].program = row->sent[i].program;
		sides[i].packet =
			frame_make(row->sent[i].flow,
				   &(struct frame_options){ .tcp_flags = row->sent[i].tcp_flags });
	}
	ck_assert_int_eq(pthread_create(&second, NULL, second_cpu, NULL), 0);
	pin_to(sides[0].cpu);
	for (round = 1; round <= ROUNDS && time_s() - began_s < LIMIT_S; round++)
		one_round(row, &established, round);
	atomic_store(&begun, STOP);
	ck_assert_int_eq(pthread_join(second, NULL), 0);
}
END_TEST

BPF_SUITE("two cpus")
{
	TCase *tcase = tcase_create("two cpus");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_notes_meet, 0, ROWS(rows));
}

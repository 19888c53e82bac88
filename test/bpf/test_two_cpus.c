// SPDX-License-Identifier: Apache-2.0
/* A connection's packet passes on two CPUs at the same moment, many times. Flags that both note in
 * the session's entry must not be added up. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bpf/run.h"

/* Through ilb: a pod's connection to a Service whose endpoint is on another node. */
#define ASKED	 "tcp 10.244.1.2:40000 > 10.96.0.10:80"
#define ANSWERED "tcp 10.244.2.7:8080 > 10.244.1.2:40000"

enum { ROUNDS = 30000, LIMIT_S = 4, SPINS = 2000 };
#define STOP UINT32_MAX

/* The client's packet that passes on both CPUs, and the flags in its entry afterwards. */
static const struct row {
	const char *name;
	uint8_t tcp_flags, noted; /* enum mk_session_flags */
} rows[] = {
	{ "FIN twice", FIN | ACK, MK_SESSION_FIN },
	{ "RST twice", RST | ACK, MK_SESSION_RST },
};

static struct side {
	int cpu;
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

	ck_assert_int_eq(bpf_prog_test_run_opts(fixture_program("ilb_pod"), &opts), 0);
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

static const struct mk_tuple *client_key(void)
{
	static struct mk_tuple key = { .proto = IPPROTO_TCP };

	key.saddr = fixture_addr("10.244.1.2");
	key.daddr = fixture_addr("10.96.0.10");
	key.sport = htons(40000);
	key.dport = htons(80);
	return &key;
}

/* Read the client's entry. */
static struct mk_session read_entry(void)
{
	struct mk_session session;

	ck_assert_int_eq(bpf_map_lookup_elem(fixture_map("sessions"), client_key(), &session), 0);
	return session;
}

static void one_round(const struct row *row, const struct mk_session *before, unsigned round)
{
	uint8_t wanted = MK_SESSION_FORWARD | MK_SESSION_OPEN | row->noted, flags;
	struct mk_session after;

	ck_assert_int_eq(
		bpf_map_update_elem(fixture_map("sessions"), client_key(), before, BPF_EXIST), 0);
	atomic_store(&begun, round);
	send_by(&sides[0]);
	wait_for(&ended, round);
	after = read_entry();
	flags = mk_session_flags(&after);
	ck_assert_msg(flags == wanted, "%s, round %u: the entry says 0x%x, expected 0x%x",
		      row->name, round, flags, wanted);
}

/* On one CPU, or on busy ones, fewer rounds coincide. */
START_TEST(test_notes_meet)
{
	const struct row *row = &rows[_i];
	uint64_t began_s = time_s();
	struct mk_session established;
	pthread_t second;
	unsigned round;

	send_by_one(MK_HOOK_POD, ASKED, SYN);
	send_by_one(MK_HOOK_OVERLAY, ANSWERED, SYN | ACK);
	send_by_one(MK_HOOK_POD, ASKED, ACK);
	established = read_entry();
	for (int i = 0; i < 2; i++)
		sides[i].packet =
			frame_make(ASKED, &(struct frame_options){ .tcp_flags = row->tcp_flags });
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

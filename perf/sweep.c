// SPDX-License-Identifier: Apache-2.0
/* perf/sweep - what one pass of the agent over a table of a million session entries costs: CPU
 * time, turns of the loop, and the longest turn. Five passes per row: minimum and median. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "unit/sync_fixture.h"

#include "base/log.h"
#include "datapath/sessions/sweep.h"
#include "rows.h"

#define ENTRIES (1u << 20)
#define BUDGET	4096 /* as in src/agent/sessions.c */
#define BATCH	4096
#define PASSES	5
#define NOW_NS	(100 * 3600 * 1000000000ULL)
#define IDLE_NS (25 * 3600 * 1000000000ULL) /* longer than any limit */

static const struct row {
	const char *name;
	uint8_t proto, stage;
	uint64_t idle_ns, answer_idle_ns;
} rows[] = {
	{ "TCP, all in use", IPPROTO_TCP, MK_SESSION_OPEN, 0, 0 },
	{ "UDP of a Service, all in use", IPPROTO_UDP, 0, 0, 0 },
	{ "UDP, all silent in one direction", IPPROTO_UDP, 0, 0, IDLE_NS },
	{ "TCP, all over: removed", IPPROTO_TCP, MK_SESSION_OPEN, IDLE_NS, IDLE_NS },
};

static struct mk_frontend service;

/* Make entry @n: the entries of a pair are adjacent, the client's direction first. */
static void entry(const struct row *row, unsigned int n, struct mk_tuple *key,
		  struct mk_session *session)
{
	struct mk_tuple asked = { .saddr = row_ipv4(0x0af40000 + n / 65536),
				  .daddr = row_ipv4(0x0a600001),
				  .sport = htons((uint16_t)(n / 2)),
				  .dport = htons(80),
				  .proto = row->proto };
	struct mk_tuple sent = asked;

	asked.saddr = row_ipv4(0x0af40000 + n / 2 / 65536);
	sent.saddr = asked.saddr;
	sent.daddr = row_ipv4(0x0a000002);
	sent.dport = htons(8080);
	*session = (struct mk_session){ .set_id = service.set_id,
					.service_id = service.service_id,
					.stage = row->stage };
	if (n % 2) {
		*key = (struct mk_tuple){ sent.daddr, sent.saddr, sent.dport, sent.sport,
					  row->proto, 0,	  0 };
		session->to = (struct mk_tuple){
			asked.daddr, asked.saddr, asked.dport, asked.sport, row->proto, 0, 0
		};
		session->last_seen_ns = NOW_NS - row->answer_idle_ns;
		return;
	}
	*key = asked;
	session->to = sent;
	session->flags |= MK_SESSION_FORWARD;
	session->last_seen_ns = NOW_NS - row->idle_ns;
}

/* Insert stored entries. ENOMEM is retried: the kernel's allocator for maps may be behind for a
 * moment. */
static void put(const struct mk_table *table, const char *keys, const char *values, __u32 wanted)
{
	for (__u32 done = 0; done < wanted;) {
		__u32 count = wanted - done;
		int ret = bpf_map_update_batch(table->fd, keys + done * table->stored_key_size,
					       values + done * table->stored_value_size, &count,
					       NULL);

		ck_assert_msg(ret == 0 || errno == ENOMEM, "entries: %s", strerror(errno));
		done += count;
	}
}

static void fill(const struct mk_table *table, const struct row *row)
{
	static char keys[BATCH * sizeof(struct mk_tuple)];
	static char values[BATCH * sizeof(struct mk_session)];

	for (unsigned int first = 0; first < ENTRIES; first += BATCH) {
		for (unsigned int i = 0; i < BATCH; i++) {
			struct mk_session session;
			struct mk_tuple key;

			entry(row, first + i, &key, &session);
			row_narrow(table->key_form, keys + i * table->stored_key_size, &key,
				   table->key_size);
			row_narrow(table->value_form, values + i * table->stored_value_size,
				   &session, table->value_size);
		}
		put(table, keys, values, BATCH);
	}
}

static double cpu_ms(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return (double)spent.tv_sec * 1e3 + (double)spent.tv_nsec / 1e6;
}

static bool is_cut(void *ctx, const struct mk_tuple *key, const struct mk_session *session)
{
	(void)ctx;
	return mk_service_sync_session_cut(sync_, key, session);
}

struct cost {
	double pass_ms, longest_ms;
	unsigned int turns;
};

static struct cost one_pass(struct mk_sweep *sweep)
{
	struct cost cost = { 0 };
	int ended = 0;

	for (; ended == 0; cost.turns++) {
		double began = cpu_ms(), took;

		ended = mk_sweep_step(sweep, NOW_NS, BUDGET, &sync_err);
		took = cpu_ms() - began;
		cost.pass_ms += took;
		if (took > cost.longest_ms)
			cost.longest_ms = took;
	}
	ck_assert_msg(ended == 1, "%s", mk_error_text(&sync_err));
	ck_assert_uint_ge(mk_sweep_last_pass(sweep)->seen, ENTRIES / 2);
	return cost;
}

static int compare(const void *a, const void *b)
{
	const struct cost *x = a, *y = b;

	return (x->pass_ms > y->pass_ms) - (x->pass_ms < y->pass_ms);
}

static void measure(const struct mk_table *table, const struct row *row)
{
	const struct mk_sweep_options options = {
		.tables = table,
		.table_count = 1,
		.cut = is_cut,
	};
	struct mk_sweep *sweep = mk_sweep_new(&options, &sync_err);
	struct cost costs[PASSES];

	ck_assert_ptr_nonnull(sweep);
	for (int i = 0; i < PASSES; i++) {
		if (i == 0 || (row->answer_idle_ns && row->idle_ns))
			fill(table, row);
		costs[i] = one_pass(sweep);
	}
	mk_sweep_free(sweep);
	qsort(costs, PASSES, sizeof(costs[0]), compare);
	printf("%-34s %8.0f %8.0f %8u %10.1f\n", row->name, costs[0].pass_ms,
	       costs[PASSES / 2].pass_ms, costs[PASSES / 2].turns, costs[PASSES / 2].longest_ms);
	fflush(stdout);
}

START_TEST(measure_all)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_NO_PREALLOC);
	struct built web;

	build(&web, "web", "10.96.0.1", "23");
	web.frontends[2] = web.frontends[0];
	web.frontends[2].proto = IPPROTO_UDP;
	web.set.frontend_count = 3;
	apply(&web);
	ck_assert(lookup("10.96.0.1", 80, &service));
	printf("%-34s %8s %8s %8s %10s\n", "1,048,576 entries", "CPU ms", "median", "turns",
	       "longest ms");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct mk_table table;
		int fd = row_create_ipv4(BPF_MAP_TYPE_HASH, "sessions", sizeof(struct mk_tuple),
					 sizeof(struct mk_session), ENTRIES, &options);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(mk_table_init(&table, "sessions", fd, &sync_err), 0);
		measure(&table, &rows[i]);
		mk_table_close(&table);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("perf");
	TCase *tcase = tcase_create("sweep");
	SRunner *runner = srunner_create(suite);
	int failed;

	mk_log_set_level(MK_LOG_WARN);
	suite_add_tcase(suite, tcase);
	tcase_add_checked_fixture(tcase, sync_setup, sync_teardown);
	tcase_set_timeout(tcase, 1200);
	tcase_add_test(tcase, measure_all);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

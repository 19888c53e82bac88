// SPDX-License-Identifier: Apache-2.0
/* `monokube monitor`: which packets are reported, with which data, and that their way does not
 * change. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bpf/family.h"
#include "bpf/run.h"
#include "rows.h"

#define ACCOUNT	       (FIXTURE_ACCOUNT + 1)
#define POD_TO_SERVICE "tcp 10.244.1.2:40000 > 10.96.0.10:80"

static const char *const backends[] = { "10.244.2.7:8080", NULL };

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

static struct mk_monitor_settings all(void)
{
	return (struct mk_monitor_settings){ .until_ns = now_ns() + 60 * 1000000000ULL };
}

/* ---- events ------------------------------------------------------------------------------- */

#define EVENTS 4096
static struct mk_flow_event events[EVENTS];
static size_t event_count;

static int take(void *ctx, void *data, size_t size)
{
	struct mk_flow_event row;
	const struct mk_flow_event *event = mk_event_row("flow_events", data, size, &row);

	(void)ctx;
	ck_assert_ptr_nonnull(event);
	ck_assert_uint_lt(event_count, EVENTS);
	events[event_count++] = *event;
	return 0;
}

/* Read the events since the last call. */
static size_t read_events(void)
{
	struct ring_buffer *ring = ring_buffer__new(fixture_map("flow_events"), take, NULL, NULL);

	ck_assert_ptr_nonnull(ring);
	event_count = 0;
	ck_assert_int_ge(ring_buffer__consume(ring), 0);
	ring_buffer__free(ring);
	return event_count;
}

static const char *tuple_text(const struct mk_tuple *tuple)
{
	static char text[2][96];
	static int turn;
	const struct mk_ip from = mk_ip_from_addr(&tuple->saddr);
	const struct mk_ip to = mk_ip_from_addr(&tuple->daddr);
	char ends[2][MK_IP_STRLEN];

	turn = !turn;
	snprintf(text[turn], sizeof(text[turn]), "%s:%u > %s:%u", family_text(&from, ends[0]),
		 ntohs(tuple->sport), family_text(&to, ends[1]), ntohs(tuple->dport));
	return text[turn];
}

static void send_as(enum mk_hook hook, const char *flow, uint8_t tcp_flags)
{
	struct frame in = frame_make(flow, &(struct frame_options){ .tcp_flags = tcp_flags }), out;

	fixture_send(hook, &in, &out);
}

static void forget_flows(void)
{
	const struct mk_monitor_flow none = { 0 };

	for (__u32 slot = 0; slot < MK_MONITOR_FLOWS; slot++)
		ck_assert_int_eq(row_update(fixture_map("monitor_flows"), &slot, &none, BPF_ANY),
				 0);
}

static void setup(void)
{
	fixture_reset();
	forget_flows();
	(void)read_events();
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, backends, 0, 1);
}

/* ---- rows --------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow, *came, *goes; /* came NULL: no event */
	enum where where;
	uint8_t session, to_host;
} rows[] = {
	{ "pod to pod", MK_HOOK_POD, "tcp 10.244.1.2:1 > 10.244.1.3:2",
	  "10.244.1.2:1 > 10.244.1.3:2", "10.244.1.2:1 > 10.244.1.3:2", TO_POD, 0, 0 },
	{ "pod to Service", MK_HOOK_POD, POD_TO_SERVICE, "10.244.1.2:40000 > 10.96.0.10:80",
	  "10.244.1.2:40000 > 10.244.2.7:8080", TO_OVERLAY, MK_FLOW_OPENING, 0 },
	{ "pod to outside: before masquerade", MK_HOOK_POD, "udp 10.244.1.2:1 > 8.8.8.8:53",
	  "10.244.1.2:1 > 8.8.8.8:53", "10.244.1.2:1 > 8.8.8.8:53", TO_UPLINK, 0, 0 },
	{ "from another node", MK_HOOK_OVERLAY, "tcp 10.244.2.9:80 > 10.244.1.2:40000",
	  "10.244.2.9:80 > 10.244.1.2:40000", "10.244.2.9:80 > 10.244.1.2:40000", TO_POD, 0, 0 },
	{ "outside to the host: not ours", MK_HOOK_UPLINK, "tcp 203.0.113.9:5 > 192.168.99.11:22",
	  NULL, NULL, TO_HOST, 0, 0 },
	{ "dropped before the router: by the drop's event", MK_HOOK_POD,
	  "tcp 10.244.1.99:1 > 10.244.1.3:2", NULL, NULL, DROPPED, 0, 0 },
	{ "dropped by the router: no node has the address", MK_HOOK_POD,
	  "tcp 10.244.1.2:1 > 10.244.9.9:2", "10.244.1.2:1 > 10.244.9.9:2",
	  "10.244.1.2:1 > 10.244.9.9:2", DROPPED, 0, 0 },
};

START_TEST(test_told)
{
	struct frame in = frame_make(rows[_i].flow, NULL);
	struct mk_monitor_settings settings = all();

	fixture_watch(&settings);
	fixture_expect(rows[_i].name, rows[_i].hook, &in, rows[_i].where, NULL);
	ck_assert_uint_eq(read_events(), rows[_i].came != NULL);
	if (!rows[_i].came)
		return;
	ck_assert_str_eq(tuple_text(&events[0].came), rows[_i].came);
	ck_assert_str_eq(tuple_text(&events[0].goes), rows[_i].goes);
	ck_assert_uint_eq(events[0].hook, rows[_i].hook);
	ck_assert_uint_eq(events[0].session, rows[_i].session);
	ck_assert_uint_eq(events[0].to_host, rows[_i].to_host);
	ck_assert_uint_eq(events[0].length_bytes, in.length);
	ck_assert_uint_eq(events[0].service_id, rows[_i].session ? ACCOUNT : 0);
}
END_TEST

/* The same frame comes out with and without a monitor. */
START_TEST(test_same_way)
{
	struct mk_monitor_settings settings = all();
	struct frame in = frame_make(rows[_i].flow, NULL), plain, watched;
	enum where where;

	fixture_send(rows[_i].hook, &in, &plain); /* opens the session */
	where = fixture_send(rows[_i].hook, &in, &plain);
	fixture_watch(&settings);
	ck_assert_int_eq(fixture_send(rows[_i].hook, &in, &watched), where);
	ck_assert_uint_eq(plain.length, watched.length);
	ck_assert_int_eq(memcmp(plain.byte, watched.byte, plain.length), 0);
}
END_TEST

/* ---- answers ------------------------------------------------------------------------------- */

START_TEST(test_answer_of_service)
{
	struct mk_monitor_settings settings = all();

	fixture_watch(&settings);
	send_as(MK_HOOK_POD, POD_TO_SERVICE, SYN);
	send_as(MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", SYN | ACK);
	send_as(MK_HOOK_POD, POD_TO_SERVICE, ACK);
	send_as(MK_HOOK_OVERLAY, "tcp 10.244.2.7:8080 > 10.244.1.2:40000", ACK);
	ck_assert_uint_eq(read_events(), 2); /* the first of each direction */
	ck_assert_str_eq(tuple_text(&events[1].came), "10.244.2.7:8080 > 10.244.1.2:40000");
	ck_assert_str_eq(tuple_text(&events[1].goes), "10.96.0.10:80 > 10.244.1.2:40000");
	ck_assert_uint_eq(events[1].tcp_flags, SYN | ACK);
	ck_assert(events[1].session_flags & MK_SESSION_FORWARD);
}
END_TEST

START_TEST(test_answer_of_nat)
{
	struct mk_monitor_settings settings = all();
	struct frame in = frame_make("udp 10.244.1.2:1 > 8.8.8.8:53", NULL), out;
	char flow[64], came[64];
	unsigned port;

	fixture_send(MK_HOOK_POD, &in, &out);
	ck_assert_int_eq(sscanf(frame_flow(&out), "udp 192.168.99.11:%u", &port), 1);
	fixture_watch(&settings);
	snprintf(flow, sizeof(flow), "udp 8.8.8.8:53 > 192.168.99.11:%u", port);
	snprintf(came, sizeof(came), "8.8.8.8:53 > 192.168.99.11:%u", port);
	send_as(MK_HOOK_UPLINK, flow, 0);
	ck_assert_uint_eq(read_events(), 1);
	ck_assert_str_eq(tuple_text(&events[0].came), came);
	ck_assert_str_eq(tuple_text(&events[0].goes), "8.8.8.8:53 > 10.244.1.2:1");
	ck_assert_uint_eq(events[0].session, MK_FLOW_OPENING); /* one query, one answer */
}
END_TEST

/* ---- which --------------------------------------------------------------------------------- */

static const struct {
	const char *name, *addr;
	uint16_t port;
	uint8_t proto;
	uint32_t service_id;
	unsigned told;
} filters[] = {
	{ "none", NULL, 0, 0, 0, 2 },
	{ "the client", "10.244.1.2", 0, 0, 0, 1 },
	{ "the Service's address", "10.96.0.10", 0, 0, 0, 1 },
	{ "the backend's address", "10.244.2.7", 0, 0, 0, 1 },
	{ "an unused address", "10.244.2.8", 0, 0, 0, 0 },
	{ "the Service's port", NULL, 80, 0, 0, 1 },
	{ "the backend's port", NULL, 8080, 0, 0, 1 },
	{ "a client's port", NULL, 40001, 0, 0, 1 },
	{ "UDP", NULL, 0, IPPROTO_UDP, 0, 1 },
	{ "the Service", NULL, 0, 0, ACCOUNT, 1 },
	{ "another Service", NULL, 0, 0, ACCOUNT + 1, 0 },
	{ "address and port of two flows", "10.96.0.10", 40001, 0, 0, 0 },
};

START_TEST(test_filter)
{
	struct mk_monitor_settings settings = all();

	if (filters[_i].addr)
		settings.addr = fixture_addr(filters[_i].addr);
	settings.port = htons(filters[_i].port);
	settings.proto = filters[_i].proto;
	settings.service_id = filters[_i].service_id;
	fixture_watch(&settings);
	send_as(MK_HOOK_POD, POD_TO_SERVICE, SYN);
	send_as(MK_HOOK_POD, "udp 10.244.1.3:40001 > 10.244.2.9:53", 0);
	ck_assert_msg(read_events() == filters[_i].told, "%s: %zu events", filters[_i].name,
		      event_count);
}
END_TEST

START_TEST(test_sample)
{
	struct mk_monitor_settings settings = all();

	settings.sample = 10;
	fixture_watch(&settings);
	for (int i = 0; i < 101; i++)
		send_as(MK_HOOK_POD, POD_TO_SERVICE, i ? ACK : SYN);
	/* the kernel may run them on several CPUs, each with its own count */
	ck_assert_uint_ge(read_events(), 1 + 100 / 10 - (unsigned)libbpf_num_possible_cpus());
	ck_assert_uint_le(event_count, 1 + 100 / 10);
	ck_assert_uint_eq(events[0].sampled, 0);
	ck_assert_uint_eq(events[1].sampled, 1);
}
END_TEST

START_TEST(test_since)
{
	struct mk_monitor_settings settings = all();

	fixture_watch(&settings);
	send_as(MK_HOOK_POD, POD_TO_SERVICE, SYN);
	send_as(MK_HOOK_POD, POD_TO_SERVICE, ACK);
	ck_assert_uint_eq(read_events(), 1);
	settings.since_s = (__u32)(now_ns() / 1000000000ULL) + 1; /* a new monitor starts */
	fixture_watch(&settings);
	send_as(MK_HOOK_POD, POD_TO_SERVICE, ACK);
	ck_assert_uint_eq(read_events(), 1);
}
END_TEST

/* The monitor has been killed: nothing more is reported. */
START_TEST(test_until)
{
	struct mk_monitor_settings settings = all();
	struct frame in = frame_make(POD_TO_SERVICE, NULL);

	settings.until_ns = now_ns();
	fixture_watch(&settings);
	fixture_expect("until", MK_HOOK_POD, &in, TO_OVERLAY, NULL);
	ck_assert_uint_eq(read_events(), 0);
}
END_TEST

static uint64_t left_out(void)
{
	struct mk_monitor_count counts[256];
	uint64_t sum = 0;
	__u32 zero = 0;

	ck_assert_int_le(libbpf_num_possible_cpus(), 256);
	ck_assert_int_eq(row_lookup(fixture_map("monitor_counts"), &zero, counts), 0);
	for (int cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
		sum += counts[cpu].left_out;
	return sum;
}

/* More events than the limit of a second on any CPU: events that are not reported are counted. */
START_TEST(test_limit)
{
	const unsigned sent = 3 * MK_MONITOR_EVENTS_PER_S * (unsigned)libbpf_num_possible_cpus();
	struct mk_monitor_settings settings = all();
	uint64_t before = left_out(), begin = now_ns(), seconds;
	size_t told = 0;

	settings.sample = 1;
	fixture_watch(&settings);
	for (unsigned i = 0; i < sent; i++) {
		send_as(MK_HOOK_POD, POD_TO_SERVICE, i ? ACK : SYN);
		if (i % 1000 == 999)
			told += read_events();
	}
	told += read_events();
	seconds = (now_ns() - begin) / 1000000000ULL;
	ck_assert_uint_eq(told + left_out() - before, sent);
	ck_assert_uint_le(told, (seconds + 2) * MK_MONITOR_EVENTS_PER_S *
					(unsigned)libbpf_num_possible_cpus());
}
END_TEST

START_TEST(test_broken)
{
	struct mk_monitor_settings settings = all();
	struct frame in = frame_make(POD_TO_SERVICE, NULL);

	fixture_watch(&settings);
	fixture_break_chain(MK_PROG_MONITORED);
	fixture_expect("broken", MK_HOOK_POD, &in, DROPPED, NULL);
	ck_assert_uint_eq(fixture_drops(MK_HOOK_POD, MK_DROP_CHAIN_BROKEN), 1);
}
END_TEST

BPF_SUITE("monitor")
{
	TCase *tcase = tcase_create("monitor");

	tcase_add_unchecked_fixture(tcase, fixture_load_small, fixture_unload);
	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, test_told, 0, ROWS(rows));
	tcase_add_loop_test(tcase, test_same_way, 0, ROWS(rows));
	tcase_add_loop_test(tcase, test_filter, 0, ROWS(filters));
	tcase_add_test(tcase, test_answer_of_service);
	tcase_add_test(tcase, test_answer_of_nat);
	tcase_add_test(tcase, test_sample);
	tcase_add_test(tcase, test_since);
	tcase_add_test(tcase, test_until);
	tcase_add_test(tcase, test_limit);
	tcase_add_test(tcase, test_broken);
}

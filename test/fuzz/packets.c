// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/packets [COUNT [SEED [CORPUS [keep]]]] - send the packets of CORPUS (packets_corpus.h),
 * then mutated ones, through every hook's chain of programs (BPF_PROG_TEST_RUN). The verifier
 * proves that no packet can hurt the kernel. This checks that each packet gets a verdict, that
 * drops are counted, and that a packet with right checksums leaves with right ones. Prints the
 * verdicts; the seed repeats a run. keep: packets that reach something new are added to CORPUS. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bpf/network.h"
#include "bpf/run.h"
#include "fuzz/packets_corpus.h"

#define CHECK_EVERY  4096
#define FORGET_EVERY 1000

static unsigned long count = 100000;
static unsigned int seed;
static const char *corpus_path; /* NULL: none */
static bool keeps;
static unsigned long sent, became[DROPPED + 1];

static const char *const local_backend[] = { "10.244.1.3:8080", NULL };
static const char *const both_backends[] = { "10.244.1.3:8080", "10.244.2.7:8080", NULL };

static const char *const host_backend[] = { "192.168.99.11:8080", NULL };
#define BESIDE "40010"

/* Mutations begin with these: flows of every kind, most of them to Services and of sessions. */
static const struct {
	const char *flow;
	struct frame_options options;
} seeds[] = {
	{ "tcp 10.244.1.2:40000 > 10.244.1.3:80", { .tcp_flags = ACK, .payload_bytes = 64 } },
	{ "tcp 10.244.1.2:40001 > 10.96.0.10:80", { .tcp_flags = SYN } },
	{ "tcp 10.244.1.3:8080 > 10.244.1.2:40001", { .tcp_flags = SYN | ACK } },
	{ "udp 10.244.1.2:40002 > 10.96.0.10:53", { .payload_bytes = 32 } },
	{ "udp 10.244.1.2:40003 > 10.96.0.10:53",
	  { .fragment = MF, .payload_bytes = 64, .id = 7 } },
	{ "udp 10.244.1.2:40003 > 10.96.0.10:53", { .fragment = 9, .payload_bytes = 64, .id = 7 } },
	{ "udp 10.244.1.2:40003 > 203.0.113.10:53",
	  { .fragment = 9, .payload_bytes = 64, .id = 8 } },
	{ "udp 10.244.1.2:40003 > 203.0.113.10:53",
	  { .fragment = MF, .payload_bytes = 64, .id = 8 } },
	{ "sctp 10.244.1.2:40006 > 10.96.0.10:80",
	  { .fragment = MF, .sctp_chunk = SCTP_DATA, .payload_bytes = 56, .id = 9 } },
	{ "sctp 10.244.1.2:40006 > 10.96.0.10:80",
	  { .fragment = 9, .payload_bytes = 60, .id = 9 } },
	{ "udp 10.244.1.2:40004 > 203.0.113.10:53", { .no_checksum = true, .payload_bytes = 9 } },
	{ "tcp 10.244.1.2:40005 > 203.0.113.10:443", { .ip_option_words = 3 } },
	{ "icmp 10.244.1.2 > 203.0.113.10 7", { .payload_bytes = 16 } },
	{ "icmp 10.244.1.2 > 10.96.0.10 8", { .payload_bytes = 16 } },
	{ "sctp 10.244.1.2:40006 > 10.96.0.10:80", { .payload_bytes = 16 } },
	{ "tcp 203.0.113.10:40000 > 192.168.99.11:30080", { .tcp_flags = SYN } },
	{ "udp 203.0.113.10:40000 > 192.168.99.11:30053", { .payload_bytes = 8 } },
	{ "tcp 203.0.113.10:443 > 192.168.99.11:50000", { .tcp_flags = ACK } },
	{ "tcp 203.0.113.10:443 > 192.168.99.11:22", { .tcp_flags = ACK, .ttl = 1 } },
	{ "tcp 10.244.2.7:8080 > 10.244.1.2:40001", { .tcp_flags = SYN | ACK } },
	{ "tcp 10.18.0.1:41000 > 10.96.0.10:80", { .tcp_flags = SYN } },
	{ "tcp 192.168.99.11:30080 > 203.0.113.10:40000", { .tcp_flags = ACK } },
	{ "tcp 203.0.113.10:40001 > 192.168.99.11:8080", { .tcp_flags = SYN } },
	{ "tcp 192.168.99.11:41000 > 192.168.99.11:8080", { .tcp_flags = SYN } },
	{ "tcp 127.0.0.1:40001 > 127.0.0.1:8080", { .tcp_flags = SYN } },
	{ "udp 127.0.0.1:40002 > 127.0.0.1:8053", { .payload_bytes = 12 } },
	/* straight to a backend, and by its Service from the same port */
	{ "tcp 10.244.1.2:" BESIDE " > 10.96.0.10:80", { .tcp_flags = SYN } },
	{ "tcp 10.244.1.2:" BESIDE " > 10.244.2.7:8080", { .tcp_flags = ACK } },
	{ "tcp 10.244.2.7:8080 > 10.244.1.2:" BESIDE, { .tcp_flags = SYN | ACK } },
	{ "udp 10.244.1.2:" BESIDE " > 10.96.0.10:53", { .payload_bytes = 10 } },
	{ "udp 10.244.1.2:" BESIDE " > 10.244.2.7:8080", { .payload_bytes = 11 } },
	{ "sctp 10.244.1.2:" BESIDE " > 10.244.2.7:8080", { .sctp_chunk = SCTP_INIT } },
	{ "tcp 203.0.113.10:" BESIDE " > 192.168.99.11:30081", { .tcp_flags = SYN } },
	{ "udp 203.0.113.10:" BESIDE " > 192.168.99.11:8080", { .payload_bytes = 12 } },
};

/* Sockets that the programs look up for other flows than those to Services (bpf/collision.h). */
static void sockets(void)
{
	const struct mk_runtime settings = { .host_backends = 1, .host_ports = 1 };
	int number = network_of_own();

	network_reaches_all();
	network_of_pod("10.244.1.2", number);
	network_of_pod("10.244.1.3", number);
	network_socket("10.244.1.2:" BESIDE, both_backends[0]);
	network_socket("10.244.1.2:" BESIDE, both_backends[1]);
	network_socket(host_backend[0], "203.0.113.10:" BESIDE);
	fixture_runtime(&settings);
	fixture_udp_backend_port(8080);
}

static unsigned int below(unsigned int limit)
{
	return (unsigned int)rand_r(&seed) % limit;
}

static void services(void)
{
	static const char *const frontends[] = { "tcp 10.96.0.10:80", "udp 10.96.0.10:53" };

	for (int i = 0; i < ROWS(frontends); i++)
		fixture_service(frontends[i], MK_SCOPE_INTERNAL, 0, both_backends, 1, 1);
	fixture_vip("10.96.0.10");
	fixture_service("tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MASQUERADE,
			both_backends, 1, 1);
	fixture_service("udp 192.168.99.11:30053", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			local_backend, 1, 1);
	fixture_service("tcp 192.168.99.11:30081", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV,
			host_backend, 1, 1);
	fixture_drop_range("10.96.0.0", 12);
	fixture_host_port("tcp 0.0.0.0:8080", "10.244.1.2:80");
	fixture_host_port("udp 0.0.0.0:8053", "10.244.1.2:53");
}

/* An ICMP error about a packet of the list, from somewhere on its way. */
static struct frame error_about(const struct frame *quoted)
{
	static const char *const routers[] = { "icmp 203.0.113.1 > 192.168.99.11 1",
					       "icmp 10.244.2.7 > 10.244.1.2 1",
					       "icmp 10.244.1.3 > 10.244.1.2 1" };
	struct frame_options options = { .icmp_type = 3,
					 .icmp_code = (uint8_t)below(16),
					 .quote = quoted,
					 .quote_bytes = below(2) ? 0 : 20 + below(40),
					 .icmp_mtu = (uint16_t)below(1600) };

	if (options.quote_bytes > quoted->length)
		options.quote_bytes = 0;
	return frame_make(routers[below(ROWS(routers))], &options);
}

static void mutate_bytes(struct frame *frame)
{
	static const uint8_t bytes[] = { 0, 1, 4, 6, 17, 0x45, 0x4f, 0x7f, 0x80, 0xff };

	for (unsigned int i = below(4); i > 0; i--) {
		/* mostly the headers */
		unsigned int limit =
			below(4) && frame->length > 60 ? 60 : (unsigned int)frame->length;
		uint8_t *byte = &frame->byte[below(limit)];

		if (below(2))
			*byte ^= (uint8_t)(1 << below(8));
		else
			*byte = bytes[below(ROWS(bytes))];
	}
}

static struct frame next_frame(void)
{
	unsigned int row = below(ROWS(seeds));
	struct frame frame = frame_make(seeds[row].flow, &seeds[row].options);

	if (below(8) == 0)
		frame = error_about(&frame);
	switch (below(4)) {
	case 0: /* as it is: it opens sessions, and goes on with them */
		return frame;
	case 1: /* cut; a test run takes no frame without an IP header */
		frame.length = 34 + below((unsigned int)frame.length - 33);
		break;
	default:
		break;
	}
	mutate_bytes(&frame);
	if (below(2) && frame.length >= 34)
		frame_fix_ip_checksum(&frame);
	return frame;
}

static const enum mk_hook hooks[] = { MK_HOOK_POD,    MK_HOOK_HOST,	     MK_HOOK_OVERLAY,
				      MK_HOOK_UPLINK, MK_HOOK_UPLINK_EGRESS, HOOK_LOOPBACK };

static bool is_plain(const struct frame *frame)
{
	const char *what;

	return frame->length >= 34 && frame->byte[12] == 8 && frame->byte[13] == 0 &&
	       frame->byte[14] >> 4 == 4 && (frame->byte[14] & 15) >= 5 &&
	       frame_flow(frame)[0] != '?' && frame_checksums_right(frame, &what);
}

/* As `monokube monitor` does: program `monitor` runs, too. Nothing reads its reports. */
static void watch_all(void)
{
	const struct mk_monitor_settings all = { .until_ns = UINT64_MAX };

	fixture_watch(&all);
}

/* It gets a verdict, and right checksums stay right. */
static enum where one(enum mk_hook hook, const struct frame *in, struct frame *out)
{
	enum where where = fixture_send(hook, in, out);
	const char *what = NULL;

	sent++;
	became[where]++;
	if (where != DROPPED && where != TO_HOST && where != WAITS && is_plain(in))
		ck_assert_msg(frame_checksums_right(out, &what), "packet %lu: wrong %s after '%s'",
			      sent, what, frame_flow(in));
	return where;
}

/* Remove all sessions: a flow's next packet may open it at another hook. */
static void forget_flows(void)
{
	static const char *const tables[] = { "sessions", "sessions_young", "nat_sessions",
					      "nat_sessions_young" };

	for (int i = 0; i < ROWS(tables); i++)
		fixture_empty(tables[i]);
	fixture_quota(FIXTURE_QUOTA);
}

static void replay(void)
{
	unsigned long same, kept;

	if (!corpus_path)
		return;
	kept = corpus_replay(corpus_path, keeps, one, &same);
	printf("kept %lu, of which %lu reached the same again\n", kept, same);
}

START_TEST(packets)
{
	uint64_t dropped_before;

	services();
	sockets();
	dropped_before = fixture_drops_total();
	replay();
	for (unsigned long i = 1; i <= count; i++) {
		enum mk_hook hook = hooks[below(ROWS(hooks))];
		struct frame in = next_frame(), out;

		corpus_see(hook, one(hook, &in, &out), &in, &out);
		if (i == count / 2)
			watch_all();
		if (i % FORGET_EVERY == 0)
			forget_flows();
		if (i % CHECK_EVERY == 0 || i == count)
			ck_assert_msg(fixture_drops_total() - dropped_before >= became[DROPPED],
				      "packet %lu: dropped %lu, counted %lu", sent, became[DROPPED],
				      fixture_drops_total() - dropped_before);
	}
	for (int where = TO_POD; where <= DROPPED; where++)
		printf("%s %lu\n", where_name((enum where)where), became[where]);
	if (keeps)
		printf("kept by now %zu\n", corpus.count);
	if (corpus.out)
		fclose(corpus.out);
	ck_assert_msg(became[DROPPED] > count / 100 && became[TO_POD] > count / 100,
		      "the mutations are not worth much");
}
END_TEST

int main(int argc, char **argv)
{
	Suite *suite = suite_create("fuzz");
	TCase *tcase = tcase_create("packets");
	SRunner *runner = srunner_create(suite);
	int failed;

	if (argc > 1)
		count = strtoul(argv[1], NULL, 10);
	seed = argc > 2 ? (unsigned int)strtoul(argv[2], NULL, 10) : (unsigned int)time(NULL);
	corpus_path = argc > 3 ? argv[3] : NULL;
	keeps = argc > 4 && strcmp(argv[4], "keep") == 0;
	printf("packets %lu seed %u\n", count, seed);
	fflush(stdout);
	tcase_add_unchecked_fixture(tcase, fixture_load, fixture_unload);
	tcase_add_checked_fixture(tcase, fixture_reset, NULL);
	tcase_set_timeout(tcase, 7200);
	tcase_add_test(tcase, packets);
	suite_add_tcase(suite, tcase);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

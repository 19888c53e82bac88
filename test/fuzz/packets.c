// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/packets [COUNT [SEED [CORPUS [keep]]]] - send the packets of CORPUS (packets_corpus.h),
 * then mutated ones, through every hook's chain of programs (BPF_PROG_TEST_RUN). The verifier
 * proves that no packet can hurt the kernel. This checks that each packet gets a verdict, that
 * drops are counted, and that a packet with right checksums leaves with right ones. Prints the
 * verdicts; the seed repeats a run. keep: packets that reach something new are added to CORPUS. The
 * packets are of IPv6 with MK_TEST_FAMILY=6. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bpf/network.h"
#include "bpf/policy.h"
#include "bpf/run.h"
#include "fuzz/packets_corpus.h"

#define CHECK_EVERY  4096
#define FORGET_EVERY 1000
#define CHANGE_EVERY 250

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

/* ---- what only IPv6 has: extension headers of any kind in any order, neighbour discovery ---- */

enum { IPV6_AT = 14, IPV6_NEXT = IPV6_AT + 6, IPV6_END = IPV6_AT + 40 };

static void ipv6_set_length(struct frame *frame)
{
	size_t bytes = frame->length - IPV6_END;

	frame->byte[IPV6_AT + 4] = (uint8_t)(bytes >> 8);
	frame->byte[IPV6_AT + 5] = (uint8_t)bytes;
}

/* Fill the header @type of @bytes at @at. Most are valid: those that are not are dropped early. */
static void ipv6_fill_header(uint8_t *at, uint8_t type, size_t bytes)
{
	memset(at, 0, bytes);
	at[1] = (uint8_t)(type == IPPROTO_AH ? bytes / 4 - 2 : bytes / 8 - 1);
	if (type == IPPROTO_ROUTING) {
		at[2] = (uint8_t)below(5);
		at[3] = below(8) == 0;
	} else if (type == IPPROTO_FRAGMENT) {
		at[1] = 0;
		at[3] = (uint8_t)(below(3) * 64 + below(2)); /* offset, and more to come */
		at[5] = (uint8_t)below(2); /* of the identification */
		at[7] = (uint8_t)below(4);
	} else if (type != IPPROTO_AH) {
		at[2] = below(16) ? 1 : (uint8_t)below(256); /* PadN, or any option */
		at[3] = (uint8_t)(bytes - 4);
	}
}

/* Insert @type behind the header whose number of the next header is at @next_at. */
static void ipv6_insert_header(struct frame *frame, size_t next_at, size_t at, uint8_t type)
{
	size_t bytes = type == IPPROTO_FRAGMENT ? 8 : 8 * (1 + (below(16) ? below(2) : below(26)));

	if (at > frame->length || frame->length + bytes > sizeof(frame->byte))
		return;
	memmove(frame->byte + at + bytes, frame->byte + at, frame->length - at);
	ipv6_fill_header(frame->byte + at, type, bytes);
	frame->byte[at] = frame->byte[next_at];
	frame->byte[next_at] = type;
	frame->length += bytes;
}

/* Put up to five headers before what follows the IPv6 header; the last one inserted is the first.
 * Hop-by-hop options, valid only there, are mostly inserted last. */
static void ipv6_add_headers(struct frame *frame)
{
	static const uint8_t types[] = { IPPROTO_DSTOPTS, IPPROTO_FRAGMENT, IPPROTO_ROUTING,
					 IPPROTO_AH, IPPROTO_HOPOPTS };

	for (unsigned int i = 1 + below(4); i > 0; i--)
		ipv6_insert_header(frame, IPV6_NEXT, IPV6_END,
				   types[below(below(8) ? 3 : sizeof(types))]);
	if (below(3) == 0)
		ipv6_insert_header(frame, IPV6_NEXT, IPV6_END, IPPROTO_HOPOPTS);
	ipv6_set_length(frame);
}

static void ipv6_put_address(struct frame *frame, size_t at)
{
	static const char *const addresses[] = {
		"fd00:a:f4:1::2", "fd00:a:f4:1::3",   "fd00:a:f4:1::3fe",
		"fd00:a:f4:2::7", "fd00:c0:a8:63::b", "fe80::1",
		"ff02::1",	  "ff02::1:ff00:3fe", "::",
	};
	struct mk_ip ip;

	ck_assert_int_eq(mk_ip_parse(addresses[below((unsigned int)ROWS(addresses))], &ip), 0);
	memcpy(frame->byte + at, &ip.v6, sizeof(ip.v6));
}

/* A message of a link, from and to any of these addresses; the sender is mostly a pod that asks for
 * its gateway. */
static struct frame ipv6_neighbour_message(void)
{
	static const uint8_t types[] = { 130, 131, 132, 133, 134, 135, 136, 137, 143 };
	const struct frame_options options = { .payload_bytes = (uint16_t)(below(2) ? 24 : 16),
					       .ttl = below(4) ? 255 : 64 };
	struct frame frame = frame_make("icmp 10.244.1.2 > 10.244.1.254 0", &options);

	memset(frame.byte + IPV6_END, 0, frame.length - IPV6_END);
	frame.byte[IPV6_END] = below(2) ? 135 : types[below(sizeof(types))];
	memcpy(frame.byte + IPV6_END + 8, frame.byte + IPV6_AT + 24, 16);
	if (options.payload_bytes == 24) {
		frame.byte[IPV6_END + 24] = 1; /* the sender's MAC */
		frame.byte[IPV6_END + 25] = 1;
	}
	for (unsigned int i = below(4); i > 0; i--)
		ipv6_put_address(&frame, (const size_t[]){ IPV6_AT + 8, IPV6_AT + 24,
							   IPV6_END + 8 }[below(3)]);
	frame_fix_icmp_checksum(&frame);
	return frame;
}

/* ICMPv6 errors have other types and codes than IPv4's, and an MTU of 32 bits. */
static void ipv6_mutate_error(struct frame *frame)
{
	static const uint8_t types[] = { 1, 2, 3, 4, 100, 127 };

	frame->byte[IPV6_END] = types[below(sizeof(types))];
	frame->byte[IPV6_END + 1] = (uint8_t)below(8);
	frame_fix_icmp_checksum(frame);
}

/* ---- frames --------------------------------------------------------------------------------- */

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
	struct frame error;

	if (options.quote_bytes > quoted->length)
		options.quote_bytes = 0;
	if (!family_is6())
		return frame_make(routers[below(ROWS(routers))], &options);
	options.icmp_code = 4;
	error = frame_make(routers[below(ROWS(routers))], &options);
	if (below(2))
		ipv6_mutate_error(&error);
	return error;
}

static void mutate_bytes(struct frame *frame)
{
	static const uint8_t bytes[] = { 0, 1, 4, 6, 17, 0x45, 0x4f, 0x7f, 0x80, 0xff };

	for (unsigned int i = below(4); i > 0; i--) {
		/* mostly the headers */
		unsigned int headers = family_is6() ? 100 : 60;
		unsigned int limit =
			below(4) && frame->length > headers ? headers : (unsigned int)frame->length;
		uint8_t *byte = &frame->byte[below(limit)];

		if (below(2))
			*byte ^= (uint8_t)(1 << below(8));
		else
			*byte = bytes[below(ROWS(bytes))];
	}
}

/* Let the lengths and checksums of the IP header be right again. */
static void repair_header(struct frame *frame)
{
	if (family_is6())
		ipv6_set_length(frame);
	else
		frame_fix_ip_checksum(frame);
}

static struct frame next_flow(void)
{
	unsigned int row = below(ROWS(seeds));
	struct frame frame = frame_make(seeds[row].flow, &seeds[row].options);

	if (family_is6() && below(16) == 0)
		frame = ipv6_neighbour_message();
	if (family_is6() && below(4) == 0)
		ipv6_add_headers(&frame);
	if (below(8) == 0)
		frame = error_about(&frame);
	if (family_is6() && below(16) == 0)
		ipv6_add_headers(&frame);
	return frame;
}

static struct frame next_frame(void)
{
	const unsigned int header_end = 14 + (unsigned int)frame_ip_bytes();
	struct frame frame = next_flow();

	switch (below(4)) {
	case 0: /* as it is: it opens sessions, and goes on with them */
		return frame;
	case 1: /* cut; a test run takes no frame without an IP header */
		frame.length = header_end + below((unsigned int)frame.length - header_end + 1);
		break;
	default:
		break;
	}
	mutate_bytes(&frame);
	if (below(2) && frame.length >= header_end)
		repair_header(&frame);
	return frame;
}

static const enum mk_hook hooks[] = { MK_HOOK_POD,    MK_HOOK_HOST,	     MK_HOOK_OVERLAY,
				      MK_HOOK_UPLINK, MK_HOOK_UPLINK_EGRESS, HOOK_LOOPBACK };

static bool is_plain(const struct frame *frame)
{
	const char *what;

	return corpus_is_ip(frame) &&
	       (family_is6() ? frame->byte[14] >> 4 == 6
			     : frame->byte[14] >> 4 == 4 && (frame->byte[14] & 15) >= 5) &&
	       frame_flow(frame)[0] != '?' && frame_checksums_right(frame, &what);
}

/* As `monokube monitor` does: program `monitor` runs, too. Nothing reads its reports. */
static void watch_all(void)
{
	const struct mk_monitor_settings all = { .until_ns = UINT64_MAX };

	fixture_watch(&all);
}

/* Both pods get policies, which allow some of the flows. */
static void isolate_pods(void)
{
	static const struct policy_row isolate = {
		"isolated pods",
		{ "set in isolates 2=tcp 3=all 7=web any=dns unknown=none 203.0.113.0/24=all "
		  "192.168.99.0/24=deny",
		  "set out isolates 3=all 7=accept any=tcp unknown=late 203.0.113.0/24=dns *=web",
		  "pod 10.244.1.2 in=in out=out", "pod 10.244.1.3 in=in out=open" }
	};

	policy_start();
	policy_run(&isolate);
}

/* Known flows are asked about again. */
static void change_policies(void)
{
	static const struct policy_row change = { "isolated pods",
						  { "forbid 10.244.1.2", "forbid 10.244.1.3" } };

	policy_run(&change);
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
		if (i == count / 4)
			isolate_pods();
		if (i > count / 4 && i % CHANGE_EVERY == 0)
			change_policies();
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

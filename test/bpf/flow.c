// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bpf/family.h"
#include "bpf/flow_internal.h"
#include "rows.h"

#define EXPIRED_SECONDS (30 * 86400)

/* ---- packets ------------------------------------------------------------------------------------ */

static struct frame request_of(const struct flow *flow, uint8_t tcp_flags)
{
	const struct frame_options options = { .tcp_flags = tcp_flags, .payload_bytes = 12 };
	char text[128];

	if (strcmp(flow->proto, "icmp") == 0)
		snprintf(text, sizeof(text), "icmp %s > %s %u", flow->address, flow->to,
			 flow->port);
	else
		snprintf(text, sizeof(text), "%s %s:%u > %s", flow->proto, flow->address,
			 flow->port, flow->to);
	return frame_make(text, &options);
}

/* Send the flow's packet. A packet of the host to one of its own addresses passes the loopback
 * device first. The device's program decides whether it also passes the host's hook. */
enum where flow_send(const struct flow *flow, const struct frame *in, struct frame *out)
{
	struct frame handed;
	enum where where;

	if (flow->client.where != TO_LOOPBACK)
		return fixture_send(flow->client.hook, in, out);
	where = fixture_send(HOOK_LOOPBACK, in, &handed);
	if (memcmp(handed.byte, in->byte, in->length) != 0) {
		handed.byte[6] = 0xee; /* not the host's MAC: MACs stay on the way to the uplink */
		return fixture_send(flow->client.hook, &handed, out);
	}
	*out = handed;
	return where;
}

struct ends flow_ends(const char *flow)
{
	struct ends ends = { 0 };

	sscanf(flow, "%15s %47s > %47s", ends.proto, ends.from, ends.to);
	return ends;
}

void flow_address_of(const char *end, char address[32])
{
	snprintf(address, 32, "%.*s", (int)strcspn(end, ":"), end);
}

void flow_check_frame(const struct frame *frame)
{
	const char *what = NULL;

	expect(frame_checksums_right(frame, &what), "wrong %s in '%s'", what, frame_flow(frame));
}

/* ---- a flow that is served ---------------------------------------------------------------------- */

static struct target *target_of(struct expected *expected, const char *end)
{
	char address[32];

	flow_address_of(end, address);
	for (unsigned i = 0; i < expected->count; i++)
		if (strcmp(expected->targets[i].endpoint->address, address) == 0 &&
		    (unsigned)atoi(end + strcspn(end, ":") + 1) == expected->targets[i].port)
			return &expected->targets[i];
	return NULL;
}

/* Check the source. Packets through the uplink have the node's address, and so have those of a
 * process that binds it. Any other process of this host can be answered only at its VTEP or the
 * virtual pod address. The host must not see its own address. */
static void check_source(const struct flow *flow, const struct expected *expected,
			 const struct cluster_endpoint *endpoint, const char *end)
{
	char address[32], own[64];

	flow_address_of(end, address);
	snprintf(own, sizeof(own), "%s:%u", flow->address, flow->port);
	if (endpoint->where == TO_UPLINK ||
	    (flow->client.hook == MK_HOOK_HOST && endpoint->where != TO_HOST &&
	     strcmp(flow->address, NODE) == 0))
		expect(strcmp(address, NODE) == 0, "leaves the node as %s", end);
	else if (expected->source == KEPT)
		expect(strcmp(end, own) == 0, "comes from %s", end);
	else if ((expected->source == MASQUERADED && flow->client.hook != MK_HOOK_HOST) ||
		 endpoint->where == TO_HOST)
		expect(strcmp(address, VPOD) == 0, "comes from %s", end);
	else
		expect(strcmp(address, VPOD) == 0 || strcmp(address, VTEP) == 0, "comes from %s",
		       end);
}

/* Return the hook for answers of @endpoint: the host's own answers to clients outside pass its
 * uplink. */
static enum mk_hook answer_hook(const struct flow *flow, const struct expected *expected,
				const struct cluster_endpoint *endpoint)
{
	if (endpoint->where == TO_HOST && flow->client.hook == MK_HOOK_UPLINK &&
	    expected->source == KEPT)
		return MK_HOOK_UPLINK_EGRESS;
	return endpoint->hook;
}

/* Return where an answer must go: one that leaves the host's own network continues unchanged. */
enum where flow_answer_where(const struct flow *flow)
{
	return flow->answer_hook == MK_HOOK_UPLINK_EGRESS ? TO_HOST : flow->client.where;
}

static void check_answer(const struct flow *flow, uint8_t tcp_flags)
{
	const struct frame_options options = { .tcp_flags = tcp_flags, .payload_bytes = 5 };
	struct ends ends = flow_ends(flow->seen);
	char text[128], wanted[128];
	struct frame in, out;
	enum where where;

	snprintf(text, sizeof(text), "%s %s > %s", ends.proto, ends.to, ends.from);
	snprintf(wanted, sizeof(wanted), "%s %s > %s:%u", flow->proto, flow->to, flow->address,
		 flow->port);
	in = frame_make(text, &options);
	where = fixture_send(flow->answer_hook, &in, &out);
	expect(strcmp(frame_flow(&out), wanted) == 0, "'%s' is answered by '%s' as '%s'",
	       flow->seen, text, frame_flow(&out));
	expect(where == flow_answer_where(flow), "the answer '%s' goes %s", wanted,
	       where_name(where));
	flow_check_frame(&out);
}

static void check_served(struct flow *flow, struct expected *expected, const struct frame *out,
			 enum where where)
{
	struct ends ends = flow_ends(frame_flow(out));
	struct target *target = target_of(expected, ends.to);

	snprintf(flow->seen, sizeof(flow->seen), "%s", frame_flow(out));
	expect(target != NULL, "went %s as '%s'", where_name(where), flow->seen);
	expect(where == target->endpoint->where, "'%s' went %s", flow->seen, where_name(where));
	target->seen = true;
	flow->endpoint = target->endpoint;
	flow->answer_hook = answer_hook(flow, expected, target->endpoint);
	check_source(flow, expected, target->endpoint, ends.from);
	flow_check_frame(out);
	check_answer(flow, SYN | ACK);
}

/* ---- a flow that is not ------------------------------------------------------------------------- */

static void check_refused(const struct flow *flow, const struct frame *out, enum where where)
{
	char wanted[192], asked[32];

	flow_address_of(flow->to, asked);
	snprintf(wanted, sizeof(wanted), "icmp-error %s > %s 3/3 [%s %s:%u > %s]", asked,
		 flow->address, flow->proto, flow->address, flow->port, flow->to);
	expect(strcmp(frame_flow(out), wanted) == 0, "not refused: went %s as '%s'",
	       where_name(where), frame_flow(out));
	expect(where == flow->client.where, "the refusal goes %s", where_name(where));
	flow_check_frame(out);
}

static void check_pong(const struct flow *flow, const struct frame *out, enum where where)
{
	char wanted[128];

	snprintf(wanted, sizeof(wanted), "icmp %s > %s %u", flow->to, flow->address, flow->port);
	expect(strcmp(frame_flow(out), wanted) == 0 && where == flow->client.where,
	       "went %s as '%s'", where_name(where), frame_flow(out));
	flow_check_frame(out);
}

static void check_outside(const struct flow *flow, const struct frame *out, enum where where)
{
	struct ends ends = flow_ends(frame_flow(out));

	expect(where == TO_UPLINK && strcmp(ends.to, flow->to) == 0, "went %s as '%s'",
	       where_name(where), frame_flow(out));
	flow_check_frame(out);
}

static int drops_of(const struct expected *expected)
{
	return expected->outcome == REFUSED ? MK_DROP_REFUSED
	       : expected->outcome == DROP  ? expected->reason
					    : -1;
}

/* Drops by the expected reason, and in all. */
struct drops {
	uint64_t total, expected;
};

static struct drops drops_now(const struct flow *flow, const struct expected *expected)
{
	int reason = drops_of(expected);

	return (struct drops){
		.total = fixture_drops_total(),
		.expected = reason < 0
				    ? 0
				    : fixture_drops(flow->client.hook, (enum mk_drop_reason)reason),
	};
}

static void check_drops(const struct flow *flow, const struct expected *expected,
			const struct drops *before, unsigned packets)
{
	struct drops now = drops_now(flow, expected);
	int reason = drops_of(expected);

	expect(now.total - before->total == (reason < 0 ? 0 : packets),
	       "%llu of %u packets counted as dropped",
	       (unsigned long long)(now.total - before->total), packets);
	if (reason >= 0)
		expect(now.expected - before->expected == packets,
		       "dropped for another reason than %s", flow_reasons[reason]);
}

/* ---- packets of a line -------------------------------------------------------------------------- */

static void send_one(struct flow *flow, struct expected *expected, uint8_t tcp_flags)
{
	struct frame in = request_of(flow, tcp_flags), out;
	enum where where = flow_send(flow, &in, &out);

	if (expected->outcome == SERVED)
		check_served(flow, expected, &out, where);
	else if (expected->outcome == REFUSED)
		check_refused(flow, &out, where);
	else if (expected->outcome == PONG)
		check_pong(flow, &out, where);
	else if (expected->outcome == OUTSIDE)
		check_outside(flow, &out, where);
	else if (expected->outcome == DROP)
		expect(where == DROPPED, "went %s as '%s'", where_name(where), frame_flow(&out));
	else
		expect(where == TO_HOST && memcmp(in.byte, out.byte, in.length) == 0,
		       "went %s as '%s'", where_name(where), frame_flow(&out));
}

static void send_counted(struct flow *flow, struct expected *expected, uint8_t tcp_flags)
{
	struct drops before = drops_now(flow, expected);

	send_one(flow, expected, tcp_flags);
	check_drops(flow, expected, &before, 1);
}

/* The number of flows to send. An endpoint among @count is then missed once in 10^12 rows. An
 * endpoint that should get no flow, next to a single one, is missed once in 10^6. MK_FLOWS_OF_ONE
 * sets the latter number on slow machines (test/kernels). */
static unsigned enough_flows(const struct expected *expected)
{
	const char *of_one = getenv("MK_FLOWS_OF_ONE");

	if (expected->count > 1)
		return 40 * (expected->count - 1);
	if (expected->outcome != SERVED)
		return 2;
	return of_one && atoi(of_one) > 0 ? (unsigned)atoi(of_one) : 20;
}

static void send_many(struct flow *flow, struct expected *expected)
{
	struct drops before = drops_now(flow, expected);
	unsigned count = enough_flows(expected);

	for (unsigned i = 0; i < count; i++) {
		flow->port = run.next_port++;
		send_one(flow, expected, SYN);
	}
	check_drops(flow, expected, &before, count);
	for (unsigned i = 0; i < expected->count; i++)
		expect(expected->targets[i].seen, "endpoint %c got none of %u flows",
		       expected->targets[i].endpoint->letter, count);
}

/* ---- lines -------------------------------------------------------------------------------------- */

static struct flow *named_flow(const char *name)
{
	for (unsigned i = 0; i < run.flow_count; i++)
		if (strcmp(run.flows[i].name, name) == 0)
			return &run.flows[i];
	return NULL;
}

static void open_flow(const char *name, struct flow *flow, struct expected *expected)
{
	struct flow *kept = &run.flows[run.flow_count++];

	expect(run.flow_count <= NAMES_MAX, "more than %d flows", NAMES_MAX);
	snprintf(flow->name, sizeof(flow->name), "%s", name);
	flow->port = run.next_port++;
	send_counted(flow, expected, SYN);
	*kept = *flow;
}

static bool has_session(const struct flow *flow)
{
	static const char *const protocols[] = {
		[IPPROTO_TCP] = "tcp", [IPPROTO_UDP] = "udp", [IPPROTO_SCTP] = "sctp"
	};
	struct mk_tuple key = { .sport = htons((uint16_t)flow->port),
				.dport = htons((uint16_t)atoi(strchr(flow->to, ':') + 1)) };
	struct mk_session session;
	char to[32];

	flow_address_of(flow->to, to);
	key.saddr = fixture_addr(flow->address);
	key.daddr = fixture_addr(to);
	for (size_t i = 0; i < MK_ARRAY_SIZE(protocols); i++)
		if (protocols[i] && strcmp(protocols[i], flow->proto) == 0)
			key.proto = (__u8)i;
	return row_lookup(fixture_map("sessions"), &key, &session) == 0 ||
	       row_lookup(fixture_map("sessions_young"), &key, &session) == 0;
}

/* Check that the flow uses its session: another choice could have the same result. */
static void go_on(const struct flow *flow)
{
	struct frame in = request_of(flow, ACK), out;
	enum where where;

	expect(has_session(flow), "'%s' has lost its session", flow->seen);
	where = flow_send(flow, &in, &out);
	expect(strcmp(frame_flow(&out), flow->seen) == 0, "'%s' goes on %s as '%s'", flow->seen,
	       where_name(where), frame_flow(&out));
	flow_check_frame(&out);
	check_answer(flow, ACK);
}

static bool read_flow_line(const char *line)
{
	char client[48], proto[8], to[48], name[16], outcome[128];
	struct expected expected;
	struct flow flow;

	if (sscanf(line, "open %15s %47s %7s %47s = %127[^\n]", name, client, proto, to, outcome) ==
	    5) {
		flow = flow_read(client, proto, to);
		expected = flow_read_outcome(outcome);
		open_flow(name, &flow, &expected);
		return true;
	}
	if (sscanf(line, "%47s %7s %47s = %127[^\n]", client, proto, to, outcome) != 4)
		return false;
	flow = flow_read(client, proto, to);
	expected = flow_read_outcome(outcome);
	send_many(&flow, &expected);
	return true;
}

static bool read_named_line(const char *line)
{
	char name[16], outcome[128];
	struct expected expected;
	struct flow *flow;

	if (sscanf(line, "%15s", name) != 1 || !(flow = named_flow(name)))
		return false;
	if (strcmp(line + strlen(name), " goes on") == 0) {
		go_on(flow);
		return true;
	}
	if (strcmp(line + strlen(name), " errors") == 0) {
		flow_errors(flow);
		return true;
	}
	if (strcmp(line + strlen(name), " fragments") == 0) {
		flow_fragments(flow);
		return true;
	}
	if (sscanf(line + strlen(name), " now %127[^\n]", outcome) != 1)
		return false;
	expected = flow_read_outcome(outcome);
	send_counted(flow, &expected, ACK);
	return true;
}

static void add_host_port(const char *line)
{
	char proto[8], port[48], text[64], pod[64], letter;
	unsigned number;

	expect(sscanf(line, "hostport %7s %47s %c:%u", proto, port, &letter, &number) == 4 &&
		       cluster_endpoint(letter),
	       "expected: hostport PROTO ADDRESS:PORT LETTER:PORT");
	snprintf(text, sizeof(text), "%s %s", proto, port);
	snprintf(pod, sizeof(pod), "%s:%u", cluster_endpoint(letter)->address, number);
	fixture_host_port(text, pod);
}

static bool read_state_line(const char *line)
{
	if (strncmp(line, "service", 7) == 0)
		cluster_service(line[7] ? line + 8 : NULL);
	else if (strncmp(line, "object ", 7) == 0)
		cluster_object(line + 7);
	else if (strcmp(line, "endpoints none") == 0)
		cluster_endpoints(NULL);
	else if (strncmp(line, "endpoints", 9) == 0)
		cluster_endpoints(line[9] ? line + 10 : "");
	else if (strcmp(line, "delete service") == 0)
		cluster_delete_service();
	else if (strcmp(line, "no service") == 0)
		return true;
	else if (strncmp(line, "host has ", 9) == 0)
		fixture_host_address(line + 9);
	else if (strncmp(line, "hostport ", 9) == 0)
		add_host_port(line);
	else if (strncmp(line, "weight ", 7) == 0)
		cluster_weight((uint16_t)atoi(line + 7));
	else if (strcmp(line, "masquerade all") == 0)
		cluster_masquerade_all();
	else if (strcmp(line, "no localhost") == 0)
		cluster_no_localhost();
	else
		return false;
	return true;
}

static void run_line(const char *line)
{
	run.line = line;
	if (read_state_line(line))
		return;
	(void)cluster_sync();
	if (strcmp(line, "sweep") == 0)
		cluster_sweep(0);
	else if (strcmp(line, "sessions expire") == 0)
		cluster_sweep(EXPIRED_SECONDS);
	else if (strncmp(line, "wait ", 5) == 0)
		cluster_age_affinity((unsigned)atoi(line + 5));
	else if (!read_named_line(line))
		expect(read_flow_line(line), "what does this line mean?");
}

static void begin(const char *rule)
{
	memset(&run, 0, sizeof(run));
	run.rule = rule;
	run.line = "";
	run.next_port = 20000;
}

void flow_run(const struct flow_row *row)
{
	begin(row->rule);
	if (family_leaves_out(row->rule))
		return;
	cluster_start();
	if (strncmp(row->lines[0], "service", 7) != 0 && strcmp(row->lines[0], "no service") != 0)
		cluster_service(NULL);
	for (size_t i = 0; i < FLOW_LINES && row->lines[i]; i++)
		run_line(row->lines[i]);
	cluster_stop();
}

void flow_expect(const char *rule, const char *client, const char *proto, const char *to,
		 const char *outcome)
{
	struct expected expected;
	char line[160];
	struct flow flow;

	begin(rule);
	snprintf(line, sizeof(line), "%s %s %s = %s", client, proto, to, outcome);
	run.line = line;
	flow = flow_read(client, proto, to);
	expected = flow_read_outcome(outcome);
	send_many(&flow, &expected);
}

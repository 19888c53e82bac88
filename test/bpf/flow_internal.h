/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/flow_internal.h - read a line of a row (flow_read.c) and carry it out (flow.c). */
#ifndef MK_TEST_FLOW_INTERNAL_H
#define MK_TEST_FLOW_INTERNAL_H

#include "bpf/cluster.h"
#include "bpf/flow.h"

#define VPOD "10.244.1.1"
#define VTEP "10.18.0.1"
#define NODE "192.168.99.11"

#define ENDPOINTS_MAX 8
#define NAMES_MAX     4

/* The hook by which a client's packets come in, and where its answers go. */
struct client {
	const char *name, *address;
	enum mk_hook hook;
	enum where where;
};

enum outcome { SERVED, REFUSED, DROP, UNTOUCHED, OUTSIDE, PONG };
enum source { ANY_SOURCE, KEPT, MASQUERADED };

struct target {
	const struct cluster_endpoint *endpoint;
	unsigned port;
	bool seen;
};

struct expected {
	enum outcome outcome;
	enum source source;
	int reason;
	struct target targets[ENDPOINTS_MAX];
	unsigned count;
};

struct flow {
	char name[16];
	struct client client;
	char address[32]; /* of the client, if it is not the usual one */
	char proto[8], to[48]; /* to: "A:port", a ping's "A" */
	unsigned port; /* of the client */
	char seen[128]; /* the first packet's flow after translation */
	const struct cluster_endpoint *endpoint;
	enum mk_hook answer_hook; /* the hook by which its answers come in */
};

/* The two ends of "tcp A:1 > B:2". */
struct ends {
	char proto[16], from[48], to[48];
};

/* A row while it runs. */
struct flow_run {
	const char *rule, *line;
	unsigned next_port;
	struct flow flows[NAMES_MAX];
	unsigned flow_count;
};
extern struct flow_run run;

#define expect(condition, ...) \
	ck_assert_msg(condition, "%s\n\t%s\n\t%s", run.rule, run.line, flow_text(__VA_ARGS__))

/* Format into a static buffer. */
const char *flow_text(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

extern const char *const flow_reasons[]; /* by enum mk_drop_reason */
struct flow flow_read(const char *client, const char *proto, const char *to);
struct expected flow_read_outcome(const char *text);

struct ends flow_ends(const char *flow);
void flow_address_of(const char *end, char address[32]); /* without the port */
enum where flow_send(const struct flow *flow, const struct frame *in, struct frame *out);
enum where flow_answer_where(const struct flow *flow);
void flow_check_frame(const struct frame *frame);

/* flow_related.c: ICMP errors and fragments of an open flow, in both directions. */
void flow_errors(const struct flow *flow);
void flow_fragments(const struct flow *flow);

#endif

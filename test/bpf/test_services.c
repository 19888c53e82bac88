// SPDX-License-Identifier: Apache-2.0
/* Services: each flow hop by hop. The frame that leaves one hook goes into the next. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>

#include "bpf/run.h"
#include "rows.h"

#define CLUSTER_IP "10.96.0.10"

static const char *const local_backend[] = { "10.244.1.3:8080", NULL };
static const char *const remote_backend[] = { "10.244.2.7:8080", NULL };
static const char *const self_backend[] = { "10.244.1.2:8080", NULL };
static const char *const host_backend[] = { "192.168.99.11:6443", NULL };
static const char *const other_host_backend[] = { "192.168.99.12:6443", NULL };

static const struct frame_options syn_ack = { .tcp_flags = SYN | ACK };

/* A flow with fixed ports: the request before and after translation, and the same for its
 * answer. */
static const struct {
	const char *name, *frontend;
	enum mk_scope scope;
	uint16_t flags;
	const char *const *backends;
	uint16_t local_count;
	enum mk_hook hook; /* of the request */
	const char *request;
	enum where request_to;
	const char *request_seen;
	enum mk_hook answer_hook;
	const char *answer;
	enum where answer_to;
	const char *answer_seen;
} flows[] = {
	{ "pod to ClusterIP, backend here", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0,
	  local_backend, 1, MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", TO_POD,
	  "tcp 10.244.1.2:40000 > 10.244.1.3:8080", MK_HOOK_POD,
	  "tcp 10.244.1.3:8080 > 10.244.1.2:40000", TO_POD,
	  "tcp 10.96.0.10:80 > 10.244.1.2:40000" },
	{ "pod to ClusterIP, backend on the other node", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0,
	  remote_backend, 0, MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", TO_OVERLAY,
	  "tcp 10.244.1.2:40000 > 10.244.2.7:8080", MK_HOOK_OVERLAY,
	  "tcp 10.244.2.7:8080 > 10.244.1.2:40000", TO_POD,
	  "tcp 10.96.0.10:80 > 10.244.1.2:40000" },
	{ "pod to ClusterIP over UDP", "udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, remote_backend, 0,
	  MK_HOOK_POD, "udp 10.244.1.2:40000 > 10.96.0.10:53", TO_OVERLAY,
	  "udp 10.244.1.2:40000 > 10.244.2.7:8080", MK_HOOK_OVERLAY,
	  "udp 10.244.2.7:8080 > 10.244.1.2:40000", TO_POD,
	  "udp 10.96.0.10:53 > 10.244.1.2:40000" },
	{ "pod to ClusterIP, backend in this host's network", "tcp 10.96.0.10:80",
	  MK_SCOPE_INTERNAL, 0, host_backend, 1, MK_HOOK_POD,
	  "tcp 10.244.1.2:40000 > 10.96.0.10:80", TO_HOST,
	  "tcp 10.244.1.2:40000 > 192.168.99.11:6443", MK_HOOK_HOST,
	  "tcp 192.168.99.11:6443 > 10.244.1.2:40000", TO_POD,
	  "tcp 10.96.0.10:80 > 10.244.1.2:40000" },
	{ "outside to NodePort, policy Local", "tcp 192.168.99.11:30081", MK_SCOPE_EXTERNAL,
	  MK_FRONTEND_MAGLEV, local_backend, 1, MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:30081", TO_POD,
	  "tcp 203.0.113.10:40000 > 10.244.1.3:8080", MK_HOOK_POD,
	  "tcp 10.244.1.3:8080 > 203.0.113.10:40000", TO_UPLINK,
	  "tcp 192.168.99.11:30081 > 203.0.113.10:40000" },
	{ "outside to NodePort, policy Local, backend in this host's network",
	  "tcp 192.168.99.11:30081", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, host_backend, 1,
	  MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:30081", TO_HOST,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:6443", MK_HOOK_UPLINK_EGRESS,
	  "tcp 192.168.99.11:6443 > 203.0.113.10:40000", TO_HOST,
	  "tcp 192.168.99.11:30081 > 203.0.113.10:40000" },
};

static void check_account(const char *name, uint32_t service_id)
{
	struct mk_tuple key, *last = NULL;
	struct mk_session session;
	int fd = fixture_map("sessions");

	for (; row_next_key(fd, last, &key) == 0; last = &key) {
		ck_assert_int_eq(row_lookup(fd, &key, &session), 0);
		ck_assert_msg(session.service_id == service_id, "%s: account %u, not %u", name,
			      session.service_id, service_id);
	}
}

START_TEST(test_flow)
{
	const struct mk_runtime runtime = { .host_backends = 1 };
	struct frame request = frame_make(flows[_i].request, NULL);
	struct frame answer = frame_make(flows[_i].answer, &syn_ack);
	struct frame more = frame_make(
		flows[_i].request, &(struct frame_options){ .tcp_flags = ACK, .payload_bytes = 9 });
	unsigned left = strncmp(flows[_i].request, "udp", 3) == 0 ? 2 : 0; /* for the sweep */

	fixture_runtime(&runtime);
	fixture_service(flows[_i].frontend, flows[_i].scope, flows[_i].flags, flows[_i].backends,
			flows[_i].local_count, 1);
	for (int round = 0; round < 2; round++) {
		fixture_expect(flows[_i].name, flows[_i].hook, round ? &more : &request,
			       flows[_i].request_to, flows[_i].request_seen);
		fixture_expect(flows[_i].name, flows[_i].answer_hook, &answer, flows[_i].answer_to,
			       flows[_i].answer_seen);
	}
	ck_assert_msg(fixture_count("sessions") == 2, "%s: %u entries established", flows[_i].name,
		      fixture_count("sessions"));
	ck_assert_msg(fixture_count("sessions_young") == left, "%s: not moved", flows[_i].name);
	check_account(flows[_i].name, FIXTURE_ACCOUNT + 1);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Flows in which monokube chooses the source port: read it from the request. */
static unsigned source_port(const struct frame *frame, const char *address)
{
	unsigned port = 0;
	char source[32] = "";

	sscanf(frame_flow(frame), "tcp %31[0-9.]:%u >", source, &port);
	ck_assert_msg(strcmp(source, address) == 0, "source of '%s' is not %s", frame_flow(frame),
		      address);
	check_source_port(address, port);
	return port;
}

static const struct {
	const char *name, *frontend;
	enum mk_scope scope;
	uint16_t flags;
	const char *const *backends;
	uint16_t local_count;
	enum mk_hook hook;
	const char *request;
	enum where request_to;
	const char *source; /* the source that the backend sees */
	const char *backend;
	enum mk_hook answer_hook;
	enum where answer_to;
	const char *answer_seen;
} masqueraded[] = {
	{ "outside to NodePort, policy Cluster, backend on the other node",
	  "tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE,
	  remote_backend, 0, MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:30080",
	  TO_OVERLAY, "10.244.1.1", "10.244.2.7:8080", MK_HOOK_OVERLAY, TO_UPLINK,
	  "tcp 192.168.99.11:30080 > 203.0.113.10:40000" },
	{ "outside to NodePort, policy Cluster, backend here", "tcp 192.168.99.11:30080",
	  MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, local_backend, 1,
	  MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:30080", TO_POD, "10.244.1.1",
	  "10.244.1.3:8080", MK_HOOK_POD, TO_UPLINK,
	  "tcp 192.168.99.11:30080 > 203.0.113.10:40000" },
	{ "outside to NodePort, policy Cluster, backend in this host's network",
	  "tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE,
	  host_backend, 1, MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:30080", TO_HOST,
	  "10.244.1.1", "192.168.99.11:6443", MK_HOOK_HOST, TO_UPLINK,
	  "tcp 192.168.99.11:30080 > 203.0.113.10:40000" },
	{ "pod reaches itself (hairpin)", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, self_backend,
	  1, MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:80", TO_POD, "10.244.1.1",
	  "10.244.1.2:8080", MK_HOOK_POD, TO_POD, "tcp 10.96.0.10:80 > 10.244.1.2:40000" },
	{ "host to a Service whose endpoint is the host itself", "tcp 10.96.0.1:443",
	  MK_SCOPE_INTERNAL, 0, host_backend, 1, MK_HOOK_HOST,
	  "tcp 10.18.0.1:40000 > 10.96.0.1:443", TO_HOST, "10.244.1.1", "192.168.99.11:6443",
	  MK_HOOK_HOST, TO_HOST, "tcp 10.96.0.1:443 > 10.18.0.1:40000" },
	{ "host to ClusterIP, backend here", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0,
	  local_backend, 1, MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.96.0.10:80", TO_POD,
	  "10.18.0.1", "10.244.1.3:8080", MK_HOOK_POD, TO_HOST,
	  "tcp 10.96.0.10:80 > 10.18.0.1:40000" },
	{ "host to ClusterIP, backend on the other node", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0,
	  remote_backend, 0, MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.96.0.10:80", TO_OVERLAY,
	  "10.18.0.1", "10.244.2.7:8080", MK_HOOK_OVERLAY, TO_HOST,
	  "tcp 10.96.0.10:80 > 10.18.0.1:40000" },
	{ "host bound to its node address to a Service", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0,
	  remote_backend, 0, MK_HOOK_HOST, "tcp 192.168.99.11:40000 > 10.96.0.10:80", TO_OVERLAY,
	  "192.168.99.11", "10.244.2.7:8080", MK_HOOK_OVERLAY, TO_HOST,
	  "tcp 10.96.0.10:80 > 192.168.99.11:40000" },
	{ "another container network, forwarded by the host, to a Service", "tcp 10.96.0.10:80",
	  MK_SCOPE_INTERNAL, 0, local_backend, 1, MK_HOOK_HOST,
	  "tcp 172.17.0.2:40000 > 10.96.0.10:80", TO_POD, "10.244.1.1", "10.244.1.3:8080",
	  MK_HOOK_POD, TO_HOST, "tcp 10.96.0.10:80 > 172.17.0.2:40000" },
};

START_TEST(test_masqueraded_flow)
{
	const char *name = masqueraded[_i].name;
	struct frame request = frame_make(masqueraded[_i].request, NULL), answer, out;
	char flow[128];
	unsigned port;

	fixture_service(masqueraded[_i].frontend, masqueraded[_i].scope, masqueraded[_i].flags,
			masqueraded[_i].backends, masqueraded[_i].local_count, 1);
	out = fixture_expect(name, masqueraded[_i].hook, &request, masqueraded[_i].request_to,
			     NULL);
	port = source_port(&out, masqueraded[_i].source);
	snprintf(flow, sizeof(flow), "tcp %s:%u > %s", masqueraded[_i].source, port,
		 masqueraded[_i].backend);
	ck_assert_msg(strcmp(frame_flow(&out), flow) == 0, "%s: saw '%s'", name, frame_flow(&out));
	snprintf(flow, sizeof(flow), "tcp %s > %s:%u", masqueraded[_i].backend,
		 masqueraded[_i].source, port);
	answer = frame_make(flow, &syn_ack);
	for (int round = 0; round < 2; round++)
		fixture_expect(name, masqueraded[_i].answer_hook, &answer,
			       masqueraded[_i].answer_to, masqueraded[_i].answer_seen);
	ck_assert_uint_eq(fixture_drops_total(), 0);
}
END_TEST

/* Two translations in sequence: the Service's on this node, then masquerade on the way out. */
static void check_two_stages(const char *name, enum mk_hook hook, const char *client,
			     enum where back)
{
	char request_flow[128], answer_flow[128], seen[128];
	struct frame request, answer, out;
	unsigned port;

	fixture_service("tcp 10.96.0.1:443", MK_SCOPE_INTERNAL, 0, other_host_backend, 0, 1);
	snprintf(request_flow, sizeof(request_flow), "tcp %s:40000 > 10.96.0.1:443", client);
	request = frame_make(request_flow, NULL);
	out = fixture_expect(name, hook, &request, TO_UPLINK, NULL);
	port = source_port(&out, "192.168.99.11");
	snprintf(answer_flow, sizeof(answer_flow), "tcp 192.168.99.12:6443 > 192.168.99.11:%u",
		 port);
	snprintf(seen, sizeof(seen), "tcp 10.96.0.1:443 > %s:40000", client);
	answer = frame_make(answer_flow, &syn_ack);
	fixture_expect(name, MK_HOOK_UPLINK, &answer, back, seen);
}

START_TEST(test_two_stages)
{
	check_two_stages("pod to the API server on another host", MK_HOOK_POD, "10.244.1.2",
			 TO_POD);
	fixture_reset();
	check_two_stages("host to the API server on another host", MK_HOOK_HOST, "10.18.0.1",
			 TO_HOST);
}
END_TEST

static const struct {
	const char *name, *frontend;
	enum mk_scope scope;
	uint16_t flags;
	enum mk_hook hook;
	const char *flow;
	int reason;
	enum where error_to;
	const char *error;
} refused[] = {
	{ "pod, TCP", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, MK_HOOK_POD,
	  "tcp 10.244.1.2:40000 > 10.96.0.10:80", MK_DROP_REFUSED, TO_POD,
	  "icmp-error 10.96.0.10 > 10.244.1.2 3/3 [tcp 10.244.1.2:40000 > 10.96.0.10:80]" },
	{ "pod, UDP", "udp 10.96.0.10:53", MK_SCOPE_INTERNAL, 0, MK_HOOK_POD,
	  "udp 10.244.1.2:40000 > 10.96.0.10:53", MK_DROP_REFUSED, TO_POD,
	  "icmp-error 10.96.0.10 > 10.244.1.2 3/3 [udp 10.244.1.2:40000 > 10.96.0.10:53]" },
	{ "host", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, MK_HOOK_HOST,
	  "tcp 10.18.0.1:40000 > 10.96.0.10:80", MK_DROP_REFUSED, TO_HOST,
	  "icmp-error 10.96.0.10 > 10.18.0.1 3/3 [tcp 10.18.0.1:40000 > 10.96.0.10:80]" },
	{ "outside", "tcp 192.168.99.11:30080", MK_SCOPE_EXTERNAL, MK_FRONTEND_MASQUERADE,
	  MK_HOOK_UPLINK, "tcp 203.0.113.10:40000 > 192.168.99.11:30080", MK_DROP_REFUSED,
	  TO_UPLINK,
	  "icmp-error 192.168.99.11 > 203.0.113.10 3/3 [tcp 203.0.113.10:40000 > "
	  "192.168.99.11:30080]" },
	{ "outside, policy Local, endpoints elsewhere", "tcp 192.168.99.11:30081",
	  MK_SCOPE_EXTERNAL, MK_FRONTEND_DROP_EMPTY, MK_HOOK_UPLINK,
	  "tcp 203.0.113.10:40000 > 192.168.99.11:30081", MK_DROP_NO_LOCAL_BACKEND, DROPPED, NULL },
	{ "unknown port of a ClusterIP", "tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, MK_HOOK_POD,
	  "tcp 10.244.1.2:40000 > 10.96.0.10:81", MK_DROP_REFUSED, TO_POD,
	  "icmp-error 10.96.0.10 > 10.244.1.2 3/3 [tcp 10.244.1.2:40000 > 10.96.0.10:81]" },
};

START_TEST(test_refused)
{
	struct frame in = frame_make(refused[_i].flow, NULL);

	fixture_service(refused[_i].frontend, refused[_i].scope, refused[_i].flags, NULL, 0, 1);
	fixture_vip(CLUSTER_IP);
	fixture_expect(refused[_i].name, refused[_i].hook, &in, refused[_i].error_to,
		       refused[_i].error);
	ck_assert_msg(fixture_drops(refused[_i].hook, (enum mk_drop_reason)refused[_i].reason) == 1,
		      "%s: not counted", refused[_i].name);
	ck_assert_uint_eq(fixture_count("sessions"), 0);
	ck_assert_uint_eq(fixture_count("sessions_young"), 0);
}
END_TEST

START_TEST(test_ping_of_vip)
{
	struct frame in = frame_make("icmp 10.244.1.2 > 10.96.0.10 77", NULL);

	fixture_vip(CLUSTER_IP);
	fixture_expect("answered", MK_HOOK_POD, &in, TO_POD, "icmp 10.96.0.10 > 10.244.1.2 77");
}
END_TEST

/* An address inside a ServiceCIDR; the whole range is dropped. */
static const struct {
	const char *name;
	enum mk_hook hook;
	const char *flow;
	int reason; /* -1: not counted */
	enum where to;
	const char *seen;
} in_range[] = {
	{ "unknown port of a Service, pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.10:81",
	  MK_DROP_REFUSED, TO_POD,
	  "icmp-error 10.96.0.10 > 10.244.1.2 3/3 [tcp 10.244.1.2:40000 > 10.96.0.10:81]" },
	{ "unknown port of a Service, host", MK_HOOK_HOST, "tcp 10.18.0.1:40000 > 10.96.0.10:81",
	  MK_DROP_REFUSED, TO_HOST,
	  "icmp-error 10.96.0.10 > 10.18.0.1 3/3 [tcp 10.18.0.1:40000 > 10.96.0.10:81]" },
	{ "ping of a Service", MK_HOOK_POD, "icmp 10.244.1.2 > 10.96.0.10 77", -1, TO_POD,
	  "icmp 10.96.0.10 > 10.244.1.2 77" },
	{ "no Service's address, pod", MK_HOOK_POD, "tcp 10.244.1.2:40000 > 10.96.0.11:80",
	  MK_DROP_NO_ROUTE, DROPPED, NULL },
	{ "no Service's address, host", MK_HOOK_HOST, "udp 10.18.0.1:40000 > 10.96.255.254:80",
	  MK_DROP_NO_ROUTE, DROPPED, NULL },
	{ "ping of no Service's address", MK_HOOK_POD, "icmp 10.244.1.2 > 10.96.0.11 77",
	  MK_DROP_NO_ROUTE, DROPPED, NULL },
};

START_TEST(test_service_range)
{
	struct frame in = frame_make(in_range[_i].flow, NULL);
	enum mk_drop_reason reason = (enum mk_drop_reason)in_range[_i].reason;

	fixture_drop_range("10.96.0.0", 16);
	fixture_service("tcp 10.96.0.10:80", MK_SCOPE_INTERNAL, 0, local_backend, 1, 1);
	fixture_vip(CLUSTER_IP);
	fixture_expect(in_range[_i].name, in_range[_i].hook, &in, in_range[_i].to,
		       in_range[_i].seen);
	if (in_range[_i].reason >= 0)
		ck_assert_msg(fixture_drops(in_range[_i].hook, reason) == 1, "%s: not counted",
			      in_range[_i].name);
	ck_assert_uint_eq(fixture_count("sessions"), 0);
	ck_assert_uint_eq(fixture_count("sessions_young"), 0);
}
END_TEST

BPF_SUITE("services")
{
	TCase *tcase = bpf_case(suite, "services");

	tcase_add_loop_test(tcase, test_flow, 0, ROWS(flows));
	tcase_add_loop_test(tcase, test_masqueraded_flow, 0, ROWS(masqueraded));
	tcase_add_test(tcase, test_two_stages);
	tcase_add_loop_test(tcase, test_refused, 0, ROWS(refused));
	tcase_add_test(tcase, test_ping_of_vip);
	tcase_add_loop_test(tcase, test_service_range, 0, ROWS(in_range));
}

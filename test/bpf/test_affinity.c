// SPDX-License-Identifier: Apache-2.0
/* sessionAffinity ClientIP: the backend of a client's next connection. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bpf/run.h"
#include "rows.h"

#define CLIENT	    "10.244.1.2"
#define OUTSIDE	    "203.0.113.10"
#define CLUSTER_IP  "10.96.0.10:80"
#define NODE_PORT   "192.168.99.11:30080"
#define AFFINITY_ID 500
#define TIMEOUT_S   100

/* none of them is the client */
static const char *const backends[] = { "10.244.1.3:1", "10.244.2.7:2", "10.244.2.7:3",
					"10.244.2.7:4", "10.244.2.7:5", "10.244.2.7:6",
					"10.244.2.7:7", "10.244.2.7:8", NULL };
static const char *const local_backends[] = { "10.244.1.3:1", NULL };

static void put_member(const struct mk_frontend *service, const char *backend)
{
	struct mk_affinity_backend_key key = { .set_id = service->set_id,
					       .generation = service->generation };
	__u32 nothing = 0;

	fixture_addr_port(backend, &key.backend.addr, &key.backend.port);
	ck_assert_int_eq(row_update(fixture_map("affinity_backends"), &key, &nothing, BPF_ANY), 0);
}

static void drop_member(const struct mk_frontend *service, const char *backend)
{
	struct mk_affinity_backend_key key = { .set_id = service->set_id,
					       .generation = service->generation };

	fixture_addr_port(backend, &key.backend.addr, &key.backend.port);
	ck_assert_int_eq(row_delete(fixture_map("affinity_backends"), &key), 0);
}

/* Make a frontend of the port AFFINITY_ID. */
static struct mk_frontend frontend(const char *text, enum mk_scope scope, uint16_t flags,
				   const char *const *list)
{
	struct mk_frontend service;

	fixture_service(text, scope, flags, list, 1, 1);
	service = fixture_get_service(text, scope);
	service.affinity_id = AFFINITY_ID;
	service.affinity_timeout_s = TIMEOUT_S;
	fixture_put_service(text, scope, &service);
	for (; *list; list++)
		put_member(&service, *list);
	return service;
}

/* Open a new connection. Returns the port of its backend. */
static unsigned connect_from(enum mk_hook hook, const char *proto, const char *client,
			     unsigned port, const char *to)
{
	struct frame frame;
	unsigned backend;
	char flow[96];

	snprintf(flow, sizeof(flow), "%s %s:%u > %s", proto, client, port, to);
	frame = frame_make(flow, NULL);
	ck_assert_msg(fixture_send(hook, &frame, &frame) != DROPPED, "dropped: %s", flow);
	ck_assert_int_eq(sscanf(frame_flow(&frame), "%*s %*[0-9.:] > %*[0-9.]:%u", &backend), 1);
	return backend;
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct mk_affinity_key key_of(const char *client)
{
	return (struct mk_affinity_key){ .client = fixture_addr(client),
					 .affinity_id = AFFINITY_ID };
}

/* Read the entry of a client. Map affinity has clients with a completed connection, map
 * affinity_new those that only sent first packets. */
static struct mk_affinity remembered(const char *map, const char *client)
{
	struct mk_affinity_key key = key_of(client);
	struct mk_affinity last;

	ck_assert_int_eq(row_lookup(fixture_map(map), &key, &last), 0);
	return last;
}

/* Write the entry of a client with a completed connection. */
static void remember(const char *client, const char *backend, uint64_t ago_ns)
{
	struct mk_affinity last = { .last_new_ns = clock_ns() - ago_ns };
	struct mk_affinity_key key = key_of(client);

	fixture_addr_port(backend, &last.backend.addr, &last.backend.port);
	ck_assert_int_eq(row_update(fixture_map("affinity"), &key, &last, BPF_ANY), 0);
	row_delete(fixture_map("affinity_new"), &key);
}

static const struct {
	const char *name, *proto, *frontend;
	enum mk_scope scope;
	uint16_t flags;
	enum mk_hook hook;
	const char *client;
} sticky[] = {
	{ "pod to ClusterIP", "tcp", CLUSTER_IP, MK_SCOPE_INTERNAL, 0, MK_HOOK_POD, CLIENT },
	{ "pod to ClusterIP over UDP", "udp", CLUSTER_IP, MK_SCOPE_INTERNAL, 0, MK_HOOK_POD,
	  CLIENT },
	{ "host to ClusterIP", "tcp", CLUSTER_IP, MK_SCOPE_INTERNAL, 0, MK_HOOK_HOST, "10.18.0.1" },
	{ "pod to NodePort", "tcp", NODE_PORT, MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE,
	  MK_HOOK_POD, CLIENT },
	{ "outside to NodePort", "tcp", NODE_PORT, MK_SCOPE_EXTERNAL,
	  MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, MK_HOOK_UPLINK, OUTSIDE },
	{ "outside to NodePort over UDP", "udp", NODE_PORT, MK_SCOPE_EXTERNAL,
	  MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, MK_HOOK_UPLINK, OUTSIDE },
	{ "outside to NodePort, policy Local", "tcp", NODE_PORT, MK_SCOPE_EXTERNAL,
	  MK_FRONTEND_MAGLEV, MK_HOOK_UPLINK, OUTSIDE },
	{ "outside to ClusterIP", "tcp", CLUSTER_IP, MK_SCOPE_EXTERNAL, MK_FRONTEND_MASQUERADE,
	  MK_HOOK_UPLINK, OUTSIDE },
};

/* By chance all 20 connections get one of 8 backends once in 8^19 runs. */
START_TEST(test_sticky)
{
	unsigned first, seen = 0;
	char text[64];

	snprintf(text, sizeof(text), "%s %s", sticky[_i].proto, sticky[_i].frontend);
	frontend(text, sticky[_i].scope, sticky[_i].flags, backends);
	first = connect_from(sticky[_i].hook, sticky[_i].proto, sticky[_i].client, 2000,
			     sticky[_i].frontend);
	for (unsigned i = 1; i < 20; i++)
		seen += connect_from(sticky[_i].hook, sticky[_i].proto, sticky[_i].client, 2000 + i,
				     sticky[_i].frontend) == first;
	ck_assert_msg(seen == 19, "%s: %u of 19 later connections came back", sticky[_i].name,
		      seen);
	ck_assert_uint_eq(fixture_count("affinity_new"), 1);
}
END_TEST

START_TEST(test_clients_differ)
{
	unsigned seen = 0;
	char client[32];

	frontend("tcp " NODE_PORT, MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE,
		 backends);
	for (unsigned i = 1; i <= 100; i++) {
		snprintf(client, sizeof(client), "203.0.113.%u", i);
		seen |= 1u << connect_from(MK_HOOK_UPLINK, "tcp", client, 2000, NODE_PORT);
	}
	ck_assert_int_eq(__builtin_popcount(seen), 8);
	ck_assert_uint_eq(fixture_count("affinity_new"), 100);
}
END_TEST

/* One client and one Service port share an entry over all addresses. */
START_TEST(test_shared_by_addresses)
{
	unsigned port = 2000;

	frontend("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, 0, backends);
	frontend("tcp " NODE_PORT, MK_SCOPE_INTERNAL, MK_FRONTEND_MASQUERADE, backends);
	frontend("tcp " NODE_PORT, MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE,
		 backends);
	frontend("tcp " CLUSTER_IP, MK_SCOPE_EXTERNAL, MK_FRONTEND_MASQUERADE, backends);
	for (unsigned i = 0; backends[i]; i++) {
		remember(CLIENT, backends[i], 0);
		remember(OUTSIDE, backends[i], 0);
		ck_assert_uint_eq(connect_from(MK_HOOK_POD, "tcp", CLIENT, port++, CLUSTER_IP),
				  i + 1);
		ck_assert_uint_eq(connect_from(MK_HOOK_POD, "tcp", CLIENT, port++, NODE_PORT),
				  i + 1);
		ck_assert_uint_eq(connect_from(MK_HOOK_UPLINK, "tcp", OUTSIDE, port++, NODE_PORT),
				  i + 1);
		ck_assert_uint_eq(connect_from(MK_HOOK_UPLINK, "tcp", OUTSIDE, port++, CLUSTER_IP),
				  i + 1);
	}
}
END_TEST

/* Each new connection restarts the time; nothing else does. */
START_TEST(test_time_runs_from_last_connection)
{
	const struct frame_options ack = { .tcp_flags = ACK, .payload_bytes = 9 };
	struct frame more = frame_make("tcp " CLIENT ":2000 > " CLUSTER_IP, &ack);
	struct frame again = frame_make("tcp " CLIENT ":2000 > " CLUSTER_IP, NULL);
	uint64_t before, last;

	frontend("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, 0, backends);
	remember(CLIENT, backends[4], (TIMEOUT_S - 10) * 1000000000ULL);
	before = clock_ns();
	ck_assert_uint_eq(connect_from(MK_HOOK_POD, "tcp", CLIENT, 2000, CLUSTER_IP), 5);
	last = remembered("affinity", CLIENT).last_new_ns;
	ck_assert_uint_ge(last, before);
	fixture_send(MK_HOOK_POD, &again, &again);
	fixture_send(MK_HOOK_POD, &more, &more);
	ck_assert_uint_eq(remembered("affinity", CLIENT).last_new_ns, last);
}
END_TEST

/* By chance all 30 get the old backend of 8 once in 8^30 runs. */
START_TEST(test_time_over)
{
	unsigned seen = 0;

	frontend("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, 0, backends);
	for (unsigned i = 0; i < 30; i++) {
		uint64_t before = clock_ns();

		remember(CLIENT, backends[4], TIMEOUT_S * 1000000000ULL);
		seen |= 1u << connect_from(MK_HOOK_POD, "tcp", CLIENT, 2000 + i, CLUSTER_IP);
		ck_assert_uint_ge(remembered("affinity_new", CLIENT).last_new_ns, before);
	}
	ck_assert_int_gt(__builtin_popcount(seen), 1);
}
END_TEST

START_TEST(test_backend_gone)
{
	struct mk_frontend service = frontend("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, 0, backends);

	/* a new generation without the last backend */
	drop_member(&service, backends[7]);
	service.backend_count = 7;
	fixture_put_service("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, &service);
	remember(CLIENT, backends[7], 0);
	ck_assert_uint_lt(connect_from(MK_HOOK_POD, "tcp", CLIENT, 2000, CLUSTER_IP), 8);
	ck_assert_uint_ne(remembered("affinity_new", CLIENT).backend.port, htons(8));
}
END_TEST

/* Members of one set and generation do not count in another. */
START_TEST(test_other_generation)
{
	struct mk_frontend service =
		frontend("tcp " NODE_PORT, MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV, local_backends);

	frontend("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, 0, backends);
	service.generation++;
	put_member(&service, backends[4]);
	remember(OUTSIDE, backends[4], 0);
	ck_assert_uint_eq(connect_from(MK_HOOK_UPLINK, "tcp", OUTSIDE, 2000, NODE_PORT), 1);
	ck_assert_uint_eq(remembered("affinity_new", OUTSIDE).backend.port, htons(1));
}
END_TEST

START_TEST(test_switched_off)
{
	struct mk_frontend service = frontend("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, 0, backends);
	unsigned seen = 0;

	remember(CLIENT, backends[4], 0);
	service.affinity_id = 0;
	fixture_put_service("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, &service);
	for (unsigned i = 0; i < 30; i++)
		seen |= 1u << connect_from(MK_HOOK_POD, "tcp", CLIENT, 2000 + i, CLUSTER_IP);
	ck_assert_int_gt(__builtin_popcount(seen), 1);
	ck_assert_uint_eq(fixture_count("affinity"), 1);
}
END_TEST

/* A port that was switched off and on again has another id. */
START_TEST(test_other_port)
{
	struct mk_frontend service = frontend("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, 0, backends);
	unsigned seen = 0;

	remember(CLIENT, backends[4], 0);
	for (unsigned i = 0; i < 30; i++) {
		service.affinity_id = AFFINITY_ID + 1 + i;
		fixture_put_service("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, &service);
		seen |= 1u << connect_from(MK_HOOK_POD, "tcp", CLIENT, 2000 + i, CLUSTER_IP);
	}
	ck_assert_int_gt(__builtin_popcount(seen), 1);
	ck_assert_uint_eq(fixture_count("affinity"), 1);
	ck_assert_uint_eq(fixture_count("affinity_new"), 30);
}
END_TEST

static void send_tcp(enum mk_hook hook, const char *flow, uint8_t flags, char back[128])
{
	const struct frame_options options = { .tcp_flags = flags };
	struct frame frame = frame_make(flow, &options);
	char from[48], to[48];

	ck_assert_msg(fixture_send(hook, &frame, &frame) != DROPPED, "dropped: %s", flow);
	ck_assert_int_eq(sscanf(frame_flow(&frame), "%*s %47s > %47s", from, to), 2);
	snprintf(back, 128, "tcp %s > %s", to, from);
}

/* Complete a handshake. Returns the port of the backend. */
static unsigned complete_handshake(enum mk_hook hook, const char *client, const char *to)
{
	char flow[96], answer[128], ignored[128];
	unsigned backend;

	snprintf(flow, sizeof(flow), "tcp %s:2000 > %s", client, to);
	send_tcp(hook, flow, SYN, answer);
	ck_assert_int_eq(sscanf(answer, "tcp %*[0-9.]:%u", &backend), 1);
	send_tcp(strstr(answer, "tcp 10.244.1.") ? MK_HOOK_POD : MK_HOOK_OVERLAY, answer, SYN | ACK,
		 ignored);
	send_tcp(hook, flow, ACK, ignored);
	return backend;
}

/* A client that completes a session keeps its backend in a table of its own, ... */
START_TEST(test_earned)
{
	const char *client = _i & 1 ? OUTSIDE : CLIENT;
	enum mk_hook hook = _i & 1 ? MK_HOOK_UPLINK : MK_HOOK_POD;
	const char *to = _i & 1 ? NODE_PORT : CLUSTER_IP;
	unsigned backend;

	if (_i & 1)
		frontend("tcp " NODE_PORT, MK_SCOPE_EXTERNAL,
			 MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE, backends);
	else
		frontend("tcp " CLUSTER_IP, MK_SCOPE_INTERNAL, 0, backends);
	fixture_quota(_i & 2 ? FIXTURE_QUOTA : 0);
	remember(client, backends[4], TIMEOUT_S * 1000000000ULL);
	backend = complete_handshake(hook, client, to);
	ck_assert_uint_eq(remembered("affinity", client).backend.port, htons(backend));
	ck_assert_uint_eq(fixture_count("affinity_new"), 0);
	ck_assert_uint_eq(connect_from(hook, "tcp", client, 2001, to), backend);
	fixture_quota(0);
}
END_TEST

/* ... which first packets do not write: a flood from forged addresses evicts no client there. */
START_TEST(test_first_packets_evict_nobody)
{
	char client[32];

	frontend("tcp " NODE_PORT, MK_SCOPE_EXTERNAL, MK_FRONTEND_MAGLEV | MK_FRONTEND_MASQUERADE,
		 backends);
	remember(OUTSIDE, backends[4], 0);
	for (unsigned i = 1; i <= 100; i++) {
		snprintf(client, sizeof(client), "198.51.100.%u", i);
		connect_from(MK_HOOK_UPLINK, "tcp", client, 2000, NODE_PORT);
	}
	ck_assert_uint_eq(fixture_count("affinity"), 1);
	ck_assert_uint_eq(connect_from(MK_HOOK_UPLINK, "tcp", OUTSIDE, 2000, NODE_PORT), 5);
}
END_TEST

BPF_SUITE("affinity")
{
	TCase *tcase = bpf_case(suite, "affinity");

	tcase_add_loop_test(tcase, test_sticky, 0, ROWS(sticky));
	tcase_add_test(tcase, test_clients_differ);
	tcase_add_test(tcase, test_shared_by_addresses);
	tcase_add_test(tcase, test_time_runs_from_last_connection);
	tcase_add_test(tcase, test_time_over);
	tcase_add_test(tcase, test_backend_gone);
	tcase_add_test(tcase, test_other_generation);
	tcase_add_test(tcase, test_switched_off);
	tcase_add_test(tcase, test_other_port);
	tcase_add_loop_test(tcase, test_earned, 0, 4);
	tcase_add_test(tcase, test_first_packets_evict_nobody);
}

// SPDX-License-Identifier: Apache-2.0
/* Sessions of clients that pods answer directly (directServerReturn), at the node that the client
 * asked and at the pod's node: which are cut, and which outlive their frontend. */
#include <arpa/inet.h>

#include "unit/sync_fixture.h"
#include "unit/unit.h"

#define ASKED	   "192.168.0.1" /* the node that the client asked */
#define PODS_NODE  "192.168.0.2"
#define NODE_PORT  30080
#define DIRECT	   (MK_SESSION_FORWARD | MK_SESSION_VIA_OVERLAY)
#define OTHER_NODE (1u << 31) /* the number of a node, in mk_session.set_id */

static uint32_t service_id; /* of the Service applied last */

/* Apply port @port of @name for @proto, at this node's address @at. Its endpoints are those of
 * build(). */
static void apply_at(const char *name, const char *at, uint8_t proto, uint16_t port,
		     const char *backends, bool node_port)
{
	const struct mk_frontend_key key = {
		.addr = addr_of(at), .port = htons(port), .proto = proto, .scope = MK_SCOPE_EXTERNAL
	};
	const struct mk_ip own = ip_of(at);
	struct mk_frontend frontend;
	struct built built;

	build(&built, name, at, backends);
	built.frontends[0].port = port;
	built.frontends[0].proto = proto;
	built.frontends[0].node_port = node_port;
	built.frontends[1] = built.frontends[0];
	built.frontends[1].scope = MK_SCOPE_EXTERNAL;
	apply(&built);
	ck_assert_int_eq(mk_service_sync_set_local(sync_, &own, 1, &sync_err), 0);
	ck_assert_int_eq(mk_table_get(&tables.frontends, &key, &frontend, &sync_err), 0);
	service_id = frontend.service_id;
}

static void apply_node_port(const char *name, const char *at, uint8_t proto, uint16_t port,
			    const char *backends)
{
	apply_at(name, at, proto, port, backends, true);
}

static struct mk_session session_of(uint8_t flags)
{
	return (struct mk_session){ .set_id = OTHER_NODE,
				    .service_id = service_id,
				    .flags = flags };
}

/* The forward entry of a flow to the node that the client asked, to port 8080 of @backend. */
static struct mk_tuple key_of(uint8_t proto, const char *backend, struct mk_session *session)
{
	const struct mk_tuple key = { .saddr = addr_of("203.0.113.9"),
				      .daddr = addr_of(ASKED),
				      .sport = htons(40000),
				      .dport = htons(NODE_PORT),
				      .proto = proto };

	session->to = key;
	session->to.daddr = addr_of(backend);
	session->to.dport = htons(8080);
	return key;
}

static bool is_cut(const char *backend, uint8_t flags)
{
	struct mk_session session = session_of(flags);
	const struct mk_tuple key = key_of(IPPROTO_UDP, backend, &session);

	return mk_service_sync_session_cut(sync_, &key, &session);
}

static bool outlives(uint8_t flags)
{
	struct mk_session session = session_of(flags);
	const struct mk_tuple key = key_of(IPPROTO_TCP, "10.0.0.2", &session);

	return mk_service_sync_session_outlives(sync_, &key, &session);
}

/* The frontend that the client asked is this node's own. The session does not name the Service. */
START_TEST(test_asked_node)
{
	apply_node_port("web", ASKED, IPPROTO_UDP, NODE_PORT, "23");
	service_id = 0;
	ck_assert(!is_cut("10.0.0.2", DIRECT));
	apply_node_port("web", ASKED, IPPROTO_UDP, NODE_PORT, "3");
	service_id = 0;
	ck_assert(is_cut("10.0.0.2", DIRECT));
	ck_assert(!is_cut("10.0.0.3", DIRECT));
	remove_named("web");
	ck_assert(is_cut("10.0.0.3", DIRECT));
}
END_TEST

/* The pod's node has that NodePort at its own address only. */
START_TEST(test_node_of_the_pod)
{
	apply_node_port("web", PODS_NODE, IPPROTO_UDP, NODE_PORT, "23");
	ck_assert(!is_cut("10.0.0.2", DIRECT));
	ck_assert_msg(is_cut("10.0.0.2", MK_SESSION_FORWARD), "another node's, not direct");
	apply_node_port("web", PODS_NODE, IPPROTO_UDP, NODE_PORT, "3");
	ck_assert(is_cut("10.0.0.2", DIRECT));
	ck_assert(!is_cut("10.0.0.3", DIRECT));
	apply_node_port("web", PODS_NODE, IPPROTO_UDP, NODE_PORT + 1, "3");
	ck_assert(is_cut("10.0.0.3", DIRECT));
	remove_named("web");
	ck_assert(is_cut("10.0.0.3", DIRECT));
}
END_TEST

/* Another Service has got the port, with the same pod. */
START_TEST(test_port_of_another_service)
{
	struct mk_session session;
	struct mk_tuple key;

	apply_node_port("web", PODS_NODE, IPPROTO_UDP, NODE_PORT, "2");
	session = session_of(DIRECT);
	key = key_of(IPPROTO_UDP, "10.0.0.2", &session);
	ck_assert(!mk_service_sync_session_cut(sync_, &key, &session));
	remove_named("web");
	apply_node_port("other", PODS_NODE, IPPROTO_UDP, NODE_PORT, "2");
	ck_assert(mk_service_sync_session_cut(sync_, &key, &session));
}
END_TEST

/* Another frontend of the same Service at this node is no NodePort. */
START_TEST(test_external_address_of_the_node)
{
	apply_at("web", PODS_NODE, IPPROTO_UDP, NODE_PORT, "2", false);
	ck_assert(is_cut("10.0.0.2", DIRECT));
}
END_TEST

START_TEST(test_connection_outlives)
{
	apply_node_port("web", PODS_NODE, IPPROTO_TCP, NODE_PORT, "2");
	ck_assert(!outlives(DIRECT));
	ck_assert(outlives(MK_SESSION_FORWARD));
	remove_named("web");
	ck_assert(outlives(DIRECT));
}
END_TEST

UNIT_SUITE("sync of direct answers")
{
	TCase *tc = unit_case(suite, "direct", sync_setup, sync_teardown);

	tcase_add_test(tc, test_asked_node);
	tcase_add_test(tc, test_node_of_the_pod);
	tcase_add_test(tc, test_port_of_another_service);
	tcase_add_test(tc, test_external_address_of_the_node);
	tcase_add_test(tc, test_connection_outlives);
}

// SPDX-License-Identifier: Apache-2.0
/* A node's answers at /healthz, /livez and a Service's healthCheckNodePort, requested over
 * loopback: only the agent's health part, on the test's loop. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/health_server.h"
#include "base/cleanup.h"
#include "base/time.h"
#include "unit/http_client.h"
#include "unit/model_text.h"
#include "unit/unit.h"

static struct mk_core core;
static struct agent_health health;
static struct mk_error err;

static void setup(void)
{
	core = (struct mk_core){ .listed = true, .families[0].runs = true };
	health = (struct agent_health){ .core = &core };
	snprintf(core.config.node_name, sizeof(core.config.node_name), "n");
	core.config.healthz = (struct mk_listens){ { http_free_port() }, 1 };
	core.model = mk_model_new();
	ck_assert_ptr_nonnull(core.model);
	ck_assert_int_eq(uv_loop_init(&core.loop), 0);
	ck_ok(agent_health_start(&health, NULL, NULL, &err));
	agent_health_serve(&health);
	http_turn(&core.loop);
}

static void teardown(void)
{
	agent_health_stop(&health);
	uv_close((uv_handle_t *)&health.retry, NULL);
	ck_assert_int_eq(uv_run(&core.loop, UV_RUN_DEFAULT), 0);
	ck_assert_int_eq(uv_loop_close(&core.loop), 0);
	mk_model_free(core.model);
}

/* Return the whole answer to GET @path. */
static void ask(const struct mk_ip_port *at, const char *path, char *answer, size_t size)
{
	char request[128];
	int fd = http_dial(at), length;

	ck_assert_msg(fd >= 0, "nobody answers at port %u", at->port);
	length = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
	ck_assert_int_eq(send(fd, request, (size_t)length, MSG_NOSIGNAL), length);
	ck_assert(http_hear(&core.loop, fd, answer, size));
	close(fd);
}

static void expect(const char *name, const char *answer, const char *const *parts, size_t count)
{
	for (size_t i = 0; i < count && parts[i]; i++)
		ck_assert_msg(strstr(answer, parts[i]), "%s: no '%s' in %s", name, parts[i],
			      answer);
}

/* ---- the node -------------------------------------------------------------------------------- */

#define NODE(members) "{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n'" members "}}"
#define STAYS	      NODE("")
#define BEING_DELETED NODE(", 'deletionTimestamp': '2024-02-29T12:00:00Z'")
#define TAINTED                                                           \
	"{'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n'}," \
	"'spec': {'taints': [{'key': 'ToBeDeletedByClusterAutoscaler'}]}}"
#define JSON	"\r\nContent-Type: application/json\r\n"
#define NOSNIFF "\r\nX-Content-Type-Options: nosniff\r\n"

static const struct {
	const char *name, *node, *path;
	unsigned waiting_s;
	const char *parts[6];
} nodes[] = {
	{ "/healthz",
	  STAYS,
	  "/healthz",
	  0,
	  { "HTTP/1.1 200 ", JSON, NOSNIFF, "{\"lastUpdated\":\"",
	    ",\"nodeEligible\":true,\"healthy\":true" } },
	{ "/livez",
	  STAYS,
	  "/livez",
	  0,
	  { "HTTP/1.1 200 ", JSON, NOSNIFF, "{\"lastUpdated\":\"",
	    "Z\",\"healthy\":true,\"status\"" } },
	{ "another path", STAYS, "/", 0, { "HTTP/1.1 404 " } },
	{ "a node that is being deleted: /healthz",
	  BEING_DELETED,
	  "/healthz",
	  0,
	  { "HTTP/1.1 503 ", ",\"nodeEligible\":false,\"healthy\":true" } },
	{ "a node that is being deleted: /livez", BEING_DELETED, "/livez", 0, { "HTTP/1.1 200 " } },
	{ "the autoscaler's taint: /healthz", TAINTED, "/healthz", 0, { "HTTP/1.1 503 " } },
	{ "the autoscaler's taint: /livez", TAINTED, "/livez", 0, { "HTTP/1.1 200 " } },
	{ "a change waits for 59 s", STAYS, "/healthz", 59, { "HTTP/1.1 200 " } },
	{ "a change waits for 61 s: /healthz",
	  STAYS,
	  "/healthz",
	  61,
	  { "HTTP/1.1 503 ", ",\"nodeEligible\":true,\"healthy\":false" } },
	{ "a change waits for 61 s: /livez",
	  STAYS,
	  "/livez",
	  61,
	  { "HTTP/1.1 503 ", "Z\",\"healthy\":false,\"status\"" } },
};

START_TEST(test_node)
{
	char answer[2048];

	apply_good_text(core.model, nodes[_i].node);
	mk_health_updated(&health.state, mk_time_now_unix_ns());
	if (nodes[_i].waiting_s)
		health.state.waiting_since_ns =
			mk_time_monotonic_ns() - nodes[_i].waiting_s * 1000000000ULL;
	ask(&core.config.healthz.at[0], nodes[_i].path, answer, sizeof(answer));
	expect(nodes[_i].name, answer, nodes[_i].parts, MK_ARRAY_SIZE(nodes[_i].parts));
}
END_TEST

/* ---- a Service ------------------------------------------------------------------------------- */

static const struct {
	const char *name, *path;
	size_t local_ready;
	const char *parts[6];
} services[] = {
	{ "endpoints here",
	  "/",
	  2,
	  { "HTTP/1.1 200 ", "\r\nX-Load-Balancing-Endpoint-Weight: 2\r\n",
	    "\"localEndpoints\": 2," } },
	{ "endpoints here: any path", "/any/path?x=y", 1, { "HTTP/1.1 200 " } },
	{ "endpoints here: headers", "/", 2, { JSON, NOSNIFF } },
	{ "endpoints here: body",
	  "/",
	  2,
	  { "\"namespace\": \"x\"", "\"name\": \"s\"", "\"serviceProxyHealthy\": true" } },
	{ "no endpoint here",
	  "/",
	  0,
	  { "HTTP/1.1 503 ", "\r\nX-Load-Balancing-Endpoint-Weight: 0\r\n", JSON, NOSNIFF,
	    "\"localEndpoints\": 0," } },
};

/* Each row in both families. */
START_TEST(test_service_port)
{
	bool v6 = (size_t)_i >= MK_ARRAY_SIZE(services);
	size_t row = (size_t)_i % MK_ARRAY_SIZE(services);
	char answer[2048], namespace_[] = "x", name[] = "s";
	struct mk_ip_port at = http_free_port();
	struct mk_compiled_service compiled = { .namespace_ = namespace_,
						.name = name,
						.health_check_port = at.port,
						.local_ready_count = services[row].local_ready };

	at.ip = ip_of(v6 ? "::1" : "127.0.0.1");
	agent_health_service(&health, at.ip.family, "x/s", &compiled);
	http_turn(&core.loop);
	ask(&at, services[row].path, answer, sizeof(answer));
	expect(services[row].name, answer, services[row].parts, MK_ARRAY_SIZE(services[row].parts));
	compiled.health_check_port = 0;
	agent_health_service(&health, at.ip.family, "x/s", &compiled);
	ck_assert_msg(http_dial(&at) < 0, "no healthCheckNodePort any more");
}
END_TEST

/* A Service of two families has one port number, with a count in each. */
START_TEST(test_service_port_of_both)
{
	char answer[2048], namespace_[] = "x", name[] = "s";
	struct mk_ip_port at = http_free_port();
	struct mk_compiled_service compiled = { .namespace_ = namespace_,
						.name = name,
						.health_check_port = at.port };

	agent_health_service(&health, AF_INET, "x/s", &compiled);
	compiled.local_ready_count = 2;
	agent_health_service(&health, AF_INET6, "x/s", &compiled);
	http_turn(&core.loop);
	at.ip = ip_of("127.0.0.1");
	ask(&at, "/", answer, sizeof(answer));
	ck_assert_msg(strstr(answer, " 503 ") && strstr(answer, "Weight: 0\r\n"), "%s", answer);
	at.ip = ip_of("::1");
	ask(&at, "/", answer, sizeof(answer));
	ck_assert_msg(strstr(answer, " 200 ") && strstr(answer, "Weight: 2\r\n"), "%s", answer);
}
END_TEST

/* A kernel without IPv6 makes no such sockets. */
static void refuse_ipv6(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { MK_ARRAY_SIZE(code), code };

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* The default has an address of each family. The one of IPv6 is not tried again. */
START_TEST(test_kernel_without_ipv6)
{
	struct mk_listens *listens = &core.config.healthz;
	char answer[2048];

	listens->at[1] = (struct mk_ip_port){ ip_of("::1"), listens->at[0].port };
	listens->count = 2;
	refuse_ipv6();
	agent_health_serve(&health);
	http_turn(&core.loop);
	ck_assert(!uv_is_active((uv_handle_t *)&health.retry));
	ask(&listens->at[0], "/livez", answer, sizeof(answer));
	ck_assert_msg(strstr(answer, " 200 OK"), "%s", answer);
}
END_TEST

UNIT_SUITE("health server")
{
	TCase *tcase = unit_case(suite, "all", setup, teardown);

	tcase_add_loop_test(tcase, test_node, 0, MK_ARRAY_SIZE(nodes));
	tcase_add_loop_test(tcase, test_service_port, 0, 2 * MK_ARRAY_SIZE(services));
	tcase = unit_case(suite, "both", setup, teardown);
	tcase_add_test(tcase, test_service_port_of_both);
	tcase_add_test(tcase, test_kernel_without_ipv6);
}

// SPDX-License-Identifier: Apache-2.0
/* HTTP answers of this node: /healthz and /livez for the kubelet and load balancers, /metrics for
 * Prometheus, and a port per Service (healthCheckNodePort) for load balancers. A port that cannot
 * be opened is logged once and tried again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uthash.h>

#include "agent/agent_internal.h"
#include "agent/health_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"

#define RETRY_MS 5000

/* The node's own ports have separate limits: clients that exhaust the Services' ports, or /metrics,
 * cannot keep the kubelet from asking. */
static const struct mk_httpd_limits listen_limits[AGENT_LISTENS] = {
	[AGENT_LISTEN_HEALTHZ] = { .connections = 128,
				   .per_listener = 128,
				   .per_client = 32,
				   .seconds = 10 },
	[AGENT_LISTEN_METRICS] = { .connections = 8,
				   .per_listener = 8,
				   .per_client = 4,
				   .seconds = 10 },
};
static const struct mk_httpd_limits service_limits = {
	.connections = 512, .per_listener = 128, .per_client = 32, .seconds = 10
};

static bool is_healthy(const struct agent_health *health)
{
	return mk_health_is_healthy(&health->state, mk_time_monotonic_ns());
}

static void finish_json(struct mk_httpd_reply *reply, unsigned int status, char *body)
{
	reply->status = body ? status : 500;
	reply->body = body;
	mk_httpd_reply_header(reply, "Content-Type", "application/json");
	mk_httpd_reply_header(reply, "X-Content-Type-Options", "nosniff");
}

/* ---- the node -------------------------------------------------------------------------------- */

/* Before the first list it is unknown whether the node is leaving, and an earlier run's tables
 * serve. */
static bool is_eligible(const struct mk_agent *agent)
{
	const struct mk_node_object *node = mk_model_node(agent->model, agent->config.node_name);

	return !agent->listed || (node && !node->leaving);
}

static void answer_node(void *ctx, const char *path, struct mk_httpd_reply *reply)
{
	const struct mk_agent *agent = ctx;
	struct mk_health_answer answer = {
		.healthy = is_healthy(agent->health),
		.eligible = is_eligible(agent),
		.updated_unix_ns = agent->health->state.updated_unix_ns,
		.now_unix_ns = mk_time_now_unix_ns(),
	};
	enum mk_health_question question = strcmp(path, "/livez") == 0 ? MK_LIVEZ : MK_HEALTHZ;

	if (question == MK_HEALTHZ && strcmp(path, "/healthz") != 0) {
		reply->status = 404;
		return;
	}
	finish_json(reply, mk_health_status(question, &answer), mk_health_body(question, &answer));
}

static const struct mk_ip_port *listen_address(const struct mk_agent *agent,
					       enum agent_listen which)
{
	return which == AGENT_LISTEN_HEALTHZ ? &agent->config.healthz : &agent->config.metrics;
}

/* Returns whether it must be tried again. */
static bool open_listener(struct mk_agent *agent, enum agent_listen which)
{
	static const struct {
		mk_httpd_handler *handler;
		const char *what, *key;
	} rows[AGENT_LISTENS] = {
		[AGENT_LISTEN_HEALTHZ] = { answer_node, "/healthz and /livez are",
					   "healthzBindAddress" },
		[AGENT_LISTEN_METRICS] = { agent_metrics_answer, "/metrics is",
					   "metricsBindAddress" },
	};
	struct agent_listener *listener = &agent->health->listeners[which];
	const struct mk_ip_port *address = listen_address(agent, which);
	struct mk_error err = { 0 };
	char at[MK_IP_PORT_STRLEN];

	if (listener->listener || !address->port)
		return false;
	listener->listener =
		mk_httpd_listen(listener->server, address, rows[which].handler, agent, &err);
	mk_ip_port_format(address, at);
	if (listener->listener)
		mk_log_info("%s answered address=%s", rows[which].what, at);
	else if (!listener->said)
		mk_log_error(
			"%s not answered: %s; free the port, or set %s (now '%s') to another one, or to off; trying again every %d s",
			rows[which].what, mk_error_text(&err), rows[which].key, at,
			RETRY_MS / 1000);
	listener->said = !listener->listener;
	return !listener->listener;
}

/* ---- Services -------------------------------------------------------------------------------- */

static void answer_service(void *ctx, const char *path, struct mk_httpd_reply *reply)
{
	const struct agent_health_port *port = ctx;
	bool healthy = is_healthy(port->agent->health);

	(void)path;
	mk_httpd_reply_header(reply, "X-Load-Balancing-Endpoint-Weight", "%zu", port->local_ready);
	finish_json(reply, mk_health_service_status(port->local_ready, healthy),
		    mk_health_service_body(port->namespace_, port->name, port->local_ready,
					   healthy));
}

/* Returns our Service that already listens on the port number of @port; NULL: none. */
static const struct agent_health_port *holder(const struct agent_health_port *port)
{
	const struct agent_health_port *other;

	for (other = port->agent->health->ports; other; other = other->hh.next)
		if (other->listener && other->number == port->number)
			return other;
	return NULL;
}

static void say_no_port(struct agent_health_port *port, const struct mk_error *err)
{
	const struct agent_health_port *other = holder(port);
	char text[768];

	if (port->said)
		return;
	port->said = true;
	if (other)
		snprintf(
			text, sizeof(text),
			"Service '%s': healthCheckNodePort %u is not answered: Service '%s' has it already; give one of them another port",
			port->key, port->number, other->key);
	else
		snprintf(
			text, sizeof(text),
			"Service '%s': healthCheckNodePort %u is not answered: %s; free the port (`ss -ltnp sport = :%u` shows who has it), or give the Service another one",
			port->key, port->number, mk_error_text(err), port->number);
	mk_log_error("%s; trying again", text);
	(void)agent_warn(port->agent, MK_WARN_HEALTH_PORT, text);
}

static void open_port(struct agent_health_port *port)
{
	struct mk_ip_port at = { .ip = { .family = AF_INET }, .port = port->number }; /* 0.0.0.0 */
	struct mk_error err = { 0 };

	if (port->listener)
		return;
	port->listener = mk_httpd_listen(port->agent->health->service_server, &at, answer_service,
					 port, &err);
	if (!port->listener) {
		say_no_port(port, &err);
		return;
	}
	port->said = false;
	mk_log_debug("healthCheckNodePort is answered service=%s port=%u", port->key, port->number);
}

static void forget_port(struct agent_health_port *port)
{
	HASH_DEL(port->agent->health->ports, port);
	mk_httpd_close(port->listener);
	free(port->key);
	free(port->namespace_);
	free(port->name);
	free(port);
}

static struct agent_health_port *add_port(struct mk_agent *agent, const char *key,
					  const struct mk_compiled_service *compiled)
{
	struct agent_health_port *port = calloc(1, sizeof(*port));

	if (!port)
		return NULL;
	port->agent = agent;
	port->key = strdup(key);
	port->namespace_ = strdup(compiled->namespace_);
	port->name = strdup(compiled->name);
	if (!port->key || !port->namespace_ || !port->name) {
		free(port->key);
		free(port->namespace_);
		free(port->name);
		free(port);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, agent->health->ports, port->key, strlen(port->key), port);
	return port;
}

static void on_retry(uv_timer_t *timer);

/* Try waiting ports later, not at once: the next change may want the same port. The first Service
 * in the order of the cluster's changes is to have it. */
static void retry_in(struct agent_health *health, uint64_t delay_ms)
{
	uv_timer_start(&health->retry, on_retry, delay_ms, RETRY_MS);
}

/* The timer stops when nothing waits any more. */
static void on_retry(uv_timer_t *timer)
{
	struct mk_agent *agent = timer->data;
	struct agent_health *health = agent->health;
	bool waiting = open_listener(agent, AGENT_LISTEN_HEALTHZ);

	waiting |= open_listener(agent, AGENT_LISTEN_METRICS);
	for (struct agent_health_port *port = health->ports; port; port = port->hh.next) {
		open_port(port);
		waiting |= !port->listener;
	}
	if (!waiting) {
		uv_timer_stop(timer);
		agent_warn_over(agent, MK_WARN_HEALTH_PORT);
	}
}

void agent_health_service(struct mk_agent *agent, const char *key,
			  const struct mk_compiled_service *compiled)
{
	struct agent_health *health = agent->health;
	struct agent_health_port *port;

	HASH_FIND_STR(health->ports, key, port);
	if (port && port->number != compiled->health_check_port) {
		forget_port(port);
		port = NULL;
		retry_in(health, 0);
	}
	if (!compiled->health_check_port)
		return;
	if (!port) {
		port = add_port(agent, key, compiled);
		if (!port) {
			mk_log_error(
				"out of memory, healthCheckNodePort is not answered service=%s",
				key);
			return;
		}
		port->number = compiled->health_check_port;
		retry_in(health, 0);
	}
	port->local_ready = compiled->local_ready_count;
}

/* ---- the whole ------------------------------------------------------------------------------- */

void agent_health_queued(struct mk_agent *agent)
{
	mk_health_queued(&agent->health->state, mk_time_monotonic_ns());
}

void agent_health_updated(struct mk_agent *agent)
{
	mk_health_updated(&agent->health->state, mk_time_now_unix_ns());
}

/* A port takes two descriptors, and each client one. Raise the soft limit, which is low only for
 * programs that still use select(). */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int agent_health_start(struct mk_agent *agent, struct mk_error *err)
{
	struct agent_health *health = calloc(1, sizeof(*health));

	if (!health)
		return mk_error_errno(err, ENOMEM, "health");
	agent->health = health;
	uv_timer_init(&agent->loop, &health->retry); /* cannot fail */
	health->retry.data = agent;
	mk_latency_init(&health->latency);
	health->started_unix_ns = mk_time_now_unix_ns();
	health->service_server = mk_httpd_new(&agent->loop, &service_limits);
	if (!health->service_server)
		return mk_error_errno(err, ENOMEM, "health");
	for (size_t i = 0; i < AGENT_LISTENS; i++) {
		health->listeners[i].server = mk_httpd_new(&agent->loop, &listen_limits[i]);
		if (!health->listeners[i].server)
			return mk_error_errno(err, ENOMEM, "health");
	}
	allow_descriptors();
	return 0;
}

void agent_health_serve(struct mk_agent *agent)
{
	retry_in(agent->health, 0);
}

void agent_health_stop(struct mk_agent *agent)
{
	struct agent_health *health = agent->health;
	struct agent_health_port *port, *next;

	if (!health)
		return;
	HASH_ITER(hh, health->ports, port, next)
		forget_port(port);
	for (size_t i = 0; i < AGENT_LISTENS; i++)
		mk_httpd_free(mk_steal_ptr(health->listeners[i].server));
	mk_httpd_free(mk_steal_ptr(health->service_server));
}

void agent_health_free(struct mk_agent *agent)
{
	if (agent->health)
		agent_latency_forget(agent);
	free(agent->health);
	agent->health = NULL;
}

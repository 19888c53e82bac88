// SPDX-License-Identifier: Apache-2.0
/* A port that cannot be opened is logged once and tried again. */
#include "agent/health_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"

#define RETRY_MS 5000

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
static bool is_eligible(const struct agent_health *health)
{
	const struct mk_node_object *node =
		mk_model_node(health->core->model, health->core->config.node_name);

	return !health->core->listed || (node && !node->leaving);
}

static void answer_node(void *ctx, const char *path, struct mk_httpd_reply *reply)
{
	const struct agent_health *health = ctx;
	struct mk_health_answer answer = {
		.families = { health->core->families[0].runs, health->core->families[1].runs },
		.healthy = is_healthy(health),
		.eligible = is_eligible(health),
		.updated_unix_ns = health->state.updated_unix_ns,
		.now_unix_ns = mk_time_now_unix_ns(),
	};
	enum mk_health_question question = strcmp(path, "/livez") == 0 ? MK_LIVEZ : MK_HEALTHZ;

	if (question == MK_HEALTHZ && strcmp(path, "/healthz") != 0) {
		reply->status = 404;
		return;
	}
	finish_json(reply, mk_health_status(question, &answer), mk_health_body(question, &answer));
}

static void say_not_answered(struct agent_listener *listener, size_t index,
			     const struct mk_error *err)
{
	char at[MK_IP_PORT_STRLEN];

	mk_ip_port_format(&listener->addresses->at[index], at);
	if (listener->lacks_family[index])
		mk_log_warn("%s not answered at %s: this kernel runs without its family",
			    listener->what, at);
	else if (!listener->said)
		mk_log_error(
			"%s not answered: %s; free the port, or set %s (now '%s') to another one, or to off; trying again every %d s",
			listener->what, mk_error_text(err), listener->setting, at, RETRY_MS / 1000);
}

/* Returns whether it must be tried again. */
static bool open_address(struct agent_listener *listener, size_t index)
{
	const struct mk_ip_port *address = &listener->addresses->at[index];
	struct mk_error err = { 0 };
	char at[MK_IP_PORT_STRLEN];

	if (listener->listener[index] || listener->lacks_family[index])
		return false;
	listener->listener[index] =
		mk_httpd_listen(listener->server, address, listener->answer, listener->ctx, &err);
	if (listener->listener[index]) {
		mk_log_info("%s answered address=%s", listener->what,
			    mk_ip_port_format(address, at));
		return false;
	}
	listener->lacks_family[index] = err.code == EAFNOSUPPORT;
	say_not_answered(listener, index, &err);
	return !listener->lacks_family[index];
}

/* Returns whether it must be tried again. */
static bool open_listener(struct agent_listener *listener)
{
	bool again = false;

	for (size_t i = 0; i < listener->addresses->count; i++)
		again |= open_address(listener, i);
	listener->said = again;
	return again;
}

/* ---- Services -------------------------------------------------------------------------------- */

static void answer_service(void *ctx, const char *path, struct mk_httpd_reply *reply)
{
	const struct agent_health_port *port = ctx;
	bool healthy = is_healthy(port->health);

	(void)path;
	mk_httpd_reply_header(reply, "X-Load-Balancing-Endpoint-Weight", "%zu", port->local_ready);
	finish_json(reply, mk_health_service_status(port->local_ready, healthy),
		    mk_health_service_body(port->namespace_, port->name, port->local_ready,
					   healthy));
}

static const struct agent_health_port *ports_of(const struct agent_health_port *port)
{
	return port->health->ports[mk_family_index(port->family)];
}

/* Returns our Service that already listens on the port number of @port; NULL: none. */
static const struct agent_health_port *holder(const struct agent_health_port *port)
{
	const struct agent_health_port *other;

	for (other = ports_of(port); other; other = other->hh.next)
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
	(void)mk_core_warn(port->health->core, MK_WARN_HEALTH_PORT, text);
}

static void open_port(struct agent_health_port *port)
{
	/* 0.0.0.0 or [::] */
	struct mk_ip_port at = { .ip = { .family = port->family }, .port = port->number };
	struct mk_error err = { 0 };

	if (port->listener)
		return;
	port->listener =
		mk_httpd_listen(port->health->service_server, &at, answer_service, port, &err);
	if (!port->listener) {
		say_no_port(port, &err);
		return;
	}
	port->said = false;
	mk_log_debug("healthCheckNodePort is answered service=%s port=%u", port->key, port->number);
}

static void forget_port(struct agent_health_port *port)
{
	HASH_DEL(port->health->ports[mk_family_index(port->family)], port);
	mk_httpd_close(port->listener);
	free(port);
}

static struct agent_health_port *add_port(struct agent_health *health, sa_family_t family,
					  const char *key,
					  const struct mk_compiled_service *compiled)
{
	size_t bytes = strlen(key) + 1;
	struct agent_health_port *port = calloc(1, sizeof(*port) + 2 * bytes);

	if (!port)
		return NULL;
	port->health = health;
	port->family = family;
	port->number = compiled->health_check_port;
	port->namespace_ = port->key + bytes;
	port->name = port->namespace_ + strlen(compiled->namespace_) + 1;
	memcpy(port->key, key, bytes);
	memcpy(port->namespace_, key, bytes);
	port->name[-1] = '\0';
	HASH_ADD_STR(health->ports[mk_family_index(family)], key, port);
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
	struct agent_health *health = timer->data;
	bool waiting = open_listener(&health->healthz);

	waiting |= open_listener(&health->metrics);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		for (struct agent_health_port *port = health->ports[i]; port;
		     port = port->hh.next) {
			open_port(port);
			waiting |= !port->listener;
		}
	if (!waiting) {
		uv_timer_stop(timer);
		mk_core_warn_over(health->core, MK_WARN_HEALTH_PORT);
	}
}

void agent_health_service(struct agent_health *health, sa_family_t family, const char *key,
			  const struct mk_compiled_service *compiled)
{
	struct agent_health_port *port;

	HASH_FIND_STR(health->ports[mk_family_index(family)], key, port);
	if (port && port->number != compiled->health_check_port) {
		forget_port(port);
		port = NULL;
		retry_in(health, 0);
	}
	if (!compiled->health_check_port)
		return;
	if (!port) {
		port = add_port(health, family, key, compiled);
		retry_in(health, 0);
	}
	if (port)
		port->local_ready = compiled->local_ready_count;
	else
		mk_log_error("out of memory, healthCheckNodePort is not answered service=%s", key);
}

/* ---- the whole ------------------------------------------------------------------------------- */

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

int agent_health_start(struct agent_health *health, mk_httpd_handler *answer, void *ctx,
		       struct mk_error *err)
{
	const struct mk_config *config = &health->core->config;
	uv_loop_t *loop = &health->core->loop;

	/* limits of their own: clients that exhaust the Services' ports, or /metrics, cannot keep
	 * the kubelet from asking */
	health->healthz = (struct agent_listener){
		.what = "/healthz and /livez are",
		.setting = "healthzBindAddress",
		.addresses = &config->healthz,
		.answer = answer_node,
		.ctx = health,
		.limits = { .connections = 128,
			    .per_listener = 128,
			    .per_client = 32,
			    .seconds = 10 },
	};
	health->metrics = (struct agent_listener){
		.what = "/metrics is",
		.setting = "metricsBindAddress",
		.addresses = &config->metrics,
		.answer = answer,
		.ctx = ctx,
		.limits = { .connections = 8, .per_listener = 8, .per_client = 4, .seconds = 10 },
	};
	uv_timer_init(loop, &health->retry); /* cannot fail */
	health->retry.data = health;
	health->service_server = mk_httpd_new(loop, &service_limits);
	health->healthz.server = mk_httpd_new(loop, &health->healthz.limits);
	health->metrics.server = mk_httpd_new(loop, &health->metrics.limits);
	if (!health->service_server || !health->healthz.server || !health->metrics.server)
		return mk_error_errno(err, ENOMEM, "health");
	allow_descriptors();
	return 0;
}

void agent_health_serve(struct agent_health *health)
{
	retry_in(health, 0);
}

void agent_health_stop(struct agent_health *health)
{
	struct agent_health_port *port, *next;

	for (size_t i = 0; i < MK_FAMILIES; i++)
		HASH_ITER(hh, health->ports[i], port, next)
			forget_port(port);
	mk_httpd_free(mk_steal_ptr(health->healthz.server));
	mk_httpd_free(mk_steal_ptr(health->metrics.server));
	mk_httpd_free(mk_steal_ptr(health->service_server));
}

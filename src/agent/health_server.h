/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/health_server.h - HTTP answers of this node: /healthz and /livez for the kubelet and
 * load balancers, /metrics for Prometheus, and a port per Service (healthCheckNodePort). */
#ifndef MK_AGENT_HEALTH_SERVER_H
#define MK_AGENT_HEALTH_SERVER_H

#include <uthash.h>
#include <uv.h>

#include "agent/core/core.h"
#include "agent/report/health.h"
#include "http/httpd.h"
#include "service/service.h"

/* A Service with a healthCheckNodePort, by "namespace/name", in order of arrival. */
struct agent_health_port {
	struct agent_health *health;
	sa_family_t family;
	char *namespace_, *name; /* behind `key` */
	uint16_t number; /* port number, host order */
	size_t local_ready; /* addresses of ready endpoints on this node */
	struct mk_httpd_listener *listener; /* NULL: not opened, to be tried again */
	bool said;
	UT_hash_handle hh;
	char key[];
};

/* A listening address of the node itself. */
struct agent_listener {
	const char *what, *setting;
	const struct mk_listens *addresses;
	mk_httpd_handler *answer;
	void *ctx;
	struct mk_httpd_limits limits;
	struct mk_httpd *server;
	/* by address; NULL: off, or to be tried again */
	struct mk_httpd_listener *listener[MK_FAMILIES];
	bool lacks_family[MK_FAMILIES]; /* by address: this kernel has no such sockets */
	bool said;
};

struct agent_health {
	struct mk_core *core;

	struct mk_health state;
	struct mk_httpd *service_server;
	struct agent_listener healthz, metrics;
	struct agent_health_port *ports[MK_FAMILIES];
	uv_timer_t retry;
};

/* Serve only when this is known to be the node's only agent. @answer: of /metrics. The loop has to
 * run after a stop. */
mk_must_check int agent_health_start(struct agent_health *health, mk_httpd_handler *answer,
				     void *ctx, struct mk_error *err);
void agent_health_serve(struct agent_health *health);
void agent_health_stop(struct agent_health *health);

/* Service @key is @compiled in @family: open, close or update its healthCheckNodePort. */
void agent_health_service(struct agent_health *health, sa_family_t family, const char *key,
			  const struct mk_compiled_service *compiled);

#endif

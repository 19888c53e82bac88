/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/health_internal.h - what health_server.c and programming_latency.c share. */
#ifndef MK_AGENT_HEALTH_INTERNAL_H
#define MK_AGENT_HEALTH_INTERNAL_H

#include <uthash.h>
#include <uv.h>

#include "agent/agent_internal.h"
#include "agent/report/health.h"
#include "http/httpd.h"

/* A Service with a healthCheckNodePort, by "namespace/name", in order of arrival. */
struct agent_health_port {
	struct mk_agent *agent;
	char *key, *namespace_, *name;
	uint16_t number; /* port number, host order */
	size_t local_ready; /* addresses of ready endpoints on this node */
	struct mk_httpd_listener *listener; /* NULL: not opened, to be tried again */
	bool said;
	UT_hash_handle hh;
};

/* A listening address of the node itself. */
enum agent_listen { AGENT_LISTEN_HEALTHZ, AGENT_LISTEN_METRICS, AGENT_LISTENS };
struct agent_listener {
	struct mk_httpd *server;
	struct mk_httpd_listener *listener; /* NULL: off, or to be tried again */
	bool said;
};

/* A change of endpoints that is not written yet. */
struct agent_trigger {
	int64_t unix_ns;
	struct agent_trigger *next;
	char key[]; /* of its Service */
};

struct agent_health {
	struct mk_health state;
	struct mk_httpd *service_server;
	struct agent_listener listeners[AGENT_LISTENS];
	struct agent_health_port *ports;
	uv_timer_t retry;

	struct mk_histogram latency; /* in seconds, see mk_latency_init() */
	struct agent_trigger *triggers; /* newest first */
	size_t trigger_count;
	int64_t started_unix_ns;
};

#endif

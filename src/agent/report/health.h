/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/health.h - is this node's service proxy healthy, and the HTTP answers about it.
 * Pure: the caller passes the time. Rules and answers are kube-proxy's (Kubernetes
 * pkg/proxy/healthcheck/{proxy_health,service_health}.go). */
#ifndef MK_AGENT_REPORT_HEALTH_H
#define MK_AGENT_REPORT_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/histogram.h"
#include "base/ip.h"

/* Longest time that a change may wait to be written: kube-proxy's two sync periods of 30 s. */
#define MK_HEALTH_TIMEOUT_NS (60 * 1000000000ULL)

struct mk_health {
	uint64_t waiting_since_ns; /* oldest unwritten change, CLOCK_MONOTONIC; 0: none */
	int64_t updated_unix_ns; /* when everything was last written; 0: not since the start */
};

/* The cluster reported a change; everything is written. */
void mk_health_queued(struct mk_health *health, uint64_t now_ns);
void mk_health_updated(struct mk_health *health, int64_t now_unix_ns);

/* Before everything was written for the first time nothing is late: an earlier run's tables
 * serve. */
bool mk_health_is_healthy(const struct mk_health *health, uint64_t now_ns);

/* Bodies of answers; the caller frees them. NULL: out of memory. */

enum mk_health_question { MK_HEALTHZ, MK_LIVEZ };
struct mk_health_answer {
	bool families[MK_FAMILIES]; /* of this node, which the body names */
	bool healthy; /* mk_health_is_healthy() */
	bool eligible; /* the node is not leaving; /livez ignores it */
	int64_t updated_unix_ns, now_unix_ns;
};
/* Returns 200 or 503. */
unsigned int mk_health_status(enum mk_health_question question,
			      const struct mk_health_answer *answer);
char *mk_health_body(enum mk_health_question question, const struct mk_health_answer *answer);

unsigned int mk_health_service_status(size_t local_endpoints, bool healthy);
char *mk_health_service_body(const char *namespace_, const char *name, size_t local_endpoints,
			     bool healthy);

/* Network programming latency in seconds, from the change that a controller saw until the tables
 * hold it. The buckets are those of kubeproxy_network_programming_duration_seconds. */
void mk_latency_init(struct mk_histogram *histogram);

#endif

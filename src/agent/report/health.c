// SPDX-License-Identifier: Apache-2.0
#include "agent/report/health.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"

void mk_health_queued(struct mk_health *health, uint64_t now_ns)
{
	if (!health->waiting_since_ns)
		health->waiting_since_ns = now_ns;
}

void mk_health_updated(struct mk_health *health, int64_t now_unix_ns)
{
	health->waiting_since_ns = 0;
	health->updated_unix_ns = now_unix_ns;
}

bool mk_health_is_healthy(const struct mk_health *health, uint64_t now_ns)
{
	return !health->updated_unix_ns || !health->waiting_since_ns ||
	       now_ns - health->waiting_since_ns < MK_HEALTH_TIMEOUT_NS;
}

/* ---- answers --------------------------------------------------------------------------------- */

static const char *word(bool yes)
{
	return yes ? "true" : "false";
}

/* Go's zero time, as kube-proxy prints it. */
static const char *moment(int64_t unix_ns, char *buf)
{
	return unix_ns ? mk_time_format(unix_ns, buf) : "0001-01-01T00:00:00Z";
}

unsigned int mk_health_status(enum mk_health_question question,
			      const struct mk_health_answer *answer)
{
	return answer->healthy && (answer->eligible || question == MK_LIVEZ) ? 200 : 503;
}

/* The families are written together, so one is as healthy as the other. */
static void put_status(const struct mk_health_answer *answer, char *buf, size_t size)
{
	const char *before = ",\"status\":{";
	char updated[MK_TIME_STRLEN];
	size_t used = 0;

	buf[0] = '\0';
	if (!answer->updated_unix_ns)
		return;
	for (unsigned i = 0; i < MK_FAMILIES; i++) {
		if (!answer->families[i])
			continue;
		used += (size_t)snprintf(buf + used, size - used,
					 "%s\"%s\":{\"lastUpdated\":\"%s\",\"healthy\":%s}", before,
					 mk_family_name(i ? AF_INET6 : AF_INET),
					 moment(answer->updated_unix_ns, updated),
					 word(answer->healthy));
		before = ",";
	}
	snprintf(buf + used, size - used, "%s", used ? "}" : "");
}

/* A healthy answer has lastUpdated now. Programs that check its age expect a proxy that writes its
 * tables every 30 s, changed or not. */
char *mk_health_body(enum mk_health_question question, const struct mk_health_answer *answer)
{
	bool good = mk_health_status(question, answer) == 200;
	char now[MK_TIME_STRLEN], updated[MK_TIME_STRLEN], status[256], eligible[32] = "";
	char *body;

	if (question == MK_HEALTHZ)
		snprintf(eligible, sizeof(eligible), "\"nodeEligible\":%s,",
			 word(answer->eligible));
	put_status(answer, status, sizeof(status));
	if (asprintf(&body, "{\"lastUpdated\":\"%s\",\"currentTime\":\"%s\",%s\"healthy\":%s%s}",
		     moment(good ? answer->now_unix_ns : answer->updated_unix_ns, updated),
		     moment(answer->now_unix_ns, now), eligible, word(answer->healthy), status) < 0)
		return NULL;
	return body;
}

unsigned int mk_health_service_status(size_t local_endpoints, bool healthy)
{
	return local_endpoints > 0 && healthy ? 200 : 503;
}

char *mk_health_service_body(const char *namespace_, const char *name, size_t local_endpoints,
			     bool healthy)
{
	char *body;

	if (asprintf(&body,
		     "{\n\t\"service\": {\n\t\t\"namespace\": \"%s\",\n\t\t\"name\": \"%s\"\n\t},\n"
		     "\t\"localEndpoints\": %zu,\n\t\"serviceProxyHealthy\": %s\n}",
		     namespace_, name, local_endpoints, word(healthy)) < 0)
		return NULL;
	return body;
}

/* ---- network programming latency ------------------------------------------------------------- */

void mk_latency_init(struct mk_histogram *histogram)
{
	*histogram = (struct mk_histogram){ 0 };
	mk_histogram_add_bounds(histogram, 0.25, 0.25, 2);
	mk_histogram_add_bounds(histogram, 1, 1, 59);
	mk_histogram_add_bounds(histogram, 60, 5, 12);
	mk_histogram_add_bounds(histogram, 120, 30, 7);
}

// SPDX-License-Identifier: Apache-2.0
/* Health: the rule, the answers byte by byte, and the latency of changes of endpoints. */
#include <string.h>

#include "agent/programming_latency.h"
#include "agent/service_queue.h"
#include "agent/report/health.h"
#include "base/cleanup.h"
#include "base/time.h"
#include "unit/unit.h"

#define SECOND 1000000000ULL

/* ---- the rule -------------------------------------------------------------------------------- */

START_TEST(test_rule)
{
	struct mk_health health = { 0 };

	ck_assert_msg(mk_health_is_healthy(&health, 1), "at the start");
	mk_health_queued(&health, 1 * SECOND);
	ck_assert_msg(mk_health_is_healthy(&health, 1000 * SECOND), "until all is written once");
	mk_health_updated(&health, 5);
	ck_assert_msg(mk_health_is_healthy(&health, 5000 * SECOND), "nothing waits");
	mk_health_queued(&health, 5000 * SECOND);
	mk_health_queued(&health, 5059 * SECOND);
	ck_assert_msg(mk_health_is_healthy(&health, 5060 * SECOND - 1), "waits, but not for long");
	ck_assert_msg(!mk_health_is_healthy(&health, 5060 * SECOND), "the oldest change counts");
	mk_health_updated(&health, 6);
	ck_assert_msg(mk_health_is_healthy(&health, 5060 * SECOND), "written");
	ck_assert_int_eq(health.updated_unix_ns, 6);
}
END_TEST

/* ---- answers --------------------------------------------------------------------------------- */

#define NOW_S	  1709208000LL
#define UPDATED_S (NOW_S - 100)
#define NOW	  "2024-02-29T12:00:00.25Z"
#define UPDATED	  "2024-02-29T11:58:20Z"

static const struct {
	enum mk_health_question question;
	bool healthy, eligible, never; /* updated */
	unsigned int status;
	const char *body;
} answers[] = {
	{ MK_HEALTHZ, true, true, false, 200,
	  "{\"lastUpdated\":\"" NOW "\",\"currentTime\":\"" NOW
	  "\",\"nodeEligible\":true,\"healthy\":true,"
	  "\"status\":{\"IPv4\":{\"lastUpdated\":\"" UPDATED "\",\"healthy\":true}}}" },
	{ MK_HEALTHZ, true, true, false, 200,
	  "{\"lastUpdated\":\"" NOW "\",\"currentTime\":\"" NOW
	  "\",\"nodeEligible\":true,\"healthy\":true,"
	  "\"status\":{\"IPv6\":{\"lastUpdated\":\"" UPDATED "\",\"healthy\":true}}}" },
	{ MK_LIVEZ, true, true, false, 200,
	  "{\"lastUpdated\":\"" NOW "\",\"currentTime\":\"" NOW "\",\"healthy\":true,"
	  "\"status\":{\"IPv4\":{\"lastUpdated\":\"" UPDATED "\",\"healthy\":true}}}" },
	{ MK_HEALTHZ, true, false, false, 503,
	  "{\"lastUpdated\":\"" UPDATED "\",\"currentTime\":\"" NOW
	  "\",\"nodeEligible\":false,\"healthy\":true,"
	  "\"status\":{\"IPv4\":{\"lastUpdated\":\"" UPDATED "\",\"healthy\":true}}}" },
	{ MK_LIVEZ, true, false, false, 200,
	  "{\"lastUpdated\":\"" NOW "\",\"currentTime\":\"" NOW "\",\"healthy\":true,"
	  "\"status\":{\"IPv4\":{\"lastUpdated\":\"" UPDATED "\",\"healthy\":true}}}" },
	{ MK_HEALTHZ, false, true, false, 503,
	  "{\"lastUpdated\":\"" UPDATED "\",\"currentTime\":\"" NOW
	  "\",\"nodeEligible\":true,\"healthy\":false,"
	  "\"status\":{\"IPv4\":{\"lastUpdated\":\"" UPDATED "\",\"healthy\":false}}}" },
	{ MK_LIVEZ, false, true, false, 503,
	  "{\"lastUpdated\":\"" UPDATED "\",\"currentTime\":\"" NOW "\",\"healthy\":false,"
	  "\"status\":{\"IPv4\":{\"lastUpdated\":\"" UPDATED "\",\"healthy\":false}}}" },
	{ MK_HEALTHZ, true, true, true, 200,
	  "{\"lastUpdated\":\"" NOW "\",\"currentTime\":\"" NOW
	  "\",\"nodeEligible\":true,\"healthy\":true}" },
	{ MK_HEALTHZ, true, false, true, 503,
	  "{\"lastUpdated\":\"0001-01-01T00:00:00Z\",\"currentTime\":\"" NOW
	  "\",\"nodeEligible\":false,\"healthy\":true}" },
};

START_TEST(test_answer)
{
	struct mk_health_answer answer = {
		.families = { !!strstr(answers[_i].body, "IPv4"),
			      !!strstr(answers[_i].body, "IPv6") },
		.healthy = answers[_i].healthy,
		.eligible = answers[_i].eligible,
		.updated_unix_ns = answers[_i].never ? 0 : UPDATED_S * MK_NS_PER_S,
		.now_unix_ns = NOW_S * MK_NS_PER_S + MK_NS_PER_S / 4,
	};
	cleanup_free char *body = mk_health_body(answers[_i].question, &answer);

	ck_assert_uint_eq(mk_health_status(answers[_i].question, &answer), answers[_i].status);
	ck_assert_str_eq(body, answers[_i].body);
}
END_TEST

static const struct {
	size_t local;
	bool healthy;
	unsigned int status;
	const char *last_lines;
} service_answers[] = {
	{ 2, true, 200, "\t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}" },
	{ 0, true, 503, "\t\"localEndpoints\": 0,\n\t\"serviceProxyHealthy\": true\n}" },
	{ 2, false, 503, "\t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": false\n}" },
};

START_TEST(test_service_answer)
{
	static const char first_lines[] =
		"{\n\t\"service\": {\n\t\t\"namespace\": \"x\",\n\t\t\"name\": \"s.t\"\n\t},\n";
	size_t local = service_answers[_i].local;
	bool healthy = service_answers[_i].healthy;
	cleanup_free char *body = mk_health_service_body("x", "s.t", local, healthy);

	ck_assert_uint_eq(mk_health_service_status(local, healthy), service_answers[_i].status);
	ck_assert_msg(strncmp(body, first_lines, strlen(first_lines)) == 0, "%s", body);
	ck_assert_str_eq(body + strlen(first_lines), service_answers[_i].last_lines);
}
END_TEST

/* ---- latency --------------------------------------------------------------------------------- */

START_TEST(test_bounds)
{
	struct mk_histogram histogram;

	mk_latency_init(&histogram);
	ck_assert_uint_eq(histogram.bound_count, 80);
	for (size_t i = 1; i < histogram.bound_count; i++)
		ck_assert(histogram.bounds[i] > histogram.bounds[i - 1]);
	ck_assert(histogram.bounds[0] == 0.25 && histogram.bounds[1] == 0.5);
	ck_assert(histogram.bounds[2] == 1 && histogram.bounds[60] == 59);
	ck_assert(histogram.bounds[61] == 60 && histogram.bounds[72] == 115);
	ck_assert(histogram.bounds[73] == 120 && histogram.bounds[79] == 300);
}
END_TEST

static const struct {
	double seconds;
	size_t bucket;
} values[] = { { 0, 0 },   { 0.25, 0 }, { 0.2501, 1 }, { 0.9, 2 },
	       { 59, 60 }, { 61, 62 },	{ 300, 79 },   { 301, 80 } };

START_TEST(test_observe)
{
	struct mk_histogram histogram;

	mk_latency_init(&histogram);
	mk_histogram_observe(&histogram, values[_i].seconds);
	for (size_t i = 0; i <= histogram.bound_count; i++)
		ck_assert_msg(histogram.buckets[i] == (i == values[_i].bucket), "bucket %zu", i);
	ck_assert_uint_eq(histogram.count, 1);
	ck_assert(histogram.sum == values[_i].seconds);
}
END_TEST

START_TEST(test_more_bounds_than_room)
{
	struct mk_histogram histogram = { 0 };

	mk_histogram_add_bounds(&histogram, 1, 1, 1000);
	ck_assert_uint_eq(histogram.bound_count, MK_HISTOGRAM_BOUNDS);
	mk_histogram_observe(&histogram, 1000);
	ck_assert_uint_eq(histogram.buckets[MK_HISTOGRAM_BOUNDS], 1);
}
END_TEST

static struct agent_latency latency;
static struct agent_services services;

static void clean(void)
{
	agent_services_free(&services);
	services.all = services.dirty = NULL;
}

static bool is_dirty(const void *ctx, const char *key)
{
	return agent_service_is_dirty(ctx, key);
}

/* From the trigger to the turn after which its Service is no longer dirty. */
START_TEST(test_triggers)
{
	int64_t now = mk_time_now_unix_ns();

	agent_latency_init(&latency);
	latency.started_unix_ns = now - 10 * MK_NS_PER_S;
	agent_service_dirty(&services, "x", "s");
	agent_latency_triggered(&latency, "x", "s", latency.started_unix_ns);
	ck_assert_msg(!latency.triggers, "a change before the start");
	agent_latency_triggered(&latency, "x", "s", now - 5 * MK_NS_PER_S);
	agent_latency_triggered(&latency, "x", "s", now - 2 * MK_NS_PER_S);
	agent_latency_triggered(&latency, "x", "written", now + 100 * MK_NS_PER_S);
	agent_latency_written(&latency, is_dirty, &services);
	ck_assert_msg(latency.histogram.count == 1, "those of a dirty Service wait");
	ck_assert_msg(latency.histogram.sum == 0, "a clock that is ahead counts as none");
	clean();
	agent_latency_written(&latency, is_dirty, &services);
	ck_assert_ptr_null(latency.triggers);
	ck_assert_uint_eq(latency.histogram.count, 3);
	ck_assert(latency.histogram.sum >= 7 && latency.histogram.sum < 60);
}
END_TEST

/* Upstream's TestLastChangeTriggerTime: added, deleted, added again before it is written. */
START_TEST(test_trigger_of_a_slice_that_goes)
{
	agent_latency_init(&latency);
	latency.started_unix_ns = 1;
	agent_latency_triggered(&latency, "x", "s", 2);
	agent_latency_triggered(&latency, "x", "st", 3);
	agent_latency_triggered(&latency, "x", "s", 4);
	agent_latency_triggered(&latency, "y", "s", 5);
	agent_latency_triggered(&latency, "x", "s", 0);
	ck_assert_uint_eq(latency.trigger_count, 2);
	agent_latency_triggered(&latency, "x", "s", 6);
	agent_latency_triggered(&latency, "x", "none", 0);
	agent_latency_written(&latency, is_dirty, &services);
	ck_assert_uint_eq(latency.histogram.count, 3);
	clean();
}
END_TEST

/* A Service that is never written does not use ever more memory. */
START_TEST(test_many_triggers)
{
	agent_latency_init(&latency);
	latency.started_unix_ns = 0;
	agent_service_dirty(&services, "x", "s");
	for (int i = 1; i <= 100000; i++)
		agent_latency_triggered(&latency, "x", "s", i);
	ck_assert_uint_eq(latency.trigger_count, 65536);
	agent_latency_forget(&latency);
	ck_assert_uint_eq(latency.trigger_count, 0);
	clean();
}
END_TEST

UNIT_SUITE("health")
{
	TCase *tcase = unit_case(suite, "all", NULL, NULL);

	tcase_add_test(tcase, test_rule);
	tcase_add_loop_test(tcase, test_answer, 0, MK_ARRAY_SIZE(answers));
	tcase_add_loop_test(tcase, test_service_answer, 0, MK_ARRAY_SIZE(service_answers));
	tcase_add_test(tcase, test_bounds);
	tcase_add_loop_test(tcase, test_observe, 0, MK_ARRAY_SIZE(values));
	tcase_add_test(tcase, test_more_bounds_than_room);
	tcase_add_test(tcase, test_triggers);
	tcase_add_test(tcase, test_trigger_of_a_slice_that_goes);
	tcase_add_test(tcase, test_many_triggers);
}

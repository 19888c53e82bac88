// SPDX-License-Identifier: Apache-2.0
/* The Lease of the leader, on a server inside the test and clocks that the test moves. */
#include "cluster/api/lease.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "unit/clusterset_text.h"
#include "unit/fake_exchange.h"

#define COLLECTION "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
#define LEASE	   COLLECTION "/leader"
#define RENEW_MS   5000 /* of mk_lease_timing_default */
#define WRITE_MS   10000
#define FREE_MS	   15000
#define REFUSED_MS 60000

static struct candidate {
	struct mk_lease *lease;
	bool holds; /* as changed() says */
	unsigned int terms;
} a, b;
static json_object *stored; /* the Lease; NULL: there is none */
static unsigned int version;
static struct mk_error err;

static void changed(void *ctx, bool holds)
{
	struct candidate *candidate = ctx;

	ck_assert(candidate->holds != holds);
	candidate->holds = holds;
	candidate->terms += holds;
}

static void add_candidate(struct candidate *candidate, const char *holder)
{
	struct mk_lease_options options = { .namespace_ = "ns",
					    .name = "leader",
					    .holder = holder,
					    .remedy = "allow it",
					    .changed = changed,
					    .ctx = candidate };

	candidate->lease = mk_lease_new(&loop, NULL, &options, &err);
	ck_assert_msg(candidate->lease != NULL, "%s", mk_error_text(&err));
}

static void setup(void)
{
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	add_candidate(&a, "a");
}

static void teardown(void)
{
	mk_lease_free(a.lease);
	mk_lease_free(b.lease);
	settle();
	end_loop();
	json_object_put(stored);
}

/* ---- the server ------------------------------------------------------------------------------ */

static json_object *member(json_object *tree, const char *of, const char *key)
{
	json_object *group = NULL, *value = NULL;

	ck_assert(json_object_object_get_ex(tree, of, &group));
	(void)json_object_object_get_ex(group, key, &value);
	return value;
}

static void store(json_object *tree)
{
	json_object *metadata = NULL;

	ck_assert(json_object_object_get_ex(tree, "metadata", &metadata));
	json_object_object_add(metadata, "resourceVersion", json_object_new_int((int)++version));
	json_object_put(stored);
	stored = tree;
}

/* Another process writes the Lease. */
static void write_other(const char *holder, int duration_s)
{
	char *text = NULL;

	text_add(&text,
		 "{'metadata': {'name': 'leader'}, 'spec': {'holderIdentity': '%s',"
		 " 'leaseDurationSeconds': %d, 'leaseTransitions': 4,"
		 " 'renewTime': '2199-01-01T00:00:00.000000Z'}}",
		 holder, duration_s);
	store(tree_of(text));
	free(text);
}

static int serve_write(bool is_new, json_object *body)
{
	json_object *named = member(body, "metadata", "resourceVersion");

	if (is_new ? stored != NULL : !stored)
		return is_new ? 409 : 404;
	if (!is_new && json_object_get_int(named) != (int)version)
		return 409;
	ck_assert(is_new ? !named : named != NULL);
	store(json_object_get(body));
	return is_new ? 201 : 200;
}

/* Do what @exchange asks for. */
static void serve(struct mk_exchange *exchange)
{
	cleanup_json json_object *body = json_tokener_parse(exchange->body);
	bool is_new = strcmp(exchange->method, "POST") == 0;

	ck_assert_str_eq(exchange->target, is_new ? COLLECTION : LEASE);
	if (strcmp(exchange->method, "GET") == 0)
		exchange->status = stored ? 200 : 404;
	else
		exchange->status = serve_write(is_new, body);
	if (exchange->status < 300)
		exchange->tree = json_object_get(stored);
}

static void reply(struct mk_exchange *exchange)
{
	answer_tree(exchange, exchange->status, json_object_get(exchange->tree));
}

/* The oldest request is @method; it is done and answered. */
static void served(const char *method)
{
	struct mk_exchange *exchange =
		request_is(method, strcmp(method, "POST") == 0 ? COLLECTION : LEASE);

	serve(exchange);
	reply(exchange);
	settle();
}

static void failed(const char *method, int status)
{
	answer_tree(request_is(method, LEASE), status, NULL);
	settle();
}

static void expect_spec(const char *key, const char *value)
{
	ck_assert_str_eq(json_object_get_string(member(stored, "spec", key)), value);
}

static void expect_holds(bool holds)
{
	ck_assert_int_eq(mk_lease_holds(a.lease), holds);
	ck_assert_int_eq(a.holds, holds);
}

/* @a leads since this instant. */
static void lead(void)
{
	mk_lease_want(a.lease, true);
	served("GET");
	served(stored ? "PUT" : "POST");
	expect_holds(true);
}

/* Pass @ms; all that the candidate does meanwhile is to look. */
static void look_for(uint64_t ms)
{
	for (; ms > 0; ms--) {
		pass(1);
		if (asked)
			served("GET");
		expect_holds(false);
	}
}

/* ---- rows ------------------------------------------------------------------------------------ */

START_TEST(test_free)
{
	pass(1000);
	ck_assert_ptr_null(asked); /* not wanted yet */
	lead();
	expect_spec("holderIdentity", "a");
	expect_spec("leaseDurationSeconds", "15");
	expect_spec("leaseTransitions", "0");
	pass(RENEW_MS - 1);
	ck_assert_ptr_null(asked);
	pass(1);
	served("PUT");
	expect_spec("leaseTransitions", "0");
	ck_assert_uint_eq(version, 2);
	expect_holds(true);
	ck_assert_uint_eq(a.terms, 1);
}
END_TEST

START_TEST(test_free_released)
{
	write_other("", 1);
	lead();
	expect_spec("leaseTransitions", "5");
}
END_TEST

/* The same holder after its restart leads at once. */
START_TEST(test_free_own)
{
	write_other("a", 15);
	lead();
	expect_spec("leaseTransitions", "4");
}
END_TEST

START_TEST(test_held)
{
	write_other("other", 15);
	mk_lease_want(a.lease, true);
	served("GET");
	for (int i = 0; i < 10; i++) {
		look_for(2 * RENEW_MS);
		write_other("other", 15);
	}
	ck_assert_uint_ge(asked_count, 20);
	ck_assert_uint_eq(a.terms, 0);
}
END_TEST

static const struct {
	int said_s; /* of the Lease */
	uint64_t free_ms; /* after it was seen first */
} durations[] = { { 15, 15000 }, { 2, 2000 },	{ 30, 30000 },
		  { 0, 15000 },	 { -7, 15000 }, { 100000000, 15000 } };

/* Times in the Lease do not count: other clocks differ. */
START_TEST(test_expired)
{
	write_other("other", durations[_i].said_s);
	mk_lease_want(a.lease, true);
	served("GET");
	look_for(durations[_i].free_ms - 1);
	for (int i = 0; i <= RENEW_MS && !(asked && strcmp(asked->method, "PUT") == 0); i++) {
		pass(1);
		if (asked && strcmp(asked->method, "GET") == 0)
			served("GET");
	}
	served("PUT");
	expect_holds(true);
	expect_spec("holderIdentity", "a");
	expect_spec("leaseTransitions", "5");
}
END_TEST

/* Another candidate was faster: its whole duration counts from here. */
START_TEST(test_conflict)
{
	write_other("", 1);
	mk_lease_want(a.lease, true);
	served("GET");
	write_other("other", 15);
	served("PUT");
	expect_holds(false);
	served("GET");
	look_for(FREE_MS - 1);
}
END_TEST

START_TEST(test_conflict_new)
{
	mk_lease_want(a.lease, true);
	served("GET");
	write_other("other", 15);
	served("POST");
	served("GET");
	look_for(FREE_MS - 1);
}
END_TEST

/* Its own renewal whose answer was lost: it goes on. */
START_TEST(test_conflict_own)
{
	lead();
	pass(RENEW_MS);
	serve(request_is("PUT", LEASE));
	failed("PUT", 0);
	for (int i = 0; i < RENEW_MS && !asked; i++)
		pass(1);
	served("PUT");
	served("GET");
	served("PUT");
	expect_holds(true);
	ck_assert_uint_eq(a.terms, 1);
}
END_TEST

START_TEST(test_deleted)
{
	lead();
	json_object_put(stored);
	stored = NULL;
	pass(RENEW_MS);
	served("PUT");
	served("GET");
	served("POST");
	expect_holds(true);
	expect_spec("holderIdentity", "a");
	ck_assert_uint_eq(a.terms, 1);
}
END_TEST

#define REFUSED                                                     \
	"Lease ns/leader: not read: answer 403 (HTTP status 403); " \
	"without it this node does not lead; allow it"

/* One line in the log, and few requests. */
START_TEST(test_refused)
{
	const char *log;

	capture_log();
	mk_lease_want(a.lease, true);
	failed("GET", 403);
	pass(REFUSED_MS - 1);
	ck_assert_ptr_null(asked);
	pass(1);
	failed("GET", 403);
	log = strstr(captured_log(), REFUSED);
	ck_assert_ptr_nonnull(log);
	ck_assert_ptr_null(strstr(log + strlen(REFUSED), "not read"));
	pass(REFUSED_MS);
	served("GET");
	served("POST");
	expect_holds(true);
}
END_TEST

START_TEST(test_released)
{
	lead();
	pass(100);
	mk_lease_want(a.lease, false);
	expect_holds(false);
	ck_assert(mk_lease_is_releasing(a.lease));
	served("PUT");
	expect_spec("holderIdentity", "");
	expect_spec("leaseDurationSeconds", "1");
	ck_assert(!mk_lease_is_releasing(a.lease));
	pass(3 * FREE_MS);
	ck_assert_ptr_null(asked);
	lead();
	ck_assert_uint_eq(a.terms, 2);
}
END_TEST

/* Wanted no more while a renewal is on its way, and wanted again while the release is. */
START_TEST(test_released_late)
{
	lead();
	pass(RENEW_MS);
	request_is("PUT", LEASE);
	mk_lease_want(a.lease, false);
	expect_holds(false);
	served("PUT");
	expect_holds(false);
	request_is("PUT", LEASE);
	mk_lease_want(a.lease, true);
	served("PUT");
	expect_spec("holderIdentity", "");
	served("GET");
	served("PUT");
	expect_holds(true);
}
END_TEST

/* A Lease whose version is unknown is read before it is released. */
START_TEST(test_released_unknown)
{
	lead();
	pass(RENEW_MS);
	failed("PUT", 409);
	mk_lease_want(a.lease, false);
	failed("GET", 500);
	for (int i = 0; i <= RENEW_MS && !asked; i++)
		pass(1);
	served("GET");
	served("PUT");
	expect_spec("holderIdentity", "");
	ck_assert(!mk_lease_is_releasing(a.lease));
}
END_TEST

/* Counted from when the last renewal was asked for, not from its answer. */
START_TEST(test_cannot_renew)
{
	lead();
	pass(RENEW_MS);
	request_is("PUT", LEASE);
	pass(3000);
	served("PUT");
	for (int i = 3000; i < WRITE_MS - 1; i++) {
		pass(1);
		if (asked)
			failed("PUT", 500);
		expect_holds(true);
	}
	pass(1);
	expect_holds(false);
	for (int i = 0; i <= RENEW_MS && !asked; i++)
		pass(1);
	served("PUT");
	expect_holds(true);
	ck_assert_uint_eq(a.terms, 2);
}
END_TEST

START_TEST(test_too_slow)
{
	mk_lease_want(a.lease, true);
	served("GET");
	request_is("POST", COLLECTION);
	pass(WRITE_MS);
	served("POST");
	expect_holds(false);
}
END_TEST

/* The loop's timers do not count the time that the host sleeps. */
START_TEST(test_slept)
{
	lead();
	pass(RENEW_MS - 1);
	slept_ms += 3600 * 1000;
	ck_assert(!mk_lease_holds(a.lease));
	pass(1);
	served("PUT");
	expect_holds(true);
	ck_assert_uint_eq(a.terms, 2); /* what it knew is an hour old */
}
END_TEST

START_TEST(test_no_memory)
{
	no_memory = true;
	mk_lease_want(a.lease, true);
	pass(RENEW_MS - 1);
	no_memory = false;
	pass(1);
	served("GET");
	served("POST");
	expect_holds(true);
}
END_TEST

/* ---- two candidates -------------------------------------------------------------------------- */

#define STEP_MS 20
#define RUN_MS	(1600 * 1000) /* check counts 31 bits of microseconds */

static bool one_in(unsigned int count)
{
	return (random_bits() >> 16) % count == 0;
}

/* A request takes time on its way to the server and back; some are lost, or arrive when nothing
 * waits for the answer. */
static void travel(struct mk_exchange *exchange, bool is_cut)
{
	bool is_late = now_ms - exchange->asked_ms >= exchange->request.silence_ms;

	if (!exchange->status && (is_late ? one_in(2) : !is_cut && one_in(20)))
		serve(exchange);
	if (is_late || one_in(500))
		answer_tree(exchange, 0, NULL);
	else if (one_in(500))
		answer_tree(exchange, 500, NULL);
	else if (exchange->status && !is_cut && one_in(20))
		reply(exchange);
}

static void step(const struct candidate *cut)
{
	struct mk_exchange *exchange, *next;

	now_ms += STEP_MS;
	DL_FOREACH_SAFE(asked, exchange, next)
		travel(exchange, cut && exchange->request.ctx == cut->lease);
	settle();
	ck_assert(!(mk_lease_holds(a.lease) && mk_lease_holds(b.lease)));
}

START_TEST(test_two)
{
	const struct candidate *cut = NULL;

	add_candidate(&b, "b");
	random_state = (uint64_t)_i + 1;
	capture_log();
	for (int i = 0; i < RUN_MS / STEP_MS; i++) {
		mk_lease_want(a.lease, !one_in(10000));
		mk_lease_want(b.lease, !one_in(10000));
		if (one_in(1500))
			cut = one_in(3) ? NULL : one_in(2) ? &a : &b;
		step(cut);
	}
	(void)captured_log();
	ck_assert_uint_ge(a.terms, 3);
	ck_assert_uint_ge(b.terms, 3);
	for (int i = 0; i < 60 * 1000 / STEP_MS && !a.holds && !b.holds; i++)
		step(NULL);
	ck_assert(a.holds || b.holds);
}
END_TEST

UNIT_SUITE("lease")
{
	TCase *rows = unit_case(suite, "rows", setup, teardown);
	TCase *two = unit_case(suite, "two", setup, teardown);

	tcase_add_test(rows, test_free);
	tcase_add_test(rows, test_free_released);
	tcase_add_test(rows, test_free_own);
	tcase_add_test(rows, test_held);
	tcase_add_loop_test(rows, test_expired, 0, sizeof(durations) / sizeof(*durations));
	tcase_add_test(rows, test_conflict);
	tcase_add_test(rows, test_conflict_new);
	tcase_add_test(rows, test_conflict_own);
	tcase_add_test(rows, test_deleted);
	tcase_add_test(rows, test_refused);
	tcase_add_test(rows, test_released);
	tcase_add_test(rows, test_released_late);
	tcase_add_test(rows, test_released_unknown);
	tcase_add_test(rows, test_cannot_renew);
	tcase_add_test(rows, test_too_slow);
	tcase_add_test(rows, test_slept);
	tcase_add_test(rows, test_no_memory);
	tcase_add_loop_test(two, test_two, 0, 4);
}

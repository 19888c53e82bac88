// SPDX-License-Identifier: Apache-2.0
/* The queue of writes, on a server inside the test and clocks that the test moves. */
#include "cluster/api/objects.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "unit/clusterset_text.h"
#include "unit/fake_exchange.h"

static const struct mk_objects_timing timing = {
	.collect_ms = 20,
	.again_ms = 100,
	.apart_ms = 10,
	.backoff_min_ms = 500,
	.backoff_max_ms = 4000,
	.silence_ms = 10000,
	.at_once = 2,
};

static struct mk_objects *objects;
static bool may_write_now;
static char written_last[64];
static unsigned int written_count;
static struct mk_error err;

static bool may_write(void *ctx)
{
	(void)ctx;
	return may_write_now;
}

static void written(void *ctx, const char *target)
{
	(void)ctx;
	snprintf(written_last, sizeof(written_last), "%s", target);
	written_count++;
}

static void setup(void)
{
	struct mk_objects_options options = {
		.manager = "me", .timing = &timing, .may_write = may_write, .written = written
	};

	may_write_now = true;
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	objects = mk_objects_new(&loop, NULL, &options, &err);
	ck_assert_msg(objects != NULL, "%s", mk_error_text(&err));
}

static void teardown(void)
{
	mk_objects_free(objects);
	settle();
	end_loop();
}

/* ---- what the rows do ------------------------------------------------------------------------ */

static struct mk_object_place place_of(const char *target)
{
	return (struct mk_object_place){
		.target = target, .kind = "Thing", .title = target, .remedy = "allow it"
	};
}

static int apply(const char *target, const char *text)
{
	struct mk_object_place place = place_of(target);
	cleanup_json json_object *tree = tree_of(text);

	uv_update_time(&loop);
	return mk_objects_apply(objects, &place, tree, &err);
}

static int delete_object(const char *target, const char *uid)
{
	struct mk_object_place place = place_of(target);

	uv_update_time(&loop);
	return mk_objects_delete(objects, &place, uid, &err);
}

/* The oldest request applies @text, written with single quotes, at @target. */
static void expect_apply(const char *target, const char *text)
{
	cleanup_json json_object *body = NULL;
	cleanup_free char *have = NULL, *whole = NULL;

	text_add(&whole, "%s?fieldManager=me&force=true", target);
	body = tree_of(request_is("PATCH", whole)->body);
	have = text_of_tree(body);
	ck_assert_str_eq(have, text);
	ck_assert_str_eq(asked->request.content_type, "application/apply-patch+yaml");
}

static void answer(int status)
{
	json_object *tree = tree_of("{'metadata': {'resourceVersion': '7'}}");

	ck_assert_ptr_nonnull(asked);
	answer_tree(asked, status, tree);
	settle();
}

/* Let @target be @text on the server. */
static void have_written(const char *target, const char *text)
{
	ck_assert_int_eq(apply(target, text), 1);
	pass(timing.again_ms);
	expect_apply(target, text);
	answer(200);
	ck_assert(mk_objects_is_written(objects, target));
	pass(timing.again_ms);
}

/* Pass time until there is a request; return how much. */
static uint64_t until_asked(void)
{
	uint64_t began_ms = now_ms;

	settle();
	while (!asked && now_ms - began_ms < 2 * timing.backoff_max_ms)
		pass(1);
	ck_assert_ptr_nonnull(asked);
	return now_ms - began_ms;
}

static void expect_idle(void)
{
	pass(2 * timing.backoff_max_ms);
	ck_assert_ptr_null(asked);
}

static bool see(const char *target, const char *text)
{
	cleanup_json json_object *tree = text ? tree_of(text) : NULL;

	uv_update_time(&loop);
	return mk_objects_see(objects, target, tree);
}

/* ---- rows ------------------------------------------------------------------------------------ */

START_TEST(test_equal)
{
	have_written("/a", "{'x':1}");
	ck_assert_uint_eq(written_count, 1);
	ck_assert_str_eq(written_last, "/a");
	ck_assert_int_eq(apply("/a", "{'x': 1}"), 0);
	expect_idle();
	have_written("/a", "{'x':2}");
	ck_assert_uint_eq(asked_count, 2);
}
END_TEST

START_TEST(test_collects)
{
	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	pass(timing.collect_ms - 1);
	ck_assert_int_eq(apply("/a", "{'x':2}"), 1);
	ck_assert_int_eq(apply("/a", "{'x':2}"), 1);
	ck_assert_ptr_null(asked);
	ck_assert_uint_eq(mk_objects_waiting(objects), 1);
	ck_assert_uint_eq(until_asked(), 1); /* later changes do not put it off */
	expect_apply("/a", "{'x':2}");
	ck_assert_uint_eq(mk_objects_waiting(objects), 1);
	answer(201);
	ck_assert_uint_eq(mk_objects_waiting(objects), 0);
	expect_idle();
	ck_assert_uint_eq(asked_count, 1);
}
END_TEST

START_TEST(test_again)
{
	uint64_t last_ms = 0;
	char text[32];

	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "{'x':%d}", i);
		ck_assert_int_eq(apply("/a", text), 1);
		pass(1);
		if (!asked)
			continue;
		ck_assert_uint_ge(now_ms - last_ms, timing.again_ms);
		last_ms = now_ms;
		answer(200);
	}
	ck_assert_uint_eq(asked_count, 10);
	until_asked();
	expect_apply("/a", "{'x':999}");
}
END_TEST

/* The longest waiting first, however often it changes; apart_ms between them, at_once at most. */
START_TEST(test_order)
{
	ck_assert_int_eq(apply("/b", "{'x':1}"), 1);
	pass(1);
	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	ck_assert_int_eq(apply("/c", "{'x':1}"), 1);
	pass(1);
	ck_assert_int_eq(apply("/b", "{'x':2}"), 1);
	until_asked();
	expect_apply("/b", "{'x':2}");
	pass(timing.apart_ms - 1);
	ck_assert_uint_eq(asked_count, 1);
	pass(1);
	ck_assert_uint_eq(asked_count, 2);
	pass(1000);
	ck_assert_uint_eq(asked_count, 2);
	answer(200);
	expect_apply("/a", "{'x':1}");
	answer(200);
	expect_apply("/c", "{'x':1}");
}
END_TEST

/* What is written for the first time does not wait behind what was written a moment ago. */
START_TEST(test_order_due)
{
	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	until_asked();
	answer(200);
	ck_assert_int_eq(apply("/a", "{'x':2}"), 1);
	ck_assert_int_eq(apply("/b", "{'x':1}"), 1);
	ck_assert_uint_eq(until_asked(), timing.collect_ms);
	expect_apply("/b", "{'x':1}");
	answer(200);
	ck_assert_uint_eq(until_asked(), timing.again_ms - timing.collect_ms);
	expect_apply("/a", "{'x':2}");
}
END_TEST

START_TEST(test_may_not)
{
	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	ck_assert_int_eq(delete_object("/b", NULL), 1);
	may_write_now = false;
	expect_idle();
	mk_objects_clear(objects);
	ck_assert_uint_eq(mk_objects_waiting(objects), 0);
	may_write_now = true;
	expect_idle();
	have_written("/a", "{'x':1}");
}
END_TEST

/* Another process leads: what is on its way is cancelled, and all is forgotten. */
START_TEST(test_clear)
{
	have_written("/a", "{'x':1}");
	ck_assert_int_eq(apply("/b", "{'x':1}"), 1);
	until_asked();
	mk_objects_clear(objects);
	ck_assert_ptr_null(asked);
	ck_assert_uint_eq(mk_objects_waiting(objects), 0);
	have_written("/a", "{'x':1}");
	have_written("/b", "{'x':1}");
}
END_TEST

START_TEST(test_delete)
{
	static const int gone[] = { 200, 404, 409 };

	ck_assert_int_eq(delete_object("/a", _i == 0 ? NULL : "u-1"), 1);
	until_asked();
	request_is("DELETE", "/a");
	ck_assert_str_eq(asked->body, _i == 0 ? "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\"}"
					      : "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\","
						"\"preconditions\":{\"uid\":\"u-1\"}}");
	answer(gone[_i]);
	ck_assert_uint_eq(mk_objects_failures(objects), 0);
	ck_assert_uint_eq(written_count, 0);
	ck_assert_uint_eq(mk_objects_waiting(objects), 0);
	expect_idle();
}
END_TEST

/* Wanted again while its deletion is on its way: an absent object is what the deletion wants. */
START_TEST(test_delete_then_apply)
{
	const char *log;

	capture_log();
	ck_assert_int_eq(delete_object("/a", "u-1"), 1);
	until_asked();
	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	answer(_i == 0 ? 404 : 409);
	log = captured_log();
	ck_assert_msg(!*log, "%s", log);
	ck_assert_uint_eq(mk_objects_failures(objects), 0);
	ck_assert_uint_le(until_asked(), timing.again_ms);
	expect_apply("/a", "{'x':1}");
	answer(200);
	ck_assert(mk_objects_is_written(objects, "/a"));
}
END_TEST

/* Its write is refused while it is to be deleted by now: the deletion follows all the same. */
START_TEST(test_apply_then_delete)
{
	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	until_asked();
	ck_assert_int_eq(delete_object("/a", NULL), 1);
	answer(_i == 0 ? 404 : 409);
	ck_assert_uint_eq(mk_objects_failures(objects), 1);
	until_asked();
	request_is("DELETE", "/a");
}
END_TEST

START_TEST(test_changed_meanwhile)
{
	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	until_asked();
	ck_assert_int_eq(apply("/a", "{'x':2}"), 1);
	answer(200);
	ck_assert(!mk_objects_is_written(objects, "/a"));
	ck_assert_uint_eq(written_count, 0);
	ck_assert_uint_le(until_asked(), timing.again_ms);
	expect_apply("/a", "{'x':2}");
	answer(200);
	expect_idle();
}
END_TEST

START_TEST(test_forget)
{
	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	ck_assert_int_eq(apply("/b", "{'x':1}"), 1);
	until_asked();
	mk_objects_forget(objects, "/a");
	mk_objects_forget(objects, "/none");
	until_asked();
	expect_apply("/b", "{'x':1}");
	answer(200);
	expect_idle();
	ck_assert(mk_objects_is_written(objects, "/a"));
}
END_TEST

/* The pauses grow up to the longest, and nothing else is written meanwhile. */
START_TEST(test_backoff)
{
	uint64_t least_ms = timing.backoff_min_ms / 2, wait_ms;

	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	until_asked();
	answer(500);
	ck_assert_int_eq(apply("/b", "{'x':1}"), 1);
	for (int i = 0; i < 6; i++) {
		wait_ms = until_asked();
		ck_assert_uint_ge(wait_ms, least_ms);
		ck_assert_uint_le(wait_ms, 2 * least_ms);
		if (least_ms < timing.backoff_max_ms / 2)
			least_ms *= 2;
		pass(1);
		answer(_i == 0 ? 500 : 0);
		ck_assert_uint_eq(mk_objects_failures(objects), 2 + (unsigned int)i);
		mk_objects_forget(objects, "/b");
	}
	until_asked();
	answer(200);
	ck_assert(mk_objects_is_written(objects, "/a"));
	have_written("/b", "{'x':1}"); /* without a pause again */
}
END_TEST

START_TEST(test_no_memory)
{
	no_memory = true;
	ck_assert_int_eq(apply("/a", "{'x':1}"), 1);
	pass(timing.collect_ms);
	ck_assert_uint_eq(mk_objects_waiting(objects), 1);
	no_memory = false;
	until_asked();
	expect_apply("/a", "{'x':1}");
}
END_TEST

static const struct {
	const char *text; /* NULL: the object is gone */
	bool again;
} versions[] = {
	{ "{'metadata':{'resourceVersion':'8'},'x':[1,{'y':2}],'more':3}", false },
	{ "{'metadata':{'resourceVersion':'8'},'x':[1,{'y':2,'z':3}],'empty':null}", false },
	{ "{'metadata':{'resourceVersion':'6'},'x':[]}", false }, /* before its own write */
	{ "{'metadata':{'resourceVersion':'8'},'x':[1,{'y':3}]}", true },
	{ "{'metadata':{'resourceVersion':'8'},'x':[1,{}]}", true },
	{ "{'metadata':{'resourceVersion':'8'},'x':[1]}", true },
	{ "{'metadata':{'resourceVersion':'8'},'x':[1,{'y':2},4]}", true },
	{ "{'metadata':{'resourceVersion':'8'},'x':'1'}", true },
	{ "{'metadata':{'resourceVersion':'8'}}", true },
	{ NULL, true },
};

START_TEST(test_see)
{
	const char *text = "{'x':[1,{'y':2}],'empty':[]}";

	ck_assert(!see("/a", versions[_i].text)); /* nothing is known of it */
	have_written("/a", text);
	ck_assert_int_eq(see("/a", versions[_i].text), versions[_i].again);
	ck_assert_int_eq(mk_objects_is_written(objects, "/a"), !versions[_i].again);
	ck_assert(!see("/a", versions[_i].text)); /* it is about to be written */
	if (!versions[_i].again) {
		expect_idle();
		return;
	}
	until_asked();
	expect_apply("/a", text);
	answer(200);
	expect_idle();
}
END_TEST

/* ---- the log --------------------------------------------------------------------------------- */

static unsigned int count_of(const char *text, const char *part)
{
	unsigned int count = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		count++;
	return count;
}

/* Three objects that fail twice each, with @status. Return the log. */
static const char *log_of_failures(int status)
{
	static const char *const targets[] = { "/a", "/b", "/c" };

	capture_log();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(apply(targets[i], "{'x':1}"), 1);
	while (mk_objects_failures(objects) < 6) {
		until_asked();
		answer(status);
	}
	return captured_log();
}

static const struct {
	int status;
	unsigned int lines;
	const char *says;
} reasons[] = {
	{ 403, 1, "Thing /a: not written: answer 403 (HTTP status 403); allow it" },
	{ 404, 1, "Thing /a: not written: answer 404 (HTTP status 404); allow it" },
	{ 415, 1, "(HTTP status 415); server-side apply needs Kubernetes 1.22 or newer" },
	{ 500, 1, "Thing /a: not written: answer 500 (HTTP status 500); it tries again" },
	{ 422, 3, "Thing /c: not written: answer 422 (HTTP status 422); allow it" },
	{ 409, 3, "Thing /b: not written: answer 409 (HTTP status 409); it tries again" },
};

/* A reason of all objects is one line; a text that is refused is a line per object. */
START_TEST(test_log)
{
	const char *log = log_of_failures(reasons[_i].status);

	ck_assert_msg(strstr(log, reasons[_i].says) != NULL, "%s", log);
	ck_assert_msg(count_of(log, "not written") == reasons[_i].lines, "%s", log);
}
END_TEST

/* Another reason is another line, and so is the same one after a success. */
START_TEST(test_log_again)
{
	const char *log;

	(void)log_of_failures(403);
	capture_log();
	until_asked();
	answer(500);
	until_asked();
	answer(500);
	log = captured_log();
	ck_assert_msg(count_of(log, "(HTTP status 500)") == 1, "%s", log);
	capture_log();
	while (mk_objects_waiting(objects)) {
		until_asked();
		answer(200);
	}
	log = captured_log();
	ck_assert_msg(count_of(log, ": written") == 1, "%s", log);
	capture_log();
	ck_assert_int_eq(apply("/a", "{'x':2}"), 1);
	until_asked();
	answer(500);
	log = captured_log();
	ck_assert_msg(count_of(log, "(HTTP status 500)") == 1, "%s", log);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(*(array))))

UNIT_SUITE("objects")
{
	TCase *rows = unit_case(suite, "rows", setup, teardown);
	TCase *log = unit_case(suite, "log", setup, teardown);

	tcase_add_test(rows, test_equal);
	tcase_add_test(rows, test_collects);
	tcase_add_test(rows, test_again);
	tcase_add_test(rows, test_order);
	tcase_add_test(rows, test_order_due);
	tcase_add_test(rows, test_may_not);
	tcase_add_test(rows, test_clear);
	tcase_add_loop_test(rows, test_delete, 0, 3);
	tcase_add_loop_test(rows, test_delete_then_apply, 0, 2);
	tcase_add_loop_test(rows, test_apply_then_delete, 0, 2);
	tcase_add_test(rows, test_changed_meanwhile);
	tcase_add_test(rows, test_forget);
	tcase_add_loop_test(rows, test_backoff, 0, 2);
	tcase_add_test(rows, test_no_memory);
	tcase_add_loop_test(rows, test_see, 0, COUNT(versions));
	tcase_add_loop_test(log, test_log, 0, COUNT(reasons));
	tcase_add_test(log, test_log_again);
}

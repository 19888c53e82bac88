// SPDX-License-Identifier: Apache-2.0
/* YAML and JSON text to trees: the types of scalars, and refusals with their positions. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cluster/files/files_internal.h"
#include "cluster/files/yaml_json.h"
#include "unit/unit.h"

static const struct {
	const char *name, *text;
	const char *expected; /* the documents as JSON, with " | " between them */
} good[] = {
	{ "nothing", "", "" },
	{ "comment", "# nothing\n", "" },
	{ "empty documents", "---\n---\n# still\n---\na: 1\n---\n", "{\"a\":1}" },
	{ "two documents", "a: 1\n---\nb: 2\n...\n---\n- c\n", "{\"a\":1} | {\"b\":2} | [\"c\"]" },
	{ "flow", "{a: [1, {b: c}], 'd': \"e\"}", "{\"a\":[1,{\"b\":\"c\"}],\"d\":\"e\"}" },
	{ "JSON is YAML", "{\"a\": [true, null, 1.5]}", "{\"a\":[true,null,1.5]}" },
	{ "integers", "[0, 1, -1, +7, 65536, 0x1F, 0o17]", "[0,1,-1,7,65536,31,15]" },
	{ "large integers", "[9223372036854775807, -9223372036854775808, 18446744073709551615]",
	  "[9223372036854775807,-9223372036854775808,18446744073709551615]" },
	{ "floats", "[1.5, -0.25, 1e3, .5, 2.]", "[1.5,-0.25,1000.0,0.5,2.0]" },
	{ "no numbers",
	  "[010, 0080, 1_000, 0x, 0o8, 1.2.3, 10:30, 1e, ., -, +, e5, .inf, .nan, 1e999]",
	  "[\"010\",\"0080\",\"1_000\",\"0x\",\"0o8\",\"1.2.3\",\"10:30\",\"1e\",\".\",\"-\",\"+\","
	  "\"e5\",\".inf\",\".nan\",\"1e999\"]" },
	{ "addresses are texts", "[10.96.0.1, fd00::1, 10.244.0.0/16, 02:4d:0a:f4:01:fe]",
	  "[\"10.96.0.1\",\"fd00::1\",\"10.244.0.0/16\",\"02:4d:0a:f4:01:fe\"]" },
	{ "booleans", "[true, True, TRUE, false, False, FALSE]",
	  "[true,true,true,false,false,false]" },
	{ "no booleans", "[yes, no, on, off, y, n, tRUE]",
	  "[\"yes\",\"no\",\"on\",\"off\",\"y\",\"n\",\"tRUE\"]" },
	{ "null", "[~, null, Null, NULL, ]", "[null,null,null,null]" },
	{ "null values", "a:\nb: ~\n", "{\"a\":null,\"b\":null}" },
	{ "quoted is text", "['80', \"true\", 'null', \"~\", '', \"1.5\"]",
	  "[\"80\",\"true\",\"null\",\"~\",\"\",\"1.5\"]" },
	{ "timestamps are texts", "a: 2026-01-01T00:00:00Z", "{\"a\":\"2026-01-01T00:00:00Z\"}" },
	{ "blocks", "a: |\n  x\n  y\nb: >\n  x\n  y\nc: |\n  5\n",
	  "{\"a\":\"x\\ny\\n\",\"b\":\"x y\\n\",\"c\":\"5\\n\"}" },
	{ "escapes", "a: \"\\u00e4\\t\\x41\"", "{\"a\":\"\xc3\xa4\\tA\"}" },
	{ "keys are texts", "80: a\ntrue: b\n'': c\n", "{\"80\":\"a\",\"true\":\"b\",\"\":\"c\"}" },
	{ "a quoted << is a key", "'<<': a", "{\"<<\":\"a\"}" },
	{ "anchors", "a: &x {b: 1}\nc: *x\nd: [*x, *x]\n",
	  "{\"a\":{\"b\":1},\"c\":{\"b\":1},\"d\":[{\"b\":1},{\"b\":1}]}" },
	{ "anchored scalars and null", "a: &x 5\nb: *x\nc: &n\nd: *n\n",
	  "{\"a\":5,\"b\":5,\"c\":null,\"d\":null}" },
	{ "an anchor redefined", "[&x 1, *x, &x 2, *x]", "[1,1,2,2]" },
	{ "tags", "[!!str 80, ! 81, !!seq [], !!map {}]", "[\"80\",\"81\",[],{}]" },
};

static void tell(const struct mk_documents *documents, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < documents->count; i++)
		used += (size_t)snprintf(
			text + used, size - used, "%s%s", i ? " | " : "",
			json_object_to_json_string_ext(documents->items[i].tree,
						       JSON_C_TO_STRING_PLAIN |
							       JSON_C_TO_STRING_NOSLASHESCAPE));
	ck_assert_uint_lt(used, size);
}

START_TEST(test_good)
{
	cleanup_documents struct mk_documents documents = { 0 };
	struct mk_error err = { 0 };
	char text[1024];

	ck_assert_msg(mk_yaml_parse(good[_i].text, strlen(good[_i].text), &documents, &err) == 0,
		      "%s: %s", good[_i].name, err.text);
	tell(&documents, text, sizeof(text));
	ck_assert_msg(strcmp(text, good[_i].expected) == 0, "%s: got %s, expected %s",
		      good[_i].name, text, good[_i].expected);
}
END_TEST

static const struct {
	const char *name, *text, *error;
} bad[] = {
	{ "the same key twice", "a: 1\nb: 2\na: 3\n", "line 3, column 1: key 'a' occurs twice" },
	{ "the same key twice, deep", "a:\n  b: 1\n  b: ~\n",
	  "line 3, column 3: key 'b' occurs twice" },
	{ "tab", "a:\n\tb: 1\n", "line 2, column 1: " },
	{ "indentation", "a: 1\n  b: 2\n", "line 2, column 4: mapping values are not allowed" },
	{ "unclosed list", "a: [1, 2\nb: 3\n", "line 2" },
	{ "unclosed quote", "a: 'b\n", "line 2" },
	{ "key that is a list", "? [a]\n: b\n", "line 1, column 3: a key has to be a text" },
	{ "key that is an alias", "a: &x b\n*x : c\n", "line 2, column 1: a key has to be a text" },
	{ "merge key", "a: &x {b: 1}\nc:\n  <<: *x\n", "line 3, column 3: merge keys" },
	{ "alias without anchor", "a: *x\n", "line 1, column 4: alias '*x' has no anchor" },
	{ "alias to itself", "a: &x [*x]\n", "alias '*x' has no anchor" },
	{ "alias into another document", "a: &x 1\n---\nb: *x\n", "line 3, column 4: alias '*x'" },
	{ "foreign tag", "a: !!binary aGk=\n",
	  "line 1, column 4: tag 'tag:yaml.org,2002:binary' is not" },
	{ "local tag", "a: !thing {}\n", "tag '!thing' is not supported" },
	{ "NUL in a key", "\"a\\0b\": 1\n", "a key with a NUL" },
	{ "not UTF-8", "a: \xff\xfe\n", "invalid" },
	{ "control character", "a: \x01\n", "control characters are not allowed" },
	{ "error in the second document", "a: 1\n---\nb: [\n", "line 4" },
};

START_TEST(test_bad)
{
	cleanup_documents struct mk_documents documents = { 0 };
	struct mk_error err = { 0 };

	ck_assert_msg(mk_yaml_parse(bad[_i].text, strlen(bad[_i].text), &documents, &err) < 0, "%s",
		      bad[_i].name);
	ck_assert_uint_eq(documents.count, 0);
	ck_assert_msg(strncmp(err.text, "line ", 5) == 0, "%s: no line in \"%s\"", bad[_i].name,
		      err.text);
	ck_assert_msg(strstr(err.text, bad[_i].error), "%s: no \"%s\" in \"%s\"", bad[_i].name,
		      bad[_i].error, err.text);
}
END_TEST

START_TEST(test_lines)
{
	static const char yaml[] = "# one\n\na: 1\n---\n\nb: 2\n---\n---\nc: 3\n";
	static const char json[] = "\n{\"a\":\n1}\n\n{}";
	cleanup_documents struct mk_documents documents = { 0 }, others = { 0 };

	ck_assert_int_eq(mk_yaml_parse(yaml, strlen(yaml), &documents, NULL), 0);
	ck_assert_uint_eq(documents.count, 3);
	ck_assert_uint_eq(documents.items[0].line, 3);
	ck_assert_uint_eq(documents.items[1].line, 6);
	ck_assert_uint_eq(documents.items[2].line, 9);
	ck_assert_int_eq(json_parse(json, strlen(json), &others, NULL), 0);
	ck_assert_uint_eq(others.count, 2);
	ck_assert_uint_eq(others.items[0].line, 2);
	ck_assert_uint_eq(others.items[1].line, 5);
}
END_TEST

static const struct {
	const char *name, *text, *expected, *error;
} json[] = {
	{ "one value", "{\"a\": [1, \"b\", null]}\n", "{\"a\":[1,\"b\",null]}", NULL },
	{ "several", "{} [1]\n{\"a\":\"\\ud83d\\ude00\"}",
	  "{} | [1] | {\"a\":\"\xf0\x9f\x98\x80\"}", NULL },
	{ "nothing", " \n\t", "", NULL },
	{ "YAML", "a: 1\n", NULL, "line 1, column 1: unexpected character" },
	{ "ends early", "{\"a\":\n [1,", NULL, "line 2, column 5: ends in the middle" },
	{ "trailing comma", "{\"a\": 1,}", NULL, "line 1, column" },
	{ "not UTF-8", "{\"a\": \"\xff\"}", NULL, "line 1, column" },
};

START_TEST(test_json)
{
	cleanup_documents struct mk_documents documents = { 0 };
	struct mk_error err = { 0 };
	char text[1024];
	int ret = json_parse(json[_i].text, strlen(json[_i].text), &documents, &err);

	if (json[_i].error) {
		ck_assert_msg(ret < 0, "%s", json[_i].name);
		ck_assert_msg(strstr(err.text, json[_i].error), "%s: \"%s\"", json[_i].name,
			      err.text);
		return;
	}
	ck_assert_msg(ret == 0, "%s: %s", json[_i].name, err.text);
	tell(&documents, text, sizeof(text));
	ck_assert_str_eq(text, json[_i].expected);
}
END_TEST

/* ---- bounds ---------------------------------------------------------------------------------- */

static void nest(char *text, size_t depth)
{
	memset(text, '[', depth);
	memset(text + depth, ']', depth);
	text[2 * depth] = '\0';
}

START_TEST(test_depth)
{
	static const struct {
		size_t depth;
		bool taken;
	} depths[] = { { MK_TREE_DEPTH_MAX - 1, true },
		       { MK_TREE_DEPTH_MAX + 1, false },
		       { 100000, false } };
	cleanup_documents struct mk_documents yaml = { 0 }, other = { 0 };
	cleanup_free char *text = malloc(2 * depths[_i].depth + 1);
	struct mk_error err = { 0 };

	ck_assert_ptr_nonnull(text);
	nest(text, depths[_i].depth);
	ck_assert_msg((mk_yaml_parse(text, strlen(text), &yaml, &err) == 0) == depths[_i].taken,
		      "depth %zu: %s", depths[_i].depth, err.text);
	ck_assert_msg((json_parse(text, strlen(text), &other, &err) == 0) == depths[_i].taken,
		      "depth %zu: %s", depths[_i].depth, err.text);
}
END_TEST

/* Ten levels of ten aliases each: 10^10 values from a few hundred bytes. */
START_TEST(test_billion_laughs)
{
	cleanup_documents struct mk_documents documents = { 0 };
	char text[2048] = "a0: &a0 [ha,ha,ha,ha,ha,ha,ha,ha,ha,ha]\n";
	struct mk_error err = { 0 };
	size_t used = strlen(text);

	for (int i = 1; i < 10; i++)
		used += (size_t)snprintf(
			text + used, sizeof(text) - used,
			"a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i,
			i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
	ck_assert_int_lt(mk_yaml_parse(text, used, &documents, &err), 0);
	ck_assert_msg(strstr(err.text, "aliases counted each time"), "%s", err.text);
}
END_TEST

/* ---- anything at all ------------------------------------------------------------------------- */

static const char *const samples[] = { "objects.yaml", "recorded.yaml" };

static char *read_sample(const char *file, size_t *size)
{
	char path[256], *data;
	const char *slash = strrchr(__FILE__, '/');
	struct mk_error err = { 0 };

	snprintf(path, sizeof(path), "%.*s/data/%s", (int)(slash - __FILE__), __FILE__, file);
	ck_assert_msg(mk_file_read(path, 1 << 20, &data, size, &err) == 0, "%s", err.text);
	return data;
}

/* Bytes with a meaning for the parser are more likely to break it. */
static void disturb(char *text, size_t *size)
{
	static const char marks[] = "{}[],:-?&*!|>'\"%@`# \n\t\\<\0~\xff\xc3";
	size_t at = (size_t)rand() % *size, length = (size_t)rand() % 20;

	switch (rand() % 4) {
	case 0:
		text[at] = (char)rand();
		break;
	case 1:
		text[at] = marks[(size_t)rand() % (sizeof(marks) - 1)];
		break;
	case 2: /* remove a piece */
		if (at + length < *size) {
			memmove(text + at, text + at + length, *size - at - length);
			*size -= length;
		}
		break;
	default: /* remove the end */
		if (rand() % 8 == 0)
			*size = at + 1;
	}
}

START_TEST(test_disturbed)
{
	size_t size, left;
	cleanup_free char *data = read_sample(samples[_i], &size);
	unsigned refused = 0;

	srand(4);
	for (int round = 0; round < 5000; round++) {
		cleanup_documents struct mk_documents documents = { 0 }, others = { 0 };
		cleanup_free char *copy = malloc(size); /* exact: sanitizers see a read past it */
		struct mk_error err = { 0 };

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, data, size);
		left = size;
		for (int times = rand() % 4; times >= 0; times--)
			disturb(copy, &left);
		if (mk_yaml_parse(copy, left, &documents, &err) < 0) {
			ck_assert_msg(strncmp(err.text, "line ", 5) == 0, "%s", err.text);
			refused++;
		}
		if (json_parse(copy, left, &others, &err) < 0)
			ck_assert_msg(strncmp(err.text, "line ", 5) == 0, "%s", err.text);
	}
	ck_assert_uint_gt(refused, 0);
}
END_TEST

UNIT_SUITE("cluster_dir_yaml")
{
	TCase *tc = unit_case(suite, "parse", NULL, NULL);

	tcase_set_timeout(tc, 300);
	tcase_add_loop_test(tc, test_good, 0, MK_ARRAY_SIZE(good));
	tcase_add_loop_test(tc, test_bad, 0, MK_ARRAY_SIZE(bad));
	tcase_add_test(tc, test_lines);
	tcase_add_loop_test(tc, test_json, 0, MK_ARRAY_SIZE(json));
	tcase_add_loop_test(tc, test_depth, 0, 3);
	tcase_add_test(tc, test_billion_laughs);
	tcase_add_loop_test(tc, test_disturbed, 0, MK_ARRAY_SIZE(samples));
}

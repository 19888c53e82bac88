// SPDX-License-Identifier: Apache-2.0
/* The splitter: the answers of a real API server, cut at every place, give the same objects. Input
 * that is not JSON, too long or cut off is reported. Then the decoder, compared with json-c. */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/watch/decode.h"
#include "cluster/watch/reflector_internal.h"
#include "cluster/watch/resource.h"
#include "cluster/watch/splitter.h"
#include "unit/unit.h"

static struct {
	json_object *want; /* what the objects should be, in order */
	size_t seen;
	char document[4096];
	int documents, refuse_after;
	uint64_t hash; /* of all bytes handed over */
} fx;

static void mix(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		fx.hash = (fx.hash ^ (unsigned char)text[i]) * 0x100000001b3;
	fx.hash = (fx.hash ^ 0x100) * 0x100000001b3;
}

static int take_object(void *ctx, const char *text, size_t size, struct mk_error *err)
{
	(void)ctx;
	fx.seen++;
	mix(text, size);
	if (fx.refuse_after && fx.seen == (size_t)fx.refuse_after)
		return mk_error_set(err, ECANCELED, "enough");
	return 0;
}

static int take_document(void *ctx, const char *text, size_t size, struct mk_error *err)
{
	(void)ctx;
	(void)err;
	fx.documents++;
	snprintf(fx.document, sizeof(fx.document), "%.*s", (int)size, text);
	return 0;
}

static const struct mk_splitter_handler counting = { .object = take_object,
						     .document = take_document };

static void reset(void)
{
	fx.seen = 0;
	fx.hash = 0;
	fx.documents = 0;
	fx.document[0] = '\0';
}

static struct mk_splitter *make_splitter(enum mk_splitter_mode mode)
{
	struct mk_splitter *splitter = splitter_new(mode, &counting);

	ck_assert_ptr_nonnull(splitter);
	return splitter;
}

/* Feed @body in pieces: @first bytes, then @step at a time. */
static void feed(enum mk_splitter_mode mode, const char *body, size_t size, size_t first,
		 size_t step)
{
	struct mk_splitter *splitter = make_splitter(mode);
	struct mk_error err = { 0 };

	reset();
	for (size_t at = 0, piece = first; at < size; at += piece, piece = step) {
		if (piece > size - at)
			piece = size - at;
		ck_assert_msg(splitter_feed(splitter, body + at, piece, &err) == 0, "%s", err.text);
	}
	ck_assert_msg(splitter_end(splitter, &err) == 0, "%s", err.text);
	splitter_free(splitter);
}

static const struct {
	const char *name;
	enum mk_splitter_mode mode;
	size_t objects;
	bool every_cut; /* small enough for one run per byte */
} recordings[] = {
	{ "list-services-page1", MK_SPLIT_LIST, 10, true },
	{ "list-nodes", MK_SPLIT_LIST, 3, false },
	{ "list-servicecidrs", MK_SPLIT_LIST, 3, true },
	{ "list-services-empty", MK_SPLIT_LIST, 0, true },
	{ "list-endpointslices", MK_SPLIT_LIST, 69, false },
	{ "list-endpoints", MK_SPLIT_LIST, 45, false },
	{ "list-services", MK_SPLIT_LIST, 52, false },
	{ "watch-services", MK_SPLIT_EVENTS, 12, false },
	{ "watch-servicecidrs-75s", MK_SPLIT_EVENTS, 7, true },
	{ "watch-timeout-5s", MK_SPLIT_EVENTS, 0, true },
	{ "watchlist-services-empty", MK_SPLIT_EVENTS, 1, true },
	{ "watchlist-nodes", MK_SPLIT_EVENTS, 4, false },
	{ "gone-watch-cached", MK_SPLIT_EVENTS, 1, true },
	{ "watchlist-endpointslices-live", MK_SPLIT_EVENTS, 111, false },
	{ "watchlist-endpoints", MK_SPLIT_EVENTS, 61, false },
	{ "watch-endpoints", MK_SPLIT_EVENTS, 37, false },
	{ "list-services-proxy-selector", MK_SPLIT_LIST, 51, false },
	{ "gone-list-continue-inconsistent", MK_SPLIT_LIST, 10, false },
};

START_TEST(test_every_cut)
{
	cleanup_free char *body = NULL;
	uint64_t hash;
	size_t size;

	body = recording_body(recordings[_i].name, &size);
	feed(recordings[_i].mode, body, size, size, size);
	ck_assert_uint_eq(fx.seen, recordings[_i].objects);
	ck_assert_int_eq(fx.documents, recordings[_i].mode == MK_SPLIT_LIST);
	hash = fx.hash;
	for (size_t step = 1; step < 40; step += 6) {
		feed(recordings[_i].mode, body, size, step, step);
		ck_assert_msg(fx.hash == hash, "%s in pieces of %zu", recordings[_i].name, step);
	}
	for (size_t cut = 1; recordings[_i].every_cut && cut < size; cut++) {
		if (!unit_is_due((unsigned int)cut))
			continue;
		feed(recordings[_i].mode, body, size, cut, size);
		ck_assert_msg(fx.hash == hash, "%s cut at %zu", recordings[_i].name, cut);
	}
}
END_TEST

/* The answer breaks off: this is an error except between two objects of a watch. */
START_TEST(test_every_end)
{
	struct mk_splitter *splitter = make_splitter(recordings[_i].mode);
	cleanup_free char *body = NULL;
	bool list = recordings[_i].mode == MK_SPLIT_LIST, good;
	struct mk_error err;
	size_t size;

	body = recording_body(recordings[_i].name, &size);
	for (size_t end = 0; end < size; end++) {
		good = !list && (end == 0 || body[end - 1] == '\n' || body[end] == '\n');
		ck_assert_msg((splitter_end(splitter, &err) == 0) == good ||
				      (list && end == size - 1),
			      "%s ends at %zu of %zu", recordings[_i].name, end, size);
		ck_assert_int_eq(splitter_feed(splitter, &body[end], 1, &err), 0);
	}
	ck_assert_int_eq(splitter_end(splitter, &err), 0);
	splitter_free(splitter);
}
END_TEST

static const struct {
	const char *name, *text;
	enum mk_splitter_mode mode;
	size_t objects; /* handed over before it was noticed */
	const char *document; /* NULL: it fails */
} texts[] = {
	{ "items null", "{\"items\":null}", MK_SPLIT_LIST, 0, "{\"items\":null}" },
	{ "items elsewhere", "{\"metadata\":{\"items\":[{}]},\"items\":[{},{}]}\n", MK_SPLIT_LIST,
	  2, "{\"metadata\":{\"items\":[{}]},\"items\":[]}" },
	{ "the word as a value", "{\"a\":\"items\",\"b\":[{}]}", MK_SPLIT_LIST, 0,
	  "{\"a\":\"items\",\"b\":[{}]}" },
	{ "escapes", "{\"items\":[{\"a\":\"}\\\"]\\\\\"},{\"b\":\"\\u007d\"}]}", MK_SPLIT_LIST, 2,
	  "{\"items\":[]}" },
	{ "an item that is a number", "{\"items\":[{},1]}", MK_SPLIT_LIST, 1, NULL },
	{ "two lists", "{\"items\":[]}{\"items\":[]}", MK_SPLIT_LIST, 0, NULL },
	{ "an error page", "<html>", MK_SPLIT_LIST, 0, NULL },
	{ "closed before open", "]", MK_SPLIT_LIST, 0, NULL },
	{ "an error page for events", "502 Bad Gateway", MK_SPLIT_EVENTS, 0, NULL },
	{ "a list for events", "[{}]", MK_SPLIT_EVENTS, 0, NULL },
	{ "events without line ends", "{}{} {\"a\":[{}]}", MK_SPLIT_EVENTS, 3, "" },
};

START_TEST(test_text)
{
	struct mk_splitter *splitter = make_splitter(texts[_i].mode);
	struct mk_error err = { 0 };
	int ret;

	reset();
	ret = splitter_feed(splitter, texts[_i].text, strlen(texts[_i].text), &err);
	ck_assert_msg((ret == 0) == (texts[_i].document != NULL), "%s: %s", texts[_i].name,
		      err.text);
	ck_assert_uint_eq(fx.seen, texts[_i].objects);
	if (ret == 0)
		ck_assert_str_eq(fx.document, texts[_i].document);
	else
		ck_assert_int_lt(splitter_feed(splitter, "{}", 2, &err), 0);
	splitter_free(splitter);
}
END_TEST

START_TEST(test_too_long)
{
	struct mk_splitter *splitter = make_splitter(MK_SPLIT_EVENTS);
	cleanup_free char *piece = malloc(1 << 20);
	struct mk_error err;
	int ret;

	memset(piece, 'x', 1 << 20);
	ret = splitter_feed(splitter, "{\"a\":\"", 6, &err);
	for (int i = 0; ret == 0 && i < 20; i++)
		ret = splitter_feed(splitter, piece, 1 << 20, &err);
	ck_assert_int_eq(ret, -EFBIG);
	ck_assert_ptr_nonnull(strstr(err.text, "16 MiB"));
	splitter_free(splitter);
}
END_TEST

START_TEST(test_refused)
{
	struct mk_splitter *splitter = make_splitter(MK_SPLIT_EVENTS);
	struct mk_error err;

	reset();
	fx.refuse_after = 2;
	ck_assert_int_eq(splitter_feed(splitter, "{}{}{}", 6, &err), -ECANCELED);
	ck_assert_uint_eq(fx.seen, 2);
	ck_assert_str_eq(err.text, "enough");
	splitter_free(splitter);
}
END_TEST

/* ---- decoder --------------------------------------------------------------------------------- */

static struct mk_decoder *decoder;

/* Return @object without the resource's unused members, removed from the tree one by one. */
static void remove_path(json_object *object, const char *path)
{
	const char *dot = strchr(path, '.');
	cleanup_free char *key = dot ? strndup(path, (size_t)(dot - path)) : strdup(path);
	json_object *child;

	if (json_object_is_type(object, json_type_array)) {
		for (size_t i = 0; i < json_object_array_length(object); i++)
			remove_path(json_object_array_get_idx(object, i), path);
	} else if (json_object_is_type(object, json_type_object) && !dot) {
		json_object_object_del(object, key);
	} else if (json_object_object_get_ex(object, key, &child)) {
		remove_path(child, dot + 1);
	}
}

/* Remove from @object, which is at @path, all that is not on @kept. */
static void keep_paths(json_object *object, const char *const *kept, const char *path)
{
	if (json_object_is_type(object, json_type_array))
		for (size_t i = 0; i < json_object_array_length(object); i++)
			keep_paths(json_object_array_get_idx(object, i), kept, path);
	if (!json_object_is_type(object, json_type_object))
		return;
	json_object_object_foreach(object, key, child)
	{
		char below[512];
		bool whole = false, part = false;

		snprintf(below, sizeof(below), "%s%s%s", path, *path ? "." : "", key);
		for (const char *const *at = kept; *at; at++) {
			whole |= strcmp(*at, below) == 0;
			part |= strncmp(*at, below, strlen(below)) == 0 &&
				(*at)[strlen(below)] == '.';
		}
		if (part && !whole)
			keep_paths(child, kept, below);
		else if (!whole)
			json_object_object_del(object, key);
	}
}

static const char *member(json_object *object, const char *key)
{
	json_object *metadata = NULL, *value = NULL;

	json_object_object_get_ex(object, "metadata", &metadata);
	json_object_object_get_ex(metadata, key, &value);
	return value ? json_object_get_string(value) : NULL;
}

static void check_span(struct mk_span span, const char *want)
{
	ck_assert_int_eq(span.text != NULL, want != NULL);
	ck_assert(!want || span_is(span, want));
}

static int compare_object(void *ctx, const char *text, size_t size, struct mk_error *err)
{
	const struct mk_resource *resource = ctx;
	json_object *want = json_object_array_get_idx(fx.want, fx.seen++), *got;
	struct mk_span object = { text, size };
	struct mk_object_head head;

	ck_assert_msg(object_head_read(object, &head, err) == 0, "%s", err->text);
	check_span(head.name, member(want, "name"));
	check_span(head.namespace_, member(want, "namespace"));
	check_span(head.resource_version, member(want, "resourceVersion"));
	ck_assert_msg(decode_object(decoder, object, &got, err) == 0, "%s", err->text);
	for (const char *const *unused = resource->unused; unused && *unused; unused++)
		remove_path(want, *unused);
	if (resource->kept)
		keep_paths(want, resource->kept, "");
	ck_assert_msg(json_object_equal(want, got), "%s",
		      json_object_to_json_string_ext(got, JSON_C_TO_STRING_PRETTY));
	ck_assert_int_eq(decode_complete(got, "v9", "Thing", err), 0);
	ck_assert_ptr_nonnull(strstr(json_object_to_json_string(got), "\"Thing\""));
	json_object_put(got);
	return 0;
}

static const struct {
	const char *name;
	enum mk_resource_id resource;
} lists[] = {
	{ "list-nodes", MK_RESOURCE_NODES },
	{ "list-services", MK_RESOURCE_SERVICES },
	{ "list-servicecidrs", MK_RESOURCE_SERVICE_CIDRS },
	{ "list-endpointslices", MK_RESOURCE_ENDPOINT_SLICES },
	{ "list-endpoints", MK_RESOURCE_ENDPOINTS },
	{ "list-namespaces", MK_RESOURCE_NAMESPACES },
	{ "list-pods-of-node", MK_RESOURCE_PODS },
};

START_TEST(test_decode_list)
{
	const struct mk_resource *resource = mk_resource(lists[_i].resource);
	struct mk_splitter_handler handler = { .object = compare_object,
					       .document = take_document,
					       .ctx = (void *)(uintptr_t)resource };
	struct mk_splitter *splitter = splitter_new(MK_SPLIT_LIST, &handler);
	cleanup_free char *body = NULL;
	struct mk_error err = { 0 };
	json_object *whole;
	size_t size;

	body = recording_body(lists[_i].name, &size);
	whole = json_tokener_parse(body);
	ck_assert(json_object_object_get_ex(whole, "items", &fx.want));
	decoder = decoder_new(resource->unused, resource->kept);
	reset();
	ck_assert_msg(splitter_feed(splitter, body, size, &err) == 0, "%s", err.text);
	ck_assert_uint_eq(fx.seen, json_object_array_length(fx.want));
	decoder_free(decoder);
	splitter_free(splitter);
	json_object_put(whole);
}
END_TEST

static const char *const nothing[] = { NULL };
static const char *const unused_ab[] = { "a.b", NULL };
static const char *const kept_ab[] = { "a.b", "c", "d.e/f.g", NULL };

static const struct {
	const char *name, *text;
	const char *const *unused; /* kept_ab: what to keep */
	const char *want; /* NULL: refused */
} objects[] = {
	{ "as it is", "{ \"a\" : [ 1, {\"b\":2} ] }", NULL, "{\"a\":[1,{\"b\":2}]}" },
	{ "an empty list of members to leave out", "{\"a\":1}", nothing, "{\"a\":1}" },
	{ "first member left out", "{\"a\":{\"b\":1,\"c\":2}}", unused_ab, "{\"a\":{\"c\":2}}" },
	{ "last member left out", "{\"a\":{\"c\":2 , \"b\" : {\"x\":[]} } }", unused_ab,
	  "{\"a\":{\"c\":2}}" },
	{ "only member left out", "{\"a\":{\"b\":1}}", unused_ab, "{\"a\":{}}" },
	{ "in a list", "{\"a\":[{\"b\":1},{\"b\":2,\"c\":3},null,7,[{\"b\":1}]]}", unused_ab,
	  "{\"a\":[{},{\"c\":3},null,7,[{\"b\":1}]]}" },
	{ "the wrong type", "{\"a\":\"b\"}", unused_ab, "{\"a\":\"b\"}" },
	{ "another path of the same name", "{\"b\":1,\"c\":{\"b\":1},\"a\":{\"bb\":1}}", unused_ab,
	  "{\"b\":1,\"c\":{\"b\":1},\"a\":{\"bb\":1}}" },
	{ "empty key", "{\"\":{\"\":1},\"a\":{\"\":1}}", unused_ab,
	  "{\"\":{\"\":1},\"a\":{\"\":1}}" },
	{ "kept", "{\"x\":1,\"a\":{\"x\":2,\"b\":3,\"y\":4},\"c\":{\"x\":5},\"y\":6}", kept_ab,
	  "{\"a\":{\"b\":3},\"c\":{\"x\":5}}" },
	{ "kept in a list", "{\"a\":[{\"b\":1,\"x\":2},{\"x\":2},null,7,[{\"x\":1}]]}", kept_ab,
	  "{\"a\":[{\"b\":1},{},null,7,[{\"x\":1}]]}" },
	{ "kept, a key with dots", "{\"d\":{\"e/f.h\":1,\"e/f.g\":2,\"e\":3}}", kept_ab,
	  "{\"d\":{\"e\\/f.g\":2}}" },
	{ "nothing kept", "{\"x\":{\"a\":{\"b\":1}},\"ab\":1,\"\":2}", kept_ab, "{}" },
	{ "kept, the wrong type", "{\"a\":\"b\"}", kept_ab, "{\"a\":\"b\"}" },
	{ "wrong brackets in what is not kept", "{\"x\":[}", kept_ab, NULL },
	{ "wrong brackets", "{\"a\":[}", NULL, NULL },
	{ "wrong brackets inside", "{\"a\":{]}", NULL, NULL },
	{ "no value", "{\"a\":}", NULL, NULL },
	{ "no colon", "{\"a\" 1}", unused_ab, NULL },
	{ "comma at the end", "{\"a\":1,}", unused_ab, NULL },
	{ "not UTF-8", "{\"c\":\"\xff\"}", NULL, NULL },
	{ "a word", "{\"a\":nix}", unused_ab, NULL },
	{ "cut string", "{\"a\":\"x\\\"}", unused_ab, NULL },
	{ "not an object", "[]", NULL, NULL },
};

START_TEST(test_decode_object)
{
	struct mk_span object = { objects[_i].text, strlen(objects[_i].text) };
	struct mk_error err = { 0 };
	json_object *got;
	int ret;

	if (objects[_i].unused == kept_ab)
		decoder = decoder_new(NULL, kept_ab);
	else
		decoder = decoder_new(objects[_i].unused, NULL);
	ret = decode_object(decoder, object, &got, &err);
	ck_assert_msg((ret == 0) == (objects[_i].want != NULL), "%s: %s", objects[_i].name,
		      err.text);
	if (ret == 0)
		ck_assert_str_eq(json_object_to_json_string_ext(got, JSON_C_TO_STRING_PLAIN),
				 objects[_i].want);
	json_object_put(got);
	decoder_free(decoder);
}
END_TEST

/* Found by test/fuzz: such a key matched the path before the NUL, and bytes after that path's
 * end were read. */
START_TEST(test_decode_nul_in_key)
{
	static const char text[] = "{\"a\0\":1}", path[] = "a\0";
	static const char *const unused[] = { path, NULL };
	struct mk_error err = { 0 };
	json_object *got = NULL;

	decoder = decoder_new(unused, NULL);
	ck_assert_int_eq(decode_object(decoder, (struct mk_span){ text, sizeof(text) - 1 }, &got,
				       &err),
			 -EPROTO);
	json_object_put(got);
	decoder_free(decoder);
}
END_TEST

/* Deep nesting uses no stack while members are left out, and is refused. */
START_TEST(test_decode_deep)
{
	size_t size = 1 << 20;
	cleanup_free char *text = malloc(size + 8);
	struct mk_error err = { 0 };
	json_object *got;

	memcpy(text, "{\"a\":", 5);
	for (size_t i = 5; i < size; i++)
		text[i] = i % 2 ? '[' : ' ';
	decoder = decoder_new(unused_ab, NULL);
	ck_assert_int_eq(decode_object(decoder, (struct mk_span){ text, size }, &got, &err),
			 -EPROTO);
	for (size_t i = 0; i < size - 5; i++)
		text[5 + i] = "{\"b\":"[i % 5];
	ck_assert_int_eq(decode_object(decoder, (struct mk_span){ text, size }, &got, &err),
			 -EPROTO);
	decoder_free(decoder);
}
END_TEST

static const struct {
	const char *text, *type, *object; /* NULL: refused */
} events[] = {
	{ "{\"type\":\"ADDED\",\"object\":{\"a\":1}}", "ADDED", "{\"a\":1}" },
	{ "{ \"object\" : {} , \"x\":1, \"type\":\"BOOKMARK\" }", "BOOKMARK", "{}" },
	{ "{\"type\":\"ADDED\"}", NULL, NULL },
	{ "{\"object\":{}}", NULL, NULL },
	{ "{\"type\":1,\"object\":{}}", NULL, NULL },
	{ "{\"type\":\"ADDED\",\"object\":[]}", NULL, NULL },
	{ "{\"type\":\"ADDED\",\"object\":{},}", NULL, NULL },
	{ "{\"type\":\"ADDED\" \"object\":{}}", NULL, NULL },
};

START_TEST(test_event)
{
	struct mk_watch_event event;
	struct mk_error err;
	int ret = watch_event_read(events[_i].text, strlen(events[_i].text), &event, &err);

	ck_assert_msg((ret == 0) == (events[_i].type != NULL), "%s", events[_i].text);
	if (ret < 0)
		return;
	ck_assert(span_is(event.type, events[_i].type));
	ck_assert(span_is(event.object, events[_i].object));
}
END_TEST

static const struct {
	const char *text, *name, *version;
	int ret;
	bool end;
} heads[] = {
	{ "{\"kind\":\"X\",\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"7\"},\"spec\":", "n",
	  "7", 0, false },
	{ "{\"metadata\":{\"resourceVersion\":\"9\",\"annotations\":"
	  "{\"k8s.io/initial-events-end\":\"true\"}}}",
	  NULL, "9", 0, true },
	{ "{\"metadata\":{\"annotations\":null,\"name\":\"a\\u0062\"}}", NULL, NULL, 0, false },
	{ "{\"metadata\":{\"annotations\":{\"x\"}}}", NULL, NULL, -EPROTO, false },
	{ "{\"metadata\":[]}", NULL, NULL, -EPROTO, false },
	{ "{\"spec\":{}}", NULL, NULL, -EPROTO, false },
	{ "[]", NULL, NULL, -EPROTO, false },
};

START_TEST(test_head)
{
	struct mk_object_head head;
	struct mk_error err;
	struct mk_span object = { heads[_i].text, strlen(heads[_i].text) };

	ck_assert_int_eq(object_head_read(object, &head, &err), heads[_i].ret);
	if (heads[_i].ret < 0)
		return;
	check_span(head.name, heads[_i].name);
	check_span(head.resource_version, heads[_i].version);
	ck_assert_int_eq(head.initial_events_end, heads[_i].end);
}
END_TEST

/* Found by test/fuzz: names become C strings, so the bytes after the NUL were not compared. */
START_TEST(test_head_nul)
{
	static const char text[] = "{\"metadata\":{\"namespace\":\"a\0\",\"name\":\"n\"}}";
	struct mk_object_head head;
	struct mk_error err;

	ck_ok(object_head_read((struct mk_span){ text, sizeof(text) - 1 }, &head, &err));
	check_span(head.name, "n");
	ck_assert_ptr_null(head.namespace_.text);
}
END_TEST

/* ---- anything at all ------------------------------------------------------------------------- */

static int take_anything(void *ctx, const char *text, size_t size, struct mk_error *err)
{
	struct mk_watch_event event;
	struct mk_object_head head;
	json_object *tree = NULL;

	(void)ctx;
	if (watch_event_read(text, size, &event, err) < 0)
		event.object = (struct mk_span){ text, size };
	if (object_head_read(event.object, &head, err) == 0)
		fx.seen++;
	if (decode_object(decoder, event.object, &tree, err) == 0)
		ck_assert(json_object_is_type(tree, json_type_object));
	json_object_put(tree);
	return 0;
}

/* The same numbers each time. */
static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static void damage(char *body, size_t size, uint32_t *state)
{
	static const char bytes[] = "{}[]\",:\\ \n\xff"
				    "0";

	for (uint32_t i = next_random(state) % 4 + 1; i > 0; i--)
		body[next_random(state) % size] = bytes[next_random(state) % (sizeof(bytes) - 1)];
}

/* Bytes that a broken or hostile server could send: the behaviour must be defined. The
 * sanitizers check it. */
START_TEST(test_damaged)
{
	const struct mk_splitter_handler handler = { .object = take_anything,
						     .document = take_document };
	cleanup_free char *body = NULL, *copy = NULL;
	uint32_t state = (uint32_t)_i + 1;
	size_t size;

	body = recording_body(recordings[_i].name, &size);
	size = size > 20000 ? 20000 : size;
	copy = malloc(size + 1);
	decoder = decoder_new(mk_resource(MK_RESOURCE_ENDPOINT_SLICES)->unused, NULL);
	reset();
	for (int round = 0; size > 0 && round < 300; round++) {
		struct mk_splitter *splitter = splitter_new(recordings[_i].mode, &handler);
		struct mk_error err;
		int ret = 0;

		memcpy(copy, body, size);
		damage(copy, size, &state);
		for (size_t at = 0, piece = 0; ret == 0 && at < size; at += piece) {
			piece = next_random(&state) % 3000 + 1;
			piece = piece > size - at ? size - at : piece;
			ret = splitter_feed(splitter, copy + at, piece, &err);
		}
		if (ret == 0)
			ret = splitter_end(splitter, &err);
		splitter_free(splitter);
	}
	ck_assert(size == 0 || recordings[_i].objects == 0 || fx.seen > 0);
	decoder_free(decoder);
}
END_TEST

/* ---- requests -------------------------------------------------------------------------------- */

static const struct {
	enum mk_resource_id resource;
	struct mk_query query;
	const char *target;
} targets[] = {
	{ MK_RESOURCE_NODES, { .mode = MK_QUERY_LIST, .limit = 500 }, "/api/v1/nodes?limit=500" },
	{ MK_RESOURCE_NODES, { .mode = MK_QUERY_LIST }, "/api/v1/nodes" },
	{ MK_RESOURCE_NODES,
	  { .mode = MK_QUERY_LIST, .limit = 500, .continue_ = "a+/=&b" },
	  "/api/v1/nodes?limit=500&continue=a%2B%2F%3D%26b" },
	{ MK_RESOURCE_SERVICES,
	  { .mode = MK_QUERY_LIST, .limit = 500 },
	  "/api/v1/services?limit=500&labelSelector=%21service.kubernetes.io%2Fheadless%2C"
	  "%21service.kubernetes.io%2Fservice-proxy-name" },
	{ MK_RESOURCE_SERVICE_CIDRS,
	  { .mode = MK_QUERY_WATCH, .resource_version = "996", .timeout_s = 300 },
	  "/apis/networking.k8s.io/v1/servicecidrs?watch=1&allowWatchBookmarks=true"
	  "&timeoutSeconds=300&resourceVersion=996" },
	{ MK_RESOURCE_PODS,
	  { .mode = MK_QUERY_LIST, .field_selector = "spec.nodeName=a,status.podIP!=" },
	  "/api/v1/pods?fieldSelector=spec.nodeName%3Da%2Cstatus.podIP%21%3D" },
	{ MK_RESOURCE_NODES,
	  { .mode = MK_QUERY_STREAM, .timeout_s = 300 },
	  "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=300"
	  "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan" },
};

START_TEST(test_target)
{
	cleanup_free char *target =
		resource_target(mk_resource(targets[_i].resource), &targets[_i].query);

	ck_assert_str_eq(target, targets[_i].target);
}
END_TEST

UNIT_SUITE("kube_splitter")
{
	TCase *tcase = unit_case(suite, "kube_splitter", NULL, NULL);

	tcase_add_loop_test(tcase, test_every_cut, 0, MK_ARRAY_SIZE(recordings));
	tcase_add_loop_test(tcase, test_every_end, 0, MK_ARRAY_SIZE(recordings));
	tcase_add_loop_test(tcase, test_text, 0, MK_ARRAY_SIZE(texts));
	tcase_add_test(tcase, test_too_long);
	tcase_add_test(tcase, test_refused);
	tcase_add_loop_test(tcase, test_decode_list, 0, MK_ARRAY_SIZE(lists));
	tcase_add_loop_test(tcase, test_decode_object, 0, MK_ARRAY_SIZE(objects));
	tcase_add_test(tcase, test_decode_deep);
	tcase_add_test(tcase, test_decode_nul_in_key);
	tcase_add_test(tcase, test_head_nul);
	tcase_add_loop_test(tcase, test_damaged, 0, MK_ARRAY_SIZE(recordings));
	tcase_add_loop_test(tcase, test_event, 0, MK_ARRAY_SIZE(events));
	tcase_add_loop_test(tcase, test_head, 0, MK_ARRAY_SIZE(heads));
	tcase_add_loop_test(tcase, test_target, 0, MK_ARRAY_SIZE(targets));
}

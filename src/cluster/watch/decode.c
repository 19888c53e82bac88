// SPDX-License-Identifier: Apache-2.0
/* A cursor over bytes whose brackets are balanced (the splitter checks that) but that may not be
 * JSON. Every step checks the end, and unknown input is an error. */
#include "cluster/watch/decode.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/watch/scan.h"

#define MAX_PATH_CHARS 128

struct cursor {
	const char *at, *end;
	bool inside; /* a member of the present object was taken */
	bool broken; /* the text is not JSON */
};

struct mk_decoder {
	const char *const *unused, *const *kept; /* one of the two */
	json_tokener *tokener;
	char *reduced; /* the object without its unused members */
	size_t room, used;
};

bool span_is(struct mk_span span, const char *text)
{
	return span.text && span.size == strlen(text) && memcmp(span.text, text, span.size) == 0;
}

static void skip_space(struct cursor *cursor)
{
	while (cursor->at < cursor->end && is_space(*cursor->at))
		cursor->at++;
}

/* Skip white space and @byte. false: the next byte is another. */
static bool take(struct cursor *cursor, char byte)
{
	skip_space(cursor);
	if (cursor->at == cursor->end || *cursor->at != byte)
		return false;
	cursor->at++;
	return true;
}

/* @string is the text between the quotes. */
static bool take_string(struct cursor *cursor, struct mk_span *string)
{
	struct scan scan = { .in_string = true };

	if (!take(cursor, '"'))
		return false;
	string->text = cursor->at;
	cursor->at = scan_string(&scan, cursor->at, cursor->end);
	string->size = (size_t)(cursor->at - string->text) - !scan.in_string;
	return !scan.in_string;
}

static bool take_brackets(struct cursor *cursor)
{
	struct scan scan = { .depth = 1 };

	cursor->at = scan_brackets(&scan, cursor->at + 1, cursor->end, 0);
	return scan.depth == 0;
}

/* Take a value of any type. */
static bool take_value(struct cursor *cursor, struct mk_span *value)
{
	struct mk_span string;
	bool good;

	skip_space(cursor);
	value->text = cursor->at;
	if (cursor->at == cursor->end)
		return false;
	if (*cursor->at == '"') {
		good = take_string(cursor, &string);
	} else if (*cursor->at == '{' || *cursor->at == '[') {
		good = take_brackets(cursor);
	} else {
		while (cursor->at < cursor->end && !memchr(",]} \n\r\t", *cursor->at, 7))
			cursor->at++;
		good = cursor->at > value->text;
	}
	value->size = (size_t)(cursor->at - value->text);
	return good;
}

/* Take the next key of an object whose opening brace was taken. false: at its end, or broken. */
static bool take_key(struct cursor *cursor, struct mk_span *key)
{
	if (take(cursor, '}'))
		return false;
	cursor->broken = (cursor->inside && !take(cursor, ',')) || !take_string(cursor, key) ||
			 !take(cursor, ':');
	cursor->inside = true;
	return !cursor->broken;
}

static bool take_member(struct cursor *cursor, struct mk_span *key, struct mk_span *value)
{
	if (!take_key(cursor, key))
		return false;
	cursor->broken = !take_value(cursor, value);
	return !cursor->broken;
}

static struct cursor cursor_of(struct mk_span text)
{
	return (struct cursor){ .at = text.text, .end = text.text + text.size };
}

static int no_json(const char *what, struct mk_error *err)
{
	return mk_error_set(err, EPROTO, "%s is not a JSON object", what);
}

static struct mk_span string_of(struct mk_span value)
{
	struct mk_span none = { 0 };

	if (value.size < 2 || *value.text != '"' || memchr(value.text, '\\', value.size) ||
	    memchr(value.text, '\0', value.size))
		return none;
	return (struct mk_span){ value.text + 1, value.size - 2 };
}

int watch_event_read(const char *text, size_t size, struct mk_watch_event *event,
		     struct mk_error *err)
{
	struct cursor cursor = cursor_of((struct mk_span){ text, size });
	struct mk_span key, value;

	*event = (struct mk_watch_event){ 0 };
	if (!take(&cursor, '{'))
		return no_json("a watch event", err);
	while (take_member(&cursor, &key, &value)) {
		if (span_is(key, "type"))
			event->type = string_of(value);
		else if (span_is(key, "object"))
			event->object = value;
	}
	if (cursor.broken)
		return no_json("a watch event", err);
	if (!event->type.text || !event->object.text || *event->object.text != '{')
		return mk_error_set(err, EPROTO, "a watch event without type or object");
	return 0;
}

static bool read_annotations(struct cursor cursor, struct mk_object_head *head)
{
	struct mk_span key, value;

	if (!take(&cursor, '{'))
		return true; /* null */
	while (take_member(&cursor, &key, &value))
		if (span_is(key, "k8s.io/initial-events-end"))
			head->initial_events_end = span_is(string_of(value), "true");
	return !cursor.broken;
}

static bool read_metadata(struct cursor cursor, struct mk_object_head *head)
{
	struct mk_span key, value;

	if (!take(&cursor, '{'))
		return false;
	while (take_member(&cursor, &key, &value)) {
		if (span_is(key, "name"))
			head->name = string_of(value);
		else if (span_is(key, "namespace"))
			head->namespace_ = string_of(value);
		else if (span_is(key, "uid"))
			head->uid = string_of(value);
		else if (span_is(key, "resourceVersion"))
			head->resource_version = string_of(value);
		else if (span_is(key, "annotations") && !read_annotations(cursor_of(value), head))
			return false;
	}
	return !cursor.broken;
}

int object_head_read(struct mk_span object, struct mk_object_head *head, struct mk_error *err)
{
	struct cursor cursor = cursor_of(object);
	struct mk_span key, value;

	*head = (struct mk_object_head){ 0 };
	if (!take(&cursor, '{'))
		return no_json("an object", err);
	while (take_member(&cursor, &key, &value)) {
		if (span_is(key, "kind"))
			head->kind = string_of(value);
		if (!span_is(key, "metadata"))
			continue;
		/* the long rest is left to the decoder */
		return read_metadata(cursor_of(value), head)
			       ? 0
			       : no_json("the metadata of an object", err);
	}
	return cursor.broken ? no_json("an object", err)
			     : mk_error_set(err, EPROTO, "an object without metadata");
}

/* ---- leaving out unused members -------------------------------------------------------------- */

struct path {
	char text[MAX_PATH_CHARS];
	size_t length;
};

/* The output is never longer than the input, and the buffer has the input's size. */
static void put(struct mk_decoder *decoder, const char *text, size_t size)
{
	memcpy(decoder->reduced + decoder->used, text, size);
	decoder->used += size;
}

/* Append @key to @path. false: too long to be on any list. */
static bool path_push(struct path *path, struct mk_span key)
{
	size_t dot = path->length > 0;

	if (path->length + dot + key.size >= sizeof(path->text))
		return false;
	if (dot)
		path->text[path->length++] = '.';
	memcpy(path->text + path->length, key.text, key.size);
	path->length += key.size;
	path->text[path->length] = '\0';
	return true;
}

enum use { USE_ALL, USE_PART, USE_NONE };

/* Return @on_list if @path is on @list, USE_PART if a longer path is, @otherwise if none is. */
static enum use find_path(const char *const *list, const struct path *path, enum use on_list,
			  enum use otherwise)
{
	enum use use = otherwise;

	for (; *list; list++) {
		/* not strncmp(): it stops at a NUL, which a key may contain */
		if (strlen(*list) < path->length || memcmp(*list, path->text, path->length) != 0)
			continue;
		if ((*list)[path->length] == '\0')
			return on_list;
		if ((*list)[path->length] == '.')
			use = USE_PART;
	}
	return use;
}

static enum use use_of(const struct mk_decoder *decoder, struct path *path, struct mk_span key)
{
	bool fits = path_push(path, key);

	if (!decoder->kept && !decoder->unused)
		return USE_ALL;
	if (decoder->kept)
		return fits ? find_path(decoder->kept, path, USE_ALL, USE_NONE) : USE_NONE;
	return fits ? find_path(decoder->unused, path, USE_NONE, USE_ALL) : USE_ALL;
}

static bool reduce_value(struct mk_decoder *decoder, struct cursor *cursor, struct path *path,
			 bool lists);

static bool reduce_member(struct mk_decoder *decoder, struct cursor *cursor, struct mk_span key,
			  bool *empty, struct path path)
{
	enum use use = use_of(decoder, &path, key);
	struct mk_span value;

	if (use == USE_NONE)
		return take_value(cursor, &value);
	if (!*empty)
		put(decoder, ",", 1);
	*empty = false;
	put(decoder, key.text - 1, key.size + 2);
	put(decoder, ":", 1);
	if (use == USE_PART)
		return reduce_value(decoder, cursor, &path, true);
	if (!take_value(cursor, &value))
		return false;
	put(decoder, value.text, value.size);
	return true;
}

static bool reduce_object(struct mk_decoder *decoder, struct cursor *cursor,
			  const struct path *path)
{
	bool empty = true;
	struct mk_span key;

	put(decoder, "{", 1);
	cursor->inside = false;
	while (take_key(cursor, &key))
		if (!reduce_member(decoder, cursor, key, &empty, *path))
			return false;
	if (cursor->broken)
		return false; /* the output of a cut object could exceed the buffer */
	put(decoder, "}", 1);
	cursor->inside = true; /* of the object around this one */
	return true;
}

static bool reduce_list(struct mk_decoder *decoder, struct cursor *cursor, struct path *path)
{
	put(decoder, "[", 1);
	for (bool first = true; !take(cursor, ']'); first = false) {
		if (!first && !take(cursor, ','))
			return false;
		if (!first)
			put(decoder, ",", 1);
		if (!reduce_value(decoder, cursor, path, false))
			return false;
	}
	put(decoder, "]", 1);
	return true;
}

/* The recursion is bounded: objects nest only as deep as the paths on the decoder's list, and a
 * list directly within a list (@lists false) is copied unchanged. */
static bool reduce_value(struct mk_decoder *decoder, struct cursor *cursor, struct path *path,
			 bool lists)
{
	struct mk_span value;

	if (take(cursor, '{'))
		return reduce_object(decoder, cursor, path);
	if (lists && take(cursor, '['))
		return reduce_list(decoder, cursor, path);
	if (!take_value(cursor, &value))
		return false;
	put(decoder, value.text, value.size);
	return true;
}

static int reduce(struct mk_decoder *decoder, struct mk_span object, struct mk_error *err)
{
	struct cursor cursor = cursor_of(object);
	struct path path = { .length = 0 };
	char *grown;

	if (object.size > decoder->room) {
		grown = realloc(decoder->reduced, object.size);
		if (!grown)
			return mk_error_errno(err, ENOMEM, "buffer of %zu bytes", object.size);
		decoder->reduced = grown;
		decoder->room = object.size;
	}
	decoder->used = 0;
	return reduce_value(decoder, &cursor, &path, true) ? 0 : no_json("an object", err);
}

/* ---- decoding -------------------------------------------------------------------------------- */

struct mk_decoder *decoder_new(const char *const *unused, const char *const *kept)
{
	struct mk_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder)
		return NULL;
	decoder->unused = unused;
	decoder->kept = kept;
	decoder->tokener = json_tokener_new();
	if (!decoder->tokener) {
		free(decoder);
		return NULL;
	}
	json_tokener_set_flags(decoder->tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	return decoder;
}

void decoder_free(struct mk_decoder *decoder)
{
	if (!decoder)
		return;
	json_tokener_free(decoder->tokener);
	free(decoder->reduced);
	free(decoder);
}

int decode_object(struct mk_decoder *decoder, struct mk_span object, json_object **tree,
		  struct mk_error *err)
{
	enum json_tokener_error problem;
	int ret = reduce(decoder, object, err);

	*tree = NULL;
	if (ret < 0)
		return ret;
	json_tokener_reset(decoder->tokener);
	*tree = json_tokener_parse_ex(decoder->tokener, decoder->reduced, (int)decoder->used);
	problem = json_tokener_get_error(decoder->tokener);
	if (problem == json_tokener_success && json_object_is_type(*tree, json_type_object))
		return 0;
	json_object_put(mk_steal_ptr(*tree));
	return mk_error_set(err, EPROTO, "an object is not JSON: %s",
			    json_tokener_error_desc(problem));
}

static int set_missing(json_object *tree, const char *key, const char *value, struct mk_error *err)
{
	json_object *text;

	if (json_object_object_get_ex(tree, key, NULL))
		return 0;
	text = json_object_new_string(value);
	if (!text || json_object_object_add(tree, key, text) < 0) {
		json_object_put(text);
		return mk_error_errno(err, ENOMEM, "member '%s'", key);
	}
	return 0;
}

int decode_complete(json_object *tree, const char *api_version, const char *kind,
		    struct mk_error *err)
{
	int ret = set_missing(tree, "apiVersion", api_version, err);

	return ret < 0 ? ret : set_missing(tree, "kind", kind, err);
}

// SPDX-License-Identifier: Apache-2.0
/* Members of JSON trees: read untrusted ones, write new ones. */
#include "base/json.h"
#include "clusterset/fields.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VALUE_CHARS	80
#define NAME_CHARS	63 /* of a label */
#define PREFIX_CHARS	253 /* of a label's key */
#define KEY_CHARS	(PREFIX_CHARS + 1 + NAME_CHARS)
#define CONTINUED(byte) (((byte)&0xc0) == 0x80)

static const char *type_name(json_type type)
{
	static const char *const names[] = {
		[json_type_null] = "null",	   [json_type_boolean] = "true or false",
		[json_type_double] = "a fraction", [json_type_int] = "a whole number",
		[json_type_object] = "an object",  [json_type_array] = "a list",
		[json_type_string] = "a text",
	};

	return names[type];
}

/* Format scalars as escaped JSON, so that a line of the log stays one line. */
int field_wrong(const char *key, json_object *value, const char *expected, struct mk_error *err)
{
	json_type type = json_object_get_type(value);
	char text[VALUE_CHARS];

	if (!value)
		return mk_error_set(err, EINVAL, "%s is missing, expected %s", key, expected);
	if (type == json_type_object || type == json_type_array)
		snprintf(text, sizeof(text), "%s", type_name(type));
	else
		snprintf(text, sizeof(text), "%s", mk_json_line(value));
	return mk_error_set(err, EINVAL, "%s: value %s, expected %s", key, text, expected);
}

int field_member(json_object *parent, const char *key, json_type type, json_object **value,
		 struct mk_error *err)
{
	*value = NULL;
	json_object_object_get_ex(parent, key, value);
	if (!*value || json_object_is_type(*value, type))
		return 0;
	return field_wrong(key, *value, type_name(type), err);
}

int field_list(json_object *parent, const char *key, size_t max, json_object **list,
	       struct mk_error *err)
{
	int ret = field_member(parent, key, json_type_array, list, err);

	if (ret == 0 && mk_json_length(*list) > max)
		return mk_error_set(err, EINVAL, "%s: %zu elements, expected at most %zu", key,
				    mk_json_length(*list), max);
	return ret;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Return the length of the UTF-8 character at @at; 0: it is none. The shortest form, no
 * surrogates, at most U+10FFFF. */
static size_t character(const unsigned char *at)
{
	if (at[0] < 0x80)
		return 1;
	if (at[0] >= 0xc2 && at[0] <= 0xdf)
		return CONTINUED(at[1]) ? 2 : 0;
	if (at[0] >= 0xe0 && at[0] <= 0xef) {
		if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f))
			return 0;
		return CONTINUED(at[1]) && CONTINUED(at[2]) ? 3 : 0;
	}
	if (at[0] < 0xf0 || at[0] > 0xf4 || (at[0] == 0xf0 && at[1] < 0x90) ||
	    (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return CONTINUED(at[1]) && CONTINUED(at[2]) && CONTINUED(at[3]) ? 4 : 0;
}

bool is_plain_text(json_object *value, size_t max)
{
	const char *text = json_object_get_string(value);
	size_t length = strlen(text), step = 1;

	if (length > max || length != (size_t)json_object_get_string_len(value))
		return false;
	for (const unsigned char *at = (const unsigned char *)text; *at && step; at += step)
		step = character(at);
	return step > 0;
}

int field_text(json_object *parent, const char *key, size_t max, const char **text,
	       struct mk_error *err)
{
	char expected[80];
	json_object *value;
	int ret = field_member(parent, key, json_type_string, &value, err);

	*text = NULL;
	if (ret < 0 || !value)
		return ret;
	snprintf(expected, sizeof(expected), "UTF-8 of at most %zu bytes without NUL", max);
	if (!is_plain_text(value, max))
		return field_wrong(key, value, expected, err);
	*text = json_object_get_string(value);
	return 0;
}

int field_number(json_object *parent, const char *key, int64_t min, int64_t max, int64_t *number,
		 struct mk_error *err)
{
	char expected[80];
	json_object *value;
	int ret = field_member(parent, key, json_type_int, &value, err);

	if (ret < 0 || !value)
		return ret;
	snprintf(expected, sizeof(expected), "a number from %" PRId64 " to %" PRId64, min, max);
	if (json_object_get_int64(value) < min || json_object_get_int64(value) > max)
		return field_wrong(key, value, expected, err);
	*number = json_object_get_int64(value);
	return 0;
}

/* Letters and digits, and between them also '-', '_' and '.'. */
static bool is_qualified(const char *text, size_t length)
{
	if (length == 0 || length > NAME_CHARS || !isalnum((unsigned char)text[0]) ||
	    !isalnum((unsigned char)text[length - 1]))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("-_.", text[i]))
			return false;
	return true;
}

bool is_label_value(const char *text)
{
	return !*text || is_qualified(text, strlen(text));
}

/* A prefix is a DNS name. */
bool is_label_key(const char *text)
{
	const char *slash = strchr(text, '/'), *at = text;
	char label[NAME_CHARS + 1];

	if (!slash)
		return is_qualified(text, strlen(text));
	if (slash - text > PREFIX_CHARS)
		return false;
	for (; at <= slash; at += strlen(label) + 1) {
		size_t length = strcspn(at, "./");

		if (length > NAME_CHARS)
			return false;
		snprintf(label, sizeof(label), "%.*s", (int)length, at);
		if (!mk_is_dns_label(label))
			return false;
	}
	return is_qualified(slash + 1, strlen(slash + 1));
}

const char *text_at(json_object *tree, const char *first, const char *second)
{
	json_object *text = mk_json_member(mk_json_member(tree, first), second);

	return json_object_is_type(text, json_type_string) ? json_object_get_string(text) : NULL;
}

json_object *object_at(json_object *tree, const char *key)
{
	json_object *value = mk_json_member(tree, key);

	return json_object_is_type(value, json_type_object) ? value : NULL;
}

/* ---- new trees ------------------------------------------------------------------------------- */

static json_object *checked(struct maker *maker, json_object *value)
{
	maker->failed |= !value;
	return value;
}

json_object *make_object(struct maker *maker)
{
	return maker->failed ? NULL : checked(maker, json_object_new_object());
}

json_object *make_list(struct maker *maker)
{
	return maker->failed ? NULL : checked(maker, json_object_new_array());
}

void put(struct maker *maker, json_object *parent, const char *key, json_object *value)
{
	maker->failed |= !value || !parent;
	if (!maker->failed && json_object_object_add(parent, key, value) == 0)
		return;
	maker->failed = true;
	json_object_put(value);
}

void append(struct maker *maker, json_object *list, json_object *value)
{
	maker->failed |= !value || !list;
	if (!maker->failed && json_object_array_add(list, value) == 0)
		return;
	maker->failed = true;
	json_object_put(value);
}

void put_text(struct maker *maker, json_object *parent, const char *key, const char *text)
{
	if (text && !maker->failed)
		put(maker, parent, key, json_object_new_string(text));
}

void put_number(struct maker *maker, json_object *parent, const char *key, int64_t number)
{
	if (!maker->failed)
		put(maker, parent, key, json_object_new_int64(number));
}

void put_bool(struct maker *maker, json_object *parent, const char *key, bool yes)
{
	if (!maker->failed)
		put(maker, parent, key, json_object_new_boolean(yes));
}

void append_text(struct maker *maker, json_object *list, const char *text)
{
	if (!maker->failed)
		append(maker, list, json_object_new_string(text));
}

json_object *made(struct maker *maker, json_object *tree)
{
	if (!maker->failed)
		return tree;
	json_object_put(tree);
	return NULL;
}

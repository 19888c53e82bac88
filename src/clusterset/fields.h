/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusterset/fields.h - read members of an untrusted JSON tree, and write members of a new one;
 * private to this folder. Absent and null are equal and no error. A wrong member is an error,
 * whose text names member, value and expectation; callers put the path in front. */
#ifndef MK_CLUSTERSET_FIELDS_H
#define MK_CLUSTERSET_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"
#include "base/json.h"

/* Set the error "@key: value ..., expected @expected". Returns -EINVAL. */
int field_wrong(const char *key, json_object *value, const char *expected, struct mk_error *err);

/* Get member @key of @parent. If it exists, it must have @type; otherwise *@value is NULL. */
mk_must_check int field_member(json_object *parent, const char *key, json_type type,
			       json_object **value, struct mk_error *err);
/* Get the list @key; it has at most @max elements. */
mk_must_check int field_list(json_object *parent, const char *key, size_t max, json_object **list,
			     struct mk_error *err);
/* Get the text @key, which belongs to the tree: valid UTF-8 of at most @max bytes, without NUL.
 * NULL: absent. */
mk_must_check int field_text(json_object *parent, const char *key, size_t max, const char **text,
			     struct mk_error *err);
/* Absent: *@number stays. */
mk_must_check int field_number(json_object *parent, const char *key, int64_t min, int64_t max,
			       int64_t *number, struct mk_error *err);

/* Is @value a text as field_text() wants it? */
bool is_plain_text(json_object *value, size_t max);
/* The value of a label: at most 63 letters, digits, '-', '_' and '.'. */
bool is_label_value(const char *text);
/* The key of a label or annotation, with or without a prefix. */
bool is_label_key(const char *text);

/* Return the text at a path of members; NULL: there is none. */
const char *text_at(json_object *tree, const char *first, const char *second);
/* Return the object at @key; NULL: there is none. */
json_object *object_at(json_object *tree, const char *key);

/* A tree in the making. A step without memory sets @failed, and the following do nothing. */
struct maker {
	bool failed;
};

json_object *make_object(struct maker *maker);
json_object *make_list(struct maker *maker);
/* Add @value, which belongs to @parent from here. */
void put(struct maker *maker, json_object *parent, const char *key, json_object *value);
void append(struct maker *maker, json_object *list, json_object *value);
/* NULL: nothing is added. */
void put_text(struct maker *maker, json_object *parent, const char *key, const char *text);
void put_number(struct maker *maker, json_object *parent, const char *key, int64_t number);
void put_bool(struct maker *maker, json_object *parent, const char *key, bool yes);
void append_text(struct maker *maker, json_object *list, const char *text);
/* Return @tree; NULL if a step failed: then @tree is released. */
json_object *made(struct maker *maker, json_object *tree);

#endif

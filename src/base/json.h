/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/json.h - json-c objects that release themselves at the end of their scope, reads of
 * trees of any shape, and the syntax of names. */
#ifndef MK_BASE_JSON_H
#define MK_BASE_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <string.h>

#define MK_DNS_LABEL_CHARS 63

static inline void mk_cleanup_json(json_object **object)
{
	json_object_put(*object);
}
#define cleanup_json __attribute__((cleanup(mk_cleanup_json)))

/* Return member @key of @of; NULL: there is none, or @of is no object. */
static inline json_object *mk_json_member(json_object *of, const char *key)
{
	json_object *value = NULL;

	return json_object_is_type(of, json_type_object) &&
			       json_object_object_get_ex(of, key, &value)
		       ? value
		       : NULL;
}

/* Return the text of a member, which belongs to the tree; "": there is none. */
static inline const char *mk_json_text(json_object *of, const char *key)
{
	json_object *value = mk_json_member(of, key);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
}

/* The same of a number and of a boolean; 0: there is none. */
static inline int64_t mk_json_number(json_object *of, const char *key)
{
	return json_object_get_int64(mk_json_member(of, key));
}

static inline bool mk_json_flag(json_object *of, const char *key)
{
	return json_object_get_boolean(mk_json_member(of, key));
}

/* Return the number of elements; 0: @list is no list. */
static inline size_t mk_json_length(json_object *list)
{
	return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

/* Return element @index; NULL: the list, if it is one, is shorter. */
static inline json_object *mk_json_at(json_object *list, size_t index)
{
	return index < mk_json_length(list) ? json_object_array_get_idx(list, index) : NULL;
}

/* Return the condition @type of an object's status; NULL: there is none. */
static inline json_object *mk_json_condition(json_object *status, const char *type)
{
	json_object *list = mk_json_member(status, "conditions");

	for (size_t i = 0; i < mk_json_length(list); i++)
		if (strcmp(mk_json_text(json_object_array_get_idx(list, i), "type"), type) == 0)
			return json_object_array_get_idx(list, i);
	return NULL;
}

/* Return @tree as one line, a text that belongs to it. NULL: no memory. */
static inline const char *mk_json_line(json_object *tree)
{
	return json_object_to_json_string_ext(tree, JSON_C_TO_STRING_PLAIN |
							    JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* Return a text of an object's metadata, such as its name. */
static inline const char *mk_json_metadata(json_object *object, const char *key)
{
	return mk_json_text(mk_json_member(object, "metadata"), key);
}

/* Add a member. Without memory its value is null. Text NULL: null. */
static inline void mk_put_text(json_object *to, const char *key, const char *text)
{
	json_object_object_add(to, key, text ? json_object_new_string(text) : NULL);
}

static inline void mk_put_number(json_object *to, const char *key, uint64_t number)
{
	json_object_object_add(to, key, json_object_new_uint64(number));
}

static inline void mk_put_flag(json_object *to, const char *key, bool flag)
{
	json_object_object_add(to, key, json_object_new_boolean(flag));
}

/* Is @text a label of RFC 1123, as names of Services and clusters are? */
static inline bool mk_is_dns_label(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length <= MK_DNS_LABEL_CHARS &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == length && text[0] != '-' &&
	       text[length - 1] != '-';
}

#endif

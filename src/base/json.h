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

/* The same of an object's metadata, such as its name. */
static inline const char *mk_json_metadata(json_object *object, const char *key)
{
	return mk_json_text(mk_json_member(object, "metadata"), key);
}

static inline void mk_json_add_text(json_object *to, const char *key, const char *text)
{
	json_object_object_add(to, key, json_object_new_string(text));
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

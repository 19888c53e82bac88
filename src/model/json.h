/* SPDX-License-Identifier: Apache-2.0 */
/* src/model/json.h - read members of a JSON tree that anybody may have written; private to
 * src/model. Absent and null are the same and no error; the wrong type is one, and its text
 * names the path, the value and what was expected: `spec.ports[1].port: value 0, expected ...`. */
#ifndef MK_MODEL_JSON_H
#define MK_MODEL_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"

/* A place in the tree. Points to its parent, which has to live as long. */
struct mk_json {
	json_object *value; /* NULL: absent */
	const struct mk_json *parent; /* NULL: the whole object */
	const char *key; /* NULL: element of a list */
	size_t index;
};

/* "@at: value ..., expected @expected". Returns -EINVAL. */
int mk_json_wrong(const struct mk_json *at, const char *expected, struct mk_error *err);

/* Member @key of the object at @parent, which has to be of @type if it is there. */
mk_must_check int mk_json_member(const struct mk_json *parent, const char *key, json_type type,
				 struct mk_json *child, struct mk_error *err);
/* Element @index of the list at @parent; null is an error here. */
mk_must_check int mk_json_item(const struct mk_json *parent, size_t index, json_type type,
			       struct mk_json *child, struct mk_error *err);
/* Elements of the list at @list, 0 if it is absent. */
size_t mk_json_length(const struct mk_json *list);
/* What the text at @at says, NULL if it is absent. Belongs to the tree. */
static inline const char *mk_json_string(const struct mk_json *at)
{
	return at->value ? json_object_get_string(at->value) : NULL;
}

/* The text of a member; NULL: absent. Belongs to the tree. */
mk_must_check int mk_json_text(const struct mk_json *parent, const char *key, const char **text,
			       struct mk_error *err);
/* Absent members leave *@yes and *@number as they are. */
mk_must_check int mk_json_bool(const struct mk_json *parent, const char *key, bool *yes,
			       struct mk_error *err);
mk_must_check int mk_json_number(const struct mk_json *parent, const char *key, int64_t min,
				 int64_t max, int64_t *number, struct mk_error *err);
/* The text at @at as an address of one host: not unspecified, loopback, multicast or broadcast. */
mk_must_check int mk_json_ip(const struct mk_json *at, struct mk_ip *ip, struct mk_error *err);
/* And not link-local either: what only the node itself may reach, such as a cloud's metadata, no
 * Service may lead to, nor take the place of by itself (the API server refuses it, too:
 * ValidateNonSpecialIP). */
mk_must_check int mk_json_routed_ip(const struct mk_json *at, struct mk_ip *ip,
				    struct mk_error *err);
/* What of an object nobody can use, while the rest of it counts, is kept as a text, the caller's to
 * free: append what @why says to *@passed_over (NULL: nothing yet), up to a bound. */
mk_must_check int mk_pass_over(char **passed_over, const struct mk_error *why,
			       struct mk_error *err);
/* "TCP", "UDP", "SCTP" -> IPPROTO_*; absent: TCP. */
mk_must_check int mk_json_protocol(const struct mk_json *parent, uint8_t *proto,
				   struct mk_error *err);

/* Is there a label @key, and what does it say? */
mk_must_check int mk_json_label(const struct mk_json *object, const char *key, const char **value,
				struct mk_error *err);

#endif

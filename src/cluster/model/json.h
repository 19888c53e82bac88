/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/json.h - read members of an untrusted JSON tree; private to this folder. Absent
 * and null are equal and no error. A wrong type is an error, whose text names path, value and
 * expectation: `spec.ports[1].port: value 0, expected ...`. */
#ifndef MK_CLUSTER_MODEL_JSON_H
#define MK_CLUSTER_MODEL_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"

/* A place in the tree. It points to its parent, which must live as long. */
struct mk_json {
	json_object *value; /* NULL: absent */
	const struct mk_json *parent; /* NULL: the whole object */
	const char *key; /* NULL: element of a list */
	size_t index;
};

/* Set the error "@at: value ..., expected @expected". Returns -EINVAL. */
int tree_wrong(const struct mk_json *at, const char *expected, struct mk_error *err);

/* Get member @key of the object at @parent. If it exists, it must have @type. */
mk_must_check int tree_member(const struct mk_json *parent, const char *key, json_type type,
			      struct mk_json *child, struct mk_error *err);
/* Get element @index of the list at @parent; null is an error here. */
mk_must_check int tree_item(const struct mk_json *parent, size_t index, json_type type,
			    struct mk_json *child, struct mk_error *err);
/* Return the number of elements of the list at @list, 0 if it is absent. */
size_t tree_length(const struct mk_json *list);
/* Return the text at @at, which belongs to the tree; NULL: absent. */
static inline const char *mk_json_string(const struct mk_json *at)
{
	return at->value ? json_object_get_string(at->value) : NULL;
}

/* Get the text of a member, which belongs to the tree; NULL: absent. */
mk_must_check int tree_text(const struct mk_json *parent, const char *key, const char **text,
			    struct mk_error *err);
/* Absent members leave *@yes and *@number unchanged. */
mk_must_check int tree_bool(const struct mk_json *parent, const char *key, bool *yes,
			    struct mk_error *err);
mk_must_check int tree_number(const struct mk_json *parent, const char *key, int64_t min,
			      int64_t max, int64_t *number, struct mk_error *err);
/* Parse the text at @at as the address of one host: not unspecified, loopback,
 * multicast or broadcast. */
mk_must_check int tree_ip(const struct mk_json *at, struct mk_ip *ip, struct mk_error *err);
/* Also refuse link-local addresses. Only the node itself may reach them, such as a cloud's
 * metadata. So no Service may lead to one, or have one as its address. The API server refuses them
 * too (ValidateNonSpecialIP). */
mk_must_check int tree_routed_ip(const struct mk_json *at, struct mk_ip *ip, struct mk_error *err);
/* Append the text of @why to *@passed_over, up to a bound. The text lists the unusable parts of an
 * object whose other parts count. NULL: none yet; the caller frees it. */
mk_must_check int pass_over(char **passed_over, const struct mk_error *why, struct mk_error *err);
/* Read "TCP", "UDP" or "SCTP" as IPPROTO_*; absent: TCP. */
mk_must_check int tree_protocol(const struct mk_json *parent, uint8_t *proto, struct mk_error *err);

/* Refuse members of the object at @at that are not among @names. */
mk_must_check int tree_known(const struct mk_json *at, const char *const names[], size_t count,
			     struct mk_error *err);
#define TREE_KNOWN(at, err, ...)                             \
	tree_known(at, (const char *const[]){ __VA_ARGS__ }, \
		   sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *), err)

/* Read one of @count @words, as its index. Absent: *@index stays. */
mk_must_check int tree_word(const struct mk_json *parent, const char *key,
			    const char *const words[], size_t count, const char *expected,
			    size_t *index, struct mk_error *err);
/* Get the list of member @key, with at most @max entries. */
mk_must_check int tree_list(const struct mk_json *parent, const char *key, size_t max,
			    struct mk_json *list, struct mk_error *err);
/* Read metadata.creationTimestamp, in seconds; 0: none, or no time. */
mk_must_check int tree_created(const struct mk_json *object, int64_t *unix_s, struct mk_error *err);

/* A label of RFC 1123. */
#define MK_DNS_LABEL "lower case letters, digits and '-', at most 63"

/* Get the value of the label @key; NULL: absent. */
mk_must_check int tree_label(const struct mk_json *object, const char *key, const char **value,
			     struct mk_error *err);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "cluster/model/json.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/time.h"

#define PATH_CHARS  160
#define VALUE_CHARS 80

#define PASSED_OVER_CHARS 400 /* some addresses; a slice may have a thousand */

static const char *type_name(json_type type)
{
	switch (type) {
	case json_type_object:
		return "an object";
	case json_type_array:
		return "a list";
	case json_type_string:
		return "a text";
	case json_type_boolean:
		return "true or false";
	case json_type_int:
		return "a whole number";
	case json_type_double:
		return "a number with fraction";
	case json_type_null:
		break;
	}
	return "null";
}

/* Append the path of @at to @path. Returns the number of characters used. */
static size_t path_format(const struct mk_json *at, char *path, size_t size)
{
	size_t used = at->parent ? path_format(at->parent, path, size) : 0;
	int more = 0;

	if (!at->parent || used >= size)
		return used;
	if (at->key)
		more = snprintf(path + used, size - used, "%s%s", used ? "." : "", at->key);
	else
		more = snprintf(path + used, size - used, "[%zu]", at->index);
	return used + (size_t)more;
}

/* Format scalars as escaped JSON, so that a line of the log stays one line. */
static void value_format(json_object *value, char *buf, size_t size)
{
	json_type type = json_object_get_type(value);

	if (type == json_type_object || type == json_type_array || !value)
		snprintf(buf, size, "%s", type_name(type));
	else
		snprintf(buf, size, "%s", mk_json_line(value));
}

int tree_wrong(const struct mk_json *at, const char *expected, struct mk_error *err)
{
	char path[PATH_CHARS] = "", value[VALUE_CHARS];

	path_format(at, path, sizeof(path));
	if (!at->value)
		return mk_error_set(err, EINVAL, "%s is missing, expected %s", path, expected);
	value_format(at->value, value, sizeof(value));
	return mk_error_set(err, EINVAL, "%s: value %s, expected %s", path, value, expected);
}

/* JSON texts may contain a NUL, which would end a C string. */
static int check_type(const struct mk_json *at, json_type type, struct mk_error *err)
{
	if (!json_object_is_type(at->value, type))
		return tree_wrong(at, type_name(type), err);
	if (type == json_type_string && strlen(json_object_get_string(at->value)) !=
						(size_t)json_object_get_string_len(at->value))
		return tree_wrong(at, "a text without NUL", err);
	return 0;
}

int tree_member(const struct mk_json *parent, const char *key, json_type type,
		struct mk_json *child, struct mk_error *err)
{
	*child = (struct mk_json){ .parent = parent, .key = key };
	if (parent->value)
		json_object_object_get_ex(parent->value, key, &child->value);
	return child->value ? check_type(child, type, err) : 0;
}

int tree_item(const struct mk_json *parent, size_t index, json_type type, struct mk_json *child,
	      struct mk_error *err)
{
	*child = (struct mk_json){ .parent = parent, .index = index };
	child->value = json_object_array_get_idx(parent->value, index);
	return check_type(child, type, err);
}

size_t tree_length(const struct mk_json *list)
{
	return list->value ? json_object_array_length(list->value) : 0;
}

int tree_text(const struct mk_json *parent, const char *key, const char **text,
	      struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(parent, key, json_type_string, &at, err);

	*text = ret == 0 ? mk_json_string(&at) : NULL;
	return ret;
}

int tree_bool(const struct mk_json *parent, const char *key, bool *yes, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(parent, key, json_type_boolean, &at, err);

	if (ret == 0 && at.value)
		*yes = json_object_get_boolean(at.value);
	return ret;
}

int tree_number(const struct mk_json *parent, const char *key, int64_t min, int64_t max,
		int64_t *number, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(parent, key, json_type_int, &at, err);
	char expected[64];
	int64_t value;

	if (ret < 0 || !at.value)
		return ret;
	value = json_object_get_int64(at.value);
	if (value < min || value > max) {
		snprintf(expected, sizeof(expected), "a number from %" PRId64 " to %" PRId64, min,
			 max);
		return tree_wrong(&at, expected, err);
	}
	*number = value;
	return 0;
}

static bool is_special(const struct mk_ip *ip)
{
	uint32_t v4 = ntohl(ip->v4.s_addr);

	if (ip->family == AF_INET)
		return v4 == INADDR_ANY || v4 == INADDR_BROADCAST || v4 >> 24 == IN_LOOPBACKNET ||
		       IN_MULTICAST(v4);
	return IN6_IS_ADDR_UNSPECIFIED(&ip->v6) || IN6_IS_ADDR_LOOPBACK(&ip->v6) ||
	       IN6_IS_ADDR_MULTICAST(&ip->v6);
}

static bool is_link_local(const struct mk_ip *ip)
{
	if (ip->family == AF_INET)
		return ntohl(ip->v4.s_addr) >> 16 == 0xa9fe; /* 169.254.0.0/16 */
	return IN6_IS_ADDR_LINKLOCAL(&ip->v6);
}

int tree_ip(const struct mk_json *at, struct mk_ip *ip, struct mk_error *err)
{
	if (!at->value || mk_ip_parse_lenient(mk_json_string(at), ip) < 0)
		return tree_wrong(at, "an IP address", err);
	if (is_special(ip))
		return tree_wrong(
			at, "an address that is not unspecified, loopback, multicast or broadcast",
			err);
	return 0;
}

int tree_routed_ip(const struct mk_json *at, struct mk_ip *ip, struct mk_error *err)
{
	int ret = tree_ip(at, ip, err);

	if (ret == 0 && is_link_local(ip))
		return tree_wrong(at, "an address that is not link-local", err);
	return ret;
}

int pass_over(char **passed_over, const struct mk_error *why, struct mk_error *err)
{
	char *old = *passed_over, *text = NULL;
	int ret = 0;

	if (!old)
		ret = (text = strdup(why->text)) ? 0 : -1;
	else if (strlen(old) < PASSED_OVER_CHARS)
		ret = asprintf(&text, "%s; %s", old, why->text);
	else if (strcmp(old + strlen(old) - 3, "...") != 0)
		ret = asprintf(&text, "%s; ...", old);
	else
		return 0;
	if (ret < 0)
		return mk_error_errno(err, ENOMEM, "list of skipped parts");
	free(old);
	*passed_over = text;
	return 0;
}

int tree_protocol(const struct mk_json *parent, uint8_t *proto, struct mk_error *err)
{
	static const struct {
		const char *name;
		uint8_t proto;
	} protocols[] = { { "TCP", IPPROTO_TCP },
			  { "UDP", IPPROTO_UDP },
			  { "SCTP", IPPROTO_SCTP } };
	struct mk_json at;
	int ret = tree_member(parent, "protocol", json_type_string, &at, err);

	*proto = IPPROTO_TCP;
	if (ret < 0 || !at.value)
		return ret;
	for (size_t i = 0; i < MK_ARRAY_SIZE(protocols); i++) {
		if (strcmp(json_object_get_string(at.value), protocols[i].name) == 0) {
			*proto = protocols[i].proto;
			return 0;
		}
	}
	return tree_wrong(&at, "TCP, UDP or SCTP", err);
}

int tree_label(const struct mk_json *object, const char *key, const char **value,
	       struct mk_error *err)
{
	struct mk_json metadata, labels;
	int ret = tree_member(object, "metadata", json_type_object, &metadata, err);

	*value = NULL;
	ret = ret ?: tree_member(&metadata, "labels", json_type_object, &labels, err);
	return ret < 0 ? ret : tree_text(&labels, key, value, err);
}

int tree_known(const struct mk_json *at, const char *const names[], size_t count,
	       struct mk_error *err)
{
	char expected[160] = "no such field; known are";

	for (size_t i = 0; i < count; i++) {
		strncat(expected, i > 0 ? ", " : " ", sizeof(expected) - strlen(expected) - 1);
		strncat(expected, names[i], sizeof(expected) - strlen(expected) - 1);
	}
	if (!at->value)
		return 0;
	json_object_object_foreach(at->value, key, value)
	{
		const struct mk_json member = { .value = value, .parent = at, .key = key };
		size_t i = 0;

		while (i < count && strcmp(key, names[i]) != 0)
			i++;
		if (value && i == count)
			return tree_wrong(&member, expected, err);
	}
	return 0;
}

int tree_word(const struct mk_json *parent, const char *key, const char *const words[],
	      size_t count, const char *expected, size_t *index, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(parent, key, json_type_string, &at, err);

	if (ret < 0 || !at.value)
		return ret;
	for (size_t i = 0; i < count; i++)
		if (strcmp(mk_json_string(&at), words[i]) == 0) {
			*index = i;
			return 0;
		}
	return tree_wrong(&at, expected, err);
}

int tree_list(const struct mk_json *parent, const char *key, size_t max, struct mk_json *list,
	      struct mk_error *err)
{
	int ret = tree_member(parent, key, json_type_array, list, err);
	char expected[48];

	if (ret < 0 || tree_length(list) <= max)
		return ret;
	snprintf(expected, sizeof(expected), "at most %zu entries", max);
	return tree_wrong(list, expected, err);
}

int tree_created(const struct mk_json *object, int64_t *unix_s, struct mk_error *err)
{
	struct mk_json metadata;
	const char *created = NULL;
	int64_t unix_ns = 0;
	int ret = tree_member(object, "metadata", json_type_object, &metadata, err);

	ret = ret ?: tree_text(&metadata, "creationTimestamp", &created, err);
	*unix_s = created && mk_time_parse(created, &unix_ns) == 0 ? unix_ns / MK_NS_PER_S : 0;
	return ret;
}

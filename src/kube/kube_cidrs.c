// SPDX-License-Identifier: Apache-2.0
#include "kube/kube_cidrs.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"

/* An object has one range per family at most. */
struct range {
	char *name;
	struct mk_cidr cidr;
	struct range *prev, *next;
};

struct mk_kube_cidrs {
	struct range *ranges;
};

struct mk_kube_cidrs *mk_kube_cidrs_new(void)
{
	return calloc(1, sizeof(struct mk_kube_cidrs));
}

static void range_free(struct mk_kube_cidrs *cidrs, struct range *range)
{
	DL_DELETE(cidrs->ranges, range);
	free(range->name);
	free(range);
}

void mk_kube_cidrs_free(struct mk_kube_cidrs *cidrs)
{
	if (!cidrs)
		return;
	while (cidrs->ranges)
		range_free(cidrs, cidrs->ranges);
	free(cidrs);
}

static struct range *find(const struct mk_kube_cidrs *cidrs, const char *name)
{
	struct range *range;

	DL_FOREACH(cidrs->ranges, range)
		if (strcmp(range->name, name) == 0)
			return range;
	return NULL;
}

static json_object *member(json_object *object, const char *key, json_type type)
{
	json_object *value = NULL;

	if (json_object_is_type(object, json_type_object))
		json_object_object_get_ex(object, key, &value);
	return json_object_is_type(value, type) ? value : NULL;
}

/* The IPv4 range in spec.cidrs; family AF_UNSPEC: none. */
static int read_cidr(json_object *tree, const char *name, struct mk_cidr *cidr,
		     struct mk_error *err)
{
	json_object *list =
		member(member(tree, "spec", json_type_object), "cidrs", json_type_array);
	struct mk_cidr one;

	*cidr = (struct mk_cidr){ .ip.family = AF_UNSPEC };
	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		const char *text = json_object_get_string(json_object_array_get_idx(list, i));

		if (!text || mk_cidr_parse(text, &one) < 0)
			return mk_error_set(err, EINVAL,
					    "ServiceCIDR %s: spec.cidrs[%zu]: value '%s', expected "
					    "a range such as 10.96.0.0/16",
					    name, i, text ? text : "null");
		if (one.ip.family == AF_INET)
			*cidr = one;
	}
	return 0;
}

int mk_kube_cidrs_apply(struct mk_kube_cidrs *cidrs, json_object *tree, struct mk_error *err)
{
	json_object *name_value =
		member(member(tree, "metadata", json_type_object), "name", json_type_string);
	const char *name = name_value ? json_object_get_string(name_value) : "";
	struct range *range = find(cidrs, name);
	struct mk_cidr cidr;
	int ret = read_cidr(tree, name, &cidr, err);

	if (ret < 0)
		return ret;
	if (cidr.ip.family == AF_UNSPEC)
		return mk_kube_cidrs_remove(cidrs, name);
	if (range && mk_cidr_equal(&range->cidr, &cidr))
		return 0;
	if (!range) {
		range = calloc(1, sizeof(*range));
		if (!range || !(range->name = strdup(name))) {
			free(range);
			return mk_error_errno(err, ENOMEM, "ServiceCIDR %s", name);
		}
		DL_APPEND(cidrs->ranges, range);
	}
	range->cidr = cidr;
	return 1;
}

bool mk_kube_cidrs_remove(struct mk_kube_cidrs *cidrs, const char *name)
{
	struct range *range = find(cidrs, name);

	if (range)
		range_free(cidrs, range);
	return range != NULL;
}

int mk_kube_cidrs_list(const struct mk_kube_cidrs *cidrs, struct mk_cidr **list, size_t *count)
{
	struct range *range;

	DL_COUNT(cidrs->ranges, range, *count);
	*list = calloc(*count + 1, sizeof(**list));
	if (!*list)
		return -ENOMEM;
	*count = 0;
	DL_FOREACH(cidrs->ranges, range)
		(*list)[(*count)++] = range->cidr;
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* Selectors of labels (rule 6 of test/policy/README.md). Requirements and values are sorted, so
 * that equal selectors compare equal. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/policy_object.h"
#include "cluster/model/texts.h"

static const char *const operators[] = {
	[MK_OPERATOR_IN] = "In",
	[MK_OPERATOR_NOT_IN] = "NotIn",
	[MK_OPERATOR_EXISTS] = "Exists",
	[MK_OPERATOR_DOES_NOT_EXIST] = "DoesNotExist",
};

/* ---- matching -------------------------------------------------------------------------------- */

static bool has_value(const struct mk_requirement *requirement, const char *value)
{
	for (size_t i = 0; i < requirement->value_count; i++)
		if (requirement->values[i] == value)
			return true;
	return false;
}

/* A negative operator also matches a key that is absent. */
static bool requirement_holds(const struct mk_requirement *requirement,
			      const struct mk_labels *labels)
{
	const char *value = labels_value(labels, requirement->key);

	switch (requirement->op) {
	case MK_OPERATOR_IN:
		return value && has_value(requirement, value);
	case MK_OPERATOR_NOT_IN:
		return !value || !has_value(requirement, value);
	case MK_OPERATOR_EXISTS:
		return value;
	case MK_OPERATOR_DOES_NOT_EXIST:
		break;
	}
	return !value;
}

bool mk_selector_matches(const struct mk_selector *selector, const struct mk_labels *labels)
{
	for (size_t i = 0; i < selector->count; i++)
		if (!requirement_holds(&selector->requirements[i], labels))
			return false;
	return true;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static int share(struct mk_texts *texts, const char *text, const char **shared,
		 struct mk_error *err)
{
	*shared = text_share(texts, text);
	return *shared ? 0 : mk_error_errno(err, ENOMEM, "text '%s'", text);
}

static int compare_values(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int decode_values(struct mk_texts *texts, const struct mk_json *list,
			 struct mk_requirement *requirement, struct mk_error *err)
{
	struct mk_json item;
	int ret = 0;

	requirement->values = calloc(tree_length(list) + 1, sizeof(*requirement->values));
	if (!requirement->values)
		return mk_error_errno(err, ENOMEM, "values of a selector");
	for (size_t i = 0; ret == 0 && i < tree_length(list); i++) {
		ret = tree_item(list, i, json_type_string, &item, err);
		if (ret == 0)
			ret = share(texts, mk_json_string(&item),
				    &requirement->values[requirement->value_count++], err);
	}
	if (ret == 0)
		qsort(requirement->values, requirement->value_count, sizeof(*requirement->values),
		      compare_values);
	return ret;
}

static int decode_operator(const struct mk_json *item, enum mk_operator *op, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(item, "operator", json_type_string, &at, err);

	for (size_t i = 0; ret == 0 && at.value && i < MK_ARRAY_SIZE(operators); i++) {
		if (strcmp(mk_json_string(&at), operators[i]) == 0) {
			*op = (enum mk_operator)i;
			return 0;
		}
	}
	return ret ?: tree_wrong(&at, "In, NotIn, Exists or DoesNotExist", err);
}

static int decode_expression(struct mk_texts *texts, const struct mk_json *item,
			     struct mk_requirement *requirement, struct mk_error *err)
{
	struct mk_json key, values;
	int ret = tree_member(item, "key", json_type_string, &key, err);

	if (ret == 0 && !key.value)
		ret = tree_wrong(&key, "the key of a label", err);
	ret = ret ?: share(texts, mk_json_string(&key), &requirement->key, err);
	ret = ret ?: decode_operator(item, &requirement->op, err);
	ret = ret ?: tree_member(item, "values", json_type_array, &values, err);
	if (ret < 0)
		return ret;
	if ((requirement->op <= MK_OPERATOR_NOT_IN) != (tree_length(&values) > 0))
		return tree_wrong(&values, "values with In and NotIn, and with nothing else", err);
	return decode_values(texts, &values, requirement, err);
}

static int decode_label(struct mk_texts *texts, const struct mk_json *labels, const char *key,
			struct mk_requirement *requirement, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(labels, key, json_type_string, &at, err);

	if (ret == 0 && !at.value)
		ret = tree_wrong(&at, "the value of a label", err);
	if (ret < 0)
		return ret;
	requirement->values = calloc(1, sizeof(*requirement->values));
	if (!requirement->values)
		return mk_error_errno(err, ENOMEM, "values of a selector");
	requirement->value_count = 1;
	ret = share(texts, mk_json_string(&at), &requirement->values[0], err);
	return ret ?: share(texts, key, &requirement->key, err);
}

static int compare_requirements(const void *a, const void *b)
{
	const struct mk_requirement *left = a, *right = b;
	int order = strcmp(left->key, right->key);

	if (order == 0)
		order = (int)left->op - (int)right->op;
	if (order == 0)
		order = (left->value_count > right->value_count) -
			(left->value_count < right->value_count);
	for (size_t i = 0; order == 0 && i < left->value_count; i++)
		order = strcmp(left->values[i], right->values[i]);
	return order;
}

int selector_decode(struct mk_texts *texts, const struct mk_json *at, struct mk_selector *selector,
		    struct mk_error *err)
{
	struct mk_json labels, list, item;
	size_t label_count, count;
	int ret = tree_member(at, "matchLabels", json_type_object, &labels, err);

	ret = ret ?: tree_member(at, "matchExpressions", json_type_array, &list, err);
	if (ret < 0)
		return ret;
	label_count = labels.value ? (size_t)json_object_object_length(labels.value) : 0;
	count = label_count + tree_length(&list);
	if (count == 0)
		return 0;
	selector->requirements = calloc(count, sizeof(*selector->requirements));
	if (!selector->requirements)
		return mk_error_errno(err, ENOMEM, "selector");
	selector->count = count;
	count = 0;
	if (labels.value) {
		json_object_object_foreach(labels.value, key, unused)
		{
			(void)unused;
			ret = ret
				      ?: decode_label(texts, &labels, key,
						      &selector->requirements[count++], err);
		}
	}
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode_expression(texts, &item, &selector->requirements[count++], err);
	}
	if (ret == 0)
		qsort(selector->requirements, count, sizeof(*selector->requirements),
		      compare_requirements);
	return ret;
}

bool selector_equal(const struct mk_selector *a, const struct mk_selector *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (compare_requirements(&a->requirements[i], &b->requirements[i]) != 0)
			return false;
	return true;
}

void selector_release(struct mk_texts *texts, struct mk_selector *selector)
{
	for (size_t i = 0; i < selector->count; i++) {
		struct mk_requirement *requirement = &selector->requirements[i];

		for (size_t j = 0; j < requirement->value_count; j++)
			text_release(texts, requirement->values[j]);
		text_release(texts, requirement->key);
		free(requirement->values);
	}
	free(selector->requirements);
	*selector = (struct mk_selector){ 0 };
}

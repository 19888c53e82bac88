// SPDX-License-Identifier: Apache-2.0
/* What both kinds of policies have in common: selectors of labels (rule 6 of test/policy/README.md)
 * and rules. Requirements and values are sorted, so that equal selectors compare equal. An entry of
 * a rule that makes no sense stays in its list, because a list that is empty matches all. */
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
		      mk_compare_texts);
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
	int ret = TREE_KNOWN(item, err, "key", "operator", "values");

	ret = ret ?: tree_member(item, "key", json_type_string, &key, err);
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

/* Allocate @count requirements. The first @label_count are of labels, with a value each. */
static int make_requirements(struct mk_selector *selector, size_t label_count, size_t count,
			     struct mk_error *err)
{
	const char **values;

	selector->requirements =
		calloc(1, count * sizeof(*selector->requirements) + label_count * sizeof(*values));
	if (!selector->requirements)
		return mk_error_errno(err, ENOMEM, "selector");
	selector->count = count;
	values = (const char **)&selector->requirements[count];
	for (size_t i = 0; i < label_count; i++) {
		selector->requirements[i].is_label = true;
		selector->requirements[i].values = &values[i];
	}
	return 0;
}

int selector_decode(struct mk_texts *texts, const struct mk_json *at, struct mk_selector *selector,
		    struct mk_error *err)
{
	struct mk_json labels, list, item;
	size_t label_count, count;
	int ret = TREE_KNOWN(at, err, "matchLabels", "matchExpressions");

	ret = ret ?: tree_member(at, "matchLabels", json_type_object, &labels, err);
	ret = ret ?: tree_member(at, "matchExpressions", json_type_array, &list, err);
	if (ret < 0)
		return ret;
	label_count = labels.value ? (size_t)json_object_object_length(labels.value) : 0;
	count = label_count + tree_length(&list);
	if (count == 0)
		return 0;
	ret = make_requirements(selector, label_count, count, err);
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
		if (!requirement->is_label)
			free(requirement->values);
	}
	free(selector->requirements);
	*selector = (struct mk_selector){ 0 };
}

/* ---- rules ----------------------------------------------------------------------------------- */

static const char *const directions[MK_POLICY_DIRECTIONS] = {
	[MK_POLICY_INGRESS] = "ingress",
	[MK_POLICY_EGRESS] = "egress",
};

int policy_rules_decode(const struct policy_reading *in, const struct mk_json *spec,
			policy_rule_fn *decode, struct mk_policy_rules *rules, struct mk_error *err)
{
	struct mk_json list, item;
	int ret = tree_member(spec, directions[in->direction], json_type_array, &list, err);

	if (ret < 0 || tree_length(&list) == 0)
		return ret;
	rules->of = calloc(tree_length(&list), sizeof(*rules->of));
	if (!rules->of)
		return mk_error_errno(err, ENOMEM, "%zu rules", tree_length(&list));
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		item = (struct mk_json){ .parent = &list, .index = i };
		if (json_object_array_get_idx(list.value, i))
			ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode(in, &item, &rules->of[rules->count++], err);
	}
	return ret;
}

/* ---- entries --------------------------------------------------------------------------------- */

static void *append(void **list, uint32_t *count, size_t size, struct mk_error *err)
{
	char *more = reallocarray(*list, *count + 1, size);

	if (!more) {
		mk_error_errno(err, ENOMEM, "%u entries of a rule", *count + 1);
		return NULL;
	}
	*list = more;
	return memset(more + (*count)++ * size, 0, size);
}

struct mk_policy_peer_object *policy_peer_add(struct mk_policy_rule_object *rule,
					      struct mk_error *err)
{
	return append((void **)&rule->peers, &rule->peer_count, sizeof(*rule->peers), err);
}

struct mk_policy_port_object *policy_port_add(struct mk_policy_rule_object *rule,
					      struct mk_error *err)
{
	return append((void **)&rule->ports, &rule->port_count, sizeof(*rule->ports), err);
}

static void release_peer(struct mk_texts *texts, struct mk_policy_peer_object *peer)
{
	if (peer->kind == MK_PEER_BLOCK) {
		free(peer->except);
	} else {
		selector_release(texts, &peer->namespaces);
		selector_release(texts, &peer->pods);
	}
	*peer = (struct mk_policy_peer_object){ .kind = MK_PEER_INVALID };
}

static int pass_over_entry(const struct policy_reading *in, int ret, const struct mk_error *why,
			   struct mk_error *err)
{
	return ret == -ENOMEM ? mk_error_set(err, ENOMEM, "%s", why->text)
			      : pass_over(in->passed_over, why, err);
}

int policy_peer_invalid(const struct policy_reading *in, int ret, const struct mk_error *why,
			struct mk_policy_peer_object *peer, struct mk_error *err)
{
	release_peer(in->texts, peer);
	return pass_over_entry(in, ret, why, err);
}

int policy_rule_invalid(const struct policy_reading *in, int ret, const struct mk_error *why,
			struct mk_policy_rule_object *rule, struct mk_error *err)
{
	struct mk_policy_peer_object *peer = policy_peer_add(rule, err);

	return peer ? policy_peer_invalid(in, ret, why, peer, err) : -ENOMEM;
}

int policy_port_invalid(const struct policy_reading *in, int ret, const struct mk_error *why,
			struct mk_policy_port_object *port, struct mk_error *err)
{
	text_release(in->texts, port->name);
	*port = (struct mk_policy_port_object){ .valid = false };
	return pass_over_entry(in, ret, why, err);
}

int policy_cidr_decode(const struct mk_json *at, struct mk_cidr *cidr, struct mk_error *err)
{
	if (!at->value || mk_cidr_parse_lenient(mk_json_string(at), cidr) < 0)
		return tree_wrong(at, "a range such as 10.0.0.0/8", err);
	*cidr = mk_cidr_network(cidr);
	return 0;
}

/* ---- equality and release -------------------------------------------------------------------- */

static bool peer_equal(const struct mk_policy_peer_object *a, const struct mk_policy_peer_object *b)
{
	if (a->kind != b->kind || a->has_namespaces != b->has_namespaces)
		return false;
	if (a->kind == MK_PEER_BLOCK)
		return mk_cidr_equal(&a->cidr, &b->cidr) &&
		       mk_cidrs_equal(a->except, a->except_count, b->except, b->except_count);
	return selector_equal(&a->namespaces, &b->namespaces) && selector_equal(&a->pods, &b->pods);
}

static bool port_equal(const struct mk_policy_port_object *a, const struct mk_policy_port_object *b)
{
	return a->valid == b->valid && a->proto == b->proto && a->first == b->first &&
	       a->last == b->last && a->name == b->name;
}

static bool rule_equal(const struct mk_policy_rule_object *a, const struct mk_policy_rule_object *b)
{
	if (text_compare(a->name, b->name) != 0 || a->action != b->action ||
	    a->peer_count != b->peer_count || a->port_count != b->port_count)
		return false;
	for (size_t i = 0; i < a->peer_count; i++)
		if (!peer_equal(&a->peers[i], &b->peers[i]))
			return false;
	for (size_t i = 0; i < a->port_count; i++)
		if (!port_equal(&a->ports[i], &b->ports[i]))
			return false;
	return true;
}

bool policy_rules_equal(const struct mk_policy_rules *a, const struct mk_policy_rules *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!rule_equal(&a->of[i], &b->of[i]))
			return false;
	return true;
}

void policy_rules_release(struct mk_texts *texts, struct mk_policy_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		struct mk_policy_rule_object *rule = &rules->of[i];

		for (size_t j = 0; j < rule->peer_count; j++)
			release_peer(texts, &rule->peers[j]);
		for (size_t j = 0; j < rule->port_count; j++)
			text_release(texts, rule->ports[j].name);
		free(rule->peers);
		free(rule->ports);
		free(rule->name);
	}
	free(rules->of);
	*rules = (struct mk_policy_rules){ 0 };
}

/* ---- mode ------------------------------------------------------------------------------------ */

static int read_mode(const struct mk_json *tree, bool *audited, struct mk_error *err)
{
	struct mk_json metadata, annotations, at;
	int ret = tree_member(tree, "metadata", json_type_object, &metadata, err);

	ret = ret ?: tree_member(&metadata, "annotations", json_type_object, &annotations, err);
	ret = ret
		      ?: tree_member(&annotations, MK_POLICY_MODE_ANNOTATION, json_type_string, &at,
				     err);
	if (ret < 0 || !at.value)
		return ret;
	*audited = strcmp(mk_json_string(&at), "audit") == 0;
	if (*audited || strcmp(mk_json_string(&at), "enforce") == 0)
		return 0;
	return tree_wrong(&at, "audit or enforce", err);
}

int policy_mode_decode(const struct mk_json *tree, bool *audited, char **passed_over,
		       struct mk_error *err)
{
	struct mk_error why;
	int ret = read_mode(tree, audited, &why);

	return ret < 0 ? pass_over(passed_over, &why, err) : 0;
}

// SPDX-License-Identifier: Apache-2.0
/* Decodes and compares Nodes. */
#include <stdlib.h>
#include <string.h>

#include "cluster/model/object.h"

#define LABEL_ZONE	    "topology.kubernetes.io/zone"
#define LABEL_CONTROL_PLANE "node-role.kubernetes.io/control-plane"
#define LABEL_BORDER	    "networking.monokube.io/border"
#define TAINT_TO_BE_DELETED "ToBeDeletedByClusterAutoscaler"

static int take_pod_cidr(struct mk_node_object *node, const struct mk_json *at,
			 struct mk_error *err)
{
	struct mk_cidr cidr, *known;
	struct mk_error why;

	if (mk_cidr_parse_lenient(mk_json_string(at), &cidr) < 0)
		return tree_wrong(at, "a range such as 10.244.1.0/24", err);
	cidr = mk_cidr_network(&cidr);
	known = &node->pod_cidrs[mk_family_index(cidr.ip.family)];
	if (known->ip.family == AF_UNSPEC)
		*known = cidr;
	if (mk_cidr_equal(known, &cidr))
		return 0;
	tree_wrong(at, "one range per family", &why);
	return pass_over(&node->passed_over, &why, err);
}

/* Clusters write podCIDRs, and repeat its first range in podCIDR; people write only podCIDR. */
static int decode_pod_cidrs(struct mk_node_object *node, const struct mk_json *tree,
			    struct mk_error *err)
{
	struct mk_json spec, list, at;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	ret = ret ?: tree_member(&spec, "podCIDRs", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_string, &at, err);
		ret = ret ?: take_pod_cidr(node, &at, err);
	}
	ret = ret ?: tree_member(&spec, "podCIDR", json_type_string, &at, err);
	if (ret == 0 && at.value && *mk_json_string(&at))
		ret = take_pod_cidr(node, &at, err);
	return ret;
}

static int decode_address(struct mk_node_object *node, const struct mk_json *item,
			  struct mk_error *err)
{
	const char *type;
	struct mk_error why;
	struct mk_json at;
	struct mk_ip ip, *known;
	bool internal;
	int ret = tree_text(item, "type", &type, err);

	if (ret < 0 || !type)
		return ret;
	internal = strcmp(type, "InternalIP") == 0;
	if (!internal && strcmp(type, "ExternalIP") != 0)
		return 0;
	ret = tree_member(item, "address", json_type_string, &at, err);
	if (ret < 0)
		return ret;
	if (tree_ip(&at, &ip, &why) < 0)
		return pass_over(&node->passed_over, &why, err);
	known = &node->internal_ips[mk_family_index(ip.family)];
	if (internal && known->family == AF_UNSPEC)
		*known = ip;
	return ips_add(&node->addresses, &node->address_count, &ip, err);
}

static int decode_condition(struct mk_node_object *node, const struct mk_json *item,
			    struct mk_error *err)
{
	const char *type, *status;
	int ret = tree_text(item, "type", &type, err);

	ret = ret ?: tree_text(item, "status", &status, err);
	if (ret == 0 && type && status && strcmp(type, "Ready") == 0)
		node->ready = strcmp(status, "True") == 0;
	return ret;
}

static int decode_status(struct mk_node_object *node, const struct mk_json *tree,
			 struct mk_error *err)
{
	struct mk_json status, list, item;
	int ret = tree_member(tree, "status", json_type_object, &status, err);

	ret = ret ?: tree_member(&status, "addresses", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode_address(node, &item, err);
	}
	mk_ips_sort(node->addresses, &node->address_count);
	ret = ret ?: tree_member(&status, "conditions", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode_condition(node, &item, err);
	}
	return ret;
}

static int decode_labels(struct mk_node_object *node, const struct mk_json *tree,
			 struct mk_error *err)
{
	const char *text;
	int ret = tree_label(tree, LABEL_CONTROL_PLANE, &text, err);

	if (ret < 0)
		return ret;
	node->control_plane = text;
	ret = tree_label(tree, LABEL_BORDER, &text, err);
	if (ret < 0)
		return ret;
	node->border = text && strcmp(text, "true") == 0;
	ret = tree_label(tree, LABEL_ZONE, &text, err);
	if (ret < 0 || !text || !*text)
		return ret;
	node->zone = strdup(text);
	return node->zone ? 0 : mk_error_errno(err, ENOMEM, "zone '%s'", text);
}

static int decode_taints(struct mk_node_object *node, const struct mk_json *tree,
			 struct mk_error *err)
{
	struct mk_json spec, list, item;
	const char *key;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	ret = ret ?: tree_member(&spec, "taints", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: tree_text(&item, "key", &key, err);
		if (ret == 0 && key && strcmp(key, TAINT_TO_BE_DELETED) == 0)
			node->leaving = true;
	}
	return ret;
}

static int decode_leaving(struct mk_node_object *node, const struct mk_json *tree,
			  struct mk_error *err)
{
	struct mk_json metadata;
	const char *deleted = NULL;
	int ret = tree_member(tree, "metadata", json_type_object, &metadata, err);

	ret = ret ?: tree_text(&metadata, "deletionTimestamp", &deleted, err);
	node->leaving = deleted && *deleted;
	return ret < 0 ? ret : decode_taints(node, tree, err);
}

/* ---- WireGuard ------------------------------------------------------------------------------- */

#define EXPECTED_KEY "32 bytes in base64, as `wg pubkey` prints them"

int wireguard_decode(const struct mk_json *spec, struct mk_wg_public *wireguard,
		     struct mk_error *err)
{
	struct mk_json at, key;
	int64_t port = 0;
	int ret = tree_member(spec, "wireguard", json_type_object, &at, err);

	if (ret < 0 || !at.value)
		return ret;
	ret = TREE_KNOWN(&at, err, "publicKey", "port");
	ret = ret ?: tree_member(&at, "publicKey", json_type_string, &key, err);
	ret = ret ?: tree_number(&at, "port", 1, UINT16_MAX, &port, err);
	if (ret < 0)
		return ret;
	if (!key.value || mk_wg_key_parse(mk_json_string(&key), wireguard->key) < 0)
		return tree_wrong(&key, EXPECTED_KEY, err);
	if (!port)
		return tree_wrong(&at, "publicKey and port", err);
	wireguard->port = (uint16_t)port;
	return 0;
}

bool wireguard_equal(const struct mk_wg_public *a, const struct mk_wg_public *b)
{
	return a->port == b->port && (!a->port || memcmp(a->key, b->key, MK_WG_KEY_BYTES) == 0);
}

/* Read KEY:PORT of the annotation. A text that makes no sense counts as none: the node's agent
 * writes it again. */
static int decode_wireguard(struct mk_node_object *node, const struct mk_json *tree,
			    struct mk_error *err)
{
	struct mk_json metadata, annotations;
	const char *text = NULL;
	int ret = tree_member(tree, "metadata", json_type_object, &metadata, err);

	ret = ret ?: tree_member(&metadata, "annotations", json_type_object, &annotations, err);
	ret = ret ?: tree_text(&annotations, MK_WIREGUARD_ANNOTATION, &text, err);
	if (ret == 0 && text)
		(void)mk_wg_public_parse(text, &node->wireguard);
	return ret;
}

int node_decode(struct mk_texts *texts, const struct mk_json *tree, const struct mk_object_id *id,
		struct mk_node_object *node, struct mk_error *err)
{
	int ret = labels_decode(texts, tree, NULL, &node->labels, err);

	ret = ret ?: decode_labels(node, tree, err);
	ret = ret ?: decode_pod_cidrs(node, tree, err);
	ret = ret ?: decode_status(node, tree, err);
	ret = ret ?: decode_leaving(node, tree, err);
	ret = ret ?: tree_created(tree, &node->created_unix_s, err);
	ret = ret ?: decode_wireguard(node, tree, err);
	if (ret < 0)
		return ret;
	node->name = strdup(id->name);
	return node->name ? 0 : mk_error_errno(err, ENOMEM, "name");
}

bool node_equal(const struct mk_node_object *a, const struct mk_node_object *b)
{
	return mk_cidrs_equal(a->pod_cidrs, MK_FAMILIES, b->pod_cidrs, MK_FAMILIES) &&
	       mk_ips_equal(a->internal_ips, MK_FAMILIES, b->internal_ips, MK_FAMILIES) &&
	       mk_ips_equal(a->addresses, a->address_count, b->addresses, b->address_count) &&
	       labels_equal(&a->labels, &b->labels) && text_compare(a->zone, b->zone) == 0 &&
	       a->control_plane == b->control_plane && a->leaving == b->leaving &&
	       a->ready == b->ready && a->created_unix_s == b->created_unix_s &&
	       wireguard_equal(&a->wireguard, &b->wireguard);
}

void node_release(struct mk_texts *texts, struct mk_node_object *node)
{
	labels_release(texts, &node->labels);
	free(node->name);
	free(node->addresses);
	free(node->zone);
	free(node->passed_over);
	*node = (struct mk_node_object){ 0 };
}

// SPDX-License-Identifier: Apache-2.0
/* What clusters publish. It comes from another cluster, so each object is refused as a whole if
 * anything in it makes no sense. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cluster/model/policy_object.h"
#include "monokube/clusters.h"

#define LISTED_MAX 16 /* entries of a list */
#define SLICES_MAX 1000 /* of a PublishedService, and endpoints of one */
#define PORTS_MAX  128

/* ---- clusters -------------------------------------------------------------------------------- */

/* Get the label MK_CLUSTER_LABEL, which each published object has. */
static int decode_label(const struct mk_json *tree, const char **cluster, struct mk_error *err)
{
	int ret = tree_label(tree, MK_CLUSTER_LABEL, cluster, err);

	if (ret < 0 || (*cluster && mk_is_dns_label(*cluster)))
		return ret;
	return mk_error_set(err, EINVAL,
			    "metadata.labels: label " MK_CLUSTER_LABEL
			    " is '%s', expected the name of the cluster: " MK_DNS_LABEL,
			    *cluster ?: "");
}

/* Get the label MK_RELAYED_BY_LABEL, NULL without it. */
static int decode_hub(struct mk_texts *texts, const struct mk_json *tree, const char **hub,
		      struct mk_error *err)
{
	const char *label = NULL;
	int ret = tree_label(tree, MK_RELAYED_BY_LABEL, &label, err);

	if (ret < 0 || !label)
		return ret;
	if (!mk_is_dns_label(label))
		return mk_error_set(err, EINVAL,
				    "metadata.labels: label " MK_RELAYED_BY_LABEL
				    " is '%s', expected the name of a hub: " MK_DNS_LABEL,
				    label);
	*hub = text_share(texts, label);
	return *hub ? 0 : mk_error_errno(err, ENOMEM, "name of a hub");
}

bool mk_published_counts(const char *relayed_by, const struct mk_cluster_peer *peer)
{
	return !relayed_by || (peer && peer->via && strcmp(peer->via, relayed_by) == 0);
}

/* Read member @key, which must be there and be @expected. */
static int check_text(const struct mk_json *parent, const char *key, const char *expected,
		      const char *meaning, struct mk_error *err)
{
	char text[2 * MK_OBJECT_NAME_SIZE];
	struct mk_json at;
	int ret = tree_member(parent, key, json_type_string, &at, err);

	if (ret < 0 || (at.value && strcmp(mk_json_string(&at), expected) == 0))
		return ret;
	snprintf(text, sizeof(text), "'%s', %s", expected, meaning);
	return tree_wrong(&at, text, err);
}

static int decode_wire(const struct mk_json *spec, struct mk_published_cluster *cluster,
		       struct mk_error *err)
{
	struct mk_json list, at;
	int ret = tree_list(spec, "wireVersions", LISTED_MAX, &list, err);

	if (ret == 0 && tree_length(&list) == 0)
		return tree_wrong(&list, "the versions of the format between clusters", err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_int, &at, err);
		if (ret == 0 && json_object_get_int64(at.value) == MK_CLUSTER_WIRE)
			cluster->speaks_wire = true;
	}
	return ret;
}

static int decode_home(const struct mk_json *spec, struct mk_published_cluster *cluster,
		       struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(spec, "podCidr", json_type_string, &at, err);

	if (ret < 0 ||
	    (at.value && peer_ranges_parse(mk_json_string(&at), cluster->pod_cidrs) == 0))
		return ret;
	return tree_wrong(&at, PEER_RANGES, err);
}

static int decode_external_cidr(const struct mk_json *spec, struct mk_published_cluster *cluster,
				struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(spec, "externalCidr", json_type_string, &at, err);

	if (ret < 0 || !at.value || !*mk_json_string(&at))
		return ret;
	cluster->external_cidrs = calloc(MK_FAMILIES, sizeof(*cluster->external_cidrs));
	if (!cluster->external_cidrs)
		return mk_error_errno(err, ENOMEM, "ranges of a peer");
	if (peer_ranges_parse(mk_json_string(&at), cluster->external_cidrs) < 0)
		return tree_wrong(&at, PEER_RANGES, err);
	return 0;
}

int published_cluster_decode(struct mk_texts *texts, const struct mk_json *tree,
			     const struct mk_object_id *id, union policy_object *object,
			     struct mk_error *err)
{
	struct mk_published_cluster *cluster = &object->published_cluster;
	struct mk_json metadata, spec;
	const char *label = NULL;
	int64_t number = 0;
	int ret = decode_label(tree, &label, err);

	(void)id;
	ret = ret ?: decode_hub(texts, tree, &cluster->relayed_by, err);
	ret = ret ?: tree_member(tree, "metadata", json_type_object, &metadata, err);
	ret = ret ?: tree_member(tree, "spec", json_type_object, &spec, err);
	ret = ret
		      ?: TREE_KNOWN(&spec, err, "name", "number", "podCidr", "externalCidr",
				    "wireVersions");
	ret = ret ?: check_text(&metadata, "name", label, "as its label says", err);
	ret = ret ?: check_text(&spec, "name", label, "as its label says", err);
	ret = ret ?: tree_number(&spec, "number", 0, MK_CLUSTER_NUMBER_MAX, &number, err);
	cluster->number = (uint32_t)number;
	ret = ret ?: decode_home(&spec, cluster, err);
	ret = ret ?: decode_external_cidr(&spec, cluster, err);
	return ret ?: decode_wire(&spec, cluster, err);
}

bool published_cluster_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_published_cluster *left = &a->published_cluster,
					  *right = &b->published_cluster;

	return left->number == right->number && left->speaks_wire == right->speaks_wire &&
	       left->relayed_by == right->relayed_by &&
	       mk_cidrs_equal(left->external_cidrs, left->external_cidrs ? MK_FAMILIES : 0,
			      right->external_cidrs, right->external_cidrs ? MK_FAMILIES : 0) &&
	       mk_cidrs_equal(left->pod_cidrs, MK_FAMILIES, right->pod_cidrs, MK_FAMILIES);
}

void published_cluster_release(struct mk_texts *texts, union policy_object *object)
{
	text_release(texts, object->published_cluster.relayed_by);
	free(object->published_cluster.external_cidrs);
}

/* ---- nodes of peers -------------------------------------------------------------------------- */

static int decode_pod_cidrs(const struct mk_json *spec, struct mk_published_node *node,
			    struct mk_error *err)
{
	struct mk_json list, at;
	int ret = tree_list(spec, "podCidrs", MK_FAMILIES, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_string, &at, err);
		if (ret == 0 && peer_range_add(mk_json_string(&at), node->pod_cidrs) < 0)
			ret = tree_wrong(
				&at, "a range such as 10.244.1.0/24, one of each family at most",
				err);
	}
	return ret;
}

/* The first address of each family counts. */
static int decode_addresses(const struct mk_json *spec, struct mk_published_node *node,
			    struct mk_error *err)
{
	struct mk_json list, at;
	int ret = tree_list(spec, "addresses", LISTED_MAX, &list, err);

	if (ret == 0 && tree_length(&list) == 0)
		return tree_wrong(&list, "1 to 16 addresses", err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		struct mk_ip ip, *known;

		ret = tree_item(&list, i, json_type_string, &at, err);
		ret = ret ?: tree_routed_ip(&at, &ip, err);
		if (ret < 0)
			return ret;
		known = &node->carrier->addresses[mk_family_index(ip.family)];
		if (known->family == AF_UNSPEC)
			*known = ip;
	}
	return ret;
}

/* The object is CLUSTER.NODE, so each node of a cluster has one object. */
static int decode_names(struct mk_texts *texts, const struct mk_json *tree,
			const struct mk_json *spec, struct mk_published_node *node,
			struct mk_error *err)
{
	char expected[2 * MK_OBJECT_NAME_SIZE];
	struct mk_json metadata, at;
	const char *label = NULL;
	int ret = decode_label(tree, &label, err);

	ret = ret ?: tree_member(tree, "metadata", json_type_object, &metadata, err);
	ret = ret ?: tree_member(spec, "node", json_type_string, &at, err);
	if (ret < 0)
		return ret;
	if (!at.value || !is_object_name(mk_json_string(&at)))
		return tree_wrong(
			&at, "the name of a node: lower case letters, digits, '-' and '.'", err);
	snprintf(expected, sizeof(expected), "%s.%s", label, mk_json_string(&at));
	ret = check_text(&metadata, "name", expected, "which is CLUSTER.NODE", err);
	if (ret < 0)
		return ret;
	node->cluster = text_share(texts, label);
	node->node = text_share(texts, mk_json_string(&at));
	return node->cluster && node->node ? 0 : mk_error_errno(err, ENOMEM, "node of a peer");
}

int published_node_decode(struct mk_texts *texts, const struct mk_json *tree,
			  const struct mk_object_id *id, union policy_object *object,
			  struct mk_error *err)
{
	struct mk_published_node *node = &object->published_node;
	const char *hub = NULL;
	struct mk_json spec;
	int64_t port = 0;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	(void)id;
	ret = ret ?: TREE_KNOWN(&spec, err, "node", "podCidrs", "addresses", "port", "wireguard");
	ret = ret ?: decode_names(texts, tree, &spec, node, err);
	ret = ret ?: tree_label(tree, MK_RELAYED_BY_LABEL, &hub, err);
	node->is_relayed = hub;
	node->carrier = calloc(1, sizeof(*node->carrier));
	if (ret == 0 && !node->carrier)
		return mk_error_errno(err, ENOMEM, "node of a peer");
	ret = ret ?: decode_pod_cidrs(&spec, node, err);
	ret = ret ?: decode_addresses(&spec, node, err);
	ret = ret ?: tree_number(&spec, "port", 1, UINT16_MAX, &port, err);
	node->carrier->port = (uint16_t)port;
	return ret ?: wireguard_decode(&spec, &node->carrier->wireguard, err);
}

bool published_node_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_published_node *left = &a->published_node, *right = &b->published_node;
	const struct mk_published_carrier *a_carrier = left->carrier, *b_carrier = right->carrier;

	return left->cluster == right->cluster && left->node == right->node &&
	       left->is_relayed == right->is_relayed && a_carrier->port == b_carrier->port &&
	       wireguard_equal(&a_carrier->wireguard, &b_carrier->wireguard) &&
	       mk_ips_equal(a_carrier->addresses, MK_FAMILIES, b_carrier->addresses, MK_FAMILIES) &&
	       mk_cidrs_equal(left->pod_cidrs, MK_FAMILIES, right->pod_cidrs, MK_FAMILIES);
}

void published_node_release(struct mk_texts *texts, union policy_object *object)
{
	text_release(texts, object->published_node.cluster);
	text_release(texts, object->published_node.node);
	free(object->published_node.carrier);
}

/* ---- external addresses ---------------------------------------------------------------------- */

/* Add an endpoint of a slice, if it has an external address, with each of @ports. */
static int add_externals(struct mk_published_service *service, const struct mk_json *endpoint,
			 const struct mk_json *ports, struct mk_error *err)
{
	struct mk_external external = { 0 }, *more;
	struct mk_json target, addresses, at;
	int ret = tree_member(endpoint, "target", json_type_string, &target, err);

	if (ret < 0 || !target.value)
		return ret;
	ret = tree_routed_ip(&target, &external.target, err);
	ret = ret ?: tree_list(endpoint, "addresses", LISTED_MAX, &addresses, err);
	ret = ret ?: tree_item(&addresses, 0, json_type_string, &at, err);
	ret = ret ?: tree_ip(&at, &external.ip, err);
	more = reallocarray(service->externals, service->external_count + tree_length(ports) + 1,
			    sizeof(*more));
	if (ret < 0 || !more)
		return ret ?: mk_error_errno(err, ENOMEM, "external addresses");
	service->externals = more;
	if (external.ip.family != external.target.family)
		return tree_wrong(&target, "an address of the family of the external one", err);
	for (size_t i = 0; ret == 0 && i < tree_length(ports); i++) {
		int64_t number = 0;

		ret = tree_item(ports, i, json_type_object, &at, err);
		ret = ret ?: tree_number(&at, "port", 1, UINT16_MAX, &number, err);
		ret = ret ?: tree_protocol(&at, &external.proto, err);
		external.port = (uint16_t)number;
		if (ret == 0 && number)
			more[service->external_count++] = external;
	}
	return ret;
}

int published_service_decode(struct mk_texts *texts, const struct mk_json *tree,
			     const struct mk_object_id *id, union policy_object *object,
			     struct mk_error *err)
{
	struct mk_published_service *service = &object->published_service;
	struct mk_json spec, slices, slice, ports, endpoints, endpoint;
	const char *label = NULL;
	int ret = decode_label(tree, &label, err);

	(void)id;
	ret = ret ?: tree_member(tree, "spec", json_type_object, &spec, err);
	ret = ret ?: tree_list(&spec, "slices", SLICES_MAX, &slices, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&slices); i++) {
		ret = tree_item(&slices, i, json_type_object, &slice, err);
		ret = ret ?: tree_list(&slice, "ports", PORTS_MAX, &ports, err);
		ret = ret ?: tree_list(&slice, "endpoints", SLICES_MAX, &endpoints, err);
		for (size_t j = 0; ret == 0 && j < tree_length(&endpoints); j++)
			ret = tree_item(&endpoints, j, json_type_object, &endpoint, err)
				      ?: add_externals(service, &endpoint, &ports, err);
	}
	service->cluster = ret == 0 ? text_share(texts, label) : NULL;
	return ret < 0 || service->cluster ? ret : mk_error_errno(err, ENOMEM, "name of a cluster");
}

bool published_service_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_published_service *left = &a->published_service,
					  *right = &b->published_service;

	return left->cluster == right->cluster && left->external_count == right->external_count &&
	       (left->external_count == 0 ||
		memcmp(left->externals, right->externals,
		       left->external_count * sizeof(*left->externals)) == 0);
}

void published_service_release(struct mk_texts *texts, union policy_object *object)
{
	text_release(texts, object->published_service.cluster);
	free(object->published_service.externals);
}

// SPDX-License-Identifier: Apache-2.0
/* ClusterPeers, PublishedClusters and PublishedNodes. The last two come from another cluster, so
 * each is refused as a whole if anything in it makes no sense. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/model/policy_object.h"
#include "monokube/clusters.h"

#define LISTED_MAX	16 /* entries of a list */
#define RANGES_CHARS	(2 * MK_CIDR_STRLEN)
#define MTU_MIN_BYTES	1280
#define IPV4_PREFIX_MIN 8
#define IPV4_PREFIX_MAX 30
#define IPV6_PREFIX_MIN 16
#define IPV6_PREFIX_MAX 126

/* ---- ranges ---------------------------------------------------------------------------------- */

static bool is_pod_range(const struct mk_cidr *cidr)
{
	if (cidr->ip.family == AF_INET)
		return cidr->prefix_bits >= IPV4_PREFIX_MIN && cidr->prefix_bits <= IPV4_PREFIX_MAX;
	return cidr->prefix_bits >= IPV6_PREFIX_MIN && cidr->prefix_bits <= IPV6_PREFIX_MAX;
}

/* Parse one range. Another one of its family is an error. */
static int add_range(const char *text, struct mk_cidr cidrs[MK_FAMILIES])
{
	struct mk_cidr cidr, *known;

	if (mk_cidr_parse(text, &cidr) < 0 || !is_pod_range(&cidr))
		return -EINVAL;
	known = &cidrs[mk_family_index(cidr.ip.family)];
	if (known->ip.family != AF_UNSPEC)
		return -EINVAL;
	*known = mk_cidr_network(&cidr);
	return 0;
}

/* Parse "a" or "a,b" of two families. */
static int parse_ranges(const char *text, struct mk_cidr cidrs[MK_FAMILIES])
{
	char copy[RANGES_CHARS];
	char *second;
	int ret;

	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, text);
	second = strchr(copy, ',');
	if (second)
		*second++ = '\0';
	ret = add_range(copy, cidrs);
	return ret == 0 && second ? add_range(second, cidrs) : ret;
}

#define EXPECTED_RANGES                                                                    \
	"an IPv4 range of 8 to 30 bits, an IPv6 range of 16 to 126 bits, or one of each, " \
	"such as 10.244.0.0/16,fd00:10:244::/48"

/* ---- ClusterPeers ---------------------------------------------------------------------------- */

static int decode_view(const struct mk_json *spec, struct mk_cluster_peer *peer,
		       struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(spec, "podCidr", json_type_string, &at, err);
	const char *text = ret == 0 ? mk_json_string(&at) : NULL;

	if (!text || !*text)
		return ret;
	peer->same_view = strcmp(text, "Same") == 0;
	if (peer->same_view || parse_ranges(text, peer->views) == 0)
		return 0;
	return tree_wrong(&at, "Same, or " EXPECTED_RANGES, err);
}

static int decode_via(struct mk_texts *texts, const struct mk_json *spec, const char *name,
		      struct mk_cluster_peer *peer, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(spec, "via", json_type_string, &at, err);
	const char *text = ret == 0 ? mk_json_string(&at) : NULL;

	if (!text || !*text)
		return ret;
	if (!is_dns_label(text) || strcmp(text, name) == 0)
		return tree_wrong(&at, "the name of another ClusterPeer", err);
	peer->via = text_share(texts, text);
	return peer->via ? 0 : mk_error_errno(err, ENOMEM, "name of a peer");
}

static int decode_mtu(const struct mk_json *spec, struct mk_cluster_peer *peer,
		      struct mk_error *err)
{
	struct mk_json at = { .parent = spec, .key = "mtu" };
	int64_t mtu = 0;
	int ret = tree_number(spec, "mtu", 0, UINT16_MAX, &mtu, err);

	if (ret < 0)
		return ret;
	peer->mtu_bytes = (uint16_t)mtu;
	if (mtu == 0 || mtu >= MTU_MIN_BYTES)
		return 0;
	json_object_object_get_ex(spec->value, at.key, &at.value);
	return tree_wrong(&at, "0 or a number from 1280 to 65535", err);
}

/* The name of a ClusterPeer is the clusterName of the peer. */
static int check_name(const struct mk_json *tree, const char *name, struct mk_error *err)
{
	struct mk_json metadata = { .parent = tree, .key = "metadata" };
	struct mk_json at = { .parent = &metadata, .key = "name" };

	if (is_dns_label(name))
		return 0;
	json_object_object_get_ex(tree->value, metadata.key, &metadata.value);
	json_object_object_get_ex(metadata.value, at.key, &at.value);
	return tree_wrong(&at, "the clusterName of the peer: " MK_DNS_LABEL, err);
}

int cluster_peer_decode(struct mk_texts *texts, const struct mk_json *tree,
			const struct mk_object_id *id, union policy_object *object,
			struct mk_error *err)
{
	static const char *const accesses[] = { "None", "Pods" };
	struct mk_cluster_peer *peer = &object->cluster_peer;
	size_t access = 0;
	struct mk_json spec;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	ret = ret ?: check_name(tree, id->name, err);
	ret = ret ?: TREE_KNOWN(&spec, err, "podCidr", "via", "access", "relay", "mtu");
	ret = ret ?: tree_created(tree, &peer->created_unix_s, err);
	ret = ret ?: decode_view(&spec, peer, err);
	ret = ret ?: decode_via(texts, &spec, id->name, peer, err);
	ret = ret ?: tree_word(&spec, "access", accesses, 2, "Pods or None", &access, err);
	ret = ret ?: tree_bool(&spec, "relay", &peer->relayed, err);
	peer->access_pods = access == 1;
	return ret ?: decode_mtu(&spec, peer, err);
}

bool cluster_peer_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_cluster_peer *left = &a->cluster_peer, *right = &b->cluster_peer;

	return left->created_unix_s == right->created_unix_s && left->via == right->via &&
	       left->same_view == right->same_view && left->access_pods == right->access_pods &&
	       left->relayed == right->relayed && left->mtu_bytes == right->mtu_bytes &&
	       mk_cidrs_equal(left->views, MK_FAMILIES, right->views, MK_FAMILIES);
}

void cluster_peer_release(struct mk_texts *texts, union policy_object *object)
{
	text_release(texts, object->cluster_peer.via);
}

/* ---- what a peer publishes ------------------------------------------------------------------- */

/* Get the label MK_CLUSTER_LABEL, which each published object has. */
static int decode_label(const struct mk_json *tree, const char **cluster, struct mk_error *err)
{
	int ret = tree_label(tree, MK_CLUSTER_LABEL, cluster, err);

	if (ret < 0 || (*cluster && is_dns_label(*cluster)))
		return ret;
	return mk_error_set(err, EINVAL,
			    "metadata.labels: label " MK_CLUSTER_LABEL
			    " is '%s', expected the name of the cluster: " MK_DNS_LABEL,
			    *cluster ?: "");
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

	if (ret < 0 || (at.value && parse_ranges(mk_json_string(&at), cluster->pod_cidrs) == 0))
		return ret;
	return tree_wrong(&at, EXPECTED_RANGES, err);
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

	(void)texts;
	(void)id;
	ret = ret ?: tree_member(tree, "metadata", json_type_object, &metadata, err);
	ret = ret ?: tree_member(tree, "spec", json_type_object, &spec, err);
	ret = ret ?: TREE_KNOWN(&spec, err, "name", "number", "podCidr", "wireVersions");
	ret = ret ?: check_text(&metadata, "name", label, "as its label says", err);
	ret = ret ?: check_text(&spec, "name", label, "as its label says", err);
	ret = ret ?: tree_number(&spec, "number", 0, MK_CLUSTER_NUMBER_MAX, &number, err);
	cluster->number = (uint32_t)number;
	ret = ret ?: decode_home(&spec, cluster, err);
	return ret ?: decode_wire(&spec, cluster, err);
}

bool published_cluster_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_published_cluster *left = &a->published_cluster,
					  *right = &b->published_cluster;

	return left->number == right->number && left->speaks_wire == right->speaks_wire &&
	       mk_cidrs_equal(left->pod_cidrs, MK_FAMILIES, right->pod_cidrs, MK_FAMILIES);
}

void published_cluster_release(struct mk_texts *texts, union policy_object *object)
{
	(void)texts;
	(void)object;
}

/* ---- nodes of peers -------------------------------------------------------------------------- */

static int decode_pod_cidrs(const struct mk_json *spec, struct mk_published_node *node,
			    struct mk_error *err)
{
	struct mk_json list, at;
	int ret = tree_list(spec, "podCidrs", MK_FAMILIES, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_string, &at, err);
		if (ret == 0 && add_range(mk_json_string(&at), node->pod_cidrs) < 0)
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
		known = &node->addresses[mk_family_index(ip.family)];
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
	struct mk_json spec;
	int64_t port = 0;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	(void)id;
	ret = ret ?: TREE_KNOWN(&spec, err, "node", "podCidrs", "addresses", "port");
	ret = ret ?: decode_names(texts, tree, &spec, node, err);
	ret = ret ?: decode_pod_cidrs(&spec, node, err);
	ret = ret ?: decode_addresses(&spec, node, err);
	ret = ret ?: tree_number(&spec, "port", 1, UINT16_MAX, &port, err);
	node->port = (uint16_t)port;
	return ret;
}

bool published_node_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_published_node *left = &a->published_node, *right = &b->published_node;

	return left->cluster == right->cluster && left->node == right->node &&
	       left->port == right->port &&
	       mk_ips_equal(left->addresses, MK_FAMILIES, right->addresses, MK_FAMILIES) &&
	       mk_cidrs_equal(left->pod_cidrs, MK_FAMILIES, right->pod_cidrs, MK_FAMILIES);
}

void published_node_release(struct mk_texts *texts, union policy_object *object)
{
	text_release(texts, object->published_node.cluster);
	text_release(texts, object->published_node.node);
}

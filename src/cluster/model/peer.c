// SPDX-License-Identifier: Apache-2.0
/* ClusterPeers, what clusters publish, and ServiceExports. The published ones come from
 * another cluster, so each is refused as a whole if anything in it makes no sense. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cluster/model/policy_object.h"
#include "monokube/clusters.h"

#define LISTED_MAX	16 /* entries of a list */
#define SLICES_MAX	1000 /* of a PublishedService, and endpoints of one */
#define PORTS_MAX	128
#define RANGES_CHARS	(2 * MK_CIDR_STRLEN)
#define MTU_MIN_BYTES	1280
#define IPV4_PREFIX_MIN 8
#define IPV4_PREFIX_MAX 30
#define IPV6_PREFIX_MIN 16
#define IPV6_PREFIX_MAX 126
#define LIMIT_NODES_MAX 32768 /* of all peers together */

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

/* Views of @assigned count in the families that have none. */
static void take_assigned(struct mk_cidr views[MK_FAMILIES], bool is_assigned[MK_FAMILIES],
			  const struct mk_cidr assigned[MK_FAMILIES])
{
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		is_assigned[i] =
			views[i].ip.family == AF_UNSPEC && assigned[i].ip.family != AF_UNSPEC;
		if (is_assigned[i])
			views[i] = assigned[i];
	}
}

/* As for pods: the user's view counts, otherwise that of the status. */
static int decode_externals(const struct mk_json *tree, const struct mk_json *spec,
			    struct mk_cluster_peer *peer, struct mk_error *err)
{
	struct mk_cidr assigned[MK_FAMILIES] = { 0 };
	const char *text = NULL, *of_status = NULL;
	struct mk_json status, at;
	int ret = tree_member(tree, "status", json_type_object, &status, err);

	ret = ret ?: tree_text(&status, "externalCidr", &of_status, err);
	ret = ret ?: tree_member(spec, "externalCidr", json_type_string, &at, err);
	text = ret == 0 ? mk_json_string(&at) : NULL;
	if (ret < 0 || ((!text || !*text) && !of_status))
		return ret;
	peer->externals = calloc(1, sizeof(*peer->externals));
	if (!peer->externals)
		return mk_error_errno(err, ENOMEM, "views of a peer");
	if (text && *text && parse_ranges(text, peer->externals->views) < 0)
		return tree_wrong(&at, EXPECTED_RANGES, err);
	if (of_status && parse_ranges(of_status, assigned) == 0)
		take_assigned(peer->externals->views, peer->externals->assigned, assigned);
	return 0;
}

/* The leader writes the status. A text that makes no sense counts as none, and is replaced. */
static int decode_assigned(const struct mk_json *tree, struct mk_cluster_peer *peer,
			   struct mk_error *err)
{
	struct mk_cidr assigned[MK_FAMILIES] = { 0 };
	struct mk_json status, conditions;
	const char *text;
	int ret = tree_member(tree, "status", json_type_object, &status, err);

	ret = ret ?: tree_text(&status, "podCidr", &text, err);
	ret = ret ?: tree_list(&status, "conditions", LISTED_MAX, &conditions, err);
	peer->lacks_status = ret == 0 && !text && tree_length(&conditions) == 0;
	if (ret < 0 || peer->same_view || !text || parse_ranges(text, assigned) < 0)
		return ret;
	take_assigned(peer->views, peer->assigned, assigned);
	return 0;
}

static int decode_via(struct mk_texts *texts, const struct mk_json *spec, const char *name,
		      struct mk_cluster_peer *peer, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(spec, "via", json_type_string, &at, err);
	const char *text = ret == 0 ? mk_json_string(&at) : NULL;

	if (!text || !*text)
		return ret;
	if (!mk_is_dns_label(text) || strcmp(text, name) == 0)
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

static int decode_secret(struct mk_texts *texts, const struct mk_json *spec,
			 struct mk_cluster_peer *peer, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(spec, "secretName", json_type_string, &at, err);
	const char *text = ret == 0 ? mk_json_string(&at) : NULL;

	if (!text || !*text)
		return ret;
	if (!is_object_name(text))
		return tree_wrong(&at, "the name of a Secret of namespace " MK_PEERS_NAMESPACE,
				  err);
	peer->secret = text_share(texts, text);
	return peer->secret ? 0 : mk_error_errno(err, ENOMEM, "name of a Secret");
}

/* How the two clusters get what the other one publishes. */
static int decode_reading(struct mk_texts *texts, const struct mk_json *spec,
			  struct mk_cluster_peer *peer, struct mk_error *err)
{
	struct mk_json at = { .parent = spec };
	bool has_inbox = false, publishes_to = false;
	int ret = decode_secret(texts, spec, peer, err);

	ret = ret ?: tree_bool(spec, "inbox", &has_inbox, err);
	ret = ret ?: tree_bool(spec, "publishTo", &publishes_to, err);
	if (ret < 0)
		return ret;
	peer->has_inbox = has_inbox;
	peer->publishes_to = publishes_to;
	at.key = has_inbox ? "inbox" : "publishTo";
	json_object_object_get_ex(spec->value, at.key, &at.value);
	if (has_inbox && peer->secret)
		return tree_wrong(&at, "no secretName beside it: a peer is read by one way", err);
	if (publishes_to && !peer->secret)
		return tree_wrong(&at, "secretName beside it: the Secret has the token", err);
	return 0;
}

static int decode_limit(const struct mk_json *limits, const char *key, int64_t max, uint16_t *limit,
			struct mk_error *err)
{
	int64_t number = *limit;
	int ret = tree_number(limits, key, 0, max, &number, err);

	*limit = (uint16_t)number;
	return ret;
}

static int decode_limits(const struct mk_json *spec, struct mk_peer_limits *limits,
			 struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(spec, "limits", json_type_object, &at, err);

	*limits = (struct mk_peer_limits){ MK_PEER_LIMIT_SERVICES, MK_PEER_LIMIT_ENDPOINTS,
					   MK_PEER_LIMIT_NODES };
	if (ret < 0 || !at.value)
		return ret;
	ret = TREE_KNOWN(&at, err, "services", "endpoints", "nodes");
	ret = ret ?: decode_limit(&at, "services", MK_PEER_LIMIT_SERVICES, &limits->services, err);
	ret = ret
		      ?: decode_limit(&at, "endpoints", MK_PEER_LIMIT_ENDPOINTS, &limits->endpoints,
				      err);
	return ret ?: decode_limit(&at, "nodes", LIMIT_NODES_MAX, &limits->nodes, err);
}

#define NAMESPACES_MAX 256

/* Append ",NAMESPACE" of each item to @text. */
static int join_namespaces(const struct mk_json *list, char *text, size_t size,
			   struct mk_error *err)
{
	size_t length = 0;
	struct mk_json at;
	int ret = 0;

	text[0] = '\0';
	for (size_t i = 0; ret == 0 && i < tree_length(list); i++) {
		ret = tree_item(list, i, json_type_string, &at, err);
		if (ret == 0 && strcmp(mk_json_string(&at), "*") != 0 &&
		    !mk_is_dns_label(mk_json_string(&at)))
			ret = tree_wrong(&at, "'*' or the name of a namespace: " MK_DNS_LABEL, err);
		if (ret == 0)
			length += (size_t)snprintf(text + length, size - length, ",%s",
						   mk_json_string(&at));
	}
	return ret;
}

static int decode_namespaces(struct mk_texts *texts, const struct mk_json *spec,
			     struct mk_cluster_peer *peer, struct mk_error *err)
{
	char text[NAMESPACES_MAX * 64 + 2]; /* a comma and a DNS label each */
	struct mk_json list;
	int ret = tree_list(spec, "importNamespaces", NAMESPACES_MAX, &list, err);

	if (ret == 0)
		ret = join_namespaces(&list, text, sizeof(text) - 1, err);
	if (ret < 0 || !list.value || strcmp(text, ",*") == 0)
		return ret;
	strcat(text, ",");
	peer->import_namespaces = text_share(texts, text);
	return peer->import_namespaces ? 0 : mk_error_errno(err, ENOMEM, "importNamespaces");
}

/* The name of a ClusterPeer is the clusterName of the peer. */
static int check_name(const struct mk_json *tree, const char *name, struct mk_error *err)
{
	struct mk_json metadata = { .parent = tree, .key = "metadata" };
	struct mk_json at = { .parent = &metadata, .key = "name" };

	if (mk_is_dns_label(name))
		return 0;
	json_object_object_get_ex(tree->value, metadata.key, &metadata.value);
	json_object_object_get_ex(metadata.value, at.key, &at.value);
	return tree_wrong(&at, "the clusterName of the peer: " MK_DNS_LABEL, err);
}

/* By which ways packets get to this peer, and to those that it introduces. */
static int decode_paths(const struct mk_json *spec, struct mk_cluster_peer *peer,
			struct mk_error *err)
{
	static const char *const accepts[] = { "None", "Transit", "Direct" };
	static const char *const paths[] = { [MK_PEER_PATH_AS_HUB_SAYS] = "",
					     [MK_PEER_PATH_HUB] = "Hub",
					     [MK_PEER_PATH_AUTO] = "Auto",
					     [MK_PEER_PATH_DIRECT] = "Direct" };
	size_t accept = 0, path = MK_PEER_PATH_AS_HUB_SAYS;
	int ret = tree_word(spec, "accept", accepts, MK_ARRAY_SIZE(accepts),
			    "None, Transit or Direct", &accept, err);

	ret = ret
		      ?: tree_word(spec, "path", paths, MK_ARRAY_SIZE(paths), "Hub, Auto or Direct",
				   &path, err);
	peer->introduces = accept > 0;
	peer->introduces_direct = accept == 2;
	peer->path = (enum mk_peer_path)path;
	return ret;
}

int cluster_peer_decode(struct mk_texts *texts, const struct mk_json *tree,
			const struct mk_object_id *id, union policy_object *object,
			struct mk_error *err)
{
	static const char *const accesses[] = { [MK_PEER_ACCESS_EXPORTS] = "Exports",
						[MK_PEER_ACCESS_PODS] = "Pods",
						[MK_PEER_ACCESS_NONE] = "None" };
	static const char *const encryptions[] = { "None", "WireGuard" };
	struct mk_cluster_peer *peer = &object->cluster_peer;
	size_t access = MK_PEER_ACCESS_EXPORTS, encryption = 0;
	struct mk_json spec;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	ret = ret ?: check_name(tree, id->name, err);
	ret = ret
		      ?: TREE_KNOWN(&spec, err, "podCidr", "externalCidr", "via", "access", "relay",
				    "accept", "path", "mtu", "secretName", "limits",
				    "importNamespaces", "encryption", "inbox", "publishTo");
	ret = ret ?: tree_created(tree, &peer->created_unix_s, err);
	ret = ret ?: decode_view(&spec, peer, err);
	ret = ret ?: decode_assigned(tree, peer, err);
	ret = ret ?: decode_externals(tree, &spec, peer, err);
	ret = ret ?: decode_via(texts, &spec, id->name, peer, err);
	ret = ret
		      ?: tree_word(&spec, "access", accesses, MK_ARRAY_SIZE(accesses),
				   "Exports, Pods or None", &access, err);
	ret = ret ?: tree_bool(&spec, "relay", &peer->relayed, err);
	ret = ret ?: decode_reading(texts, &spec, peer, err);
	ret = ret ?: decode_limits(&spec, &peer->limits, err);
	ret = ret ?: decode_namespaces(texts, &spec, peer, err);
	ret = ret ?: decode_paths(&spec, peer, err);
	ret = ret
		      ?: tree_word(&spec, "encryption", encryptions, MK_ARRAY_SIZE(encryptions),
				   "WireGuard or None", &encryption, err);
	peer->encrypts = encryption == 1;
	peer->access = (enum mk_peer_access)access;
	return ret ?: decode_mtu(&spec, peer, err);
}

/* A view stays as it is while the leader has not written the lost status again. */
void cluster_peer_keep(const union policy_object *former, union policy_object *object)
{
	const struct mk_cluster_peer *old = &former->cluster_peer;
	struct mk_cluster_peer *peer = &object->cluster_peer;

	if (!peer->lacks_status || peer->created_unix_s != old->created_unix_s)
		return;
	if (old->externals && !peer->externals) {
		peer->externals = malloc(sizeof(*peer->externals));
		if (peer->externals)
			*peer->externals = *old->externals;
	}
	if (peer->same_view)
		return;
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		if (!old->assigned[i] || peer->views[i].ip.family != AF_UNSPEC)
			continue;
		peer->views[i] = old->views[i];
		peer->assigned[i] = true;
	}
}

static bool externals_equal(const struct mk_peer_externals *a, const struct mk_peer_externals *b)
{
	if (!a || !b)
		return a == b;
	return memcmp(a->assigned, b->assigned, sizeof(a->assigned)) == 0 &&
	       mk_cidrs_equal(a->views, MK_FAMILIES, b->views, MK_FAMILIES);
}

bool cluster_peer_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_cluster_peer *left = &a->cluster_peer, *right = &b->cluster_peer;

	return left->created_unix_s == right->created_unix_s && left->via == right->via &&
	       left->same_view == right->same_view && left->access == right->access &&
	       left->relayed == right->relayed && left->introduces == right->introduces &&
	       left->encrypts == right->encrypts && left->has_inbox == right->has_inbox &&
	       left->publishes_to == right->publishes_to &&
	       left->introduces_direct == right->introduces_direct && left->path == right->path &&
	       left->mtu_bytes == right->mtu_bytes && left->secret == right->secret &&
	       left->import_namespaces == right->import_namespaces &&
	       memcmp(&left->limits, &right->limits, sizeof(left->limits)) == 0 &&
	       memcmp(left->assigned, right->assigned, sizeof(left->assigned)) == 0 &&
	       externals_equal(left->externals, right->externals) &&
	       mk_cidrs_equal(left->views, MK_FAMILIES, right->views, MK_FAMILIES);
}

void cluster_peer_release(struct mk_texts *texts, union policy_object *object)
{
	text_release(texts, object->cluster_peer.via);
	text_release(texts, object->cluster_peer.secret);
	text_release(texts, object->cluster_peer.import_namespaces);
	free(object->cluster_peer.externals);
}

/* ---- what a peer publishes ------------------------------------------------------------------- */

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

	if (ret < 0 || (at.value && parse_ranges(mk_json_string(&at), cluster->pod_cidrs) == 0))
		return ret;
	return tree_wrong(&at, EXPECTED_RANGES, err);
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
	if (parse_ranges(mk_json_string(&at), cluster->external_cidrs) < 0)
		return tree_wrong(&at, EXPECTED_RANGES, err);
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

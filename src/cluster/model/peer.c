// SPDX-License-Identifier: Apache-2.0
/* ClusterPeers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cluster/model/policy_object.h"

#define LISTED_MAX	16 /* entries of a list */
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

int peer_range_add(const char *text, struct mk_cidr cidrs[MK_FAMILIES])
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

int peer_ranges_parse(const char *text, struct mk_cidr cidrs[MK_FAMILIES])
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
	ret = peer_range_add(copy, cidrs);
	return ret == 0 && second ? peer_range_add(second, cidrs) : ret;
}

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
	if (peer->same_view || peer_ranges_parse(text, peer->views) == 0)
		return 0;
	return tree_wrong(&at, "Same, or " PEER_RANGES, err);
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
	if (text && *text && peer_ranges_parse(text, peer->externals->views) < 0)
		return tree_wrong(&at, PEER_RANGES, err);
	if (of_status && peer_ranges_parse(of_status, assigned) == 0)
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
	if (ret < 0 || peer->same_view || !text || peer_ranges_parse(text, assigned) < 0)
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

static bool has_range(const struct mk_cidr ranges[MK_FAMILIES])
{
	return ranges[0].ip.family != AF_UNSPEC || ranges[1].ip.family != AF_UNSPEC;
}

bool cluster_peer_restore(struct mk_cluster_peer *peer, const struct mk_cidr pods[MK_FAMILIES],
			  const struct mk_cidr externals[MK_FAMILIES])
{
	if (!peer->lacks_status || peer->assigned[0] || peer->assigned[1])
		return false;
	if (!peer->same_view)
		take_assigned(peer->views, peer->assigned, pods);
	if (has_range(externals) && !peer->externals)
		peer->externals = calloc(1, sizeof(*peer->externals));
	if (has_range(externals) && peer->externals)
		take_assigned(peer->externals->views, peer->externals->assigned, externals);
	return has_range(pods) || has_range(externals);
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

// SPDX-License-Identifier: Apache-2.0
/* ClusterPeers, PublishedClusters and PublishedNodes in the model: what is kept, what is refused,
 * and what the listener hears. */
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/model_internal.h"
#include "unit/model_text.h"
#include "unit/unit.h"

#define OBJECT(kind, meta, spec)                                                           \
	"{'apiVersion': 'networking.monokube.io/v1alpha1', 'kind': '" kind "', 'metadata'" \
	": {" meta "}, 'spec': {" spec "}}"
#define PEER_NAMED(name, spec) OBJECT("ClusterPeer", "'name': '" name "'", spec)
#define PEER(spec)	       PEER_NAMED("east", spec)
#define WITH_STATUS(spec, view)                                                          \
	"{'apiVersion': 'networking.monokube.io/v1alpha1', 'kind': 'ClusterPeer', "      \
	"'metadata': {'name': 'east'}, 'spec': {" spec "}, 'status': {'podCidr': '" view \
	"', 'nodes': 3}}"
#define PUBLISHED(kind, name, cluster, spec)                                                \
	OBJECT(kind,                                                                        \
	       "'name': '" name "', 'namespace': 'monokube-peers', 'labels': {'networking." \
	       "monokube.io/cluster': '" cluster "'}",                                      \
	       spec)
#define CLUSTER(spec)	      PUBLISHED("PublishedCluster", "east", "east", "'name': 'east', " spec)
#define WIRE		      ", 'wireVersions': [1]"
#define HOME		      "'podCidr': '10.244.0.0/16'" WIRE
#define NODE_OF(object, spec) PUBLISHED("PublishedNode", object, "east", spec)
#define NODE(spec)	      NODE_OF("east.n1", "'node': 'n1', " spec)
#define ADDRESSES	      "'addresses': ['192.168.1.1']"
#define KEY		      "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
#define SHOWN(kind, name, spec)                                                             \
	OBJECT(kind,                                                                        \
	       "'name': '" name "', 'namespace': 'monokube-peers', 'labels': {'networking." \
	       "monokube.io/cluster': 'east', 'networking.monokube.io/relayed-by': 'hub'}", \
	       spec)

static struct mk_model *model;

static void hear_peers(void *ctx)
{
	(void)ctx;
	hear("%speers", *heard ? " " : "");
}

static void hear_gone(void *ctx, const struct mk_published_cluster *cluster,
		      const struct mk_published_node *node)
{
	(void)ctx;
	if (cluster)
		hear("cluster %s number %u, ", cluster->name, cluster->number);
	if (node)
		hear("node %s port %u, ", node->node, node->carrier->port);
}

static void setup(void)
{
	model = mk_model_new();
	ck_assert_ptr_nonnull(model);
	mk_model_set_listener(model, &(struct mk_model_listener){ .peers_changed = hear_peers });
	heard[0] = '\0';
}

static void teardown(void)
{
	mk_model_free(model);
}

static void add_ranges(struct line *line, const struct mk_cidr cidrs[MK_FAMILIES])
{
	char text[MK_CIDR_STRLEN];

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (cidrs[i].ip.family != AF_UNSPEC)
			mk_line_add(line, " %s", mk_cidr_format(&cidrs[i], text));
}

static void visit_peer(void *ctx, const struct mk_cluster_peer *peer)
{
	static const char *const accesses[] = { [MK_PEER_ACCESS_EXPORTS] = "",
						[MK_PEER_ACCESS_PODS] = " pods",
						[MK_PEER_ACCESS_NONE] = " none" };

	mk_line_add(ctx, "peer %s", peer->name);
	add_ranges(ctx, peer->views);
	mk_line_add(ctx, "%s%s%s%s", peer->assigned[0] || peer->assigned[1] ? " assigned" : "",
		    peer->same_view ? " same" : "", accesses[peer->access],
		    peer->relayed ? " relayed" : "");
	if (peer->introduces)
		mk_line_add(ctx, " introduces%s", peer->introduces_direct ? " direct" : "");
	if (peer->path)
		mk_line_add(ctx, " path:%d", peer->path);
	if (peer->via)
		mk_line_add(ctx, " via:%s", peer->via);
	if (peer->encrypts)
		mk_line_add(ctx, " encrypts");
	if (peer->mtu_bytes)
		mk_line_add(ctx, " mtu:%u", peer->mtu_bytes);
	if (peer->secret)
		mk_line_add(ctx, " secret:%s", peer->secret);
	if (peer->has_inbox || peer->publishes_to)
		mk_line_add(ctx, peer->has_inbox ? " inbox" : " publishes");
	if (peer->import_namespaces)
		mk_line_add(ctx, " imports:%s", peer->import_namespaces);
	if (peer->limits.services != MK_PEER_LIMIT_SERVICES ||
	    peer->limits.nodes != MK_PEER_LIMIT_NODES ||
	    peer->limits.endpoints != MK_PEER_LIMIT_ENDPOINTS)
		mk_line_add(ctx, " limits:%u/%u/%u", peer->limits.services, peer->limits.endpoints,
			    peer->limits.nodes);
	if (peer->created_unix_s)
		mk_line_add(ctx, " since:%lld", (long long)peer->created_unix_s);
}

static void visit_node(void *ctx, const struct mk_published_node *node)
{
	char text[MK_IP_STRLEN], key[MK_WG_KEY_STRLEN];

	mk_line_add(ctx, "node %s/%s", node->cluster, node->node);
	add_ranges(ctx, node->pod_cidrs);
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (node->carrier->addresses[i].family != AF_UNSPEC)
			mk_line_add(ctx, " @%s", mk_ip_format(&node->carrier->addresses[i], text));
	if (node->carrier->port)
		mk_line_add(ctx, " port:%u", node->carrier->port);
	if (node->carrier->wireguard.port)
		mk_line_add(ctx, " wireguard:%s:%u",
			    mk_wg_key_format(node->carrier->wireguard.key, key),
			    node->carrier->wireguard.port);
	if (node->is_relayed)
		mk_line_add(ctx, " shown");
}

/* All that the model knows. */
static void summarize(struct line *line)
{
	const struct mk_published_cluster *cluster = mk_model_published_cluster(model, "east");

	*line = (struct line){ 0 };
	mk_model_each(struct mk_cluster_peer, of, model, MK_KIND_CLUSTER_PEER)
		visit_peer(line, of);
	mk_model_each(struct mk_published_node, of, model, MK_KIND_PUBLISHED_NODE)
		visit_node(line, of);
	if (!cluster)
		return;
	mk_line_add(line, "cluster %s %u", cluster->name, cluster->number);
	add_ranges(line, cluster->pod_cidrs);
	mk_line_add(line, "%s", cluster->speaks_wire ? "" : " mute");
	if (cluster->relayed_by)
		mk_line_add(line, " by:%s", cluster->relayed_by);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static const struct {
	const char *name, *object, *expected;
} good[] = {
	{ "a peer without fields", PEER(""), "peer east" },
	{ "a peer with defaults",
	  PEER("'podCidr': '', 'via': '', 'access': 'Exports', 'relay': false, 'mtu': 0, "
	       "'accept': 'None'"),
	  "peer east" },
	{ "a peer whose API server is read", PEER("'secretName': 'peer-east.1'"),
	  "peer east secret:peer-east.1" },
	{ "a peer with an inbox here", PEER("'inbox': true"), "peer east inbox" },
	{ "a peer with an inbox of this cluster", PEER("'secretName': 'a', 'publishTo': true"),
	  "peer east secret:a publishes" },
	{ "a peer without either", PEER("'inbox': false, 'publishTo': false"), "peer east" },
	{ "a peer without a Secret", PEER("'secretName': ''"), "peer east" },
	{ "a peer with limits", PEER("'limits': {'services': 0, 'endpoints': 7, 'nodes': 32768}"),
	  "peer east limits:0/7/32768" },
	{ "a peer with namespaces", PEER("'importNamespaces': ['shop', 'kube-dns', '*']"),
	  "peer east imports:,shop,kube-dns,*," },
	{ "a peer with all namespaces", PEER("'importNamespaces': ['*']"), "peer east" },
	{ "a peer without namespaces", PEER("'importNamespaces': []"), "peer east imports:," },
	{ "a peer with one limit", PEER("'limits': {'nodes': 1}"),
	  "peer east limits:5000/50000/1" },
	{ "a hub that introduces clusters", PEER("'accept': 'Transit'"), "peer east introduces" },
	{ ".. and their nodes", PEER("'accept': 'Direct'"), "peer east introduces direct" },
	{ "by its own nodes, beside a hub", PEER("'via': 'hub', 'path': 'Direct'"),
	  "peer east path:3 via:hub" },
	{ ".. as far as they answer", PEER("'path': 'Auto'"), "peer east path:2" },
	{ ".. not", PEER("'path': 'Hub'"), "peer east path:1" },
	{ "a cluster that a hub has shown",
	  SHOWN("PublishedCluster", "east", "'name': 'east', " HOME),
	  "cluster east 0 10.244.0.0/16 by:hub" },
	{ "a node that a hub has shown",
	  SHOWN("PublishedNode", "east.n1", "'node': 'n1', " ADDRESSES),
	  "node east/n1 @192.168.1.1 shown" },
	{ "a peer that may open nothing", PEER("'access': 'None'"), "peer east none" },
	{ "a peer with all fields",
	  OBJECT("ClusterPeer", "'name': 'east', 'creationTimestamp': '2001-09-09T01:46:40Z'",
		 "'podCidr': '240.0.3.9/16', 'via': 'hub', 'access': 'Pods', 'relay': true, "
		 "'mtu': 1400"),
	  "peer east 240.0.0.0/16 pods relayed via:hub mtu:1400 since:1000000000" },
	{ "views of both families", PEER("'podCidr': 'fd00:aaaa::/48,240.0.0.0/16'"),
	  "peer east 240.0.0.0/16 fd00:aaaa::/48" },
	{ "the same range", PEER("'podCidr': 'Same'"), "peer east same" },
	{ "views that the leader has assigned", WITH_STATUS("", "240.0.0.0/16,fd00:aaaa::/48"),
	  "peer east 240.0.0.0/16 fd00:aaaa::/48 assigned" },
	{ "the assigned view of a family counts if the user gives none",
	  WITH_STATUS("'podCidr': '241.0.0.0/16'", "240.0.0.0/16,fd00:aaaa::/48"),
	  "peer east 241.0.0.0/16 fd00:aaaa::/48 assigned" },
	{ "the user's view counts, not the assigned one",
	  WITH_STATUS("'podCidr': '241.0.0.0/16'", "240.0.0.0/16"), "peer east 241.0.0.0/16" },
	{ "the same range, and an assigned one", WITH_STATUS("'podCidr': 'Same'", "240.0.0.0/16"),
	  "peer east same" },
	{ "an assigned view that is none", WITH_STATUS("", "240.0.0.0/16,"), "peer east" },
	{ "an empty assigned view", WITH_STATUS("", ""), "peer east" },
	{ "a cluster", CLUSTER(HOME), "cluster east 0 10.244.0.0/16" },
	{ "a cluster with a number, ranges of both families and more versions",
	  CLUSTER("'number': 16777215, 'podCidr': '10.244.0.0/16,fd00::/48', 'wireVersions': [2, 1]"),
	  "cluster east 16777215 10.244.0.0/16 fd00::/48" },
	{ "a cluster with another version of the wire",
	  CLUSTER("'podCidr': '10.244.0.0/16', 'wireVersions': [2]"),
	  "cluster east 0 10.244.0.0/16 mute" },
	{ "a node", NODE(ADDRESSES), "node east/n1 @192.168.1.1" },
	{ "a node with all fields",
	  NODE("'podCidrs': ['fd00:0:0:1::/64', '10.244.1.0/24'], 'addresses': ['192.168.1.1', "
	       "'192.168.1.2', '2001:db8::1'], 'port': 8472"),
	  "node east/n1 10.244.1.0/24 fd00:0:0:1::/64 @192.168.1.1 @2001:db8::1 port:8472" },
	{ "a node with WireGuard",
	  NODE(ADDRESSES ", 'wireguard': {'publicKey': '" KEY "', 'port': 51871}"),
	  "node east/n1 @192.168.1.1 wireguard:" KEY ":51871" },
	{ "a peer with encryption", PEER("'encryption': 'WireGuard'"), "peer east encrypts" },
	{ "a peer without", PEER("'encryption': 'None'"), "peer east" },
	{ "a node whose name has dots",
	  NODE_OF("east.n1.example", "'node': 'n1.example', " ADDRESSES),
	  "node east/n1.example @192.168.1.1" },
	{ "a node in another namespace",
	  OBJECT("PublishedNode",
		 "'name': 'east.n1', 'namespace': 'x', 'labels': {'networking.monokube.io/cluster':"
		 " 'east'}",
		 "'node': 'n1', " ADDRESSES),
	  "" },
	{ "a cluster in another namespace",
	  OBJECT("PublishedCluster",
		 "'name': 'east', 'labels': {'networking.monokube.io/cluster': 'east'}",
		 "'name': 'east', " HOME),
	  "" },
};

static void delete_all(void)
{
	static const char *const namespaces[] = { "monokube-peers", "x", "default" };

	mk_model_delete(model, MK_KIND_CLUSTER_PEER, "", "east");
	for (size_t i = 0; i < MK_ARRAY_SIZE(namespaces); i++) {
		mk_model_delete(model, MK_KIND_PUBLISHED_CLUSTER, namespaces[i], "east");
		mk_model_delete(model, MK_KIND_PUBLISHED_NODE, namespaces[i], "east.n1");
		mk_model_delete(model, MK_KIND_PUBLISHED_NODE, namespaces[i], "east.n1.example");
	}
}

START_TEST(test_good)
{
	struct line line;

	apply_good_text(model, good[_i].object);
	ck_assert_str_eq(heard, "peers");
	apply_good_text(model, good[_i].object);
	ck_assert_str_eq(heard, "peers");
	summarize(&line);
	ck_assert_msg(strcmp(line.text, good[_i].expected) == 0, "%s: got \"%s\", expected \"%s\"",
		      good[_i].name, line.text, good[_i].expected);
	delete_all();
	ck_assert_str_eq(heard, "peers peers");
	summarize(&line);
	ck_assert_str_eq(line.text, "");
	ck_assert_msg(texts_count(&model->texts) == 0, "%s: texts stay", good[_i].name);
}
END_TEST

/* ---- what is refused ------------------------------------------------------------------------- */

static const struct {
	const char *object, *error;
} bad[] = {
	{ PEER_NAMED("a.b", ""), "ClusterPeer a.b: metadata.name: value \"a.b\", expected the "
				 "clusterName of the peer: lower case letters" },
	{ PEER("'secret': 'x'"),
	  "spec.secret: value \"x\", expected no such field; known are "
	  "podCidr, externalCidr, via, access, relay, accept, path, mtu, secretName, limits, importNamespaces" },
	{ PEER("'secretName': 'a/b'"), "spec.secretName: value \"a/b\", expected the name of a" },
	{ PEER("'secretName': 'a', 'inbox': true"),
	  "spec.inbox: value true, expected no secretName beside it" },
	{ PEER("'publishTo': true"), "spec.publishTo: value true, expected secretName beside it" },
	{ PEER("'inbox': 'yes'"), "spec.inbox: value \"yes\", expected " },
	{ PEER("'secretName': 'Peer'"), "spec.secretName: value \"Peer\", expected the name of" },
	{ PEER("'importNamespaces': 'shop'"), "spec.importNamespaces: value" },
	{ PEER("'importNamespaces': ['shop', 'a.b']"),
	  "spec.importNamespaces[1]: value \"a.b\", expected '*' or the name of a namespace" },
	{ PEER("'limits': {'services': 5001}"), "spec.limits.services: value 5001, expected" },
	{ PEER("'limits': {'nodes': -1}"), "spec.limits.nodes: value -1, expected" },
	{ PEER("'limits': {'pods': 1}"), "spec.limits.pods: value 1, expected no such field" },
	{ PEER("'podCidr': 'same'"), "spec.podCidr: value \"same\", expected Same, or an IPv4" },
	{ PEER("'podCidr': '240.0.0.0'"), "spec.podCidr: value \"240.0.0.0\", expected Same, or" },
	{ PEER("'podCidr': '240.0.0.0/7'"), "spec.podCidr: value \"240.0.0.0/7\", expected Same" },
	{ PEER("'podCidr': '240.0.0.0/31'"), "spec.podCidr: value \"240.0.0.0/31\", expected" },
	{ PEER("'podCidr': 'fd00::/15'"), "spec.podCidr: value \"fd00::/15\", expected" },
	{ PEER("'podCidr': 'fd00::/127'"), "spec.podCidr: value \"fd00::/127\", expected" },
	{ PEER("'podCidr': '240.0.0.0/16,241.0.0.0/16'"), "spec.podCidr: value \"240.0.0.0/16," },
	{ PEER("'podCidr': '240.0.0.0/16,'"), "spec.podCidr: value \"240.0.0.0/16,\", expected" },
	{ PEER("'podCidr': ['240.0.0.0/16']"), "spec.podCidr: value a list, expected a text" },
	{ PEER("'via': 'east'"), "spec.via: value \"east\", expected the name of another" },
	{ PEER("'via': 'a.b'"), "spec.via: value \"a.b\", expected the name of another" },
	{ PEER("'access': 'All'"), "spec.access: value \"All\", expected Exports, Pods or None" },
	{ PEER("'relay': 'yes'"), "spec.relay: value \"yes\", expected" },
	{ PEER("'accept': 'direct'"),
	  "spec.accept: value \"direct\", expected None, Transit or Direct" },
	{ PEER("'path': 'Via'"), "spec.path: value \"Via\", expected Hub, Auto or Direct" },
	{ OBJECT("PublishedCluster",
		 "'name': 'east', 'namespace': 'monokube-peers', 'labels': {'networking.monokube.io/"
		 "cluster': 'east', 'networking.monokube.io/relayed-by': 'a.b'}",
		 "'name': 'east', " HOME),
	  "label networking.monokube.io/relayed-by is 'a.b', expected the name of a hub" },
	{ PEER("'mtu': 1279"), "spec.mtu: value 1279, expected 0 or a number from 1280 to 65535" },
	{ PEER("'mtu': 65536"), "spec.mtu: value 65536, expected" },
	{ PEER("'mtu': -1"), "spec.mtu: value -1, expected" },
	{ OBJECT("PublishedCluster", "'name': 'east'", "'name': 'east', " HOME),
	  "metadata.labels: label networking.monokube.io/cluster is '', expected the name" },
	{ PUBLISHED("PublishedCluster", "west", "east", "'name': 'east', " HOME),
	  "metadata.name: value \"west\", expected 'east', as its label says" },
	{ PUBLISHED("PublishedCluster", "east", "east", "'name': 'west', " HOME),
	  "spec.name: value \"west\", expected 'east', as its label says" },
	{ PUBLISHED("PublishedCluster", "east", "east", HOME),
	  "spec.name is missing, expected 'east', as its label says" },
	{ PUBLISHED("PublishedCluster", "east", "a.b", HOME),
	  "label networking.monokube.io/cluster is 'a.b', expected the name of the cluster" },
	{ CLUSTER("'number': 16777216, " HOME), "spec.number: value 16777216, expected" },
	{ CLUSTER("'wireVersions': [1]"), "spec.podCidr is missing, expected an IPv4 range" },
	{ CLUSTER("'podCidr': ''" WIRE), "spec.podCidr: value \"\", expected an IPv4 range" },
	{ CLUSTER("'podCidr': 'Same'" WIRE), "spec.podCidr: value \"Same\", expected an IPv4" },
	{ CLUSTER("'podCidr': '10.244.0.0/16'"), "spec.wireVersions is missing, expected the" },
	{ CLUSTER("'podCidr': '10.244.0.0/16', 'wireVersions': []"),
	  "spec.wireVersions: value a list, expected the versions" },
	{ CLUSTER("'podCidr': '10.244.0.0/16', 'wireVersions': ['1']"),
	  "spec.wireVersions[0]: value \"1\", expected" },
	{ CLUSTER("'vtepCidr': '10.18.0.0/16', " HOME), "spec.vtepCidr: value \"10.18.0.0/16\", "
							"expected no such field; known are name" },
	{ NODE_OF("east.n2", "'node': 'n1', " ADDRESSES),
	  "metadata.name: value \"east.n2\", expected 'east.n1', which is CLUSTER.NODE" },
	{ NODE_OF("east.n1", ADDRESSES), "spec.node is missing, expected the name of a node" },
	{ NODE_OF("east.n1", "'node': 'N1', " ADDRESSES), "spec.node: value \"N1\", expected the" },
	{ NODE("'port': 8472"), "spec.addresses is missing, expected 1 to 16 addresses" },
	{ NODE("'addresses': []"), "spec.addresses: value a list, expected 1 to 16 addresses" },
	{ NODE("'addresses': ['127.0.0.1']"), "spec.addresses[0]: value \"127.0.0.1\", expected" },
	{ NODE("'addresses': ['224.0.0.1']"), "spec.addresses[0]: value \"224.0.0.1\", expected" },
	{ NODE("'addresses': ['fe80::1']"), "spec.addresses[0]: value \"fe80::1\", expected" },
	{ NODE("'addresses': ['192.168.1.1', 'n1']"), "spec.addresses[1]: value \"n1\", expected" },
	{ PEER("'encryption': 'IPsec'"),
	  "spec.encryption: value \"IPsec\", expected WireGuard or None" },
	{ NODE(ADDRESSES ", 'wireguard': {'publicKey': 'abc=', 'port': 51871}"),
	  "spec.wireguard.publicKey: value \"abc=\", expected 32 bytes in base64" },
	{ NODE(ADDRESSES ", 'wireguard': {'port': 51871}"),
	  "spec.wireguard.publicKey is missing, expected 32 bytes in base64" },
	{ NODE(ADDRESSES ", 'wireguard': {'publicKey': '" KEY "'}"),
	  "expected publicKey and port" },
	{ NODE(ADDRESSES ", 'wireguard': {'publicKey': '" KEY "', 'port': 65536}"),
	  "spec.wireguard.port: value 65536, expected" },
	{ NODE(ADDRESSES ", 'port': 0"), "spec.port: value 0, expected" },
	{ NODE(ADDRESSES ", 'port': 65536"), "spec.port: value 65536, expected" },
	{ NODE(ADDRESSES ", 'podCidrs': ['10.244.1.0']"),
	  "spec.podCidrs[0]: value \"10.244.1.0\", expected a range such as 10.244.1.0/24" },
	{ NODE(ADDRESSES ", 'podCidrs': ['10.244.1.0/24', '10.244.2.0/24']"),
	  "spec.podCidrs[1]: value \"10.244.2.0/24\", expected a range such as" },
	{ NODE(ADDRESSES ", 'podCidrs': ['10.244.1.0/24', 'fd00::/64', '10.244.2.0/24']"),
	  "spec.podCidrs: value a list, expected at most 2 entries" },
};

/* The last good version stays in force. */
START_TEST(test_bad)
{
	struct line before, after;
	struct mk_error err = { 0 };
	size_t texts;

	apply_good_text(model, PEER("'podCidr': 'Same', 'via': 'hub'"));
	apply_good_text(model, CLUSTER(HOME));
	apply_good_text(model, NODE(ADDRESSES));
	summarize(&before);
	texts = texts_count(&model->texts);
	heard[0] = '\0';
	ck_assert_int_lt(apply_text(model, bad[_i].object, &err), 0);
	ck_assert_msg(strstr(err.text, bad[_i].error), "got \"%s\", expected \"%s\"", err.text,
		      bad[_i].error);
	summarize(&after);
	ck_assert_str_eq(before.text, after.text);
	ck_assert_str_eq(heard, "");
	ck_assert_uint_eq(texts_count(&model->texts), texts);
}
END_TEST

/* ---- what the listener hears ----------------------------------------------------------------- */

/* Each is a change of the object before it. */
static const char *const changes[] = {
	PEER(""),
	PEER("'podCidr': 'Same'"),
	PEER("'podCidr': '240.0.0.0/16'"),
	WITH_STATUS("", "240.0.0.0/16"),
	PEER("'podCidr': '241.0.0.0/16'"),
	PEER("'podCidr': '241.0.0.0/16', 'via': 'hub'"),
	PEER("'podCidr': '241.0.0.0/16', 'via': 'hub', 'access': 'Pods'"),
	PEER("'podCidr': '241.0.0.0/16', 'via': 'hub', 'relay': true"),
	PEER("'podCidr': '241.0.0.0/16', 'via': 'hub', 'relay': true, 'mtu': 1400"),
	OBJECT("ClusterPeer", "'name': 'east', 'creationTimestamp': '2001-09-09T01:46:40Z'",
	       "'podCidr': '241.0.0.0/16', 'via': 'hub', 'relay': true, 'mtu': 1400"),
	PEER("'access': 'None'"),
	PEER("'access': 'None', 'inbox': true"),
	PEER("'access': 'None', 'secretName': 'peer-east', 'publishTo': true"),
	PEER("'access': 'None', 'secretName': 'peer-east'"),
	PEER("'access': 'None', 'secretName': 'peer-east', 'limits': {'services': 1}"),
	PEER("'access': 'None', 'accept': 'Transit'"),
	CLUSTER(HOME),
	CLUSTER("'number': 1, " HOME),
	CLUSTER("'number': 1, 'podCidr': '10.245.0.0/16'" WIRE),
	CLUSTER("'number': 1, 'podCidr': '10.245.0.0/16', 'wireVersions': [2]"),
	SHOWN("PublishedCluster", "east",
	      "'name': 'east', 'number': 1, 'podCidr': '10.245.0.0/16', 'wireVersions': [2]"),
	NODE(ADDRESSES),
	NODE(ADDRESSES ", 'port': 1"),
	NODE(ADDRESSES ", 'port': 1, 'podCidrs': ['10.244.1.0/24']"),
	NODE("'addresses': ['192.168.1.2'], 'port': 1, 'podCidrs': ['10.244.1.0/24']"),
	SHOWN("PublishedNode", "east.n1",
	      "'node': 'n1', 'addresses': ['192.168.1.2'], 'port': 1, 'podCidrs': ['10.244.1.0/24']"),
};

START_TEST(test_changes)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(changes); i++) {
		heard[0] = '\0';
		apply_good_text(model, changes[i]);
		ck_assert_msg(strcmp(heard, "peers") == 0, "change %zu: heard \"%s\"", i, heard);
		apply_good_text(model, changes[i]);
		ck_assert_msg(strcmp(heard, "peers") == 0, "change %zu twice: \"%s\"", i, heard);
	}
}
END_TEST

/* published_gone gets the content of the vanished object, before peers_changed is called. */
START_TEST(test_gone)
{
	mk_model_set_listener(model, &(struct mk_model_listener){ .published_gone = hear_gone,
								  .peers_changed = hear_peers });
	apply_good_text(model, NODE(ADDRESSES ", 'port': 1"));
	apply_good_text(model, CLUSTER("'number': 3, " HOME));
	heard[0] = '\0';
	mk_model_delete(model, MK_KIND_PUBLISHED_NODE, "monokube-published", "east.n1");
	mk_model_delete(model, MK_KIND_PUBLISHED_NODE, "monokube-peers", "east.n1");
	mk_model_delete(model, MK_KIND_PUBLISHED_CLUSTER, "monokube-peers", "east");
	ck_assert_str_eq(heard, "node n1 port 1,  peerscluster east number 3,  peers");
}
END_TEST

#define AGED(created, spec, status)                                                        \
	"{'apiVersion': 'networking.monokube.io/v1alpha1', 'kind': 'ClusterPeer', "        \
	"'metadata': {'name': 'east', 'creationTimestamp': '" created "'}, 'spec': {" spec \
	"}, 'status': {" status "}}"
#define OLD "2001-09-09T01:46:40Z"
#define NEW "2001-09-09T01:46:41Z"

/* A ClusterPeer of OLD had the assigned views 240.0.0.0/16 and fd00:aaaa::/48. */
static const struct {
	const char *name, *object, *expected;
} lost[] = {
	{ "the status is lost", AGED(OLD, "", ""),
	  "peer east 240.0.0.0/16 fd00:aaaa::/48 assigned since:1000000000" },
	{ "the leader has taken the view away", AGED(OLD, "", "'conditions': [{'type': 'Ranges'}]"),
	  "peer east since:1000000000" },
	{ "the leader has moved the view", AGED(OLD, "", "'podCidr': '240.7.0.0/16'"),
	  "peer east 240.7.0.0/16 assigned since:1000000000" },
	{ "the status is lost, and the user chooses a view of one family",
	  AGED(OLD, "'podCidr': '241.0.0.0/16'", ""),
	  "peer east 241.0.0.0/16 fd00:aaaa::/48 assigned since:1000000000" },
	{ "the status is lost, and the user chooses the same range",
	  AGED(OLD, "'podCidr': 'Same'", ""), "peer east same since:1000000000" },
	{ "another object of this name", AGED(NEW, "", ""), "peer east since:1000000001" },
};

START_TEST(test_lost_status)
{
	struct line line;

	apply_good_text(model, AGED(OLD, "", "'podCidr': '240.0.0.0/16,fd00:aaaa::/48'"));
	apply_good_text(model, lost[_i].object);
	summarize(&line);
	ck_assert_msg(strcmp(line.text, lost[_i].expected) == 0, "%s: got \"%s\", expected \"%s\"",
		      lost[_i].name, line.text, lost[_i].expected);
}
END_TEST

START_TEST(test_what_a_hub_shows)
{
	const struct mk_cluster_peer direct = { .name = "east" };
	const struct mk_cluster_peer by_hub = { .name = "east", .via = "hub" };

	ck_assert(mk_published_counts(NULL, &direct));
	ck_assert(mk_published_counts(NULL, &by_hub));
	ck_assert(mk_published_counts("hub", &by_hub));
	ck_assert(!mk_published_counts("other", &by_hub));
	ck_assert(!mk_published_counts("hub", &direct));
	ck_assert(!mk_published_counts("hub", NULL));
}
END_TEST

UNIT_SUITE("peers in the model")
{
	TCase *tcase = unit_case(suite, "model_peers", setup, teardown);

	tcase_add_loop_test(tcase, test_good, 0, (int)MK_ARRAY_SIZE(good));
	tcase_add_loop_test(tcase, test_bad, 0, (int)MK_ARRAY_SIZE(bad));
	tcase_add_test(tcase, test_changes);
	tcase_add_test(tcase, test_gone);
	tcase_add_test(tcase, test_what_a_hub_shows);
	tcase_add_loop_test(tcase, test_lost_status, 0, (int)MK_ARRAY_SIZE(lost));
}

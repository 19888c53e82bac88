// SPDX-License-Identifier: Apache-2.0
#include "agent/clusters/gone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "agent/clusters/probe.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/state_file.h"
#include "base/time.h"

struct clusters_gone_object {
	UT_hash_handle hh;
	uint64_t since_ns;
	bool has_peer, is_silent, is_said;
	const char *of; /* the peer */
	struct mk_published_cluster cluster; /* without a name: it is a node */
	struct mk_cidr external_cidrs[MK_FAMILIES];
	struct mk_published_node node;
	struct mk_published_carrier carrier;
	char texts[]; /* name of the cluster, then of the node or the hub */
};
typedef struct clusters_gone_object object;

/* ---- to keep --------------------------------------------------------------------------------- */

static void drop(struct mk_clusters_gone *gone, object *at)
{
	HASH_DEL(gone->objects, at);
	free(at);
}

/* The key of a cluster is its name, that of a node both names, each with its last byte. */
static object *find(const struct mk_clusters_gone *gone, const char *key, size_t bytes)
{
	object *found;

	HASH_FIND(hh, gone->objects, key, bytes, found);
	return found;
}

/* NULL: there is no memory, and the object counts no longer. */
static object *add(struct mk_clusters_gone *gone, const char *cluster, const char *more,
		   bool is_node)
{
	size_t first = strlen(cluster) + 1, second = strlen(more) + 1;
	object *at = calloc(1, sizeof(*at) + first + second), *former;

	if (!at)
		return NULL;
	memcpy(at->texts, cluster, first);
	memcpy(at->texts + first, more, second);
	at->of = at->texts;
	at->since_ns = mk_time_monotonic_ns();
	former = find(gone, at->texts, first + (is_node ? second : 0));
	if (former)
		drop(gone, former);
	HASH_ADD_KEYPTR(hh, gone->objects, at->texts, first + (is_node ? second : 0), at);
	return at;
}

static void keep_cluster(struct mk_clusters_gone *gone, const struct mk_published_cluster *cluster)
{
	object *at = add(gone, cluster->name, cluster->relayed_by ?: "", false);

	if (!at)
		return;
	at->cluster = *cluster;
	at->cluster.name = at->of;
	if (cluster->relayed_by)
		at->cluster.relayed_by = at->of + strlen(at->of) + 1;
	if (!cluster->external_cidrs)
		return;
	memcpy(at->external_cidrs, cluster->external_cidrs, sizeof(at->external_cidrs));
	at->cluster.external_cidrs = at->external_cidrs;
}

static void keep_node(struct mk_clusters_gone *gone, const struct mk_published_node *node)
{
	object *at = add(gone, node->cluster, node->node, true);

	if (!at)
		return;
	at->node = *node;
	at->carrier = *node->carrier;
	at->node.carrier = &at->carrier;
	at->node.cluster = at->of;
	at->node.node = at->of + strlen(at->of) + 1;
}

void mk_node_clusters_gone(struct mk_node_clusters *clusters,
			   const struct mk_published_cluster *cluster,
			   const struct mk_published_node *node)
{
	if (cluster)
		keep_cluster(&clusters->gone, cluster);
	if (node)
		keep_node(&clusters->gone, node);
}

/* ---- to read --------------------------------------------------------------------------------- */

size_t gone_count(const struct mk_clusters_gone *gone)
{
	return gone ? HASH_COUNT(gone->objects) : 0;
}

void gone_each_node(const struct mk_clusters_gone *gone,
		    void (*visit)(void *ctx, const struct mk_published_node *node), void *ctx)
{
	for (const object *at = gone ? gone->objects : NULL; at; at = at->hh.next)
		if (at->node.node)
			visit(ctx, &at->node);
}

static const struct mk_published_cluster *gone_cluster(const struct mk_clusters_gone *gone,
						       const char *name)
{
	const object *found = gone ? find(gone, name, strlen(name) + 1) : NULL;

	return found ? &found->cluster : NULL;
}

const struct mk_published_cluster *mk_clusters_published(const struct mk_model *model,
							 const struct mk_clusters_gone *gone,
							 const char *name)
{
	return mk_model_published_cluster(model, name) ?: gone_cluster(gone, name);
}

/* ---- the end --------------------------------------------------------------------------------- */

struct trimming {
	struct mk_clusters_gone *gone;
	const struct mk_model *model;
	const struct clusters_probes *probes; /* NULL: none are sent */
};

/* Has the node lost the last probes to its virtual pod address, in either family? */
static bool is_silent(const struct trimming *trimming, const struct mk_cluster_peer *peer,
		      const struct mk_published_node *node)
{
	const struct mk_published_cluster *published =
		mk_clusters_published(trimming->model, trimming->gone, peer->name);

	for (size_t i = 0; trimming->probes && published && i < MK_FAMILIES; i++) {
		const struct mk_cidr *home = &published->pod_cidrs[i], *of = &node->pod_cidrs[i];
		const struct mk_cidr *view = peer->same_view ? home : &peer->views[i];
		struct mk_ip ip;

		if (home->ip.family == AF_UNSPEC || view->ip.family == AF_UNSPEC ||
		    of->ip.family == AF_UNSPEC)
			continue;
		ip = mk_cidr_nth(of, 1);
		ip = mk_clusters_seen(home, view, &ip);
		if (mk_probes_is_silent(trimming->probes->state, &ip))
			return true;
	}
	return false;
}

static void look_at(const struct trimming *trimming, const struct mk_cluster_peer *peer)
{
	for (object *at = trimming->gone->objects; at; at = at->hh.next) {
		if (strcmp(at->of, peer->name) != 0)
			continue;
		at->has_peer = true;
		at->is_silent = at->node.node && is_silent(trimming, peer, &at->node);
	}
}

static void say(struct mk_clusters_gone *gone)
{
	const object *first = NULL;
	char others[48] = "";
	size_t count = 0;

	for (object *at = gone->objects; at; at = at->hh.next) {
		if (at->is_said)
			continue;
		first = first ?: at;
		count++;
		at->is_said = true;
	}
	if (!first)
		return;
	if (count > 1)
		snprintf(others, sizeof(others), ", and %zu more objects are", count - 1);
	mk_log_info(
		"peer %s: its %s '%s' is gone%s: vanished objects count for %llu s more, nodes only while they answer probes",
		first->of, first->node.node ? "PublishedNode of node" : "PublishedCluster",
		first->node.node ?: first->of, others,
		(unsigned long long)(gone->keep_ns / MK_NS_PER_S));
}

static bool is_over(const struct mk_clusters_gone *gone, const object *at)
{
	return mk_time_since_ns(mk_time_monotonic_ns(), at->since_ns) >= gone->keep_ns;
}

void gone_trim(struct mk_clusters_gone *gone, const struct mk_model *model,
	       const struct clusters_probes *probes)
{
	struct trimming trimming = { gone, model, probes };
	object *at, *next;

	if (!gone->objects)
		return;
	for (at = gone->objects; at; at = at->hh.next)
		at->has_peer = false;
	mk_model_each(struct mk_cluster_peer, peer, model, MK_KIND_CLUSTER_PEER)
		look_at(&trimming, peer);
	HASH_ITER(hh, gone->objects, at, next)
		if (!at->has_peer || at->is_silent || is_over(gone, at))
			drop(gone, at);
	say(gone);
}

bool gone_is_over(const struct mk_clusters_gone *gone)
{
	for (const object *at = gone->objects; at; at = at->hh.next)
		if (is_over(gone, at))
			return true;
	return false;
}

void gone_release(struct mk_clusters_gone *gone)
{
	object *at, *next;

	HASH_ITER(hh, gone->objects, at, next)
		drop(gone, at);
}

/* ---- before the start ------------------------------------------------------------------------ */

/* @former: peers of the last run. */
static bool was_usable(json_object *former, const char *peer)
{
	for (size_t i = 0; i < mk_json_length(former); i++) {
		json_object *of = json_object_array_get_idx(former, i);

		if (strcmp(mk_json_text(of, "name"), peer) == 0 && mk_json_flag(of, "usable"))
			return true;
	}
	return false;
}

/* The file of the last run; the caller puts it. NULL: there is none. */
static json_object *read_former(const char *state_dir)
{
	cleanup_free char *text = NULL;
	struct mk_error err;

	if (mk_state_file_read(state_dir, MK_CLUSTER_NAMES_FILE, &text, &err) <= 0)
		return NULL;
	return json_tokener_parse(text);
}

const char *gone_before_start(const struct mk_model *model, const char *state_dir)
{
	cleanup_json json_object *tree = read_former(state_dir);

	mk_model_each(struct mk_cluster_peer, peer, model, MK_KIND_CLUSTER_PEER)
		if (!mk_model_published_cluster(model, peer->name) &&
		    was_usable(mk_json_member(tree, "peers"), peer->name))
			return peer->name;
	return NULL;
}

static bool overlaps(const struct mk_cidr *a, const struct mk_cidr *b)
{
	return a->ip.family == b->ip.family && (mk_cidr_covers(a, b) || mk_cidr_covers(b, a));
}

/* Has another ClusterPeer the view @view now? This node may have been away for long. */
static bool is_taken(const struct mk_model *model, const char *name, const struct mk_cidr *view)
{
	mk_model_each(struct mk_cluster_peer, peer, model, MK_KIND_CLUSTER_PEER)
		for (size_t i = 0; strcmp(peer->name, name) != 0 && i < MK_FAMILIES; i++)
			if (overlaps(view, &peer->views[i]) ||
			    (peer->externals && overlaps(view, &peer->externals->views[i])))
				return true;
	return false;
}

static void read_views(const struct mk_model *model, json_object *former, const char *key,
		       struct mk_cidr views[MK_FAMILIES])
{
	json_object *list = mk_json_member(former, key);
	struct mk_cidr view;

	for (size_t i = 0; i < mk_json_length(list); i++) {
		const char *text = json_object_get_string(json_object_array_get_idx(list, i));

		if (text && mk_cidr_parse(text, &view) == 0 &&
		    !is_taken(model, mk_json_text(former, "name"), &view))
			views[mk_family_index(view.ip.family)] = view;
	}
}

void gone_restore_views(struct mk_model *model, const char *state_dir)
{
	cleanup_json json_object *tree = read_former(state_dir);
	json_object *peers = mk_json_member(tree, "peers");

	for (size_t i = 0; i < mk_json_length(peers); i++) {
		json_object *former = json_object_array_get_idx(peers, i);
		struct mk_cidr pods[MK_FAMILIES] = { 0 }, externals[MK_FAMILIES] = { 0 };
		const char *name = mk_json_text(former, "name");

		read_views(model, former, "views", pods);
		read_views(model, former, "externalViews", externals);
		if (mk_model_restore_views(model, name, pods, externals))
			mk_log_info(
				"peer %s: its ClusterPeer has no status, so its view is that of the last run",
				name);
	}
}

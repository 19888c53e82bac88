// SPDX-License-Identifier: Apache-2.0
/* Views of peers from peerPools, and the status of ClusterPeers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/leader/leader_internal.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "clusterset/peer_status.h"
#include "clusterset/views.h"

#define EXTERNAL_NAME_CHARS 96 /* a DNS label with a suffix */

/* All ClusterPeers of the model, by name, and what becomes of their views. The views of their
 * external addresses come after those of their pods, in the same order. */
struct peers {
	struct mk_clusters_objects objects;
	struct mk_views_peer *views;
	struct mk_views_result *results;
	char (*names)[EXTERNAL_NAME_CHARS]; /* of the views of external addresses */
};

/* ---- what peers say -------------------------------------------------------------------------- */

/* The views that the annotation of the ClusterPeer names. A text that makes no sense is none. */
static void fill_left(const struct mk_lead_object *object, struct mk_views_peer *pods,
		      struct mk_views_peer *externals)
{
	json_object *metadata = object ? mk_json_member(object->tree, "metadata") : NULL;
	json_object *annotations = metadata ? mk_json_member(metadata, "annotations") : NULL;
	cleanup_free char *text = strdup(mk_json_text(annotations, MK_LEAVE_ANNOTATION));
	char *rest = text, *one;
	size_t count = 0;

	while (text && count < MK_VIEWS_LEFT_MAX && (one = strsep(&rest, ",")))
		if (mk_cidr_parse(one, &pods->left[count]) == 0)
			count++;
	for (size_t i = count; i < MK_VIEWS_LEFT_MAX; i++)
		pods->left[i] = (struct mk_cidr){ 0 };
	memcpy(externals->left, pods->left, sizeof(pods->left));
}

static void fill(struct peers *peers, size_t index)
{
	const struct mk_cluster_peer *peer = peers->objects.of[index];
	struct mk_views_peer *views = &peers->views[index];

	views->name = peer->name;
	views->created_unix_s = peer->created_unix_s;
	views->is_same = peer->same_view;
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		views->home[i] = peers->objects.peers[i][index].home;
		*(peer->assigned[i] ? &views->held[i] : &views->wanted[i]) = peer->views[i];
	}
}

static void fill_external(struct peers *peers, size_t index)
{
	const struct mk_cluster_peer *peer = peers->objects.of[index];
	const struct mk_peer_externals *externals = peer->externals;
	struct mk_views_peer *views = &peers->views[peers->objects.count + index];

	snprintf(peers->names[index], EXTERNAL_NAME_CHARS, "%s/externalCidr", peer->name);
	views->name = peers->names[index];
	views->created_unix_s = peer->created_unix_s;
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		views->home[i] = peers->objects.peers[i][index].external_home;
		if (externals)
			*(externals->assigned[i] ? &views->held[i] : &views->wanted[i]) =
				externals->views[i];
	}
}

/* The model may have a new ClusterPeer before the leader has its object. Hubs introduce no
 * ClusterPeer without a hub in its path. */
static void fill_by_object(const struct mk_leader *leader, struct peers *peers, size_t index)
{
	const struct mk_cluster_peer *peer = peers->objects.of[index];
	struct mk_views_peer *pods = &peers->views[index];
	struct mk_views_peer *externals = &peers->views[peers->objects.count + index];
	const struct mk_lead_object *object =
		mk_lead_find(leader->lead, MK_LEAD_PEERS, "", peer->name);

	fill_left(object, pods, externals);
	pods->is_introduced = object ? object->is_ours : peer->via != NULL;
	externals->is_introduced = pods->is_introduced;
}

static void release_peers(struct peers *peers)
{
	if (peers->results)
		mk_views_results_release(peers->results, 2 * peers->objects.count);
	free(peers->names);
	free(peers->results);
	free(peers->views);
	mk_clusters_objects_release(&peers->objects);
}

/* The caller releases @peers, also after an error. */
static int list_peers(const struct mk_leader *leader, struct peers *peers, struct mk_error *err)
{
	const struct mk_config *config = leader->config;
	sa_family_t underlay = config->underlay_family ?: config->cluster.primary;
	int ret = mk_clusters_objects_get(leader->model, NULL, underlay, &peers->objects, err);

	if (ret < 0)
		return ret;
	peers->views = calloc(2 * peers->objects.count + 1, sizeof(*peers->views));
	peers->results = calloc(2 * peers->objects.count + 1, sizeof(*peers->results));
	peers->names = calloc(peers->objects.count + 1, sizeof(*peers->names));
	if (!peers->views || !peers->results || !peers->names)
		return mk_error_errno(err, ENOMEM, "views of peers");
	for (size_t i = 0; i < peers->objects.count; i++) {
		fill(peers, i);
		fill_external(peers, i);
		fill_by_object(leader, peers, i);
	}
	return 0;
}

/* ---- what is not free ------------------------------------------------------------------------ */

struct taken {
	struct mk_views_taken *of;
	size_t count;
	bool failed;
};

static void add_taken(struct taken *taken, const struct mk_cidr *range, const char *what)
{
	struct mk_views_taken *added;

	if (range->ip.family == AF_UNSPEC)
		return;
	added = mk_append(taken->of, taken->count);
	if (added)
		*added = (struct mk_views_taken){ mk_cidr_network(range), what };
	else
		taken->failed = true;
}

static void add_node(struct taken *taken, const struct mk_node_object *node)
{
	for (size_t i = 0; i < node->address_count; i++) {
		const struct mk_ip *ip = &node->addresses[i];
		const struct mk_cidr range = { .ip = *ip,
					       .prefix_bits = ip->family == AF_INET ? 32 : 128 };

		add_taken(taken, &range, "an address of a node");
	}
}

/* Of the host's networks, those that its packets reach without a default route. */
static void add_networks(struct taken *taken, const struct mk_networks *networks)
{
	for (size_t i = 0; i < networks->count; i++) {
		const struct mk_network *network = &networks->list[i];

		if (network->kind == MK_NET_ON_LINK || network->kind == MK_NET_ROUTED ||
		    network->kind == MK_NET_GATEWAY)
			add_taken(taken, &network->cidr, "a network of the leader's node");
	}
}

/* The caller frees @taken->of, also after an error. */
static int list_taken(const struct mk_leader *leader, struct taken *taken)
{
	const struct mk_config *config = leader->config;
	cleanup_free struct mk_service_cidr *services = NULL;
	size_t count = 0;

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		add_taken(taken, &config->cluster.of[i], "clusterCidr");
		add_taken(taken, &config->vteps.of[i], "vtepCidr");
		add_taken(taken, &config->clusterset.of[i], "clustersetCidr");
		add_taken(taken, &config->externals.of[i], "externalCidr");
	}
	if (mk_model_service_cidrs(leader->model, AF_UNSPEC, &services, &count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		add_taken(taken, &services[i].cidr, "a range of Services");
	mk_model_each(struct mk_node_object, node, leader->model, MK_KIND_NODE)
		add_node(taken, node);
	if (leader->clusters)
		add_networks(taken, &leader->clusters->node->networks);
	return taken->failed ? -ENOMEM : 0;
}

/* ---- to compute, and to write ---------------------------------------------------------------- */

static int compute(struct mk_leader *leader, struct peers *peers, const struct taken *taken,
		   struct mk_error *err)
{
	const struct mk_config *config = leader->config;
	struct mk_cidr pools[MK_FAMILIES];
	struct mk_views_input input = {
		.peers = peers->views,
		.peer_count = 2 * peers->objects.count,
		.pools = pools,
		.taken = taken->of,
		.taken_count = taken->count,
		.now_s = (int64_t)(mk_time_monotonic_ns() / MK_NS_PER_S),
	};

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		input.families[i] = config->cluster.of[i].ip.family != AF_UNSPEC;
		if (config->peer_pools.of[i].ip.family != AF_UNSPEC)
			pools[input.pool_count++] = mk_cidr_network(&config->peer_pools.of[i]);
	}
	return mk_views_update(leader->term->views, &input, peers->results, err);
}

static void write_status(struct mk_leader *leader, const struct mk_peer_report *report)
{
	const struct mk_clusters_peer *peers = report->peers[0] ?: report->peers[1];
	const struct mk_lead_object *object =
		mk_lead_find(leader->lead, MK_LEAD_PEERS, "", peers[report->index].name);
	cleanup_json json_object *status = NULL;
	struct mk_peer_report with_reading = *report;
	struct mk_copies_report imported;
	struct mk_peer_reading reading;
	char now[MK_TIME_STRLEN];
	struct mk_error err;

	if (!object)
		return;
	if (leader_copies_reading(leader, object->name, &imported, &reading))
		with_reading.reading = &reading;
	status = mk_peer_status(object->tree, &with_reading, leader_now(now));
	leader_say_conditions(leader, object, status);
	if (status && mk_lead_apply_status(leader->lead, status, &err) < 0)
		leader_failed(leader, &err);
}

static bool lacks_handshake(const struct mk_leader *leader, const struct mk_peer_report *report)
{
	const struct mk_clusters_state *states = report->states[0] ?: report->states[1];

	return leader->clusters && states &&
	       !mk_node_clusters_answers(leader->clusters, states[report->index].number);
}

static void write_all(struct mk_leader *leader, const struct peers *peers)
{
	const struct mk_config *config = leader->config;
	const struct mk_clusters_own own = {
		.name = config->cluster_name,
		.number = config->cluster_id ?: mk_cluster_number(config->cluster_name),
	};
	struct mk_peer_report report = {
		.own = &own,
		.count = peers->objects.count,
		.has_borders = peers->objects.border_count > 0,
		.is_underlay_ipv6 = config->underlay_family == AF_INET6,
	};

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		if (config->cluster.of[i].ip.family == AF_UNSPEC)
			continue;
		report.peers[i] = peers->objects.peers[i];
		if (leader->clusters && leader->clusters->rows[i].state_count == report.count)
			report.states[i] = leader->clusters->rows[i].states;
	}
	for (; report.index < report.count; report.index++) {
		report.view = &peers->results[report.index];
		if (leader->clusters)
			report.probes = mk_node_clusters_probed(
				leader->clusters, peers->objects.of[report.index]->name);
		report.lacks_handshake = lacks_handshake(leader, &report);
		report.external_view = &peers->results[report.count + report.index];
		if (report.view->reason == MK_RANGES_POOL_EXHAUSTED ||
		    report.external_view->reason == MK_RANGES_POOL_EXHAUSTED)
			leader->term->views_again_ms = leader_now_ms() + LEADER_VIEWS_AGAIN_MS;
		write_status(leader, &report);
	}
}

/* Before that, another peer's view, or a network, may be missing. */
static bool is_ready(const struct mk_leader *leader)
{
	const struct mk_node_clusters *clusters = leader->clusters;

	return mk_lead_has_listed(leader->lead, MK_LEAD_PEERS) &&
	       (!clusters || (clusters->known && clusters->settled));
}

void leader_assign_views(struct mk_leader *leader)
{
	struct leader_term *term = leader->term;
	struct peers peers = { 0 };
	struct taken taken = { 0 };
	struct mk_error err;
	int ret;

	if (!is_ready(leader))
		return;
	term->views_due = false;
	term->views_again_ms = 0;
	term->views = term->views ?: mk_views_new();
	ret = term->views ? list_peers(leader, &peers, &err)
			  : mk_error_errno(&err, ENOMEM, "views of peers");
	if (ret == 0 && list_taken(leader, &taken) < 0)
		ret = mk_error_errno(&err, ENOMEM, "ranges that are in use");
	ret = ret ?: compute(leader, &peers, &taken, &err);
	if (ret == 0)
		write_all(leader, &peers);
	else
		leader_failed(leader, &err);
	release_peers(&peers);
	free(taken.of);
}

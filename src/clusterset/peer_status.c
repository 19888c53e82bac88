// SPDX-License-Identifier: Apache-2.0
/* Status of ClusterPeers: why a peer is not valid, has no view, or gets no packets. */
#include "clusterset/peer_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusterset/condition.h"
#include "clusterset/content.h"

/* ---- ClusterPeers ---------------------------------------------------------------------------- */

/* The report's peer, and what became of it in the families that this cluster runs. */
struct peer_at {
	const struct mk_peer_report *report;
	const struct mk_clusters_peer *peer;
	const struct mk_clusters_state *states[MK_FAMILIES]; /* NULL: not this family */
	char *note; /* of a condition */
};

static uint32_t number_of(const struct mk_clusters_peer *peer)
{
	return peer->number ?: mk_cluster_number(peer->name);
}

static bool is_older(const struct mk_clusters_peer *a, const struct mk_clusters_peer *b)
{
	if (a->created_unix_s != b->created_unix_s)
		return a->created_unix_s < b->created_unix_s;
	return strcmp(a->name, b->name) < 0;
}

/* Returns the name of the cluster that has the peer's number; NULL: it has the number itself. */
static const char *number_holder(const struct peer_at *at, const struct mk_clusters_peer *peers)
{
	const struct mk_peer_report *report = at->report;
	uint32_t number = number_of(at->peer);

	if (number == report->own->number)
		return report->own->name;
	for (size_t i = 0; i < report->count; i++)
		if (i != report->index && peers[i].is_published && number_of(&peers[i]) == number &&
		    is_older(&peers[i], at->peer))
			return peers[i].name;
	return NULL;
}

static bool knows_via(const struct peer_at *at, const struct mk_clusters_peer *peers)
{
	for (size_t i = 0; i < at->report->count; i++)
		if (i != at->report->index && strcmp(peers[i].name, at->peer->via) == 0)
			return true;
	return false;
}

static struct verdict valid_peer(struct peer_at *at, const struct mk_clusters_peer *peers)
{
	const struct mk_clusters_peer *peer = at->peer;
	const char *holder = peer->is_published ? number_holder(at, peers) : NULL;
	int ret = 0;

	if (strcmp(peer->name, at->report->own->name) == 0)
		return (struct verdict){
			"Valid", "False", "NameOfThisCluster",
			"this is the clusterName of this cluster: each needs a name of its own"
		};
	if (peer->is_published && !peer->speaks_wire)
		return (struct verdict){
			"Valid", "False", "NotMonokube",
			"its wireVersions lack the only one of this version: upgrade the older of the two clusters"
		};
	if (holder)
		ret = note_first(
			&at->note,
			"number %u is also that of cluster '%s': set clusterId in one of the two to a free number",
			number_of(peer), holder);
	if (holder)
		return (struct verdict){ "Valid", "False", "NumberTaken",
					 ret < 0 ? holder : at->note };
	if (peer->via && !knows_via(at, peers))
		ret = note_first(&at->note, "spec.via: there is no ClusterPeer '%s'", peer->via);
	if (peer->via && !knows_via(at, peers))
		return (struct verdict){ "Valid", "False", "UnknownVia",
					 ret < 0 ? peer->via : at->note };
	return (struct verdict){ "Valid", "True", "Valid", "the ClusterPeer makes sense" };
}

/* A peer of an earlier version has no external addresses, and lacks nothing. */
static struct verdict ranges_of_peer(const struct mk_peer_report *report)
{
	const struct mk_views_result *view = report->view, *external = report->external_view;
	static const char *const reasons[] = {
		[MK_RANGES_ASSIGNED] = "Assigned",
		[MK_RANGES_NOT_PUBLISHED] = "NotPublished",
		[MK_RANGES_POOL_EXHAUSTED] = "PoolExhausted",
		[MK_RANGES_CONFLICT] = "Conflict",
	};

	if (external && view->reason == MK_RANGES_ASSIGNED &&
	    external->reason != MK_RANGES_NOT_PUBLISHED)
		view = external;
	return (struct verdict){ "Ranges", view->reason == MK_RANGES_ASSIGNED ? "True" : "False",
				 reasons[view->reason], view->text ?: "each family has a view" };
}

/* Ready: a packet to the peer has a way, in one family at least. */
static struct verdict ready_peer(const struct peer_at *at)
{
	const char *reason = NULL;
	bool usable = false;

	for (size_t family = 0; family < MK_FAMILIES; family++) {
		if (!at->states[family])
			continue;
		usable |= at->states[family]->is_usable;
		reason = reason ?: at->states[family]->reason;
	}
	if (usable)
		return (struct verdict){ "Ready", "True", "Ready",
					 reason ?: "packets are sent to the peer" };
	return (struct verdict){ "Ready", "False", "NotReady",
				 reason ?: "the peer's rows are not computed yet" };
}

static struct verdict connected_peer(const struct mk_peer_reading *reading)
{
	if (!reading)
		return (struct verdict){
			"Connected", "False", "Manual",
			"there is no spec.secretName: what the peer publishes is carried by hand"
		};
	return (struct verdict){ "Connected", reading->is_connected ? "True" : "False",
				 reading->reason, reading->message };
}

static struct verdict imported_peer(const struct mk_peer_reading *reading)
{
	return (struct verdict){ "Imported", reading->is_imported ? "True" : "False",
				 reading->import_reason, reading->import_message };
}

static bool is_probed(const struct mk_probes_state *probes)
{
	return probes->probed || probes->is_down;
}

#define REACHABLE 640

/* As the leader's node sees it, with a message in @buf. */
static struct verdict reachable_peer(const struct mk_probes_state *probes, char buf[REACHABLE])
{
	if (probes->is_down) {
		snprintf(
			buf, REACHABLE,
			"no node answers the probes of the leader's node%s%s: let UDP of the overlay (vxlanPort) pass between the nodes, and let the peer know this cluster's nodes",
			*probes->silent ? ": " : "", probes->silent);
		return (struct verdict){ "Reachable", "False", "NoAnswer", buf };
	}
	if (probes->answering < probes->probed) {
		snprintf(
			buf, REACHABLE,
			"these nodes do not answer the probes of the leader's node: %s: packets that any node may take go to the others",
			probes->silent);
		return (struct verdict){ "Reachable", "True", "Degraded", buf };
	}
	if (probes->mtu_bytes) {
		snprintf(
			buf, REACHABLE,
			"packets of more than %u bytes to the peer are lost, so larger ones are refused: raise the MTU of the network between the clusters, or let fragments of UDP pass, or set spec.mtu to %u",
			probes->mtu_bytes, probes->mtu_bytes);
		return (struct verdict){ "Reachable", "True", "PathMTU", buf };
	}
	return (struct verdict){ "Reachable", "True", "Reachable",
				 "the nodes answer the probes of the leader's node" };
}

/* As the leader's node sees it. */
static struct verdict encrypted_peer(const struct peer_at *at)
{
	bool cannot = false;
	size_t nodes = 0;

	for (size_t family = 0; family < MK_FAMILIES; family++) {
		if (!at->states[family])
			continue;
		cannot |= at->states[family]->cannot_encrypt;
		nodes += at->states[family]->nodes_used;
	}
	if (!at->peer->encrypts)
		return (struct verdict){ "Encrypted", "False", "Off",
					 "spec.encryption is None: packets are not encrypted" };
	if (cannot && at->report->is_underlay_ipv6)
		return (struct verdict){
			"Encrypted", "False", "NoIPv6",
			"the nodes' addresses are of IPv6 (underlayFamily), and WireGuard is used between IPv4 addresses only: nothing is sent to the peer's nodes"
		};
	if (cannot)
		return (struct verdict){
			"Encrypted", "False", "NoWireGuard",
			"the leader's node cannot encrypt, so it sends nothing to the peer's nodes: condition Ready says why"
		};
	if (nodes == 0)
		return (struct verdict){
			"Encrypted", "False", "NoKey",
			"no node of the peer with a WireGuard key is known, so nothing is sent to its nodes"
		};
	if (at->report->probes.is_down && at->report->lacks_handshake && !at->peer->via)
		return (struct verdict){
			"Encrypted", "False", "NoHandshake",
			"no node of the peer answers the WireGuard of the leader's node: let UDP of wireguardPort pass between the nodes, and publish the nodes of both clusters again"
		};
	return (struct verdict){ "Encrypted", "True", "Encrypted",
				 "packets between the nodes of both clusters are encrypted" };
}

static void put_ranges(struct maker *maker, json_object *status, const char *key,
		       const struct mk_cidr ranges[MK_FAMILIES])
{
	char text[2 * MK_CIDR_STRLEN + 1] = "", one[MK_CIDR_STRLEN];

	for (size_t family = 0; family < MK_FAMILIES; family++) {
		if (ranges[family].ip.family == AF_UNSPEC)
			continue;
		if (*text)
			strcat(text, ",");
		strcat(text, mk_cidr_format(&ranges[family], one));
	}
	put_text(maker, status, key, *text ? text : NULL);
}

/* Both families have the same one, unless a family has no rows. */
static uint16_t mtu_of(const struct peer_at *at)
{
	for (size_t family = 0; family < MK_FAMILIES; family++)
		if (at->states[family] && at->states[family]->path_mtu_bytes)
			return at->states[family]->path_mtu_bytes;
	return 0;
}

/* Returns who carries the packets of this cluster's nodes: nodes of a hub, border nodes, or each
 * node its own; NULL: they have no way. */
static const char *path_of(const struct peer_at *at)
{
	bool usable = false, direct = false;

	for (size_t family = 0; family < MK_FAMILIES; family++) {
		const struct mk_clusters_state *state = at->states[family];

		usable |= state && state->is_usable;
		direct |= state && state->nodes_direct && state->nodes_direct == state->nodes_used;
	}
	if (!usable)
		return NULL;
	if (at->peer->via && !direct)
		return "Via";
	return at->report->has_borders ? "Border" : "Direct";
}

static json_object *fill_peer(struct maker *maker, const struct peer_at *at)
{
	const struct mk_peer_report *report = at->report;
	json_object *status = make_object(maker);
	struct mk_cidr homes[MK_FAMILIES] = { 0 }, externals[MK_FAMILIES] = { 0 };
	size_t nodes = 0;

	for (size_t family = 0; family < MK_FAMILIES; family++) {
		if (report->peers[family]) {
			homes[family] = report->peers[family][report->index].home;
			externals[family] = report->peers[family][report->index].external_home;
		}
		if (at->states[family] && at->states[family]->nodes_used > nodes)
			nodes = at->states[family]->nodes_used;
	}
	if (at->peer->is_published)
		put_number(maker, status, "clusterId", number_of(at->peer));
	put_ranges(maker, status, "remotePodCidr", homes);
	put_ranges(maker, status, "podCidr", report->view->view);
	put_ranges(maker, status, "remoteExternalCidr", externals);
	if (report->external_view)
		put_ranges(maker, status, "externalCidr", report->external_view->view);
	put_text(maker, status, "path", path_of(at));
	put_number(maker, status, "nodes", (int64_t)nodes);
	if (mtu_of(at))
		put_number(maker, status, "mtu", mtu_of(at));
	if (is_probed(&report->probes))
		put_number(maker, status, "reachableNodes", report->probes.answering);
	if (report->probes.shown_rtt_us)
		put_number(maker, status, "rttMicros", report->probes.shown_rtt_us);
	return status;
}

json_object *mk_peer_status(json_object *cluster_peer, const struct mk_peer_report *report,
			    const char *now)
{
	struct peer_at at = { .report = report };
	const struct mk_clusters_peer *peers = report->peers[0] ?: report->peers[1];
	struct verdict conditions[7];
	size_t count = 0;
	struct maker maker = { 0 };
	json_object *status, *tree;
	char reachable[REACHABLE];

	at.peer = &peers[report->index];
	for (size_t family = 0; family < MK_FAMILIES; family++)
		if (report->peers[family] && report->states[family])
			at.states[family] = &report->states[family][report->index];
	conditions[count++] = valid_peer(&at, peers);
	conditions[count++] = ranges_of_peer(report);
	conditions[count++] = ready_peer(&at);
	conditions[count++] = encrypted_peer(&at);
	conditions[count++] = connected_peer(report->reading);
	if (report->reading)
		conditions[count++] = imported_peer(report->reading);
	if (is_probed(&report->probes))
		conditions[count++] = reachable_peer(&report->probes, reachable);
	status = fill_peer(&maker, &at);
	put(&maker, status, "conditions",
	    make_conditions(&maker, cluster_peer, conditions, count, now));
	tree = make_status(&maker, cluster_peer, status);
	free(at.note);
	return tree;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static bool is_one_of(const char *word, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(words[i], word) == 0)
			return true;
	return false;
}

/* Ready follows from the others. Incomplete is also how each reading begins. */
static bool is_quiet(const char *type, const char *reason)
{
	static const char *const reasons[] = { "Starting", "Manual", "Off", "NotPublished",
					       "Incomplete" };

	return strcmp(type, "Ready") == 0 || is_one_of(reason, reasons, MK_ARRAY_SIZE(reasons));
}

enum mk_peer_news mk_peer_news(const char *type, const char *before, const char *reason,
			       bool is_true)
{
	static const char *const bad[] = { "Degraded", "PathMTU" };
	bool is_bad = !is_true || is_one_of(reason, bad, MK_ARRAY_SIZE(bad));

	if (is_quiet(type, reason))
		return MK_PEER_NEWS_QUIET;
	if (before && is_quiet(type, before))
		before = NULL;
	if (before ? strcmp(before, reason) == 0 : !is_bad)
		return MK_PEER_NEWS_NONE;
	return is_bad ? MK_PEER_NEWS_BAD : MK_PEER_NEWS_GOOD;
}

// SPDX-License-Identifier: Apache-2.0
/* Copies of what peers publish at their own API servers, or in their inboxes here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/leader/leader_internal.h"
#include "base/cleanup.h"
#include "base/json.h"

static const enum mk_lead_kind lead_kinds[MK_PUBLISHED_KINDS] = {
	[MK_PUBLISHED_CLUSTER] = MK_LEAD_PEER_CLUSTERS,
	[MK_PUBLISHED_NODE] = MK_LEAD_PEER_NODES,
	[MK_PUBLISHED_SERVICE] = MK_LEAD_PUBLISHED,
};

static const enum mk_published_kind copy_kinds[MK_PEER_API_KINDS] = {
	[MK_PEER_API_CLUSTERS] = MK_PUBLISHED_CLUSTER,
	[MK_PEER_API_NODES] = MK_PUBLISHED_NODE,
	[MK_PEER_API_SERVICES] = MK_PUBLISHED_SERVICE,
};

/* ---- from the peer --------------------------------------------------------------------------- */

static void on_object(void *ctx, enum mk_peer_api_kind kind, const char *name, json_object *tree)
{
	struct leader_peer *peer = ctx;
	struct mk_leader *leader = peer->leader;
	struct mk_error err;

	if (mk_copies_see(leader->term->copies, peer->name, copy_kinds[kind], name, tree, &err) < 0)
		leader_failed(leader, &err);
	leader->term->views_due = true;
	leader_schedule(leader);
}

static void on_listed(void *ctx, enum mk_peer_api_kind kind)
{
	struct leader_peer *peer = ctx;

	mk_copies_listed(peer->leader->term->copies, peer->name, copy_kinds[kind]);
	peer->leader->term->views_due = true;
	leader_schedule(peer->leader);
}

static void on_begins(void *ctx)
{
	struct leader_peer *peer = ctx;

	mk_copies_forget(peer->leader->term->copies, peer->name);
}

static void on_state(void *ctx)
{
	struct leader_peer *peer = ctx;

	peer->leader->term->views_due = true;
	leader_schedule(peer->leader);
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void free_peer(struct leader_term *term, struct leader_peer *peer)
{
	HASH_DEL(term->peers, peer);
	leader_peer_free(peer);
}

/* This cluster publishes to @peer no longer, or by another way. */
static void stop_peer(struct mk_leader *leader, struct leader_peer *peer, bool publishes_to)
{
	if (!peer->publishes_to || publishes_to) {
		free_peer(leader->term, peer);
		return;
	}
	HASH_DEL(leader->term->peers, peer);
	leader_inbox_leave(leader, peer);
}

/* Several times as many as the limits allow. Up to here, objects above the limits are left out one
 * by one, and named. */
static size_t objects_max(const struct mk_peer_limits *limits)
{
	return 4 * (2 * (size_t)limits->services + limits->nodes) + 1024;
}

static int begin_peer(struct mk_leader *leader, const struct mk_cluster_peer *of,
		      struct leader_peer **begun, struct mk_error *err)
{
	const struct mk_peer_api_options options = {
		.peer = of->name,
		.secret = of->secret,
		.own = of->publishes_to ? leader->config->cluster_name : NULL,
		.objects_max = objects_max(&of->limits),
	};
	struct leader_peer *peer = calloc(1, sizeof(*peer));
	const struct mk_peer_api_listener listener = { on_object, on_listed,
						       on_begins, leader_inbox_changed,
						       on_state,  peer };

	if (of->publishes_to)
		leader_inbox_stay(leader->term, of->name);
	if (peer) {
		peer->name = strdup(of->name);
		peer->secret = of->secret ? strdup(of->secret) : NULL;
	}
	if (peer && peer->name && (peer->secret || !of->secret))
		peer->api = mk_peer_api_start(leader->lead, &options, &listener, err);
	if (!peer || !peer->api) {
		if (peer)
			leader_peer_free(peer);
		return mk_error_errno(err, ENOMEM, "peer %s", of->name);
	}
	peer->leader = leader;
	peer->introduces = of->introduces;
	peer->publishes_to = of->publishes_to;
	peer->limits = of->limits;
	HASH_ADD_KEYPTR(hh, leader->term->peers, peer->name, strlen(peer->name), peer);
	*begun = peer;
	return 0;
}

static struct leader_peer *find_peer(const struct leader_term *term, const char *name)
{
	struct leader_peer *peer;

	HASH_FIND_STR(term->peers, name, peer);
	return peer;
}

static bool is_other(const struct leader_peer *peer, const struct mk_cluster_peer *of)
{
	return strcmp(peer->secret ?: "", of->secret ?: "") != 0 ||
	       peer->publishes_to != of->publishes_to || peer->introduces != of->introduces ||
	       memcmp(&peer->limits, &of->limits, sizeof(of->limits)) != 0;
}

/* Only a change of spec is a reason to read the Secret again. */
static void look_at_generation(struct mk_leader *leader, struct leader_peer *peer)
{
	const struct mk_lead_object *object =
		mk_lead_find(leader->lead, MK_LEAD_PEERS, "", peer->name);
	json_object *metadata = object ? mk_json_member(object->tree, "metadata") : NULL;
	int64_t generation = json_object_get_int64(mk_json_member(metadata, "generation"));

	if (peer->generation && generation != peer->generation)
		mk_peer_api_refresh(peer->api);
	peer->generation = generation;
}

static bool is_read(const struct mk_cluster_peer *of)
{
	return of->secret || of->has_inbox;
}

/* The ClusterPeer of the model; another name than ours, and with a Secret or an inbox. */
static void see_peer(struct mk_leader *leader, const struct mk_cluster_peer *of)
{
	struct leader_peer *peer = find_peer(leader->term, of->name);
	struct mk_error err;

	if (!is_read(of) || strcmp(of->name, leader->config->cluster_name) == 0 ||
	    !mk_lead_find(leader->lead, MK_LEAD_PEERS, "", of->name))
		return;
	if (peer && is_other(peer, of)) {
		mk_copies_forget(leader->term->copies, of->name);
		stop_peer(leader, mk_steal_ptr(peer), of->publishes_to);
	}
	if (mk_copies_set_peer(leader->term->copies, of->name, &of->limits, &err) < 0 ||
	    (!peer && begin_peer(leader, of, &peer, &err) < 0)) {
		leader_failed(leader, &err);
		return;
	}
	peer->is_there = true;
	look_at_generation(leader, peer);
}

/* A ClusterPeer that makes no sense, or that the model has not got yet, says nothing about its
 * copies: they stay. */
static void keep_unknown(struct mk_leader *leader, const struct mk_lead_object *object)
{
	const struct mk_peer_limits none = { 0 };
	struct mk_error err;

	mk_model_each(struct mk_cluster_peer, of, leader->model, MK_KIND_CLUSTER_PEER)
		if (strcmp(of->name, object->name) == 0)
			return;
	if (!find_peer(leader->term, object->name) &&
	    mk_copies_set_peer(leader->term->copies, object->name, &none, &err) < 0)
		leader_failed(leader, &err);
}

void leader_copies_peers(struct mk_leader *leader)
{
	struct leader_term *term = leader->term;
	struct leader_peer *peer, *next;

	if (!mk_lead_has_listed(leader->lead, MK_LEAD_PEERS))
		return;
	for (peer = term->peers; peer; peer = peer->hh.next)
		peer->is_there = false;
	mk_model_each(struct mk_cluster_peer, of, leader->model, MK_KIND_CLUSTER_PEER)
		see_peer(leader, of);
	HASH_ITER(hh, term->peers, peer, next) {
		if (peer->is_there)
			continue;
		mk_copies_end_peer(term->copies, peer->name);
		stop_peer(leader, peer, false);
	}
	mk_lead_each(object, leader->lead, MK_LEAD_PEERS)
		keep_unknown(leader, object);
	mk_model_each(struct mk_cluster_peer, of, leader->model, MK_KIND_CLUSTER_PEER)
		if (!is_read(of))
			mk_copies_end_peer(term->copies, of->name);
	mk_copies_peers_known(term->copies);
}

/* ---- what lies here -------------------------------------------------------------------------- */

static bool kind_of(enum mk_lead_kind lead_kind, enum mk_published_kind *kind)
{
	for (size_t i = 0; i < MK_PUBLISHED_KINDS; i++) {
		*kind = (enum mk_published_kind)i;
		if (lead_kinds[i] == lead_kind)
			return true;
	}
	return false;
}

void leader_copies_seen(struct mk_leader *leader, const struct mk_lead_object *object,
			json_object *tree)
{
	enum mk_published_kind kind;
	struct mk_error err;

	if (object->kind == MK_LEAD_PEERS && !tree)
		mk_copies_end_peer(leader->term->copies, object->name);
	if (kind_of(object->kind, &kind) &&
	    mk_copies_have(leader->term->copies, kind, object->name, tree, &err) < 0)
		leader_failed(leader, &err);
}

void leader_copies_listed(struct mk_leader *leader, enum mk_lead_kind lead_kind)
{
	enum mk_published_kind kind;

	if (kind_of(lead_kind, &kind))
		mk_copies_have_listed(leader->term->copies, kind);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void take_step(struct mk_leader *leader, const struct mk_copies_step *step)
{
	const struct mk_lead_object *object =
		mk_lead_find(leader->lead, lead_kinds[step->kind], MK_PEERS_NAMESPACE, step->name);
	struct mk_error err;
	int ret = 0;

	if (step->tree)
		ret = mk_lead_apply(leader->lead, step->tree, &err);
	else if (object)
		ret = mk_lead_delete(leader->lead, object, &err);
	if (ret < 0)
		leader_failed(leader, &err);
	json_object_put(step->tree);
}

bool leader_copies_write(struct mk_leader *leader, uint64_t end_ms)
{
	struct mk_copies_step step;

	while (mk_copies_next(leader->term->copies, &step)) {
		take_step(leader, &step);
		if (leader_now_ms() >= end_ms)
			return true;
	}
	return false;
}

/* ---- what is reported ------------------------------------------------------------------------ */

static const char *const reasons[] = {
	[MK_PEER_API_STARTING] = "Starting",
	[MK_PEER_API_CONNECTED] = "Connected",
	[MK_PEER_API_UNAUTHORIZED] = "Unauthorized",
	[MK_PEER_API_UNREACHABLE] = "Unreachable",
	[MK_PEER_API_BAD_CERTIFICATE] = "BadCertificate",
};

bool leader_copies_reading(const struct mk_leader *leader, const char *name,
			   struct mk_copies_report *imported, struct mk_peer_reading *reading)
{
	const struct leader_peer *peer = find_peer(leader->term, name);
	struct mk_peer_api_state state;

	if (!peer)
		return false;
	state = mk_peer_api_state(peer->api);
	mk_copies_report(leader->term->copies, name, imported);
	*reading = (struct mk_peer_reading){
		.is_connected = state.reason == MK_PEER_API_CONNECTED,
		.reason = reasons[state.reason],
		.message = state.message,
		.is_imported = imported->complete,
		.import_reason = imported->reason,
		.import_message = imported->message,
	};
	return true;
}

void leader_copies_measure(const struct mk_leader *leader, struct mk_metrics *metrics)
{
	struct leader_peer *peer, *next;

	if (!leader->term)
		return;
	metrics->peer_apis =
		calloc(HASH_COUNT(leader->term->peers) + 1, sizeof(*metrics->peer_apis));
	if (!metrics->peer_apis)
		return;
	HASH_ITER(hh, leader->term->peers, peer, next) {
		struct mk_peer_api_state state = mk_peer_api_state(peer->api);
		struct mk_metrics_peer_api *to = &metrics->peer_apis[metrics->peer_api_count];

		snprintf(to->name, sizeof(to->name), "%s", peer->name);
		to->is_up = state.reason == MK_PEER_API_CONNECTED;
		to->contact_unix_s = state.contact_unix_ms / 1000;
		metrics->peer_api_count++;
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool may_copy(void *ctx, const char *from, const char *cluster)
{
	return leader_may_copy(ctx, from, cluster);
}

int leader_copies_begin(struct mk_leader *leader)
{
	const struct mk_copies_options options = { .own_cluster = leader->config->cluster_name,
						   .may_copy = may_copy,
						   .ctx = leader };

	leader->term->copies = mk_copies_new(&options);
	return leader->term->copies ? 0 : -ENOMEM;
}

void leader_copies_end(struct leader_term *term)
{
	struct leader_peer *peer, *next;

	HASH_ITER(hh, term->peers, peer, next)
		free_peer(term, peer);
	leader_inbox_end(term);
	mk_copies_free(term->copies);
}

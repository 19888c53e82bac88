// SPDX-License-Identifier: Apache-2.0
/* Introductions. At a hub: copies of what its branches have published, for the other branches. At
 * a branch: ClusterPeers for the clusters that its hubs show. */
#include <stdlib.h>
#include <string.h>

#include "agent/leader/leader_internal.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "clusters/introduce.h"

#define NS_PER_S INT64_C(1000000000)

/* Sorted by name. Texts belong to objects of the lead. */
struct leader_known {
	struct mk_introduce_peer *peers;
	struct mk_introduce_cluster *clusters;
	size_t peer_count, cluster_count;
};

/* A ClusterPeer whose hub does not show its cluster. A leader that is new begins to wait again. */
struct leader_waiting {
	char *name;
	uint64_t since_ms;
};

/* ---- what is known --------------------------------------------------------------------------- */

static const char *text_or_null(json_object *of, const char *key)
{
	const char *text = mk_json_text(of, key);

	return *text ? text : NULL;
}

/* The owner that is a ClusterPeer. */
static json_object *owner_of(json_object *metadata)
{
	json_object *owners = mk_json_member(metadata, "ownerReferences");

	for (size_t i = 0; i < mk_json_length(owners); i++) {
		json_object *owner = json_object_array_get_idx(owners, i);

		if (strcmp(mk_json_text(owner, "kind"), "ClusterPeer") == 0)
			return owner;
	}
	return NULL;
}

static struct mk_introduce_peer peer_of(const struct mk_lead_object *object)
{
	json_object *metadata = mk_json_member(object->tree, "metadata");
	json_object *spec = mk_json_member(object->tree, "spec"), *owner = owner_of(metadata);
	int64_t created_ns = 0;

	if (mk_time_parse(mk_json_text(metadata, "creationTimestamp"), &created_ns) < 0)
		created_ns = 0;
	return (struct mk_introduce_peer){
		.name = object->name,
		.uid = object->uid,
		.via = text_or_null(spec, "via"),
		.created_unix_s = created_ns / NS_PER_S,
		.relays = json_object_get_boolean(mk_json_member(spec, "relay")),
		.accepts = strcmp(mk_json_text(spec, "accept"), "Transit") == 0 ||
			   strcmp(mk_json_text(spec, "accept"), "Direct") == 0,
		.is_read = *mk_json_text(spec, "secretName") ||
			   json_object_get_boolean(mk_json_member(spec, "inbox")),
		.is_ours = object->is_ours,
		.owner_name = text_or_null(owner, "name"),
		.owner_uid = text_or_null(owner, "uid"),
	};
}

void leader_known_free(struct leader_term *term)
{
	if (!term->known)
		return;
	free(term->known->peers);
	free(term->known->clusters);
	free(mk_steal_ptr(term->known));
}

/* Return what is known, which stays until a ClusterPeer or PublishedCluster changes; NULL: no
 * memory. */
static struct leader_known *get_known(struct mk_leader *leader)
{
	size_t peers = mk_lead_count(leader->lead, MK_LEAD_PEERS) + 1;
	size_t clusters = mk_lead_count(leader->lead, MK_LEAD_PEER_CLUSTERS) + 1;
	struct leader_known *known;

	if (leader->term->known)
		return leader->term->known;
	known = leader->term->known = calloc(1, sizeof(*known));
	if (!known)
		return NULL;
	known->peers = calloc(peers, sizeof(*known->peers));
	known->clusters = calloc(clusters, sizeof(*known->clusters));
	if (!known->peers || !known->clusters) {
		leader_known_free(leader->term);
		return NULL;
	}
	mk_lead_each(object, leader->lead, MK_LEAD_PEERS)
		known->peers[known->peer_count++] = peer_of(object);
	mk_lead_each(object, leader->lead, MK_LEAD_PEER_CLUSTERS)
		if (strcmp(object->name, object->cluster) == 0)
			known->clusters[known->cluster_count++] = (struct mk_introduce_cluster){
				object->name, *object->relayed_by ? object->relayed_by : NULL
			};
	qsort(known->peers, known->peer_count, sizeof(*known->peers), mk_compare_texts);
	qsort(known->clusters, known->cluster_count, sizeof(*known->clusters), mk_compare_texts);
	return known;
}

static struct mk_introduce_input input_of(const struct mk_leader *leader,
					  const struct leader_known *known)
{
	return (struct mk_introduce_input){
		.own = leader->config->cluster_name,
		.peers = known->peers,
		.clusters = known->clusters,
		.peer_count = known->peer_count,
		.cluster_count = known->cluster_count,
		.now_ms = leader_now_ms(),
	};
}

/* ---- at a hub -------------------------------------------------------------------------------- */

static const struct shown {
	enum mk_lead_kind kind, copy;
	const char *name;
} shown[] = {
	{ MK_LEAD_PEER_CLUSTERS, MK_LEAD_OWN_CLUSTERS, "PublishedCluster" },
	{ MK_LEAD_PEER_NODES, MK_LEAD_OWN_NODES, "PublishedNode" },
	{ MK_LEAD_PUBLISHED, MK_LEAD_OWN_SERVICES, "PublishedService" },
};

static bool is_shown(const struct mk_leader *leader, const struct mk_lead_object *object)
{
	const struct mk_lead_object *of =
		mk_lead_find(leader->lead, MK_LEAD_PEERS, "", object->cluster);
	struct mk_introduce_peer peer = { 0 };

	if (of)
		peer = peer_of(of);
	return mk_introduce_shows(of ? &peer : NULL, object->cluster, object->name,
				  object->relayed_by);
}

static void show(struct mk_leader *leader, const struct mk_lead_object *object)
{
	cleanup_json json_object *tree = NULL;
	json_object *spec = object->spec ? json_tokener_parse(object->spec) : NULL;

	for (size_t i = 0; spec && i < MK_ARRAY_SIZE(shown); i++)
		if (shown[i].kind == object->kind)
			tree = leader_published(shown[i].name, object->name, object->cluster);
	if (!tree) {
		json_object_put(spec);
		return;
	}
	mk_put_text(mk_json_member(mk_json_member(tree, "metadata"), "labels"), MK_RELAYED_BY_LABEL,
		    leader->config->cluster_name);
	json_object_object_add(tree, "spec", spec);
	leader_apply(leader, tree);
}

/* A copy goes with its original, and when its cluster is not relayed any more. */
static void check_copy(struct mk_leader *leader, const struct mk_lead_object *copy)
{
	const struct mk_lead_object *original;

	if (!copy->is_ours || !*copy->relayed_by ||
	    !mk_lead_has_listed(leader->lead, MK_LEAD_PEERS))
		return;
	for (size_t i = 0; i < MK_ARRAY_SIZE(shown); i++) {
		if (shown[i].copy != copy->kind || !mk_lead_has_listed(leader->lead, shown[i].kind))
			continue;
		original =
			mk_lead_find(leader->lead, shown[i].kind, MK_PEERS_NAMESPACE, copy->name);
		if (!original || !is_shown(leader, original))
			leader_delete(leader, copy);
	}
}

static void show_all(struct mk_leader *leader)
{
	if (!mk_lead_has_listed(leader->lead, MK_LEAD_PEERS))
		return;
	for (size_t i = 0; i < MK_ARRAY_SIZE(shown); i++) {
		mk_lead_each(object, leader->lead, shown[i].kind)
			if (is_shown(leader, object))
				show(leader, object);
		mk_lead_each(copy, leader->lead, shown[i].copy)
			check_copy(leader, copy);
	}
}

/* One object has changed; the others need no look. */
static void see_published(struct mk_leader *leader, const struct mk_lead_object *object,
			  json_object *tree)
{
	const struct mk_lead_object *copy;

	for (size_t i = 0; i < MK_ARRAY_SIZE(shown); i++) {
		if (tree && shown[i].copy == object->kind)
			check_copy(leader, object);
		if (shown[i].kind != object->kind)
			continue;
		copy = mk_lead_find(leader->lead, shown[i].copy, MK_PUBLISHED_NAMESPACE,
				    object->name);
		if (tree && is_shown(leader, object))
			show(leader, object);
		if (copy)
			check_copy(leader, copy);
	}
}

/* Show all again if a cluster is relayed that was not, or the other way round. */
static void note_relayed(struct mk_leader *leader, const struct leader_known *known)
{
	struct leader_term *term = leader->term;
	char *text = strdup("");

	for (size_t i = 0; text && i < known->peer_count; i++) {
		cleanup_free char *former = text;

		if (!known->peers[i].relays || known->peers[i].via)
			text = strdup(former);
		else if (asprintf(&text, "%s %s", former, known->peers[i].name) < 0)
			text = NULL;
	}
	term->show_due |= !text || !term->relayed || strcmp(text, term->relayed) != 0;
	free(term->relayed);
	term->relayed = text;
}

/* ---- at a branch ----------------------------------------------------------------------------- */

static json_object *peer_tree(const char *name, const char *via)
{
	json_object *tree = json_object_new_object(), *metadata = json_object_new_object();
	json_object *spec = json_object_new_object();

	mk_put_text(tree, "apiVersion", LEADER_API);
	mk_put_text(tree, "kind", "ClusterPeer");
	mk_put_text(metadata, "name", name);
	json_object_object_add(tree, "metadata", metadata);
	if (via)
		mk_put_text(spec, "via", via);
	json_object_object_add(tree, "spec", spec);
	return tree;
}

static void create(struct mk_leader *leader, const struct mk_introduction *introduction)
{
	const struct mk_introduce_peer *hub = introduction->hub;
	cleanup_json json_object *tree = peer_tree(introduction->name, hub->name);
	json_object *metadata = mk_json_member(tree, "metadata");
	json_object *labels = json_object_new_object(), *owners = json_object_new_array();
	json_object *owner = json_object_new_object();

	mk_put_text(labels, MK_MANAGED_BY_LABEL, MK_MANAGED_BY);
	json_object_object_add(metadata, "labels", labels);
	mk_put_text(owner, "apiVersion", LEADER_API);
	mk_put_text(owner, "kind", "ClusterPeer");
	mk_put_text(owner, "name", hub->name);
	mk_put_text(owner, "uid", hub->uid);
	json_object_array_add(owners, owner);
	json_object_object_add(metadata, "ownerReferences", owners);
	leader_apply(leader, tree);
}

/* The server takes away what the leader has applied before and applies no longer: label and owner
 * reference. */
static void release(struct mk_leader *leader, const struct mk_introduce_peer *peer)
{
	cleanup_json json_object *tree = peer_tree(peer->name, peer->via);

	leader_apply(leader, tree);
}

/* A ClusterPeer is written once; what a user changes in it stays. */
static void act(struct mk_leader *leader, const struct mk_introduce_peer *peer,
		enum mk_introduce_action action)
{
	const struct mk_lead_object *object =
		mk_lead_find(leader->lead, MK_LEAD_PEERS, "", peer->name);

	if (!object)
		return;
	if (action == MK_INTRODUCE_KEEP || action == MK_INTRODUCE_WAIT)
		mk_lead_forget(leader->lead, object);
	else if (action == MK_INTRODUCE_RELEASE)
		release(leader, peer);
	else
		leader_delete(leader, object);
}

void leader_waiting_free(struct leader_term *term)
{
	for (size_t i = 0; i < term->waiting_count; i++)
		free(term->waiting[i].name);
	free(mk_steal_ptr(term->waiting));
	term->waiting_count = 0;
}

/* Returns since when the ClusterPeer waits; 0: it does not. */
static uint64_t waits_since(const struct leader_term *term, const char *name)
{
	for (size_t i = 0; i < term->waiting_count; i++)
		if (strcmp(term->waiting[i].name, name) == 0)
			return term->waiting[i].since_ms;
	return 0;
}

static void wait_for(struct leader_term *term, const struct mk_introduce_peer *peer,
		     uint64_t now_ms)
{
	struct leader_waiting *at = &term->waiting[term->waiting_count];
	uint64_t end_ms;

	*at = (struct leader_waiting){ strdup(peer->name), peer->waits_since_ms ?: now_ms };
	if (!at->name)
		return; /* it waits from the next turn on */
	term->waiting_count++;
	end_ms = at->since_ms + MK_INTRODUCE_GRACE_MS;
	if (!term->introduce_again_ms || end_ms < term->introduce_again_ms)
		term->introduce_again_ms = end_ms;
	if (!peer->waits_since_ms)
		mk_log_warn(
			"leader: hub shows a cluster no longer, its ClusterPeer is deleted if that stays so peer=%s hub=%s seconds=%d",
			peer->name, peer->owner_name, MK_INTRODUCE_GRACE_MS / 1000);
}

/* Remember which ClusterPeers wait, and when to look again. */
static void note_waiting(struct mk_leader *leader, const struct mk_introduce_input *input,
			 const struct mk_introductions *result)
{
	struct leader_term *term = leader->term;

	leader_waiting_free(term);
	term->introduce_again_ms = 0;
	term->waiting = calloc(input->peer_count + 1, sizeof(*term->waiting));
	for (size_t i = 0; term->waiting && i < input->peer_count; i++)
		if (result->actions[i] == MK_INTRODUCE_WAIT)
			wait_for(term, &input->peers[i], input->now_ms);
}

static void say_left_out(struct mk_leader *leader, size_t left_out)
{
	struct mk_error err;

	if (left_out == 0)
		return;
	mk_error_set(
		&err, E2BIG,
		"%zu clusters that hubs show are left out: hubs introduce at most %d; create a "
		"ClusterPeer with spec.via for each one that is needed",
		left_out, MK_INTRODUCED_MAX);
	leader_failed(leader, &err);
}

static void introduce(struct mk_leader *leader, struct leader_known *known)
{
	const struct mk_introduce_input input = input_of(leader, known);
	struct mk_introductions result;
	struct mk_error err;

	for (size_t i = 0; i < known->peer_count; i++)
		known->peers[i].waits_since_ms = waits_since(leader->term, known->peers[i].name);
	if (mk_introduce(&input, &result, &err) < 0) {
		leader_failed(leader, &err);
		mk_introductions_release(&result);
		return;
	}
	for (size_t i = 0; i < known->peer_count; i++)
		act(leader, &known->peers[i], result.actions[i]);
	for (size_t i = 0; i < result.created_count; i++)
		create(leader, &result.created[i]);
	note_waiting(leader, &input, &result);
	say_left_out(leader, result.left_out);
	mk_introductions_release(&result);
}

/* ---- both ------------------------------------------------------------------------------------ */

void leader_introduce(struct mk_leader *leader)
{
	struct leader_term *term = leader->term;
	struct leader_known *known;

	if (!mk_lead_has_listed(leader->lead, MK_LEAD_PEERS))
		return;
	known = get_known(leader);
	if (!known) {
		mk_log_error("leader: no introductions: out of memory");
		return;
	}
	note_relayed(leader, known);
	if (mk_lead_has_listed(leader->lead, MK_LEAD_PEER_CLUSTERS))
		introduce(leader, known);
	if (term->show_due)
		show_all(leader);
	term->show_due = false;
}

void leader_introduce_seen(struct mk_leader *leader, const struct mk_lead_object *object,
			   json_object *tree)
{
	if (object->kind == MK_LEAD_PEERS || object->kind == MK_LEAD_PEER_CLUSTERS) {
		leader_known_free(leader->term);
		leader->term->introduce_due = true;
	}
	see_published(leader, object, tree);
}

bool leader_may_copy(struct mk_leader *leader, const char *from, const char *cluster)
{
	const struct leader_known *known = get_known(leader);
	struct mk_introduce_input input;

	if (!known)
		return false;
	input = input_of(leader, known);
	return mk_introduce_may_copy(&input, from, cluster);
}

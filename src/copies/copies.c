// SPDX-License-Identifier: Apache-2.0
/* What peers serve, what lies here, and the steps from one to the other. */
#include "copies/copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "base/json.h"

#define API_VERSION  "networking.monokube.io/v1alpha1"
#define CLUSTERS_MAX 1024 /* as many as ClusterPeers */
#define WHY_CHARS    160

/* Why an object of a peer does not count. */
enum fault { FAULT_NONE, FAULT_CLUSTER, FAULT_INVALID, FAULT_LIMIT, FAULTS };

/* The subject of a limit. */
enum counted {
	COUNTED_CLUSTERS,
	COUNTED_NODES,
	COUNTED_SERVICES, /* part 0 of each */
	COUNTED_PARTS, /* the further ones; there are at most as many */
	COUNTED
};

struct peer {
	struct peer *next;
	char *name;
	struct mk_peer_limits limits;
	bool listed[MK_PUBLISHED_KINDS];
	struct mk_index left_out; /* struct left */
	size_t faults[FAULTS];
	size_t counts[COUNTED], endpoint_count; /* of the copies */
};

/* An object that the peer serves, and that does not count as it is. */
struct left {
	struct mk_index_link link; /* by kind and name */
	enum mk_published_kind kind;
	enum fault fault;
	char *why;
	char name[];
};

struct copy {
	struct mk_index_link link; /* by kind and name */
	enum mk_published_kind kind;
	/* what should be */
	struct peer *peer; /* who serves it; NULL: no peer does */
	char *text; /* the object as it is to be applied; NULL as @peer */
	uint64_t hash; /* of its content */
	size_t endpoint_count;
	enum counted counted;
	/* what is */
	bool is_here, is_going; /* `is_going`: its deletion was the last step */
	char *from; /* MK_READ_FROM_LABEL, if it is a copy; NULL: it was carried by hand */
	uint64_t here_hash; /* 0: it makes no sense */
	bool is_waiting;
	struct copy *next_waiting;
	char name[];
};

struct mk_copies {
	char *own_cluster;
	struct mk_copies_options options;
	struct peer *peers;
	bool peers_known, here_known[MK_PUBLISHED_KINDS];
	size_t copy_count; /* that are here */
	struct mk_index all;
	struct copy *first_waiting, **last_waiting;
};

static int no_memory(struct mk_error *err)
{
	return mk_error_errno(err, ENOMEM, "copies of what peers publish");
}

/* ---- entries --------------------------------------------------------------------------------- */

static uint32_t hash_key(enum mk_published_kind kind, const char *name)
{
	return mk_index_hash(name, strlen(name)) + (uint32_t)kind;
}

static struct copy *find(const struct mk_copies *copies, enum mk_published_kind kind,
			 const char *name)
{
	struct mk_index_link *link = mk_index_find(&copies->all, hash_key(kind, name));

	for (; link; link = mk_index_find_next(link)) {
		struct copy *copy = mk_index_entry(link, struct copy, link);

		if (copy->kind == kind && strcmp(copy->name, name) == 0)
			return copy;
	}
	return NULL;
}

static struct copy *get(struct mk_copies *copies, enum mk_published_kind kind, const char *name)
{
	struct copy *copy = find(copies, kind, name);
	size_t size = strlen(name) + 1;

	if (copy)
		return copy;
	copy = calloc(1, sizeof(*copy) + size);
	if (!copy)
		return NULL;
	copy->kind = kind;
	memcpy(copy->name, name, size);
	if (mk_index_add(&copies->all, &copy->link, hash_key(kind, name)) == 0)
		return copy;
	free(copy);
	return NULL;
}

static void wait(struct mk_copies *copies, struct copy *copy)
{
	if (copy->is_waiting)
		return;
	copy->is_waiting = true;
	copy->next_waiting = NULL;
	*copies->last_waiting = copy;
	copies->last_waiting = &copy->next_waiting;
}

/* Entries leave only when they are taken from the queue. */
static void drop(struct mk_copies *copies, struct copy *copy)
{
	if (copy->is_here || copy->peer)
		return;
	mk_index_remove(&copies->all, &copy->link);
	free(copy->from);
	free(copy->text);
	free(copy);
}

static void look_at_all(struct mk_copies *copies)
{
	struct mk_index_link *link = NULL;

	while ((link = mk_index_after(&copies->all, link)))
		wait(copies, mk_index_entry(link, struct copy, link));
}

static struct peer *find_peer(const struct mk_copies *copies, const char *name)
{
	struct peer *peer = copies->peers;

	while (peer && strcmp(peer->name, name) != 0)
		peer = peer->next;
	return peer;
}

/* ---- what does not count --------------------------------------------------------------------- */

static struct left *find_left(const struct peer *peer, enum mk_published_kind kind,
			      const char *name)
{
	struct mk_index_link *link = mk_index_find(&peer->left_out, hash_key(kind, name));

	for (; link; link = mk_index_find_next(link)) {
		struct left *left = mk_index_entry(link, struct left, link);

		if (left->kind == kind && strcmp(left->name, name) == 0)
			return left;
	}
	return NULL;
}

static void free_left(struct peer *peer, struct left *left)
{
	peer->faults[left->fault]--;
	mk_index_remove(&peer->left_out, &left->link);
	free(left->why);
	free(left);
}

static void take_in(struct peer *peer, enum mk_published_kind kind, const char *name)
{
	struct left *left = find_left(peer, kind, name);

	if (left)
		free_left(peer, left);
}

static int leave_out(struct peer *peer, enum mk_published_kind kind, const char *name,
		     enum fault fault, const char *why)
{
	size_t size = strlen(name) + 1;
	struct left *left;

	take_in(peer, kind, name);
	left = calloc(1, sizeof(*left) + size);
	if (!left)
		return -ENOMEM;
	left->kind = kind;
	left->fault = fault;
	left->why = strndup(why, WHY_CHARS);
	memcpy(left->name, name, size);
	if (left->why && mk_index_add(&peer->left_out, &left->link, hash_key(kind, name)) == 0) {
		peer->faults[fault]++;
		return 0;
	}
	free(left->why);
	free(left);
	return -ENOMEM;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static void unserve(struct mk_copies *copies, struct copy *copy)
{
	struct peer *peer = copy->peer;

	peer->counts[copy->counted]--;
	peer->endpoint_count -= copy->endpoint_count;
	copy->peer = NULL;
	free(copy->text);
	copy->text = NULL;
	copy->endpoint_count = 0;
	wait(copies, copy);
}

int mk_copies_set_peer(struct mk_copies *copies, const char *name,
		       const struct mk_peer_limits *limits, struct mk_error *err)
{
	struct peer *peer = find_peer(copies, name);

	if (!peer) {
		peer = calloc(1, sizeof(*peer));
		if (!peer || !(peer->name = strdup(name))) {
			free(peer);
			return no_memory(err);
		}
		peer->next = copies->peers;
		copies->peers = peer;
	}
	peer->limits = *limits;
	return 0;
}

void mk_copies_forget(struct mk_copies *copies, const char *name)
{
	struct peer *peer = find_peer(copies, name);
	struct mk_index_link *link = NULL;

	if (!peer)
		return;
	for (size_t kind = 0; kind < MK_PUBLISHED_KINDS; kind++)
		peer->listed[kind] = false;
	while ((link = mk_index_after(&copies->all, link))) {
		struct copy *copy = mk_index_entry(link, struct copy, link);

		if (copy->peer == peer)
			unserve(copies, copy);
	}
	while ((link = mk_index_after(&peer->left_out, NULL)))
		free_left(peer, mk_index_entry(link, struct left, link));
}

static void free_peer(struct peer *peer)
{
	mk_index_release(&peer->left_out);
	free(peer->name);
	free(peer);
}

void mk_copies_end_peer(struct mk_copies *copies, const char *name)
{
	struct peer **at = &copies->peers, *peer = find_peer(copies, name);

	if (!peer)
		return;
	mk_copies_forget(copies, name);
	while (*at != peer)
		at = &(*at)->next;
	*at = peer->next;
	free_peer(peer);
	look_at_all(copies);
}

void mk_copies_peers_known(struct mk_copies *copies)
{
	if (copies->peers_known)
		return;
	copies->peers_known = true;
	look_at_all(copies);
}

/* ---- what peers serve ------------------------------------------------------------------------ */

/* May @peer speak for @cluster? */
static bool counts(const struct mk_copies *copies, const struct peer *peer, const char *cluster)
{
	const struct mk_copies_options *options = &copies->options;

	if (strcmp(cluster, copies->own_cluster) == 0)
		return false;
	if (strcmp(cluster, peer->name) == 0)
		return true;
	return options->may_copy && options->may_copy(options->ctx, peer->name, cluster);
}

/* FNV-1a */
static uint64_t hash_text(uint64_t seed, const char *text)
{
	for (; *text; text++)
		seed = (seed ^ (uint8_t)*text) * 0x100000001b3U;
	return seed;
}

static uint64_t hash_of(const struct mk_published *published, const char *relayed_by)
{
	const char *spec = json_object_to_json_string_ext(published->spec, JSON_C_TO_STRING_PLAIN);
	uint64_t hash = hash_text(0xcbf29ce484222325U, published->cluster);

	hash = hash_text(hash_text(hash_text(hash, "/"), relayed_by), "/");
	return hash_text(hash, spec ?: "") | 1;
}

static json_object *make_metadata(const struct peer *peer, const char *name,
				  const struct mk_published *published, const char *relayed_by)
{
	json_object *metadata = json_object_new_object(), *labels = json_object_new_object();

	mk_put_text(metadata, "name", name);
	mk_put_text(metadata, "namespace", MK_PEERS_NAMESPACE);
	mk_put_text(labels, MK_CLUSTER_LABEL, published->cluster);
	mk_put_text(labels, MK_MANAGED_BY_LABEL, MK_MANAGED_BY);
	mk_put_text(labels, MK_READ_FROM_LABEL, peer->name);
	if (*relayed_by)
		mk_put_text(labels, MK_RELAYED_BY_LABEL, relayed_by);
	json_object_object_add(metadata, "labels", labels);
	return metadata;
}

static char *text_of(const struct peer *peer, enum mk_published_kind kind, const char *name,
		     const struct mk_published *published, const char *relayed_by)
{
	cleanup_json json_object *tree = json_object_new_object();
	const char *text;

	mk_put_text(tree, "apiVersion", API_VERSION);
	mk_put_text(tree, "kind", mk_published_kind_name(kind));
	json_object_object_add(tree, "metadata", make_metadata(peer, name, published, relayed_by));
	json_object_object_add(tree, "spec", json_object_get(published->spec));
	text = mk_json_line(tree);
	return text ? strdup(text) : NULL;
}

static enum counted counted_as(enum mk_published_kind kind, const struct mk_published *published)
{
	if (kind == MK_PUBLISHED_SERVICE)
		return published->is_further ? COUNTED_PARTS : COUNTED_SERVICES;
	return kind == MK_PUBLISHED_NODE ? COUNTED_NODES : COUNTED_CLUSTERS;
}

/* Which limit would @published break, as one more, or instead of the former version of @copy? NULL:
 * none. */
static const char *broken_limit(const struct peer *peer, const struct copy *copy,
				enum counted counted, const struct mk_published *published)
{
	const size_t limits[COUNTED] = { CLUSTERS_MAX, peer->limits.nodes, peer->limits.services,
					 peer->limits.services };
	static const char *const names[COUNTED] = { "1024 clusters", "spec.limits.nodes",
						    "spec.limits.services",
						    "spec.limits.services" };
	bool is_known = copy && copy->peer == peer;
	size_t count = peer->counts[counted] - (is_known && copy->counted == counted);
	size_t endpoints = peer->endpoint_count - (is_known ? copy->endpoint_count : 0);

	if (count >= limits[counted])
		return names[counted];
	if (endpoints + published->endpoint_count > peer->limits.endpoints)
		return "spec.limits.endpoints";
	return NULL;
}

/* Let @copy be as the peer serves it. */
static int serve(struct mk_copies *copies, struct peer *peer, enum mk_published_kind kind,
		 const char *name, const struct mk_published *published)
{
	const char *relayed_by = strcmp(published->cluster, peer->name) == 0 ? "" : peer->name;
	enum counted counted = counted_as(kind, published);
	struct copy *copy = get(copies, kind, name);
	char *text = copy ? text_of(peer, kind, name, published, relayed_by) : NULL;

	if (!text)
		return -ENOMEM;
	if (copy->peer)
		unserve(copies, copy);
	copy->peer = peer;
	copy->text = text;
	copy->hash = hash_of(published, relayed_by);
	copy->counted = counted;
	copy->endpoint_count = published->endpoint_count;
	peer->counts[counted]++;
	peer->endpoint_count += copy->endpoint_count;
	take_in(peer, kind, name);
	wait(copies, copy);
	return 0;
}

static int judge(struct mk_copies *copies, struct peer *peer, enum mk_published_kind kind,
		 const char *name, const struct mk_published *published)
{
	struct copy *copy = find(copies, kind, name);
	char why[WHY_CHARS];
	const char *limit;

	if (!counts(copies, peer, published->cluster) ||
	    (copy && copy->peer && copy->peer != peer)) {
		snprintf(why, sizeof(why),
			 "it is of cluster '%s', for which this peer may not speak",
			 published->cluster);
		if (copy && copy->peer == peer)
			unserve(copies, copy);
		return leave_out(peer, kind, name, FAULT_CLUSTER, why);
	}
	limit = broken_limit(peer, copy, counted_as(kind, published), published);
	if (!limit)
		return serve(copies, peer, kind, name, published);
	snprintf(why, sizeof(why), "there are more than %s allows", limit);
	return leave_out(peer, kind, name, FAULT_LIMIT, why);
}

static void gone(struct mk_copies *copies, struct peer *peer, enum mk_published_kind kind,
		 const char *name)
{
	struct copy *copy = find(copies, kind, name);

	take_in(peer, kind, name);
	if (copy && copy->peer == peer)
		unserve(copies, copy);
	else if (copy)
		wait(copies, copy);
}

int mk_copies_see(struct mk_copies *copies, const char *peer_name, enum mk_published_kind kind,
		  const char *name, json_object *tree, struct mk_error *err)
{
	struct peer *peer = find_peer(copies, peer_name);
	struct mk_published published = { 0 };
	struct mk_error why;
	int ret;

	if (!peer)
		return 0;
	if (!tree) {
		gone(copies, peer, kind, name);
		return 0;
	}
	ret = mk_published_read(kind, name, tree, &published, &why);
	if (ret == 0)
		ret = judge(copies, peer, kind, name, &published);
	else if (ret != -ENOMEM)
		ret = leave_out(peer, kind, name, FAULT_INVALID, mk_error_text(&why));
	mk_published_release(&published);
	return ret < 0 ? no_memory(err) : 0;
}

void mk_copies_listed(struct mk_copies *copies, const char *peer_name, enum mk_published_kind kind)
{
	struct peer *peer = find_peer(copies, peer_name);

	if (!peer)
		return;
	peer->listed[kind] = true;
	look_at_all(copies);
}

/* ---- what lies here -------------------------------------------------------------------------- */

/* Only what a leader has read at a peer has both labels. */
static const char *read_from(json_object *tree)
{
	json_object *labels = mk_json_member(mk_json_member(tree, "metadata"), "labels");
	const char *from = mk_json_text(labels, MK_READ_FROM_LABEL);

	return strcmp(mk_json_text(labels, MK_MANAGED_BY_LABEL), MK_MANAGED_BY) == 0 && *from
		       ? from
		       : NULL;
}

static int fill_here(struct mk_copies *copies, struct copy *copy, json_object *tree)
{
	const char *from = tree ? read_from(tree) : NULL;
	struct mk_published published = { 0 };
	int ret;

	copies->copy_count -= copy->from != NULL;
	free(copy->from);
	copy->from = from ? strdup(from) : NULL;
	copies->copy_count += copy->from != NULL;
	copy->is_here = tree != NULL;
	copy->is_going &= copy->is_here;
	copy->here_hash = 0;
	if (!tree)
		return 0;
	if (from && !copy->from)
		return -ENOMEM;
	ret = mk_published_read(copy->kind, copy->name, tree, &published, NULL);
	if (ret == 0)
		copy->here_hash = hash_of(
			&published,
			mk_json_text(mk_json_member(mk_json_member(tree, "metadata"), "labels"),
				     MK_RELAYED_BY_LABEL));
	mk_published_release(&published);
	return ret == -ENOMEM ? ret : 0;
}

int mk_copies_have(struct mk_copies *copies, enum mk_published_kind kind, const char *name,
		   json_object *tree, struct mk_error *err)
{
	struct copy *copy = tree ? get(copies, kind, name) : find(copies, kind, name);

	if (!copy)
		return tree ? no_memory(err) : 0;
	wait(copies, copy);
	return fill_here(copies, copy, tree) < 0 ? no_memory(err) : 0;
}

void mk_copies_have_listed(struct mk_copies *copies, enum mk_published_kind kind)
{
	copies->here_known[kind] = true;
	look_at_all(copies);
}

size_t mk_copies_count(const struct mk_copies *copies)
{
	return copies->copy_count;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool is_wrong(const struct copy *copy)
{
	if (copy->is_going || !copy->is_here || copy->here_hash != copy->hash)
		return true;
	return copy->from && strcmp(copy->from, copy->peer->name) != 0;
}

/* Does the peer still serve it, though not as it is? Then its last good version stays. */
static bool is_served(const struct peer *peer, const struct copy *copy)
{
	const struct left *left = find_left(peer, copy->kind, copy->name);

	return left && left->fault != FAULT_CLUSTER;
}

static bool is_obsolete(const struct mk_copies *copies, const struct copy *copy)
{
	const struct peer *peer;

	if (copy->peer || !copy->is_here || !copy->from)
		return false;
	peer = find_peer(copies, copy->from);
	if (!peer)
		return copies->peers_known;
	return peer->listed[copy->kind] && !is_served(peer, copy);
}

static struct copy *take_waiting(struct mk_copies *copies)
{
	struct copy *copy = copies->first_waiting;

	if (!copy)
		return NULL;
	copies->first_waiting = copy->next_waiting;
	if (!copies->first_waiting)
		copies->last_waiting = &copies->first_waiting;
	copy->is_waiting = false;
	return copy;
}

bool mk_copies_next(struct mk_copies *copies, struct mk_copies_step *step)
{
	struct copy *copy;

	while ((copy = take_waiting(copies))) {
		if (!copies->here_known[copy->kind])
			continue;
		*step = (struct mk_copies_step){ .kind = copy->kind, .name = copy->name };
		if (copy->peer && is_wrong(copy))
			step->tree = json_tokener_parse(copy->text);
		copy->is_going = !step->tree && is_obsolete(copies, copy);
		if (step->tree || copy->is_going)
			return true;
		drop(copies, copy);
	}
	return false;
}

/* ---- report ---------------------------------------------------------------------------------- */

/* Return the first one by name, so that equal input gives equal text. */
static const struct left *first_left(const struct peer *peer, enum fault fault)
{
	const struct left *first = NULL;
	struct mk_index_link *link = NULL;

	while ((link = mk_index_after(&peer->left_out, link))) {
		const struct left *left = mk_index_entry(link, struct left, link);

		if (left->fault == fault && (!first || strcmp(left->name, first->name) < 0))
			first = left;
	}
	return first;
}

static void report_left(const struct peer *peer, struct mk_copies_report *report)
{
	static const enum fault order[] = { FAULT_LIMIT, FAULT_CLUSTER, FAULT_INVALID };
	size_t length = 0;

	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		const struct left *left = first_left(peer, order[i]);

		if (!left || length >= sizeof(report->message))
			continue;
		length +=
			(size_t)snprintf(report->message + length, sizeof(report->message) - length,
					 "%s%zu left out, such as %s '%.80s': %s",
					 length ? "; " : "", peer->faults[order[i]],
					 mk_published_kind_name(left->kind), left->name, left->why);
	}
	for (char *at = report->message; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = ' ';
}

void mk_copies_report(const struct mk_copies *copies, const char *name,
		      struct mk_copies_report *report)
{
	const struct peer *peer = find_peer(copies, name);

	*report = (struct mk_copies_report){ .reason = "Incomplete" };
	for (size_t kind = 0; kind < MK_PUBLISHED_KINDS; kind++)
		if (!peer || !peer->listed[kind]) {
			snprintf(report->message, sizeof(report->message),
				 "its %ss are not read yet; copies stay as they are",
				 mk_published_kind_name((enum mk_published_kind)kind));
			return;
		}
	report->complete = peer->left_out.count == 0;
	if (report->complete)
		snprintf(report->message, sizeof(report->message),
			 "all that the peer publishes is copied");
	else
		report_left(peer, report);
	report->reason = report->complete	     ? "Complete"
			 : peer->faults[FAULT_LIMIT] ? "LimitExceeded"
						     : "Incomplete";
}

/* ---- life ------------------------------------------------------------------------------------ */

struct mk_copies *mk_copies_new(const struct mk_copies_options *options)
{
	struct mk_copies *copies = calloc(1, sizeof(*copies));

	if (!copies)
		return NULL;
	copies->options = *options;
	copies->own_cluster = strdup(options->own_cluster);
	copies->last_waiting = &copies->first_waiting;
	if (copies->own_cluster)
		return copies;
	free(copies);
	return NULL;
}

void mk_copies_free(struct mk_copies *copies)
{
	struct mk_index_link *link, *next;

	if (!copies)
		return;
	while (copies->peers)
		mk_copies_end_peer(copies, copies->peers->name);
	for (link = mk_index_after(&copies->all, NULL); link; link = next) {
		struct copy *copy = mk_index_entry(link, struct copy, link);

		next = mk_index_after(&copies->all, link);
		free(copy->from);
		free(copy->text);
		free(copy);
	}
	mk_index_release(&copies->all);
	free(copies->own_cluster);
	free(copies);
}

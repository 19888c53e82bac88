// SPDX-License-Identifier: Apache-2.0
#include "cluster/lead_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"

#define CANDIDATES 4 /* nodes that look at the Lease; more would only load the server */
#define RANK_MS	   10000 /* nodes come and go */
#define EARLY_MS   200 /* the Nodes are not read yet */

#define SERVICE_LABEL "kubernetes.io/service-name"

static const char *label_of(json_object *tree, const char *label)
{
	return mk_json_text(mk_json_member(mk_json_member(tree, "metadata"), "labels"), label);
}

/* ---- what the server has --------------------------------------------------------------------- */

static char *key_of(const char *namespace_, const char *name)
{
	char *key = NULL;

	return asprintf(&key, "%s/%s", namespace_, name) < 0 ? NULL : key;
}

static struct lead_object *find(const struct mk_lead *lead, enum mk_lead_kind kind,
				const char *namespace_, const char *name)
{
	cleanup_free char *key = key_of(namespace_, name);
	struct lead_object *object = NULL;

	if (key)
		HASH_FIND_STR(lead->of[kind], key, object);
	return object;
}

static void free_object(struct mk_lead *lead, struct lead_object *object)
{
	if (object->key)
		HASH_DEL(lead->of[object->is.kind], object);
	json_object_put(object->is.tree);
	free(object->key);
	free(object->namespace_);
	free(object->name);
	free(object->uid);
	free(object->service);
	free(object->cluster);
	free(object->relayed_by);
	free(object->spec);
	free(object);
}

static struct lead_object *add(struct mk_lead *lead, enum mk_lead_kind kind, const char *namespace_,
			       const char *name)
{
	struct lead_object *object = calloc(1, sizeof(*object));
	char *key = key_of(namespace_, name);

	if (object) {
		object->is.kind = kind;
		object->namespace_ = strdup(namespace_);
		object->name = strdup(name);
	}
	if (!key || !object || !object->namespace_ || !object->name) {
		free(key);
		if (object)
			free_object(lead, object);
		return NULL;
	}
	object->key = key;
	HASH_ADD_KEYPTR(hh, lead->of[kind], object->key, strlen(object->key), object);
	return object;
}

static bool keeps_tree(enum mk_lead_kind kind)
{
	return kind == MK_LEAD_PEERS || kind == MK_LEAD_EXPORTS || kind == MK_LEAD_IMPORTS;
}

static void replace_text(char **to, const char *text)
{
	free(*to);
	*to = strdup(text);
}

/* A tree of a large Service has ten times as many bytes as its text. */
static void keep_spec(struct lead_object *object, json_object *tree)
{
	enum mk_lead_kind kind = object->is.kind;

	if (kind != MK_LEAD_PUBLISHED && kind != MK_LEAD_PEER_CLUSTERS &&
	    kind != MK_LEAD_PEER_NODES)
		return;
	replace_text(&object->spec, mk_json_line(mk_json_member(tree, "spec")));
	object->is.spec = object->spec;
}

static void fill(struct lead_object *object, json_object *tree)
{
	json_object_put(object->is.tree);
	object->is.tree = keeps_tree(object->is.kind) ? json_object_get(tree) : NULL;
	replace_text(&object->uid, mk_json_metadata(tree, "uid"));
	replace_text(&object->service, label_of(tree, MK_IMPORT_LABEL));
	replace_text(&object->cluster, label_of(tree, MK_CLUSTER_LABEL));
	replace_text(&object->relayed_by, label_of(tree, MK_RELAYED_BY_LABEL));
	keep_spec(object, tree);
	object->is.namespace_ = object->namespace_;
	object->is.name = object->name;
	object->is.uid = object->uid ? object->uid : "";
	object->is.service = object->service ? object->service : "";
	object->is.cluster = object->cluster ? object->cluster : "";
	object->is.relayed_by = object->relayed_by ? object->relayed_by : "";
	object->is.is_ours = strcmp(label_of(tree, MK_MANAGED_BY_LABEL), MK_MANAGED_BY) == 0;
}

/* ---- from the reflectors --------------------------------------------------------------------- */

static enum mk_lead_kind kind_of(const struct mk_resource *resource)
{
	return (enum mk_lead_kind)(resource - lead_resource(0));
}

static int apply(void *ctx, const struct mk_resource *resource, json_object *tree,
		 struct mk_error *err)
{
	struct mk_lead *lead = ctx;
	enum mk_lead_kind kind = kind_of(resource);
	const char *namespace_ = mk_json_metadata(tree, "namespace");
	const char *name = mk_json_metadata(tree, "name");
	struct lead_object *object = find(lead, kind, namespace_, name);

	object = object ?: add(lead, kind, namespace_, name);
	if (!object)
		return mk_error_errno(err, ENOMEM, "%s %s/%s", resource->kind, namespace_, name);
	fill(object, tree);
	lead_written_is(lead, object, tree);
	lead->listener.object(lead->listener.ctx, &object->is, tree);
	return 0;
}

static void remove_object(void *ctx, const struct mk_resource *resource, const char *namespace_,
			  const char *name)
{
	struct mk_lead *lead = ctx;
	struct lead_object *object = find(lead, kind_of(resource), namespace_, name);

	if (!object)
		return;
	lead_written_is(lead, object, NULL);
	if (object->is.kind == MK_LEAD_EXPORTS)
		lead_reads_forget(lead->reads, namespace_, name);
	HASH_DEL(lead->of[object->is.kind], object);
	free(mk_steal_ptr(object->key));
	lead->listener.object(lead->listener.ctx, &object->is, NULL);
	free_object(lead, object);
}

static void follow_kind(struct mk_lead *lead, enum mk_lead_kind kind);

/* The listener knows the version of ServiceImports before it gets what peers have published. */
static void on_listed(void *ctx, const struct mk_resource *resource)
{
	struct mk_lead *lead = ctx;
	enum mk_lead_kind kind = kind_of(resource);

	if (lead->listed[kind])
		return;
	lead->listed[kind] = true;
	lead->lacks[kind] = false;
	lead->listener.listed(lead->listener.ctx, kind);
	if (kind == MK_LEAD_IMPORTS)
		follow_kind(lead, MK_LEAD_PUBLISHED);
}

/* A kind that the server lacks stays unread. Without ServiceImports, PublishedServices are not
 * followed. */
static void on_absent(void *ctx, const struct mk_resource *resource)
{
	struct mk_lead *lead = ctx;
	enum mk_lead_kind kind = kind_of(resource);

	lead->lacks[kind] = true;
	if (kind == MK_LEAD_IMPORTS)
		lead->lacks[MK_LEAD_PUBLISHED] = !lead->listed[MK_LEAD_PUBLISHED];
	lead->listener.lacked(lead->listener.ctx, kind);
}

static int see_headless(void *ctx, const struct mk_resource *resource, json_object *tree,
			struct mk_error *err)
{
	(void)err;
	lead_saw(ctx, resource, mk_json_metadata(tree, "namespace"), mk_json_metadata(tree, "name"),
		 tree);
	return 0;
}

/* The slice's labels are not known any more. Its Service is the beginning of its name, if the
 * control plane made it. */
static void report_slice_gone(struct mk_lead *lead, const char *namespace_, const char *name)
{
	cleanup_free char *service = strdup(name);
	char *dash = service ? strrchr(service, '-') : NULL;

	if (!dash)
		return;
	*dash = '\0';
	lead->listener.service(lead->listener.ctx, namespace_, service);
}

static void headless_gone(void *ctx, const struct mk_resource *resource, const char *namespace_,
			  const char *name)
{
	lead_saw(ctx, resource, namespace_, name, NULL);
}

static void headless_nothing(void *ctx, const struct mk_resource *resource)
{
	(void)ctx;
	(void)resource;
}

void lead_saw(struct mk_lead *lead, const struct mk_resource *resource, const char *namespace_,
	      const char *name, json_object *tree)
{
	const char *service = name;

	if (!mk_lead_leads(lead) || !lead->listener.service)
		return;
	if (strcmp(resource->kind, "EndpointSlice") == 0) {
		if (!tree) {
			report_slice_gone(lead, namespace_, name);
			return;
		}
		service = label_of(tree, SERVICE_LABEL);
	} else if (strcmp(resource->kind, "Service") != 0) {
		return;
	}
	if (*service)
		lead->listener.service(lead->listener.ctx, namespace_, service);
}

/* ---- to lead --------------------------------------------------------------------------------- */

static struct mk_reflector *follow(struct mk_lead *lead, const struct mk_resource *resource,
				   const struct mk_reflector_sink *sink)
{
	struct mk_error err;
	struct mk_reflector *reflector = mk_reflector_start(
		lead->kube->loop, lead->kube->http, resource, &lead->kube->timing, sink, &err);

	if (!reflector)
		mk_log_error("%s: not read: %s", resource->name, err.text);
	return reflector;
}

static void follow_kind(struct mk_lead *lead, enum mk_lead_kind kind)
{
	const struct mk_reflector_sink sink = { .apply = apply,
						.remove = remove_object,
						.listed = on_listed,
						.absent = on_absent,
						.ctx = lead };

	lead->reflectors[kind] = follow(lead, lead_resource(kind), &sink);
}

static void follow_all(struct mk_lead *lead)
{
	const struct mk_reflector_sink of_headless = { .apply = see_headless,
						       .remove = headless_gone,
						       .listed = headless_nothing,
						       .absent = headless_nothing,
						       .ctx = lead };

	for (int kind = 0; kind < MK_LEAD_KINDS; kind++)
		if (kind != MK_LEAD_PUBLISHED)
			follow_kind(lead, (enum mk_lead_kind)kind);
	lead->headless = follow(lead, lead_headless(), &of_headless);
}

static void unfollow_all(struct mk_lead *lead)
{
	struct lead_object *object, *next;

	lead_reads_clear(lead->reads);
	mk_objects_clear(lead->objects);
	mk_reflector_stop(mk_steal_ptr(lead->headless));
	for (int kind = 0; kind < MK_LEAD_KINDS; kind++) {
		mk_reflector_stop(mk_steal_ptr(lead->reflectors[kind]));
		lead->listed[kind] = lead->lacks[kind] = false;
		HASH_ITER(hh, lead->of[kind], object, next)
			free_object(lead, object);
	}
}

static void on_lease(void *ctx, bool holds)
{
	struct mk_lead *lead = ctx;

	if (holds && !lead->listener.object)
		return;
	if (!holds)
		unfollow_all(lead);
	lead->listener.leads(lead->listener.ctx, holds);
	if (holds)
		follow_all(lead);
}

/* The leader stays, even if other nodes come first by now: a change would gain nothing. Whether
 * there is work is known only after ClusterPeers and ServiceExports have been read. */
static void look_at_rank(uv_timer_t *timer)
{
	struct mk_lead *lead = timer->data;
	const struct mk_kube *kube = lead->kube;
	bool is_known = kube->told && kube_listed(kube, MK_SOURCE_PEERS);
	bool is_candidate = lead->wish != MK_LEAD_NOT;

	if (is_candidate && !mk_lease_holds(lead->lease))
		is_candidate = kube->told && kube_rank(kube, MK_LEASE_NAME) < CANDIDATES;
	lead_left_want(lead->left, is_candidate && is_known && lead->wish == MK_LEAD_IF_LEFT);
	if (lead->wish == MK_LEAD_IF_LEFT)
		is_candidate &= lead_left_is_there(lead->left);
	mk_lease_want(lead->lease, is_candidate);
	if (lead->wish != MK_LEAD_NOT)
		uv_timer_start(&lead->timer, look_at_rank, is_known ? RANK_MS : EARLY_MS, 0);
}

void lead_look(struct mk_lead *lead)
{
	uv_timer_start(&lead->timer, look_at_rank, 0, 0);
}

void mk_lead_want(struct mk_lead *lead, enum mk_lead_wish wish)
{
	if (wish == lead->wish)
		return;
	lead->wish = wish;
	if (wish == MK_LEAD_NOT)
		mk_lease_want(lead->lease, false);
	lead_look(lead);
}

void mk_lead_listen(struct mk_lead *lead, const struct mk_lead_listener *listener)
{
	lead->listener = *listener;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool mk_lead_leads(const struct mk_lead *lead)
{
	return mk_lease_holds(lead->lease);
}

bool mk_lead_is_over(const struct mk_lead *lead)
{
	return lead->wish == MK_LEAD_NOT && !mk_lease_is_releasing(lead->lease);
}

bool mk_lead_has_listed(const struct mk_lead *lead, enum mk_lead_kind kind)
{
	return lead->listed[kind];
}

bool mk_lead_lacks(const struct mk_lead *lead, enum mk_lead_kind kind)
{
	return lead->lacks[kind];
}

const struct mk_lead_object *mk_lead_find(const struct mk_lead *lead, enum mk_lead_kind kind,
					  const char *namespace_, const char *name)
{
	const struct lead_object *object = find(lead, kind, namespace_, name);

	return object ? &object->is : NULL;
}

const struct mk_lead_object *mk_lead_next(const struct mk_lead *lead, enum mk_lead_kind kind,
					  const struct mk_lead_object *object)
{
	const struct lead_object *before = (const struct lead_object *)object;

	return before ? before->hh.next : (const void *)lead->of[kind];
}

size_t mk_lead_count(const struct mk_lead *lead, enum mk_lead_kind kind)
{
	return HASH_COUNT(lead->of[kind]);
}

size_t mk_lead_waiting(const struct mk_lead *lead)
{
	return mk_objects_waiting(lead->objects);
}

uint64_t mk_lead_failures(const struct mk_lead *lead)
{
	return mk_objects_failures(lead->objects);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct mk_lead *lead_new(struct mk_kube *kube, const struct mk_lease_timing *timing,
			 struct mk_error *err)
{
	const struct mk_lease_options options = {
		.namespace_ = MK_PEERS_NAMESPACE,
		.name = MK_LEASE_NAME,
		.holder = kube->node_name,
		.remedy = LEAD_REMEDY,
		.timing = timing,
		.changed = on_lease,
	};
	struct mk_lease_options with_ctx = options;
	struct mk_objects_options queue;
	struct mk_lead *lead = mk_new(sizeof(*lead), "leader", err);

	if (!lead)
		return NULL;
	lead->kube = kube;
	uv_timer_init(kube->loop, &lead->timer);
	lead->timer.data = with_ctx.ctx = lead;
	lead->lease = mk_lease_new(kube->loop, kube->http, &with_ctx, err);
	if (lead->lease)
		lead->objects = mk_objects_new(kube->loop, kube->http,
					       lead_queue_options(lead, &queue), err);
	if (lead->objects)
		lead->reads = lead_reads_new(lead, err);
	if (lead->reads)
		lead->left = lead_left_new(lead, err);
	if (lead->left)
		return lead;
	lead_free(lead);
	return NULL;
}

void lead_free(struct mk_lead *lead)
{
	if (!lead)
		return;
	if (lead->reads)
		unfollow_all(lead);
	lead_left_free(lead->left);
	lead_reads_free(lead->reads);
	mk_objects_free(lead->objects);
	mk_lease_free(lead->lease);
	mk_timer_free(&lead->timer);
}

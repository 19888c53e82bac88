// SPDX-License-Identifier: Apache-2.0
/* The leader's writes: which place in the API an object has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cluster/api/report.h"
#include "cluster/lead_internal.h"

static const struct written_kind {
	const char *kind, *plural, *status_kind;
	bool is_cluster_wide;
} kinds[] = {
	{ "ClusterPeer", "clusterpeers", "status of ClusterPeer", true },
	{ "ServiceExport", "serviceexports", "status of ServiceExport", false },
	{ "ServiceImport", "serviceimports", "status of ServiceImport", false },
	{ "EndpointSlice", "endpointslices", "", false },
	{ "PublishedCluster", "publishedclusters", "", false },
	{ "PublishedNode", "publishednodes", "", false },
	{ "PublishedService", "publishedservices", "", false },
};

/* The names of the kinds that the leader follows; NULL: it writes none of the kind. */
static const char *const followed[MK_LEAD_KINDS] = {
	[MK_LEAD_PEERS] = "ClusterPeer",	  [MK_LEAD_EXPORTS] = "ServiceExport",
	[MK_LEAD_IMPORTS] = "ServiceImport",	  [MK_LEAD_SLICES] = "EndpointSlice",
	[MK_LEAD_PUBLISHED] = "PublishedService", [MK_LEAD_PEER_CLUSTERS] = "PublishedCluster",
	[MK_LEAD_PEER_NODES] = "PublishedNode",	  [MK_LEAD_OWN_CLUSTERS] = "PublishedCluster",
	[MK_LEAD_OWN_NODES] = "PublishedNode",	  [MK_LEAD_OWN_SERVICES] = "PublishedService",
};

static const struct written_kind *kind_named(const char *name)
{
	for (size_t i = 0; name && i < MK_ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].kind, name) == 0)
			return &kinds[i];
	return NULL;
}

struct place {
	struct mk_object_place is;
	char *target, *title;
};

static void cleanup_place(struct place *place)
{
	free(place->target);
	free(place->title);
}

static int find_place(const char *api_version, const struct written_kind *kind,
		      const char *namespace_, const char *name, bool is_status, struct place *place,
		      struct mk_error *err)
{
	bool spaced = !kind->is_cluster_wide;

	if (asprintf(&place->target, "/apis/%s%s%s/%s/%s%s", api_version,
		     spaced ? "/namespaces/" : "", spaced ? namespace_ : "", kind->plural, name,
		     is_status ? "/status" : "") < 0)
		place->target = NULL;
	if (asprintf(&place->title, "%s%s%s", spaced ? namespace_ : "", spaced ? "/" : "", name) <
	    0)
		place->title = NULL;
	if (!place->target || !place->title)
		return mk_error_errno(err, ENOMEM, "%s %s", kind->kind, name);
	place->is =
		(struct mk_object_place){ place->target, is_status ? kind->status_kind : kind->kind,
					  place->title, LEAD_REMEDY };
	return 0;
}

static int place_of_tree(json_object *tree, bool is_status, struct place *place,
			 struct mk_error *err)
{
	const struct written_kind *kind = kind_named(mk_json_text(tree, "kind"));

	if (!kind)
		return mk_error_set(err, EINVAL, "the leader writes no objects of kind '%s'",
				    mk_json_text(tree, "kind"));
	return find_place(mk_json_text(tree, "apiVersion"), kind,
			  mk_json_metadata(tree, "namespace"), mk_json_metadata(tree, "name"),
			  is_status, place, err);
}

static int place_of_object(const struct mk_lead *lead, const struct mk_lead_object *object,
			   bool is_status, struct place *place, struct mk_error *err)
{
	const struct mk_resource *resource = lead_resource(object->kind);
	const char *version = resource->api_version;

	if (resource->older_path && mk_reflector_reads_older(lead->reflectors[object->kind]))
		version = resource->older_api_version;
	return find_place(version, kind_named(followed[object->kind]), object->namespace_,
			  object->name, is_status, place, err);
}

bool mk_lead_is_alpha(const struct mk_lead *lead)
{
	return lead->reflectors[MK_LEAD_IMPORTS] &&
	       mk_reflector_reads_older(lead->reflectors[MK_LEAD_IMPORTS]);
}

static int apply_to(struct mk_lead *lead, json_object *tree, bool is_status, struct mk_error *err)
{
	__attribute__((cleanup(cleanup_place))) struct place place = { 0 };
	int ret;

	if (!mk_lead_leads(lead))
		return 0;
	ret = place_of_tree(tree, is_status, &place, err);
	return ret ?: mk_objects_apply(lead->objects, &place.is, tree, err);
}

int mk_lead_apply(struct mk_lead *lead, json_object *tree, struct mk_error *err)
{
	return apply_to(lead, tree, false, err);
}

int mk_lead_apply_status(struct mk_lead *lead, json_object *tree, struct mk_error *err)
{
	return apply_to(lead, tree, true, err);
}

int mk_lead_delete(struct mk_lead *lead, const struct mk_lead_object *object, struct mk_error *err)
{
	__attribute__((cleanup(cleanup_place))) struct place place = { 0 };
	int ret;

	if (!mk_lead_leads(lead))
		return 0;
	ret = place_of_object(lead, object, false, &place, err);
	return ret ?: mk_objects_delete(lead->objects, &place.is, object->uid, err);
}

bool mk_lead_is_written(const struct mk_lead *lead, json_object *tree)
{
	__attribute__((cleanup(cleanup_place))) struct place place = { 0 };

	return place_of_tree(tree, false, &place, NULL) == 0 &&
	       mk_objects_is_written(lead->objects, place.target);
}

/* The status of an object that is gone has gone with it. */
void lead_written_is(struct mk_lead *lead, const struct lead_object *object, json_object *tree)
{
	__attribute__((cleanup(cleanup_place))) struct place place = { 0 }, status = { 0 };

	if (!followed[object->is.kind] ||
	    place_of_object(lead, &object->is, false, &place, NULL) < 0 ||
	    place_of_object(lead, &object->is, true, &status, NULL) < 0)
		return;
	(void)mk_objects_see(lead->objects, place.target, tree);
	if (tree)
		(void)mk_objects_see(lead->objects, status.target, tree);
	else
		mk_objects_forget(lead->objects, status.target);
}

void mk_lead_forget(struct mk_lead *lead, const struct mk_lead_object *object)
{
	__attribute__((cleanup(cleanup_place))) struct place place = { 0 };

	if (place_of_object(lead, object, false, &place, NULL) == 0)
		mk_objects_forget(lead->objects, place.target);
}

void mk_lead_event(struct mk_lead *lead, const struct mk_lead_object *object, bool warning,
		   const char *reason, const char *message)
{
	const struct mk_report_object about = {
		.api_version = lead_resource(object->kind)->api_version,
		.kind = followed[object->kind],
		.namespace_ = *object->namespace_ ? object->namespace_ : NULL,
		.name = object->name,
		.uid = object->uid,
	};

	if (mk_lead_leads(lead) && lead->kube->report && about.kind)
		mk_report_event(lead->kube->report, &about, warning, reason, message);
}

static bool may_write(void *ctx)
{
	return mk_lead_leads(ctx);
}

static void written(void *ctx, const char *target)
{
	struct mk_lead *lead = ctx;

	(void)target;
	lead->listener.written(lead->listener.ctx);
}

const struct mk_objects_options *lead_queue_options(struct mk_lead *lead,
						    struct mk_objects_options *options)
{
	*options = (struct mk_objects_options){
		.manager = "monokube", .may_write = may_write, .written = written, .ctx = lead
	};
	return options;
}

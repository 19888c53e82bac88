// SPDX-License-Identifier: Apache-2.0
/* From what all clusters publish to ServiceImports and EndpointSlices of this cluster. */
#include <stdlib.h>
#include <string.h>

#include "agent/leader/leader_internal.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "clusterset/status.h"

/* ---- to begin -------------------------------------------------------------------------------- */

/* A merge that lacks one of these could remove what another cluster, or this one, still exports. */
static bool is_complete(const struct mk_leader *leader)
{
	static const enum mk_lead_kind needed[] = { MK_LEAD_PEERS,	MK_LEAD_IMPORTS,
						    MK_LEAD_SLICES,	MK_LEAD_PUBLISHED,
						    MK_LEAD_NAMESPACES, MK_LEAD_EXPORTS };

	for (size_t i = 0; i < MK_ARRAY_SIZE(needed); i++)
		if (!mk_lead_has_listed(leader->lead, needed[i]))
			return false;
	if (leader->clusters && !leader->clusters->known)
		return false; /* a PublishedCluster may be missing that counts */
	return leader_exports_are_read(leader);
}

static void set_cluster(struct mk_leader *leader, const struct mk_imports_cluster *cluster)
{
	struct mk_error err;

	if (mk_imports_set_cluster(leader->term->imports, cluster, &err) < 0)
		leader_failed(leader, &err);
}

static void set_own(struct mk_leader *leader)
{
	const struct mk_config *config = leader->config;
	struct mk_imports_cluster own = { .name = config->cluster_name };

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		own.home[i] = own.view[i] = mk_cidr_network(&config->cluster.of[i]);
		own.external_home[i] = own.external_view[i] =
			mk_cidr_network(&config->externals.of[i]);
	}
	set_cluster(leader, &own);
}

static void hold(struct mk_leader *leader, const struct mk_lead_object *object)
{
	struct mk_error err;

	if (object->is_ours && mk_imports_hold(leader->term->imports, object->tree, &err) < 0)
		leader_failed(leader, &err);
}

/* Merge again what has slices or an import, in case that no cluster exports it any more. */
static void touch(struct mk_leader *leader, enum mk_lead_kind kind)
{
	mk_lead_each(object, leader->lead, kind) {
		const char *name = kind == MK_LEAD_SLICES ? object->service : object->name;

		if (object->is_ours && *name)
			mk_imports_touch(leader->term->imports, object->namespace_, name);
	}
}

static void apply_own(struct mk_leader *leader)
{
	struct leader_export *of, *next;
	struct mk_error err;

	HASH_ITER(hh, leader->term->exports, of, next)
		for (size_t i = 0; i < of->publication.part_count; i++)
			if (mk_imports_apply(leader->term->imports, of->publication.parts[i],
					     &err) < 0)
				leader_failed(leader, &err);
}

/* PublishedServices of peers came before: they are handed over as they come. */
void leader_imports_begin(struct mk_leader *leader)
{
	struct leader_term *term = leader->term;

	if (term->is_merging || !is_complete(leader) || !term->imports)
		return;
	term->is_merging = true;
	set_own(leader);
	leader_imports_peers(leader);
	mk_lead_each(object, leader->lead, MK_LEAD_IMPORTS)
		hold(leader, object);
	apply_own(leader);
	touch(leader, MK_LEAD_IMPORTS);
	touch(leader, MK_LEAD_SLICES);
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* The ClusterPeer was deleted, and what it had published counts no longer. */
static void drop_peer(struct mk_leader *leader, const char *name)
{
	if (leader->term->imports)
		mk_imports_remove_cluster(leader->term->imports, name);
}

void leader_imports_peers(struct mk_leader *leader)
{
	struct mk_imports_cluster cluster;

	if (!leader->term->is_merging)
		return;
	mk_model_each(struct mk_cluster_peer, peer, leader->model, MK_KIND_CLUSTER_PEER)
		if (leader_cluster_of(leader, peer, &cluster))
			set_cluster(leader, &cluster);
}

/* ---- objects that come and go ---------------------------------------------------------------- */

static void see_published(struct mk_leader *leader, const struct mk_lead_object *object,
			  json_object *tree)
{
	bool is_own = strcmp(object->cluster, leader->config->cluster_name) == 0;
	struct mk_error err;

	if (*object->relayed_by && is_own)
		return; /* a hub shows all its branches to all of them */
	if (!tree)
		mk_imports_delete(leader->term->imports, object->namespace_, object->name);
	else if (mk_imports_apply(leader->term->imports, tree, &err) < 0)
		leader_failed(leader, &err);
}

static void see_import(struct mk_leader *leader, const struct mk_lead_object *object,
		       json_object *tree)
{
	struct mk_imports *imports = leader->term->imports;
	struct mk_error err;

	if (!leader->term->is_merging || !object->is_ours)
		return;
	if (!tree)
		mk_imports_release(imports, object->namespace_, object->name);
	else if (mk_imports_hold(imports, tree, &err) < 0)
		leader_failed(leader, &err);
	mk_imports_touch(imports, object->namespace_, object->name);
}

void leader_imports_seen(struct mk_leader *leader, const struct mk_lead_object *object,
			 json_object *tree)
{
	struct leader_term *term = leader->term;

	if (object->kind == MK_LEAD_PEERS && !tree)
		drop_peer(leader, object->name);
	if (!term->imports)
		return;
	if (object->kind == MK_LEAD_PUBLISHED)
		see_published(leader, object, tree);
	else if (object->kind == MK_LEAD_IMPORTS)
		see_import(leader, object, tree);
	else if (object->kind == MK_LEAD_NAMESPACES && tree)
		mk_imports_touch(term->imports, object->name, NULL);
}

void leader_imports_create(struct mk_leader *leader)
{
	const struct mk_config *config = leader->config;
	struct mk_imports_config own = { .own_cluster = config->cluster_name,
					 .is_alpha = mk_lead_is_alpha(leader->lead) };

	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (mk_config_has(config, i == mk_family_index(AF_INET) ? AF_INET : AF_INET6))
			own.clusterset[i] = mk_cidr_network(&config->clusterset.of[i]);
	leader->term->imports = leader->term->imports ?: mk_imports_new(&own);
	if (!leader->term->imports)
		mk_log_error("leader: no imports: out of memory");
}

/* ---- to merge -------------------------------------------------------------------------------- */

struct merging {
	struct mk_leader *leader;
	const char *namespace_, *name;
	const struct mk_merged *merged;
};

static bool has_slice(const struct mk_merged *merged, const char *name)
{
	for (size_t i = 0; i < merged->slice_count; i++)
		if (strcmp(mk_json_metadata(merged->slices[i], "name"), name) == 0)
			return true;
	return false;
}

static void remove_slice(const struct merging *merging, const struct mk_lead_object *object)
{
	if (object->is_ours && strcmp(object->service, merging->name) == 0 &&
	    strcmp(object->namespace_, merging->namespace_) == 0 &&
	    !has_slice(merging->merged, object->name))
		leader_delete(merging->leader, object);
}

/* The status is written as soon as the import is seen. */
static void write_import(struct mk_leader *leader, const struct mk_lead_object *existing,
			 const struct mk_merged *merged)
{
	cleanup_json json_object *status = NULL;
	char now[MK_TIME_STRLEN];
	struct mk_error err;

	leader_apply(leader, merged->import);
	if (!existing)
		return;
	status = mk_import_status(existing->tree, merged, leader_now(now));
	if (status && mk_lead_apply_status(leader->lead, status, &err) < 0)
		leader_failed(leader, &err);
}

static void refuse(struct mk_leader *leader, const struct merging *merging)
{
	struct mk_error err;

	mk_error_set(&err, EEXIST,
		     "ServiceImport %s/%s: not written: it has no label " MK_MANAGED_BY_LABEL
		     "=" MK_MANAGED_BY "; delete it, if no other controller needs it",
		     merging->namespace_, merging->name);
	leader_failed(leader, &err);
}

static void write_merged(struct merging *merging)
{
	struct mk_leader *leader = merging->leader;
	const struct mk_merged *merged = merging->merged;
	const struct mk_lead_object *existing =
		mk_lead_find(leader->lead, MK_LEAD_IMPORTS, merging->namespace_, merging->name);

	if (existing && !existing->is_ours) {
		refuse(leader, merging);
		return;
	}
	if (merged->import)
		write_import(leader, existing, merged);
	for (size_t i = 0; i < merged->slice_count; i++)
		leader_apply(leader, merged->slices[i]);
	mk_lead_each(object, leader->lead, MK_LEAD_SLICES)
		remove_slice(merging, object);
	if (!merged->import && existing)
		leader_delete(leader, existing);
}

/* Keep the conflicts for the status of this cluster's own ServiceExport. */
static void keep(struct mk_leader *leader, const struct merging *merging, struct mk_merged *merged)
{
	struct leader_export *of =
		leader_find_export(leader->term, merging->namespace_, merging->name);

	if (!of) {
		mk_merged_release(merged);
		return;
	}
	mk_merged_release(&of->merged);
	of->merged = *merged;
	of->is_merged = merged->is_own;
	of->status_due = leader->term->statuses_due = true;
}

static void say_left_out(struct mk_leader *leader, const struct merging *merging)
{
	const struct mk_merged *merged = merging->merged;
	cleanup_free char *text = NULL;

	if (!merged->note ||
	    asprintf(&text, "import %s/%s: %s; %zu are left out in total", merging->namespace_,
		     merging->name, merged->note, merged->left_out) < 0)
		return;
	if (mk_is_news(&leader->said_left_out, text))
		mk_log_warn("leader: %s", text);
}

static void merge(struct mk_leader *leader, const char *namespace_, const char *name)
{
	struct mk_merged merged = { 0 };
	struct merging merging = { leader, namespace_, name, &merged };
	struct mk_error err;

	if (!mk_lead_find(leader->lead, MK_LEAD_NAMESPACES, "", namespace_))
		return;
	if (mk_imports_merge(leader->term->imports, namespace_, name, &merged, &err) < 0) {
		leader_failed(leader, &err);
		mk_merged_release(&merged);
		return;
	}
	write_merged(&merging);
	say_left_out(leader, &merging);
	keep(leader, &merging, &merged);
}

bool leader_imports_merge(struct mk_leader *leader, uint64_t end_ms)
{
	char namespace_[MK_IMPORTS_NAME_SIZE], name[MK_IMPORTS_NAME_SIZE];

	if (!leader->term->is_merging)
		return false;
	while (mk_imports_next(leader->term->imports, namespace_, name)) {
		merge(leader, namespace_, name);
		if (leader_now_ms() >= end_ms)
			return true;
	}
	return false;
}

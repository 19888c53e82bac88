// SPDX-License-Identifier: Apache-2.0
/* The store of all published Services. It knows which Services have to be merged; merge.c does it.
 * What a cluster publishes of one Service counts when all its parts are there, so a reader never
 * meets half of a change. */
#include "base/json.h"
#include "clusterset/imports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cluster/model/peer.h"
#include "clusterset/publish.h"
#include "clusterset/store.h"

#define NS_PER_S     1000000000
#define OBJECT_CHARS 256

static int no_memory(struct mk_error *err)
{
	return mk_error_errno(err, ENOMEM, "published Services");
}

/* ---- which Services wait -------------------------------------------------------------------- */

bool mk_imports_next(struct mk_imports *imports, char namespace_[MK_IMPORTS_NAME_SIZE],
		     char name[MK_IMPORTS_NAME_SIZE])
{
	struct service *service = imports->first_waiting;

	if (!service)
		return false;
	imports->first_waiting = service->next_waiting;
	if (!service->next_waiting)
		imports->last_waiting = &imports->first_waiting;
	service->next_waiting = NULL;
	service->is_waiting = false;
	snprintf(namespace_, MK_IMPORTS_NAME_SIZE, "%s", service->namespace_);
	snprintf(name, MK_IMPORTS_NAME_SIZE, "%s", service->name);
	service_drop(imports, service);
	return true;
}

void mk_imports_touch(struct mk_imports *imports, const char *namespace_, const char *name)
{
	struct service *service;

	if (namespace_ && name && mk_is_dns_label(namespace_) && mk_is_dns_label(name)) {
		service = service_get(imports, namespace_, name);
		if (service)
			service_wait(imports, service);
		return;
	}
	for (struct mk_index_link *link = NULL;
	     !name && (link = mk_index_after(&imports->services, link));) {
		service = mk_index_entry(link, struct service, link);
		if (!namespace_ || strcmp(service->namespace_, namespace_) == 0)
			service_wait(imports, service);
	}
}

/* ---- clusters -------------------------------------------------------------------------------- */

/* Does the source name the cluster as the one that has an endpoint? */
static bool names(const struct source *source, const struct cluster *cluster)
{
	for (size_t i = 0; i < source->used_count; i++) {
		const struct content *used = source->used[i];

		for (size_t j = 0; used->names_clusters && j < used->slice_count; j++)
			for (size_t k = 0; k < used->slices[j].endpoint_count; k++)
				if (used->slices[j].endpoints[k].cluster &&
				    strcmp(used->slices[j].endpoints[k].cluster, cluster->name) ==
					    0)
					return true;
	}
	return false;
}

/* Merge again what it has published, and what has endpoints in it. */
static void cluster_wait(struct mk_imports *imports, const struct cluster *cluster)
{
	for (struct mk_index_link *link = NULL;
	     (link = mk_index_after(&imports->services, link));) {
		struct service *service = mk_index_entry(link, struct service, link);

		for (struct source *source = service->sources; source; source = source->next)
			if (source->cluster == cluster || names(source, cluster))
				service_wait(imports, service);
	}
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_as(const struct cluster *known, const struct mk_imports_cluster *cluster)
{
	return is_same_text(known->via, cluster->via) &&
	       is_same_text(known->namespaces, cluster->namespaces) &&
	       known->opens_pods == cluster->opens_pods &&
	       mk_cidrs_equal(known->home, MK_FAMILIES, cluster->home, MK_FAMILIES) &&
	       mk_cidrs_equal(known->view, MK_FAMILIES, cluster->view, MK_FAMILIES) &&
	       mk_cidrs_equal(known->external_home, MK_FAMILIES, cluster->external_home,
			      MK_FAMILIES) &&
	       mk_cidrs_equal(known->external_view, MK_FAMILIES, cluster->external_view,
			      MK_FAMILIES);
}

static int set_text(char **text, const char *to)
{
	char *copy = to ? strdup(to) : NULL;

	if (to && !copy)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

int mk_imports_set_cluster(struct mk_imports *imports, const struct mk_imports_cluster *cluster,
			   struct mk_error *err)
{
	struct cluster *known = cluster_get(imports, cluster->name);

	if (!known)
		return no_memory(err);
	if (known->is_set && is_as(known, cluster))
		return 0;
	if (set_text(&known->via, cluster->via) < 0 ||
	    set_text(&known->namespaces, cluster->namespaces) < 0)
		return no_memory(err);
	known->is_set = true;
	memcpy(known->home, cluster->home, sizeof(known->home));
	memcpy(known->view, cluster->view, sizeof(known->view));
	memcpy(known->external_home, cluster->external_home, sizeof(known->external_home));
	memcpy(known->external_view, cluster->external_view, sizeof(known->external_view));
	known->opens_pods = cluster->opens_pods;
	cluster_wait(imports, known);
	return 0;
}

void mk_imports_remove_cluster(struct mk_imports *imports, const char *name)
{
	struct cluster *cluster = cluster_find(imports, name);

	if (!cluster || !cluster->is_set)
		return;
	cluster->is_set = false;
	cluster_wait(imports, cluster);
	cluster_drop(imports, cluster);
}

/* ---- sources and their parts ----------------------------------------------------------------- */

static struct source *source_find(const struct service *service, const struct cluster *cluster)
{
	struct source *source = service->sources;

	while (source && source->cluster != cluster)
		source = source->next;
	return source;
}

static struct source *source_get(struct service *service, struct cluster *cluster)
{
	struct source *source = source_find(service, cluster);

	if (source)
		return source;
	source = calloc(1, sizeof(*source));
	if (!source)
		return NULL;
	source->cluster = cluster;
	source->service = service;
	source->next = service->sources;
	service->sources = source;
	cluster->service_count++;
	return source;
}

static void unuse(struct source *source)
{
	for (size_t i = 0; i < source->used_count; i++)
		content_unref(source->used[i]);
	free(source->used);
	source->used = NULL;
	source->used_count = 0;
}

static void source_drop(struct source *source)
{
	struct source **at = &source->service->sources;

	if (source->parts)
		return;
	while (*at != source)
		at = &(*at)->next;
	*at = source->next;
	source->cluster->service_count--;
	unuse(source);
	free(source);
}

static const struct part *part_of(const struct source *source, unsigned int number)
{
	const struct part *part = source->parts;

	while (part && part->content->part != number)
		part = part->next;
	return part;
}

static bool is_same_division(const struct content *a, const struct content *b)
{
	return a->parts == b->parts && strcmp(a->layout ?: "", b->layout ?: "") == 0;
}

/* Use the parts if all of them are there. Without the first part, nothing is published. */
static int use_parts(struct source *source)
{
	const struct part *first = part_of(source, 0), *part;
	struct content **used;
	unsigned int count = first ? first->content->parts : 0;

	for (unsigned int i = 0; i < count; i++) {
		part = part_of(source, i);
		if (!part || !is_same_division(part->content, first->content))
			return 0;
	}
	used = calloc(count + 1, sizeof(*used));
	if (!used)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++)
		used[i] = content_ref(part_of(source, i)->content);
	unuse(source);
	source->used = used;
	source->used_count = count;
	return 0;
}

static struct part *part_find(const struct mk_imports *imports, const char *object)
{
	struct mk_index_link *link =
		mk_index_find(&imports->parts, (uint32_t)hash_text(HASH_SEED, object));

	for (; link; link = mk_index_find_next(link)) {
		struct part *part = mk_index_entry(link, struct part, link);

		if (strcmp(part->object, object) == 0)
			return part;
	}
	return NULL;
}

static void part_free(struct part *part)
{
	content_unref(part->content);
	free(part->object);
	free(part);
}

static struct part *part_new(struct mk_imports *imports, const char *object, struct source *source,
			     struct content *content)
{
	struct part *part = calloc(1, sizeof(*part));

	if (!part)
		return NULL;
	part->content = content_ref(content);
	part->object = strdup(object);
	if (!part->object || mk_index_add(&imports->parts, &part->link,
					  (uint32_t)hash_text(HASH_SEED, object)) < 0) {
		part_free(part);
		return NULL;
	}
	part->source = source;
	part->next = source->parts;
	source->parts = part;
	return part;
}

/* ---- objects come ---------------------------------------------------------------------------- */

struct arrival {
	/* of its metadata; they belong to the tree */
	const char *object, *namespace_, *cluster, *relayed_by;
	bool is_own;
	struct content *content;
};

static int check_metadata(const struct mk_imports *imports, json_object *tree,
			  struct arrival *arrival, struct mk_error *err)
{
	json_object *metadata = object_at(tree, "metadata");
	const char *expected;

	arrival->object = text_at(tree, "metadata", "name");
	arrival->namespace_ = text_at(tree, "metadata", "namespace");
	arrival->cluster = text_at(metadata, "labels", MK_CLUSTER_LABEL);
	arrival->relayed_by = text_at(metadata, "labels", MK_RELAYED_BY_LABEL);
	if (!arrival->object || !arrival->namespace_)
		return mk_error_set(err, EINVAL, "metadata: expected name and namespace");
	if (!arrival->cluster || !mk_is_dns_label(arrival->cluster))
		return mk_error_set(err, EINVAL,
				    "metadata.labels: label " MK_CLUSTER_LABEL
				    " is '%.80s', expected the name of the cluster",
				    arrival->cluster ?: "");
	arrival->is_own = strcmp(arrival->cluster, imports->own_cluster) == 0;
	expected = arrival->is_own ? MK_PUBLISHED_NAMESPACE : MK_PEERS_NAMESPACE;
	if (strcmp(arrival->namespace_, expected) == 0)
		return 0;
	return mk_error_set(
		err, EINVAL,
		"metadata.namespace is '%.80s': what cluster '%s' publishes is in '%s' here",
		arrival->namespace_, arrival->cluster, expected);
}

/* The object's name is CLUSTER.NAMESPACE.NAME, so each part has one object. */
static int check_name(const struct arrival *arrival, struct mk_error *err)
{
	const struct content *content = arrival->content;
	char expected[OBJECT_CHARS];
	int length = snprintf(expected, sizeof(expected), "%s.%s.%s", arrival->cluster,
			      content->namespace_, content->name);

	if (content->part > 0)
		snprintf(expected + length, sizeof(expected) - (size_t)length, ".%u",
			 content->part);
	if (strcmp(arrival->object, expected) != 0)
		return mk_error_set(
			err, EINVAL,
			"metadata.name is '%.253s', expected '%s': cluster, namespace, name, and the part if it is not 0",
			arrival->object, expected);
	return 0;
}

/* All objects that the cluster has published, with this one instead of its last version. */
static int check_limits(const struct mk_imports *imports, const struct arrival *arrival,
			struct mk_error *err)
{
	const struct cluster *cluster = cluster_find(imports, arrival->cluster);
	const struct service *service =
		service_find(imports, arrival->content->namespace_, arrival->content->name);
	const struct part *part = part_find(imports, arrival->object);
	size_t endpoints = arrival->content->endpoint_count;

	if (!cluster)
		return 0;
	endpoints += cluster->endpoint_count - (part ? part->content->endpoint_count : 0);
	if (endpoints > MK_IMPORTS_ENDPOINTS)
		return mk_error_set(
			err, E2BIG,
			"cluster '%s' would have %zu endpoints: at most %d of one cluster count",
			cluster->name, endpoints, MK_IMPORTS_ENDPOINTS);
	if (cluster->service_count >= MK_IMPORTS_SERVICES &&
	    !(service && source_find(service, cluster)))
		return mk_error_set(
			err, E2BIG,
			"cluster '%s' would have %zu Services: at most %d of one cluster count",
			cluster->name, cluster->service_count + 1, MK_IMPORTS_SERVICES);
	return 0;
}

/* Put the content into the store. On failure nothing of the last version is lost. */
static int store(struct mk_imports *imports, const struct arrival *arrival)
{
	struct content *content = arrival->content;
	struct cluster *cluster = cluster_get(imports, arrival->cluster);
	struct service *service = service_get(imports, content->namespace_, content->name);
	struct source *source = cluster && service ? source_get(service, cluster) : NULL;
	struct part *part = part_find(imports, arrival->object);
	int ret = -ENOMEM;

	if (source && part) {
		cluster->endpoint_count -= part->content->endpoint_count;
		content_unref(part->content);
		part->content = content_ref(content);
	} else if (source) {
		part = part_new(imports, arrival->object, source, content);
	}
	if (source && part) {
		cluster->endpoint_count += content->endpoint_count;
		ret = use_parts(source);
	}
	if (source)
		source_drop(source);
	if (service)
		service_wait(imports, service);
	if (cluster)
		cluster_drop(imports, cluster);
	return ret;
}

static int note_hub(const struct arrival *arrival, struct mk_error *err)
{
	if (!arrival->relayed_by)
		return 0;
	arrival->content->relayed_by = strdup(arrival->relayed_by);
	return arrival->content->relayed_by ? 0 : no_memory(err);
}

int mk_imports_apply(struct mk_imports *imports, json_object *published, struct mk_error *err)
{
	struct arrival arrival = { 0 };
	int ret = check_metadata(imports, published, &arrival, err);

	ret = ret ?: content_decode(object_at(published, "spec"), &arrival.content, err);
	ret = ret ?: note_hub(&arrival, err);
	ret = ret ?: check_name(&arrival, err);
	ret = ret ?: check_limits(imports, &arrival, err);
	if (ret < 0)
		ret = mk_error_wrap(err, "PublishedService '%.253s'", arrival.object ?: "");
	else if (store(imports, &arrival) < 0)
		ret = no_memory(err);
	content_unref(arrival.content);
	return ret;
}

/* ---- objects go ------------------------------------------------------------------------------ */

static void part_remove(struct mk_imports *imports, struct part *part)
{
	struct source *source = part->source;
	struct service *service = source->service;
	struct cluster *cluster = source->cluster;
	struct part **at = &source->parts;

	while (*at != part)
		at = &(*at)->next;
	*at = part->next;
	cluster->endpoint_count -= part->content->endpoint_count;
	mk_index_remove(&imports->parts, &part->link);
	if (part->content->part == 0)
		unuse(source);
	part_free(part);
	source_drop(source);
	service_wait(imports, service);
	cluster_drop(imports, cluster);
}

void mk_imports_delete(struct mk_imports *imports, const char *namespace_, const char *object)
{
	struct part *part = part_find(imports, object);
	bool is_own = strcmp(namespace_, MK_PUBLISHED_NAMESPACE) == 0;

	if (part && is_own == (strcmp(part->source->cluster->name, imports->own_cluster) == 0))
		part_remove(imports, part);
}

/* ---- ServiceImports -------------------------------------------------------------------------- */

static int decode_ips(json_object *tree, struct mk_ip ips[MK_FAMILIES], struct mk_error *err)
{
	json_object *list;
	int ret = field_list(object_at(tree, "spec"), "ips", MK_FAMILIES, &list, err);

	for (size_t i = 0; ret == 0 && i < mk_json_length(list); i++) {
		json_object *item = json_object_array_get_idx(list, i);
		struct mk_ip ip;

		if (!json_object_is_type(item, json_type_string) ||
		    mk_ip_parse_lenient(json_object_get_string(item), &ip) < 0)
			return field_wrong("spec.ips", item, "an address", err);
		ips[mk_family_index(ip.family)] = ip;
	}
	return ret;
}

int mk_imports_hold(struct mk_imports *imports, json_object *service_import, struct mk_error *err)
{
	const char *namespace_ = text_at(service_import, "metadata", "namespace");
	const char *name = text_at(service_import, "metadata", "name");
	const char *created = text_at(service_import, "metadata", "creationTimestamp");
	struct mk_ip ips[MK_FAMILIES] = { 0 };
	int64_t unix_ns = 0;
	struct service *service;
	int ret;

	if (!namespace_ || !name || !mk_is_dns_label(namespace_) || !mk_is_dns_label(name))
		return mk_error_set(err, EINVAL, "ServiceImport: expected namespace and name");
	ret = decode_ips(service_import, ips, err);
	if (ret < 0)
		return mk_error_wrap(err, "ServiceImport '%s/%s'", namespace_, name);
	service = service_get(imports, namespace_, name);
	if (!service)
		return no_memory(err);
	if (!service->is_held)
		service_wait(imports, service);
	service->is_held = true;
	if (created && mk_time_parse(created, &unix_ns) == 0)
		service->created_unix_s = unix_ns / NS_PER_S;
	for (size_t family = 0; family < MK_FAMILIES && ret == 0; family++)
		if (ips[family].family != AF_UNSPEC)
			ret = address_hold(imports, service, &ips[family], err);
	return ret;
}

void mk_imports_release(struct mk_imports *imports, const char *namespace_, const char *name)
{
	struct service *service = service_find(imports, namespace_, name);

	if (!service || !service->is_held)
		return;
	service->is_held = false;
	service->created_unix_s = 0;
	service_wait(imports, service);
}

/* ---- the store ------------------------------------------------------------------------------- */

struct mk_imports *mk_imports_new(const struct mk_imports_config *config)
{
	struct mk_imports *imports = calloc(1, sizeof(*imports));

	if (!imports)
		return NULL;
	imports->last_waiting = &imports->first_waiting;
	imports->is_alpha = config->is_alpha;
	for (size_t family = 0; family < MK_FAMILIES; family++)
		if (config->clusterset[family].ip.family != AF_UNSPEC)
			imports->clusterset[family] = mk_cidr_network(&config->clusterset[family]);
	imports->own_cluster = strdup(config->own_cluster);
	if (imports->own_cluster)
		return imports;
	free(imports);
	return NULL;
}

static void remove_services(struct mk_imports *imports)
{
	char namespace_[MK_IMPORTS_NAME_SIZE], name[MK_IMPORTS_NAME_SIZE];
	struct mk_index_link *link;

	while ((link = mk_index_after(&imports->parts, NULL)))
		part_remove(imports, mk_index_entry(link, struct part, link));
	for (link = NULL; (link = mk_index_after(&imports->services, link));) {
		struct service *service = mk_index_entry(link, struct service, link);

		service->is_held = false;
		service_wait(imports, service);
	}
	while (mk_imports_next(imports, namespace_, name))
		;
}

void mk_imports_free(struct mk_imports *imports)
{
	struct mk_index_link *link;

	if (!imports)
		return;
	remove_services(imports);
	while ((link = mk_index_after(&imports->clusters, NULL))) {
		struct cluster *cluster = mk_index_entry(link, struct cluster, link);

		cluster->is_set = false;
		cluster_drop(imports, cluster);
	}
	mk_index_release(&imports->clusters);
	mk_index_release(&imports->parts);
	mk_index_release(&imports->services);
	mk_index_release(&imports->addresses);
	free(imports->own_cluster);
	free(imports);
}

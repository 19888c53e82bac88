// SPDX-License-Identifier: Apache-2.0
/* One Service of all clusters to its ServiceImport and EndpointSlices. Remote addresses become
 * views; addresses outside of the range of their cluster are left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster/model/peer.h"
#include "clusterset/store.h"

#define MCS_GROUP	 "multicluster.x-k8s.io/"
#define MANAGED_BY_SLICE "endpointslice.kubernetes.io/managed-by"
#define SLICE_CHARS	 256

struct work {
	struct mk_imports *imports;
	struct service *service;
	const struct source **sources; /* those that count, oldest export first */
	size_t count;
	struct merged_port *ports;
	size_t port_count;
	struct mk_merged *merged;
	size_t slices_max;
};

static int no_memory(struct mk_error *err)
{
	return mk_error_errno(err, ENOMEM, "import of a Service");
}

/* ---- sources --------------------------------------------------------------------------------- */

/* A hub may show only clusters that are reached by it. */
static bool is_of_its_path(const struct source *source)
{
	const char *via = source->cluster->via;

	for (size_t i = 0; i < source->used_count; i++) {
		const char *hub = source->used[i]->relayed_by;

		if (hub && (!via || strcmp(hub, via) != 0))
			return false;
	}
	return true;
}

/* Prefix of namespaces that belong to each cluster alone. */
#define OWN_NAMESPACE "kube-"

/* Is the namespace among importNamespaces of the peer? */
static bool is_imported(const struct source *source)
{
	const char *namespaces = source->cluster->namespaces ?: ",*,";
	const char *name = source->service->namespace_;
	char item[MK_IMPORTS_NAME_SIZE + 2];

	snprintf(item, sizeof(item), ",%s,", name);
	return strstr(namespaces, item) ||
	       (strstr(namespaces, ",*,") &&
		strncmp(name, OWN_NAMESPACE, strlen(OWN_NAMESPACE)) != 0);
}

static bool counts(const struct work *work, const struct source *source)
{
	bool is_own = strcmp(source->cluster->name, work->imports->own_cluster) == 0;

	return source->used_count > 0 && source->cluster->is_set && is_of_its_path(source) &&
	       (is_own || is_imported(source));
}

static int compare_age(const void *left, const void *right)
{
	const struct source *a = *(const struct source *const *)left;
	const struct source *b = *(const struct source *const *)right;
	int64_t one = a->used[0]->exported_unix_s, other = b->used[0]->exported_unix_s;

	if (one != other)
		return one < other ? -1 : 1;
	return strcmp(a->cluster->name, b->cluster->name);
}

static int collect(struct work *work)
{
	const struct source *source;
	size_t count = 0;

	for (source = work->service->sources; source; source = source->next)
		count++;
	work->sources = calloc(count + 1, sizeof(*work->sources));
	if (!work->sources)
		return -ENOMEM;
	for (source = work->service->sources; source; source = source->next) {
		if (!counts(work, source))
			continue;
		work->sources[work->count++] = source;
		for (size_t i = 0; i < source->used_count; i++)
			work->slices_max += source->used[i]->slice_count;
		work->merged->is_own |=
			strcmp(source->cluster->name, work->imports->own_cluster) == 0;
	}
	qsort(work->sources, work->count, sizeof(*work->sources), compare_age);
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The import has an address of each family that an export has. An export without ipFamilies may
 * have any. */
static bool wants_family(const struct work *work, size_t family)
{
	if (work->sources[0]->used[0]->is_headless ||
	    work->imports->clusterset[family].ip.family == AF_UNSPEC)
		return false;
	for (size_t i = 0; i < work->count; i++) {
		const bool *families = work->sources[i]->used[0]->families;

		if (families[family] || !families[!family])
			return true;
	}
	return false;
}

static int take_addresses(struct work *work, struct mk_error *err)
{
	bool any = false;
	int ret = 0;

	for (size_t family = 0; family < MK_FAMILIES && ret == 0; family++) {
		if (wants_family(work, family)) {
			ret = address_take(work->imports, work->service, family, err);
			any = true;
		} else {
			address_free(work->imports, work->service, family);
		}
	}
	work->merged->lacks_family = !any && !work->sources[0]->used[0]->is_headless;
	return ret;
}

/* ---- the import ------------------------------------------------------------------------------ */

static void put_ips(struct maker *maker, json_object *spec, const struct work *work)
{
	json_object *ips = make_list(maker), *families = make_list(maker);
	char text[MK_IP_STRLEN];

	for (size_t family = 0; family < MK_FAMILIES; family++) {
		const struct mk_ip *ip = &work->service->addresses[family].ip;

		if (ip->family == AF_UNSPEC)
			continue;
		append_text(maker, ips, mk_ip_format(ip, text));
		append_text(maker, families, mk_family_name(ip->family));
	}
	if (maker->failed || json_object_array_length(ips) == 0) {
		json_object_put(ips);
		json_object_put(families);
		return;
	}
	put(maker, spec, "ips", ips);
	if (work->imports->is_alpha)
		json_object_put(families);
	else
		put(maker, spec, "ipFamilies", families);
}

static json_object *make_spec(struct maker *maker, const struct work *work)
{
	const struct content *oldest = work->sources[0]->used[0];
	struct port ports[CONTENT_PORTS];
	json_object *spec = make_object(maker);

	for (size_t i = 0; i < work->port_count; i++)
		ports[i] = *work->ports[i].port;
	put_text(maker, spec, "type", oldest->is_headless ? "Headless" : "ClusterSetIP");
	put_ports(maker, spec, ports, work->port_count);
	put_ips(maker, spec, work);
	put_policies(maker, spec, oldest, work->imports->is_alpha);
	return spec;
}

/* An exported preference is a default: the key that users of the import set stays theirs. */
static void put_annotations(struct maker *maker, json_object *metadata,
			    const struct content *oldest)
{
	json_object *annotations = make_object(maker);

	for (size_t i = 0; i < oldest->annotation_count; i++) {
		const struct pair *pair = &oldest->annotations[i];
		bool prefers = strcmp(pair->key, MK_PREFER_ANNOTATION) == 0;

		put_text(maker, annotations, prefers ? MK_EXPORTED_PREFER_ANNOTATION : pair->key,
			 pair->value);
	}
	put(maker, metadata, "annotations", annotations);
}

static json_object *make_import_metadata(struct maker *maker, const struct work *work)
{
	const struct content *oldest = work->sources[0]->used[0];
	json_object *metadata = make_object(maker), *labels = make_object(maker);

	put_text(maker, metadata, "name", work->service->name);
	put_text(maker, metadata, "namespace", work->service->namespace_);
	put_pairs(maker, labels, oldest->labels, oldest->label_count);
	put_text(maker, labels, MK_MANAGED_BY_LABEL, MK_MANAGED_BY);
	put(maker, metadata, "labels", labels);
	if (oldest->annotation_count > 0)
		put_annotations(maker, metadata, oldest);
	return metadata;
}

static int make_import(const struct work *work)
{
	struct maker maker = { 0 };
	json_object *tree = make_object(&maker);

	put_text(&maker, tree, "apiVersion",
		 work->imports->is_alpha ? MCS_GROUP "v1alpha1" : MCS_GROUP "v1beta1");
	put_text(&maker, tree, "kind", "ServiceImport");
	put(&maker, tree, "metadata", make_import_metadata(&maker, work));
	put(&maker, tree, "spec", make_spec(&maker, work));
	work->merged->import = made(&maker, tree);
	return work->merged->import ? 0 : -ENOMEM;
}

static int compare_names(const void *left, const void *right)
{
	return strcmp((*(const struct source *const *)left)->cluster->name,
		      (*(const struct source *const *)right)->cluster->name);
}

/* Sorts the sources, which are no longer needed by age. */
static int make_clusters(struct work *work)
{
	struct maker maker = { 0 };
	json_object *list = make_list(&maker);

	qsort(work->sources, work->count, sizeof(*work->sources), compare_names);
	for (size_t i = 0; i < work->count; i++) {
		json_object *cluster = make_object(&maker);

		put_text(&maker, cluster, "cluster", work->sources[i]->cluster->name);
		append(&maker, list, cluster);
	}
	work->merged->clusters = made(&maker, list);
	return work->merged->clusters ? 0 : -ENOMEM;
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Returns why no address of @home can be reached; NULL: they can. */
static const char *lack_of(const struct mk_cidr *home, const struct mk_cidr *view)
{
	if (home->ip.family == AF_UNSPEC)
		return "its cluster has no pod range of this family";
	if (view->ip.family == AF_UNSPEC)
		return "its cluster has no view of this family here";
	if (home->prefix_bits != view->prefix_bits)
		return "the view of its cluster has another length than its pod range";
	return NULL;
}

/* Set *@ip to the address by which this cluster reaches the endpoint: its view. Returns why there
 * is none; NULL: there is one. */
static const char *place(const struct cluster *cluster, const struct endpoint *endpoint,
			 struct mk_ip *ip)
{
	size_t family = mk_family_index(endpoint->ip.family);
	const struct mk_cidr *home = &cluster->home[family], *view = &cluster->view[family];
	const char *lack;

	if (cluster->external_home[family].ip.family != AF_UNSPEC &&
	    mk_cidr_contains(&cluster->external_home[family], &endpoint->ip)) {
		home = &cluster->external_home[family];
		view = &cluster->external_view[family];
	}
	lack = lack_of(home, view);
	if (!lack && !mk_cidr_contains(home, &endpoint->ip))
		lack = "it is outside of its cluster's pod range";
	if (!lack)
		*ip = mk_ip_move(&endpoint->ip, view);
	return lack;
}

/* Set *@ip for an endpoint in a cluster that its Service's cluster names, by what is known here of
 * the named one. A peer can let clients of this cluster connect to pods of this cluster only if it
 * could itself, by access: Pods. */
static const char *place_named(const struct work *work, const struct source *source,
			       const struct endpoint *endpoint, struct mk_ip *ip)
{
	const struct cluster *named = cluster_find(work->imports, endpoint->cluster);
	bool is_here = strcmp(endpoint->cluster, work->imports->own_cluster) == 0;

	if (!named || !named->is_set)
		return "no ClusterPeer here has the name of that cluster";
	if (named == source->cluster)
		return "a cluster names itself";
	if (!is_here)
		return place(named, endpoint, ip);
	if (!source->cluster->opens_pods)
		return "it is a pod of this cluster, which needs access: Pods in the ClusterPeer of the other one";
	*ip = endpoint->ip;
	return mk_cidr_contains(&named->home[mk_family_index(ip->family)], ip)
		       ? NULL
		       : "it is outside of this cluster's pod range";
}

static int leave_out(struct work *work, const struct source *source,
		     const struct endpoint *endpoint, const char *why)
{
	const char *named = endpoint->cluster;
	char text[MK_IP_STRLEN];

	work->merged->left_out++;
	return note_first(&work->merged->note, "endpoint %s%s%s of cluster '%s' is left out: %s",
			  mk_ip_format(&endpoint->ip, text), named ? " in cluster " : "",
			  named ?: "", source->cluster->name, why);
}

static int append_endpoints(struct maker *maker, json_object *list, struct work *work,
			    const struct source *source, const struct slice *slice)
{
	const struct cluster *cluster = source->cluster;
	bool is_own = strcmp(cluster->name, work->imports->own_cluster) == 0;
	int ret = 0;

	for (size_t i = 0; i < slice->endpoint_count && ret == 0; i++) {
		const struct endpoint *endpoint = &slice->endpoints[i];
		struct mk_ip ip;
		const char *lack = endpoint->cluster ? place_named(work, source, endpoint, &ip)
						     : place(cluster, endpoint, &ip);

		if (lack) {
			ret = leave_out(work, source, endpoint, lack);
			continue;
		}
		if (is_own && endpoint->target.family != AF_UNSPEC)
			ip = endpoint->target;
		append_endpoint(maker, list, endpoint, &ip, is_own);
		work->merged->endpoint_count++;
	}
	return ret;
}

static json_object *make_slice_metadata(struct maker *maker, const struct work *work,
					const struct source *source, const struct slice *slice)
{
	json_object *metadata = make_object(maker), *labels = make_object(maker), *annotations;
	const char *cluster = source->cluster->name;
	uint64_t hash = hash_text(hash_text(hash_text(HASH_SEED, cluster), "/"), slice->name);
	char name[SLICE_CHARS];

	snprintf(name, sizeof(name), "%s-%s-%016llx", work->service->name, cluster,
		 (unsigned long long)hash);
	put_text(maker, metadata, "name", name);
	put_text(maker, metadata, "namespace", work->service->namespace_);
	put_text(maker, labels, MK_IMPORT_LABEL, work->service->name);
	put_text(maker, labels, MK_IMPORT_SOURCE_LABEL, cluster);
	put_text(maker, labels, MANAGED_BY_SLICE, MK_MANAGED_BY);
	put_text(maker, labels, MK_MANAGED_BY_LABEL, MK_MANAGED_BY);
	put(maker, metadata, "labels", labels);
	if (!slice->trigger)
		return metadata;
	annotations = make_object(maker);
	put_text(maker, annotations, TRIGGER_ANNOTATION, slice->trigger);
	put(maker, metadata, "annotations", annotations);
	return metadata;
}

static bool is_same_target(const struct port *a, const struct port *b)
{
	return a->number == b->number && strcmp(a->protocol, b->protocol) == 0;
}

/* Does the port of the import lead to the cluster's endpoints? Slices have only its name. A cluster
 * that exports another number under that name does not expose the import's port (KEP-1645). */
static bool is_exposed(const struct work *work, const struct source *source, const char *name)
{
	const struct content *content = source->used[0];

	for (size_t i = 0; i < work->port_count; i++)
		for (size_t j = 0; j < content->port_count; j++)
			if (strcmp(work->ports[i].port->name, name) == 0 &&
			    strcmp(content->ports[j].name, name) == 0)
				return is_same_target(work->ports[i].port, &content->ports[j]);
	return false;
}

/* A headless import has no ports of its own, so the slice keeps all. Returns their number. */
static size_t choose_ports(const struct work *work, const struct source *source,
			   const struct slice *slice, struct port ports[CONTENT_PORTS])
{
	size_t count = 0;

	for (size_t i = 0; i < slice->port_count; i++)
		if (work->sources[0]->used[0]->is_headless ||
		    is_exposed(work, source, slice->ports[i].name))
			ports[count++] = slice->ports[i];
	return count;
}

/* A slice without endpoints, or with no port that counts, is not written. */
static int add_slice(struct work *work, const struct source *source, const struct slice *slice)
{
	struct maker maker = { 0 };
	struct port ports[CONTENT_PORTS];
	size_t port_count = choose_ports(work, source, slice, ports);
	json_object *tree, *endpoints;
	int ret;

	if (slice->port_count > 0 && port_count == 0)
		return 0;
	tree = make_object(&maker);
	endpoints = make_list(&maker);
	ret = append_endpoints(&maker, endpoints, work, source, slice);

	if (ret < 0 || maker.failed || json_object_array_length(endpoints) == 0) {
		json_object_put(endpoints);
		json_object_put(tree);
		return ret < 0 || maker.failed ? -ENOMEM : 0;
	}
	put_text(&maker, tree, "apiVersion", "discovery.k8s.io/v1");
	put_text(&maker, tree, "kind", "EndpointSlice");
	put(&maker, tree, "metadata", make_slice_metadata(&maker, work, source, slice));
	put_text(&maker, tree, "addressType", mk_family_name(slice->family));
	put_ports(&maker, tree, ports, port_count);
	put(&maker, tree, "endpoints", endpoints);
	tree = made(&maker, tree);
	if (!tree)
		return -ENOMEM;
	work->merged->slices[work->merged->slice_count++] = tree;
	return 0;
}

/* Is the slice of part @part in an earlier part already? */
static bool is_repeated(const struct source *source, size_t part, const char *name)
{
	for (size_t i = 0; i < part; i++)
		for (size_t j = 0; j < source->used[i]->slice_count; j++)
			if (strcmp(source->used[i]->slices[j].name, name) == 0)
				return true;
	return false;
}

static int add_slices(struct work *work, const struct source *source)
{
	int ret = 0;

	for (size_t i = 0; i < source->used_count; i++)
		for (size_t j = 0; j < source->used[i]->slice_count && ret == 0; j++) {
			const struct slice *slice = &source->used[i]->slices[j];

			if (!is_repeated(source, i, slice->name)) {
				ret = add_slice(work, source, slice);
				continue;
			}
			work->merged->left_out += slice->endpoint_count;
			ret = note_first(
				&work->merged->note,
				"EndpointSlice '%s' of cluster '%s' is left out: it is in two parts",
				slice->name, source->cluster->name);
		}
	return ret;
}

static int compare_slices(const void *left, const void *right)
{
	return strcmp(text_at(*(json_object *const *)left, "metadata", "name"),
		      text_at(*(json_object *const *)right, "metadata", "name"));
}

static int make_slices(struct work *work)
{
	struct mk_merged *merged = work->merged;
	int ret = 0;

	merged->slices = calloc(work->slices_max + 1, sizeof(json_object *));
	if (!merged->slices)
		return -ENOMEM;
	for (size_t i = 0; i < work->count && ret == 0; i++)
		ret = add_slices(work, work->sources[i]);
	qsort(merged->slices, merged->slice_count, sizeof(json_object *), compare_slices);
	return ret;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int merge(struct work *work, struct mk_error *err)
{
	struct mk_error why;
	int ret = sources_compare(work->sources, work->count, &work->ports, &work->port_count,
				  work->merged);

	if (ret == 0)
		ret = take_addresses(work, &why);
	if (ret == -ENOSPC)
		return mk_error_set(err, ENOSPC, "%s", mk_error_text(&why));
	ret = ret ?: make_import(work);
	ret = ret ?: make_slices(work);
	ret = ret ?: make_clusters(work);
	return ret < 0 ? no_memory(err) : 0;
}

int mk_imports_merge(struct mk_imports *imports, const char *namespace_, const char *name,
		     struct mk_merged *merged, struct mk_error *err)
{
	struct work work = { .imports = imports, .merged = merged };
	int ret = 0;

	*merged = (struct mk_merged){ 0 };
	work.service = service_find(imports, namespace_, name);
	if (!work.service)
		return 0;
	if (collect(&work) < 0)
		ret = no_memory(err);
	else if (work.count > 0)
		ret = merge(&work, err);
	else if (!work.service->is_held)
		for (size_t family = 0; family < MK_FAMILIES; family++)
			address_free(imports, work.service, family);
	free(work.sources);
	free(work.ports);
	return ret;
}

void mk_merged_release(struct mk_merged *merged)
{
	for (size_t i = 0; i < merged->slice_count; i++)
		json_object_put(merged->slices[i]);
	free(merged->slices);
	json_object_put(merged->import);
	json_object_put(merged->clusters);
	free(merged->conflict_reasons);
	free(merged->conflict_message);
	free(merged->note);
	*merged = (struct mk_merged){ 0 };
}

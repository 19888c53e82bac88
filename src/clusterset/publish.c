// SPDX-License-Identifier: Apache-2.0
/* An exported Service and its EndpointSlices to PublishedServices. Endpoints that are no pods get
 * external addresses. A reader trusts nothing that it reads. So what it would refuse is left out
 * here and named, where the user can see it. */
#include "clusterset/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/time.h"
#include "clusterset/content.h"

#define API_VERSION "networking.monokube.io/v1alpha1"
#define NAME_CHARS  256 /* CLUSTER.NAMESPACE.NAME.PART: three labels, a number */

struct work {
	const struct mk_publish_own *own;
	struct mk_publication *result;
	struct content *content;
	unsigned int *part_of; /* of each slice of @content */
};

static int no_memory(struct mk_error *err)
{
	return mk_error_errno(err, ENOMEM, "publication of a Service");
}

/* ---- slices ---------------------------------------------------------------------------------- */

static bool is_home(const struct mk_publish_own *own, const struct mk_ip *ip)
{
	const struct mk_cidr *home = &own->home[mk_family_index(ip->family)];

	return home->ip.family == ip->family && mk_cidr_contains(home, ip);
}

/* Addresses that no other node reaches. */
static bool is_of_host(const struct mk_ip *ip)
{
	static const char *const ranges[] = { "0.0.0.0/8",   "127.0.0.0/8", "169.254.0.0/16",
					      "224.0.0.0/3", "::/8",	    "fe80::/10",
					      "ff00::/8" };
	struct mk_cidr range;

	for (size_t i = 0; i < MK_ARRAY_SIZE(ranges); i++)
		if (mk_cidr_parse(ranges[i], &range) == 0 && range.ip.family == ip->family &&
		    mk_cidr_contains(&range, ip))
			return true;
	return false;
}

/* Let an endpoint that is a view of @home have its home address. Returns whether it is one. */
static bool is_seen_as(struct endpoint *at, const struct mk_cidr *home, const struct mk_cidr *view)
{
	if (view->ip.family != at->ip.family || home->ip.family != at->ip.family ||
	    home->prefix_bits != view->prefix_bits || !mk_cidr_contains(view, &at->ip))
		return false;
	at->ip = mk_ip_move(&at->ip, home);
	return true;
}

/* An endpoint that a peer has gets the peer's name and its home address there. */
static int find_peer(const struct mk_publish_own *own, struct endpoint *at)
{
	size_t family = mk_family_index(at->ip.family);

	for (size_t i = 0; i < own->peer_count; i++) {
		const struct mk_imports_cluster *peer = &own->peers[i];

		if (!is_seen_as(at, &peer->home[family], &peer->view[family]) &&
		    !is_seen_as(at, &peer->external_home[family], &peer->external_view[family]))
			continue;
		at->cluster = strdup(peer->name);
		return at->cluster ? 0 : -ENOMEM;
	}
	return 0;
}

/* Why can the endpoint have no external address? NULL: it can. */
static const char *lack_of(const struct mk_publish_own *own, const struct mk_ip *ip)
{
	if (!own->externals)
		return "it is no address of this cluster's pods (clusterCidr)";
	for (size_t i = 0; i < MK_ARRAY_SIZE(own->virtual); i++)
		if (own->virtual[i].ip.family == ip->family &&
		    mk_cidr_contains(&own->virtual[i], ip))
			return "it is an address of peerPools, clustersetCidr or externalCidr, which means another endpoint";
	return is_of_host(ip) ? "other nodes do not reach such an address" : NULL;
}

static int leave_out(struct work *work, const struct mk_ip *ip, const struct slice *slice,
		     const char *why)
{
	char text[MK_IP_STRLEN];

	work->result->left_out++;
	return note_first(&work->result->note, "endpoint %s of EndpointSlice '%s' is left out: %s",
			  mk_ip_format(ip, text), slice->name, why);
}

/* Keep the endpoints for which @lack returns NULL, in their order. */
static int keep_endpoints(struct work *work, struct slice *slice,
			  const char *(*lack)(const struct work *work, const struct endpoint *of))
{
	size_t kept = 0;
	int ret = 0;

	for (size_t i = 0; i < slice->endpoint_count; i++) {
		struct endpoint at = slice->endpoints[i];
		const char *why = lack(work, &at);

		if (!why) {
			slice->endpoints[i] = slice->endpoints[kept];
			slice->endpoints[kept++] = at;
			continue;
		}
		ret = ret ?: leave_out(work, at.target.family ? &at.target : &at.ip, slice, why);
	}
	/* The others stay behind the kept ones until they are released. */
	for (size_t i = kept; i < slice->endpoint_count; i++)
		endpoint_release(&slice->endpoints[i]);
	slice->endpoint_count = kept;
	return ret;
}

static const char *lack_of_target(const struct work *work, const struct endpoint *of)
{
	return of->target.family == AF_UNSPEC ? NULL : lack_of(work->own, &of->target);
}

/* Keep the pods of this cluster and of peers, and what can have an external address. */
static int keep_reachable(struct work *work, struct slice *slice)
{
	int ret = 0;

	for (size_t i = 0; i < slice->endpoint_count && ret == 0; i++) {
		struct endpoint *at = &slice->endpoints[i];

		free(mk_steal_ptr(at->cluster));
		at->target = (struct mk_ip){ 0 };
		if (is_home(work->own, &at->ip))
			continue;
		work->result->depends_on_peers = true;
		ret = find_peer(work->own, at);
		if (!at->cluster)
			at->target = at->ip;
	}
	return ret ?: keep_endpoints(work, slice, lack_of_target);
}

static int copy_trigger(json_object *tree, struct slice *slice)
{
	const char *text = text_at(object_at(tree, "metadata"), "annotations", TRIGGER_ANNOTATION);
	int64_t unix_ns;

	if (!text || mk_time_parse(text, &unix_ns) < 0)
		return 0;
	slice->trigger = strdup(text);
	return slice->trigger ? 0 : -ENOMEM;
}

/* A slice that makes no sense is left out: the others still have their endpoints. */
static int add_slice(struct work *work, json_object *tree)
{
	const char *name = text_at(tree, "metadata", "name");
	struct slice *slice = &work->content->slices[work->content->slice_count];
	struct mk_error why;
	int ret = slice_decode(tree, slice, &why);

	if (ret == -ENOMEM)
		return ret;
	ret = ret
		      ?: field_text(object_at(tree, "metadata"), "name", CONTENT_NAME_CHARS, &name,
				    &why);
	if (ret == 0 && (!name || !*name))
		ret = mk_error_set(&why, EINVAL, "metadata.name is missing");
	if (ret < 0) {
		work->result->left_out++;
		return note_first(&work->result->note, "EndpointSlice '%.253s' is left out: %s",
				  name ?: "", mk_error_text(&why));
	}
	slice->name = strdup(name);
	ret = slice->name ? keep_reachable(work, slice) : -ENOMEM;
	ret = ret ?: copy_trigger(tree, slice);
	if (ret < 0 || slice->endpoint_count == 0)
		return ret;
	work->content->slice_count++;
	return 0;
}

/* The next place holds what a slice left there that does not count. */
static void clear_place(struct content *content)
{
	struct slice *slice = &content->slices[content->slice_count];

	slice_release(slice);
	*slice = (struct slice){ 0 };
}

static int add_slices(struct work *work, json_object *const *slices, size_t count,
		      struct mk_error *err)
{
	struct content *content = work->content;
	int ret = 0;

	content->slices = calloc(count + 1, sizeof(*content->slices));
	work->part_of = calloc(count + 1, sizeof(*work->part_of));
	if (!content->slices || !work->part_of)
		return no_memory(err);
	for (size_t i = 0; i < count && ret == 0; i++) {
		ret = add_slice(work, slices[i]);
		clear_place(content);
	}
	return ret < 0 ? no_memory(err) : slices_sort(content, err);
}

/* ---- external addresses ---------------------------------------------------------------------- */

/* Each target of the content once. */
struct targets {
	struct mk_ip *of, *ips; /* one ip per target */
	size_t count;
};

static int list_targets(const struct content *content, struct targets *targets)
{
	size_t most = 0;

	for (size_t i = 0; i < content->slice_count; i++)
		most += content->slices[i].endpoint_count;
	targets->of = calloc(2 * most + 1, sizeof(*targets->of));
	if (!targets->of)
		return -ENOMEM;
	targets->ips = targets->of + most;
	for (size_t i = 0; i < content->slice_count; i++)
		for (size_t j = 0; j < content->slices[i].endpoint_count; j++)
			if (content->slices[i].endpoints[j].target.family != AF_UNSPEC)
				targets->of[targets->count++] =
					content->slices[i].endpoints[j].target;
	mk_ips_sort(targets->of, &targets->count);
	return 0;
}

static void set_external(struct endpoint *endpoint, const struct targets *targets)
{
	const struct mk_ip *found;

	if (endpoint->target.family == AF_UNSPEC)
		return;
	found = bsearch(&endpoint->target, targets->of, targets->count, sizeof(*targets->of),
			mk_ip_compare);
	if (found)
		endpoint->ip = targets->ips[found - targets->of];
}

static const char *lack_of_address(const struct work *work, const struct endpoint *of)
{
	(void)work;
	return of->ip.family == AF_UNSPEC
		       ? "externalCidr has no free address of its family for it: enlarge externalCidr"
		       : NULL;
}

static int replace_targets(struct work *work, const struct targets *targets)
{
	struct content *content = work->content;
	size_t kept = 0;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < content->slice_count; i++) {
		struct slice *slice = &content->slices[i], at;

		for (size_t j = 0; j < slice->endpoint_count; j++)
			set_external(&slice->endpoints[j], targets);
		ret = keep_endpoints(work, slice, lack_of_address);
		content->endpoint_count += slice->endpoint_count;
		if (slice->endpoint_count == 0)
			continue;
		at = content->slices[kept];
		content->slices[kept++] = *slice;
		if (slice != &content->slices[kept - 1])
			*slice = at;
	}
	for (size_t i = kept; ret == 0 && i < content->slice_count; i++)
		slice_release(&content->slices[i]);
	if (ret == 0)
		content->slice_count = kept;
	return ret;
}

static int set_targets(const struct work *work, const struct targets *targets, struct mk_error *err)
{
	const struct content *content = work->content;
	char owner[NAME_CHARS];

	if (!work->own->externals)
		return 0;
	snprintf(owner, sizeof(owner), "%s/%s", content->namespace_, content->name);
	return mk_externals_set(work->own->externals, owner, targets->of, targets->count,
				work->own->now_s, targets->ips, err);
}

/* Give an external address to each endpoint that is no pod. */
static int map_targets(struct work *work, struct mk_error *err)
{
	struct targets targets = { 0 };
	int ret = list_targets(work->content, &targets);

	ret = ret ?: set_targets(work, &targets, err);
	ret = ret ?: replace_targets(work, &targets);
	free(targets.of);
	return ret < 0 ? no_memory(err) : 0;
}

/* ---- the Service ----------------------------------------------------------------------------- */

static int fail(struct work *work, const struct mk_error *why)
{
	free(work->result->note);
	work->result->verdict = MK_EXPORT_FAILED;
	work->result->note = strdup(mk_error_text(why));
	return work->result->note ? 0 : -ENOMEM;
}

static int decode_export(struct work *work, json_object *service_export, struct mk_error *err)
{
	struct content *content = work->content;
	json_object *spec = object_at(service_export, "spec");
	const char *created = text_at(service_export, "metadata", "creationTimestamp");
	int64_t unix_ns;
	int ret;

	if (created && mk_time_parse(created, &unix_ns) == 0) {
		content->exported = strdup(created);
		if (!content->exported)
			return no_memory(err);
	}
	ret = pairs_decode(spec, "exportedLabels", true, &content->labels, &content->label_count,
			   &work->result->note, err);
	return ret
		       ?: pairs_decode(spec, "exportedAnnotations", false, &content->annotations,
				       &content->annotation_count, &work->result->note, err);
}

static int decode_names(struct content *content, json_object *service, struct mk_error *err)
{
	const char *namespace_ = text_at(service, "metadata", "namespace");
	const char *name = text_at(service, "metadata", "name");

	if (!namespace_ || !name || !mk_is_dns_label(namespace_) || !mk_is_dns_label(name))
		return mk_error_set(err, EINVAL, "metadata: expected namespace and name");
	content->namespace_ = strdup(namespace_);
	content->name = strdup(name);
	return content->namespace_ && content->name ? 0 : no_memory(err);
}

static int decode_service(struct work *work, json_object *service, struct mk_error *err)
{
	struct content *content = work->content;
	json_object *spec = object_at(service, "spec");
	const char *cluster_ip = text_at(service, "spec", "clusterIP");
	int ret = decode_names(content, service, err);

	content->is_headless = cluster_ip && strcmp(cluster_ip, "None") == 0;
	ret = ret ?: ports_decode(spec, false, &content->ports, &content->port_count, err);
	ret = ret ?: policies_decode(spec, content, err);
	return ret < 0 ? mk_error_wrap(err, "Service") : 0;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Fill one part after the other with whole slices, in the order of their names. */
static unsigned int divide(struct work *work)
{
	const struct content *content = work->content;
	size_t endpoints = 0, slices = 0;
	unsigned int part = 0;

	for (size_t i = 0; i < content->slice_count; i++) {
		size_t more = content->slices[i].endpoint_count;

		if (endpoints + more > MK_PUBLISHED_PART_ENDPOINTS || slices == CONTENT_SLICES) {
			part++;
			endpoints = slices = 0;
		}
		endpoints += more;
		slices++;
		work->part_of[i] = part;
	}
	return part + 1;
}

/* Which slice is in which part: all parts of one division have the same. */
static void format_layout(const struct work *work, char layout[17])
{
	uint64_t hash = HASH_SEED;
	char part[16];

	for (size_t i = 0; i < work->content->slice_count; i++) {
		snprintf(part, sizeof(part), "/%u/", work->part_of[i]);
		hash = hash_text(hash_text(hash, work->content->slices[i].name), part);
	}
	snprintf(layout, 17, "%016llx", (unsigned long long)hash);
}

static bool has_externals(const struct work *work, unsigned int part)
{
	for (size_t i = 0; i < work->content->slice_count; i++) {
		const struct slice *slice = &work->content->slices[i];

		for (size_t j = 0; work->part_of[i] == part && j < slice->endpoint_count; j++)
			if (slice->endpoints[j].target.family != AF_UNSPEC)
				return true;
	}
	return false;
}

static json_object *make_metadata(struct maker *maker, const struct work *work, unsigned int part)
{
	json_object *metadata = make_object(maker), *labels = make_object(maker);
	const struct content *content = work->content;
	char name[NAME_CHARS];
	int length = snprintf(name, sizeof(name), "%s.%s.%s", work->own->cluster,
			      content->namespace_, content->name);

	if (part > 0)
		snprintf(name + length, sizeof(name) - (size_t)length, ".%u", part);
	put_text(maker, metadata, "name", name);
	put_text(maker, metadata, "namespace", MK_PUBLISHED_NAMESPACE);
	put_text(maker, labels, MK_MANAGED_BY_LABEL, MK_MANAGED_BY);
	put_text(maker, labels, MK_CLUSTER_LABEL, work->own->cluster);
	if (has_externals(work, part))
		put_text(maker, labels, MK_EXTERNAL_LABEL, "true");
	put(maker, metadata, "labels", labels);
	return metadata;
}

static json_object *make_spec(struct maker *maker, const struct work *work, unsigned int part,
			      unsigned int parts, const char *layout)
{
	json_object *spec = make_object(maker), *slices = make_list(maker);

	put_content(maker, spec, work->content);
	put_number(maker, spec, "part", part);
	put_number(maker, spec, "parts", parts);
	put_text(maker, spec, "layout", parts > 1 ? layout : NULL);
	for (size_t i = 0; i < work->content->slice_count; i++)
		if (work->part_of[i] == part)
			put_slice(maker, slices, &work->content->slices[i]);
	put(maker, spec, "slices", slices);
	return spec;
}

static json_object *make_part(const struct work *work, unsigned int part, unsigned int parts,
			      const char *layout)
{
	struct maker maker = { 0 };
	json_object *tree = make_object(&maker);

	put_text(&maker, tree, "apiVersion", API_VERSION);
	put_text(&maker, tree, "kind", "PublishedService");
	put(&maker, tree, "metadata", make_metadata(&maker, work, part));
	put(&maker, tree, "spec", make_spec(&maker, work, part, parts, layout));
	return made(&maker, tree);
}

static int make_parts(struct work *work, struct mk_error *err)
{
	struct mk_publication *result = work->result;
	unsigned int parts = divide(work);
	char layout[17];

	if (parts > MK_PUBLISHED_PARTS)
		return mk_error_set(err, EINVAL,
				    "%zu endpoints are too many: at most %d are published",
				    work->content->endpoint_count,
				    MK_PUBLISHED_PARTS * MK_PUBLISHED_PART_ENDPOINTS);
	format_layout(work, layout);
	result->parts = calloc(parts, sizeof(json_object *));
	if (!result->parts)
		return no_memory(err);
	for (unsigned int part = 0; part < parts; part++) {
		result->parts[part] = make_part(work, part, parts, layout);
		if (!result->parts[part])
			return no_memory(err);
		result->part_count++;
	}
	result->endpoint_count = work->content->endpoint_count;
	return 0;
}

static int publish(struct work *work, json_object *service_export, json_object *service,
		   json_object *const *slices, size_t count, struct mk_error *err)
{
	int ret = decode_service(work, service, err);

	ret = ret ?: decode_export(work, service_export, err);
	ret = ret ?: add_slices(work, slices, count, err);
	ret = ret ?: map_targets(work, err);
	return ret ?: make_parts(work, err);
}

int mk_publish(const struct mk_publish_own *own, json_object *service_export, json_object *service,
	       json_object *const *slices, size_t slice_count, struct mk_publication *result,
	       struct mk_error *err)
{
	const char *type = text_at(service, "spec", "type");
	struct work work = { .own = own, .result = result };
	struct mk_error why;
	int ret;

	*result = (struct mk_publication){ 0 };
	if (!service || (type && strcmp(type, "ExternalName") == 0)) {
		result->verdict = service ? MK_EXPORT_INVALID_TYPE : MK_EXPORT_NO_SERVICE;
		return 0;
	}
	work.content = calloc(1, sizeof(*work.content));
	if (!work.content)
		return no_memory(err);
	work.content->references = 1;
	ret = publish(&work, service_export, service, slices, slice_count, &why);
	if (ret < 0 && ret != -ENOMEM)
		ret = fail(&work, &why);
	content_unref(work.content);
	free(work.part_of);
	return ret < 0 ? no_memory(err) : 0;
}

void mk_publication_release(struct mk_publication *result)
{
	for (size_t i = 0; i < result->part_count; i++)
		json_object_put(result->parts[i]);
	free(result->parts);
	free(result->note);
	*result = (struct mk_publication){ 0 };
}

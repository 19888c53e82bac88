// SPDX-License-Identifier: Apache-2.0
/* EndpointSlice and Endpoints objects: each becomes a flat list, one entry per address and port. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "cluster/model/object.h"

#define LABEL_SERVICE "kubernetes.io/service-name"

#define ANNOTATION_TRIGGER "endpoints.kubernetes.io/last-change-trigger-time"

/* The API allows 1000 addresses and 20000 ports per slice. No real object has their product. */
#define ENDPOINTS_MAX 100000

/* The hints of an endpoint that has none; not counted. */
static struct mk_hints no_hints;

static void release_hints(struct mk_endpoint_set *set, struct mk_hints *hints)
{
	if (hints == &no_hints || --hints->references > 0)
		return;
	for (size_t i = 0; i < hints->zone_count + hints->node_count; i++)
		text_release(set->texts, hints->names[i]);
	text_release(set->texts, hints->cluster);
	free(hints);
}

/* Returns hints with room for @room names; NULL: out of memory. */
static struct mk_hints *hints_new(struct mk_endpoint_set *set, const char *cluster, size_t room)
{
	struct mk_hints *hints = calloc(1, sizeof(*hints) + room * sizeof(hints->names[0]));

	if (!hints)
		return NULL;
	hints->references = 1;
	hints->cluster = cluster ? text_share(set->texts, cluster) : NULL;
	if (!cluster || hints->cluster)
		return hints;
	free(hints);
	return NULL;
}

/* The hints of an endpoint that has none. */
static struct mk_hints *plain_hints(const struct mk_endpoint_set *set)
{
	if (!set->of_cluster)
		return &no_hints;
	set->of_cluster->references++;
	return set->of_cluster;
}

static void release_endpoint(struct mk_endpoint_set *set, struct mk_endpoint *endpoint)
{
	text_release(set->texts, endpoint->port_name);
	text_release(set->texts, endpoint->node_name);
	release_hints(set, endpoint->hints);
}

/* ---- order and equality ---------------------------------------------------------------------- */

int text_compare(const char *a, const char *b)
{
	if (!a || !b)
		return (a == NULL) - (b == NULL);
	return strcmp(a, b);
}

int ips_add(struct mk_ip **ips, size_t *count, const struct mk_ip *ip, struct mk_error *err)
{
	struct mk_ip *more = reallocarray(*ips, *count + 1, sizeof(*more));

	if (!more)
		return mk_error_errno(err, ENOMEM, "%zu addresses", *count + 1);
	more[(*count)++] = *ip;
	*ips = more;
	return 0;
}

static int compare_identity(const struct mk_endpoint *a, const struct mk_endpoint *b)
{
	int order = mk_ip_compare(&a->ip, &b->ip);

	if (order == 0)
		order = (int)a->port - b->port;
	if (order == 0)
		order = (int)a->proto - b->proto;
	return order ? order : strcmp(a->port_name, b->port_name);
}

static int compare_names(char *const *a, size_t a_count, char *const *b, size_t b_count)
{
	int order = (a_count > b_count) - (a_count < b_count);

	for (size_t i = 0; order == 0 && i < a_count; i++)
		order = strcmp(a[i], b[i]);
	return order;
}

int endpoint_compare(const struct mk_endpoint *a, const struct mk_endpoint *b)
{
	int order = compare_identity(a, b);

	if (order == 0)
		order = a->terminating - b->terminating;
	if (order == 0)
		order = b->ready - a->ready;
	if (order == 0)
		order = b->serving - a->serving;
	if (order == 0)
		order = text_compare(a->node_name, b->node_name);
	if (order == 0)
		order = compare_names(a->hints->names, a->hints->zone_count, b->hints->names,
				      b->hints->zone_count);
	if (order == 0)
		order = compare_names(a->hints->names + a->hints->zone_count, a->hints->node_count,
				      b->hints->names + b->hints->zone_count, b->hints->node_count);
	return order ? order : text_compare(a->hints->cluster, b->hints->cluster);
}

bool endpoint_same(const struct mk_endpoint *a, const struct mk_endpoint *b)
{
	return compare_identity(a, b) == 0;
}

/* ---- ports ----------------------------------------------------------------------------------- */

struct port {
	const char *name; /* the tree's */
	uint8_t proto;
	uint16_t port;
};

/* Decode the port. The API server accepts any number, so skip an invalid one. */
static int decode_port_number(struct mk_endpoint_set *set, const struct mk_json *item,
			      int64_t *number, struct mk_error *err)
{
	struct mk_error why;
	struct mk_json at;
	int ret = tree_member(item, "port", json_type_int, &at, err);

	*number = 0;
	if (ret == 0 && tree_number(item, "port", 0, UINT16_MAX, number, &why) < 0)
		ret = pass_over(&set->passed_over, &why, err);
	return ret;
}

/* Skip a port without number, or 0: it means "any", but a Service's traffic needs one port. */
static int decode_port(struct mk_endpoint_set *set, const struct mk_json *item, struct port *ports,
		       size_t *count, struct mk_error *err)
{
	struct port *port = &ports[*count];
	int64_t number;
	const char *name;
	int ret = decode_port_number(set, item, &number, err);

	ret = ret ?: tree_text(item, "name", &name, err);
	ret = ret ?: tree_protocol(item, &port->proto, err);
	if (ret < 0 || number == 0)
		return ret;
	port->port = (uint16_t)number;
	port->name = name ? name : "";
	(*count)++;
	return 0;
}

/* Decode the ports; the caller frees *@ports. */
static int decode_ports(struct mk_endpoint_set *set, const struct mk_json *parent,
			struct port **ports, size_t *count, struct mk_error *err)
{
	struct mk_json list, item;
	int ret = tree_member(parent, "ports", json_type_array, &list, err);

	*count = 0;
	*ports = ret == 0 ? calloc(tree_length(&list) + 1, sizeof(**ports)) : NULL;
	if (ret == 0 && !*ports)
		return mk_error_errno(err, ENOMEM, "%zu ports", tree_length(&list));
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode_port(set, &item, *ports, count, err);
	}
	return ret;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* The members that all endpoints of one address share. */
struct address {
	struct mk_ip ip; /* AF_UNSPEC: not usable */
	bool ready, serving, terminating;
	const char *node_name; /* the tree's; NULL: unknown */
	struct mk_hints *hints;
};

/* Fill @endpoint, which release_endpoint() releases, even after an error. */
static int fill(struct mk_endpoint_set *set, const struct address *address, const struct port *port,
		struct mk_endpoint *endpoint, struct mk_error *err)
{
	*endpoint = (struct mk_endpoint){
		.ip = address->ip,
		.port = port->port,
		.proto = port->proto,
		.ready = address->ready,
		.serving = address->serving,
		.terminating = address->terminating,
		.port_name = text_share(set->texts, port->name),
		.node_name = address->node_name ? text_share(set->texts, address->node_name) : NULL,
		.hints = address->hints,
	};
	if (endpoint->hints != &no_hints)
		endpoint->hints->references++;
	if (!endpoint->port_name || (address->node_name && !endpoint->node_name))
		return mk_error_errno(err, ENOMEM, "name");
	return 0;
}

/* Append one endpoint per port. */
static int append(struct mk_endpoint_set *set, const struct address *address,
		  const struct port *ports, size_t port_count, const struct mk_json *at,
		  struct mk_error *err)
{
	int ret = 0;
	struct mk_endpoint *endpoints;

	if (address->ip.family == AF_UNSPEC || port_count == 0)
		return 0;
	if (set->count + port_count > ENDPOINTS_MAX)
		return tree_wrong(at, "at most 100000 pairs of address and port", err);
	endpoints = reallocarray(set->endpoints, set->count + port_count, sizeof(*endpoints));
	if (!endpoints)
		return mk_error_errno(err, ENOMEM, "%zu endpoints", set->count + port_count);
	set->endpoints = endpoints;
	for (size_t i = 0; ret == 0 && i < port_count; i++)
		ret = fill(set, address, &ports[i], &endpoints[set->count++], err);
	return ret;
}

/* Decode @list, objects with a name, into @names, which has room for all. */
static int decode_names(struct mk_endpoint_set *set, const struct mk_json *list, char **names,
			unsigned int *count, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < tree_length(list); i++) {
		struct mk_json item;
		const char *name;

		ret = tree_item(list, i, json_type_object, &item, err);
		ret = ret ?: tree_text(&item, "name", &name, err);
		if (ret < 0 || !name)
			continue;
		names[*count] = text_share(set->texts, name);
		if (!names[*count])
			return mk_error_errno(err, ENOMEM, "name");
		(*count)++;
	}
	if (ret == 0)
		qsort(names, *count, sizeof(*names), mk_compare_texts);
	return ret;
}

/* The caller releases @address->hints, even after an error. */
static int decode_hints(struct mk_endpoint_set *set, const struct mk_json *item,
			struct address *address, struct mk_error *err)
{
	struct mk_json object, zones, nodes;
	struct mk_hints *hints;
	size_t room;
	int ret = tree_member(item, "hints", json_type_object, &object, err);

	ret = ret ?: tree_member(&object, "forZones", json_type_array, &zones, err);
	ret = ret ?: tree_member(&object, "forNodes", json_type_array, &nodes, err);
	if (set->remote)
		nodes.value = NULL; /* another cluster's */
	room = ret < 0 ? 0 : tree_length(&zones) + tree_length(&nodes);
	if (room == 0)
		return ret;
	hints = hints_new(set, address->hints->cluster, room);
	if (!hints)
		return mk_error_errno(err, ENOMEM, "%zu hints", room);
	release_hints(set, address->hints);
	address->hints = hints;
	ret = decode_names(set, &zones, hints->names, &hints->zone_count, err);
	return ret
		       ?: decode_names(set, &nodes, hints->names + hints->zone_count,
				       &hints->node_count, err);
}

/* Missing conditions mean ready and serving, not terminating. */
static int decode_conditions(const struct mk_json *item, struct address *address,
			     struct mk_error *err)
{
	struct mk_json conditions;
	int ret = tree_member(item, "conditions", json_type_object, &conditions, err);

	address->ready = address->serving = true;
	ret = ret ?: tree_bool(&conditions, "ready", &address->ready, err);
	ret = ret ?: tree_bool(&conditions, "serving", &address->serving, err);
	return ret ?: tree_bool(&conditions, "terminating", &address->terminating, err);
}

/* Skip an address that no packet can reach, or that is not of the slice's addressType. */
static int decode_ip(struct mk_endpoint_set *set, const struct mk_json *at, struct mk_ip *ip,
		     struct mk_error *err)
{
	struct mk_error why;

	if (tree_routed_ip(at, ip, &why) == 0) {
		if (set->family == AF_UNSPEC || set->family == ip->family)
			return 0;
		tree_wrong(at, "an address of the slice's addressType", &why);
	}
	ip->family = AF_UNSPEC;
	set->skipped++;
	return pass_over(&set->passed_over, &why, err);
}

/* Only addresses[0] counts: the API gives other addresses no meaning. */
static int decode_slice_endpoint(struct mk_endpoint_set *set, const struct mk_json *item,
				 const struct port *ports, size_t port_count, struct mk_error *err)
{
	struct address address = { 0 };
	struct mk_json list, at;
	int ret = tree_member(item, "addresses", json_type_array, &list, err);

	if (ret < 0 || tree_length(&list) == 0)
		return ret;
	address.hints = plain_hints(set);
	ret = tree_item(&list, 0, json_type_string, &at, err);
	ret = ret ?: decode_ip(set, &at, &address.ip, err);
	ret = ret ?: decode_conditions(item, &address, err);
	ret = ret ?: tree_text(item, "nodeName", &address.node_name, err);
	if (set->remote)
		address.node_name = NULL;
	ret = ret ?: decode_hints(set, item, &address, err);
	ret = ret ?: append(set, &address, ports, port_count, &list, err);
	release_hints(set, address.hints);
	return ret;
}

static int decode_slice_endpoints(struct mk_endpoint_set *set, const struct mk_json *tree,
				  struct mk_error *err)
{
	cleanup_free struct port *ports = NULL;
	struct mk_json list, item;
	size_t port_count;
	int ret = decode_ports(set, tree, &ports, &port_count, err);

	ret = ret ?: tree_member(tree, "endpoints", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode_slice_endpoint(set, &item, ports, port_count, err);
	}
	return ret;
}

static int compare_endpoints(const void *a, const void *b)
{
	return endpoint_compare(a, b);
}

/* @service NULL: the set has no Service. */
static int finish(struct mk_endpoint_set *set, const struct mk_object_id *id, const char *service,
		  const char *suffix, struct mk_error *err)
{
	if (set->count > 1)
		qsort(set->endpoints, set->count, sizeof(*set->endpoints), compare_endpoints);
	set->namespace_ = strdup(id->namespace_);
	if (service && asprintf(&set->service, "%s%s", service, suffix) < 0)
		set->service = NULL;
	if (!set->namespace_ || (service && !set->service))
		return mk_error_errno(err, ENOMEM, "name");
	return 0;
}

/* *@service NULL: the slice has no Service. A label's value need not be a valid name. */
static int decode_name(struct mk_endpoint_set *set, const struct mk_json *tree, const char *label,
		       const char **service, struct mk_error *err)
{
	int ret = tree_label(tree, label, service, err);
	struct mk_error why;

	if (ret < 0 || !*service || is_object_name(*service))
		return ret;
	if (**service) {
		mk_error_set(&why, EINVAL, "label %s: value '%.64s', expected a Service's name",
			     label, *service);
		ret = pass_over(&set->passed_over, &why, err);
	}
	*service = NULL;
	return ret;
}

/* Get the Service of a slice, or else the ServiceImport, whose Service has *@suffix. */
static int decode_service_name(struct mk_endpoint_set *set, const struct mk_json *tree,
			       const char **service, const char **suffix, struct mk_error *err)
{
	const char *source = NULL;
	int ret = decode_name(set, tree, LABEL_SERVICE, service, err);

	*suffix = "";
	if (ret < 0 || *service || !set->clusterset->cluster_name)
		return ret;
	ret = decode_name(set, tree, MK_IMPORT_LABEL, service, err);
	ret = ret ?: tree_label(tree, MK_IMPORT_SOURCE_LABEL, &source, err);
	if (ret < 0 || !*service)
		return ret;
	*suffix = MK_CLUSTERSET_SUFFIX;
	set->imported = true;
	set->remote = !source || strcmp(source, set->clusterset->cluster_name) != 0;
	set->of_cluster = source ? hints_new(set, source, 0) : NULL;
	return source && !set->of_cluster ? mk_error_errno(err, ENOMEM, "cluster") : 0;
}

static sa_family_t family_of(const char *address_type)
{
	if (strcmp(address_type, "IPv4") == 0)
		return AF_INET;
	return strcmp(address_type, "IPv6") == 0 ? AF_INET6 : AF_UNSPEC;
}

int endpoint_slice_decode(const struct mk_json *tree, const struct mk_object_id *id,
			  struct mk_endpoint_set *set, struct mk_error *err)
{
	const char *service, *suffix;
	struct mk_json type;
	bool left_out;
	int ret = decode_service_name(set, tree, &service, &suffix, err);

	ret = ret ?: left_out_by_label(tree, &left_out, err);
	ret = ret ?: tree_member(tree, "addressType", json_type_string, &type, err);
	if (ret < 0)
		return ret;
	if (!type.value)
		return tree_wrong(&type, "IPv4, IPv6 or FQDN", err);
	set->family = family_of(mk_json_string(&type));
	if (set->family != AF_UNSPEC)
		ret = decode_slice_endpoints(set, tree, err);
	return ret < 0 ? ret : finish(set, id, left_out ? NULL : service, suffix, err);
}

int64_t endpoint_slice_trigger(const struct mk_json *tree)
{
	struct mk_json metadata, annotations;
	int64_t unix_ns = 0;
	const char *text;

	if (tree_member(tree, "metadata", json_type_object, &metadata, NULL) < 0 ||
	    tree_member(&metadata, "annotations", json_type_object, &annotations, NULL) < 0 ||
	    tree_text(&annotations, ANNOTATION_TRIGGER, &text, NULL) < 0)
		return 0;
	return text && mk_time_parse(text, &unix_ns) == 0 ? unix_ns : 0;
}

static int decode_subset_addresses(struct mk_endpoint_set *set, const struct mk_json *subset,
				   const char *key, const struct port *ports, size_t port_count,
				   struct mk_error *err)
{
	bool ready = strcmp(key, "addresses") == 0;
	struct mk_json list, item, at;
	int ret = tree_member(subset, key, json_type_array, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		struct address address = { .ready = ready, .serving = ready, .hints = &no_hints };

		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: tree_member(&item, "ip", json_type_string, &at, err);
		ret = ret ?: decode_ip(set, &at, &address.ip, err);
		ret = ret ?: tree_text(&item, "nodeName", &address.node_name, err);
		ret = ret ?: append(set, &address, ports, port_count, &list, err);
	}
	return ret;
}

static int decode_subset(struct mk_endpoint_set *set, const struct mk_json *subset,
			 struct mk_error *err)
{
	cleanup_free struct port *ports = NULL;
	size_t port_count;
	int ret = decode_ports(set, subset, &ports, &port_count, err);

	ret = ret ?: decode_subset_addresses(set, subset, "addresses", ports, port_count, err);
	if (ret == 0)
		ret = decode_subset_addresses(set, subset, "notReadyAddresses", ports, port_count,
					      err);
	return ret;
}

int endpoints_decode(const struct mk_json *tree, const struct mk_object_id *id,
		     struct mk_endpoint_set *set, struct mk_error *err)
{
	struct mk_json list, item;
	bool left_out;
	int ret = left_out_by_label(tree, &left_out, err);

	ret = ret ?: tree_member(tree, "subsets", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode_subset(set, &item, err);
	}
	return ret < 0 ? ret : finish(set, id, left_out ? NULL : id->name, "", err);
}

bool endpoint_set_equal(const struct mk_endpoint_set *a, const struct mk_endpoint_set *b)
{
	if (text_compare(a->service, b->service) != 0 || a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (endpoint_compare(&a->endpoints[i], &b->endpoints[i]) != 0)
			return false;
	return true;
}

void endpoint_set_release(struct mk_endpoint_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		release_endpoint(set, &set->endpoints[i]);
	if (set->of_cluster)
		release_hints(set, set->of_cluster);
	free(set->endpoints);
	free(set->passed_over);
	free(set->namespace_);
	free(set->service);
	*set = (struct mk_endpoint_set){ 0 };
}

// SPDX-License-Identifier: Apache-2.0
/* PublishedServices of other clusters, and Services and EndpointSlices of this one, to their typed
 * content. Whatever makes no sense is an error of the whole object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/time.h"
#include "clusterset/content.h"
#include "clusterset/publish.h"

#define NS_PER_S	 1000000000
#define AFFINITY_MAX_S	 86400
#define APP_PROTOCOL_MAX 317 /* a prefix of 253, '/', and a name of 63 */

static int no_memory(struct mk_error *err)
{
	return mk_error_errno(err, ENOMEM, "a published Service");
}

/* Copy the text @key; *@copy is NULL if it is absent. */
static int copy_text(json_object *parent, const char *key, size_t max, char **copy,
		     struct mk_error *err)
{
	const char *text;
	int ret = field_text(parent, key, max, &text, err);

	if (ret < 0 || !text)
		return ret;
	*copy = strdup(text);
	return *copy ? 0 : no_memory(err);
}

/* Copy a text that is a DNS label. @required: it must be there. */
static int copy_name(json_object *parent, const char *key, bool required, char **copy,
		     struct mk_error *err)
{
	int ret = copy_text(parent, key, CONTENT_NAME_CHARS, copy, err);

	if (ret < 0 || (!*copy && !required) || (*copy && mk_is_dns_label(*copy)))
		return ret;
	return field_wrong(key, mk_json_member(parent, key),
			   "lower case letters, digits and '-', at most 63", err);
}

/* Read a text that is one of @words, as its index. Absent: *@index stays. */
static int decode_word(json_object *parent, const char *key, const char *const words[],
		       size_t count, const char *expected, size_t *index, struct mk_error *err)
{
	json_object *value;
	int ret = field_member(parent, key, json_type_string, &value, err);

	if (ret < 0 || !value)
		return ret;
	for (size_t i = 0; i < count; i++)
		if (strcmp(json_object_get_string(value), words[i]) == 0) {
			*index = i;
			return 0;
		}
	return field_wrong(key, value, expected, err);
}

/* ---- ports ----------------------------------------------------------------------------------- */

static const char *const protocols[] = { "TCP", "UDP", "SCTP" };

static void port_release(struct port *port)
{
	free(port->name);
	free(port->app_protocol);
}

static void ports_release(struct port *ports, size_t count)
{
	for (size_t i = 0; ports && i < count; i++)
		port_release(&ports[i]);
	free(ports);
}

static int port_decode(json_object *tree, struct port *port, struct mk_error *err)
{
	int64_t number = 0;
	size_t protocol = 0;
	int ret;

	if (!json_object_is_type(tree, json_type_object))
		return mk_error_set(err, EINVAL, "expected an object");
	ret = copy_text(tree, "name", CONTENT_NAME_CHARS, &port->name, err);
	if (ret == 0 && port->name && *port->name && !mk_is_dns_label(port->name))
		ret = mk_error_set(err, EINVAL, "name: value '%s', expected a DNS label",
				   port->name);
	if (ret == 0 && !port->name && !(port->name = strdup("")))
		ret = no_memory(err);
	ret = ret
		      ?: decode_word(tree, "protocol", protocols, MK_ARRAY_SIZE(protocols),
				     "TCP, UDP or SCTP", &protocol, err);
	ret = ret ?: field_number(tree, "port", 1, UINT16_MAX, &number, err);
	port->protocol = protocols[protocol];
	port->number = (uint16_t)number;
	ret = ret ?: copy_text(tree, "appProtocol", APP_PROTOCOL_MAX, &port->app_protocol, err);
	if (ret == 0 && port->app_protocol && !is_label_key(port->app_protocol))
		ret = mk_error_set(
			err, EINVAL,
			"appProtocol: value '%.80s', expected a name with or without a prefix",
			port->app_protocol);
	return ret;
}

/* Two ports have neither one name, nor one protocol and number. */
static int check_port(const struct port *ports, size_t count, bool of_slice, struct mk_error *err)
{
	const struct port *last = &ports[count - 1];

	if (!of_slice && last->number == 0)
		return mk_error_set(err, EINVAL, "port is missing, expected 1 to 65535");
	for (const struct port *other = ports; other < last; other++) {
		if (strcmp(other->name, last->name) == 0)
			return mk_error_set(err, EINVAL, "name: '%s' is twice in the list",
					    last->name);
		if (!of_slice && other->number == last->number && other->protocol == last->protocol)
			return mk_error_set(err, EINVAL, "port: %s %u is twice in the list",
					    last->protocol, last->number);
	}
	return 0;
}

int ports_decode(json_object *parent, bool of_slice, struct port **ports, size_t *count,
		 struct mk_error *err)
{
	json_object *list;
	int ret = field_list(parent, "ports", CONTENT_PORTS, &list, err);

	if (ret < 0 || mk_json_length(list) == 0)
		return ret;
	*ports = calloc(mk_json_length(list), sizeof(**ports));
	if (!*ports)
		return no_memory(err);
	for (size_t i = 0; i < mk_json_length(list); i++) {
		struct port *port = &(*ports)[(*count)++];

		ret = port_decode(json_object_array_get_idx(list, i), port, err);
		ret = ret ?: check_port(*ports, *count, of_slice, err);
		if (ret < 0)
			return mk_error_wrap(err, "ports[%zu]", i);
		if (of_slice && port->number == 0) {
			port_release(port);
			*port = (struct port){ 0 };
			--*count;
		}
	}
	return 0;
}

/* ---- endpoints ------------------------------------------------------------------------------- */

static int decode_condition(json_object *conditions, const char *key, uint8_t *condition,
			    struct mk_error *err)
{
	json_object *value;
	int ret = field_member(conditions, key, json_type_boolean, &value, err);

	if (ret == 0 && value)
		*condition = json_object_get_boolean(value) ? CONDITION_TRUE : CONDITION_FALSE;
	return ret;
}

static int decode_conditions(json_object *tree, struct endpoint *endpoint, struct mk_error *err)
{
	json_object *conditions;
	int ret = field_member(tree, "conditions", json_type_object, &conditions, err);

	ret = ret ?: decode_condition(conditions, "ready", &endpoint->ready, err);
	ret = ret ?: decode_condition(conditions, "serving", &endpoint->serving, err);
	return ret ?: decode_condition(conditions, "terminating", &endpoint->terminating, err);
}

/* Zones are values of labels, so they have no comma. */
static int decode_zone(json_object *parent, const char *key, char **zone, struct mk_error *err)
{
	int ret = copy_text(parent, key, CONTENT_NAME_CHARS, zone, err);

	if (ret < 0 || !*zone || is_label_value(*zone))
		return ret;
	return field_wrong(key, mk_json_member(parent, key), "a zone: the value of a label", err);
}

static int decode_hints(json_object *tree, struct endpoint *endpoint, struct mk_error *err)
{
	json_object *hints, *list = NULL;
	int ret = field_member(tree, "hints", json_type_object, &hints, err);

	ret = ret ?: field_list(hints, "forZones", CONTENT_HINTS, &list, err);
	for (size_t i = 0; ret == 0 && i < mk_json_length(list); i++) {
		json_object *item = json_object_array_get_idx(list, i);
		cleanup_free char *zone = NULL;

		if (!json_object_is_type(item, json_type_object))
			return field_wrong("forZones", list, "a list of zones", err);
		ret = decode_zone(item, "name", &zone, err);
		if (ret == 0 && zone && *zone && add_text(&endpoint->hints, ",", "%s", zone) < 0)
			ret = no_memory(err);
	}
	return ret;
}

static int decode_address(json_object *tree, sa_family_t family, struct mk_ip *ip,
			  struct mk_error *err)
{
	json_object *list, *first;
	int ret = field_list(tree, "addresses", CONTENT_ADDRESSES, &list, err);

	if (ret < 0)
		return ret;
	first = mk_json_length(list) > 0 ? json_object_array_get_idx(list, 0) : NULL;
	if (json_object_is_type(first, json_type_string) &&
	    is_plain_text(first, CONTENT_NAME_CHARS) &&
	    mk_ip_parse_lenient(json_object_get_string(first), ip) == 0 && ip->family == family)
		return 0;
	return field_wrong("addresses[0]", first,
			   family == AF_INET6 ? "an IPv6 address" : "an IPv4 address", err);
}

/* The target of an external address. Only the cluster that has published it uses the target. */
static int decode_target(json_object *tree, sa_family_t family, struct endpoint *endpoint,
			 struct mk_error *err)
{
	const char *text;
	int ret = field_text(tree, "target", CONTENT_NAME_CHARS, &text, err);

	if (ret < 0 || !text)
		return ret;
	if (mk_ip_parse(text, &endpoint->target) == 0 && endpoint->target.family == family)
		return 0;
	return field_wrong("target", mk_json_member(tree, "target"),
			   "an address of the family of the slice", err);
}

/* Another cluster has the pod. Such an endpoint never has an external address. */
static int decode_cluster(json_object *tree, struct endpoint *endpoint, struct mk_error *err)
{
	int ret = copy_name(tree, "cluster", false, &endpoint->cluster, err);

	if (ret < 0 || !endpoint->cluster || endpoint->target.family == AF_UNSPEC)
		return ret;
	return field_wrong("target", mk_json_member(tree, "target"),
			   "no target beside cluster: a pod of another cluster has none", err);
}

static int endpoint_decode(json_object *tree, sa_family_t family, struct endpoint *endpoint,
			   struct mk_error *err)
{
	int ret;

	if (!json_object_is_type(tree, json_type_object))
		return mk_error_set(err, EINVAL, "expected an object");
	ret = decode_address(tree, family, &endpoint->ip, err);
	ret = ret ?: decode_target(tree, family, endpoint, err);
	ret = ret ?: decode_cluster(tree, endpoint, err);
	ret = ret ?: decode_conditions(tree, endpoint, err);
	ret = ret ?: copy_text(tree, "nodeName", CONTENT_NAME_CHARS, &endpoint->node, err);
	ret = ret ?: decode_zone(tree, "zone", &endpoint->zone, err);
	ret = ret ?: copy_name(tree, "hostname", false, &endpoint->hostname, err);
	return ret ?: decode_hints(tree, endpoint, err);
}

void endpoint_release(struct endpoint *endpoint)
{
	free(endpoint->cluster);
	free(endpoint->node);
	free(endpoint->zone);
	free(endpoint->hostname);
	free(endpoint->hints);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* Equal addresses in one cluster: the one that does not terminate comes first, then the earlier
 * one. */
struct placed {
	struct endpoint endpoint;
	size_t place;
};

static int compare_places(const struct endpoint *a, const struct endpoint *b)
{
	return mk_ip_compare(&a->ip, &b->ip) ?: strcmp(a->cluster ?: "", b->cluster ?: "");
}

static int compare_placed(const void *left, const void *right)
{
	const struct placed *a = left, *b = right;
	int order = compare_places(&a->endpoint, &b->endpoint);

	order = order
			?: (a->endpoint.terminating == CONDITION_TRUE) -
				   (b->endpoint.terminating == CONDITION_TRUE);
	return order ?: (a->place > b->place) - (a->place < b->place);
}

static int endpoints_sort(struct slice *slice, struct mk_error *err)
{
	cleanup_free struct placed *placed = calloc(slice->endpoint_count + 1, sizeof(*placed));
	size_t kept = 0;

	if (!placed)
		return no_memory(err);
	for (size_t i = 0; i < slice->endpoint_count; i++)
		placed[i] = (struct placed){ slice->endpoints[i], i };
	qsort(placed, slice->endpoint_count, sizeof(*placed), compare_placed);
	for (size_t i = 0; i < slice->endpoint_count; i++) {
		struct endpoint *at = &placed[i].endpoint;

		if (kept > 0 && compare_places(&slice->endpoints[kept - 1], at) == 0)
			endpoint_release(at);
		else
			slice->endpoints[kept++] = *at;
	}
	slice->endpoint_count = kept;
	return 0;
}

static int decode_endpoints(json_object *tree, struct slice *slice, struct mk_error *err)
{
	json_object *list;
	int ret = field_list(tree, "endpoints", MK_PUBLISHED_PART_ENDPOINTS, &list, err);

	if (ret < 0 || mk_json_length(list) == 0)
		return ret;
	slice->endpoints = calloc(mk_json_length(list), sizeof(*slice->endpoints));
	if (!slice->endpoints)
		return no_memory(err);
	for (size_t i = 0; i < mk_json_length(list); i++) {
		ret = endpoint_decode(json_object_array_get_idx(list, i), slice->family,
				      &slice->endpoints[slice->endpoint_count++], err);
		if (ret < 0)
			return mk_error_wrap(err, "endpoints[%zu]", i);
	}
	return endpoints_sort(slice, err);
}

int slice_decode(json_object *tree, struct slice *slice, struct mk_error *err)
{
	static const char *const types[] = { "IPv4", "IPv6" };
	size_t type = 2;
	int ret;

	if (!json_object_is_type(tree, json_type_object))
		return mk_error_set(err, EINVAL, "expected an object");
	ret = decode_word(tree, "addressType", types, 2, "IPv4 or IPv6", &type, err);
	if (ret == 0 && type == 2)
		return field_wrong("addressType", NULL, "IPv4 or IPv6", err);
	slice->family = type == 1 ? AF_INET6 : AF_INET;
	ret = ret ?: ports_decode(tree, true, &slice->ports, &slice->port_count, err);
	return ret ?: decode_endpoints(tree, slice, err);
}

void slice_release(struct slice *slice)
{
	for (size_t i = 0; i < slice->endpoint_count; i++)
		endpoint_release(&slice->endpoints[i]);
	free(slice->endpoints);
	ports_release(slice->ports, slice->port_count);
	free(slice->name);
	free(slice->trigger);
}

int slices_sort(struct content *content, struct mk_error *err)
{
	qsort(content->slices, content->slice_count, sizeof(*content->slices), mk_compare_texts);
	for (size_t i = 1; i < content->slice_count; i++)
		if (strcmp(content->slices[i - 1].name, content->slices[i].name) == 0)
			return mk_error_set(err, EINVAL, "slices: name '%s' is twice in the list",
					    content->slices[i].name);
	return 0;
}

static int check_time(const char *key, const char *text, int64_t *unix_ns, struct mk_error *err)
{
	if (!text || mk_time_parse(text, unix_ns) == 0)
		return 0;
	return mk_error_set(err, EINVAL,
			    "%s: value '%s', expected a time such as "
			    "2026-01-31T12:00:00Z",
			    key, text);
}

static int published_slice_decode(json_object *tree, struct slice *slice, struct mk_error *err)
{
	int64_t unix_ns;
	int ret = slice_decode(tree, slice, err);

	ret = ret ?: copy_text(tree, "name", CONTENT_NAME_CHARS, &slice->name, err);
	if (ret == 0 && (!slice->name || !*slice->name))
		ret = field_wrong("name", NULL, "the name of the EndpointSlice", err);
	ret = ret ?: copy_text(tree, "triggerTime", CONTENT_NAME_CHARS, &slice->trigger, err);
	return ret ?: check_time("triggerTime", slice->trigger, &unix_ns, err);
}

static int decode_slices(json_object *spec, struct content *content, struct mk_error *err)
{
	json_object *list;
	int ret = field_list(spec, "slices", CONTENT_SLICES, &list, err);

	if (ret < 0 || mk_json_length(list) == 0)
		return ret;
	content->slices = calloc(mk_json_length(list), sizeof(*content->slices));
	if (!content->slices)
		return no_memory(err);
	for (size_t i = 0; i < mk_json_length(list); i++) {
		struct slice *slice = &content->slices[content->slice_count++];

		ret = published_slice_decode(json_object_array_get_idx(list, i), slice, err);
		if (ret < 0)
			return mk_error_wrap(err, "slices[%zu]", i);
		content->endpoint_count += slice->endpoint_count;
		for (size_t j = 0; j < slice->endpoint_count; j++)
			content->names_clusters |= slice->endpoints[j].cluster != NULL;
	}
	if (content->endpoint_count > MK_PUBLISHED_PART_ENDPOINTS)
		return mk_error_set(err, EINVAL, "slices: %zu endpoints, expected at most %d",
				    content->endpoint_count, MK_PUBLISHED_PART_ENDPOINTS);
	return slices_sort(content, err);
}

/* ---- the Service ----------------------------------------------------------------------------- */

static int decode_families(json_object *spec, struct content *content, struct mk_error *err)
{
	json_object *list;
	int ret = field_list(spec, "ipFamilies", MK_FAMILIES, &list, err);

	for (size_t i = 0; ret == 0 && i < mk_json_length(list); i++) {
		json_object *item = json_object_array_get_idx(list, i);
		const char *text = json_object_is_type(item, json_type_string)
					   ? json_object_get_string(item)
					   : "";

		if (strcmp(text, "IPv4") != 0 && strcmp(text, "IPv6") != 0)
			return field_wrong("ipFamilies", item, "IPv4 or IPv6", err);
		content->families[strcmp(text, "IPv6") == 0] = true;
	}
	return ret;
}

int policies_decode(json_object *spec, struct content *content, struct mk_error *err)
{
	static const char *const affinities[] = { "None", "ClientIP" };
	static const char *const policies[] = { "Cluster", "Local" };
	json_object *config, *client_ip = NULL;
	size_t affinity = 0, policy = 0;
	int ret = decode_word(spec, "sessionAffinity", affinities, 2, "None or ClientIP", &affinity,
			      err);

	ret = ret ?: field_member(spec, "sessionAffinityConfig", json_type_object, &config, err);
	ret = ret ?: field_member(config, "clientIP", json_type_object, &client_ip, err);
	ret = ret
		      ?: field_number(client_ip, "timeoutSeconds", 1, AFFINITY_MAX_S,
				      &content->affinity_s, err);
	ret = ret
		      ?: decode_word(spec, "internalTrafficPolicy", policies, 2, "Cluster or Local",
				     &policy, err);
	ret = ret
		      ?: copy_text(spec, "trafficDistribution", CONTENT_NAME_CHARS,
				   &content->distribution, err);
	content->has_affinity = affinity == 1;
	content->is_local = policy == 1;
	return ret ?: decode_families(spec, content, err);
}

static int decode_exported(json_object *spec, struct content *content, struct mk_error *err)
{
	int64_t unix_ns = 0;
	int ret = copy_text(spec, "exported", CONTENT_NAME_CHARS, &content->exported, err);

	ret = ret ?: check_time("exported", content->exported, &unix_ns, err);
	content->exported_unix_s = unix_ns / NS_PER_S;
	return ret;
}

static int decode_part(json_object *spec, struct content *content, struct mk_error *err)
{
	int64_t part = 0, parts = 1;
	int ret = field_number(spec, "parts", 1, MK_PUBLISHED_PARTS, &parts, err);

	ret = ret ?: field_number(spec, "part", 0, parts - 1, &part, err);
	content->part = (unsigned int)part;
	content->parts = (unsigned int)parts;
	return ret ?: copy_text(spec, "layout", CONTENT_NAME_CHARS, &content->layout, err);
}

static int decode_spec(json_object *spec, struct content *content, struct mk_error *err)
{
	static const char *const types[] = { "ClusterSetIP", "Headless" };
	size_t type = 0;
	int ret = copy_name(spec, "namespace", true, &content->namespace_, err);

	ret = ret ?: copy_name(spec, "name", true, &content->name, err);
	ret = ret ?: decode_word(spec, "type", types, 2, "ClusterSetIP or Headless", &type, err);
	content->is_headless = type == 1;
	ret = ret ?: decode_exported(spec, content, err);
	ret = ret ?: ports_decode(spec, false, &content->ports, &content->port_count, err);
	ret = ret ?: policies_decode(spec, content, err);
	ret = ret
		      ?: pairs_decode(spec, "labels", true, &content->labels, &content->label_count,
				      NULL, err);
	ret = ret
		      ?: pairs_decode(spec, "annotations", false, &content->annotations,
				      &content->annotation_count, NULL, err);
	ret = ret ?: decode_part(spec, content, err);
	return ret ?: decode_slices(spec, content, err);
}

int content_decode(json_object *spec, struct content **content, struct mk_error *err)
{
	struct content *decoded = calloc(1, sizeof(*decoded));
	int ret;

	if (!decoded)
		return no_memory(err);
	decoded->references = 1;
	ret = decode_spec(spec, decoded, err);
	if (ret < 0) {
		content_unref(decoded);
		return mk_error_wrap(err, "spec");
	}
	*content = decoded;
	return 0;
}

struct content *content_ref(struct content *content)
{
	content->references++;
	return content;
}

void content_unref(struct content *content)
{
	if (!content || --content->references > 0)
		return;
	for (size_t i = 0; i < content->slice_count; i++)
		slice_release(&content->slices[i]);
	free(content->slices);
	ports_release(content->ports, content->port_count);
	pairs_release(content->labels, content->label_count);
	pairs_release(content->annotations, content->annotation_count);
	free(content->namespace_);
	free(content->name);
	free(content->relayed_by);
	free(content->exported);
	free(content->distribution);
	free(content->layout);
	free(content);
}

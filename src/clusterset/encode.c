// SPDX-License-Identifier: Apache-2.0
/* Typed content to the trees of PublishedServices, ServiceImports and EndpointSlices. */
#include <stdio.h>
#include <string.h>

#include "clusterset/content.h"

void put_ports(struct maker *maker, json_object *parent, const struct port *ports, size_t count)
{
	json_object *list = make_list(maker);

	for (size_t i = 0; i < count; i++) {
		json_object *port = make_object(maker);

		put_text(maker, port, "name", *ports[i].name ? ports[i].name : NULL);
		put_text(maker, port, "protocol", ports[i].protocol);
		put_number(maker, port, "port", ports[i].number);
		put_text(maker, port, "appProtocol", ports[i].app_protocol);
		append(maker, list, port);
	}
	put(maker, parent, "ports", list);
}

static void put_conditions(struct maker *maker, json_object *parent,
			   const struct endpoint *endpoint)
{
	const struct {
		const char *key;
		uint8_t value;
	} conditions[] = { { "ready", endpoint->ready },
			   { "serving", endpoint->serving },
			   { "terminating", endpoint->terminating } };
	json_object *object = make_object(maker);

	for (size_t i = 0; i < sizeof(conditions) / sizeof(*conditions); i++)
		if (conditions[i].value != CONDITION_ABSENT)
			put_bool(maker, object, conditions[i].key,
				 conditions[i].value == CONDITION_TRUE);
	put(maker, parent, "conditions", object);
}

static void put_hints(struct maker *maker, json_object *parent, const char *hints)
{
	json_object *object, *list;
	char zone[64];

	if (!hints)
		return;
	object = make_object(maker);
	list = make_list(maker);
	while (*hints) {
		size_t length = strcspn(hints, ",");
		json_object *item = make_object(maker);

		snprintf(zone, sizeof(zone), "%.*s", (int)length, hints);
		put_text(maker, item, "name", zone);
		append(maker, list, item);
		hints += length + (hints[length] == ',');
	}
	put(maker, object, "forZones", list);
	put(maker, parent, "hints", object);
}

static json_object *make_endpoint(struct maker *maker, const struct endpoint *endpoint,
				  const struct mk_ip *ip, bool is_own)
{
	json_object *object = make_object(maker), *addresses = make_list(maker);
	char text[MK_IP_STRLEN];

	append_text(maker, addresses, mk_ip_format(ip, text));
	put(maker, object, "addresses", addresses);
	put_conditions(maker, object, endpoint);
	put_text(maker, object, "hostname", endpoint->hostname);
	put_text(maker, object, "nodeName", is_own ? endpoint->node : NULL);
	put_text(maker, object, "zone", endpoint->zone);
	put_hints(maker, object, endpoint->hints);
	return object;
}

void append_endpoint(struct maker *maker, json_object *list, const struct endpoint *endpoint,
		     const struct mk_ip *ip, bool is_own)
{
	append(maker, list, make_endpoint(maker, endpoint, ip, is_own));
}

static void append_published(struct maker *maker, json_object *list,
			     const struct endpoint *endpoint)
{
	json_object *object = make_endpoint(maker, endpoint, &endpoint->ip, true);
	char text[MK_IP_STRLEN];

	put_text(maker, object, "cluster", endpoint->cluster);
	if (endpoint->target.family != AF_UNSPEC)
		put_text(maker, object, "target", mk_ip_format(&endpoint->target, text));
	append(maker, list, object);
}

void put_slice(struct maker *maker, json_object *list, const struct slice *slice)
{
	json_object *object = make_object(maker), *endpoints = make_list(maker);

	put_text(maker, object, "name", slice->name);
	put_text(maker, object, "triggerTime", slice->trigger);
	put_text(maker, object, "addressType", mk_family_name(slice->family));
	put_ports(maker, object, slice->ports, slice->port_count);
	for (size_t i = 0; i < slice->endpoint_count; i++)
		append_published(maker, endpoints, &slice->endpoints[i]);
	put(maker, object, "endpoints", endpoints);
	append(maker, list, object);
}

static void put_affinity(struct maker *maker, json_object *spec, const struct content *content)
{
	json_object *config, *client_ip;

	put_text(maker, spec, "sessionAffinity", content->has_affinity ? "ClientIP" : "None");
	if (content->affinity_s == 0)
		return;
	config = make_object(maker);
	client_ip = make_object(maker);
	put_number(maker, client_ip, "timeoutSeconds", content->affinity_s);
	put(maker, config, "clientIP", client_ip);
	put(maker, spec, "sessionAffinityConfig", config);
}

void put_policies(struct maker *maker, json_object *spec, const struct content *content,
		  bool is_alpha)
{
	put_affinity(maker, spec, content);
	if (is_alpha)
		return;
	put_text(maker, spec, "internalTrafficPolicy", content->is_local ? "Local" : "Cluster");
	put_text(maker, spec, "trafficDistribution", content->distribution);
}

static void put_families(struct maker *maker, json_object *spec, const struct content *content)
{
	json_object *list = make_list(maker);

	for (size_t family = 0; family < MK_FAMILIES; family++)
		if (content->families[family])
			append_text(maker, list, family ? "IPv6" : "IPv4");
	put(maker, spec, "ipFamilies", list);
}

static void put_exported(struct maker *maker, json_object *spec, const char *key,
			 const struct pair *pairs, size_t count)
{
	json_object *object;

	if (count == 0)
		return;
	object = make_object(maker);
	put_pairs(maker, object, pairs, count);
	put(maker, spec, key, object);
}

void put_content(struct maker *maker, json_object *spec, const struct content *content)
{
	put_text(maker, spec, "namespace", content->namespace_);
	put_text(maker, spec, "name", content->name);
	put_text(maker, spec, "type", content->is_headless ? "Headless" : "ClusterSetIP");
	put_text(maker, spec, "exported", content->exported);
	put_ports(maker, spec, content->ports, content->port_count);
	put_policies(maker, spec, content, false);
	put_families(maker, spec, content);
	put_exported(maker, spec, "labels", content->labels, content->label_count);
	put_exported(maker, spec, "annotations", content->annotations, content->annotation_count);
}

// SPDX-License-Identifier: Apache-2.0
/* test/policy/flow.c - the flow after destination translation: rules 13 to 18, as reference.py has
 * them. */
#include "policy/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static struct mk_ip parse(const char *text)
{
	struct mk_ip ip;

	if (!text || mk_ip_parse(text, &ip) < 0)
		abort();
	return ip;
}

static struct mk_ip of_family(const struct box *box, int family)
{
	for (size_t i = 0; i < box->address_count; i++)
		if (box->addresses[i].family == (family == 4 ? AF_INET : AF_INET6))
			return box->addresses[i];
	abort();
}

static struct mk_ip address_of_node(const struct flow *flow, const char *node)
{
	struct mk_ip ip = { 0 };

	node_address(flow->cluster, node, flow->family, &ip);
	return ip;
}

/* Rule 21: a pod of the host's network is its node. */
static const char *node_of_pod(const struct flow *flow, const char *name)
{
	return text_at(cluster_object(flow->cluster, "Pod", name), "spec.nodeName");
}

static void find_source(struct flow *flow)
{
	json_object *source = at_path(flow->of, "source");
	const char *pod = text_at(source, "pod"), *node = text_at(source, "node");

	flow->client_box = pod ? box_named(flow->cluster, pod) : NULL;
	if (flow->client_box) {
		flow->how = FROM_POD;
		flow->at = flow->client_box->node == 0 ? "n1" : "n2";
	} else {
		flow->at = pod ? node_of_pod(flow, pod) : node;
		flow->how =
			pod || json_object_object_length(source) == 1 ? FROM_NODE : FROM_OUTSIDE;
	}
}

static uint8_t proto_named(const char *name)
{
	return strcmp(name, "TCP") == 0	   ? IPPROTO_TCP
	       : strcmp(name, "UDP") == 0  ? IPPROTO_UDP
	       : strcmp(name, "SCTP") == 0 ? IPPROTO_SCTP
					   : IPPROTO_ICMP;
}

static bool same_or(const char *a, const char *b, const char *otherwise)
{
	return strcmp(a ? a : otherwise, b ? b : otherwise) == 0;
}

static const char *service_port_name(struct flow *flow, json_object *service)
{
	json_object *ports = at_path(service, "spec.ports");

	for (size_t i = 0; i < json_object_array_length(ports); i++) {
		json_object *port = json_object_array_get_idx(ports, i);

		if (json_object_get_int(at_path(port, "port")) == flow->port &&
		    same_or(text_at(port, "protocol"), text_at(flow->of, "protocol"), "TCP"))
			return text_at(port, "name");
	}
	abort();
}

static bool slice_has(json_object *slice, const char *backend)
{
	json_object *endpoints = at_path(slice, "endpoints");

	for (size_t i = 0; i < json_object_array_length(endpoints); i++) {
		json_object *addresses =
			at_path(json_object_array_get_idx(endpoints, i), "addresses");

		for (size_t j = 0; j < json_object_array_length(addresses); j++)
			if (strcmp(json_object_get_string(json_object_array_get_idx(addresses, j)),
				   backend) == 0)
				return true;
	}
	return false;
}

static bool slice_is_of(json_object *slice, json_object *service)
{
	json_object *labels = at_path(slice, "metadata.labels"), *name;

	return strcmp(text_at(slice, "metadata.namespace"),
		      text_at(service, "metadata.namespace")) == 0 &&
	       json_object_object_get_ex(labels, "kubernetes.io/service-name", &name) &&
	       strcmp(json_object_get_string(name), text_at(service, "metadata.name")) == 0;
}

/* The address of the Service that the client asks. */
static void find_frontend(struct flow *flow, json_object *service)
{
	const char *kind = text_at(flow->target, "kind");
	json_object *port = json_object_array_get_idx(at_path(service, "spec.ports"), 0);
	json_object *addresses =
		at_path(service, kind && strcmp(kind, "external") == 0 ? "spec.externalIPs"
								       : "spec.clusterIPs");

	if (kind && strcmp(kind, "nodePort") == 0) {
		flow->asked = address_of_node(flow, flow->at);
		flow->asked_port = (uint16_t)json_object_get_int(at_path(port, "nodePort"));
		return;
	}
	flow->asked_port = (uint16_t)json_object_get_int(at_path(port, "port"));
	for (size_t i = 0; i < json_object_array_length(addresses); i++) {
		flow->asked =
			parse(json_object_get_string(json_object_array_get_idx(addresses, i)));
		if (flow->asked.family == (flow->family == 4 ? AF_INET : AF_INET6))
			return;
	}
	abort();
}

/* Rules 10 and 13. */
static void find_backend(struct flow *flow)
{
	json_object *service =
		cluster_object(flow->cluster, "Service", text_at(flow->target, "service"));
	const char *backend = text_at(flow->target, "backend"),
		   *name = service_port_name(flow, service);

	find_frontend(flow, service);
	flow->server = parse(backend);
	json_object_object_foreach(flow->cluster->objects, key, slice)
	{
		json_object *ports = at_path(slice, "ports");

		if (strncmp(key, "EndpointSlice ", 14) != 0 || !slice_is_of(slice, service) ||
		    !slice_has(slice, backend))
			continue;
		for (size_t i = 0; i < json_object_array_length(ports); i++) {
			json_object *port = json_object_array_get_idx(ports, i);

			if (same_or(text_at(port, "name"), name, "")) {
				flow->port = (uint16_t)json_object_get_int(at_path(port, "port"));
				return;
			}
		}
	}
	abort();
}

static bool has_host_port(struct flow *flow, const struct box *box, json_object *container)
{
	json_object *ports = at_path(container, "ports");
	int wanted = json_object_get_int(at_path(flow->target, "hostPort"));

	for (size_t i = 0; ports && i < json_object_array_length(ports); i++) {
		json_object *port = json_object_array_get_idx(ports, i);

		if (!at_path(port, "hostPort") ||
		    json_object_get_int(at_path(port, "hostPort")) != wanted ||
		    !same_or(text_at(port, "protocol"), text_at(flow->of, "protocol"), "TCP"))
			continue;
		flow->asked = address_of_node(flow, flow->at);
		flow->asked_port = (uint16_t)wanted;
		flow->server = of_family(box, flow->family);
		flow->port = (uint16_t)json_object_get_int(at_path(port, "containerPort"));
		return true;
	}
	return false;
}

static void find_host_port(struct flow *flow)
{
	for (size_t i = 0; i < flow->cluster->box_count; i++) {
		const struct box *box = &flow->cluster->boxes[i];
		json_object *containers = at_path(box->object, "spec.containers");

		if (box->node != node_index(flow->at) || !containers)
			continue;
		for (size_t j = 0; j < json_object_array_length(containers); j++)
			if (has_host_port(flow, box, json_object_array_get_idx(containers, j)))
				return;
	}
	abort();
}

static void find_destination(struct flow *flow)
{
	const char *pod = text_at(flow->target, "pod"), *node = text_at(flow->target, "node");
	const struct box *box = pod ? box_named(flow->cluster, pod) : NULL;

	if (flow->by_service)
		return text_at(flow->target, "service") ? find_backend(flow) : find_host_port(flow);
	if (box)
		flow->server = of_family(box, flow->family);
	else if (pod || node)
		flow->server = address_of_node(flow, pod ? node_of_pod(flow, pod) : node);
	else
		flow->server = parse(text_at(flow->target, "address"));
	flow->asked = flow->server;
	flow->asked_port = flow->port;
}

static bool is_address_of_node(const struct cluster *cluster, const struct mk_ip *ip)
{
	static const char *const nodes[] = { "n1", "n2" };
	int family = ip->family == AF_INET ? 4 : 6;
	struct mk_ip its;

	for (size_t i = 0; i < MK_ARRAY_SIZE(nodes); i++)
		if (node_address(cluster, nodes[i], family, &its) && mk_ip_equal(&its, ip))
			return true;
	return false;
}

/* Rule 14: does a client that is no pod and no node keep its address (clientAddress: Keep)? */
static bool keeps_address(const struct flow *flow)
{
	json_object *keeps = at_path(flow->cluster->facts, "keepsClient");

	return keeps && json_object_get_boolean(keeps) && flow->how == FROM_OUTSIDE &&
	       !is_overlay_address(flow->cluster, &flow->client) &&
	       !in_pod_ranges(flow->cluster, &flow->client) &&
	       !is_address_of_node(flow->cluster, &flow->client);
}

/* Rules 14 and 18: does a backend of another node see the client's Node? */
static bool masquerades(const struct flow *flow)
{
	const char *name = text_at(flow->target, "service"), *kind = text_at(flow->target, "kind");
	json_object *masquerade = at_path(flow->cluster->facts, "masqueradeAll");

	if (!name || keeps_address(flow))
		return false;
	if (same_or(kind, "clusterIP", "clusterIP"))
		return flow->how == FROM_OUTSIDE ||
		       (masquerade && json_object_get_boolean(masquerade));
	return same_or(text_at(cluster_object(flow->cluster, "Service", name),
			       "spec.externalTrafficPolicy"),
		       "Cluster", "Cluster");
}

static void resolve(struct flow *flow)
{
	const char *outside = text_at(flow->of, "source.outside");
	bool as_node;

	find_source(flow);
	find_destination(flow);
	flow->server_box = box_at(flow->cluster, &flow->server);
	if (flow->client_box)
		flow->client = of_family(flow->client_box, flow->family);
	else
		flow->client = outside ? parse(outside) : address_of_node(flow, flow->at);
	flow->masquerades = masquerades(flow);
	as_node = flow->how == FROM_NODE || (flow->masquerades && flow->server_box &&
					     flow->server_box->node != node_index(flow->at));
	flow->seen = flow->client;
	if (as_node)
		overlay_address(flow->cluster, flow->at, flow->family, &flow->seen);
	flow->trusted = as_node || flow->how == FROM_POD;
}

void flow_read(struct flow *flow, const struct cluster *cluster, json_object *of)
{
	*flow = (struct flow){
		.cluster = cluster, .of = of, .target = at_path(of, "destination"), .family = 4
	};
	if (at_path(of, "family"))
		flow->family = json_object_get_int(at_path(of, "family"));
	flow->proto = proto_named(text_at(of, "protocol"));
	flow->port = (uint16_t)json_object_get_int(at_path(of, "port"));
	flow->by_service = at_path(flow->target, "service") || at_path(flow->target, "hostPort");
	flow->is_ping_of_service = at_path(flow->target, "service") && flow->proto == IPPROTO_ICMP;
	if (!flow->is_ping_of_service)
		resolve(flow);
}

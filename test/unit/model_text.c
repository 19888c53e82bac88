// SPDX-License-Identifier: Apache-2.0
#include "unit/model_text.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mk_line_add(struct line *line, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	line->used += (size_t)vsnprintf(line->text + line->used, sizeof(line->text) - line->used,
					fmt, args);
	va_end(args);
	ck_assert_uint_lt(line->used, sizeof(line->text));
}

static void add_ips(struct line *line, const char *what, const struct mk_ip *ips, size_t count)
{
	char buf[MK_IP_STRLEN];

	for (size_t i = 0; i < count; i++) {
		if (ips[i].family == AF_UNSPEC)
			continue;
		mk_line_add(line, "%s%s", what, mk_ip_format(&ips[i], buf));
		what = ",";
	}
}

static void add_cidrs(struct line *line, const char *what, const struct mk_cidr *cidrs,
		      size_t count)
{
	char buf[MK_CIDR_STRLEN];

	for (size_t i = 0; i < count; i++) {
		if (cidrs[i].ip.family == AF_UNSPEC)
			continue;
		mk_line_add(line, "%s%s", what, mk_cidr_format(&cidrs[i], buf));
		what = ",";
	}
}

void summarize_node(struct line *line, const struct mk_node_object *node)
{
	mk_line_add(line, "%s", node->name);
	add_cidrs(line, " pods=", node->pod_cidrs, MK_FAMILIES);
	add_ips(line, " internal=", node->internal_ips, MK_FAMILIES);
	add_ips(line, " all=", node->addresses, node->address_count);
	if (node->wireguard.port)
		mk_line_add(line, " wireguard=%02x..%02x:%u", node->wireguard.key[0],
			    node->wireguard.key[MK_WG_KEY_BYTES - 1], node->wireguard.port);
	mk_line_add(line, "%s%s%s%s%s%s", node->zone ? " zone=" : "", node->zone ? node->zone : "",
		    node->ready ? " ready" : "", node->control_plane ? " control-plane" : "",
		    node->border ? " border" : "", node->leaving ? " leaving" : "");
}

static const char *proto_name(uint8_t proto)
{
	return proto == IPPROTO_TCP ? "tcp" : proto == IPPROTO_UDP ? "udp" : "sctp";
}

void summarize_service(struct line *line, const struct mk_service_object *service)
{
	static const char *const types[] = { "ClusterIP", "NodePort", "LoadBalancer" };

	mk_line_add(line, "%s/%s %s", service->namespace_, service->name, types[service->type]);
	add_ips(line, " ip=", service->cluster_ips, MK_FAMILIES);
	add_ips(line, " external=", service->external_ips, service->external_ip_count);
	add_ips(line, " lb=", service->load_balancer_ips, service->load_balancer_ip_count);
	add_cidrs(line, " ranges=", service->source_ranges, service->source_range_count);
	for (size_t i = 0; i < service->port_count; i++)
		mk_line_add(line, " %s:%u/%s", service->ports[i].name, service->ports[i].port,
			    proto_name(service->ports[i].proto));
	for (size_t i = 0; i < service->port_count; i++)
		if (service->ports[i].node_port)
			mk_line_add(line, " node-port=%u", service->ports[i].node_port);
	for (size_t i = 0; i < service->port_count; i++)
		if (service->ports[i].target_name)
			mk_line_add(line, " target=%s", service->ports[i].target_name);
		else if (service->ports[i].target_port != service->ports[i].port)
			mk_line_add(line, " target=%u", service->ports[i].target_port);
	for (size_t i = 0; i < service->selector.count; i++)
		mk_line_add(line, "%s%s=%s", i ? "," : " pods:", service->selector.of[i].key,
			    service->selector.of[i].value);
	if (service->client_ip_affinity)
		mk_line_add(line, " affinity=%us", service->affinity_timeout_s);
	for (size_t i = 0; i < service->preferred_count; i++)
		mk_line_add(line, "%s%s", i ? "," : " prefers=", service->preferred[i]);
	mk_line_add(line, "%s%s%s", service->external_local ? " ext-local" : "",
		    service->internal_local ? " int-local" : "",
		    service->excluded ? " excluded" : "");
	if (service->health_check_port)
		mk_line_add(line, " health=%u", service->health_check_port);
}

static void summarize_hints(struct line *line, const char *what, char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		mk_line_add(line, "%s%s", i ? "," : what, names[i]);
}

void summarize_endpoints(struct line *line, const struct mk_model *model, const char *namespace_,
			 const char *name)
{
	const struct mk_endpoint **endpoints;
	char buf[MK_IP_STRLEN];
	size_t count;

	ck_assert_int_eq(mk_model_endpoints(model, namespace_, name, AF_UNSPEC, &endpoints, &count),
			 0);
	for (size_t i = 0; i < count; i++) {
		const struct mk_endpoint *e = endpoints[i];

		mk_line_add(line, "%s%s:%u/%s %s", i ? "; " : "", mk_ip_format(&e->ip, buf),
			    e->port, proto_name(e->proto), e->port_name);
		mk_line_add(line, "%s%s%s%s%s", e->node_name ? "@" : "",
			    e->node_name ? e->node_name : "", e->ready ? " ready" : "",
			    e->serving ? " serving" : "", e->terminating ? " terminating" : "");
		summarize_hints(line, " zones=", e->hints->names, e->hints->zone_count);
		summarize_hints(line, " nodes=", e->hints->names + e->hints->zone_count,
				e->hints->node_count);
		if (e->hints->cluster)
			mk_line_add(line, " of=%s", e->hints->cluster);
	}
	free(endpoints);
}

int apply_text(struct mk_model *model, const char *text, struct mk_error *err)
{
	json_object *tree = json_tokener_parse(text);
	int ret;

	ck_assert_msg(tree, "test row is no JSON: %s", text);
	ret = mk_model_apply(model, tree, err);
	json_object_put(tree);
	return ret;
}

void apply_good_text(struct mk_model *model, const char *text)
{
	struct mk_error err = { 0 };

	ck_assert_msg(apply_text(model, text, &err) == 0, "%s: %s", text, err.text);
}

char heard[512];

void hear(const char *fmt, ...)
{
	size_t used = strlen(heard);
	va_list args;

	va_start(args, fmt);
	vsnprintf(heard + used, sizeof(heard) - used, fmt, args);
	va_end(args);
}

void hear_node(void *ctx, const char *name)
{
	(void)ctx;
	hear("%snode:%s", *heard ? " " : "", name);
}

void hear_service(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	hear("%s%s/%s", *heard ? " " : "", namespace_, name);
}

// SPDX-License-Identifier: Apache-2.0
/* Decodes and compares Services, ServiceCIDRs, ServiceImports and ServiceExports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cluster/model/object.h"
#include "cluster/model/peer.h"
#include "cluster/model/policy_object.h"

#define AFFINITY_DEFAULT_S 10800
#define AFFINITY_MAX_S	   86400

/* The API limits only the size of an object, but each port is compared with all before it. */
#define PORTS_MAX 10000

#define PREFERRED_MAX 64 /* clusters that an import prefers */

/* Decode the type. *@named: an ExternalName, which has no address, so no proxy serves it. */
static int decode_type(struct mk_service_object *service, const struct mk_json *spec, bool *named,
		       struct mk_error *err)
{
	struct mk_json at;
	const char *type;
	int ret = tree_member(spec, "type", json_type_string, &at, err);

	*named = false;
	if (ret < 0 || !at.value)
		return ret;
	type = mk_json_string(&at);
	if (strcmp(type, "NodePort") == 0)
		service->type = MK_SERVICE_NODE_PORT;
	else if (strcmp(type, "LoadBalancer") == 0)
		service->type = MK_SERVICE_LOAD_BALANCER;
	else if (strcmp(type, "ExternalName") == 0)
		*named = true;
	else if (*type && strcmp(type, "ClusterIP") != 0)
		return tree_wrong(&at, "ClusterIP, NodePort, LoadBalancer or ExternalName", err);
	return 0;
}

static int take_cluster_ip(struct mk_service_object *service, const struct mk_json *at,
			   struct mk_error *err)
{
	const char *text = mk_json_string(at);
	struct mk_ip ip, *known;
	int ret;

	if (!*text || strcmp(text, "None") == 0)
		return 0;
	ret = tree_ip(at, &ip, err);
	if (ret < 0)
		return ret;
	known = &service->cluster_ips[mk_family_index(ip.family)];
	if (known->family == AF_UNSPEC)
		*known = ip;
	return 0;
}

static int decode_cluster_ips(struct mk_service_object *service, const struct mk_json *spec,
			      struct mk_error *err)
{
	struct mk_json list, at;
	int ret = tree_member(spec, "clusterIPs", json_type_array, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_string, &at, err);
		ret = ret ?: take_cluster_ip(service, &at, err);
	}
	ret = ret ?: tree_member(spec, "clusterIP", json_type_string, &at, err);
	if (ret == 0 && at.value)
		ret = take_cluster_ip(service, &at, err);
	return ret;
}

static int decode_external_ips(struct mk_service_object *service, const struct mk_json *spec,
			       struct mk_error *err)
{
	struct mk_json list, at;
	struct mk_error why;
	struct mk_ip ip;
	int ret = tree_member(spec, "externalIPs", json_type_array, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_string, &at, err);
		if (ret == 0 && tree_routed_ip(&at, &ip, &why) < 0)
			ret = pass_over(&service->passed_over, &why, err);
		else if (ret == 0)
			ret = ips_add(&service->external_ips, &service->external_ip_count, &ip,
				      err);
	}
	mk_ips_sort(service->external_ips, &service->external_ip_count);
	return ret;
}

/* Decode an ingress entry. A hostname is for DNS. Mode Proxy means that packets arrive with the
 * node's address. The load balancer's controller may write any address, even a link-local one.
 *
 * `minikube tunnel` writes 127.0.0.1, which is another machine's: here the loopback stays the
 * host's. kube-proxy's nftables mode has a rule for it, but the host's packets to it are lost: no
 * route leads a loopback source elsewhere. */
static int decode_ingress(struct mk_service_object *service, const struct mk_json *item,
			  struct mk_error *err)
{
	struct mk_json at;
	const char *mode;
	struct mk_error why;
	struct mk_ip ip;
	int ret = tree_text(item, "ipMode", &mode, err);

	ret = ret ?: tree_member(item, "ip", json_type_string, &at, err);
	if (ret < 0 || !at.value || !*mk_json_string(&at))
		return ret;
	if (mode && strcmp(mode, "VIP") != 0)
		return 0;
	if (tree_ip(&at, &ip, &why) < 0)
		return pass_over(&service->passed_over, &why, err);
	return ips_add(&service->load_balancer_ips, &service->load_balancer_ip_count, &ip, err);
}

static int decode_load_balancer(struct mk_service_object *service, const struct mk_json *tree,
				struct mk_error *err)
{
	struct mk_json status, balancer, list, item;
	int ret = tree_member(tree, "status", json_type_object, &status, err);

	if (service->type != MK_SERVICE_LOAD_BALANCER)
		return ret;
	ret = ret ?: tree_member(&status, "loadBalancer", json_type_object, &balancer, err);
	ret = ret ?: tree_member(&balancer, "ingress", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: decode_ingress(service, &item, err);
	}
	mk_ips_sort(service->load_balancer_ips, &service->load_balancer_ip_count);
	return ret;
}

/* Read targetPort, of pods: a number or a name. Absent, or 0: the Service's own number. */
static int decode_target(struct mk_texts *texts, const struct mk_json *item,
			 struct mk_service_port *port, struct mk_error *err)
{
	struct mk_json at = { .parent = item, .key = "targetPort" };
	json_object *value = NULL;
	int64_t number = 0;
	int ret = 0;

	if (json_object_object_get_ex(item->value, at.key, &value) &&
	    json_object_is_type(value, json_type_string)) {
		port->target_name = text_share(texts, json_object_get_string(value));
		return port->target_name ? 0 : mk_error_errno(err, ENOMEM, "targetPort");
	}
	ret = tree_number(item, at.key, 0, UINT16_MAX, &number, err);
	port->target_port = number ? (uint16_t)number : port->port;
	return ret;
}

static int decode_port(struct mk_texts *texts, const struct mk_service_object *service,
		       const struct mk_json *item, struct mk_service_port *port,
		       struct mk_error *err)
{
	int64_t number = 0, node_port = 0;
	struct mk_json at;
	const char *name;
	int ret = tree_text(item, "name", &name, err) ?: tree_protocol(item, &port->proto, err);

	ret = ret ?: tree_number(item, "port", 1, UINT16_MAX, &number, err);
	ret = ret ?: tree_number(item, "nodePort", 0, UINT16_MAX, &node_port, err);
	ret = ret ?: tree_member(item, "port", json_type_int, &at, err);
	if (ret < 0)
		return ret;
	if (!at.value)
		return tree_wrong(&at, "a number from 1 to 65535", err);
	port->port = (uint16_t)number;
	port->node_port = service->type == MK_SERVICE_CLUSTER_IP ? 0 : (uint16_t)node_port;
	port->name = strdup(name ? name : "");
	return port->name ? decode_target(texts, item, port, err)
			  : mk_error_errno(err, ENOMEM, "port name");
}

/* A name identifies a port, and so does (port, protocol): neither may occur twice. */
static int check_port(const struct mk_service_object *service, const struct mk_json *item,
		      struct mk_error *err)
{
	const struct mk_service_port *last = &service->ports[service->port_count - 1];

	for (const struct mk_service_port *p = service->ports; p < last; p++) {
		if (p->port == last->port && p->proto == last->proto)
			return tree_wrong(item, "a port and protocol not listed before", err);
		if (strcmp(p->name, last->name) == 0)
			return tree_wrong(item, "a name that no other port has", err);
	}
	return 0;
}

static int decode_ports(struct mk_texts *texts, struct mk_service_object *service,
			const struct mk_json *spec, struct mk_error *err)
{
	struct mk_json list, item;
	int ret = tree_member(spec, "ports", json_type_array, &list, err);

	if (ret < 0 || tree_length(&list) == 0)
		return ret;
	if (tree_length(&list) > PORTS_MAX)
		return tree_wrong(&list, "at most 10000 ports", err);
	service->ports = calloc(tree_length(&list), sizeof(*service->ports));
	if (!service->ports)
		return mk_error_errno(err, ENOMEM, "%zu ports", tree_length(&list));
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		if (ret == 0)
			ret = decode_port(texts, service, &item,
					  &service->ports[service->port_count++], err);
		ret = ret ?: check_port(service, &item, err);
	}
	return ret;
}

static int decode_policy(const struct mk_json *spec, const char *key, bool *local,
			 struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(spec, key, json_type_string, &at, err);
	const char *text = ret == 0 && at.value ? mk_json_string(&at) : "";

	*local = strcmp(text, "Local") == 0;
	if (ret == 0 && *text && !*local && strcmp(text, "Cluster") != 0)
		return tree_wrong(&at, "Cluster or Local", err);
	return ret;
}

static int decode_affinity(struct mk_service_object *service, const struct mk_json *spec,
			   struct mk_error *err)
{
	struct mk_json at, config, client_ip;
	int64_t timeout_s = AFFINITY_DEFAULT_S;
	const char *text;
	int ret = tree_member(spec, "sessionAffinity", json_type_string, &at, err);

	if (ret < 0)
		return ret;
	text = at.value ? mk_json_string(&at) : "None";
	if (!*text || strcmp(text, "None") == 0)
		return 0;
	if (strcmp(text, "ClientIP") != 0)
		return tree_wrong(&at, "None or ClientIP", err);
	ret = tree_member(spec, "sessionAffinityConfig", json_type_object, &config, err);
	ret = ret ?: tree_member(&config, "clientIP", json_type_object, &client_ip, err);
	ret = ret ?: tree_number(&client_ip, "timeoutSeconds", 1, AFFINITY_MAX_S, &timeout_s, err);
	service->client_ip_affinity = true;
	service->affinity_timeout_s = (uint32_t)timeout_s;
	return ret;
}

/* A load balancer that sends only to nodes with endpoints asks this port which nodes have some. */
static int decode_health_check(struct mk_service_object *service, const struct mk_json *spec,
			       struct mk_error *err)
{
	int64_t port = 0;
	int ret = tree_number(spec, "healthCheckNodePort", 0, UINT16_MAX, &port, err);

	if (service->type == MK_SERVICE_LOAD_BALANCER && service->external_local)
		service->health_check_port = (uint16_t)port;
	return ret;
}

/* Trim blanks around a range, as kube-proxy does: the API server accepts them. */
static int decode_range(const struct mk_json *at, struct mk_cidr *range, struct mk_error *err)
{
	static const char blanks[] = " \t\n\v\f\r";
	const char *text = mk_json_string(at), *end = text + strlen(text);
	cleanup_free char *trimmed = NULL;

	text += strspn(text, blanks);
	while (end > text && strchr(blanks, end[-1]))
		end--;
	trimmed = strndup(text, (size_t)(end - text));
	if (!trimmed)
		return mk_error_errno(err, ENOMEM, "source range");
	if (mk_cidr_parse_lenient(trimmed, range) == 0)
		return 0;
	return tree_wrong(at, "a range such as 192.0.2.0/24", err);
}

static int decode_source_ranges(struct mk_service_object *service, const struct mk_json *spec,
				struct mk_error *err)
{
	struct mk_json list, at;
	struct mk_cidr range;
	int ret = tree_member(spec, "loadBalancerSourceRanges", json_type_array, &list, err);

	if (ret < 0 || tree_length(&list) == 0)
		return ret;
	service->source_ranges = calloc(tree_length(&list), sizeof(*service->source_ranges));
	if (!service->source_ranges)
		return mk_error_errno(err, ENOMEM, "%zu ranges", tree_length(&list));
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_string, &at, err);
		ret = ret ?: decode_range(&at, &range, err);
		if (ret == 0)
			service->source_ranges[service->source_range_count++] =
				mk_cidr_network(&range);
	}
	mk_cidrs_sort(service->source_ranges, &service->source_range_count);
	return ret;
}

static int decode_selector(struct mk_texts *texts, struct mk_service_object *service,
			   const struct mk_json *spec, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(spec, "selector", json_type_object, &at, err);

	return ret ?: labels_of(texts, &at, NULL, &service->selector, err);
}

/* Decode the members that Services and ServiceImports share. */
static int decode_shared(struct mk_texts *texts, struct mk_service_object *service,
			 const struct mk_json *spec, struct mk_error *err)
{
	int ret = decode_ports(texts, service, spec, err);

	ret = ret ?: decode_policy(spec, "internalTrafficPolicy", &service->internal_local, err);
	return ret < 0 ? ret : decode_affinity(service, spec, err);
}

static int decode_spec(struct mk_texts *texts, struct mk_service_object *service,
		       const struct mk_json *tree, struct mk_error *err)
{
	struct mk_json spec;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	ret = ret ?: decode_type(service, &spec, &service->external_name, err);
	if (ret < 0 || service->external_name) /* ignore the clusterIP that it may have */
		return ret;
	ret = decode_cluster_ips(service, &spec, err);
	ret = ret ?: decode_external_ips(service, &spec, err);
	ret = ret ?: decode_load_balancer(service, tree, err);
	ret = ret ?: decode_source_ranges(service, &spec, err);
	ret = ret ?: decode_selector(texts, service, &spec, err);
	ret = ret ?: decode_policy(&spec, "externalTrafficPolicy", &service->external_local, err);
	ret = ret ?: decode_health_check(service, &spec, err);
	return ret ?: decode_shared(texts, service, &spec, err);
}

static int set_names(struct mk_service_object *service, const struct mk_object_id *id,
		     const char *suffix, struct mk_error *err)
{
	service->namespace_ = strdup(id->namespace_);
	if (asprintf(&service->name, "%s%s", id->name, suffix) < 0)
		service->name = NULL;
	return service->namespace_ && service->name ? 0 : mk_error_errno(err, ENOMEM, "name");
}

static bool is_import_name(const char *name)
{
	size_t length = strlen(name), suffix = strlen(MK_CLUSTERSET_SUFFIX);

	return length >= suffix && strcmp(name + length - suffix, MK_CLUSTERSET_SUFFIX) == 0;
}

int service_decode(struct mk_texts *texts, const struct mk_json *tree,
		   const struct mk_object_id *id, struct mk_service_object *service,
		   struct mk_error *err)
{
	int ret = left_out_by_label(tree, &service->excluded, err);

	if (ret == 0 && is_import_name(id->name))
		return mk_error_set(err, EINVAL,
				    "metadata.name: '%.64s', expected a name without '.', as "
				    "'" MK_CLUSTERSET_SUFFIX "' is for ServiceImports",
				    id->name);
	ret = ret ?: decode_spec(texts, service, tree, err);
	return ret ?: set_names(service, id, "", err);
}

/* ---- imports --------------------------------------------------------------------------------- */

/* Other addresses could take packets from Services and hosts of this cluster. */
static int take_import_ip(struct mk_service_object *service, const struct mk_json *at,
			  const struct mk_clusterset *clusterset, struct mk_error *err)
{
	char expected[64 + MK_CIDR_STRLEN] = "another family: clustersetCidr has none of it";
	char text[MK_CIDR_STRLEN];
	const struct mk_cidr *range;
	struct mk_error why;
	struct mk_ip ip;
	int ret = tree_ip(at, &ip, err);

	if (ret < 0)
		return ret;
	range = &clusterset->ranges[mk_family_index(ip.family)];
	if (range->ip.family != AF_UNSPEC && mk_cidr_contains(range, &ip))
		return take_cluster_ip(service, at, err);
	if (range->ip.family != AF_UNSPEC)
		snprintf(expected, sizeof(expected), "an address of clustersetCidr %s",
			 mk_cidr_format(range, text));
	tree_wrong(at, expected, &why);
	return pass_over(&service->passed_over, &why, err);
}

static int decode_import_ips(struct mk_service_object *service, const struct mk_json *spec,
			     const struct mk_clusterset *clusterset, struct mk_error *err)
{
	static const char *const types[] = { "ClusterSetIP", "Headless" };
	struct mk_json list, at;
	size_t type = 0;
	int ret = tree_word(spec, "type", types, 2, "ClusterSetIP or Headless", &type, err);

	ret = ret ?: tree_list(spec, "ips", MK_FAMILIES, &list, err);
	if (type == 1) /* its pods are used by their addresses */
		return ret;
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_string, &at, err);
		ret = ret ?: take_import_ip(service, &at, clusterset, err);
	}
	return ret;
}

/* Returns why @name cannot be the next cluster of the list; NULL: it can. */
static const char *lack_of_preferred(const struct mk_service_object *service, const char *name)
{
	if (!mk_is_dns_label(name))
		return "expected local or the name of a cluster: " MK_DNS_LABEL;
	if (service->preferred_count == PREFERRED_MAX)
		return "expected at most 64 clusters";
	for (size_t i = 0; i < service->preferred_count; i++)
		if (strcmp(service->preferred[i], name) == 0)
			return "expected each cluster once; this cluster is local";
	return NULL;
}

static int take_preferred(struct mk_texts *texts, struct mk_service_object *service,
			  const char *key, const char *name, struct mk_error *err)
{
	const char *lack = lack_of_preferred(service, name);
	struct mk_error why;

	if (lack) {
		mk_error_set(&why, EINVAL, "annotation %s: '%.64s' is left out, %s", key, name,
			     lack);
		return pass_over(&service->passed_over, &why, err);
	}
	service->preferred[service->preferred_count] = text_share(texts, name);
	if (!service->preferred[service->preferred_count])
		return mk_error_errno(err, ENOMEM, "name of a cluster");
	service->preferred_count++;
	return 0;
}

/* Decode a list such as "local, east". A wrong name is left out, and the others count. */
static int decode_preferred(struct mk_texts *texts, struct mk_service_object *service,
			    const char *key, const char *text, const char *own_cluster,
			    struct mk_error *err)
{
	static const char blanks[] = " \t\r\n";
	cleanup_free char *copy = strdup(text);
	char *rest = copy, *name;
	int ret = 0;

	service->preferred = calloc(PREFERRED_MAX, sizeof(*service->preferred));
	if (!copy || !service->preferred)
		return mk_error_errno(err, ENOMEM, "annotation %s", key);
	if (!copy[strspn(copy, blanks)]) /* no preference */
		return 0;
	while (ret == 0 && (name = strsep(&rest, ","))) {
		name += strspn(name, blanks);
		for (size_t end = strlen(name); end && strchr(blanks, name[end - 1]); end--)
			name[end - 1] = '\0';
		ret = take_preferred(texts, service, key,
				     strcmp(name, "local") == 0 ? own_cluster : name, err);
	}
	return ret;
}

/* The user's annotation counts before the exported one. */
static int decode_prefers(struct mk_texts *texts, const struct mk_json *tree,
			  const char *own_cluster, struct mk_service_object *service,
			  struct mk_error *err)
{
	static const char *const keys[] = { MK_PREFER_ANNOTATION, MK_EXPORTED_PREFER_ANNOTATION };
	struct mk_json metadata, annotations;
	int ret = tree_member(tree, "metadata", json_type_object, &metadata, err);

	ret = ret ?: tree_member(&metadata, "annotations", json_type_object, &annotations, err);
	for (size_t i = 0; ret == 0 && i < 2; i++) {
		const char *text;

		ret = tree_text(&annotations, keys[i], &text, err);
		if (ret == 0 && text)
			return decode_preferred(texts, service, keys[i], text, own_cluster, err);
	}
	return ret;
}

int service_import_decode(struct mk_texts *texts, const struct mk_json *tree,
			  const struct mk_object_id *id, const struct mk_clusterset *clusterset,
			  struct mk_service_object *service, struct mk_error *err)
{
	struct mk_json spec;
	int ret = left_out_by_label(tree, &service->excluded, err);

	service->imported = true;
	if (ret == 0 && !mk_is_dns_label(id->name))
		return mk_error_set(err, EINVAL, "metadata.name: '%.64s', expected " MK_DNS_LABEL,
				    id->name);
	ret = ret ?: tree_member(tree, "spec", json_type_object, &spec, err);
	ret = ret ?: decode_import_ips(service, &spec, clusterset, err);
	ret = ret ?: decode_prefers(texts, tree, clusterset->cluster_name, service, err);
	ret = ret ?: decode_shared(texts, service, &spec, err);
	return ret ?: set_names(service, id, MK_CLUSTERSET_SUFFIX, err);
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool ports_equal(const struct mk_service_object *a, const struct mk_service_object *b)
{
	if (a->port_count != b->port_count)
		return false;
	for (size_t i = 0; i < a->port_count; i++)
		if (a->ports[i].port != b->ports[i].port ||
		    a->ports[i].proto != b->ports[i].proto ||
		    a->ports[i].node_port != b->ports[i].node_port ||
		    a->ports[i].target_port != b->ports[i].target_port ||
		    a->ports[i].target_name != b->ports[i].target_name ||
		    strcmp(a->ports[i].name, b->ports[i].name) != 0)
			return false;
	return true;
}

static bool preferred_equal(const struct mk_service_object *a, const struct mk_service_object *b)
{
	if (a->preferred_count != b->preferred_count)
		return false;
	for (size_t i = 0; i < a->preferred_count; i++)
		if (strcmp(a->preferred[i], b->preferred[i]) != 0)
			return false;
	return true;
}

bool service_equal(const struct mk_service_object *a, const struct mk_service_object *b)
{
	return a->type == b->type &&
	       mk_ips_equal(a->cluster_ips, MK_FAMILIES, b->cluster_ips, MK_FAMILIES) &&
	       mk_ips_equal(a->external_ips, a->external_ip_count, b->external_ips,
			    b->external_ip_count) &&
	       mk_ips_equal(a->load_balancer_ips, a->load_balancer_ip_count, b->load_balancer_ips,
			    b->load_balancer_ip_count) &&
	       mk_cidrs_equal(a->source_ranges, a->source_range_count, b->source_ranges,
			      b->source_range_count) &&
	       ports_equal(a, b) && labels_equal(&a->selector, &b->selector) &&
	       preferred_equal(a, b) && a->external_local == b->external_local &&
	       a->internal_local == b->internal_local &&
	       a->client_ip_affinity == b->client_ip_affinity &&
	       a->affinity_timeout_s == b->affinity_timeout_s && a->excluded == b->excluded &&
	       a->external_name == b->external_name && a->health_check_port == b->health_check_port;
}

void service_release(struct mk_texts *texts, struct mk_service_object *service)
{
	for (size_t i = 0; i < service->port_count; i++) {
		free(service->ports[i].name);
		text_release(texts, service->ports[i].target_name);
	}
	labels_release(texts, &service->selector);
	for (size_t i = 0; i < service->preferred_count; i++)
		text_release(texts, service->preferred[i]);
	free(service->preferred);
	free(service->ports);
	free(service->external_ips);
	free(service->load_balancer_ips);
	free(service->source_ranges);
	free(service->passed_over);
	free(service->namespace_);
	free(service->name);
	*service = (struct mk_service_object){ 0 };
}

/* ---- ranges of Service addresses ------------------------------------------------------------- */

/* The API server allows at most one range per family. */
int service_cidr_decode(const struct mk_json *tree, struct mk_cidr cidrs[MK_FAMILIES],
			struct mk_error *err)
{
	struct mk_json spec, list, at;
	int ret = tree_member(tree, "spec", json_type_object, &spec, err);

	cidrs[0] = cidrs[1] = (struct mk_cidr){ .ip.family = AF_UNSPEC };
	ret = ret ?: tree_member(&spec, "cidrs", json_type_array, &list, err);
	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		struct mk_cidr one, *known;

		ret = tree_item(&list, i, json_type_string, &at, err);
		if (ret == 0 && mk_cidr_parse_lenient(mk_json_string(&at), &one) < 0)
			ret = tree_wrong(&at, "a range such as 10.96.0.0/16", err);
		if (ret < 0)
			return ret;
		known = &cidrs[mk_family_index(one.ip.family)];
		if (known->ip.family == AF_UNSPEC)
			*known = mk_cidr_network(&one);
	}
	return ret;
}

/* ---- exports --------------------------------------------------------------------------------- */

int service_export_decode(struct mk_texts *texts, const struct mk_json *tree,
			  const struct mk_object_id *id, union policy_object *object,
			  struct mk_error *err)
{
	(void)texts;
	(void)id;
	return tree_created(tree, &object->service_export.created_unix_s, err);
}

bool service_export_equal(const union policy_object *a, const union policy_object *b)
{
	return a->service_export.created_unix_s == b->service_export.created_unix_s;
}

void service_export_release(struct mk_texts *texts, union policy_object *object)
{
	(void)texts;
	(void)object;
}

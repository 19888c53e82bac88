// SPDX-License-Identifier: Apache-2.0
/* CNI CHECK. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/function.h"
#include "pod/endpoint/port_mappings.h"
#include "pod/ipam/ipam.h"

/* All findings, not only the first: an operator who repairs by hand needs the list. */
struct findings {
	char text[sizeof(((struct mk_error *)0)->text)];
	size_t used;
};

static void find(struct findings *findings, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void find(struct findings *findings, const char *fmt, ...)
{
	size_t room;
	va_list args;
	int length;

	if (findings->used)
		findings->used += (size_t)snprintf(findings->text + findings->used,
						   sizeof(findings->text) - findings->used, "; ");
	if (findings->used >= sizeof(findings->text))
		findings->used = sizeof(findings->text) - 1;
	room = sizeof(findings->text) - findings->used;
	va_start(args, fmt);
	length = vsnprintf(findings->text + findings->used, room, fmt, args);
	va_end(args);
	findings->used += (size_t)length < room ? (size_t)length : room - 1;
}

/* One CHECK: the desired state, and the handles to read the actual state. */
struct checking {
	const struct mk_cni_args *args;
	const struct mk_cni_conf *conf;
	struct mk_cni_port_mappings mappings;
	struct mk_cni_bandwidth bandwidth;
	struct mk_cni_function function;
	struct mk_cni_node node;
	struct mk_nl *pod_nl;
	int netns_fd;
	char host_name[IFNAMSIZ];
	struct mk_ip ips[MK_FAMILIES]; /* AF_UNSPEC: none */
	struct mk_mac mac;
	uint32_t pod_mtu_bytes; /* from prevResult, else 0 */
	int pod_ifindex, host_ifindex; /* 0: missing */
	bool is_further; /* its routes are in a separate table */
	/* of the address that is checked */
	const struct mk_ip *ip;
	const struct mk_cni_network *network;
	bool addr_found, neigh_found;
	struct mk_nl_route routes[MK_POD_ROUTES]; /* the desired ones */
	bool route_found[MK_POD_ROUTES];
	struct findings findings;
};

static void checking_release(struct checking *checking)
{
	mk_nl_free(checking->pod_nl);
	mk_cni_node_release(&checking->node);
	mk_cni_port_mappings_release(&checking->mappings);
	mk_cleanup_close(&checking->netns_fd);
}
#define cleanup_checking __attribute__((cleanup(checking_release)))

/* ---- prevResult ------------------------------------------------------------------------------ */

static json_object *list_of(json_object *object, const char *key)
{
	json_object *list;

	if (!mk_cni_member(object, key, &list) || !json_object_is_type(list, json_type_array))
		return NULL;
	return list;
}

static bool lists_address(json_object *ips, const struct mk_ip *ip)
{
	struct mk_cidr cidr;

	for (size_t i = 0; ips && i < json_object_array_length(ips); i++) {
		const char *text = mk_cni_string(json_object_array_get_idx(ips, i), "address");

		if (text && mk_cidr_parse(text, &cidr) == 0 && mk_ip_equal(&cidr.ip, ip))
			return true;
	}
	return false;
}

static json_object *interface_in(json_object *prev_result, const char *name)
{
	json_object *list = list_of(prev_result, "interfaces");

	for (size_t i = 0; list && i < json_object_array_length(list); i++) {
		json_object *item = json_object_array_get_idx(list, i);
		const char *have = mk_cni_string(item, "name");

		if (have && strcmp(have, name) == 0)
			return item;
	}
	return NULL;
}

/* The result of a further interface has no default route (reply.c). */
static bool lists_default_route(json_object *routes)
{
	struct mk_cidr dst;

	for (size_t i = 0; routes && i < json_object_array_length(routes); i++) {
		const char *text = mk_cni_string(json_object_array_get_idx(routes, i), "dst");

		if (text && mk_cidr_parse(text, &dst) == 0 && dst.prefix_bits == 0)
			return true;
	}
	return false;
}

/* Later plugins of the list may have changed prevResult. So compare only what it says about this
 * interface, and ignore the rest. */
static void check_prev_result(struct checking *checking, json_object *prev_result)
{
	json_object *item = interface_in(prev_result, checking->args->ifname), *mtu;
	char text[MK_IP_STRLEN];

	checking->is_further = !lists_default_route(list_of(prev_result, "routes"));
	for (size_t i = 0; i < MK_FAMILIES && checking->ips[i].family != AF_UNSPEC; i++)
		if (!lists_address(list_of(prev_result, "ips"), &checking->ips[i]))
			find(&checking->findings, "prevResult does not list address %s",
			     mk_ip_format(&checking->ips[i], text));
	if (!item)
		find(&checking->findings, "prevResult does not list interface '%s'",
		     checking->args->ifname);
	else if (mk_cni_member(item, "mtu", &mtu))
		checking->pod_mtu_bytes = (uint32_t)json_object_get_int(mtu);
	if (!interface_in(prev_result, checking->host_name))
		find(&checking->findings, "prevResult does not list interface '%s'",
		     checking->host_name);
}

/* ---- the host's end -------------------------------------------------------------------------- */

/* A chained plugin may have lowered the MTU. Results before 1.1.0 do not contain it. */
static void check_mtu(struct checking *checking, const struct mk_link *link)
{
	if (checking->pod_mtu_bytes && strcmp(link->name, checking->args->ifname) == 0 &&
	    link->mtu_bytes != checking->pod_mtu_bytes)
		find(&checking->findings, "interface '%s' has MTU %u, prevResult says %u",
		     link->name, link->mtu_bytes, checking->pod_mtu_bytes);
}

static int check_link(struct checking *checking, struct mk_nl *nl, const char *name,
		      const struct mk_mac *mac, struct mk_link *link, struct mk_error *err)
{
	char have[MK_MAC_STRLEN], wanted[MK_MAC_STRLEN];
	int ret = mk_nl_link_get(nl, name, link, err);

	if (ret == -ENODEV) {
		find(&checking->findings, "interface '%s' is missing", name);
		return 0;
	}
	if (ret < 0)
		return ret;
	if (!(link->flags & IFF_UP))
		find(&checking->findings, "interface '%s' is down", name);
	if (memcmp(&link->mac, mac, sizeof(*mac)) != 0)
		find(&checking->findings, "interface '%s' has MAC address %s, expected %s", name,
		     mk_mac_format(&link->mac, have), mk_mac_format(mac, wanted));
	check_mtu(checking, link);
	return 0;
}

static int check_entry(struct checking *checking, struct mk_error *err)
{
	struct mk_pods *pods = checking->node.pods;
	char text[MK_IP_STRLEN];
	struct mk_pod pod;
	int ret = mk_pods_get(pods, checking->ip, &pod, err);

	mk_ip_format(checking->ip, text);
	if (ret == -ENOENT)
		find(&checking->findings, "map 'pods' has no entry for %s", text);
	else if (ret < 0)
		return ret;
	else if ((int)pod.ifindex != checking->host_ifindex)
		find(&checking->findings, "map 'pods' leads %s to interface number %u, expected %d",
		     text, pod.ifindex, checking->host_ifindex);
	else if (memcmp(pod.mac, &checking->mac, sizeof(pod.mac)) != 0)
		find(&checking->findings, "map 'pods' has another MAC address for %s", text);
	else if (checking->bandwidth.ingress.rate_bytes && !pod.shaped)
		find(&checking->findings, "map 'pods' bypasses the ingress limit of %s", text);
	return 0;
}

/* What is applied to the pod is the agent's matter, and may be pending. */
static int check_policies(struct checking *checking, struct mk_error *err)
{
	uint64_t sets[MK_POLICY_DIRECTIONS];
	struct mk_error why = { 0 };
	int ret;

	if (!checking->host_ifindex)
		return 0;
	ret = mk_pods_get_policies(checking->node.pods, checking->ip, checking->host_ifindex, sets,
				   &why);
	if (ret == -ENOENT)
		find(&checking->findings, "%s", mk_error_text(&why));
	else if (ret < 0)
		*err = why;
	return ret == -ENOENT ? 0 : ret;
}

static int check_program(struct checking *checking, struct mk_error *err)
{
	int ret = 1;

	if (checking->host_ifindex)
		ret = mk_pods_attached(checking->node.pods, checking->node.nl,
				       checking->host_ifindex, err);
	if (ret == 0)
		find(&checking->findings, "program 'ilb_pod' is not attached to interface '%s'",
		     checking->host_name);
	return ret < 0 ? ret : 0;
}

static int check_host(struct checking *checking, struct mk_error *err)
{
	struct mk_link link;
	int ret = check_link(checking, checking->node.nl, checking->host_name,
			     &checking->conf->networks[0].addresses.gateway_mac, &link, err);

	if (ret < 0)
		return ret;
	checking->host_ifindex = link.ifindex;
	return check_program(checking, err);
}

/* ---- bandwidth ------------------------------------------------------------------------------- */

static int check_limit(struct checking *checking, struct mk_nl *nl, int ifindex, const char *name,
		       const struct mk_nl_tbf *wanted, struct mk_error *err)
{
	struct mk_nl_tbf have;
	int ret;

	if (!wanted->rate_bytes || !ifindex)
		return 0;
	ret = mk_nl_tbf_get(nl, ifindex, &have, err);
	if (ret < 0 && ret != -ENOENT)
		return ret;
	if (ret == -ENOENT)
		find(&checking->findings, "interface '%s' has no qdisc '" MK_NL_TBF "'", name);
	else if (have.rate_bytes != wanted->rate_bytes || have.limit_bytes != wanted->limit_bytes)
		find(&checking->findings,
		     "qdisc '" MK_NL_TBF
		     "' of interface '%s' has rate %llu bytes/s and limit %u bytes, expected %llu and %u",
		     name, (unsigned long long)have.rate_bytes, have.limit_bytes,
		     (unsigned long long)wanted->rate_bytes, wanted->limit_bytes);
	return 0;
}

static int check_bandwidth(struct checking *checking, struct mk_error *err)
{
	int ret = check_limit(checking, checking->node.nl, checking->host_ifindex,
			      checking->host_name, &checking->bandwidth.ingress, err);

	if (ret < 0)
		return ret;
	return check_limit(checking, checking->pod_nl, checking->pod_ifindex,
			   checking->args->ifname, &checking->bandwidth.egress, err);
}

/* ---- host ports ------------------------------------------------------------------------------ */

static int check_host_port(struct checking *checking, struct mk_host_ports *ports,
			   const struct mk_host_port_entry *wanted, struct mk_error *err)
{
	const sa_family_t first = checking->ips[0].family;
	const struct mk_addr addr = mk_ip_to_addr(&checking->ips[wanted->family != first]);
	char text[MK_HOST_PORT_STRLEN], ip[MK_IP_STRLEN];
	struct mk_host_port to;
	struct mk_ip to_ip;
	int ret = mk_host_ports_get(ports, wanted->family, &wanted->key, &to, err);

	mk_host_port_format(wanted, text);
	if (ret < 0 && ret != -ENOENT)
		return ret;
	to_ip = mk_ip_from_addr(&to.addr);
	if (ret == -ENOENT || to.leaving)
		find(&checking->findings, "map 'host_ports' has no entry for %s", text);
	else if (!mk_addr_eq(&to.addr, &addr) || to.port != wanted->to.port)
		find(&checking->findings, "map 'host_ports' leads %s to %s, port %u", text,
		     mk_ip_format(&to_ip, ip), ntohs(to.port));
	else if ((int)to.ifindex != checking->host_ifindex)
		find(&checking->findings,
		     "map 'host_ports' has %s for interface number %u, expected %d", text,
		     to.ifindex, checking->host_ifindex);
	return 0;
}

/* A pod may have one address on a node of two families: it was made before. */
static bool has_family(const struct checking *checking, sa_family_t family)
{
	return checking->ips[0].family == family || checking->ips[1].family == family;
}

static int check_host_ports(struct checking *checking, struct mk_error *err)
{
	struct mk_host_ports *ports;
	int ret = mk_cni_port_mappings_leave_own(&checking->node, checking->args,
						 &checking->mappings, err);

	if (ret == 0 && checking->mappings.count)
		ret = mk_cni_host_ports(&checking->node, &ports, err);
	if (ret == 0 && checking->mappings.count)
		find(&checking->findings, "map 'host_ports' is not pinned");
	for (size_t i = 0; ret > 0 && i < checking->mappings.count; i++)
		if (has_family(checking, checking->mappings.list[i].family) &&
		    check_host_port(checking, ports, &checking->mappings.list[i], err) < 0)
			return -err->code;
	return ret < 0 ? ret : 0;
}

/* ---- the pod's end --------------------------------------------------------------------------- */

static int see_addr(void *ctx, const struct mk_nl_addr *addr)
{
	struct checking *checking = ctx;

	if (addr->ifindex == checking->pod_ifindex && mk_ip_equal(&addr->cidr.ip, checking->ip))
		checking->addr_found = true;
	return 0;
}

static int see_neigh(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac, bool permanent)
{
	struct checking *checking = ctx;
	const struct mk_addresses *addresses = &checking->network->addresses;

	if (permanent && mk_ip_equal(ip, &addresses->gateway) &&
	    memcmp(mac, &addresses->gateway_mac, sizeof(*mac)) == 0)
		checking->neigh_found = true;
	return 0;
}

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct checking *checking = ctx;

	for (size_t i = 0; i < MK_POD_ROUTES; i++) {
		const struct mk_nl_route *wanted = &checking->routes[i];

		if (route->ifindex == wanted->ifindex && mk_cidr_equal(&route->dst, &wanted->dst) &&
		    mk_ip_equal(&route->gateway, &wanted->gateway))
			checking->route_found[i] = true;
	}
	return 0;
}

static void judge_routes(struct checking *checking)
{
	const char *ifname = checking->args->ifname;
	char dst[MK_CIDR_STRLEN], gateway[MK_IP_STRLEN];

	for (size_t i = 0; i < MK_POD_ROUTES; i++) {
		const struct mk_nl_route *wanted = &checking->routes[i];

		if (checking->route_found[i])
			continue;
		mk_cidr_format(&wanted->dst, dst);
		if (wanted->gateway.family == AF_UNSPEC)
			find(&checking->findings, "route to %s is missing on interface '%s'", dst,
			     ifname);
		else
			find(&checking->findings, "route to %s via %s is missing on interface '%s'",
			     dst, mk_ip_format(&wanted->gateway, gateway), ifname);
	}
}

static void judge_pod(struct checking *checking)
{
	struct findings *findings = &checking->findings;
	const char *ifname = checking->args->ifname;
	char ip[MK_IP_STRLEN], gateway[MK_IP_STRLEN];

	mk_ip_format(checking->ip, ip);
	mk_ip_format(&checking->network->addresses.gateway, gateway);
	if (!checking->addr_found)
		find(findings, "address %s is missing on interface '%s'", ip, ifname);
	if (!checking->neigh_found)
		find(findings, "permanent neighbour %s is missing or wrong on interface '%s'",
		     gateway, ifname);
	judge_routes(checking);
}

static int check_rule(struct checking *checking, struct mk_error *err)
{
	uint32_t table, wanted = mk_cni_pod_table(checking->pod_ifindex);
	int ret = mk_nl_rule_get(checking->pod_nl, checking->ip, &table, err);
	char text[MK_IP_STRLEN];

	if (ret < 0 && ret != -ENOENT)
		return ret;
	if (ret == -ENOENT || table != wanted)
		find(&checking->findings, "routing rule from %s to table %u is missing",
		     mk_ip_format(checking->ip, text), wanted);
	return 0;
}

static int check_pod(struct checking *checking, struct mk_error *err)
{
	struct mk_nl *nl = checking->pod_nl;
	sa_family_t family = checking->ip->family;
	int ret;

	mk_cni_pod_routes(checking->conf, checking->network, checking->pod_ifindex,
			  checking->is_further ? mk_cni_pod_table(checking->pod_ifindex) : 0,
			  checking->routes);
	ret = checking->is_further ? check_rule(checking, err) : 0;
	ret = ret ?: mk_nl_each_addr(nl, family, see_addr, checking, err);
	ret = ret ?: mk_nl_each_neigh(nl, family, checking->pod_ifindex, see_neigh, checking, err);
	ret = ret
		      ?: mk_nl_each_route_of(nl, family, checking->routes[0].table, see_route,
					     checking, err);
	if (ret == 0)
		judge_pod(checking);
	return ret;
}

static int check_pod_link(struct checking *checking, struct mk_error *err)
{
	struct mk_link link;
	int ret = check_link(checking, checking->pod_nl, checking->args->ifname, &checking->mac,
			     &link, err);

	if (ret < 0 || !link.ifindex)
		return ret;
	if (has_family(checking, AF_INET6) && (!link.ipv6.exists || link.ipv6.disabled))
		find(&checking->findings, "interface '%s' has no IPv6 (disable_ipv6, or its MTU)",
		     link.name);
	checking->pod_ifindex = link.ifindex;
	return 0;
}

/* Check the address of @network, if the pod has one. */
static int check_address(struct checking *checking, const struct mk_cni_network *network,
			 struct mk_error *err)
{
	const sa_family_t family = network->addresses.gateway.family;
	int ret;

	if (!has_family(checking, family))
		return 0;
	checking->network = network;
	checking->ip = &checking->ips[checking->ips[0].family != family];
	checking->addr_found = checking->neigh_found = false;
	memset(checking->route_found, 0, sizeof(checking->route_found));
	ret = check_entry(checking, err) ?: check_policies(checking, err);
	return ret < 0 || !checking->pod_ifindex ? ret : check_pod(checking, err);
}

static int check_addresses(struct checking *checking, struct mk_error *err)
{
	const struct mk_cni_conf *conf = checking->conf;
	int ret = check_pod_link(checking, err);

	for (size_t i = 0; ret == 0 && i < conf->network_count; i++)
		ret = check_address(checking, &conf->networks[i], err);
	return ret;
}

/* ---- ports of a function pod ----------------------------------------------------------------- */

static void find_text(void *ctx, const char *text)
{
	find(ctx, "%s", text);
}

static int check_ports(struct checking *checking, struct mk_error *err)
{
	const struct mk_cni_port_site site = {
		.node = &checking->node,
		.conf = checking->conf,
		.pod_nl = checking->pod_nl,
		.netns_fd = checking->netns_fd,
		.container_id = checking->args->container_id,
		.ifname = checking->args->ifname,
		.pod_name = "",
		.ips = checking->ips,
	};

	return mk_cni_ports_check(&site, &checking->function, find_text, &checking->findings, err);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int find_address(struct checking *checking, struct mk_cni_failure *failure)
{
	cleanup_ipam struct mk_ipam *ipam =
		mk_ipam_open(checking->conf->state_dir, &failure->cause);
	int ret;

	if (!ipam)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot read the address directory");
	ret = mk_ipam_find(ipam, checking->args->container_id, checking->args->ifname,
			   &checking->ips[0], &failure->cause);
	if (ret < 0) /* every other check needs the address */
		return mk_cni_fail(failure, MK_CNI_CHECK_FAILED,
				   "the container's network is not as ADD made it");
	checking->ips[1] = mk_ipam_second(ipam, &checking->ips[0]);
	checking->mac = mk_mac_of_ip(&checking->ips[0]);
	return 0;
}

static int open_all(struct checking *checking, struct mk_cni_failure *failure)
{
	static const char msg[] = "cannot check the container's network";
	struct mk_error *cause = &failure->cause;

	checking->netns_fd = mk_cni_netns_open(checking->args->netns, failure);
	if (checking->netns_fd < 0)
		return -1;
	if (mk_cni_node_open(&checking->node, checking->conf, cause) < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, msg);
	if (!checking->node.pods)
		return mk_cni_fail(failure, MK_CNI_CHECK_FAILED, "the datapath is not loaded");
	checking->pod_nl = mk_cni_netns_nl(checking->node.nl, checking->args->netns,
					   checking->netns_fd, failure);
	return checking->pod_nl ? 0 : -1;
}

/* Use the existing device's name, or the name that ADD would give it. */
static int name_device(struct checking *checking, struct mk_cni_failure *failure)
{
	const struct mk_cni_args *args = checking->args;
	const char *prefix = checking->conf->veth_prefix;
	struct mk_link link;
	int ret = mk_cni_device_find(checking->node.nl, prefix, args->container_id, args->ifname,
				     &link, &failure->cause);

	if (ret < 0 && ret != -ENODEV)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE,
				   "cannot check the container's network");
	mk_cni_host_name(prefix, args->container_id, args->ifname, checking->host_name);
	if (ret == 0)
		snprintf(checking->host_name, sizeof(checking->host_name), "%s", link.name);
	return 0;
}

int mk_cni_check(const struct mk_cni_args *args, struct mk_cni_conf *conf,
		 struct mk_cni_failure *failure)
{
	cleanup_checking struct checking checking = { .args = args, .conf = conf, .netns_fd = -1 };
	json_object *prev_result = mk_cni_conf_prev_result(conf);

	if (!json_object_is_type(prev_result, json_type_object))
		return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, "invalid network configuration",
				    "prevResult: expected the result of ADD");
	if (mk_cni_conf_read_network(conf, failure) < 0 ||
	    mk_cni_port_mappings_read(&checking.mappings, conf, failure) < 0 ||
	    mk_cni_bandwidth_read(&checking.bandwidth, conf, failure) < 0 ||
	    mk_cni_function_read(&checking.function, conf, args->ifname, failure) < 0 ||
	    open_all(&checking, failure) < 0 || find_address(&checking, failure) < 0)
		return -1;
	if (name_device(&checking, failure) < 0)
		return -1;
	check_prev_result(&checking, prev_result);
	if (check_host(&checking, &failure->cause) < 0 ||
	    check_host_ports(&checking, &failure->cause) < 0 ||
	    check_addresses(&checking, &failure->cause) < 0 ||
	    check_bandwidth(&checking, &failure->cause) < 0 ||
	    check_ports(&checking, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE,
				   "cannot check the container's network");
	if (!checking.findings.used)
		return 0;
	return mk_cni_failf(failure, MK_CNI_CHECK_FAILED,
			    "the container's network is not as ADD made it", "%s",
			    checking.findings.text);
}

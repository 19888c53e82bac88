// SPDX-License-Identifier: Apache-2.0
/* CNI ADD. */
#include <linux/if_addr.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/function.h"
#include "pod/endpoint/port_mappings.h"
#include "pod/ipam/ipam.h"

static const char not_loaded[] = "the datapath is not loaded";
static const char setup_failed[] = "cannot set up the pod's network";

/* An endpoint while ADD makes it. */
struct adding {
	const struct mk_cni_args *args;
	const struct mk_cni_conf *conf;
	struct mk_cni_pod pod; /* policies apply to it: a further interface has none */
	bool is_further;
	struct mk_cni_policies policies;
	struct mk_cni_port_mappings mappings;
	struct mk_cni_bandwidth bandwidth;
	struct mk_cni_function function;
	struct mk_cni_node node;
	int netns_fd;
	struct mk_nl *pod_nl;
	char host_name[IFNAMSIZ];
	int host_ifindex, pod_ifindex;
	uint32_t table; /* the table of the pod's routes; 0: main */
	struct mk_pod entry;
	struct mk_ip ips[MK_FAMILIES]; /* as the networks of @conf; AF_UNSPEC: none */
	struct mk_mac mac;
};

static void adding_release(struct adding *adding)
{
	mk_nl_free(adding->pod_nl);
	mk_cni_node_release(&adding->node);
	mk_cni_port_mappings_release(&adding->mappings);
	mk_cleanup_close(&adding->netns_fd);
}
#define cleanup_adding __attribute__((cleanup(adding_release)))

static const struct mk_addresses *addresses_of(const struct adding *adding, size_t network)
{
	return &adding->conf->networks[network].addresses;
}

/* ---- address --------------------------------------------------------------------------------- */

/* The numbers that are inside the ranges of all families. */
static struct mk_ipam_pool pool_of(const struct adding *adding)
{
	const struct mk_addresses *primary = addresses_of(adding, 0);
	struct mk_ipam_pool pool = { .first = primary->first_pod, .last = primary->last_pod };
	const struct mk_addresses *second;

	if (adding->conf->network_count < 2)
		return pool;
	second = addresses_of(adding, 1);
	pool.second = second->first_pod;
	if (second->pod_count < primary->pod_count) /* the first pod has number 2 */
		pool.last = mk_cidr_nth(&primary->pod_cidr, second->pod_count + 1);
	return pool;
}

/* Returns 1, 0 or an error. */
static int is_alive(const struct adding *adding, const struct mk_ipam_pool *pool,
		    const struct mk_ip *ip, struct mk_error *err)
{
	const struct mk_ip second = mk_ipam_pool_second(pool, ip);
	int ret = mk_cni_address_is_alive(&adding->node, ip, err);

	if (ret != 0 || second.family == AF_UNSPEC)
		return ret;
	return mk_cni_address_is_alive(&adding->node, &second, err);
}

/* Address files may have been removed: do not assign the address of a live pod to another pod. */
static int hold_living(struct adding *adding, struct mk_ipam *ipam, const struct mk_ipam_pool *pool,
		       struct mk_error *err)
{
	struct mk_ip ip;
	int ret = 0;

	while (ret >= 0 && mk_ipam_next(ipam, pool, &ip)) {
		ret = is_alive(adding, pool, &ip, err);
		if (ret == 0)
			return 0;
		if (ret > 0)
			ret = mk_cni_address_hold(ipam, &ip, err);
	}
	return ret;
}

static int allocate(struct adding *adding, struct mk_error *err)
{
	const struct mk_ipam_pool pool = pool_of(adding);
	cleanup_free char *ports = mk_cni_port_mappings_format(&adding->mappings);
	const struct mk_ipam_owner owner = {
		.container_id = adding->args->container_id,
		.ifname = adding->args->ifname,
		.netns = adding->args->netns,
		.host_ports = ports,
		.namespace_ = adding->pod.namespace_,
		.name = adding->pod.name,
		.uid = adding->pod.uid,
	};
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(adding->conf->state_dir, err);
	int ret;

	if (!ipam)
		return -err->code;
	if (!ports)
		return mk_error_errno(err, ENOMEM, "cannot write down host ports");
	ret = hold_living(adding, ipam, &pool, err);
	if (ret < 0)
		return ret;
	ret = mk_ipam_allocate(ipam, &pool, &owner, &adding->ips[0], err);
	if (ret == 0 || ret == -EEXIST)
		adding->ips[1] = mk_ipam_second(ipam, &adding->ips[0]);
	return ret;
}

struct route_search {
	const struct mk_ip *gateway;
	int ifindex;
	bool found;
};

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct route_search *search = ctx;

	if (route->dst.prefix_bits == 0 && route->ifindex == search->ifindex &&
	    mk_ip_equal(&route->gateway, search->gateway))
		search->found = true;
	return 0;
}

/* Return whether an earlier ADD for this owner has completed. ADD makes the default route of the
 * pod's last address last. */
static int was_completed(struct adding *adding, struct mk_error *err)
{
	const size_t last = adding->ips[1].family != AF_UNSPEC && adding->conf->network_count > 1;
	struct route_search search = { .gateway = &addresses_of(adding, last)->gateway };
	sa_family_t family = search.gateway->family;
	struct mk_link link;
	int ret = mk_cni_device_find(adding->node.nl, adding->conf->veth_prefix,
				     adding->args->container_id, adding->args->ifname, &link, err);

	if (ret < 0)
		return ret == -ENODEV ? 0 : ret;
	search.ifindex = link.peer_ifindex;
	ret = mk_nl_each_route(adding->pod_nl, family, see_route, &search, err);
	if (ret == 0 && !search.found)
		ret = mk_nl_each_route_of(adding->pod_nl, family,
					  mk_cni_pod_table(link.peer_ifindex), see_route, &search,
					  err);
	return ret < 0 ? ret : search.found;
}

static int allocate_failed(int ret, struct mk_cni_failure *failure)
{
	static const char msg[] = "cannot allocate an address";

	if (ret == -ENOSPC)
		return mk_cni_fail(failure, MK_CNI_TRY_AGAIN, "no free address");
	return mk_cni_fail(failure, MK_CNI_IO_FAILURE, msg);
}

/* The owner already has an address. If its endpoint is complete, this ADD is a runtime's error.
 * Otherwise an ADD was killed halfway, and its leftovers are removed first. */
static int allocate_again(struct adding *adding, struct mk_cni_failure *failure)
{
	const struct mk_cni_args *args = adding->args;
	int ret = was_completed(adding, &failure->cause);

	if (ret < 0)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED, setup_failed);
	if (ret == 1)
		return mk_cni_failf(
			failure, MK_CNI_INTERFACE_EXISTS, "the interface exists already",
			"container '%s' interface '%s' is set up (host side '%s'); run DEL before another ADD",
			args->container_id, args->ifname, adding->host_name);
	mk_log_warn("removing the leftovers of an unfinished ADD container=%s ifname=%s",
		    args->container_id, args->ifname);
	if (mk_cni_endpoint_remove(&adding->node, args->container_id, args->ifname,
				   &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED,
				   "cannot remove the leftovers of an unfinished ADD");
	ret = allocate(adding, &failure->cause);
	return ret < 0 ? allocate_failed(ret, failure) : 0;
}

/* ---- the host's end -------------------------------------------------------------------------- */

static int veth_add(struct adding *adding, struct mk_error *err)
{
	const struct mk_veth veth = {
		.name = adding->host_name,
		.mac = addresses_of(adding, 0)->gateway_mac,
		.peer_name = adding->args->ifname,
		.peer_mac = adding->mac,
		.peer_netns_fd = adding->netns_fd,
		.mtu_bytes = MK_POD_DEVICE_MTU_BYTES,
	};

	return mk_nl_veth_add(adding->node.nl, &veth, err);
}

static int create_veth(struct adding *adding, struct mk_cni_failure *failure)
{
	struct mk_error *err = &failure->cause;
	struct mk_link link;
	int ret = veth_add(adding, err);

	if (ret == -EEXIST &&
	    mk_nl_link_get(adding->pod_nl, adding->args->ifname, &link, NULL) == 0)
		return mk_cni_failf(failure, MK_CNI_INTERFACE_EXISTS,
				    "the interface exists already",
				    "interface '%s' (kind '%s') is in namespace '%s' already",
				    adding->args->ifname, link.kind, adding->args->netns);
	if (ret == -EEXIST) {
		/* only the host's name is taken: by an endpoint whose address file was lost */
		ret = mk_nl_link_delete(adding->node.nl, adding->host_name, err);
		ret = ret ?: veth_add(adding, err);
	}
	ret = ret ?: mk_nl_link_get(adding->node.nl, adding->host_name, &link, err);
	if (ret < 0)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED, setup_failed);
	adding->host_ifindex = link.ifindex;
	adding->entry = mk_pod_of(&link, &adding->mac);
	adding->pod_ifindex = link.peer_ifindex; /* the index in the pod's namespace */
	if (adding->is_further)
		adding->table = mk_cni_pod_table(adding->pod_ifindex);
	return 0;
}

/* Write the pod's name into @name; only people and `monokube` read it. A further interface gets
 * "@INTERFACE" appended, so that the bare name means the first interface. */
static const char *alias_of(const struct adding *adding, char *name)
{
	size_t length, room;

	mk_cni_pod_name(getenv("CNI_ARGS"), name);
	length = strlen(name);
	room = MK_CNI_POD_NAME_BYTES - length;
	if (adding->table && length && strlen(adding->args->ifname) + 1 < room)
		snprintf(name + length, room, "@%s", adding->args->ifname);
	return name;
}

/* Set the limits before either end goes up, so that no packet evades them. */
static int limit_bandwidth(struct adding *adding, struct mk_error *err)
{
	const struct mk_cni_bandwidth *bandwidth = &adding->bandwidth;
	int ret = 0;

	if (bandwidth->ingress.rate_bytes)
		ret = mk_nl_tbf_put(adding->node.nl, adding->host_ifindex, &bandwidth->ingress,
				    err);
	if (ret == 0 && bandwidth->egress.rate_bytes)
		ret = mk_nl_tbf_put(adding->pod_nl, adding->pod_ifindex, &bandwidth->egress, err);
	adding->entry.shaped = bandwidth->ingress.rate_bytes != 0;
	return ret;
}

/* Disable IPv6 on the device: no link-local address, no router solicitations towards the pod. */
static int silence_ipv6(const char *ifname, struct mk_error *err)
{
	char path[128];
	int ret;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6", ifname);
	ret = mk_sysctl_set(path, "1", err);
	return ret == -ENOENT ? 0 : ret; /* a kernel without IPv6 */
}

/* The sets of policies first: programs take a pod without sets for pending. */
static int put_entries(struct adding *adding, struct mk_error *err)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < adding->conf->network_count; i++) {
		const struct mk_ip *ip = &adding->ips[i];

		ret = mk_pods_put_policies(adding->node.pods, ip, adding->host_ifindex,
					   adding->policies.sets[i], err);
		if (ret >= 0)
			ret = mk_pods_put(adding->node.pods, ip, &adding->entry, err);
	}
	return ret;
}

/* Set the device up last. The pod's first packet then finds the program, and the first packet to
 * the pod finds its table entry. */
static int connect_host(struct adding *adding, struct mk_error *err)
{
	char name[MK_CNI_POD_NAME_BYTES];
	const struct mk_link_change up = { .set_flags = IFF_UP, .alias = alias_of(adding, name) };
	int ret = silence_ipv6(adding->host_name, err);

	if (ret >= 0)
		ret = limit_bandwidth(adding, err);
	if (ret >= 0)
		ret = mk_pods_attach(adding->node.pods, adding->node.nl, adding->host_ifindex, err);
	if (ret >= 0)
		ret = put_entries(adding, err);
	if (ret >= 0)
		ret = mk_nl_link_change(adding->node.nl, adding->host_ifindex, &up, err);
	return ret;
}

/* ---- the pod's end --------------------------------------------------------------------------- */

/* A container's namespace may have disable_ipv6 set for new devices. */
static int enable_ipv6(void *ctx, struct mk_error *err)
{
	const struct adding *adding = ctx;
	char path[128];
	int ret;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/disable_ipv6",
		 adding->args->ifname);
	ret = mk_sysctl_set(path, "0", err);
	return ret < 0 ? ret : 0;
}

/* Before the device is up: the kernel then makes no link-local address, and the pod sends no
 * router solicitation. */
static int prepare_ipv6(struct adding *adding, struct mk_error *err)
{
	const struct mk_link_change quiet = { .no_link_local = true };
	struct mk_link link;
	int ret;

	if (adding->ips[0].family != AF_INET6 && adding->ips[1].family != AF_INET6)
		return 0;
	ret = mk_nl_link_get_index(adding->pod_nl, adding->pod_ifindex, &link, err);
	if (ret < 0)
		return ret;
	if (!link.ipv6.exists)
		return mk_error_set(err, EAFNOSUPPORT,
				    "interface '%s' has no IPv6: this kernel runs without it",
				    link.name);
	ret = mk_nl_link_change(adding->pod_nl, adding->pod_ifindex, &quiet, err);
	if (ret == 0 && link.ipv6.disabled)
		ret = mk_nl_run_in(adding->node.nl, adding->netns_fd, enable_ipv6, adding, err);
	return ret;
}

static int set_links_up(struct adding *adding, struct mk_error *err)
{
	enum { LO_IFINDEX = 1 }; /* in every namespace (LOOPBACK_IFINDEX in the kernel) */
	const struct mk_link_change up = { .set_flags = IFF_UP };
	int ret = mk_nl_link_change(adding->pod_nl, LO_IFINDEX, &up, err);

	/* The pod's end goes up after the host's end. The end that goes up last can send at once;
	 * the other end waits for the kernel's link watch. The pod sends first. */
	return ret ?: mk_nl_link_change(adding->pod_nl, adding->pod_ifindex, &up, err);
}

/* Make the default route last: was_completed() looks for it. */
static int set_routes(struct adding *adding, size_t network, struct mk_error *err)
{
	const struct mk_nl_rule rule = { .from = adding->ips[network], .table = adding->table };
	struct mk_nl_route routes[MK_POD_ROUTES];
	int ret = adding->table ? mk_nl_rule_add(adding->pod_nl, &rule, err) : 0;

	mk_cni_pod_routes(adding->conf, &adding->conf->networks[network], adding->pod_ifindex,
			  adding->table, routes);
	for (size_t i = 0; ret == 0 && i < MK_POD_ROUTES; i++)
		ret = mk_nl_route_put(adding->pod_nl, &routes[i], err);
	return ret;
}

static int set_address(struct adding *adding, size_t network, struct mk_error *err)
{
	const struct mk_addresses *addresses = addresses_of(adding, network);
	const struct mk_ip *ip = &adding->ips[network];
	const struct mk_nl_addr own = {
		.ifindex = adding->pod_ifindex,
		.cidr = { .ip = *ip, .prefix_bits = (uint8_t)mk_ip_bits(ip->family) },
		/* no other pod can have the address, and the pod's first packet does not wait */
		.flags = ip->family == AF_INET6 ? IFA_F_NODAD : 0,
	};
	int ret = mk_nl_addr_add(adding->pod_nl, &own, err);

	return ret
		       ?: mk_nl_neigh_put(adding->pod_nl, adding->pod_ifindex, &addresses->gateway,
					  &addresses->gateway_mac, err);
}

static int configure_pod(struct adding *adding, struct mk_error *err)
{
	int ret = prepare_ipv6(adding, err) ?: set_links_up(adding, err);

	for (size_t i = 0; ret == 0 && i < adding->conf->network_count; i++)
		ret = set_address(adding, i, err) ?: set_routes(adding, i, err);
	return ret;
}

/* Is this a further interface of its pod (Multus)? A device that an unfinished ADD has left is not
 * the first interface. Policies are for the first one, so the address file of another names no
 * Pod. */
static int find_pod(struct adding *adding, struct mk_error *err)
{
	struct mk_link leftover = { 0 };
	int ret = mk_nl_link_get(adding->node.nl, adding->host_name, &leftover, err);

	if (ret < 0 && ret != -ENODEV)
		return ret;
	ret = mk_cni_is_further(adding->pod_nl, adding->conf, leftover.peer_ifindex, err);
	if (ret < 0)
		return ret;
	adding->is_further = ret;
	if (!adding->is_further)
		mk_cni_pod_read(&adding->pod, getenv("CNI_ARGS"));
	return mk_cni_policies_find(&adding->node, adding->conf, &adding->pod, &adding->policies,
				    err);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int open_all(struct adding *adding, struct mk_cni_failure *failure)
{
	sa_family_t family;

	adding->netns_fd = mk_cni_netns_open(adding->args->netns, failure);
	if (adding->netns_fd < 0)
		return -1;
	if (mk_cni_node_open(&adding->node, adding->conf, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, setup_failed);
	if (!adding->node.pods) /* the cause is still that of mk_pods_open() */
		return mk_cni_fail(failure, MK_CNI_TRY_AGAIN, not_loaded);
	if (!mk_cni_has_families(adding->node.pods, adding->conf, &family))
		return mk_cni_failf(failure, MK_CNI_TRY_AGAIN, not_loaded,
				    "the tables of %s are not pinned in '%s': the agent pins them",
				    mk_family_name(family), adding->conf->bpf_dir);
	adding->pod_nl =
		mk_cni_netns_nl(adding->node.nl, adding->args->netns, adding->netns_fd, failure);
	return adding->pod_nl ? 0 : -1;
}

static struct mk_cni_port_site site_of(const struct adding *adding,
				       char pod_name[MK_CNI_POD_NAME_BYTES])
{
	return (struct mk_cni_port_site){
		.node = &adding->node,
		.conf = adding->conf,
		.pod_nl = adding->pod_nl,
		.netns_fd = adding->netns_fd,
		.container_id = adding->args->container_id,
		.ifname = adding->args->ifname,
		.pod_name = mk_cni_pod_name(getenv("CNI_ARGS"), pod_name),
		.ips = adding->ips,
	};
}

static int make_ports(struct adding *adding, struct mk_cni_failure *failure)
{
	char pod_name[MK_CNI_POD_NAME_BYTES];
	const struct mk_cni_port_site site = site_of(adding, pod_name);

	return mk_cni_ports_make(&site, &adding->function, failure);
}

static int print_result(const struct adding *adding, struct mk_error *err)
{
	char pod_name[MK_CNI_POD_NAME_BYTES];
	const struct mk_cni_port_site site = site_of(adding, pod_name);
	struct mk_cni_result result = {
		.version = adding->conf->version,
		.host_name = adding->host_name,
		.ifname = adding->args->ifname,
		.netns = adding->args->netns,
		.host_mac = addresses_of(adding, 0)->gateway_mac,
		.mac = adding->mac,
		.ip_count = adding->conf->network_count,
		.device_mtu_bytes = MK_POD_DEVICE_MTU_BYTES,
		.dns = adding->conf->dns,
		.is_further = adding->is_further,
	};

	for (size_t i = 0; i < result.ip_count; i++) {
		result.ips[i] = adding->ips[i];
		result.gateways[i] = addresses_of(adding, i)->gateway;
		result.default_mtu_bytes[i] =
			mk_cni_default_mtu(adding->conf, adding->ips[i].family);
	}
	mk_cni_ports_tell(&site, &adding->function, &result);
	return mk_cni_print(mk_cni_result_json(&result), err);
}

static int make(struct adding *adding, struct mk_cni_failure *failure)
{
	adding->mac = mk_mac_of_ip(&adding->ips[0]);
	if (create_veth(adding, failure) < 0)
		return -1;
	if (connect_host(adding, &failure->cause) < 0 || configure_pod(adding, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED, setup_failed);
	if (make_ports(adding, failure) < 0)
		return -1;
	/* last, so that no traffic comes for half a pod */
	if (mk_cni_port_mappings_claim(&adding->node, adding->args, &adding->mappings, adding->ips,
				       adding->host_ifindex, failure) < 0)
		return -1;
	if (print_result(adding, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_IO_FAILURE, "cannot print the result");
	return 0;
}

static void undo(struct adding *adding)
{
	struct mk_error err = { 0 };

	if (mk_cni_endpoint_remove(&adding->node, adding->args->container_id, adding->args->ifname,
				   &err) < 0)
		mk_log_error(
			"cannot undo a failed ADD; DEL or GC will remove its leftovers: %s container=%s ifname=%s",
			mk_error_text(&err), adding->args->container_id, adding->args->ifname);
}

int mk_cni_add(const struct mk_cni_args *args, struct mk_cni_conf *conf,
	       struct mk_cni_failure *failure)
{
	cleanup_adding struct adding adding = { .args = args, .conf = conf, .netns_fd = -1 };
	int ret;

	if (mk_cni_conf_prev_result(conf))
		return mk_cni_failf(
			failure, MK_CNI_INVALID_CONFIG, "invalid network configuration",
			"prevResult is set: monokube must be the first plugin of the list");
	if (mk_cni_conf_no_address_wanted(conf, getenv("CNI_ARGS"), failure) < 0 ||
	    mk_cni_conf_read_network(conf, failure) < 0 ||
	    mk_cni_port_mappings_read(&adding.mappings, conf, failure) < 0 ||
	    mk_cni_bandwidth_read(&adding.bandwidth, conf, failure) < 0 ||
	    mk_cni_function_read(&adding.function, conf, args->ifname, failure) < 0 ||
	    open_all(&adding, failure) < 0)
		return -1;
	mk_cni_host_name(conf->veth_prefix, args->container_id, args->ifname, adding.host_name);
	if (find_pod(&adding, &failure->cause) < 0 ||
	    mk_cni_port_mappings_leave_own(&adding.node, args, &adding.mappings, &failure->cause) <
		    0)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED, setup_failed);
	ret = allocate(&adding, &failure->cause);
	if (ret == -EEXIST) {
		if (allocate_again(&adding, failure) < 0)
			return -1;
	} else if (ret < 0) {
		return allocate_failed(ret, failure);
	}
	if (make(&adding, failure) == 0)
		return 0;
	undo(&adding);
	return -1;
}

// SPDX-License-Identifier: Apache-2.0
/* Claims and removes host ports of an endpoint. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "pod/endpoint/endpoint_internal.h"
#include "pod/endpoint/port_mappings.h"
#include "pod/ipam/ipam.h"

int mk_cni_host_ports(struct mk_cni_node *node, struct mk_host_ports **ports, struct mk_error *err)
{
	struct mk_error cause = { 0 };

	*ports = node->host_ports;
	if (*ports)
		return 1;
	if (!node->pods)
		return 0;
	*ports = node->host_ports = mk_host_ports_open(node->bpf_dir, node->state_dir, &cause);
	if (*ports)
		return 1;
	if (cause.code == ENOENT)
		return 0;
	*err = cause;
	return -cause.code;
}

int cni_host_port_is_alive(struct mk_nl *nl, const struct mk_pod *pod,
			   const struct mk_host_port *to, struct mk_error *err)
{
	struct mk_link link;
	int ret;

	if (pod && pod->ifindex != to->ifindex)
		return 0;
	ret = mk_nl_link_get_index(nl, (int)to->ifindex, &link, err);
	if (ret < 0)
		return ret == -ENODEV ? 0 : ret;
	return 1;
}

static int is_alive(void *ctx, const struct mk_host_port *to, struct mk_error *err)
{
	struct mk_cni_node *node = ctx;
	const struct mk_ip ip = mk_ip_from_addr(&to->addr);
	struct mk_pod pod;
	int ret = mk_pods_get(node->pods, &ip, &pod, err);

	if (ret < 0 && ret != -ENOENT)
		return ret;
	return cni_host_port_is_alive(node->nl, ret < 0 ? NULL : &pod, to, err);
}

/* ---- claiming -------------------------------------------------------------------------------- */

struct naming {
	struct mk_ip ip;
	char *text;
	size_t size;
};

static int see_owner(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct naming *naming = ctx;

	if ((mk_ip_equal(ip, &naming->ip) || mk_ip_equal(&owner->second, &naming->ip)) &&
	    owner->container_id[0])
		snprintf(naming->text, naming->size, "container '%s' interface '%s'",
			 owner->container_id, owner->ifname);
	return 0;
}

/* Name the owner of the address, if the directory knows it. */
static void name_owner(const char *state_dir, const struct mk_addr *addr, char *text, size_t size)
{
	struct mk_error err;
	cleanup_ipam struct mk_ipam *ipam = mk_ipam_open(state_dir, &err);
	struct naming naming = { .ip = mk_ip_from_addr(addr), .text = text, .size = size };

	snprintf(text, size, "another container");
	if (ipam && mk_ipam_each(ipam, see_owner, &naming, &err) < 0)
		snprintf(text, size, "another container");
}

/* Ask the runtime to try again: the other pod may be terminating. */
static int is_taken(const struct mk_cni_node *node, const struct mk_cni_args *args,
		    const struct mk_host_port_entry *holder, struct mk_cni_failure *failure)
{
	const struct mk_ip ip = mk_ip_from_addr(&holder->to.addr);
	char port[MK_HOST_PORT_STRLEN], ip_text[MK_IP_STRLEN], owner[400];

	name_owner(node->state_dir, &holder->to.addr, owner, sizeof(owner));
	return mk_cni_failf(
		failure, MK_CNI_TRY_AGAIN, "host port is taken",
		"host port %s, wanted for container '%s', leads to %s (%s); remove that pod, or give one of the two another hostPort or hostIP",
		mk_host_port_format(holder, port), args->container_id, owner,
		mk_ip_format(&ip, ip_text));
}

/* ---- host ports of the container's other interfaces ------------------------------------------ */

struct owning {
	const struct mk_cni_args *args;
	const struct mk_host_port *to;
	bool own; /* @to is another interface of the container */
};

static int see_own(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct owning *owning = ctx;
	const struct mk_ip to = mk_ip_from_addr(&owning->to->addr);

	if ((mk_ip_equal(ip, &to) || mk_ip_equal(&owner->second, &to)) &&
	    strcmp(owner->container_id, owning->args->container_id) == 0 &&
	    strcmp(owner->ifname, owning->args->ifname) != 0)
		owning->own = true;
	return 0;
}

/* Returns 1, 0 or an error. */
static int leads_to_own(struct mk_cni_node *node, struct mk_host_ports *ports,
			const struct mk_cni_args *args, const struct mk_host_port_entry *entry,
			struct mk_error *err)
{
	cleanup_ipam struct mk_ipam *ipam = NULL;
	struct mk_host_port to;
	struct owning owning = { .args = args, .to = &to };
	int ret = mk_host_ports_get(ports, entry->family, &entry->key, &to, err);

	if (ret == 0 && !to.leaving)
		ret = is_alive(node, &to, err);
	if (ret <= 0)
		return ret == -ENOENT ? 0 : ret;
	ipam = mk_ipam_open(node->state_dir, err);
	ret = ipam ? mk_ipam_each(ipam, see_own, &owning, err) : -err->code;
	return ret < 0 ? ret : owning.own;
}

int mk_cni_port_mappings_leave_own(struct mk_cni_node *node, const struct mk_cni_args *args,
				   struct mk_cni_port_mappings *mappings, struct mk_error *err)
{
	char port[MK_HOST_PORT_STRLEN];
	struct mk_host_ports *ports;
	int ret = mappings->count ? mk_cni_host_ports(node, &ports, err) : 0;
	size_t kept = 0;

	if (ret <= 0)
		return ret;
	for (size_t i = 0; i < mappings->count; i++) {
		const struct mk_host_port_entry *entry = &mappings->list[i];

		ret = leads_to_own(node, ports, args, entry, err);
		if (ret < 0)
			return ret;
		if (ret == 0)
			mappings->list[kept++] = *entry;
		else
			mk_log_info(
				"host port %s stays with another interface of the container container=%s ifname=%s",
				mk_host_port_format(entry, port), args->container_id, args->ifname);
	}
	mappings->count = kept;
	return 0;
}

bool cni_port_mapping_lead(struct mk_host_port_entry *entry, const struct mk_ip ips[MK_FAMILIES],
			   int ifindex)
{
	entry->to.ifindex = (uint32_t)ifindex;
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		if (ips[i].family != entry->family)
			continue;
		entry->to.addr = mk_ip_to_addr(&ips[i]);
		return true;
	}
	return false;
}

int mk_cni_port_mappings_claim(struct mk_cni_node *node, const struct mk_cni_args *args,
			       struct mk_cni_port_mappings *mappings,
			       const struct mk_ip ips[MK_FAMILIES], int ifindex,
			       struct mk_cni_failure *failure)
{
	static const char msg[] = "cannot map the pod's host ports";
	const struct mk_host_port_judge judge = { .is_alive = is_alive, .ctx = node };
	struct mk_host_port_entry holder;
	struct mk_host_ports *ports;
	int ret;

	if (!mappings->count)
		return 0;
	ret = mk_cni_host_ports(node, &ports, &failure->cause);
	if (ret == 0)
		return mk_cni_failf(
			failure, MK_CNI_TRY_AGAIN, msg,
			"no map 'host_ports' is pinned in '%s': the agent that runs here is of an older version; restart it",
			node->bpf_dir);
	for (size_t i = 0; i < mappings->count; i++)
		cni_port_mapping_lead(&mappings->list[i], ips, ifindex);
	if (ret > 0)
		ret = mk_host_ports_claim(ports, mappings->list, mappings->count, &judge, &holder,
					  &failure->cause);
	if (ret == -EEXIST)
		return is_taken(node, args, &holder, failure);
	return ret < 0 ? mk_cni_fail(failure, MK_CNI_SETUP_FAILED, msg) : 0;
}

/* ---- removing -------------------------------------------------------------------------------- */

int cni_port_mappings_remove(struct mk_cni_node *node, const struct mk_ip *ip, int ifindex,
			     struct mk_error *err)
{
	struct mk_host_ports *ports;
	int ret = mk_cni_host_ports(node, &ports, err);

	return ret <= 0 ? ret : mk_host_ports_remove(ports, ip, (uint32_t)ifindex, err);
}

int cni_port_mappings_sweep(struct mk_cni_node *node, struct mk_error *err)
{
	const struct mk_host_port_judge judge = { .is_alive = is_alive, .ctx = node };
	struct mk_host_ports *ports;
	int ret = mk_cni_host_ports(node, &ports, err);

	if (ret > 0)
		ret = mk_host_ports_sweep(ports, &judge, err);
	if (ret > 0)
		mk_log_info("removed host ports of pods that are gone count=%d", ret);
	return ret < 0 ? ret : 0;
}

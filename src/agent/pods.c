// SPDX-License-Identifier: Apache-2.0
#include "agent/pods.h"

#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/restore.h"
#include "pod/ipam/ipam.h"

#define IDLE_LOOKS 10 /* left out after a look that could restore none of the missing entries */

/* ---- devices --------------------------------------------------------------------------------- */

/* Keep the pod's name from the kernel's last message about its device: nothing else has it. */
void agent_pods_device_gone(struct agent_pods *pods, const struct nlmsghdr *message)
{
	const struct ifinfomsg *link = NLMSG_DATA(message);
	struct agent_gone_device *gone = &pods->gone[pods->gone_count % MK_GONE_DEVICES];
	int size = (int)IFLA_PAYLOAD(message);

	*gone = (struct agent_gone_device){ .ifindex = (uint32_t)link->ifi_index };
	for (const struct rtattr *attr = IFLA_RTA(link); RTA_OK(attr, size);
	     attr = RTA_NEXT(attr, size))
		if (attr->rta_type == IFLA_IFALIAS)
			snprintf(gone->pod, sizeof(gone->pod), "%.*s", (int)RTA_PAYLOAD(attr),
				 (const char *)RTA_DATA(attr));
	pods->gone_count++;
	pods->devices_unsure = true;
}

static const char *pod_of(const struct agent_pods *pods, uint32_t ifindex)
{
	for (size_t i = 0; i < MK_GONE_DEVICES; i++)
		if (pods->gone[i].ifindex == ifindex)
			return pods->gone[i].pod;
	return "";
}

struct look {
	const struct agent_pods *pods;
	const char *veth_prefix;
	struct mk_ip *lost; /* in this look */
	size_t count;
};

static void see_lost(void *ctx, const struct mk_ip *ip, const struct mk_pod *entry,
		     const struct mk_ipam_owner *owner)
{
	struct look *look = ctx;
	struct mk_ip *added = mk_append(look->lost, look->count);
	char device[IFNAMSIZ], text[MK_IP_STRLEN];

	if (!added)
		return;
	*added = *ip;
	if (mk_ips_contain(look->pods->lost, look->pods->lost_count, ip))
		return;
	mk_cni_host_name(look->veth_prefix, owner->container_id, owner->ifname, device);
	mk_log_warn(
		"a pod's device was deleted by another process, so the pod has no network: delete the pod, so that it is created again pod=%s ip=%s device=%s container=%s",
		pod_of(look->pods, entry->ifindex), mk_ip_format(ip, text), device,
		owner->container_id);
}

int agent_pods_reconcile_devices(struct agent_pods *pods, const struct mk_config *config,
				 struct mk_error *err)
{
	struct look look = { .pods = pods, .veth_prefix = config->veth_prefix };
	int ret;

	if (!pods->devices_unsure && !pods->lost_count)
		return 0;
	ret = mk_cni_each_lost_pod(config->state_dir, config->bpf_dir, see_lost, &look, err);
	if (ret < 0) {
		free(look.lost);
		return ret;
	}
	pods->devices_unsure = false;
	free(pods->lost);
	pods->lost = look.lost;
	pods->lost_count = look.count;
	return 0;
}

/* The message about a new device says that all flags have changed. */
void agent_pods_device_changed(struct agent_pods *pods, const struct nlmsghdr *message)
{
	const struct ifinfomsg *link = NLMSG_DATA(message);

	if (link->ifi_change & IFF_UP && link->ifi_change != UINT_MAX &&
	    !(link->ifi_flags & IFF_UP))
		pods->some_down = true;
}

struct down {
	struct mk_nl *nl;
	const char *veth_prefix;
	int count;
	struct mk_error *err;
};

/* ADD names a pod's device when it sets it up first. */
static int see_down(void *ctx, const struct mk_link *link)
{
	const struct mk_link_change up = { .set_flags = IFF_UP };
	struct down *down = ctx;
	int ret;

	if (link->flags & IFF_UP || !*link->alias || !mk_cni_is_pod_device(down->veth_prefix, link))
		return 0;
	ret = mk_nl_link_change(down->nl, link->ifindex, &up, down->err);
	if (ret < 0) /* -ENODEV: its pod has just been deleted */
		return ret == -ENODEV ? 0 : ret;
	down->count++;
	mk_log_warn(
		"a pod's device was set down by another process, and is up again device=%s pod=%s",
		link->name, link->alias);
	return 0;
}

int agent_pods_reconcile_down(struct agent_pods *pods, struct mk_nl *nl,
			      const struct mk_config *config, struct mk_error *err)
{
	struct down down = { .nl = nl, .veth_prefix = config->veth_prefix, .err = err };
	int ret;

	if (!pods->some_down)
		return 0;
	ret = mk_nl_each_link(nl, see_down, &down, err);
	pods->some_down = ret < 0;
	return ret < 0 ? ret : down.count;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Host ports need the entry of their pod, so look at them again after entries are restored. */
int agent_pods_reconcile_entries(struct agent_pods *pods, const struct mk_config *config,
				 struct mk_error *err)
{
	bool in_vain;
	int ret;

	if (pods->pause-- > 0)
		return 0;
	ret = mk_cni_restore(config->state_dir, config->bpf_dir, config->veth_prefix, &in_vain,
			     err);
	pods->pause = in_vain ? IDLE_LOOKS : 0;
	if (ret > 0)
		pods->host_ports = SIZE_MAX;
	return ret;
}

int agent_pods_reconcile_host_ports(struct agent_pods *pods, const struct mk_config *config,
				    struct mk_error *err)
{
	return mk_cni_restore_host_ports(config->state_dir, config->bpf_dir, &pods->host_ports,
					 err);
}

/* ---- addresses ------------------------------------------------------------------------------- */

/* A Node that was created again may get another pod CIDR. Its pods keep their old addresses, which
 * no node routes to any more: the operator has to know. */
struct outside {
	const struct mk_own_node *node;
	unsigned int count;
	struct mk_ip first;
	char container[13]; /* as runtimes abbreviate it */
};

static bool is_outside(const struct mk_own_node *node, const struct mk_ip *ip)
{
	const struct mk_own_family *own;

	if (ip->family == AF_UNSPEC)
		return false;
	own = &node->families[mk_family_index(ip->family)];
	return own->family->runs && !mk_cidr_contains(&own->addresses.pod_cidr, ip);
}

/* A container without its namespace is no pod any more. */
static int see(void *ctx, const struct mk_ip *ip, const struct mk_ipam_owner *owner)
{
	struct outside *outside = ctx;
	const struct mk_ip *found = is_outside(outside->node, ip) ? ip : &owner->second;

	if (!is_outside(outside->node, found) || !owner->container_id[0] ||
	    access(owner->netns, F_OK) < 0)
		return 0;
	if (outside->count++ > 0)
		return 0;
	outside->first = *found;
	snprintf(outside->container, sizeof(outside->container), "%s", owner->container_id);
	return 0;
}

static void tell(struct mk_core *core, const struct outside *outside)
{
	const struct mk_own_family *own =
		&outside->node->families[mk_family_index(outside->first.family)];
	char cidr[MK_CIDR_STRLEN], ip[MK_IP_STRLEN], text[256];

	snprintf(
		text, sizeof(text),
		"%u pods have addresses outside the pod CIDR %s of their node, such as %s (container %s): they have no %s network until they are deleted",
		outside->count, mk_cidr_format(&own->addresses.pod_cidr, cidr),
		mk_ip_format(&outside->first, ip), outside->container,
		mk_family_name(outside->first.family));
	if (mk_core_warn(core, MK_WARN_POD_CIDR, text))
		mk_log_warn("%s", text);
}

/* Repair what an earlier version, or a kill, left in the index of addresses by owner. */
static int repair_index(struct agent_pods *pods, const char *state_dir, struct mk_error *err)
{
	cleanup_ipam struct mk_ipam *ipam = NULL;
	int ret;

	if (pods->index_repaired)
		return 0;
	ipam = mk_ipam_open(state_dir, err);
	ret = ipam ? mk_ipam_repair(ipam, err) : -err->code;
	pods->index_repaired = ret != -EWOULDBLOCK;
	return ret < 0 ? mk_error_wrap(err, "cannot repair the index of addresses") : 0;
}

static int reap(struct agent_pods *pods, const struct mk_config *config, struct mk_error *err)
{
	int ret = mk_cni_reap(config->state_dir, config->bpf_dir, config->veth_prefix, err);

	if (ret > 0)
		pods->reaped += (uint64_t)ret;
	return ret < 0 ? mk_error_wrap(err, "cannot release addresses of containers that are gone")
		       : 0;
}

static int look_outside(const struct mk_own_node *node, struct mk_error *err)
{
	struct outside outside = { .node = node };
	struct mk_core *core = node->core;
	cleanup_ipam struct mk_ipam *ipam = NULL;
	int ret;

	ipam = mk_ipam_open(core->config.state_dir, err);
	ret = ipam ? mk_ipam_each(ipam, see, &outside, err) : -err->code;
	if (ret < 0)
		return mk_error_wrap(err, "cannot look for pods outside the pod CIDR");
	if (outside.count)
		tell(core, &outside);
	else
		mk_core_warn_over(core, MK_WARN_POD_CIDR);
	return 0;
}

int agent_pods_reconcile_addresses(struct agent_pods *pods, const struct mk_own_node *node,
				   struct mk_error *err)
{
	const struct mk_core *core = node->core;
	int ret = repair_index(pods, core->config.state_dir, err);

	if (ret == 0)
		ret = reap(pods, &core->config, err);
	return ret < 0 ? ret : look_outside(node, err);
}

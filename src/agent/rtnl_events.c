// SPDX-License-Identifier: Apache-2.0
/* rtnetlink's notifications only trigger a look. The node is compared with the kernel anyway, so an
 * overrun of the socket loses nothing. Pods' interfaces come and go all the time and are
 * ignored. */
#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/rtnl_events.h"
#include "base/cleanup.h"
#include "datapath/pods/port.h"

/* A burst of starting pods causes one look. */
#define SETTLE_MS 50

/* Each starting pod reports its device, which is looked up in map pods. A filter of several devices
 * (a shared block) names none: look at all hooks. */
void agent_hooks_changed(struct agent_hooks *hooks, struct mk_core *core, int ifindex)
{
	mk_core_check_soon(core, MK_UNSURE_HOOKS);
	mk_core_mark(core, MK_UNSURE_SANDBOXES, 0); /* ADD writes the pod's entries before */
	for (size_t i = 0; i < hooks->count; i++)
		if (hooks->changed[i] == ifindex)
			return;
	if (ifindex <= 0 || hooks->count == MK_CHANGED_DEVICES)
		hooks->all = true;
	else
		hooks->changed[hooks->count++] = ifindex;
}

static int repair(const struct agent_hooks *hooks, struct mk_datapath *datapath,
		  struct mk_error *err)
{
	return hooks->all
		       ? mk_datapath_repair_hooks(datapath, SIZE_MAX, err)
		       : mk_datapath_repair_hooks_of(datapath, hooks->changed, hooks->count, err);
}

int agent_hooks_reconcile(struct agent_hooks *hooks, struct mk_core *core, struct mk_error *err)
{
	const struct agent_hooks now = *hooks;
	int ret = 0, repairs = 0;

	*hooks = (struct agent_hooks){ 0 };
	for (size_t i = 0; ret >= 0 && i < MK_FAMILIES; i++)
		if (mk_family_is_attached(&core->families[i])) {
			ret = repair(&now, core->families[i].datapath, err);
			repairs += ret;
		}
	return ret < 0 ? ret : repairs;
}

static void look_at_overlay(struct agent_rtnl *rtnl)
{
	mk_overlay_refresh(rtnl->core->overlay);
	mk_core_mark(rtnl->core, MK_UNSURE_OVERLAY, SETTLE_MS);
}

static void look_again(struct agent_rtnl *rtnl, bool routes_too)
{
	mk_core_mark(rtnl->core, MK_UNSURE_NODE, SETTLE_MS);
	if (routes_too)
		look_at_overlay(rtnl);
}

/* While something is missing, any interface may be it. */
static bool is_ours(const struct agent_rtnl *rtnl, int ifindex)
{
	const struct mk_own_node *node = rtnl->node;

	return mk_own_uplinks_contain(&node->uplinks, ifindex) ||
	       !mk_core_any(rtnl->core, mk_family_is_loaded) || rtnl->node->waits ||
	       node->uplinks.some_missing || ifindex == node->devices.host_ifindex ||
	       ifindex == node->devices.host_peer_ifindex ||
	       ifindex == node->devices.overlay_ifindex || ifindex == node->devices.sfc_ifindex ||
	       ifindex == node->devices.cluster_ifindex ||
	       (ifindex &&
		(ifindex == node->devices.wg_ifindex || ifindex == node->devices.wg_peer_ifindex));
}

/* Is the device a function pod's port, by its MAC address? */
static bool is_port(const struct nlmsghdr *message)
{
	const struct ifinfomsg *link = NLMSG_DATA(message);
	struct mk_link seen = { .kind = "veth" };
	int left = (int)IFLA_PAYLOAD(message);

	for (const struct rtattr *attr = IFLA_RTA(link); RTA_OK(attr, left);
	     attr = RTA_NEXT(attr, left))
		if (attr->rta_type == IFLA_ADDRESS && RTA_PAYLOAD(attr) == sizeof(seen.mac))
			memcpy(&seen.mac, RTA_DATA(attr), sizeof(seen.mac));
	return mk_port_of(&seen, NULL, NULL);
}

/* Chains stop using a port that is gone in this turn; a new one is not ready yet. */
static void see_port(const struct agent_rtnl *rtnl, const struct nlmsghdr *message)
{
	if (is_port(message))
		mk_core_mark(rtnl->core, MK_UNSURE_PORTS,
			     message->nlmsg_type == RTM_DELLINK ? 0 : SETTLE_MS);
}

/* FDB entries of the VXLAN devices, and neighbours. */
static void see_neighbour(struct agent_rtnl *rtnl, const struct nlmsghdr *message)
{
	const struct ndmsg *entry = NLMSG_DATA(message);
	const struct mk_devices *devices = &rtnl->node->devices;

	if (entry->ndm_ifindex == devices->overlay_ifindex ||
	    entry->ndm_ifindex == devices->sfc_ifindex ||
	    entry->ndm_ifindex == devices->cluster_ifindex ||
	    entry->ndm_ifindex == devices->wg_peer_ifindex)
		look_at_overlay(rtnl);
}

/* Copy an attribute of a route, if it has @size bytes. */
static void get(const struct nlmsghdr *message, unsigned short type, void *value, size_t size)
{
	const struct rtattr *attr = RTM_RTA(NLMSG_DATA(message));
	int left = (int)RTM_PAYLOAD(message);

	for (; RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
		if (attr->rta_type == type && RTA_PAYLOAD(attr) == size)
			memcpy(value, RTA_DATA(attr), size);
}

static int device_of_route(const struct nlmsghdr *message)
{
	int ifindex = 0;

	get(message, RTA_OIF, &ifindex, sizeof(ifindex));
	return ifindex;
}

/* Does the route have the destination of one of ours, which it may have replaced? */
static bool is_to_ours(const struct agent_rtnl *rtnl, const struct nlmsghdr *message)
{
	const struct rtmsg *header = NLMSG_DATA(message);
	struct mk_cidr dst = { .ip.family = header->rtm_family,
			       .prefix_bits = header->rtm_dst_len };

	get(message, RTA_DST, &dst.ip.v6, mk_ip_bits(header->rtm_family) / 8);
	return mk_overlay_has_route(rtnl->core->overlay, &dst);
}

/* A routing daemon changes many routes. While the host's routing is asked for each packet anyway, a
 * route by a known uplink changes nothing here. */
static void see_route_of_host(struct agent_rtnl *rtnl, const struct nlmsghdr *message)
{
	const struct rtmsg *header = NLMSG_DATA(message);
	const struct mk_own_node *node = rtnl->node;

	if (header->rtm_dst_len == 0 ||
	    !node->uplinks.ask_host[mk_family_index(header->rtm_family)] ||
	    !mk_own_uplinks_contain(&node->uplinks, device_of_route(message)))
		look_again(rtnl, false);
	else if (message->nlmsg_type == RTM_DELROUTE)
		rtnl->core->unsure |=
			MK_UNSURE_NODE; /* perhaps routing need not be asked any more: no hurry */
}

static void see_route(struct agent_rtnl *rtnl, const struct nlmsghdr *message)
{
	const struct rtmsg *header = NLMSG_DATA(message);
	bool was_ours = header->rtm_protocol == MK_RTPROT && message->nlmsg_type == RTM_DELROUTE;

	if (was_ours || is_to_ours(rtnl, message))
		look_at_overlay(rtnl);
	if (!was_ours)
		see_route_of_host(rtnl, message);
}

/* A removed address takes along the routes that have it as source. */
static void see_message(struct agent_rtnl *rtnl, const struct nlmsghdr *message)
{
	const struct ifinfomsg *link = NLMSG_DATA(message);

	switch (message->nlmsg_type) {
	case RTM_DELLINK:
		agent_pods_device_gone(rtnl->pods, message);
		/* fall through */
	case RTM_NEWLINK:
		agent_pods_device_changed(rtnl->pods, message);
		see_port(rtnl, message);
		if (is_ours(rtnl, link->ifi_index))
			look_again(rtnl, true);
		break;
	case RTM_DELADDR:
		look_again(rtnl, true);
		break;
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
		see_route(rtnl, message);
		break;
	case RTM_NEWADDR:
	case RTM_NEWRULE:
	case RTM_DELRULE:
		look_again(rtnl, false);
		break;
	case RTM_DELNEIGH:
		see_neighbour(rtnl, message);
		break;
	case RTM_DELQDISC:
	case RTM_NEWTFILTER:
	case RTM_DELTFILTER:
		agent_hooks_changed(rtnl->hooks, rtnl->core,
				    ((const struct tcmsg *)NLMSG_DATA(message))->tcm_ifindex);
		break;
	default:
		break;
	}
}

static void on_change(uv_poll_t *poll, int status, int events)
{
	struct agent_rtnl *rtnl = poll->data;
	_Alignas(struct nlmsghdr) char buf[16384];
	ssize_t size;
	int fd;

	(void)status;
	(void)events;
	if (uv_fileno((uv_handle_t *)poll, &fd) < 0)
		return;
	for (;;) {
		size = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (size < 0 && errno == EINTR)
			continue;
		if (size < 0 && errno == ENOBUFS) {
			look_again(rtnl, true);
			agent_hooks_changed(rtnl->hooks, rtnl->core, 0);
			mk_core_mark(rtnl->core, MK_UNSURE_PORTS, SETTLE_MS);
			rtnl->pods->devices_unsure = true;
		} else if (size <= 0)
			return;
		for (const struct nlmsghdr *message = (const void *)buf;
		     size > 0 && NLMSG_OK(message, size); message = NLMSG_NEXT(message, size))
			see_message(rtnl, message);
	}
}

#define HEADER(field)  offsetof(struct nlmsghdr, field)
#define ROUTE(field)   (NLMSG_HDRLEN + offsetof(struct rtmsg, field))
#define LOAD(size, at) BPF_STMT(BPF_LD | BPF_##size | BPF_ABS, (__u32)(at))
/* Skip @yes instructions if equal, otherwise @no. */
#define EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (__u32)(value), yes, no)

/* Filter in the kernel, so that pods' starts, Services and the host's neighbours do not overrun the
 * socket's buffer. Routes of others pass, except in table local, which holds the routes of
 * addresses. Our own routes pass only if another process than @port removes them. Neighbours and
 * qdiscs pass when removed. All filters pass, since they are replaced in one step. BPF loads are
 * big-endian. */
static int only_what_matters(int fd, uint32_t port, bool ipv6)
{
	struct sock_filter filter[] = {
		LOAD(H, HEADER(nlmsg_type)),
		EQUAL(htons(RTM_NEWLINK), 22, 0),
		EQUAL(htons(RTM_DELLINK), 21, 0),
		EQUAL(htons(RTM_NEWADDR), 20, 0),
		EQUAL(htons(RTM_DELADDR), 19, 0),
		EQUAL(htons(RTM_DELNEIGH), 18, 0),
		EQUAL(htons(RTM_DELQDISC), 17, 0),
		EQUAL(htons(RTM_NEWTFILTER), 16, 0),
		EQUAL(htons(RTM_DELTFILTER), 15, 0),
		EQUAL(htons(RTM_NEWRULE), 14, 0),
		EQUAL(htons(RTM_DELRULE), 13, 0),
		EQUAL(htons(RTM_NEWROUTE), 5, 0),
		EQUAL(htons(RTM_DELROUTE), 0, 12),
		LOAD(B, ROUTE(rtm_protocol)), /* a removed route */
		EQUAL(MK_RTPROT, 0, 4),
		LOAD(W, HEADER(nlmsg_pid)),
		EQUAL(htonl(port), 8, 7),
		LOAD(B, ROUTE(rtm_protocol)), /* a new route */
		EQUAL(MK_RTPROT, 6, 0),
		LOAD(B, ROUTE(rtm_table)),
		EQUAL(RT_TABLE_LOCAL, 4, 0),
		LOAD(B, ROUTE(rtm_family)),
		EQUAL(AF_INET, 1, 0),
		EQUAL(ipv6 ? AF_INET6 : AF_INET, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = { MK_ARRAY_SIZE(filter), filter };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static uint32_t groups(bool ipv6)
{
	const uint32_t always = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE |
				RTMGRP_IPV4_RULE | RTMGRP_NEIGH | RTMGRP_TC;

	if (!ipv6)
		return always;
	return always | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE | 1U << (RTNLGRP_IPV6_RULE - 1);
}

int agent_rtnl_start(struct agent_rtnl *rtnl, struct mk_error *err)
{
	const struct mk_config *config = &rtnl->core->config;
	bool ipv6 = mk_config_has(config, AF_INET6) || config->underlay_family == AF_INET6;
	struct sockaddr_nl local = { .nl_family = AF_NETLINK, .nl_groups = groups(ipv6) };
	cleanup_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int ret;

	if (fd < 0 || only_what_matters(fd, mk_nl_port(rtnl->core->nl), ipv6) < 0 ||
	    bind(fd, (struct sockaddr *)&local, sizeof(local)) < 0)
		return mk_error_errno(err, errno, "cannot listen for changes of interfaces");
	ret = uv_poll_init(&rtnl->core->loop, &rtnl->poll, fd);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot listen for changes of interfaces");
	rtnl->poll.data = rtnl;
	rtnl->started = true;
	mk_steal_fd(&fd); /* closed by agent_rtnl_stop() */
	uv_poll_start(&rtnl->poll, UV_READABLE, on_change);
	return 0;
}

void agent_rtnl_stop(struct agent_rtnl *rtnl)
{
	int fd;

	if (!rtnl->started)
		return;
	if (uv_fileno((uv_handle_t *)&rtnl->poll, &fd) == 0) {
		uv_poll_stop(&rtnl->poll);
		close(fd);
	}
	rtnl->started = false;
}

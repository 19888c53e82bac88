// SPDX-License-Identifier: Apache-2.0
/* rtnetlink's notifications: not what changed, only that something did that matters here. What the
 * node has is compared with the kernel anyway, and an overrun of the socket loses nothing. Pods'
 * interfaces come and go all the time and are none of the agent's business. */
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"

/* A burst of pods starting is one look. */
#define SETTLE_MS 50

static void look_again(struct mk_agent *agent, bool routes_too)
{
	agent->node_dirty = true;
	if (routes_too) {
		mk_overlay_refresh(agent->overlay);
		agent->overlay_dirty = true;
	}
	mk_agent_schedule(agent, SETTLE_MS);
}

/* While something is waited for, any interface may be it. */
static bool is_ours(const struct mk_agent *agent, int ifindex)
{
	const struct agent_node *node = &agent->node;

	return !agent->datapath || agent->node_waits || ifindex == node->uplink.ifindex ||
	       ifindex == node->devices.host_ifindex ||
	       ifindex == node->devices.host_peer_ifindex ||
	       ifindex == node->devices.overlay_ifindex;
}

/* An address that goes takes the routes along that have it as source. */
static void see_message(struct mk_agent *agent, const struct nlmsghdr *message)
{
	const struct ifinfomsg *link = NLMSG_DATA(message);

	switch (message->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		if (is_ours(agent, link->ifi_index))
			look_again(agent, true);
		break;
	case RTM_NEWADDR:
		look_again(agent, false);
		break;
	case RTM_DELADDR:
		look_again(agent, true);
		break;
	default:
		break;
	}
}

static void on_change(uv_poll_t *poll, int status, int events)
{
	struct mk_agent *agent = poll->data;
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
		if (size < 0 && errno == ENOBUFS)
			look_again(agent, true);
		else if (size <= 0)
			return;
		for (const struct nlmsghdr *message = (const void *)buf;
		     size > 0 && NLMSG_OK(message, size); message = NLMSG_NEXT(message, size))
			see_message(agent, message);
	}
}

int mk_agent_monitor_start(struct mk_agent *agent, struct mk_error *err)
{
	struct sockaddr_nl local = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR,
	};
	cleanup_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int ret;

	if (fd < 0 || bind(fd, (struct sockaddr *)&local, sizeof(local)) < 0)
		return mk_error_errno(err, errno, "cannot listen for changes of interfaces");
	ret = uv_poll_init(&agent->loop, &agent->monitor, fd);
	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot listen for changes of interfaces");
	agent->monitor.data = agent;
	agent->has_monitor = true;
	mk_steal_fd(&fd); /* closed by mk_agent_monitor_stop() */
	uv_poll_start(&agent->monitor, UV_READABLE, on_change);
	return 0;
}

void mk_agent_monitor_stop(struct mk_agent *agent)
{
	int fd;

	if (!agent->has_monitor)
		return;
	if (uv_fileno((uv_handle_t *)&agent->monitor, &fd) == 0) {
		uv_poll_stop(&agent->monitor);
		close(fd);
	}
	agent->has_monitor = false;
}

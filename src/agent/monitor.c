// SPDX-License-Identifier: Apache-2.0
/* rtnetlink's notifications: not what changed, only that something did. Everything is compared
 * with the kernel anyway, and an overrun of the socket loses nothing that way. */
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"

/* A burst of pods starting is one look. */
#define SETTLE_MS 50

static void on_change(uv_poll_t *poll, int status, int events)
{
	struct mk_agent *agent = poll->data;
	char buf[16384];
	int fd;

	(void)status;
	(void)events;
	if (uv_fileno((uv_handle_t *)poll, &fd) < 0)
		return;
	while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) >= 0 || errno == ENOBUFS || errno == EINTR)
		;
	agent->node_dirty = true;
	mk_overlay_refresh(agent->overlay);
	agent->overlay_dirty = true;
	mk_agent_schedule(agent, SETTLE_MS);
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

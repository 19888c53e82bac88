// SPDX-License-Identifier: Apache-2.0
/* Pods' devices that another process deleted: report each once. The runtime has to create such a
 * pod again. */
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/log.h"
#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/lost_devices.h"

/* Keep the pod's name from the kernel's last message about its device: nothing else has it. */
void agent_device_gone(struct mk_agent *agent, const struct nlmsghdr *message)
{
	const struct ifinfomsg *link = NLMSG_DATA(message);
	struct agent_gone_device *gone =
		&agent->gone_devices[agent->gone_device_count % MK_GONE_DEVICES];
	int size = (int)IFLA_PAYLOAD(message);

	*gone = (struct agent_gone_device){ .ifindex = (uint32_t)link->ifi_index };
	for (const struct rtattr *attr = IFLA_RTA(link); RTA_OK(attr, size);
	     attr = RTA_NEXT(attr, size))
		if (attr->rta_type == IFLA_IFALIAS)
			snprintf(gone->pod, sizeof(gone->pod), "%.*s", (int)RTA_PAYLOAD(attr),
				 (const char *)RTA_DATA(attr));
	agent->gone_device_count++;
	agent->pods_unsure = true;
}

static const char *pod_of(const struct mk_agent *agent, uint32_t ifindex)
{
	for (size_t i = 0; i < MK_GONE_DEVICES; i++)
		if (agent->gone_devices[i].ifindex == ifindex)
			return agent->gone_devices[i].pod;
	return "";
}

struct look {
	struct mk_agent *agent;
	struct mk_ip *lost; /* in this look */
	size_t count;
};

static bool was_said(const struct mk_agent *agent, const struct mk_ip *ip)
{
	for (size_t i = 0; i < agent->lost_count; i++)
		if (mk_ip_equal(&agent->lost[i], ip))
			return true;
	return false;
}

static void see_lost(void *ctx, const struct mk_ip *ip, const struct mk_pod *entry,
		     const struct mk_ipam_owner *owner)
{
	struct look *look = ctx;
	struct mk_ip *bigger = realloc(look->lost, (look->count + 1) * sizeof(*bigger));
	char device[IFNAMSIZ], text[MK_IP_STRLEN];

	if (!bigger)
		return;
	look->lost = bigger;
	look->lost[look->count++] = *ip;
	if (was_said(look->agent, ip))
		return;
	mk_cni_host_name(look->agent->config.veth_prefix, owner->container_id, owner->ifname,
			 device);
	mk_log_warn(
		"a pod's device was deleted by another process, so the pod has no network: delete the pod, so that it is created again pod=%s ip=%s device=%s container=%s",
		pod_of(look->agent, entry->ifindex), mk_ip_format(ip, text), device,
		owner->container_id);
}

void agent_look_for_lost_pods(struct mk_agent *agent)
{
	struct look look = { .agent = agent };
	struct mk_error err = { 0 };
	int ret;

	if (!agent->pods_unsure && !agent->lost_count)
		return;
	ret = mk_cni_each_lost_pod(agent->config.state_dir, agent->config.bpf_dir, see_lost, &look,
				   &err);
	if (ret < 0) {
		free(look.lost);
		if (ret != -EWOULDBLOCK)
			mk_log_error("cannot look for pods' devices: %s", mk_error_text(&err));
		return;
	}
	agent->pods_unsure = false;
	free(agent->lost);
	agent->lost = look.lost;
	agent->lost_count = look.count;
}

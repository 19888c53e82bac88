/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/pods.h - the pods of this node, which the CNI plugin attached: their entries, host
 * ports, devices and addresses. */
#ifndef MK_AGENT_PODS_H
#define MK_AGENT_PODS_H

#include <linux/netlink.h>

#include "agent/node/own_node.h"

#define MK_GONE_DEVICES 16

/* A deleted device and its pod; "": no pod. */
struct agent_gone_device {
	uint32_t ifindex;
	char pod[256];
};

struct agent_pods {
	bool devices_unsure; /* a pod's device may be gone */
	struct agent_gone_device gone[MK_GONE_DEVICES]; /* the latest ones */
	size_t gone_count;
	struct mk_ip *lost; /* addresses of pods without a device, as last logged */
	size_t lost_count;
	bool some_down; /* a device was set down since the last look, maybe a pod's */
	int pause; /* looks at entries to be left out */
	size_t host_ports; /* entries at the last look; SIZE_MAX: not known */
	bool index_repaired; /* of addresses */
	uint64_t reaped; /* addresses, since the start */
};

/* Note a deleted device (RTM_DELLINK). */
void agent_pods_device_gone(struct agent_pods *pods, const struct nlmsghdr *message);
/* Log once each existing pod whose device another process deleted. The runtime has to create such a
 * pod again. */
mk_must_check int agent_pods_reconcile_devices(struct agent_pods *pods,
					       const struct mk_config *config,
					       struct mk_error *err);
/* Note a device that was set down (RTM_NEWLINK). Set pods' devices up again; returns how many. */
void agent_pods_device_changed(struct agent_pods *pods, const struct nlmsghdr *message);
mk_must_check int agent_pods_reconcile_down(struct agent_pods *pods, struct mk_nl *nl,
					    const struct mk_config *config, struct mk_error *err);
/* Restore entries of map pods; of map host_ports. Returns how many. */
mk_must_check int agent_pods_reconcile_entries(struct agent_pods *pods,
					       const struct mk_config *config,
					       struct mk_error *err);
mk_must_check int agent_pods_reconcile_host_ports(struct agent_pods *pods,
						  const struct mk_config *config,
						  struct mk_error *err);
/* Release addresses of containers that are gone, and send an Event while pods have addresses
 * outside the node's pod CIDR. */
mk_must_check int agent_pods_reconcile_addresses(struct agent_pods *pods,
						 const struct mk_own_node *node,
						 struct mk_error *err);

#endif

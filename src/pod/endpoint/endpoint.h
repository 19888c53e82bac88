/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/endpoint.h - a pod's attachment to the network: veth pair, address, table
 * entries. The container id and the interface name are sufficient to find it. The address directory
 * has the address, and the name of the host's end is computed.
 *
 * Every verb keeps this order: allocate the address before making anything else, release it after
 * removing everything else. So the directory knows the owner of every part at any instant, and DEL
 * or garbage collection finds it. Host ports are mapped last and unmapped first.
 *
 * Order of locks: the datapath (struct mk_pods), the directory, the host ports. The directory's
 * lock is not held during netlink requests, unless address files were lost. */
#ifndef MK_POD_ENDPOINT_ENDPOINT_H
#define MK_POD_ENDPOINT_ENDPOINT_H

#include <net/if.h>

#include "base/netlink/netlink.h"
#include "datapath/pods/pods.h"
#include "pod/request/conf.h"
#include "monokube/abi.h"

/* Compute the name of the host's end: @prefix and a hash of the owner, 11 characters. */
void mk_cni_host_name(const char *prefix, const char *container_id, const char *ifname,
		      char name[IFNAMSIZ]);
/* Is @link the host's end of a pod's pair? A device with another prefix counts too, because
 * vethPairNamePrefix may have changed after the pod's ADD. */
bool mk_cni_is_pod_device(const char *prefix, const struct mk_link *link);
/* Is this pod device the owner's? */
bool mk_cni_is_device_of(const struct mk_link *link, const char *container_id, const char *ifname);
/* Find the owner's device, whatever its prefix. -ENODEV: none. */
mk_must_check int mk_cni_device_find(struct mk_nl *nl, const char *prefix, const char *container_id,
				     const char *ifname, struct mk_link *link,
				     struct mk_error *err);

/* The handles of a verb that changes something. */
struct mk_cni_node {
	const char *veth_prefix, *state_dir, *bpf_dir;
	struct mk_nl *nl; /* the host's namespace */
	struct mk_pods *pods; /* NULL: the datapath is not loaded, so there are no entries */
	struct mk_host_ports *host_ports; /* NULL: not opened yet; see mk_cni_host_ports() */
};

/* Open netlink and the pods' table. A datapath that is not loaded is no error here. */
mk_must_check int mk_cni_node_open(struct mk_cni_node *node, const struct mk_cni_conf *conf,
				   struct mk_error *err);
void mk_cni_node_release(struct mk_cni_node *node);
#define cleanup_cni_node __attribute__((cleanup(mk_cni_node_release)))

/* Does a live pod device have @ip, or its slot in map pods (src/datapath/pods/pod_table.h)? This
 * finds addresses whose files have been removed. Returns 1, 0 or an error. */
mk_must_check int mk_cni_address_is_alive(const struct mk_cni_node *node, const struct mk_ip *ip,
					  struct mk_error *err);
struct mk_ipam;
/* Reserve such an address (mk_ipam_hold()) and log it. */
mk_must_check int mk_cni_address_hold(struct mk_ipam *ipam, const struct mk_ip *ip,
				      struct mk_error *err);

/* Remove every part of an endpoint. Returns 0 also if there is none. */
mk_must_check int mk_cni_endpoint_remove(struct mk_cni_node *node, const char *container_id,
					 const char *ifname, struct mk_error *err);

/* MTU of both ends of a pod's veth pair: the largest that a veth accepts. Pods of one node then
 * exchange whole buffers instead of wire-sized segments. The mtu of the pod's routes limits the
 * packets that leave the node. */
#define MK_POD_DEVICE_MTU_BYTES 65535

/* Return the MTU of a pod's default route in @family: the uplink's. The configuration's `mtu` is
 * the overlay's. Linux fragments what is too big for an overlay over IPv4, but not over IPv6.
 * So IPv4 over IPv6 has the overlay's MTU, because its packets may go to a Service. */
uint32_t mk_cni_default_mtu(const struct mk_cni_conf *conf, sa_family_t family);

/* Compute the pod's routes to @network, in the order in which they are made. Each has the MTU of
 * its path:
 * 1. to the gateway;
 * 2. to all pods: the overlay's MTU;
 * 3. to the pods of this node: the device's MTU;
 * 4. to the virtual pod address, whose packets leave by the uplink: the uplink's MTU;
 * 5. the default route, last: the uplink's MTU.
 *
 * If another interface has the default route, this interface is a further one (Multus). Then its
 * routes are in a separate table, used only for packets with its address as source. @table is 0 or
 * mk_cni_pod_table(). */
#define MK_POD_ROUTES 5 /* of each family */
void mk_cni_pod_routes(const struct mk_cni_conf *conf, const struct mk_cni_network *network,
		       int ifindex, uint32_t table, struct mk_nl_route routes[MK_POD_ROUTES]);
uint32_t mk_cni_pod_table(int ifindex);
/* Does an interface other than @ifindex have a default route of a family of @conf? Returns 1, 0 or
 * an error. */
mk_must_check int mk_cni_is_further(struct mk_nl *pod_nl, const struct mk_cni_conf *conf,
				    int ifindex, struct mk_error *err);
/* Are the tables of all families of @conf pinned? Otherwise *@family is one whose are not. */
bool mk_cni_has_families(const struct mk_pods *pods, const struct mk_cni_conf *conf,
			 sa_family_t *family);
/* Return a file descriptor of the container's network namespace. */
mk_must_check int mk_cni_netns_open(const char *path, struct mk_cni_failure *failure);
/* Open a netlink socket in the namespace @netns_fd, and return to that of @home. Errors name @path.
 * Returns NULL with *@failure on error, also if the namespace is the host's own. */
struct mk_nl *mk_cni_netns_nl(const struct mk_nl *home, const char *path, int netns_fd,
			      struct mk_cni_failure *failure);

/* Which sets of policies (struct mk_pod_policy) a pod has, by network of the configuration. */
struct mk_cni_policies {
	uint64_t sets[MK_FAMILIES][MK_POLICY_DIRECTIONS];
};
/* Find those of a new pod. If they are not known, wait at most 500 ms for a running agent. If they
 * stay unknown, the pod is pending, and the log says why. Waiting reopens node->pods. */
mk_must_check int mk_cni_policies_find(struct mk_cni_node *node, const struct mk_cni_conf *conf,
				       const struct mk_cni_pod *pod,
				       struct mk_cni_policies *policies, struct mk_error *err);

/* ADD: create the endpoint, print the result. A failure leaves nothing behind. */
mk_must_check int mk_cni_add(const struct mk_cni_args *args, struct mk_cni_conf *conf,
			     struct mk_cni_failure *failure);
/* CHECK: fail with a list of everything that is missing or wrong. */
mk_must_check int mk_cni_check(const struct mk_cni_args *args, struct mk_cni_conf *conf,
			       struct mk_cni_failure *failure);
/* GC: remove every endpoint that is not in the list of valid attachments. */
mk_must_check int mk_cni_gc(const struct mk_cni_args *args, struct mk_cni_conf *conf,
			    struct mk_cni_failure *failure);

/* The capability bandwidth: limits for what a pod receives and sends. */

/* Rate 0: no limit. */
struct mk_cni_bandwidth {
	struct mk_nl_tbf ingress; /* to the pod: a qdisc of the host's end */
	struct mk_nl_tbf egress; /* from the pod: a qdisc of the pod's end */
};

/* Read ingressRate, ingressBurst, egressRate and egressBurst (bits) from the configuration itself.
 * If it has none of them, read runtimeConfig.bandwidth, as the reference plugin does. Pure. */
mk_must_check int mk_cni_bandwidth_read(struct mk_cni_bandwidth *bandwidth,
					const struct mk_cni_conf *conf,
					struct mk_cni_failure *failure);

/* The traffic that all pods have sent since the node's boot. The kernel counts per device, so
 * the programs need not count. A device's counts disappear with it, so the code that removes a
 * device adds them to map pods_gone. Counts are lost if the kernel removes a device together
 * with its network namespace, unless DEL removed the device first. */

/* Remove the host's end of a pod and save its counts. -ENODEV: no such device. */
mk_must_check int mk_pod_device_remove(struct mk_nl *nl, const char *bpf_dir,
				       const struct mk_link *link, struct mk_error *err);

/* Read the sum over current and removed devices. -ENOENT: the datapath is not loaded. */
mk_must_check int mk_pod_traffic_read(struct mk_nl *nl, const char *bpf_dir,
				      const char *veth_prefix, struct mk_pod_traffic *traffic,
				      struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/endpoint.h - a pod's attachment to the network: veth pair, address, table entries. It is
 * found again by container id and interface name alone: the address directory knows the address,
 * and the name of the host's end is computed.
 *
 * Order, kept by all: the address is allocated before anything else is made, and released after
 * everything else is gone. So whatever exists of an endpoint at any instant, the directory knows
 * its owner, and DEL or garbage collection finds it. A pod's host ports are mapped when everything
 * else is there, and unmapped before anything else goes. Locks: datapath first (struct mk_pods), then
 * the directory, the latter never across netlink requests unless address files were lost, then the host ports. */
#ifndef MK_CNI_ENDPOINT_H
#define MK_CNI_ENDPOINT_H

#include <net/if.h>

#include "base/netlink.h"
#include "cni/conf.h"
#include "datapath/pods.h"

/* The name of the host's end: @prefix and 11 characters computed from the owner. */
void mk_cni_host_name(const char *prefix, const char *container_id, const char *ifname,
		      char name[IFNAMSIZ]);
/* Could @name be the result of mk_cni_host_name() with this prefix? */
bool mk_cni_is_host_name(const char *prefix, const char *name);
/* Is @link the host's end of a pod's pair? Of another prefix, too: vethPairNamePrefix may have changed since
 * the pod came. */
bool mk_cni_is_pod_device(const char *prefix, const struct mk_link *link);
/* Is that the one of this owner? */
bool mk_cni_is_device_of(const struct mk_link *link, const char *container_id, const char *ifname);
/* The owner's device, whatever its prefix. -ENODEV: none. */
mk_must_check int mk_cni_device_find(struct mk_nl *nl, const char *prefix, const char *container_id,
				     const char *ifname, struct mk_link *link,
				     struct mk_error *err);

/* What every verb that changes something holds. */
struct mk_cni_node {
	const char *veth_prefix, *state_dir, *bpf_dir;
	struct mk_nl *nl; /* the host's namespace */
	struct mk_pods *pods; /* NULL: the datapath is not loaded, so there are no entries */
	struct mk_host_ports *host_ports; /* NULL: not opened yet; see mk_cni_host_ports() */
};

/* Open both; a datapath that is not loaded is no error here. */
mk_must_check int mk_cni_node_open(struct mk_cni_node *node, const struct mk_cni_conf *conf,
				   struct mk_error *err);
void mk_cni_node_release(struct mk_cni_node *node);
#define cleanup_cni_node __attribute__((cleanup(mk_cni_node_release)))

/* Address files may be lost: somebody removed them. Does a live device of ours have @ip, or its slot in map pods
 * (src/datapath/pod_table.h)? 1, 0 or an error. */
mk_must_check int mk_cni_address_is_alive(const struct mk_cni_node *node, const struct mk_ip *ip,
					  struct mk_error *err);
struct mk_ipam;
/* Then nobody else gets it (mk_ipam_hold()), and the log says so. */
mk_must_check int mk_cni_address_hold(struct mk_ipam *ipam, const struct mk_ip *ip,
				      struct mk_error *err);

/* Remove all there is of an endpoint; 0 also where there is nothing. */
mk_must_check int mk_cni_endpoint_remove(struct mk_cni_node *node, const char *container_id,
					 const char *ifname, struct mk_error *err);

/* MTU of both ends of a pod's veth pair, the most that a veth takes: pods of one node pass whole
 * buffers instead of pieces for a wire that is not there. What leaves the node is cut by the mtu of
 * the pod's routes. */
#define MK_POD_DEVICE_MTU_BYTES 65535

/* What a packet without the overlay's header may have: `mtu` is the overlay's. */
uint32_t mk_cni_underlay_mtu(const struct mk_cni_conf *conf);

/* The routes of a pod, in the order in which they are made, each with the MTU of that way: to the
 * gateway; to all pods, the overlay's; to the pods of this node, the device's; to the virtual pod
 * address, whose packets leave by the uplink, and for the rest, last, the uplink's.
 *
 * Where another interface has the default route this one is a further one (Multus): its routes are in a table of
 * its own, for packets with its address as source alone. @table is 0 or mk_cni_pod_table(). */
#define MK_POD_ROUTES 5
void mk_cni_pod_routes(const struct mk_cni_conf *conf, int ifindex, uint32_t table,
		       struct mk_nl_route routes[MK_POD_ROUTES]);
uint32_t mk_cni_pod_table(int ifindex);
/* Does another interface than @ifindex have a default route? 1, 0 or an error. */
mk_must_check int mk_cni_is_further(struct mk_nl *pod_nl, int ifindex, struct mk_error *err);
/* A file descriptor of the container's network namespace. */
mk_must_check int mk_cni_netns_open(const char *path, struct mk_cni_failure *failure);
/* Netlink in there, opened from where @home is; @path names it in errors. NULL with @failure, also
 * where it is the host's own. */
struct mk_nl *mk_cni_netns_nl(const struct mk_nl *home, const char *path, int netns_fd,
			      struct mk_cni_failure *failure);

/* ADD: create the endpoint, print the result. Nothing is left after a failure. */
mk_must_check int mk_cni_add(const struct mk_cni_args *args, struct mk_cni_conf *conf,
			     struct mk_cni_failure *failure);
/* CHECK: fails naming everything that is missing or wrong. */
mk_must_check int mk_cni_check(const struct mk_cni_args *args, struct mk_cni_conf *conf,
			       struct mk_cni_failure *failure);
/* GC: remove every endpoint that is not in the list of valid attachments. */
mk_must_check int mk_cni_gc(const struct mk_cni_args *args, struct mk_cni_conf *conf,
			    struct mk_cni_failure *failure);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/host/networks.h - the host's own networks, compared with the ranges that monokube uses. A
 * range that contains a network of the host would take over its addresses: the node would answer
 * for its own gateway, for example. */
#ifndef MK_HOST_NETWORKS_H
#define MK_HOST_NETWORKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/ip.h"
#include "base/netlink/netlink.h"

enum mk_network_kind {
	MK_NET_ADDRESS, /* of a device */
	MK_NET_ON_LINK, /* a route without a gateway */
	MK_NET_ROUTED, /* a route by a gateway */
	MK_NET_GATEWAY, /* of a default route */
	MK_NET_NODE, /* a Node's InternalIP */
	MK_NET_API_SERVER,
};

struct mk_network {
	struct mk_cidr cidr;
	enum mk_network_kind kind;
	char name[64]; /* of the device or the Node; "": none */
};

struct mk_networks {
	struct mk_network *list;
	size_t count;
	bool has_vtep; /* our VXLAN device has @vtep already: this node is or was at work */
};

/* Read the host's networks of @family, without loopback, without link-local networks of IPv6, and
 * without what monokube made. @vxlan_name: our
 * device; @vtep: the address it is to have, or NULL. mk_networks_release() in any case. */
mk_must_check int mk_networks_read(struct mk_nl *nl, sa_family_t family, const char *vxlan_name,
				   const struct mk_ip *vtep, struct mk_networks *networks,
				   struct mk_error *err);
mk_must_check int mk_networks_add(struct mk_networks *networks, enum mk_network_kind kind,
				  const struct mk_cidr *cidr, const char *name,
				  struct mk_error *err);
void mk_networks_release(struct mk_networks *networks);

/* A range that monokube uses, with the name of its setting. */
struct mk_own_range {
	const char *setting;
	struct mk_cidr cidr;
};

enum mk_overlap {
	MK_OVERLAP_NONE,
	MK_OVERLAP_REPORTED, /* works, but pods do not reach a part of it */
	MK_OVERLAP_REFUSED, /* would cut this node off */
};

/* Returns the worst overlap of all pairs. @why: both ranges and the remedy; unchanged for
 * MK_OVERLAP_NONE. Pure. */
enum mk_overlap mk_networks_judge(const struct mk_networks *networks,
				  const struct mk_own_range *ranges, size_t count,
				  struct mk_error *why);

#endif

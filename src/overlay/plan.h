/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/plan.h - which nodes the overlay connects, from the Node objects.
 * Each family has its own plan. Pure. */
#ifndef MK_OVERLAY_PLAN_H
#define MK_OVERLAY_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/ip.h"
#include "cluster/model/model.h"

struct mk_overlay_peer {
	char *node;
	struct mk_cidr pod_cidr; /* network address */
	struct mk_ip vtep;
	struct mk_mac vtep_mac;
	struct mk_ip underlay; /* the node's InternalIP of the underlay's family */
	bool ready; /* as the Node says; with the next: which of two keeps one InternalIP */
	int64_t created_unix_s; /* 0: unknown */
	struct mk_wg_public wireguard; /* with a port of 0 it has none */
	bool is_clear; /* the overlay's: with encryption, packets to it are not encrypted */
	/* The node is on the link of an uplink (agent/node/on_link.c); 0: it is not. */
	int link_ifindex;
	uint32_t link_mtu_bytes;
	struct mk_ip link_ip; /* its InternalIP of the pods' family, with link_ifindex */
	bool is_direct; /* .. and packets go there without VXLAN */
	bool is_tried; /* .. and probes go there (agent/node/link_probes.c) */
};

/* A node that the overlay leaves out; @reason completes "left out: ". */
struct mk_overlay_left_out {
	char *node, *reason; /* @node first, for mk_compare_texts() */
	bool wrong; /* an operator has to correct it; otherwise it resolves itself */
};

struct mk_overlay_plan {
	struct mk_overlay_peer *peers; /* sorted by pod CIDR */
	size_t peer_count;
	struct mk_overlay_left_out *left_out; /* sorted by node name */
	size_t left_out_count;
};

/* Which family's plan, for which node. Arrays are by mk_family_index(); AF_UNSPEC: no range. */
struct mk_overlay_view {
	const char *own_node;
	sa_family_t family; /* of the pod CIDRs, VTEPs and routes */
	sa_family_t primary; /* a node's MAC addresses come from its range of this family, if any */
	sa_family_t underlay_family; /* of the InternalIPs between which the overlay sends */
	struct mk_ip own_underlay;
	const struct mk_cidr *cluster_cidrs, *vtep_cidrs; /* the same on every node */
	const struct mk_cidr *own_pod_cidrs;
};

/* Plan for all nodes but the own one, ready or not. If pod CIDRs overlap, the node with
 * the lower range, then the lower name, keeps its own. If InternalIPs are equal, a ready node keeps
 * it, then the older one: a machine with another name leaves its former Node behind, and a Node of
 * another machine may name a lease that is over. This node's own take precedence over all others.
 */
mk_must_check int mk_overlay_plan_make(const struct mk_model *model,
				       const struct mk_overlay_view *view,
				       struct mk_overlay_plan *plan, struct mk_error *err);
void mk_overlay_plan_release(struct mk_overlay_plan *plan);

#endif

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* include/monokube/clusters.h - tables of other clusters (ClusterPeers), shared by user space and
 * programs. Clusters may have equal pod ranges. The wire carries home addresses, those that pods
 * have in their own clusters, and the numbers of both clusters. Each cluster sees the pods of
 * another one by a range of its own choice, the view. The sender translates the destination from
 * view to home, the receiver the source from home to view: one prefix is replaced by another, which
 * needs no state.
 *
 * What a user sees: manifests/CLUSTERS.md. */
#ifndef MONOKUBE_CLUSTERS_H
#define MONOKUBE_CLUSTERS_H

#include "abi.h"

#define MK_CLUSTERS	  1024
#define MK_CLUSTER_ROWS	  (2 * MK_CLUSTERS + 1) /* with those of external addresses */
#define MK_CLUSTER_PLACES 32 /* of a cluster, for addresses whose node is not known */
/* rows of all other clusters: 32768 nodes, and twice the places; and the one of a border node */
#define MK_CLUSTER_NODES      (32768 + 2 * MK_CLUSTERS * MK_CLUSTER_PLACES + 1)
#define MK_CLUSTER_CARRIERS   65536
#define MK_CLUSTER_NUMBER_MAX 0xffffffU /* a number has 24 bits; 0 is none */
/* The key of a cluster's external addresses: its number with this bit. */
#define MK_CLUSTER_EXTERNAL 0x1000000U

enum mk_cluster_flags {
	/* access: Pods. The other cluster may open flows to pods of this one. */
	MK_CLUSTER_ACCESS_PODS = 1 << 0,
	MK_CLUSTER_RELAYED = 1 << 1, /* relay: true. This cluster carries its packets to others. */
	/* access: Exports. It may open flows to what map exports has. ACCESS_PODS includes this. */
	MK_CLUSTER_ACCESS_EXPORTS = 1 << 2,
	/* This node is no border node. One of this cluster carries its packets to the other one. */
	MK_CLUSTER_BY_BORDER = 1 << 3,
};

/* Map clusters, a hash by __u32, the cluster's number. The agent writes it, programs read it.
 *
 * A cluster also has external addresses, which stand for targets that are no pods. They are in a
 * range of their own, which is seen by a view of its own. This range has a second row, with
 * MK_CLUSTER_EXTERNAL in its key, and so have this cluster's own external addresses. */
struct mk_cluster {
	/* networks of its pods or external addresses: there, and as this cluster sees them */
	struct mk_addr home, view;
	struct mk_addr mask; /* of both */
	/* The cluster whose nodes get its packets, as far as none of its own is known to be reached
	 * directly, and whose nodes may send them: its own number, or a hub's. */
	__u32 via; /* of external addresses with MK_CLUSTER_EXTERNAL, if their cluster is meant */
	/* Entries of map cluster_nodes with MK_CLUSTER_BY_INDEX: MK_CLUSTER_PLACES, or as many as
	 * an earlier version has written. 0: no node is known. */
	__u32 hop_count;
	__u16 mtu_bytes; /* of packets to it */
	/* The low bits of an address behind a node's pod CIDR: 8 for 10.244.1.0/24. The fewest, if
	 * pod CIDRs differ in size. 0: no node is known, or all are reached by a hub. */
	__u8 host_bits;
	__u8 flags; /* enum mk_cluster_flags */
};
_Static_assert(sizeof(struct mk_cluster) == MK_BY_FAMILY(24, 60), "map value ABI");

/* Map cluster_nodes, a hash: which nodes get packets to a cluster. The value is the number of a hop
 * (struct mk_cluster_dest), with MK_CLUSTER_HOP_TRIAL if only probes go there. There are two kinds
 * of keys: the cluster and the number of the node that has the pod (mk_node_number() of the home
 * address), and mk_cluster.via and a place, 0 to mk_cluster.hop_count - 1, for addresses whose node
 * is not known. So a node that is reached directly has a row, although a hub gets the packets to
 * the others. External addresses of a cluster have places of their own: their flows have sessions,
 * so they leave a silent node later than others (MK_PROBES_GONE). */
struct mk_cluster_node_key {
	__u32 cluster;
	__u32 index; /* a node's number, or MK_CLUSTER_BY_INDEX | place */
};
#define MK_CLUSTER_BY_INDEX 0x80000000U
/* With MK_CLUSTER_BY_BORDER: this cluster's number and MK_CLUSTER_BY_INDEX have as value the last
 * four bytes of the border node's VTEP MAC address. The others are equal at all nodes. */
/* In a value: whether the node is reached directly is not known, so a hub gets its packets. */
#define MK_CLUSTER_HOP_TRIAL 0x10000U
/* In a value: the node gets packets by WireGuard only. */
#define MK_CLUSTER_HOP_ENCRYPTED 0x20000U
_Static_assert(sizeof(struct mk_cluster_node_key) == 8, "map key ABI");

/* Map cluster_carriers, a hash by struct mk_far_addr: the addresses of other clusters' nodes, from
 * which their packets come. The value is the number of the cluster (__u32). The uplink's programs
 * drop packets of any other sender, and those whose source names a cluster that is neither the
 * sender's nor reached by it (mk_cluster.via). So at mkpeer the source's number can be trusted.
 * With MK_CLUSTER_CARRIER_ENCRYPTED the node's packets come by WireGuard only, which proves the
 * address. Program `wireguard_in` then checks them in the same way. */
#define MK_CLUSTER_CARRIER_ENCRYPTED 0x80000000U

/* Map exports, a hash. Which endpoints a cluster with MK_CLUSTER_ACCESS_EXPORTS may reach by this
 * node: those of exported Services. The value is the target of an external address (struct
 * mk_addr), or zeros. The agent writes it, programs read it. Answers of a pod need no session while
 * it has an entry. */
#define MK_EXPORTS 65536
struct mk_export {
	struct mk_addr addr; /* of a pod of this node, or an external address */
	__be16 port; /* the endpoint's; 0: pings */
	__u8 proto; /* IPPROTO_TCP, UDP or SCTP; pings: MK_PROTO_ANY */
	__u8 pad;
};
_Static_assert(sizeof(struct mk_export) == MK_BY_FAMILY(8, 20), "map key ABI");

/* ---- on the wire ----------------------------------------------------------------------------- */

/* A VXLAN device of its own, mkpeer, on the overlay's port. Its frames have these addresses, which
 * are local unicast MAC addresses. The receiver ignores `hop`. The sender's FDB has an entry for
 * each destination address that its programs use. */
#define MK_CLUSTER_VNI	     3
#define MK_CLUSTER_WG_VNI    4 /* of mkwgpeer: the same frames, inside WireGuard */
#define MK_CLUSTER_WIRE	     1 /* version of the format */
#define MK_CLUSTER_MAC_LOCAL 0x06

struct mk_cluster_source {
	__u8 local; /* MK_CLUSTER_MAC_LOCAL */
	__u8 cluster[3]; /* the number of the sender's cluster, in network order */
	__u8 version; /* MK_CLUSTER_WIRE */
	__u8 pad;
};

struct mk_cluster_dest {
	__u8 local; /* MK_CLUSTER_MAC_LOCAL */
	__u8 cluster[3]; /* the number of the cluster that has the destination, in network order */
	__u8 hop[2]; /* the number of the node that gets the frame, in network order */
};
_Static_assert(sizeof(struct mk_cluster_source) == 6, "a MAC address");
_Static_assert(sizeof(struct mk_cluster_dest) == 6, "a MAC address");

static inline __attribute__((always_inline)) __u32 mk_cluster_number_at(const __u8 bytes[3])
{
	return (__u32)bytes[0] << 16 | (__u32)bytes[1] << 8 | bytes[2];
}

/* A probe asks whether a node of another cluster answers: a UDP packet in the overlay, from this
 * node's virtual pod address to that of the other node, at MK_PROBE_PORT. Program `cluster_in` of
 * that node swaps addresses and ports, and sends it back otherwise unchanged. It does so whatever
 * `access` says, and for later versions. A padded probe finds out whether packets of its length
 * pass, so it is sent even if it is larger than mtu_bytes of the row.
 *
 * Nodes of one cluster also send probes, from their overlay addresses; program `router` answers. A
 * probe in VXLAN asks whether a border node lives. A probe without asks whether the link carries
 * such packets.
 *
 * UDP port 7 is that of the Echo Protocol (RFC 862). No session has a port below 1024 at a virtual
 * pod address, so the port is free. An answer comes from it, so it is never answered itself. */
#define MK_PROBE_PORT	    7
#define MK_PROBE_SOURCE_MIN 1024 /* lower source ports get no answer */
#define MK_PROBE_MAGIC	    0x6d6b7062U /* "mkpb" */
#define MK_PROBE_VERSION    1

/* The payload; zeros follow in a padded probe. */
struct mk_probe_packet {
	__be32 magic; /* MK_PROBE_MAGIC */
	__u8 version; /* MK_PROBE_VERSION */
	/* In an answer 1: its sender gets frames with the VTEP MAC address of the node that asks
	 * (bpf/direct_return.h). In a question 0. */
	__u8 sees_asker;
	__u8 pad[2]; /* 0 */
	__u64 nonce; /* the sender's, in its byte order: an answer brings back the same bytes */
};
_Static_assert(sizeof(struct mk_probe_packet) == 16, "all versions begin with it");

/* ---- counters -------------------------------------------------------------------------------- */

/* Map cluster_counters, a per-CPU hash by __u32, the cluster's number. The agent adds and removes
 * entries; programs count if there is one. */
struct mk_cluster_counters {
	__u64 packets[2],
		bytes[2]; /* [0]: to the cluster, [1]: from it. IP packets, without the tunnel */
};
_Static_assert(sizeof(struct mk_cluster_counters) == 32, "map value ABI");

#endif

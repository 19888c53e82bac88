/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusters/clusters.h - other clusters as rows of tables: numbers, views, nodes, hops. Pure: no
 * I/O, no kernel, no globals.
 *
 * One family per call. What is wrong with a peer is a reason at that peer, and concerns no
 * other. */
#ifndef MK_CLUSTERS_CLUSTERS_H
#define MK_CLUSTERS_CLUSTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/clusters.h"
#include "base/error.h"
#include "base/ip.h"
#include "base/netlink/wireguard.h"

/* Names of peers for the command line, in the agent's state directory (JSON). */
#define MK_CLUSTER_NAMES_FILE	 "peers.json"
#define MK_CLUSTER_NAMES_VERSION 1

/* The number of the cluster @name: the low 24 bits of the CRC-32C of its name; 0 becomes 1. */
uint32_t mk_cluster_number(const char *name);

/* A node of a peer, from its PublishedNode. Texts belong to the caller. */
struct mk_clusters_node {
	const char *name;
	struct mk_cidr pod_cidr; /* of the family of the call; AF_UNSPEC: none */
	struct mk_ip address; /* the carrier's, of the underlay's family; AF_UNSPEC: none */
	uint16_t port; /* UDP, of its overlay; 0: as this cluster's */
	struct mk_wg_public wireguard; /* with a port of 0 it has none */
	bool is_gone; /* its PublishedNode is; what others have in common with it is theirs */
};

/* How packets get to a peer that is reached by a hub. Whichever it is, both the hub's nodes and its
 * own may send them, so each side can change its choice at any time. */
enum mk_clusters_path {
	MK_CLUSTERS_PATH_HUB,
	MK_CLUSTERS_PATH_AUTO, /* to each node directly that mk_clusters_own.is_direct() */
	MK_CLUSTERS_PATH_DIRECT, /* to all nodes */
};

/* A ClusterPeer with what it has published. Texts and nodes belong to the caller. */
struct mk_clusters_peer {
	const char *name;
	int64_t created_unix_s; /* of two peers with one number, view or address the older one wins,
				 * then the first by name; 0: unknown, as if it were the oldest */
	bool is_published; /* there is a PublishedCluster of it; false: the next members say nothing */
	bool is_gone; /* .. it is not there any more, but still counts */
	bool speaks_wire; /* its wireVersions have MK_CLUSTER_WIRE */
	uint32_t number; /* as published; 0: mk_cluster_number() */
	struct mk_cidr home; /* its published pod range; AF_UNSPEC: nothing of this family */
	struct mk_cidr external_home; /* .. and that of its external addresses */
	/* From the ClusterPeer: */
	const char *via; /* the peer by which it is reached; NULL: by its own nodes */
	enum mk_clusters_path path; /* if it has @via */
	struct mk_cidr view; /* spec.podCidr of this family; AF_UNSPEC: none. Same: as @home */
	struct mk_cidr external_view; /* of its external addresses; AF_UNSPEC: none */
	bool access_pods; /* access: Pods */
	bool access_exports; /* access: Exports */
	bool relayed;
	bool encrypts; /* encryption: WireGuard; packets between its own nodes and this one's */
	bool has_inbox; /* inbox: true; this cluster may not be able to begin with its nodes */
	bool publishes_to; /* publishTo: true; the same from the other side */
	uint16_t mtu_bytes; /* 0: the overlay's */
	const struct mk_clusters_node *nodes;
	size_t node_count;
};

/* A node that can get probes without a hub: it has the pods of its own pod CIDR, so packets to them
 * reach it. */
struct mk_clusters_target {
	size_t peer; /* index in the input */
	const char *node; /* its name, which belongs to the input */
	struct mk_ip ip; /* its virtual pod address, in the view */
	bool is_direct; /* it gets packets, not only probes */
	bool is_live; /* it gets packets that may go to any node */
	bool keeps; /* .. and packets to external addresses */
};

/* A border node of this cluster: it carries packets of other nodes to other clusters. */
struct mk_clusters_border {
	const char *node;
	struct mk_ip ip; /* its virtual pod address */
	struct mk_mac vtep_mac;
};

struct mk_clusters_own {
	const char *name; /* clusterName */
	uint32_t number;
	sa_family_t family; /* of the call */
	struct mk_cidr cluster_cidr; /* of the family */
	struct mk_cidr externals; /* externalCidr of the family; AF_UNSPEC: none */
	/* Ranges that no view may overlap: VTEPs, Services, nodes' networks. */
	const struct mk_cidr *others;
	size_t other_count;
	/* Of this cluster's nodes, sorted (mk_ips_sort()): no carrier may have one. */
	const struct mk_ip *node_addresses;
	size_t node_address_count;
	/* Ranges of this cluster's pods, VTEPs, Services and views, of both families. No carrier
	 * has an address of one: otherwise a peer could let nodes send to these. */
	const struct mk_cidr *inner;
	size_t inner_count;
	uint16_t mtu_bytes; /* of the overlay */
	/* UDP port of the overlay. A pod cannot send to it, but its packets to another port of a
	 * peer's node would be masqueraded with a node's address. So nodes with another port are
	 * left out. */
	uint16_t port;
	/* Does this node answer probes, as number @hop of cluster @number? With MK_CLUSTER_EXTERNAL
	 * in @number: does it keep its flows to external addresses? Without a pod CIDR its address
	 * is AF_UNSPEC. NULL: all do. */
	bool (*is_live)(const void *ctx, const struct mk_clusters_target *target, uint32_t number,
			uint32_t hop);
	const char *no_wireguard; /* why this node cannot encrypt, with the remedy; NULL: it can */
	struct mk_wg_public wireguard; /* this node's, unless @no_wireguard */
	/* Does this node answer without a hub? Its row has @key. NULL: none does. */
	bool (*is_direct)(const void *ctx, const struct mk_clusters_target *target,
			  const struct mk_cluster_node_key *key);
	/* The largest packet that passes on the way to @peer, with this number; 0: all do. NULL:
	 * nothing is known. */
	uint16_t (*path_mtu)(const void *ctx, const struct mk_clusters_peer *peer, uint32_t number);
	const void *ctx;
	/* This node is no border node, but there are some: those that the overlay reaches. */
	bool by_border;
	const char *node; /* the name of this one */
	const struct mk_clusters_border *borders;
	size_t border_count;
};

/* What became of a peer, in the order of the input. */
struct mk_clusters_state {
	uint32_t number; /* 0: it has no rows */
	/* Its view is this cluster's way to it: the view gets a route. Otherwise its row matches no
	 * address, but its nodes are known: the other family may need them. */
	bool has_view;
	bool has_external_view; /* the same for its external addresses */
	bool is_usable; /* @has_view, and a node is known that gets its packets */
	char *reason; /* why not, or what is left out of it, with value and remedy; NULL: all is well */
	size_t nodes_used; /* its own ones that may send, and get packets unless a hub does */
	size_t nodes_direct; /* of these, the ones that get packets */
	/* The largest packet to it as configured, and as it passes; 0: it has no rows. */
	uint16_t mtu_bytes, path_mtu_bytes;
	bool cannot_encrypt; /* it encrypts, but this node cannot */
	bool overlaps; /* @reason is that a view of it overlaps another range */
};

struct mk_clusters_cluster {
	uint32_t number; /* first; of external addresses with MK_CLUSTER_EXTERNAL */
	/* Without view: @home and @view are zeros and @mask is all ones, so no address matches. */
	struct mk_cluster row;
};

struct mk_clusters_hop {
	struct mk_cluster_node_key key;
	uint32_t hop; /* the value; of IPv6 with MK_CLUSTERS_HOP_IPV6 */
};

/* WireGuard over IPv4: IP 20, UDP 8, header 16, authentication 16. */
#define MK_CLUSTERS_WG_OVERHEAD_BYTES 60

/* The families share the device's FDB, but not the numbers of nodes. */
#define MK_CLUSTERS_HOP_IPV6  0x8000U
#define MK_CLUSTERS_NODES_MAX 0x8000U /* of all clusters, and so of one */

struct mk_clusters_carrier {
	struct mk_far_addr addr;
	uint32_t number;
};

/* An entry of map exports. */
struct mk_clusters_export {
	struct mk_export key;
	struct mk_addr target; /* of an external address; zeros: of a pod, which is itself meant */
};

/* A destination MAC address with the address and port of the node behind it: an FDB entry. */
struct mk_clusters_fdb {
	struct mk_mac mac; /* struct mk_cluster_dest */
	struct mk_ip remote;
	uint16_t port; /* 0: as this cluster's */
	bool is_encrypted; /* of mkwgpeer, not of mkpeer */
};

struct mk_clusters_rows {
	struct mk_clusters_cluster *clusters; /* sorted by number */
	struct mk_clusters_hop *nodes; /* sorted by key */
	struct mk_clusters_carrier *carriers; /* sorted by address */
	struct mk_clusters_fdb *fdb; /* sorted by MAC address */
	/* Sorted by peer. Border nodes of this cluster are those of a peer behind the last one. */
	struct mk_clusters_target *targets;
	struct mk_wg_peer *tunnels; /* of WireGuard, sorted by key */
	char *border; /* the border node that carries this node's packets; NULL: none */
	size_t cluster_count, node_count, carrier_count, fdb_count, target_count, tunnel_count;
	struct mk_clusters_state *states; /* one per peer */
	size_t state_count;
};

/* Return @home_ip, an address of the range @home, as the view @view shows it. */
struct mk_ip mk_clusters_seen(const struct mk_cidr *home, const struct mk_cidr *view,
			      const struct mk_ip *home_ip);

/* Compute all rows of one family. The caller releases @rows, also after an error. */
mk_must_check int mk_clusters_compile(const struct mk_clusters_own *own,
				      const struct mk_clusters_peer *peers, size_t count,
				      struct mk_clusters_rows *rows, struct mk_error *err);
void mk_clusters_rows_release(struct mk_clusters_rows *rows);

#endif

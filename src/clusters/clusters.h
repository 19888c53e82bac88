/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusters/clusters.h - other clusters as rows of tables: numbers, views, nodes, hops. Pure: no
 * I/O, no kernel, no globals.
 *
 * One family per call. What is wrong with a peer is a reason at that peer, and concerns no other. */
#ifndef MK_CLUSTERS_CLUSTERS_H
#define MK_CLUSTERS_CLUSTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/clusters.h"
#include "base/error.h"
#include "base/ip.h"

/* The number of the cluster @name: the low 24 bits of the CRC-32C of its name; 0 becomes 1. */
uint32_t mk_cluster_number(const char *name);

/* A node of a peer, from its PublishedNode. Texts belong to the caller. */
struct mk_clusters_node {
	const char *name;
	struct mk_cidr pod_cidr; /* of the family of the call; AF_UNSPEC: none */
	struct mk_ip address; /* the carrier's, of the underlay's family; AF_UNSPEC: none */
	uint16_t port; /* UDP, of its overlay; 0: as this cluster's */
};

/* A ClusterPeer with what it has published. Texts and nodes belong to the caller. */
struct mk_clusters_peer {
	const char *name;
	int64_t created_unix_s; /* 0: unknown. Of two peers with one number or one view the older one wins */
	uint32_t number; /* as published; 0: mk_cluster_number() */
	const char *via; /* the peer by which it is reached; NULL: by its own nodes */
	struct mk_cidr home; /* its published pod range; AF_UNSPEC: nothing of this family */
	struct mk_cidr view; /* spec.podCidr of this family; AF_UNSPEC: none. Same: as @home */
	bool access_pods, relayed;
	uint16_t mtu_bytes; /* 0: the overlay's */
	const struct mk_clusters_node *nodes;
	size_t node_count;
};

struct mk_clusters_own {
	uint32_t number;
	struct mk_cidr cluster_cidr; /* of the family */
	const struct mk_cidr
		*others; /* ranges that no view may overlap: VTEPs, Services, nodes' networks */
	size_t other_count;
	const struct mk_ip *node_addresses; /* of this cluster's nodes: no carrier may have one */
	size_t node_address_count;
	uint16_t mtu_bytes; /* of the overlay */
};

/* What became of a peer, in the order of the input. */
struct mk_clusters_state {
	bool is_usable; /* it has rows */
	char *reason; /* why not, or what is left out of it, with value and remedy; NULL: all is well */
	uint32_t number;
	size_t nodes_used;
};

/* A destination MAC address with the address and port of the node behind it: an FDB entry. */
struct mk_clusters_fdb {
	struct mk_mac mac; /* struct mk_cluster_dest */
	struct mk_ip remote;
	uint16_t port; /* 0: as this cluster's */
};

struct mk_clusters_rows {
	struct {
		uint32_t number;
		struct mk_cluster row;
	} * clusters; /* sorted by number */
	struct {
		struct mk_cluster_node_key key;
		uint32_t hop;
	} * nodes; /* sorted by key */
	struct {
		struct mk_far_addr addr;
		uint32_t number;
	} * carriers; /* sorted by address */
	struct mk_clusters_fdb *fdb; /* sorted by MAC address */
	size_t cluster_count, node_count, carrier_count, fdb_count;
	struct mk_clusters_state *states; /* one per peer */
	size_t state_count;
};

/* Compute all rows of one family. The caller releases @rows, also after an error. */
mk_must_check int mk_clusters_compile(const struct mk_clusters_own *own,
				      const struct mk_clusters_peer *peers, size_t count,
				      struct mk_clusters_rows *rows, struct mk_error *err);
void mk_clusters_rows_release(struct mk_clusters_rows *rows);

#endif

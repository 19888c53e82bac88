/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusters/clusters_internal.h - shared by clusters.c, which decides about peers, nodes.c,
 * which computes the rows of their nodes, tunnels.c, which computes how these are reached, and
 * borders.c, which chooses a border node. */
#ifndef MK_CLUSTERS_CLUSTERS_INTERNAL_H
#define MK_CLUSTERS_CLUSTERS_INTERNAL_H

#include "clusters/clusters.h"

/* A node that may send packets. */
struct clusters_hop {
	const struct mk_clusters_node *node;
	uint32_t hop, name_hash;
	uint32_t number; /* of its pod CIDR, if @is_numbered */
	bool is_numbered;
	bool is_direct; /* it gets packets, not only probes */
	bool is_live; /* it gets packets that may go to any node */
	bool keeps; /* .. and packets to external addresses */
};

/* A peer with what is decided about it, in the order in which peers win conflicts. */
struct clusters_peer {
	const struct mk_clusters_peer *peer;
	struct mk_clusters_state *state;
	struct mk_cidr home, view; /* networks; AF_UNSPEC unless state->has_view */
	struct mk_cidr external_home, external_view; /* unless state->has_external_view */
	const struct clusters_peer
		*carrier; /* whose nodes get its packets: itself, a hub, or NULL */
	size_t node_count; /* of its own nodes */
	struct clusters_hop *hops; /* state->nodes_used of these */
	uint8_t host_bits; /* as mk_cluster.host_bits */
	char *note; /* about its nodes, for state->reason */
};

struct clusters_work {
	const struct mk_clusters_own *own;
	const struct mk_clusters_peer *input;
	struct mk_clusters_rows *rows;
	struct clusters_peer *peers;
	size_t count;
};

/* Do nodes of a hub get packets to the peer, as far as its own nodes do not? */
static inline bool clusters_is_by_hub(const struct clusters_peer *at)
{
	return at->carrier && at->carrier != at;
}

/* May its own nodes get packets or probes? */
static inline bool clusters_goes_direct(const struct clusters_peer *at)
{
	return at->carrier == at || (at->carrier && at->peer->path != MK_CLUSTERS_PATH_HUB);
}

/* Set the reason of a peer, unless it has one. Returns -ENOMEM or 0. */
__attribute__((format(printf, 2, 3))) int clusters_say(char **reason, const char *format, ...);

/* Choose the nodes of all peers that have a number, and add their rows and carriers. */
mk_must_check int clusters_add_nodes(struct clusters_work *work);
/* If this node is no border node, choose the one that carries its packets, and add the row. */
mk_must_check int clusters_add_border(struct clusters_work *work);
/* Add the targets of probes of all peers. */
mk_must_check int clusters_add_targets(struct clusters_work *work);
/* Add the nodes that WireGuard reaches. */
mk_must_check int clusters_add_tunnels(struct clusters_work *work);
/* Add those of the border nodes of this cluster; after clusters_add_targets(). */
mk_must_check int clusters_add_border_targets(struct clusters_work *work);
/* Add the FDB entries of all peers. */
mk_must_check int clusters_add_fdb(struct clusters_work *work);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/peer.h - the objects behind other clusters, of networking.monokube.io/v1alpha1:
 * ClusterPeers, and what these have published, PublishedClusters and PublishedNodes. What an object
 * says is in manifests/CLUSTERS.md. An object that makes no sense is refused as a whole, so its
 * last good version stays in force. */
#ifndef MK_CLUSTER_MODEL_PEER_H
#define MK_CLUSTER_MODEL_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ip.h"

#define MK_PEERS_NAMESPACE "monokube-peers" /* of what peers have published */
#define MK_CLUSTER_LABEL   "networking.monokube.io/cluster" /* on the same: whose it is */

/* Texts belong to the model. Arrays are by mk_family_index(); AF_UNSPEC: none. */
struct mk_cluster_peer {
	const char *name; /* the peer's clusterName, a DNS label */
	const char *via; /* NULL: by its own nodes */
	int64_t created_unix_s; /* creationTimestamp; 0: none */
	struct mk_cidr views[MK_FAMILIES]; /* of spec.podCidr, networks */
	bool same_view; /* podCidr: Same */
	bool access_pods; /* access: Pods */
	bool relayed; /* relay: true */
	uint16_t mtu_bytes; /* 0: the overlay's */
};

struct mk_published_cluster {
	const char *name; /* of the cluster */
	uint32_t number; /* 0: computed from the name */
	struct mk_cidr pod_cidrs[MK_FAMILIES]; /* networks; at least one */
	bool speaks_wire; /* wireVersions has MK_CLUSTER_WIRE */
};

struct mk_published_node {
	const char *cluster, *node; /* names */
	struct mk_cidr pod_cidrs[MK_FAMILIES];
	struct mk_ip addresses[MK_FAMILIES]; /* the first of each; at least one */
	uint16_t port; /* UDP, of its overlay; 0: as this cluster's */
};

struct mk_model;

/* Visit all, nodes only those in MK_PEERS_NAMESPACE, in no particular order. @visit must not
 * change the model. */
void mk_model_each_cluster_peer(const struct mk_model *model,
				void (*visit)(void *ctx, const struct mk_cluster_peer *peer),
				void *ctx);
void mk_model_each_published_node(const struct mk_model *model,
				  void (*visit)(void *ctx, const struct mk_published_node *node),
				  void *ctx);
/* Return the PublishedCluster @name of MK_PEERS_NAMESPACE; NULL: there is none. */
const struct mk_published_cluster *mk_model_published_cluster(const struct mk_model *model,
							      const char *name);

#endif

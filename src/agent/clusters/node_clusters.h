/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/clusters/node_clusters.h - what this node knows of other clusters: the parts of struct
 * mk_node_clusters, and the objects that they are computed from. */
#ifndef MK_AGENT_CLUSTERS_NODE_CLUSTERS_H
#define MK_AGENT_CLUSTERS_NODE_CLUSTERS_H

#include <stdbool.h>

#include "agent/node/own_node.h"
#include "clusters/clusters.h"
#include "probes/probes.h"

struct clusters_said;
struct clusters_probes;

/* Endpoints of exported Services on this node, in any order. */
struct clusters_exports {
	struct clusters_export_rows {
		struct mk_clusters_export *of;
		size_t count, capacity;
	} rows[MK_FAMILIES];
	bool settled; /* nothing changed since these were computed */
	bool written; /* the tables have them */
	unsigned int plans; /* mk_own_node.plans that they have */
	char *said[MK_FAMILIES]; /* as last logged; NULL: nothing */
};

struct clusters_gone_object;

/* Published objects that have vanished. They count for a while longer, so a resource that is
 * removed by hand and comes back moves no flow. */
struct mk_clusters_gone {
	struct clusters_gone_object *objects; /* a hash table */
	uint64_t keep_ns;
};

struct mk_node_clusters {
	struct mk_own_node *node;
	struct mk_clusters_rows rows[MK_FAMILIES]; /* as last computed */
	struct mk_clusters_fdb *fdb; /* that the overlay has; sorted by MAC address */
	size_t fdb_count;
	bool fdb_trimmed; /* .. and none of an earlier agent */
	bool known; /* @rows are computed from complete lists, or clusterName is not set */
	bool settled; /* nothing changed since then */
	unsigned int computed; /* how often @rows were */
	unsigned int plans; /* mk_own_node.plans that @rows have */
	size_t silent_tunnels; /* nodes without a handshake lately, as last said */
	const char *no_wireguard; /* why @rows have no encrypted nodes; NULL: they may have some */
	bool written; /* the tables have @rows, in the families' datapaths of @loads */
	unsigned int loads[MK_FAMILIES];
	struct clusters_said *said; /* NULL: nothing */
	struct clusters_probes *probes; /* NULL: none are sent */
	unsigned int shown; /* how often what probes show has changed */
	struct clusters_exports exports;
	struct mk_clusters_gone gone;
	uint64_t started_ns;
	bool waits; /* since the start for a PublishedCluster that is not there, as last said */
};

/* All ClusterPeers, by name, with their nodes, as input of src/clusters. Texts belong to the
 * model, or to what is gone. */
struct mk_clusters_objects {
	const struct mk_cluster_peer **of;
	struct mk_clusters_peer *peers[MK_FAMILIES]; /* in the order of @of */
	struct mk_clusters_node *nodes[MK_FAMILIES];
	size_t count, node_count;
	const char **borders; /* names of this cluster's border nodes */
	size_t border_count;
};

/* The rows of each peer, both families together. */
struct clusters_result {
	const struct mk_clusters_objects *objects;
	const struct mk_clusters_rows *rows[MK_FAMILIES]; /* NULL: this node lacks the family */
	const struct clusters_probes *probes;
	const struct mk_overlay *overlay; /* of this node */
};

/* The PublishedCluster of a peer, or that which vanished lately. NULL: there is none. */
const struct mk_published_cluster *mk_clusters_published(const struct mk_model *model,
							 const struct mk_clusters_gone *gone,
							 const char *name);
/* @gone: counts, too; NULL: nothing else does. @underlay: the family of the nodes' addresses.
 * objects_release() in any case. */
mk_must_check int mk_clusters_objects_get(const struct mk_model *model,
					  const struct mk_clusters_gone *gone, sa_family_t underlay,
					  struct mk_clusters_objects *objects,
					  struct mk_error *err);
void mk_clusters_objects_release(struct mk_clusters_objects *objects);

/* A PublishedCluster or a PublishedNode has vanished; the other one is NULL. */
void mk_node_clusters_gone(struct mk_node_clusters *clusters,
			   const struct mk_published_cluster *cluster,
			   const struct mk_published_node *node);
/* Does WireGuard of a node of cluster @number answer? Also true if none of its nodes has a key, or
 * a border node carries this node's packets. */
bool mk_node_clusters_answers(const struct mk_node_clusters *clusters, uint32_t number);

#endif

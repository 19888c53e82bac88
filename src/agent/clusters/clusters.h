/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/clusters/clusters.h - other clusters: from ClusterPeers and what these have published
 * to FDB entries, routes and the tables of each family. */
#ifndef MK_AGENT_CLUSTERS_CLUSTERS_H
#define MK_AGENT_CLUSTERS_CLUSTERS_H

#include <stdbool.h>

#include "agent/node/own_node.h"
#include "agent/report/metrics.h"
#include "clusters/clusters.h"

struct clusters_said;

struct mk_node_clusters {
	struct mk_own_node *node;
	struct mk_clusters_rows rows[MK_FAMILIES]; /* as last computed */
	bool known; /* @rows are computed from complete lists, or clusterName is not set */
	bool settled; /* nothing changed since then */
	unsigned int plans; /* mk_own_node.plans that @rows have */
	bool written; /* the tables have @rows, in the families' datapaths of @loads */
	unsigned int loads[MK_FAMILIES];
	struct clusters_said *said; /* NULL: nothing */
};

void mk_node_clusters_init(struct mk_node_clusters *clusters, struct mk_own_node *node);
void mk_node_clusters_release(struct mk_node_clusters *clusters);

/* A ClusterPeer, or an object that one has published, changed. */
void mk_node_clusters_changed(struct mk_node_clusters *clusters);

/* Compute all rows, if something changed, and let the overlay and the node know the FDB entries and
 * routes. Nothing is computed before all objects have been listed. */
mk_must_check int mk_node_clusters_reconcile(struct mk_node_clusters *clusters,
					     struct mk_error *err);
/* Bring the tables to the rows. The overlay has the FDB entries by now. */
mk_must_check int mk_node_clusters_write(struct mk_node_clusters *clusters, struct mk_error *err);
/* Let the next turn restore what other processes have changed. Returns how many entries. */
mk_must_check int mk_node_clusters_audit(struct mk_node_clusters *clusters, struct mk_error *err);

/* Fill the metrics of other clusters, unless something has changed that is not written yet. The
 * caller frees the list; names belong to the model. */
mk_must_check int mk_node_clusters_measure(const struct mk_node_clusters *clusters,
					   struct mk_metrics *metrics, struct mk_error *err);

#endif

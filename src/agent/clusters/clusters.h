/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/clusters/clusters.h - other clusters: from ClusterPeers and what these have published
 * to FDB entries, routes and the tables of each family. Also, from ServiceExports to the table of
 * endpoints that these clusters may reach. */
#ifndef MK_AGENT_CLUSTERS_CLUSTERS_H
#define MK_AGENT_CLUSTERS_CLUSTERS_H

#include "agent/clusters/node_clusters.h"
#include "agent/report/metrics.h"

void mk_node_clusters_init(struct mk_node_clusters *clusters, struct mk_own_node *node);
void mk_node_clusters_release(struct mk_node_clusters *clusters);

/* A ClusterPeer, or an object that one has published, changed. */
void mk_node_clusters_changed(struct mk_node_clusters *clusters);

/* A ServiceExport changed, or the Service of this name or its endpoints. */
void mk_node_clusters_service_changed(struct mk_node_clusters *clusters, const char *namespace_,
				      const char *name);
void mk_node_clusters_export_changed(struct mk_node_clusters *clusters);

/* Compute all rows, if something changed, and let the overlay and the node know the FDB entries and
 * routes. Nothing is computed before all objects have been listed. */
mk_must_check int mk_node_clusters_reconcile(struct mk_node_clusters *clusters,
					     struct mk_error *err);
/* Bring the tables to the rows. The overlay has the FDB entries by now. */
mk_must_check int mk_node_clusters_write(struct mk_node_clusters *clusters, struct mk_error *err);
/* Let the next turn restore what other processes have changed. Returns how many entries. */
mk_must_check int mk_node_clusters_reconcile_tables(struct mk_node_clusters *clusters,
						    struct mk_error *err);

/* Once per second: read the answers to probes, and send the next ones. Services leave a peer that
 * is down, and what the command line reads is written if it has changed. */
mk_must_check int mk_node_clusters_probe(struct mk_node_clusters *clusters, struct mk_error *err);
/* Should the next ones follow after half a second? */
bool mk_node_clusters_hurry(const struct mk_node_clusters *clusters);
/* Returns the state of a peer that probes have found. Zeros: nothing is known. */
struct mk_probes_state mk_node_clusters_probed(const struct mk_node_clusters *clusters,
					       const char *peer);

/* Fill the metrics of other clusters, unless something has changed that is not written yet. The
 * caller frees the list; names belong to the model. */
mk_must_check int mk_node_clusters_measure(const struct mk_node_clusters *clusters,
					   struct mk_metrics *metrics, struct mk_error *err);

#endif

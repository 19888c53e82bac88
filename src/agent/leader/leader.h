/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/leader/leader.h - what one agent of the cluster does for all, the leader: it publishes
 * this cluster, its nodes and its exported Services, turns what peers have published into
 * ServiceImports and EndpointSlices, and gives peers views from peerPools. In a hub, it shows the
 * branches to one another; in a branch, it creates the ClusterPeers that hubs introduce. It removes
 * only what it made, and only after everything that this depends on has been read. An agent that
 * does not lead keeps nothing of this. */
#ifndef MK_AGENT_LEADER_LEADER_H
#define MK_AGENT_LEADER_LEADER_H

#include <stdbool.h>
#include <uv.h>

#include "agent/clusters/clusters.h"
#include "agent/report/metrics.h"
#include "base/error.h"
#include "cluster/lead.h"
#include "cluster/model/model.h"
#include "config/config.h"

struct mk_leader;

/* All belong to the caller. @lead must live until mk_leader_stop(), the others longer. @clusters
 * knows which networks this node reaches, and which peers get packets; NULL: nothing is known of
 * that. NULL: error. */
mk_must_check struct mk_leader *mk_leader_start(uv_loop_t *loop, const struct mk_config *config,
						const struct mk_model *model, struct mk_lead *lead,
						const struct mk_node_clusters *clusters,
						struct mk_error *err);

/* Release the Lease, which takes at most a second; then another agent can lead at once. The memory
 * is freed after the loop has run its close callbacks. @leader may be NULL, here and below: a
 * cluster directory has no leader. */
void mk_leader_stop(struct mk_leader *leader);

/* A ClusterPeer, a ServiceExport, or an object that a peer has published came, changed or went. */
void mk_leader_peers_changed(struct mk_leader *leader);
/* The node's rows of other clusters were computed. */
void mk_leader_rows_changed(struct mk_leader *leader);
/* A Node came, changed or went. */
void mk_leader_nodes_changed(struct mk_leader *leader);

/* Fill the metrics of the leader. */
void mk_leader_measure(const struct mk_leader *leader, struct mk_metrics *metrics);

#endif

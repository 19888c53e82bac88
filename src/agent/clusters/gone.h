/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/clusters/gone.h - published objects that have vanished; private to this folder. The
 * leader may write them again. A node that answers no probes is dropped at once, and so is an
 * object without a ClusterPeer. */
#ifndef MK_AGENT_CLUSTERS_GONE_H
#define MK_AGENT_CLUSTERS_GONE_H

#include "agent/clusters/node_clusters.h"
#include "base/time.h"

/* Longer than it takes until another agent leads. */
#define GONE_KEEP_NS (30 * MK_NS_PER_S)

size_t gone_count(const struct mk_clusters_gone *gone);
void gone_each_node(const struct mk_clusters_gone *gone,
		    void (*visit)(void *ctx, const struct mk_published_node *node), void *ctx);
/* Drop what counts no longer, and log what has just gone. */
void gone_trim(struct mk_clusters_gone *gone, const struct mk_model *model,
	       const struct clusters_probes *probes);
/* Is there something to drop because of its time? */
bool gone_is_over(const struct mk_clusters_gone *gone);
void gone_release(struct mk_clusters_gone *gone);

/* Views of the last run (MK_CLUSTER_NAMES_FILE) count for ClusterPeers whose status is lost. */
void gone_restore_views(struct mk_model *model, const char *state_dir);

/* The name of a peer that the last run could use (MK_CLUSTER_NAMES_FILE), and whose
 * PublishedCluster is not there; NULL: there is none. */
const char *gone_before_start(const struct mk_model *model, const char *state_dir);

#endif

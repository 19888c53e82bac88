/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/clusters/exports.h - which endpoints other clusters may reach by this node: its pods by
 * the model's ServiceExports, external addresses by its PublishedServices; private to this
 * folder. */
#ifndef MK_AGENT_CLUSTERS_EXPORTS_H
#define MK_AGENT_CLUSTERS_EXPORTS_H

#include "agent/clusters/node_clusters.h"

/* Compute the rows of all families that run. An endpoint counts ready or not: this is a permission
 * for its open connections as well, and the other cluster chooses among endpoints. After an error
 * the former rows stay. */
mk_must_check int exports_compute(struct clusters_exports *exports, const struct mk_own_node *node,
				  struct mk_error *err);
void exports_release(struct clusters_exports *exports);

/* Bring the tables of a family to its rows. */
mk_must_check int exports_write(struct clusters_exports *exports, struct mk_family *family,
				struct mk_error *err);

#endif

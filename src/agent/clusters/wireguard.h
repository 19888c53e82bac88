/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/clusters/wireguard.h - encryption of packets to other clusters; private to this
 * folder. */
#ifndef MK_AGENT_CLUSTERS_WIREGUARD_H
#define MK_AGENT_CLUSTERS_WIREGUARD_H

#include "agent/clusters/node_clusters.h"
#include "agent/core/core.h"
#include "agent/node/own_node.h"

/* WireGuard renews a handshake after two minutes of traffic, and probes are traffic. */
#define MK_WG_HANDSHAKE_MAX_S 180

/* Returns why this node cannot encrypt, with the remedy; NULL: it can. */
const char *clusters_no_wireguard(const struct mk_own_node *node);
/* Let the overlay have the peers of WireGuard. */
mk_must_check int wireguard_set(const struct mk_node_clusters *clusters, struct mk_error *err);

/* Has a node of cluster number @cluster made a handshake lately? Also true if it has no node with a
 * key. */
bool wireguard_answers(const struct mk_overlay *overlay, uint32_t cluster);
/* Has a node answered, or has a handshake become old, since the last call? */
bool wireguard_has_news(struct mk_node_clusters *clusters);
/* The age of the last handshake with any node of it, at least 1; 0: there was none. */
uint64_t wireguard_age_s(const struct mk_overlay *overlay, uint32_t cluster);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/clusters/probe.h - which nodes of other clusters get probes, and what is known of them;
 * private to this folder. One socket per family is enough: the datapath gives probes this node's
 * virtual pod address. */
#ifndef MK_AGENT_CLUSTERS_PROBE_H
#define MK_AGENT_CLUSTERS_PROBE_H

#include "agent/clusters/node_clusters.h"
#include "datapath/clusters/tables.h"
#include "probes/sockets.h"

/* The name under which border nodes of this cluster get probes. No ClusterPeer has it. */
#define PROBES_BORDERS ""

struct clusters_probes {
	struct mk_probes *state; /* NULL: none yet */
	struct mk_probe_sockets sockets;
};

/* Let the nodes of all peers get probes: those of the first family in which nodes are known. Border
 * nodes of this cluster get probes, too. @node: the name of this one. */
mk_must_check int probes_set(struct clusters_probes **probes, const struct clusters_result *result,
			     const char *node, struct mk_error *err);
/* Read the answers of the last second, and send the next probes. A probe that cannot be sent is
 * lost. Returns bits of enum mk_probes_news. */
unsigned int probes_turn(struct clusters_probes *probes);
/* What is known of nodes that answer, and of paths beside hubs. */
struct probes_known {
	const struct clusters_probes *probes; /* NULL: the agent has just started */
	const struct mk_clusters_sync *sync; /* then these tables count; NULL: nothing is known */
	/* Rows of the family that gets probes; NULL: those of this one do. */
	const struct mk_clusters_rows *first;
};
/* mk_clusters_own.is_direct(); @known is a struct probes_known. */
bool probes_find_direct(const void *known, const struct mk_clusters_target *target,
			const struct mk_cluster_node_key *key);
/* mk_clusters_own.is_live(), in the same way. */
bool probes_find_live(const void *known, const struct mk_clusters_target *target, uint32_t number,
		      uint32_t hop);
/* mk_clusters_own.path_mtu(), in the same way. */
uint16_t probes_find_mtu(const void *known, const struct mk_clusters_peer *peer, uint32_t number);
/* Zeros: nothing is known. */
struct mk_probes_state probes_state(const struct clusters_probes *probes, const char *peer);
void probes_free(struct clusters_probes *probes);

#endif

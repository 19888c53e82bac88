/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusterset/peer_status.h - what the leader says of ClusterPeers, as status.h of Services. */
#ifndef MK_CLUSTERSET_PEER_STATUS_H
#define MK_CLUSTERSET_PEER_STATUS_H

#include <json-c/json.h>
#include <stddef.h>

#include "clusters/clusters.h"
#include "clusterset/views.h"
#include "probes/probes.h"

/* What the leader reads at the peer's API server. */
struct mk_peer_reading {
	bool is_connected, is_imported; /* status of conditions Connected and Imported */
	const char *reason, *message; /* of Connected */
	const char *import_reason, *import_message;
};

struct mk_peer_report {
	/* As for mk_clusters_compile(): all peers, for each family that this cluster runs (NULL:
	 * not this one), and what became of them (NULL: not computed). The peer is @index. */
	const struct mk_clusters_own *own;
	const struct mk_clusters_peer *peers[MK_FAMILIES];
	const struct mk_clusters_state *states[MK_FAMILIES];
	size_t count, index;
	const struct mk_views_result *view;
	const struct mk_views_result *external_view; /* of its external addresses; NULL: none */
	const struct mk_peer_reading *reading; /* NULL: nothing is read */
	struct mk_probes_state probes; /* of the leader's node */
	bool lacks_handshake; /* its WireGuard has no answer of any node of the peer */
	bool has_borders; /* this cluster has border nodes */
	bool is_underlay_ipv6; /* the nodes' addresses are of IPv6 */
};

/* Return what to apply to status of @cluster_peer: clusterId, remotePodCidr, podCidr,
 * remoteExternalCidr, externalCidr, path, nodes, mtu, reachableNodes, rttMicros and conditions
 * Valid, Ranges, Ready, Encrypted, Connected, Imported and Reachable; the latter only if probes
 * say something. The caller puts the result. NULL: no memory. */
json_object *mk_peer_status(json_object *cluster_peer, const struct mk_peer_report *report,
			    const char *now);

/* Is a condition worth an Event on the ClusterPeer? */
enum mk_peer_news {
	MK_PEER_NEWS_QUIET, /* it only begins, or says what the user has set: as if it was not there */
	MK_PEER_NEWS_NONE, /* it is as before, or good from the beginning */
	MK_PEER_NEWS_GOOD,
	MK_PEER_NEWS_BAD,
};

/* @before: its reason before; NULL: there was none. */
enum mk_peer_news mk_peer_news(const char *type, const char *before, const char *reason,
			       bool is_true);

#endif

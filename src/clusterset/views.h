/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusterset/views.h - the views of peers: by which ranges this cluster sees their pods. Rules
 * 10 to 12: a view that exists stays, two peers never have one view, and a view that was released
 * goes to no other peer for an hour. No I/O, no clock. */
#ifndef MK_CLUSTERSET_VIEWS_H
#define MK_CLUSTERSET_VIEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"

#define MK_VIEWS_LEFT_MAX 4 /* of pods and of external addresses, of both families */
#define MK_VIEWS_UNUSED_S 3600 /* how long a released view goes to no other peer */

/* A ClusterPeer. Arrays are by mk_family_index(); AF_UNSPEC: none. Texts belong to the caller. */
struct mk_views_peer {
	const char *name;
	int64_t created_unix_s; /* the older peer keeps a view that two claim; then the first name */
	struct mk_cidr home[MK_FAMILIES]; /* of its PublishedCluster */
	struct mk_cidr wanted[MK_FAMILIES]; /* spec.podCidr */
	bool is_same; /* spec.podCidr: Same */
	/* A hub has introduced it. Such peers take half of a pool at most, with what they have
	 * released: a hub names them, and they name their pod ranges. */
	bool is_introduced;
	/* status.podCidr. If that is lost, the view that the node's tables have. It counts
	 * in the first call; after that, this leader knows what it has assigned. */
	struct mk_cidr held[MK_FAMILIES];
	/* Views that a user wants the peer to leave. No peer gets one of these. Without another
	 * free range, the peer keeps it. AF_UNSPEC: unused. */
	struct mk_cidr left[MK_VIEWS_LEFT_MAX];
};

/* A range that no view may overlap: of pods, VTEPs, Services, the clusterset, nodes, routes. */
struct mk_views_taken {
	struct mk_cidr range;
	const char *what; /* for messages: "clusterCidr", "a route of this node" */
};

struct mk_views_input {
	const struct mk_views_peer *peers; /* all ClusterPeers */
	size_t peer_count;
	const struct mk_cidr *pools; /* peerPools. Without one of IPv6, IPv6 views are computed. */
	size_t pool_count;
	const struct mk_views_taken *taken;
	size_t taken_count;
	bool families[MK_FAMILIES]; /* of this cluster: others get no view */
	int64_t now_s; /* of a clock that does not go backwards */
};

enum mk_ranges_reason {
	MK_RANGES_ASSIGNED,
	MK_RANGES_NOT_PUBLISHED, /* its pod range is not known yet */
	MK_RANGES_POOL_EXHAUSTED,
	MK_RANGES_CONFLICT,
};

struct mk_views_result {
	/* Networks. Write them to status.podCidr before a node uses them. A view with a conflict
	 * is here too, if this peer had it before. */
	struct mk_cidr view[MK_FAMILIES];
	enum mk_ranges_reason reason; /* the worst of both families */
	char *text; /* both ranges or the missing thing, and the remedy; NULL: MK_RANGES_ASSIGNED */
};

/* Remembers the views of the last call, and which were released when. A leader that leads again
 * begins with a new one. */
struct mk_views;

struct mk_views *mk_views_new(void); /* NULL: no memory */
void mk_views_free(struct mk_views *views);

/* Compute the views of all peers. @results: one per peer, in their order; the caller releases them,
 * also after an error (-ENOMEM). The same input again gives the same result. Another leader with
 * the same objects computes the same, but for the released views that it does not remember. */
mk_must_check int mk_views_update(struct mk_views *views, const struct mk_views_input *input,
				  struct mk_views_result *results, struct mk_error *err);
void mk_views_results_release(struct mk_views_result *results, size_t count);

#endif

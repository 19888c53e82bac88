/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusters/introduce.h - introductions: a hub shows its branches to one another, and each
 * branch has a ClusterPeer for each cluster that its hubs show. Pure: no I/O, no clock.
 *
 * A hub shows what the owner itself has published to it, so packets pass one hub at most. A branch
 * reads of a cluster by one way only: a ClusterPeer that a user has made, or the first hub that
 * has introduced the cluster.
 *
 * If a hub shows a cluster no longer, its ClusterPeer stays for MK_INTRODUCE_GRACE_MS. If the
 * cluster comes again in this time, it has the same view, and no connection breaks. */
#ifndef MK_CLUSTERS_INTRODUCE_H
#define MK_CLUSTERS_INTRODUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MK_INTRODUCED_MAX     512 /* by all hubs: half of all ClusterPeers */
#define MK_INTRODUCE_GRACE_MS 60000

/* A ClusterPeer. Texts belong to the caller; NULL: none. */
struct mk_introduce_peer {
	const char *name, *uid; /* @name first, for mk_compare_texts() */
	const char *via;
	int64_t created_unix_s;
	bool relays; /* relay: true */
	bool accepts; /* accept: Transit or Direct */
	bool is_read; /* this cluster reads its API server, or its inbox here */
	bool is_ours; /* it has the label of what the leader manages */
	const char *owner_name, *owner_uid; /* the ClusterPeer that its owner reference names */
	/* Since when the action is MK_INTRODUCE_WAIT, as the caller remembers it; 0: it was not. */
	uint64_t waits_since_ms;
};

/* A PublishedCluster that lies here, and the hub that has shown it; NULL: none. */
struct mk_introduce_cluster {
	const char *name, *relayed_by; /* @name first, for mk_compare_texts() */
};

struct mk_introduce_input {
	const char *own; /* clusterName */
	const struct mk_introduce_peer *peers; /* sorted by name */
	const struct mk_introduce_cluster *clusters; /* sorted by name */
	size_t peer_count, cluster_count;
	uint64_t now_ms; /* of a clock that does not go backwards */
};

enum mk_introduce_action {
	MK_INTRODUCE_KEEP, /* also every ClusterPeer of a user */
	MK_INTRODUCE_DELETE, /* its hub is gone, or introduces no cluster, or another way is known */
	MK_INTRODUCE_WAIT, /* its hub does not show it: after MK_INTRODUCE_GRACE_MS, delete it */
	/* A user has taken it over by spec.secretName or another path: take its owner reference and
	 * label away, so it outlives the hub. */
	MK_INTRODUCE_RELEASE,
};

/* A ClusterPeer to be created: it is reached by @hub, which owns it. */
struct mk_introduction {
	const char *name;
	const struct mk_introduce_peer *hub;
};

struct mk_introductions {
	enum mk_introduce_action *actions; /* one per peer, in their order */
	struct mk_introduction *created; /* sorted by name */
	size_t created_count;
	size_t left_out; /* clusters beyond MK_INTRODUCED_MAX */
};

/* Texts of @result belong to @input. The caller releases @result, also after an error: -ENOMEM. */
mk_must_check int mk_introduce(const struct mk_introduce_input *input,
			       struct mk_introductions *result, struct mk_error *err);
void mk_introductions_release(struct mk_introductions *result);

/* May the leader copy into this cluster what peer @from shows of @cluster? What it shows of itself,
 * and of clusters that it introduces; not what this cluster reads by another way. */
bool mk_introduce_may_copy(const struct mk_introduce_input *input, const char *from,
			   const char *cluster);

/* At the hub: is an object that lies here, @object of @cluster, shown to the branches? @peer is the
 * ClusterPeer of @cluster; NULL: there is none. */
bool mk_introduce_shows(const struct mk_introduce_peer *peer, const char *cluster,
			const char *object, const char *relayed_by);

#endif

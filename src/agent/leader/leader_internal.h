/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/leader/leader_internal.h - shared by leader.c, which decides what is to be done,
 * common.c, which has steps that all others use, publish.c, which publishes this cluster,
 * imports.c, which merges what clusters export, views.c, which decides by which ranges peers are
 * seen, copies.c, which reads peers' API servers, inbox.c, which writes there, and introduce.c, by
 * which hubs and branches know one another. */
#ifndef MK_AGENT_LEADER_LEADER_INTERNAL_H
#define MK_AGENT_LEADER_LEADER_INTERNAL_H

#include <uthash.h>

#include "agent/clusters/clusters.h"
#include "agent/report/metrics.h"
#include "base/time.h"
#include "cluster/lead.h"
#include "cluster/peer_api.h"
#include "clusters/externals.h"
#include "clusterset/imports.h"
#include "clusterset/peer_status.h"
#include "clusterset/publish.h"
#include "clusterset/views.h"
#include "copies/copies.h"

#define LEADER_API	      "networking.monokube.io/v1alpha1"
#define LEADER_VIEWS_AGAIN_MS 60000 /* a released view may be free by then */

struct leader_known;
struct leader_said;
struct leader_waiting;

/* A ServiceExport. */
struct leader_export {
	char *key; /* NAMESPACE/NAME */
	bool is_read; /* the members below are of its Service */
	bool status_due;
	struct mk_publication publication;
	struct mk_merged merged; /* .. of which only the conflicts are kept */
	bool is_merged;
	UT_hash_handle hh;
};

/* A ClusterPeer with secretName or inbox. */
struct leader_peer {
	struct mk_leader *leader;
	char *name, *secret; /* secret NULL: its inbox here is read */
	struct mk_peer_limits limits;
	bool introduces;
	bool publishes_to; /* this cluster writes into an inbox there */
	bool inbox_due; /* Services are to be put there */
	struct mk_peer_api *api;
	int64_t generation; /* of the ClusterPeer; 0: unknown */
	bool is_there; /* while ClusterPeers are compared */
	uint64_t leave_until_ms; /* in `leaving`: the end of the time to empty the inbox */
	struct leader_peer *next; /* in `leaving` */
	UT_hash_handle hh;
};

/* Exists while this node leads. */
struct leader_term {
	struct leader_export *exports;
	struct mk_imports *imports; /* NULL: the ServiceImports are not read yet */
	bool is_merging; /* everything has been read that a merge depends on */
	bool cluster_due, nodes_due, peers_due, sweep_due, statuses_due, views_due;
	struct mk_copies *copies;
	struct leader_peer *peers; /* whose API servers, or inboxes, are read */
	struct leader_peer *leaving; /* whose inboxes are being emptied */
	uint64_t leave_again_ms; /* look at these then; 0: there are none */
	struct mk_externals *externals;
	/* Peers as Services are published with them; names are copies. NULL: not known yet. */
	struct mk_imports_cluster *publish_peers;
	size_t publish_peer_count;
	struct leader_said *events; /* on ClusterPeers */
	struct mk_views *views; /* NULL: none are computed yet */
	/* When views are computed again, because peerPools had no free range for a peer; 0: no. */
	uint64_t views_again_ms;
	struct leader_known *known; /* NULL: it is to be listed again */
	char *relayed; /* names of the clusters that are shown to branches; NULL: not known yet */
	bool introduce_due, show_due;
	struct leader_waiting *waiting; /* ClusterPeers whose hub does not show their cluster */
	size_t waiting_count;
	uint64_t introduce_again_ms; /* one of them is deleted then; 0: there is none */
	bool has_borders; /* only nodes with the border label are published */
};

struct mk_leader {
	uv_loop_t *loop;
	const struct mk_config *config;
	const struct mk_model *model;
	struct mk_lead *lead;
	const struct mk_node_clusters *clusters; /* of this node; NULL: unknown */
	uv_timer_t timer;
	uv_timer_cb work; /* of @timer */
	struct leader_term *term; /* NULL: it does not lead */
	bool is_stopping;
	char *said; /* the last failure that was logged */
	char *said_left_out; /* as last logged, of endpoints of peers */
};

/* There is something to do in another turn of the loop. */
void leader_schedule(struct mk_leader *leader);
/* Let the server have @tree, or not have @object any more. A failure is logged. */
void leader_apply(struct mk_leader *leader, json_object *tree);
void leader_delete(struct mk_leader *leader, const struct mk_lead_object *object);
/* Log a failure, once. */
void leader_failed(struct mk_leader *leader, const struct mk_error *err);
/* Is there a ClusterPeer or a ServiceExport, as far as is known? */
bool leader_has_work(const struct mk_leader *leader);
uint64_t leader_now_ms(void); /* monotonic */
const char *leader_now(char text[MK_TIME_STRLEN]);
/* Fill @cluster, whose texts are those of @peer. False: the ClusterPeer does not count. */
bool leader_cluster_of(const struct mk_leader *leader, const struct mk_cluster_peer *peer,
		       struct mk_imports_cluster *cluster);

/* publish.c: this cluster and its nodes. */
/* Return an object of monokube-published without spec, for the caller to put. */
json_object *leader_published(const char *kind, const char *name, const char *cluster);
void leader_publish_cluster(struct mk_leader *leader);
/* Remove what this cluster does not publish any more. */
void leader_sweep(struct mk_leader *leader);
/* A ServiceExport came, changed (@tree), or went (NULL). */
void leader_export_seen(struct mk_leader *leader, const char *namespace_, const char *name,
			json_object *tree);
/* A PublishedService of this cluster is known, with external addresses perhaps. All are. */
void leader_externals_seen(struct mk_leader *leader, json_object *tree);
void leader_externals_listed(struct mk_leader *leader);
void leader_externals_measure(const struct mk_leader *leader, struct mk_metrics *metrics);
/* Peers may have changed: Services whose endpoints are in peers are published again. */
void leader_exports_peers(struct mk_leader *leader);
/* The Service has been read. */
void leader_export_read(struct mk_leader *leader, const char *namespace_, const char *name,
			json_object *service, json_object *const *slices, size_t count);
struct leader_export *leader_find_export(const struct leader_term *term, const char *namespace_,
					 const char *name);
bool leader_exports_are_read(const struct mk_leader *leader);
void leader_write_statuses(struct mk_leader *leader);
void leader_exports_free(struct leader_term *term);

/* views.c: compute the views of all peers, and write the status of ClusterPeers. What is not read
 * yet leaves it due. */
void leader_assign_views(struct mk_leader *leader);

/* copies.c: what peers publish at their own API servers. */
mk_must_check int leader_copies_begin(struct mk_leader *leader); /* -ENOMEM */
void leader_copies_end(struct leader_term *term);
void leader_copies_peers(struct mk_leader *leader);
void leader_copies_seen(struct mk_leader *leader, const struct mk_lead_object *object,
			json_object *tree);
void leader_copies_listed(struct mk_leader *leader, enum mk_lead_kind kind);
/* Write and delete copies until @end_ms. Returns whether there is more to do. */
bool leader_copies_write(struct mk_leader *leader, uint64_t end_ms);
/* Fill @reading, whose texts are in @imported and of the peer. False: the peer is not read. */
bool leader_copies_reading(const struct mk_leader *leader, const char *peer,
			   struct mk_copies_report *imported, struct mk_peer_reading *reading);
void leader_copies_measure(const struct mk_leader *leader, struct mk_metrics *metrics);

/* events.c: write an Event for each condition of @status that is another one than before. */
void leader_say_conditions(struct mk_leader *leader, const struct mk_lead_object *peer,
			   json_object *status);
void leader_events_forget(struct leader_term *term, const char *peer); /* NULL: all */

/* inbox.c: inboxes at peers, with what this cluster publishes. */
void leader_inbox_changed(void *peer, bool is_new); /* as a listener of its API */
void leader_inbox_put(struct mk_leader *leader, json_object *tree);
/* Put all Services into inboxes that begin. */
void leader_inbox_fill(struct mk_leader *leader);
/* Is this object of monokube-published one that this cluster publishes? */
typedef bool leader_publishes(const struct mk_leader *leader, enum mk_lead_kind kind,
			      const char *name);
/* Remove what @publishes denies. */
void leader_inbox_sweep(struct mk_leader *leader, leader_publishes *publishes);
/* Empty the inbox at @peer, which is taken and freed later. */
void leader_inbox_leave(struct mk_leader *leader, struct leader_peer *peer);
/* .. no, there is such a ClusterPeer again. */
void leader_inbox_stay(struct leader_term *term, const char *name);
void leader_inbox_look(struct mk_leader *leader);
void leader_inbox_end(struct leader_term *term);
/* @peer is in no list any more. */
void leader_peer_free(struct leader_peer *peer);

/* introduce.c: create and remove ClusterPeers that hubs introduce, and copies for branches. */
void leader_introduce(struct mk_leader *leader);
void leader_introduce_seen(struct mk_leader *leader, const struct mk_lead_object *object,
			   json_object *tree);
/* May what @from shows of @cluster be copied into this cluster? */
bool leader_may_copy(struct mk_leader *leader, const char *from, const char *cluster);
void leader_known_free(struct leader_term *term);
void leader_waiting_free(struct leader_term *term);

/* imports.c: the ServiceImports are read; as soon as everything is, begin. */
void leader_imports_create(struct mk_leader *leader);
void leader_imports_begin(struct mk_leader *leader);
void leader_imports_peers(struct mk_leader *leader);
void leader_imports_seen(struct mk_leader *leader, const struct mk_lead_object *object,
			 json_object *tree);
/* Merge Services until @end_ms. Returns whether there is more to do. */
bool leader_imports_merge(struct mk_leader *leader, uint64_t end_ms);

#endif

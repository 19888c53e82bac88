/* SPDX-License-Identifier: Apache-2.0 */
/* src/copies/copies.h - which objects that peers publish are copied into monokube-peers of this
 * cluster, and which copies go. No I/O: JSON trees in and out.
 *
 * Objects of a peer are untrusted: one counts as a whole or not at all, up to the limits of
 * its ClusterPeer, and only if its cluster is one that this peer may speak for. Only members that
 * this version knows are copied.
 *
 * A copy goes only if a complete list of its peer lacks it, or if the peer is not read any more. An
 * object without label MK_READ_FROM_LABEL was carried by hand: it is never deleted, and replaced
 * only if the peer publishes another content. */
#ifndef MK_COPIES_COPIES_H
#define MK_COPIES_COPIES_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "cluster/model/peer.h"
#include "clusterset/publish.h"

struct mk_copies;

struct mk_copies_options {
	const char *own_cluster; /* clusterName */
	/* May the copy of an object of @cluster, which peer @from serves, count? Asked about other
	 * names than these two; NULL: none counts. */
	bool (*may_copy)(void *ctx, const char *from, const char *cluster);
	void *ctx;
};

/* Copies the texts of @options. NULL: no memory. */
struct mk_copies *mk_copies_new(const struct mk_copies_options *options);
void mk_copies_free(struct mk_copies *copies);

/* Add a ClusterPeer whose API server is read, or change its limits. */
mk_must_check int mk_copies_set_peer(struct mk_copies *copies, const char *peer,
				     const struct mk_peer_limits *limits, struct mk_error *err);
/* The objects of the peer are unknown again: its copies stay until the next complete lists. */
void mk_copies_forget(struct mk_copies *copies, const char *peer);
/* The ClusterPeer or its secretName was deleted. */
void mk_copies_end_peer(struct mk_copies *copies, const char *peer);
/* All ClusterPeers are known: copies of other ones go. */
void mk_copies_peers_known(struct mk_copies *copies);

/* The peer serves this version of an object; NULL: it is gone. The only error is -ENOMEM. */
mk_must_check int mk_copies_see(struct mk_copies *copies, const char *peer,
				enum mk_published_kind kind, const char *name, json_object *tree,
				struct mk_error *err);
/* All objects of the kind that the peer has were seen. */
void mk_copies_listed(struct mk_copies *copies, const char *peer, enum mk_published_kind kind);

/* This version of an object is in monokube-peers of this cluster; NULL: it is gone. */
mk_must_check int mk_copies_have(struct mk_copies *copies, enum mk_published_kind kind,
				 const char *name, json_object *tree, struct mk_error *err);

/* All objects of the kind that are here were handed over. Nothing is written before. */
void mk_copies_have_listed(struct mk_copies *copies, enum mk_published_kind kind);
/* Return how many copies are here. */
size_t mk_copies_count(const struct mk_copies *copies);

struct mk_copies_step {
	enum mk_published_kind kind;
	const char *name; /* valid until the next call of any function above */
	json_object
		*tree; /* to be applied, the caller puts it; NULL: the object is to be deleted */
};

/* Take the next copy that has to be written or deleted. False: none. */
bool mk_copies_next(struct mk_copies *copies, struct mk_copies_step *step);

/* For condition Imported. */
struct mk_copies_report {
	bool complete; /* everything that the peer publishes is copied */
	const char *reason; /* "Complete", "Incomplete" or "LimitExceeded" */
	char message[512];
};
void mk_copies_report(const struct mk_copies *copies, const char *peer,
		      struct mk_copies_report *report);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/lead.h - what only one agent of the cluster does, the leader: it follows more objects
 * than the others, and writes objects. While this node does not lead, it follows and keeps nothing
 * of this. A cluster directory has no leader. */
#ifndef MK_CLUSTER_LEAD_H
#define MK_CLUSTER_LEAD_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define MK_LEASE_NAME "monokube-peers" /* in MK_PEERS_NAMESPACE */

struct mk_lead;

/* What the leader follows. */
enum mk_lead_kind {
	MK_LEAD_PEERS, /* ClusterPeers */
	MK_LEAD_EXPORTS, /* ServiceExports */
	MK_LEAD_IMPORTS, /* ServiceImports */
	MK_LEAD_SLICES, /* EndpointSlices with monokube's managed-by label */
	MK_LEAD_PUBLISHED, /* PublishedServices of peers, in monokube-peers */
	MK_LEAD_PEER_CLUSTERS, /* PublishedClusters there */
	MK_LEAD_PEER_NODES,
	MK_LEAD_OWN_CLUSTERS, /* PublishedClusters in monokube-published */
	MK_LEAD_OWN_NODES,
	MK_LEAD_OWN_SERVICES,
	MK_LEAD_NAMESPACES,
	MK_LEAD_KINDS
};

/* An object on the server. Texts belong to the lead. */
struct mk_lead_object {
	enum mk_lead_kind kind;
	const char *namespace_, *name, *uid;
	const char *service; /* a slice's Service, by its label of imports; "": none */
	bool is_ours; /* it has the label app.kubernetes.io/managed-by: monokube.io */
	/* By labels of published objects: whose it is, and which hub has shown it; "": none */
	const char *cluster, *relayed_by;
	const char *spec; /* of what lies in monokube-peers, as JSON; others: NULL */
	json_object *tree; /* ClusterPeers, ServiceExports, ServiceImports; others: NULL */
};

/* All come from the loop, but not within the functions below. object() may come within libcurl. */
struct mk_lead_listener {
	void (*leads)(void *ctx, bool leads);
	/* @tree: its newest version; NULL: it is gone. */
	void (*object)(void *ctx, const struct mk_lead_object *object, json_object *tree);
	/* All objects of a kind have been read. */
	void (*listed)(void *ctx, enum mk_lead_kind kind);
	/* The server does not have the kind. */
	void (*lacked)(void *ctx, enum mk_lead_kind kind);
	/* A Service, or one of its EndpointSlices, has changed in any way. */
	void (*service)(void *ctx, const char *namespace_, const char *name);
	/* The answer to mk_lead_read(). @service NULL: there is none. */
	void (*read)(void *ctx, const char *namespace_, const char *name, json_object *service,
		     json_object *const *slices, size_t count);
	/* What was applied to this object (is_status: to its status) is written. */
	void (*written)(void *ctx);
	void *ctx;
};

/* @listener is copied. */
void mk_lead_listen(struct mk_lead *lead, const struct mk_lead_listener *listener);

enum mk_lead_wish {
	MK_LEAD_NOT, /* the Lease is not requested, or released */
	/* .. but if the server still has something that a leader made, it is requested. */
	MK_LEAD_IF_LEFT,
	MK_LEAD_WANTED, /* there is something to do for a leader */
};

void mk_lead_want(struct mk_lead *lead, enum mk_lead_wish wish);
/* Does this node lead at this instant? */
bool mk_lead_leads(const struct mk_lead *lead);
/* mk_lead_want(lead, MK_LEAD_NOT) was called. Is the Lease released? */
bool mk_lead_is_over(const struct mk_lead *lead);

/* Have all objects of the kind been read? Until then, absent ones may exist. */
bool mk_lead_has_listed(const struct mk_lead *lead, enum mk_lead_kind kind);
/* Does the server not have the kind? Then no object of it is read. */
bool mk_lead_lacks(const struct mk_lead *lead, enum mk_lead_kind kind);
/* NULL: there is none. */
const struct mk_lead_object *mk_lead_find(const struct mk_lead *lead, enum mk_lead_kind kind,
					  const char *namespace_, const char *name);
/* Visit all objects of @kind. They stay if mk_lead_delete() is called: the server is asked. */
#define mk_lead_each(object, lead, kind)                 \
	for (const struct mk_lead_object *object = NULL; \
	     (object = mk_lead_next(lead, kind, object));)
/* Return the object after @object; NULL: the first one. */
const struct mk_lead_object *mk_lead_next(const struct mk_lead *lead, enum mk_lead_kind kind,
					  const struct mk_lead_object *object);
size_t mk_lead_count(const struct mk_lead *lead, enum mk_lead_kind kind);
/* Has the server only v1alpha1 of ServiceImports? */
bool mk_lead_is_alpha(const struct mk_lead *lead);

/* Read a Service and its EndpointSlices. Calls within a short time are one read. */
void mk_lead_read(struct mk_lead *lead, const char *namespace_, const char *name);

/* Let the server have @tree, with apiVersion, kind and metadata; or its status. The caller keeps
 * @tree. */
mk_must_check int mk_lead_apply(struct mk_lead *lead, json_object *tree, struct mk_error *err);
mk_must_check int mk_lead_apply_status(struct mk_lead *lead, json_object *tree,
				       struct mk_error *err);
/* Remove an object that the server has. */
mk_must_check int mk_lead_delete(struct mk_lead *lead, const struct mk_lead_object *object,
				 struct mk_error *err);
/* Write nothing more to this object; what the server has stays. Its status is written. */
void mk_lead_forget(struct mk_lead *lead, const struct mk_lead_object *object);
/* Report an Event on an object: see mk_report_event(). */
void mk_lead_event(struct mk_lead *lead, const struct mk_lead_object *object, bool warning,
		   const char *reason, const char *message);
/* Return how many objects wait to be written, and how many writes have failed since the start. */
size_t mk_lead_waiting(const struct mk_lead *lead);
uint64_t mk_lead_failures(const struct mk_lead *lead);
/* Is there nothing left to write to this object, but to its status? */
bool mk_lead_is_written(const struct mk_lead *lead, json_object *tree);

#endif

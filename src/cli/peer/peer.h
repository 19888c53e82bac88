/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/peer/peer.h - objects by which a cluster that invites lets an invited one read what it
 * publishes; private to this folder. The invitation is applied in the cluster that invites, the
 * ticket in the invited one. Each function that returns a tree gives it to the caller. */
#ifndef MK_CLI_PEER_PEER_H
#define MK_CLI_PEER_PEER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "cluster/model/peer.h"

#define PUBLISHED_NAMESPACE "monokube-published"
#define INVITE_PREFIX	    "invite-" /* of the objects of an invitation; the invited one follows */
#define TICKET_PREFIX	    "peer-" /* of the Secret of a ticket; the inviting one follows */
#define NAME_BYTES	    96 /* a prefix and a clusterName */
#define READER_ROLE	    "monokube-peer-reader" /* of manifests/multicluster.yaml */
#define TOKEN_TYPE	    "kubernetes.io/service-account-token"
/* On the Secret of an invitation: the invited cluster has an inbox. */
#define INVITED_WITH_INBOX "networking.monokube.io/inbox"
/* The same: the cluster that invites. */
#define INVITED_BY "networking.monokube.io/invited-by"

/* What the invited cluster gets. Texts belong to the caller. */
struct peer_ticket {
	const char *cluster; /* the one that invites */
	const char *const *servers; /* URLs */
	size_t server_count;
	const char *authority, *token; /* base64; NULL: left out */
	const char *access, *accept; /* of the ClusterPeer; NULL: its default */
	bool relay;
	bool publishes; /* into an inbox of the inviting cluster */
	bool has_inbox; /* of the ClusterPeer only: no Secret, its inbox is read */
};

/* Check a clusterName. An error names @what. */
mk_must_check int cluster_name_check(const char *what, const char *name, struct mk_error *err);

/* The invitation of cluster @name: ServiceAccount, RoleBinding, and the Secret, which gets a token
 * from the API server. @own: the cluster that invites; NULL: not known. */
json_object *invite_account(const char *name);
json_object *invite_reader(const char *name);
json_object *invite_secret(const char *name, const char *own, bool has_inbox);

struct invite_binding {
	const char *cluster; /* the invited one */
	const char *namespace_, *name, *role_kind, *role, *account, *account_namespace;
};
json_object *invite_bind(const struct invite_binding *binding);

/* The inbox of cluster @name: its namespace, and the objects of which it consists, beside the
 * ClusterPeer of ticket_peer(). */
#define INBOX_OBJECTS 3
mk_must_check int inbox_name_check(const char *name, struct mk_error *err);
void inbox_namespace(const char *name, char space[NAME_BYTES]);
json_object *inbox_object(const char *name, size_t index);

/* The Secret of a ticket, and the ClusterPeer that names it. */
json_object *ticket_secret(const struct peer_ticket *ticket);
json_object *ticket_peer(const struct peer_ticket *ticket);

/* Read authority, token, and, if it is NULL, the cluster, from the Secret of an invitation. They
 * belong to @secret. -EAGAIN: it has no token yet. */
mk_must_check int ticket_read(json_object *secret, struct peer_ticket *ticket,
			      struct mk_error *err);

/* Print an object as one YAML document. */
void yaml_print(FILE *out, json_object *object);

#endif

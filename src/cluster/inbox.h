/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/inbox.h - what this cluster writes into its inbox at a peer that cannot reach this
 * cluster's API server: a queue of writes, and the names of what lies there. Private to this
 * folder; peer_api.c has the connection, and follows the inbox. */
#ifndef MK_CLUSTER_INBOX_H
#define MK_CLUSTER_INBOX_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "cluster/api/http.h"
#include "cluster/peer_api.h"

struct inbox;

struct inbox_place {
	const char *peer, *namespace_; /* must live as long as the inbox */
};

/* @http must live longer. NULL: error. */
mk_must_check struct inbox *inbox_new(struct mk_lead *lead, struct mk_http *http,
				      const struct inbox_place *place, struct mk_error *err);
/* The memory is freed after the loop has run its close callbacks. @inbox may be NULL. */
void inbox_free(struct inbox *inbox);

/* An object lies there in this version; NULL: it is gone. Returns whether it is one that
 * inbox_put() was not called with. */
bool inbox_see(struct inbox *inbox, enum mk_peer_api_kind kind, const char *name,
	       json_object *tree);
/* Let @tree, an object of monokube-published, lie there. */
mk_must_check int inbox_put(struct inbox *inbox, json_object *tree, struct mk_error *err);
/* Delete what lies there and is not wanted. @is_wanted NULL: everything, also what comes later. */
void inbox_sweep(struct inbox *inbox, mk_peer_api_wanted_fn *is_wanted, void *ctx);
/* Does nothing lie there, and is nothing to be written? */
bool inbox_is_empty(const struct inbox *inbox);

#endif

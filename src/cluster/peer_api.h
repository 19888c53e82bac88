/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/peer_api.h - follow what a peer publishes at its API server, with the credentials of
 * a Secret of this cluster. The Secret is read again from time to time, and after the server has
 * refused the credentials, so a new token works without a restart. One connection serves a peer.
 *
 * If a peer cannot be read, it writes what it publishes into its inbox, a namespace of this
 * cluster. That is followed in the same way, at the own API server. If this cluster cannot be read,
 * it writes into its inbox at the peer, by the same connection. */
#ifndef MK_CLUSTER_PEER_API_H
#define MK_CLUSTER_PEER_API_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/lead.h"

struct mk_peer_api;

enum mk_peer_api_kind {
	MK_PEER_API_CLUSTERS,
	MK_PEER_API_NODES,
	MK_PEER_API_SERVICES,
	MK_PEER_API_KINDS
};

/* Reasons of condition Connected. */
enum mk_peer_api_reason {
	MK_PEER_API_STARTING, /* nothing is known yet */
	MK_PEER_API_CONNECTED,
	MK_PEER_API_UNAUTHORIZED,
	MK_PEER_API_UNREACHABLE,
	MK_PEER_API_BAD_CERTIFICATE,
};

struct mk_peer_api_state {
	enum mk_peer_api_reason reason;
	const char *message; /* names server, status and remedy */
	uint64_t contact_unix_ms; /* last contact with the server; 0: none */
};

/* Which objects the API reads and writes. It copies the texts. */
struct mk_peer_api_options {
	const char *peer;
	const char *secret; /* in MK_PEERS_NAMESPACE; NULL: the peer's inbox here is read */
	const char *own; /* the inbox of this cluster at the peer is written; NULL: none is */
	size_t objects_max; /* of a kind; a peer that serves more is not read */
};

typedef bool mk_peer_api_wanted_fn(void *ctx, enum mk_peer_api_kind kind, const char *name);

/* All may come from within libcurl: they must not stop a peer API. */
struct mk_peer_api_listener {
	/* @tree: the newest version of an object; NULL: it is gone. */
	void (*object)(void *ctx, enum mk_peer_api_kind kind, const char *name, json_object *tree);
	/* All objects of the kind were reported, and those that are gone. */
	void (*listed)(void *ctx, enum mk_peer_api_kind kind);
	/* Another server or user: all lists begin again, and nothing is known until then. */
	void (*begins)(void *ctx);
	/* The inbox at the peer is another one (all of it has to be put again), or it has an object
	 * that was not put. */
	void (*inbox)(void *ctx, bool is_new);
	/* The reason is another one. */
	void (*state)(void *ctx);
	void *ctx;
};

/* Begin, while this node leads. @listener is copied. NULL: error. */
mk_must_check struct mk_peer_api *mk_peer_api_start(struct mk_lead *lead,
						    const struct mk_peer_api_options *options,
						    const struct mk_peer_api_listener *listener,
						    struct mk_error *err);
/* No callback follows. @api may be NULL. */
void mk_peer_api_stop(struct mk_peer_api *api);

/* The ClusterPeer has changed: read the Secret again. */
void mk_peer_api_refresh(struct mk_peer_api *api);

/* Let @tree, an object of monokube-published, lie in the inbox at the peer. The caller keeps it. */
mk_must_check int mk_peer_api_put(struct mk_peer_api *api, json_object *tree, struct mk_error *err);
/* Delete what lies there and is not wanted. */
void mk_peer_api_sweep(struct mk_peer_api *api, mk_peer_api_wanted_fn *is_wanted, void *ctx);
/* Read nothing more, and empty the inbox at the peer. No callback follows. */
void mk_peer_api_withdraw(struct mk_peer_api *api);
/* .. and is it empty? */
bool mk_peer_api_is_withdrawn(const struct mk_peer_api *api);

struct mk_peer_api_state mk_peer_api_state(const struct mk_peer_api *api);

#endif

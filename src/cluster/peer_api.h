/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/peer_api.h - follow what a peer publishes at its API server, with the credentials of
 * a Secret of this cluster. The Secret is read again from time to time, and after the server has
 * refused the credentials, so a new token works without a restart. One connection serves a peer. */
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

/* All may come from within libcurl: they must not stop a peer API. */
struct mk_peer_api_listener {
	/* @tree: the newest version of an object; NULL: it is gone. */
	void (*object)(void *ctx, enum mk_peer_api_kind kind, const char *name, json_object *tree);
	/* All objects of the kind were reported, and those that are gone. */
	void (*listed)(void *ctx, enum mk_peer_api_kind kind);
	/* Another server or user: all lists begin again, and nothing is known until then. */
	void (*begins)(void *ctx);
	/* The reason is another one. */
	void (*state)(void *ctx);
	void *ctx;
};

/* Follow @peer while this node leads. @secret: its name in MK_PEERS_NAMESPACE. Texts and @listener
 * are copied. NULL: error. */
mk_must_check struct mk_peer_api *mk_peer_api_start(struct mk_lead *lead, const char *peer,
						    const char *secret,
						    const struct mk_peer_api_listener *listener,
						    struct mk_error *err);
/* No callback follows. @api may be NULL. */
void mk_peer_api_stop(struct mk_peer_api *api);

/* The ClusterPeer has changed: read the Secret again. */
void mk_peer_api_refresh(struct mk_peer_api *api);

struct mk_peer_api_state mk_peer_api_state(const struct mk_peer_api *api);

#endif

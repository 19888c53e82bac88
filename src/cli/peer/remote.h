/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/peer/remote.h - requests to the API server of one context of a kubeconfig, one after the
 * other; private to this folder. Errors name the context, the object, and the remedy. */
#ifndef MK_CLI_PEER_REMOTE_H
#define MK_CLI_PEER_REMOTE_H

#include <json-c/json.h>
#include <uv.h>

#include "base/error.h"
#include "cluster/api/credentials.h"
#include "cluster/api/http.h"

struct remote {
	const char *context; /* belongs to the caller */
	struct mk_credentials credentials;
	uv_loop_t loop;
	struct mk_http *http; /* NULL: not open */
};

/* How an object of the server has changed. */
enum remote_change { REMOTE_UNCHANGED, REMOTE_CREATED, REMOTE_CHANGED };

/* Load the credentials. Release with remote_close(), also after a failure. @kubeconfig NULL:
 * KUBECONFIG, or else ~/.kube/config. */
mk_must_check int remote_open(struct remote *remote, const char *kubeconfig, const char *context,
			      struct mk_error *err);
void remote_close(struct remote *remote);

/* An object's place. @version: "v1" or "group/version"; @namespace_ NULL: of the whole cluster. */
struct remote_place {
	const char *version, *kind, *namespace_, *name;
};

/* The place of @tree, whose texts it uses. */
struct remote_place remote_place_of(json_object *tree);

/* Read an object. Returns 1, and *@tree belongs to the caller; or 0: there is none. */
mk_must_check int remote_get(struct remote *remote, const struct remote_place *place,
			     json_object **tree, struct mk_error *err);
/* Write @tree by server-side apply. @live: what the server has; NULL: nothing. Returns enum
 * remote_change. */
mk_must_check int remote_apply(struct remote *remote, json_object *tree, json_object *live,
			       struct mk_error *err);
/* Change the members of an object that @tree has, by a merge patch. */
mk_must_check int remote_merge(struct remote *remote, const struct remote_place *place,
			       json_object *tree, struct mk_error *err);
/* Returns 1, or 0 if there is no such object. */
mk_must_check int remote_delete(struct remote *remote, const struct remote_place *place,
				struct mk_error *err);

#endif

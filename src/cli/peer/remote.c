// SPDX-License-Identifier: Apache-2.0
#include "cli/peer/remote.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/peer/peer.h"
#include "cluster/api/exchange.h"

#define MANAGER	   "monokube-peer" /* of server-side apply */
#define SILENCE_MS 15000
#define KEPT_BYTES (1 << 20)

/* A request that waits for its answer. It keeps the tree of the answer. */
struct asking {
	struct remote *remote;
	json_object *tree;
	struct mk_answer answer;
};

int remote_open(struct remote *remote, const char *kubeconfig, const char *context,
		struct mk_error *err)
{
	const char *environment = getenv("KUBECONFIG"), *home = getenv("HOME");
	cleanup_free char *path = NULL;
	int ret;

	*remote = (struct remote){ .context = context };
	if (kubeconfig || (environment && *environment))
		path = strdup(kubeconfig ?: environment);
	else if (asprintf(&path, "%s/.kube/config", home ?: "") < 0)
		path = NULL;
	if (!path)
		return mk_error_errno(err, ENOMEM, "kubeconfig");
	ret = mk_credentials_load(&(struct mk_credentials_source){ .kubeconfig = path,
								   .context = context },
				  &remote->credentials, err);
	if (ret == -EOPNOTSUPP)
		return mk_error_wrap(
			err,
			"context '%s' cannot be used: `monokube peer invite` and `ticket` do the same by kubectl",
			context);
	if (ret < 0)
		return ret;
	ret = uv_loop_init(&remote->loop);
	if (ret < 0)
		return mk_error_set(err, -ret, "event loop: %s", uv_strerror(ret));
	remote->http =
		mk_http_new(&remote->loop, &remote->credentials, &mk_http_limits_default, err);
	if (remote->http)
		return 0;
	uv_loop_close(&remote->loop);
	return -err->code;
}

void remote_close(struct remote *remote)
{
	if (remote->http) {
		mk_http_free(remote->http);
		uv_run(&remote->loop, UV_RUN_DEFAULT);
		uv_loop_close(&remote->loop);
	}
	mk_credentials_release(&remote->credentials);
}

struct remote_place remote_place_of(json_object *tree)
{
	const char *namespace_ = mk_json_metadata(tree, "namespace");

	return (struct remote_place){ .version = mk_json_text(tree, "apiVersion"),
				      .kind = mk_json_text(tree, "kind"),
				      .namespace_ = *namespace_ ? namespace_ : NULL,
				      .name = mk_json_metadata(tree, "name") };
}

/* The path in the API. The plural of each kind here is its name with an s. */
static char *target_of(const struct remote_place *place, const char *query)
{
	char kind[64], *target;

	snprintf(kind, sizeof(kind), "%s", place->kind);
	for (char *c = kind; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (asprintf(&target, "/%s/%s%s%s/%ss/%s%s", strchr(place->version, '/') ? "apis" : "api",
		     place->version, place->namespace_ ? "/namespaces/" : "",
		     place->namespace_ ?: "", kind, place->name, query) < 0)
		return NULL;
	return target;
}

/* ---- one request ----------------------------------------------------------------------------- */

static void answered(void *ctx, const struct mk_answer *answer)
{
	struct asking *asking = ctx;

	asking->answer = *answer;
	asking->tree = json_object_get(answer->tree);
	uv_stop(&asking->remote->loop);
}

#define APPLY "application/apply-patch+yaml"
#define MERGE "application/merge-patch+json"

/* @type: of a PATCH; NULL for other methods. */
static int ask(struct asking *asking, const char *method, const struct remote_place *place,
	       const char *type, const char *body, struct mk_error *err)
{
	bool applies = type && strcmp(type, APPLY) == 0;
	cleanup_free char *target =
		target_of(place, applies ? "?fieldManager=" MANAGER "&force=true" : "");
	const struct mk_exchange_request request = {
		.method = method,
		.target = target,
		.content_type = type,
		.body = body,
		.silence_ms = SILENCE_MS,
		.kept_bytes = KEPT_BYTES,
		.done = answered,
		.ctx = asking,
	};

	if (!target)
		return mk_error_errno(err, ENOMEM, "%s '%s'", place->kind, place->name);
	if (!mk_exchange_start(asking->remote->http, &request, err))
		return -err->code;
	uv_run(&asking->remote->loop, UV_RUN_DEFAULT);
	return 0;
}

static const char *remedy_of(const struct mk_answer *answer)
{
	switch (answer->status) {
	case 0:
		return "check that this machine reaches the server, and try again";
	case 401:
		return "the server does not know the user of this context: renew its credentials";
	case 403:
		return "the user of this context may not: use the context of an administrator";
	case 404:
		return "kubectl apply -f manifests/multicluster.yaml there";
	case 415:
		return "server-side apply needs Kubernetes 1.22 or newer";
	}
	return mk_answer_is_temporary(answer) ? "try again" : "see the message of the server";
}

static int fail(const struct remote *remote, const char *verb, const struct remote_place *place,
		const struct mk_answer *answer, struct mk_error *err)
{
	return mk_error_set(err, answer->status == 0 ? EIO : EPERM,
			    "context '%s': cannot %s %s '%s%s%s': %s; %s", remote->context, verb,
			    place->kind, place->namespace_ ?: "", place->namespace_ ? "/" : "",
			    place->name, answer->why, remedy_of(answer));
}

int remote_get(struct remote *remote, const struct remote_place *place, json_object **tree,
	       struct mk_error *err)
{
	struct asking asking = { .remote = remote };
	int ret = ask(&asking, "GET", place, NULL, NULL, err);

	*tree = NULL;
	if (ret == 0 && mk_answer_is_good(&asking.answer) && asking.tree) {
		*tree = asking.tree;
		return 1;
	}
	json_object_put(asking.tree);
	if (ret < 0 || asking.answer.status == 404)
		return ret;
	return fail(remote, "read", place, &asking.answer, err);
}

/* A copy of @tree with all that users write. The server keeps the rest, such as owners. */
static json_object *content_of(json_object *tree)
{
	static const char *const kept_by_server[] = { "managedFields", "resourceVersion",
						      "generation" };
	json_object *copy = NULL, *metadata;

	if (json_object_deep_copy(tree, &copy, NULL) < 0)
		return NULL;
	metadata = mk_json_member(copy, "metadata");
	for (size_t i = 0; metadata && i < MK_ARRAY_SIZE(kept_by_server); i++)
		json_object_object_del(metadata, kept_by_server[i]);
	json_object_object_del(copy, "status");
	return copy;
}

static bool is_same(json_object *before, json_object *after)
{
	cleanup_json json_object *left = content_of(before), *right = content_of(after);

	return left && right && json_object_equal(left, right);
}

int remote_apply(struct remote *remote, json_object *tree, json_object *live, struct mk_error *err)
{
	const struct remote_place place = remote_place_of(tree);
	struct asking asking = { .remote = remote };
	int ret = ask(&asking, "PATCH", &place, APPLY, mk_json_line(tree), err);

	if (ret == 0 && !mk_answer_is_good(&asking.answer))
		ret = fail(remote, "write", &place, &asking.answer, err);
	else if (ret == 0 && !live)
		ret = REMOTE_CREATED;
	else if (ret == 0)
		ret = is_same(live, asking.tree) ? REMOTE_UNCHANGED : REMOTE_CHANGED;
	json_object_put(asking.tree);
	return ret;
}

int remote_merge(struct remote *remote, const struct remote_place *place, json_object *tree,
		 struct mk_error *err)
{
	struct asking asking = { .remote = remote };
	int ret = ask(&asking, "PATCH", place, MERGE, mk_json_line(tree), err);

	json_object_put(asking.tree);
	if (ret < 0 || mk_answer_is_good(&asking.answer))
		return ret;
	return fail(remote, "write", place, &asking.answer, err);
}

int remote_delete(struct remote *remote, const struct remote_place *place, struct mk_error *err)
{
	struct asking asking = { .remote = remote };
	int ret = ask(&asking, "DELETE", place, NULL, NULL, err);

	json_object_put(asking.tree);
	if (ret < 0 || asking.answer.status == 404)
		return ret;
	return mk_answer_is_good(&asking.answer)
		       ? 1
		       : fail(remote, "delete", place, &asking.answer, err);
}

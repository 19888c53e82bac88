// SPDX-License-Identifier: Apache-2.0
/* `monokube peer remap`: let a peer have another view. The command names, in an annotation of the
 * ClusterPeer, the ranges that the peer has to leave; the leader takes others. */
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/peer/peer.h"
#include "cli/peer/remote.h"

#define LOOK_NS	    (200 * 1000000L)
#define LEAVE_CHARS 400

struct remapping {
	const struct mk_cli_options *options;
	struct remote remote;
	struct remote_place place;
	json_object *peer; /* as it was read last */
	struct mk_error *err;
};

static const char *view_of(const struct remapping *of, const char *key)
{
	return mk_json_text(mk_json_member(of->peer, "status"), key);
}

static int read_peer(struct remapping *of)
{
	int ret;

	json_object_put(mk_steal_ptr(of->peer));
	ret = remote_get(&of->remote, &of->place, &of->peer, of->err);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	return mk_error_set(of->err, ENOENT,
			    "context '%s': there is no ClusterPeer '%s': kubectl --context %s get "
			    "clusterpeers lists all",
			    of->remote.context, of->place.name, of->remote.context);
}

/* Is @view a word of @text? Words end where no address can go on. */
static bool has_word(const char *text, const char *view)
{
	static const char *const parts = "0123456789abcdef.:/";
	size_t length = strlen(view);

	for (const char *at = text; (at = strstr(at, view)); at += length)
		if ((at == text || !strchr(parts, at[-1])) &&
		    (!at[length] || !strchr(parts, at[length])))
			return true;
	return false;
}

/* Only the view that a condition Ranges=False names is left, or else both. */
static bool is_wrong(const struct remapping *of, const char *view)
{
	json_object *ranges = mk_json_condition(mk_json_member(of->peer, "status"), "Ranges");

	return strcmp(mk_json_text(ranges, "reason"), "Conflict") != 0 ||
	       has_word(mk_json_text(ranges, "message"), view);
}

/* Collect the views of the pool that the peer has, "a,b"; it is empty if there are none. */
static void list_views(const struct remapping *of, char text[LEAVE_CHARS])
{
	static const char *const keys[] = { "podCidr", "externalCidr" };
	json_object *spec = mk_json_member(of->peer, "spec");
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < MK_ARRAY_SIZE(keys); i++) {
		cleanup_free char *views = strdup(view_of(of, keys[i]));
		char *rest = views, *view;

		if (*mk_json_text(spec, keys[i]))
			continue;
		while (views && (view = strsep(&rest, ",")))
			if (*view && is_wrong(of, view))
				used += (size_t)snprintf(text + used, LEAVE_CHARS - used, "%s%s",
							 used ? "," : "", view);
	}
}

/* ---- the annotation -------------------------------------------------------------------------- */

static int leave(struct remapping *of, const char *views)
{
	cleanup_json json_object *tree = json_object_new_object();
	json_object *metadata = json_object_new_object(), *annotations = json_object_new_object();

	mk_put_text(annotations, MK_LEAVE_ANNOTATION, views);
	json_object_object_add(metadata, "annotations", annotations);
	json_object_object_add(tree, "metadata", metadata);
	return remote_merge(&of->remote, &of->place, tree, of->err);
}

static bool has_left(const struct remapping *of, const char *views)
{
	char now[LEAVE_CHARS], *rest = now, *view;

	snprintf(now, sizeof(now), "%s,%s", view_of(of, "podCidr"), view_of(of, "externalCidr"));
	while ((view = strsep(&rest, ",")))
		if (*view && has_word(views, view))
			return false;
	return true;
}

static int wait_for_leader(struct remapping *of, const char *views)
{
	uint64_t end = mk_time_monotonic_ns() + of->options->timeout * MK_NS_PER_S;
	int ret = 0;

	while (ret == 0 && !has_left(of, views)) {
		if (mk_time_monotonic_ns() > end)
			return mk_error_set(
				of->err, ETIMEDOUT,
				"context '%s': ClusterPeer '%s' still has a view of %s after %u s: its condition Ranges says why; check that agents run there",
				of->remote.context, of->place.name, views, of->options->timeout);
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
		ret = read_peer(of);
	}
	return ret;
}

static int remap(struct remapping *of)
{
	char views[LEAVE_CHARS];
	int ret = read_peer(of);

	if (ret < 0)
		return ret;
	list_views(of, views);
	if (!*views)
		return mk_error_set(
			of->err, ENOENT,
			"context '%s': ClusterPeer '%s' has no view of peerPools: if spec.podCidr or spec.externalCidr is set, change that to a free range",
			of->remote.context, of->place.name);
	if (of->options->dry_run) {
		printf("ClusterPeer %s would leave %s\n", of->place.name, views);
		return 0;
	}
	ret = leave(of, views);
	ret = ret ?: read_peer(of);
	ret = ret ?: wait_for_leader(of, views);
	if (ret == 0)
		printf("ClusterPeer %s has left %s: podCidr %s, externalCidr %s\n", of->place.name,
		       views, view_of(of, "podCidr"), view_of(of, "externalCidr"));
	return ret;
}

int mk_cli_peer_remap(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	struct remapping of = { .options = &options, .err = &err };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	if (ret == 0) {
		of.place = (struct remote_place){ "networking.monokube.io/v1alpha1", "ClusterPeer",
						  NULL, options.words[1] };
		ret = cluster_name_check("NAME", options.words[1], &err);
		ret = ret ?: remote_open(&of.remote, options.kubeconfig, options.words[0], &err);
		ret = ret ?: remap(&of);
		json_object_put(of.peer);
		remote_close(&of.remote);
	}
	return ret < 0 ? mk_cli_fail(argv[0], &err) : 0;
}

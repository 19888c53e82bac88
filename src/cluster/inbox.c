// SPDX-License-Identifier: Apache-2.0
#include "cluster/inbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "cluster/api/objects.h"
#include "cluster/lead_internal.h"

#define GROUP "/apis/networking.monokube.io/v1alpha1/namespaces/"
#define REMEDY \
	"apply at the peer what `monokube peer invite NAME --inbox` prints there, with the name of this cluster"

/* An object that lies there, or was put. */
struct lying {
	enum mk_peer_api_kind kind;
	bool is_there;
	char *target, *name;
	UT_hash_handle hh; /* by target */
};

struct inbox {
	struct mk_lead *lead;
	struct inbox_place place;
	struct mk_objects *objects;
	struct lying *lying;
	bool is_closing; /* all goes */
};

static const struct {
	const char *kind, *plural;
} kinds[] = {
	[MK_PEER_API_CLUSTERS] = { "PublishedCluster", "publishedclusters" },
	[MK_PEER_API_NODES] = { "PublishedNode", "publishednodes" },
	[MK_PEER_API_SERVICES] = { "PublishedService", "publishedservices" },
};

static char *target_of(const struct inbox *inbox, enum mk_peer_api_kind kind, const char *name)
{
	char *target = NULL;

	if (asprintf(&target, GROUP "%s/%s/%s", inbox->place.namespace_, kinds[kind].plural, name) <
	    0)
		return NULL;
	return target;
}

/* ---- what lies there ------------------------------------------------------------------------- */

static struct lying *find(const struct inbox *inbox, const char *target)
{
	struct lying *lying;

	HASH_FIND_STR(inbox->lying, target, lying);
	return lying;
}

static void forget(struct inbox *inbox, struct lying *lying)
{
	if (!lying)
		return;
	HASH_DEL(inbox->lying, lying);
	free(lying->target);
	free(lying->name);
	free(lying);
}

/* NULL: no memory. */
static struct lying *get(struct inbox *inbox, enum mk_peer_api_kind kind, const char *target,
			 const char *name)
{
	struct lying *lying = find(inbox, target);

	if (lying)
		return lying;
	lying = calloc(1, sizeof(*lying));
	if (!lying)
		return NULL;
	lying->kind = kind;
	lying->target = strdup(target);
	lying->name = strdup(name);
	if (lying->target && lying->name) {
		HASH_ADD_KEYPTR(hh, inbox->lying, lying->target, strlen(lying->target), lying);
		return lying;
	}
	free(lying->target);
	free(lying->name);
	free(lying);
	return NULL;
}

/* ---- writes ---------------------------------------------------------------------------------- */

/* Forget an object that the server does not show. If its write is on the way, the watch shows it
 * later. */
static void drop(struct inbox *inbox, struct lying *lying)
{
	cleanup_free char *title = NULL;
	struct mk_object_place place = { lying->target, kinds[lying->kind].kind, NULL, REMEDY };
	struct mk_error err = { 0 };
	int ret = -ENOMEM;

	if (!lying->is_there) {
		mk_objects_forget(inbox->objects, lying->target);
		forget(inbox, lying);
		return;
	}
	if (asprintf(&title, "%s/%s at peer %s", inbox->place.namespace_, lying->name,
		     inbox->place.peer) < 0)
		title = NULL;
	place.title = title;
	if (title)
		ret = mk_objects_delete(inbox->objects, &place, NULL, &err);
	if (ret < 0)
		mk_log_error("%s %s: not deleted: out of memory", place.kind, lying->name);
}

bool inbox_see(struct inbox *inbox, enum mk_peer_api_kind kind, const char *name, json_object *tree)
{
	cleanup_free char *target = target_of(inbox, kind, name);
	struct lying *lying;
	bool is_unknown;

	if (!target)
		return false;
	is_unknown = !mk_objects_knows(inbox->objects, target);
	(void)mk_objects_see(inbox->objects, target, tree);
	if (!tree) {
		forget(inbox, find(inbox, target));
		return false;
	}
	lying = get(inbox, kind, target, name);
	if (!lying)
		return false;
	lying->is_there = true;
	if (inbox->is_closing)
		drop(inbox, lying);
	return is_unknown;
}

static int kind_named(const char *name)
{
	for (size_t kind = 0; kind < MK_ARRAY_SIZE(kinds); kind++)
		if (strcmp(kinds[kind].kind, name) == 0)
			return (int)kind;
	return -EINVAL;
}

/* Return a copy of @tree in the inbox. NULL: no memory. */
static json_object *moved(const struct inbox *inbox, json_object *tree)
{
	json_object *copy = NULL;

	if (json_object_deep_copy(tree, &copy, NULL) < 0)
		return NULL;
	mk_put_text(mk_json_member(copy, "metadata"), "namespace", inbox->place.namespace_);
	return copy;
}

int inbox_put(struct inbox *inbox, json_object *tree, struct mk_error *err)
{
	const char *name = mk_json_metadata(tree, "name");
	int kind = kind_named(mk_json_text(tree, "kind"));
	cleanup_free char *target = NULL, *title = NULL;
	cleanup_json json_object *copy = NULL;
	int ret;

	if (kind < 0 || inbox->is_closing)
		return 0;
	target = target_of(inbox, (enum mk_peer_api_kind)kind, name);
	if (asprintf(&title, "%s/%s at peer %s", inbox->place.namespace_, name, inbox->place.peer) <
	    0)
		title = NULL;
	copy = moved(inbox, tree);
	if (!target || !title || !copy || !get(inbox, (enum mk_peer_api_kind)kind, target, name))
		return mk_error_errno(err, ENOMEM, "inbox at peer %s", inbox->place.peer);
	ret = mk_objects_apply(inbox->objects,
			       &(struct mk_object_place){ target, kinds[kind].kind, title, REMEDY },
			       copy, err);
	return ret < 0 ? ret : 0;
}

void inbox_sweep(struct inbox *inbox, mk_peer_api_wanted_fn *is_wanted, void *ctx)
{
	struct lying *lying, *next;

	inbox->is_closing |= !is_wanted;
	if (!is_wanted)
		mk_objects_clear(inbox->objects);
	HASH_ITER(hh, inbox->lying, lying, next)
		if (!is_wanted || !is_wanted(ctx, lying->kind, lying->name))
			drop(inbox, lying);
}

bool inbox_is_empty(const struct inbox *inbox)
{
	return !inbox->lying && mk_objects_waiting(inbox->objects) == 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool may_write(void *ctx)
{
	return mk_lead_leads(ctx);
}

struct inbox *inbox_new(struct mk_lead *lead, struct mk_http *http, const struct inbox_place *place,
			struct mk_error *err)
{
	const struct mk_objects_options options = { .manager = "monokube",
						    .may_write = may_write,
						    .ctx = lead };
	struct inbox *inbox = calloc(1, sizeof(*inbox));

	if (!inbox) {
		mk_error_errno(err, ENOMEM, "inbox at peer %s", place->peer);
		return NULL;
	}
	inbox->lead = lead;
	inbox->place = *place;
	inbox->objects = mk_objects_new(lead->kube->loop, http, &options, err);
	if (inbox->objects)
		return inbox;
	free(inbox);
	return NULL;
}

void inbox_free(struct inbox *inbox)
{
	struct lying *lying, *next;

	if (!inbox)
		return;
	HASH_ITER(hh, inbox->lying, lying, next)
		forget(inbox, lying);
	mk_objects_free(inbox->objects);
	free(inbox);
}

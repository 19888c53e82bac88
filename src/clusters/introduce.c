// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "clusters/introduce.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* ---- peers ----------------------------------------------------------------------------------- */

static const struct mk_introduce_peer *find_peer(const struct mk_introduce_input *input,
						 const char *name)
{
	return name ? mk_find(&name, input->peers, input->peer_count, mk_compare_texts) : NULL;
}

/* Packets pass one hub at most. */
static bool is_hub(const struct mk_introduce_peer *peer)
{
	return peer && peer->accepts && !peer->via;
}

static bool is_introduced(const struct mk_introduce_peer *peer)
{
	return peer->is_ours && peer->owner_name;
}

static int compare_age(const struct mk_introduce_peer *a, const struct mk_introduce_peer *b)
{
	if (a->created_unix_s != b->created_unix_s)
		return a->created_unix_s < b->created_unix_s ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* ---- which clusters a hub shows -------------------------------------------------------------- */

static const struct mk_introduce_cluster *find_cluster(const struct mk_introduce_input *input,
						       const char *name)
{
	return mk_find(&name, input->clusters, input->cluster_count, mk_compare_texts);
}

static bool shows(const struct mk_introduce_cluster *cluster, const struct mk_introduce_peer *hub)
{
	return cluster->relayed_by && strcmp(cluster->relayed_by, hub->name) == 0;
}

/* ---- ClusterPeers that exist ----------------------------------------------------------------- */

static bool is_same(const char *a, const char *b)
{
	return a && b && strcmp(a, b) == 0;
}

static enum mk_introduce_action action_of(const struct mk_introduce_input *input,
					  const struct mk_introduce_peer *peer)
{
	const struct mk_introduce_peer *hub = find_peer(input, peer->owner_name);
	const struct mk_introduce_cluster *cluster = find_cluster(input, peer->name);

	if (!is_introduced(peer))
		return MK_INTRODUCE_KEEP;
	if (peer->is_read || !is_same(peer->via, peer->owner_name))
		return MK_INTRODUCE_RELEASE;
	if (!is_hub(hub) || !is_same(hub->uid, peer->owner_uid))
		return MK_INTRODUCE_DELETE;
	if (cluster)
		return shows(cluster, hub) ? MK_INTRODUCE_KEEP : MK_INTRODUCE_DELETE;
	if (peer->waits_since_ms && input->now_ms >= peer->waits_since_ms + MK_INTRODUCE_GRACE_MS)
		return MK_INTRODUCE_DELETE;
	return MK_INTRODUCE_WAIT;
}

/* ---- new ones -------------------------------------------------------------------------------- */

static bool is_new(const struct mk_introduce_input *input,
		   const struct mk_introduce_cluster *cluster)
{
	return mk_is_dns_label(cluster->name) && strcmp(cluster->name, input->own) != 0 &&
	       is_hub(find_peer(input, cluster->relayed_by)) && !find_peer(input, cluster->name);
}

static void create(const struct mk_introduce_input *input, size_t kept,
		   struct mk_introductions *result)
{
	for (size_t i = 0; i < input->cluster_count; i++) {
		const struct mk_introduce_cluster *cluster = &input->clusters[i];

		if (!is_new(input, cluster))
			continue;
		if (kept + result->created_count >= MK_INTRODUCED_MAX) {
			result->left_out++;
			continue;
		}
		result->created[result->created_count++] =
			(struct mk_introduction){ cluster->name,
						  find_peer(input, cluster->relayed_by) };
	}
}

int mk_introduce(const struct mk_introduce_input *input, struct mk_introductions *result,
		 struct mk_error *err)
{
	size_t kept = 0;

	*result = (struct mk_introductions){
		.actions = calloc(input->peer_count + 1, sizeof(*result->actions)),
		.created = calloc(input->cluster_count + 1, sizeof(*result->created)),
	};
	if (!result->actions || !result->created)
		return mk_error_errno(err, ENOMEM, "clusters that hubs introduce");
	for (size_t i = 0; i < input->peer_count; i++) {
		result->actions[i] = action_of(input, &input->peers[i]);
		kept += is_introduced(&input->peers[i]) &&
			(result->actions[i] == MK_INTRODUCE_KEEP ||
			 result->actions[i] == MK_INTRODUCE_WAIT);
	}
	create(input, kept, result);
	return 0;
}

void mk_introductions_release(struct mk_introductions *result)
{
	free(result->actions);
	free(result->created);
	*result = (struct mk_introductions){ 0 };
}

/* ---- what may be copied, and what is shown --------------------------------------------------- */

/* Of two hubs that show a cluster at the same time, the older one introduces it. */
static bool is_first(const struct mk_introduce_input *input, const struct mk_introduce_peer *hub,
		     const char *cluster)
{
	const struct mk_introduce_cluster *known = find_cluster(input, cluster);
	const struct mk_introduce_peer *other = known ? find_peer(input, known->relayed_by) : NULL;

	if (known && !known->relayed_by)
		return false; /* a user has carried it here */
	return !is_hub(other) || other == hub || compare_age(hub, other) < 0;
}

bool mk_introduce_may_copy(const struct mk_introduce_input *input, const char *from,
			   const char *cluster)
{
	const struct mk_introduce_peer *hub = find_peer(input, from);
	const struct mk_introduce_peer *peer = find_peer(input, cluster);

	if (!hub || strcmp(cluster, input->own) == 0)
		return false;
	if (strcmp(cluster, from) == 0)
		return true;
	if (hub->via || !mk_is_dns_label(cluster))
		return false;
	if (peer)
		return is_same(peer->via, from) && !peer->is_read;
	return is_hub(hub) && is_first(input, hub, cluster);
}

/* The name of an object begins with that of its cluster, so it is no object of another cluster. */
static bool is_name_of(const char *object, const char *cluster)
{
	size_t length = strlen(cluster);

	return strncmp(object, cluster, length) == 0 &&
	       (object[length] == '\0' || object[length] == '.');
}

bool mk_introduce_shows(const struct mk_introduce_peer *peer, const char *cluster,
			const char *object, const char *relayed_by)
{
	return peer && peer->relays && !peer->via && !*relayed_by &&
	       strcmp(peer->name, cluster) == 0 && is_name_of(object, cluster);
}

// SPDX-License-Identifier: Apache-2.0
/* Writes what this cluster publishes into its inboxes at peers that cannot read it here. */
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "agent/leader/leader_internal.h"
#include "base/log.h"

#define LEAVE_MS      10000 /* ten seconds to empty an inbox */
#define LEAVE_LOOK_MS 100

static const enum mk_lead_kind own_kinds[MK_PEER_API_KINDS] = {
	[MK_PEER_API_CLUSTERS] = MK_LEAD_OWN_CLUSTERS,
	[MK_PEER_API_NODES] = MK_LEAD_OWN_NODES,
	[MK_PEER_API_SERVICES] = MK_LEAD_OWN_SERVICES,
};

void leader_inbox_changed(void *ctx, bool is_new)
{
	struct leader_peer *peer = ctx;
	struct leader_term *term = peer->leader->term;

	peer->inbox_due |= is_new;
	term->sweep_due = true;
	term->cluster_due |= is_new;
	leader_schedule(peer->leader);
}

/* ---- what lies there ------------------------------------------------------------------------- */

void leader_inbox_put(struct mk_leader *leader, json_object *tree)
{
	struct leader_peer *peer, *next;
	struct mk_error err;

	HASH_ITER(hh, leader->term->peers, peer, next)
		if (mk_peer_api_put(peer->api, tree, &err) < 0)
			leader_failed(leader, &err);
}

/* Nodes and this cluster are written by leader_publish_cluster(). */
void leader_inbox_fill(struct mk_leader *leader)
{
	struct leader_export *of, *next_of;
	struct leader_peer *peer, *next;
	struct mk_error err;

	HASH_ITER(hh, leader->term->peers, peer, next) {
		if (!peer->inbox_due)
			continue;
		peer->inbox_due = false;
		HASH_ITER(hh, leader->term->exports, of, next_of)
			for (size_t i = 0; i < of->publication.part_count; i++)
				if (mk_peer_api_put(peer->api, of->publication.parts[i], &err) < 0)
					leader_failed(leader, &err);
	}
}

struct sweep {
	const struct mk_leader *leader;
	leader_publishes *publishes;
};

static bool is_wanted(void *ctx, enum mk_peer_api_kind kind, const char *name)
{
	const struct sweep *sweep = ctx;

	return sweep->publishes(sweep->leader, own_kinds[kind], name);
}

void leader_inbox_sweep(struct mk_leader *leader, leader_publishes *publishes)
{
	struct sweep sweep = { leader, publishes };
	struct leader_peer *peer, *next;

	HASH_ITER(hh, leader->term->peers, peer, next)
		mk_peer_api_sweep(peer->api, is_wanted, &sweep);
}

/* ---- the end --------------------------------------------------------------------------------- */

void leader_peer_free(struct leader_peer *peer)
{
	mk_peer_api_stop(peer->api);
	free(peer->name);
	free(peer->secret);
	free(peer);
}

static void left(struct leader_term *term, struct leader_peer *peer)
{
	LL_DELETE(term->leaving, peer);
	leader_peer_free(peer);
}

void leader_inbox_leave(struct mk_leader *leader, struct leader_peer *peer)
{
	struct leader_term *term = leader->term;

	peer->leave_until_ms = leader_now_ms() + LEAVE_MS;
	mk_peer_api_withdraw(peer->api);
	LL_PREPEND(term->leaving, peer);
	term->leave_again_ms = leader_now_ms() + LEAVE_LOOK_MS;
	leader_schedule(leader);
}

void leader_inbox_stay(struct leader_term *term, const char *name)
{
	struct leader_peer *peer, *next;

	LL_FOREACH_SAFE(term->leaving, peer, next)
		if (strcmp(peer->name, name) == 0)
			left(term, peer);
}

/* The token may have ended before the last object went. */
static const char *lack_of_answer(const struct leader_peer *peer)
{
	if (mk_peer_api_state(peer->api).reason == MK_PEER_API_UNAUTHORIZED)
		return "its API server takes the token of this cluster no longer, as after `monokube peer leave`";
	return "its API server has not confirmed it within ten seconds";
}

void leader_inbox_look(struct mk_leader *leader)
{
	struct leader_term *term = leader->term;
	struct leader_peer *peer, *next;

	LL_FOREACH_SAFE(term->leaving, peer, next) {
		if (mk_peer_api_is_withdrawn(peer->api)) {
			mk_log_info("peer %s: the inbox there is empty", peer->name);
			left(term, peer);
		} else if (leader_now_ms() >= peer->leave_until_ms) {
			mk_log_warn(
				"peer %s: the inbox of this cluster there may not be empty: %s; if namespace " MK_INBOX_PREFIX
				"%s still exists there, delete it",
				peer->name, lack_of_answer(peer), leader->config->cluster_name);
			left(term, peer);
		}
	}
	term->leave_again_ms = term->leaving ? leader_now_ms() + LEAVE_LOOK_MS : 0;
}

void leader_inbox_end(struct leader_term *term)
{
	struct leader_peer *peer, *next;

	LL_FOREACH_SAFE(term->leaving, peer, next)
		left(term, peer);
}

// SPDX-License-Identifier: Apache-2.0
/* Events on ClusterPeers: one for each change of a condition. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/leader/leader_internal.h"
#include "base/json.h"

/* The reason of a condition as the last Event, or the server's object, had it. */
struct leader_said {
	char *key; /* PEER/TYPE */
	char *reason;
	UT_hash_handle hh;
};

static struct leader_said *find(const struct leader_term *term, const char *key)
{
	struct leader_said *said;

	HASH_FIND_STR(term->events, key, said);
	return said;
}

static void remember(struct leader_term *term, const char *key, const char *reason)
{
	struct leader_said *said = find(term, key);
	char *copy = strdup(reason);

	if (said && copy) {
		free(said->reason);
		said->reason = copy;
		return;
	}
	said = copy ? calloc(1, sizeof(*said)) : NULL;
	if (said && (said->key = strdup(key))) {
		said->reason = copy;
		HASH_ADD_KEYPTR(hh, term->events, said->key, strlen(said->key), said);
		return;
	}
	free(said);
	free(copy);
}

/* The reason of condition @type that the server has; NULL: none. */
static const char *reason_there(json_object *tree, const char *type)
{
	json_object *condition = mk_json_condition(mk_json_member(tree, "status"), type);

	return condition ? mk_json_text(condition, "reason") : NULL;
}

static void say(struct mk_leader *leader, const struct mk_lead_object *peer, json_object *condition)
{
	struct leader_term *term = leader->term;
	const char *type = mk_json_text(condition, "type");
	const char *reason = mk_json_text(condition, "reason");
	bool is_true = strcmp(mk_json_text(condition, "status"), "True") == 0;
	char key[2 * MK_OBJECT_NAME_SIZE];
	const struct leader_said *said;
	enum mk_peer_news news;

	snprintf(key, sizeof(key), "%s/%s", peer->name, type);
	said = find(term, key);
	news = mk_peer_news(type, said ? said->reason : reason_there(peer->tree, type), reason,
			    is_true);
	if (news != MK_PEER_NEWS_QUIET)
		remember(term, key, reason);
	if (news == MK_PEER_NEWS_GOOD || news == MK_PEER_NEWS_BAD)
		mk_lead_event(leader->lead, peer, news == MK_PEER_NEWS_BAD, reason,
			      mk_json_text(condition, "message"));
}

void leader_say_conditions(struct mk_leader *leader, const struct mk_lead_object *peer,
			   json_object *status)
{
	json_object *list = mk_json_member(mk_json_member(status, "status"), "conditions");

	for (size_t i = 0; i < mk_json_length(list); i++)
		say(leader, peer, json_object_array_get_idx(list, i));
}

static bool is_of(const struct leader_said *said, const char *peer)
{
	size_t length = strlen(peer);

	return strncmp(said->key, peer, length) == 0 && said->key[length] == '/';
}

void leader_events_forget(struct leader_term *term, const char *peer)
{
	struct leader_said *said, *next;

	HASH_ITER(hh, term->events, said, next) {
		if (peer && !is_of(said, peer))
			continue;
		HASH_DEL(term->events, said);
		free(said->key);
		free(said->reason);
		free(said);
	}
}

// SPDX-License-Identifier: Apache-2.0
/* Introductions: which ClusterPeers a branch has by its hubs, what it copies, what a hub shows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusters/introduce.h"
#include "unit/clusterset_text.h"
#include "unit/unit.h"

#define PEERS_MAX 4

/* ClusterPeers, sorted by name. The uid is "u-NAME". */
#define HUB(name_)                                                                      \
	{                                                                               \
		.name = name_, .uid = "u-" name_, .created_unix_s = 10, .accepts = true \
	}
#define DIRECT(name_)                                                 \
	{                                                             \
		.name = name_, .uid = "u-" name_, .created_unix_s = 5 \
	}
#define BY(name_, hub)                                                              \
	{                                                                           \
		.name = name_, .uid = "u-" name_, .via = hub, .created_unix_s = 20, \
		.is_ours = true, .owner_name = hub, .owner_uid = "u-" hub           \
	}
#define NOW_MS 100000
#define WAITS(name_, hub, since_ms)                                                 \
	{                                                                           \
		.name = name_, .uid = "u-" name_, .via = hub, .created_unix_s = 20, \
		.is_ours = true, .owner_name = hub, .owner_uid = "u-" hub,          \
		.waits_since_ms = since_ms                                          \
	}
#define SHOWN(name_, hub)                        \
	{                                        \
		.name = name_, .relayed_by = hub \
	}
#define NONE              \
	{                 \
		{         \
			0 \
		}         \
	}

static const struct {
	const char *name;
	struct mk_introduce_peer peers[PEERS_MAX];
	struct mk_introduce_cluster clusters[PEERS_MAX];
	const char *want;
} rows[] = {
	{ "nothing", NONE, NONE, "" },
	{ "a hub introduces two",
	  { HUB("hub") },
	  { SHOWN("east", "hub"), SHOWN("north", "hub") },
	  "create east by hub, create north by hub" },
	{ "its own PublishedCluster is none", { HUB("hub") }, { SHOWN("hub", NULL) }, "" },
	{ "this cluster is never introduced", { HUB("hub") }, { SHOWN("west", "hub") }, "" },
	{ "accept: None", { DIRECT("hub") }, { SHOWN("east", "hub") }, "" },
	{ "a hub that is reached by another one",
	  { { .name = "hub", .uid = "u-hub", .via = "other", .accepts = true }, HUB("other") },
	  { SHOWN("east", "hub") },
	  "" },
	{ "a hub without ClusterPeer", NONE, { SHOWN("east", "hub") }, "" },
	{ "carried by a user", { HUB("hub") }, { SHOWN("east", NULL) }, "" },
	{ "names that are none",
	  { HUB("hub") },
	  { SHOWN("", "hub"), SHOWN("-a", "hub"), SHOWN("a.b", "hub"), SHOWN("a-", "hub") },
	  "" },
	{ "a user's ClusterPeer stays",
	  { DIRECT("east"), HUB("hub") },
	  { SHOWN("east", "hub") },
	  "" },
	{ ".. also one that lacks the owner reference",
	  { { .name = "east", .via = "hub", .is_ours = true }, HUB("hub") },
	  { SHOWN("north", "hub") },
	  "create north by hub" },
	{ ".. or the label",
	  { { .name = "east", .via = "hub", .owner_name = "hub", .owner_uid = "u-hub" },
	    HUB("hub") },
	  NONE,
	  "" },
	{ "introduced already", { BY("east", "hub"), HUB("hub") }, { SHOWN("east", "hub") }, "" },
	{ "shown no longer", { BY("east", "hub"), HUB("hub") }, NONE, "wait east" },
	{ ".. for less than a minute",
	  { WAITS("east", "hub", NOW_MS - 59999), HUB("hub") },
	  NONE,
	  "wait east" },
	{ ".. for a minute",
	  { WAITS("east", "hub", NOW_MS - 60000), HUB("hub") },
	  NONE,
	  "delete east" },
	{ ".. and now again",
	  { WAITS("east", "hub", NOW_MS - 60000), HUB("hub") },
	  { SHOWN("east", "hub") },
	  "" },
	{ "shown no longer, while others are",
	  { BY("east", "hub"), HUB("hub") },
	  { SHOWN("north", "hub") },
	  "wait east, create north by hub" },
	{ "shown by another hub, which waits until the first one is over",
	  { BY("east", "hub"), HUB("hub"), HUB("other") },
	  { SHOWN("east", "other") },
	  "delete east" },
	{ "accept is None again",
	  { BY("east", "hub"), DIRECT("hub") },
	  { SHOWN("east", "hub") },
	  "delete east" },
	{ "the hub is gone", { BY("east", "hub") }, { SHOWN("east", "hub") }, "delete east" },
	{ "the hub is another object",
	  { BY("east", "hub"), { .name = "hub", .uid = "new", .accepts = true } },
	  { SHOWN("east", "hub") },
	  "delete east" },
	{ "taken over with a Secret",
	  { { .name = "east",
	      .via = "hub",
	      .is_read = true,
	      .is_ours = true,
	      .owner_name = "hub",
	      .owner_uid = "u-hub" },
	    HUB("hub") },
	  { SHOWN("east", "hub") },
	  "release east" },
	{ "taken over with another path, and shown no longer",
	  { { .name = "east", .is_ours = true, .owner_name = "hub", .owner_uid = "u-hub" },
	    HUB("hub") },
	  NONE,
	  "release east" },
};

/* The arrays of a row end with a name that is NULL. */
static struct mk_introduce_input input_of(const struct mk_introduce_peer *peers,
					  const struct mk_introduce_cluster *clusters)
{
	struct mk_introduce_input input = {
		.own = "west", .peers = peers, .clusters = clusters, .now_ms = NOW_MS
	};

	while (input.peer_count < PEERS_MAX && peers[input.peer_count].name)
		input.peer_count++;
	while (input.cluster_count < PEERS_MAX && clusters[input.cluster_count].name)
		input.cluster_count++;
	return input;
}

static const char *comma(const char *text)
{
	return *text ? ", " : "";
}

START_TEST(test_rows)
{
	static const char *const words[] = { [MK_INTRODUCE_DELETE] = "delete",
					     [MK_INTRODUCE_WAIT] = "wait",
					     [MK_INTRODUCE_RELEASE] = "release" };
	const struct mk_introduce_input input = input_of(rows[_i].peers, rows[_i].clusters);
	cleanup_free char *text = strdup("");
	struct mk_introductions result;
	struct mk_error err;

	ck_ok(mk_introduce(&input, &result, &err));
	for (size_t i = 0; i < input.peer_count; i++)
		if (result.actions[i] != MK_INTRODUCE_KEEP)
			text_add(&text, "%s%s %s", comma(text), words[result.actions[i]],
				 input.peers[i].name);
	for (size_t i = 0; i < result.created_count; i++)
		text_add(&text, "%screate %s by %s", comma(text), result.created[i].name,
			 result.created[i].hub->name);
	ck_assert_msg(strcmp(text, rows[_i].want) == 0, "%s: got \"%s\", expected \"%s\"",
		      rows[_i].name, text, rows[_i].want);
	ck_assert_uint_eq(result.left_out, 0);
	mk_introductions_release(&result);
}
END_TEST

/* A hub that shows too many clusters does not use up all ClusterPeers. */
START_TEST(test_limit)
{
	static char names[MK_INTRODUCED_MAX + 2][8];
	static struct mk_introduce_cluster clusters[MK_INTRODUCED_MAX + 2];
	const struct mk_introduce_peer peers[] = { BY("c0000", "hub"), HUB("hub") };
	const struct mk_introduce_input input = { "west", peers, clusters, 2, MK_INTRODUCED_MAX + 2,
						  NOW_MS };
	struct mk_introductions result;
	struct mk_error err;

	for (size_t i = 0; i < MK_INTRODUCED_MAX + 2; i++) {
		snprintf(names[i], sizeof(names[i]), "c%04zu", i % 10000);
		clusters[i] = (struct mk_introduce_cluster){ names[i], "hub" };
	}
	ck_ok(mk_introduce(&input, &result, &err));
	ck_assert_uint_eq(result.created_count, MK_INTRODUCED_MAX - 1);
	ck_assert_uint_eq(result.left_out, 2);
	ck_assert_str_eq(result.created[0].name, "c0001");
	mk_introductions_release(&result);
}
END_TEST

/* ---- what is copied -------------------------------------------------------------------------- */

static const struct {
	const char *name;
	struct mk_introduce_peer peers[PEERS_MAX];
	struct mk_introduce_cluster clusters[PEERS_MAX];
	const char *from, *cluster;
	bool want;
} copies[] = {
	{ "of itself", { DIRECT("east") }, NONE, "east", "east", true },
	{ "of itself, reached by a hub",
	  { BY("east", "hub"), HUB("hub") },
	  NONE,
	  "east",
	  "east",
	  true },
	{ "no peer", NONE, NONE, "east", "east", false },
	{ "of this cluster", { HUB("hub") }, NONE, "hub", "west", false },
	{ "a hub, of a new cluster", { HUB("hub") }, NONE, "hub", "east", true },
	{ "accept: None", { DIRECT("hub") }, NONE, "hub", "east", false },
	{ "a name that is none", { HUB("hub") }, NONE, "hub", "a.b", false },
	{ "introduced by it", { BY("east", "hub"), HUB("hub") }, NONE, "hub", "east", true },
	{ "introduced by another hub",
	  { BY("east", "hub"), HUB("hub"), HUB("other") },
	  NONE,
	  "other",
	  "east",
	  false },
	{ "a user's ClusterPeer by the hub, accept: None",
	  { { .name = "east", .via = "hub" }, DIRECT("hub") },
	  NONE,
	  "hub",
	  "east",
	  true },
	{ "a user's direct ClusterPeer",
	  { DIRECT("east"), HUB("hub") },
	  NONE,
	  "hub",
	  "east",
	  false },
	{ "read at its own server",
	  { { .name = "east", .via = "hub", .is_read = true }, HUB("hub") },
	  NONE,
	  "hub",
	  "east",
	  false },
	{ "a hub behind a hub",
	  { { .name = "far", .via = "hub", .accepts = true }, HUB("hub") },
	  NONE,
	  "far",
	  "east",
	  false },
	{ "shown by it before", { HUB("hub") }, { SHOWN("east", "hub") }, "hub", "east", true },
	{ "carried by a user", { HUB("hub") }, { SHOWN("east", NULL) }, "hub", "east", false },
	{ "shown by another hub of this age, whose name comes first",
	  { HUB("hub"), HUB("other") },
	  { SHOWN("east", "hub") },
	  "other",
	  "east",
	  false },
	{ ".. whose name comes later",
	  { HUB("hub"), HUB("other") },
	  { SHOWN("east", "other") },
	  "hub",
	  "east",
	  true },
	{ ".. that is accepted no longer",
	  { DIRECT("hub"), HUB("other") },
	  { SHOWN("east", "hub") },
	  "other",
	  "east",
	  true },
};

START_TEST(test_copies)
{
	const struct mk_introduce_input input = input_of(copies[_i].peers, copies[_i].clusters);

	ck_assert_msg(mk_introduce_may_copy(&input, copies[_i].from, copies[_i].cluster) ==
			      copies[_i].want,
		      "%s", copies[_i].name);
}
END_TEST

/* ---- what a hub shows ------------------------------------------------------------------------ */

START_TEST(test_shows)
{
	struct mk_introduce_peer east = { .name = "east", .relays = true };

	ck_assert(mk_introduce_shows(&east, "east", "east", ""));
	ck_assert(mk_introduce_shows(&east, "east", "east.shop.web.1", ""));
	ck_assert(!mk_introduce_shows(NULL, "east", "east", ""));
	ck_assert(!mk_introduce_shows(&east, "north", "north", ""));
	/* It could be an object of another cluster, or of the hub itself. */
	ck_assert(!mk_introduce_shows(&east, "east", "hub.shop.web", ""));
	ck_assert(!mk_introduce_shows(&east, "east", "eastern", ""));
	/* Another hub has shown it: packets pass one hub at most. */
	ck_assert(!mk_introduce_shows(&east, "east", "east", "other"));
	east.via = "other";
	ck_assert(!mk_introduce_shows(&east, "east", "east", ""));
	east = (struct mk_introduce_peer){ .name = "east" };
	ck_assert(!mk_introduce_shows(&east, "east", "east", ""));
}
END_TEST

UNIT_SUITE("introductions")
{
	TCase *tcase = unit_case(suite, "introduce", NULL, NULL);

	tcase_add_loop_test(tcase, test_rows, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_test(tcase, test_limit);
	tcase_add_loop_test(tcase, test_copies, 0, (int)MK_ARRAY_SIZE(copies));
	tcase_add_test(tcase, test_shows);
}

// SPDX-License-Identifier: Apache-2.0
/* Views of peers: rows, and random sequences that are checked against what must hold always. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "clusterset/views.h"
#include "unit/unit.h"

#define PEERS_MAX 8
#define HOME	  "10.244.0.0/16"
#define HOME6	  "fd00:244::/56"

static struct mk_error err;

/* ---- input and result ------------------------------------------------------------------------ */

/* Parse "a", "b" or "a,b" of two families. */
static void parse_ranges(const char *text, struct mk_cidr ranges[MK_FAMILIES])
{
	char copy[2 * MK_CIDR_STRLEN], *second;

	if (!text)
		return;
	snprintf(copy, sizeof(copy), "%s", text);
	second = strchr(copy, ',');
	if (second)
		*second++ = '\0';
	for (const char *one = copy; one; one = second, second = NULL) {
		struct mk_cidr cidr = cidr_of(one);

		ranges[mk_family_index(cidr.ip.family)] = cidr;
	}
}

static void format_ranges(const struct mk_cidr ranges[MK_FAMILIES], char text[2 * MK_CIDR_STRLEN])
{
	char one[MK_CIDR_STRLEN];

	text[0] = '\0';
	for (size_t family = 0; family < MK_FAMILIES; family++)
		if (ranges[family].ip.family != AF_UNSPEC)
			sprintf(text + strlen(text), "%s%s", *text ? "," : "",
				mk_cidr_format(&ranges[family], one));
}

static const char *const reasons[] = {
	[MK_RANGES_ASSIGNED] = "assigned",
	[MK_RANGES_NOT_PUBLISHED] = "not published",
	[MK_RANGES_POOL_EXHAUSTED] = "exhausted",
	[MK_RANGES_CONFLICT] = "conflict",
};

struct row_peer {
	const char *name, *home, *wanted, *held; /* wanted may be Same */
	int64_t created;
	const char *view, *reason; /* expected; the reason may be a part of it */
};

static const struct row {
	const char *name;
	const char *pools; /* NULL: 240.0.0.0/6 */
	struct row_peer peers[4];
	const char *taken[3];
} rows[] = {
	/* ---- from the pool ---- */
	{ "the first block", NULL, { { "east", HOME, .view = "240.0.0.0/16" } }, { 0 } },
	{ "two peers, the older first",
	  NULL,
	  { { "east", HOME, .created = 2, .view = "240.1.0.0/16" },
	    { "north", HOME, .created = 1, .view = "240.0.0.0/16" } },
	  { 0 } },
	{ "of equal age, by name",
	  NULL,
	  { { "north", HOME, .view = "240.1.0.0/16" }, { "east", HOME, .view = "240.0.0.0/16" } },
	  { 0 } },
	{ "a longer prefix", NULL, { { "east", "10.0.0.0/24", .view = "240.0.0.0/24" } }, { 0 } },
	{ "a shorter prefix", NULL, { { "east", "10.0.0.0/8", .view = "240.0.0.0/8" } }, { 0 } },
	{ "the whole pool", NULL, { { "east", "0.0.0.0/6", .view = "240.0.0.0/6" } }, { 0 } },
	{ "more than the pool",
	  NULL,
	  { { "east", "0.0.0.0/5",
	      .reason =
		      "exhausted: peerPools has no free IPv4 range of /5 for 'east': enlarge peerPools, or set spec.podCidr" } },
	  { 0 } },
	{ "aligned after a short block",
	  NULL,
	  { { "a", "10.0.0.0/24", .view = "240.0.0.0/24" }, { "b", HOME, .view = "240.1.0.0/16" } },
	  { 0 } },
	{ "a small block after a large one",
	  NULL,
	  { { "a", HOME, .view = "240.0.0.0/16" }, { "b", "10.0.0.0/24", .view = "240.1.0.0/24" } },
	  { 0 } },
	{ "three of different length",
	  NULL,
	  { { "a", "10.0.0.0/24", .view = "240.0.0.0/24" },
	    { "b", HOME, .view = "240.1.0.0/16" },
	    { "c", "10.0.0.0/24", .view = "240.0.1.0/24" } },
	  { 0 } },
	{ "/30",
	  NULL,
	  { { "a", "10.0.0.0/30", .view = "240.0.0.0/30" },
	    { "b", "10.0.0.0/30", .view = "240.0.0.4/30" } },
	  { 0 } },
	{ "another pool", "100.64.0.0/10", { { "east", HOME, .view = "100.64.0.0/16" } }, { 0 } },
	{ "a pool with host bits",
	  "100.64.5.0/10",
	  { { "east", HOME, .view = "100.64.0.0/16" } },
	  { 0 } },
	{ "the end of the pool",
	  "240.0.0.0/15",
	  { { "a", HOME, .view = "240.0.0.0/16" },
	    { "b", HOME, .view = "240.1.0.0/16" },
	    { "c", HOME, .reason = "exhausted" } },
	  { 0 } },
	{ "the end of all addresses",
	  "255.254.0.0/15",
	  { { "a", HOME, .view = "255.254.0.0/16" },
	    { "b", HOME, .view = "255.255.0.0/16" },
	    { "c", HOME, .reason = "exhausted" } },
	  { 0 } },
	{ "no pool",
	  "fd11::/16",
	  { { "east", HOME, .reason = "exhausted: peerPools has no free IPv4 range of /16" } },
	  { 0 } },
	{ "an exhausted pool says who has the largest part",
	  NULL,
	  { { "a", HOME, .created = 1, .view = "240.0.0.0/16" },
	    { "b", "0.0.0.0/7", .created = 2, .view = "242.0.0.0/7" },
	    { "c", "0.0.0.0/7", "250.0.0.0/7", .created = 3, .view = "250.0.0.0/7" },
	    { "d", "0.0.0.0/7", .created = 4,
	      .reason =
		      "exhausted: peerPools has no free IPv4 range of /7 for 'd'; 'b' has the largest one, 242.0.0.0/7: enlarge peerPools" } },
	  { 0 } },
	{ "an exhausted pool concerns nobody else",
	  "240.0.0.0/16",
	  { { "a", HOME, .created = 1, .view = "240.0.0.0/16" },
	    { "b", HOME, .created = 2, .reason = "exhausted" },
	    { "c", HOME, "240.9.0.0/16", .created = 3, .view = "240.9.0.0/16" } },
	  { 0 } },
	/* ---- what is taken ---- */
	{ "an own range in the pool",
	  NULL,
	  { { "east", HOME, .view = "240.1.0.0/16" } },
	  { "240.0.0.0/16" } },
	{ "a small own range",
	  NULL,
	  { { "east", HOME, .view = "240.1.0.0/16" } },
	  { "240.0.7.0/24" } },
	{ "a large own range",
	  NULL,
	  { { "east", HOME, .view = "241.0.0.0/16" } },
	  { "240.0.0.0/8" } },
	{ "an own address",
	  NULL,
	  { { "east", HOME, .view = "240.1.0.0/16" } },
	  { "240.0.0.1/32" } },
	{ "several own ranges",
	  NULL,
	  { { "east", HOME, .view = "240.3.0.0/16" } },
	  { "240.0.0.0/15", "240.2.255.255/32", "240.4.0.0/16" } },
	{ "own ranges elsewhere",
	  NULL,
	  { { "east", HOME, .view = "240.0.0.0/16" } },
	  { "10.96.0.0/12", "192.168.0.0/16", "fd00::/8" } },
	{ "the whole pool is taken",
	  NULL,
	  { { "east", HOME, .reason = "exhausted" } },
	  { "240.0.0.0/4" } },
	{ "all but the last block",
	  "240.0.0.0/14",
	  { { "east", HOME, .view = "240.3.0.0/16" } },
	  { "240.0.0.0/15", "240.2.0.0/16" } },
	/* ---- what exists stays ---- */
	{ "status.podCidr",
	  NULL,
	  { { "east", HOME, NULL, "240.7.0.0/16", .view = "240.7.0.0/16" } },
	  { 0 } },
	{ "one outside of the pool",
	  NULL,
	  { { "east", HOME, NULL, "100.7.0.0/16", .view = "100.7.0.0/16" } },
	  { 0 } },
	{ "a new peer does not take it",
	  NULL,
	  { { "east", HOME, NULL, "240.0.0.0/16", .created = 2, .view = "240.0.0.0/16" },
	    { "a", HOME, .created = 1, .view = "240.1.0.0/16" } },
	  { 0 } },
	{ "two peers with one view: the older keeps it",
	  NULL,
	  { { "a", HOME, NULL, "240.0.0.0/16", .created = 2, .view = "240.1.0.0/16" },
	    { "b", HOME, NULL, "240.0.0.0/16", .created = 1, .view = "240.0.0.0/16" } },
	  { 0 } },
	{ ".. of equal age, by name",
	  NULL,
	  { { "b", HOME, NULL, "240.0.0.0/16", .view = "240.1.0.0/16" },
	    { "a", HOME, NULL, "240.0.0.0/16", .view = "240.0.0.0/16" } },
	  { 0 } },
	{ "an own range comes: nothing moves",
	  NULL,
	  { { "east", HOME, NULL, "240.0.0.0/16", .view = "240.0.0.0/16",
	      .reason = "conflict: view 240.0.0.0/16 overlaps 240.0.1.0/24, own range 0" } },
	  { "240.0.1.0/24" } },
	{ "its pod range is not known any more",
	  NULL,
	  { { "east", NULL, NULL, "240.0.0.0/16", .view = "240.0.0.0/16",
	      .reason = "not published" } },
	  { 0 } },
	{ "its pod range has another length now",
	  NULL,
	  { { "east", "10.0.0.0/20", NULL, "240.0.0.0/16", .view = "240.0.0.0/20" } },
	  { 0 } },
	{ "a view with host bits",
	  NULL,
	  { { "east", HOME, NULL, "240.7.1.0/16", .view = "240.7.0.0/16" } },
	  { 0 } },
	{ "different lengths that overlap",
	  NULL,
	  { { "a", HOME, NULL, "240.0.0.0/16", .created = 1, .view = "240.0.0.0/16" },
	    { "b", "10.0.0.0/24", NULL, "240.0.9.0/24", .created = 2, .view = "240.1.0.0/24" } },
	  { 0 } },
	/* ---- spec.podCidr ---- */
	{ "a view of the user's choice",
	  NULL,
	  { { "east", HOME, "172.16.0.0/16", .view = "172.16.0.0/16" } },
	  { 0 } },
	{ ".. before the one from the pool",
	  NULL,
	  { { "east", HOME, "172.16.0.0/16", "240.0.0.0/16", .view = "172.16.0.0/16" } },
	  { 0 } },
	{ ".. leaves the pool to others",
	  NULL,
	  { { "east", HOME, "240.0.0.0/16", .created = 2, .view = "240.0.0.0/16" },
	    { "a", HOME, .created = 1, .view = "240.1.0.0/16" } },
	  { 0 } },
	{ ".. of another length",
	  NULL,
	  { { "east", HOME, "172.16.0.0/24",
	      .reason =
		      "conflict: spec.podCidr 172.16.0.0/24 has another length than the peer's pod range 10.244.0.0/16: set a range of /16" } },
	  { 0 } },
	{ ".. before its pod range is known",
	  NULL,
	  { { "east", NULL, "172.16.0.0/16", .view = "172.16.0.0/16", .reason = "not published" } },
	  { 0 } },
	{ ".. that overlaps an own range",
	  NULL,
	  { { "east", HOME, "10.96.0.0/16",
	      .reason =
		      "conflict: view 10.96.0.0/16 overlaps 10.96.0.0/12, own range 0: set spec.podCidr to a free range" } },
	  { "10.96.0.0/12" } },
	{ ".. whose overlap came later",
	  NULL,
	  { { "east", HOME, "10.96.0.0/16", "10.96.0.0/16", .view = "10.96.0.0/16",
	      .reason = "conflict" } },
	  { "10.96.0.0/12" } },
	{ ".. that an older peer has",
	  NULL,
	  { { "a", HOME, "172.16.0.0/16", .created = 2,
	      .reason =
		      "conflict: view 172.16.0.0/16 overlaps 172.16.0.0/16, the view of peer 'b'" },
	    { "b", HOME, "172.16.0.0/16", .created = 1, .view = "172.16.0.0/16" } },
	  { 0 } },
	{ ".. that an older peer has from the pool",
	  NULL,
	  { { "a", HOME, "240.0.0.0/16", .created = 2, .reason = "conflict" },
	    { "b", HOME, NULL, "240.0.0.0/16", .created = 1, .view = "240.0.0.0/16" } },
	  { 0 } },
	{ ".. that a younger peer has from the pool",
	  NULL,
	  { { "a", HOME, "240.0.0.0/16", .created = 1, .view = "240.0.0.0/16" },
	    { "b", HOME, NULL, "240.0.0.0/16", .created = 2, .view = "240.1.0.0/16" } },
	  { 0 } },
	{ ".. is not replaced by one from the pool",
	  NULL,
	  { { "east", HOME, "10.96.0.0/16", "240.0.0.0/16", .reason = "conflict" } },
	  { "10.96.0.0/12" } },
	{ ".. with host bits",
	  NULL,
	  { { "east", HOME, "172.16.7.0/16", .view = "172.16.0.0/16" } },
	  { 0 } },
	{ "Same", NULL, { { "east", "10.50.0.0/16", "Same", .view = "10.50.0.0/16" } }, { 0 } },
	{ "Same, both families",
	  NULL,
	  { { "east", "10.50.0.0/16,fd50::/56", "Same", .view = "10.50.0.0/16,fd50::/56" } },
	  { 0 } },
	{ "Same, in an own range",
	  NULL,
	  { { "east", HOME, "Same",
	      .reason = "conflict: view 10.244.0.0/16 overlaps 10.244.0.0/16, own range 0" } },
	  { HOME } },
	{ "Same, before its pod range is known",
	  NULL,
	  { { "east", NULL, "Same", .view = "", .reason = "not published" } },
	  { 0 } },
	{ "two peers with Same",
	  NULL,
	  { { "a", HOME, "Same", .view = HOME }, { "b", HOME, "Same", .reason = "conflict" } },
	  { 0 } },
	{ "a range of one family, the other from the pool",
	  "240.0.0.0/6,fd99::/16",
	  { { "east", HOME "," HOME6, "172.16.0.0/16", .view = "172.16.0.0/16,fd99::/56" } },
	  { 0 } },
	{ "both ranges",
	  NULL,
	  { { "east", HOME "," HOME6, "172.16.0.0/16,fd99::/56",
	      .view = "172.16.0.0/16,fd99::/56" } },
	  { 0 } },
	/* ---- IPv6 ---- */
	{ "computed from the name",
	  NULL,
	  { { "east", HOME6, .view = "fdec:21d3:8400::/56" } },
	  { 0 } },
	{ ".. with the peer's prefix length",
	  NULL,
	  { { "east", "fd00::/48", .view = "fdec:21d3:8400::/48" } },
	  { 0 } },
	{ ".. /40", NULL, { { "east", "fd00::/40", .view = "fdec:21d3:8400::/40" } }, { 0 } },
	{ ".. shorter than /40",
	  NULL,
	  { { "east", "fd00::/32", .view = "fdec:21d3::/32" } },
	  { 0 } },
	{ ".. /16", NULL, { { "east", "fd00::/16", .view = "fdec::/16" } }, { 0 } },
	{ ".. /126", NULL, { { "east", "fd00::/126", .view = "fdec:21d3:8400::/126" } }, { 0 } },
	{ ".. of another name",
	  NULL,
	  { { "north", HOME6, .view = "fd2b:af0e:c400::/56" } },
	  { 0 } },
	{ ".. if an own range has it, another one",
	  NULL,
	  { { "east", HOME6, .view = "!fdec:21d3:8400::/56" } },
	  { "fdec:21d3:8400::/40" } },
	{ ".. with an own /8 there is none",
	  NULL,
	  { { "east", HOME6, .reason = "exhausted: peerPools has no free IPv6 range of /56" } },
	  { "fd00::/8" } },
	{ ".. stays",
	  NULL,
	  { { "east", HOME6, NULL, "fd01:2:3::/56", .view = "fd01:2:3::/56" } },
	  { 0 } },
	{ ".. is not given twice",
	  NULL,
	  { { "a", HOME6, NULL, "fdec:21d3:8400::/56", .created = 1,
	      .view = "fdec:21d3:8400::/56" },
	    { "east", HOME6, .created = 2, .view = "!fdec:21d3:8400::/56" } },
	  { 0 } },
	{ "a pool of IPv6",
	  "240.0.0.0/6,fd99::/16",
	  { { "a", HOME6, .view = "fd99::/56" }, { "b", HOME6, .view = "fd99:0:0:100::/56" } },
	  { 0 } },
	{ "both families",
	  NULL,
	  { { "east", HOME "," HOME6, .view = "240.0.0.0/16,fdec:21d3:8400::/56" } },
	  { 0 } },
	{ "the worst of both reasons",
	  NULL,
	  { { "east", HOME "," HOME6, "10.96.0.0/16", .view = "fdec:21d3:8400::/56",
	      .reason = "conflict" } },
	  { "10.96.0.0/12" } },
	{ "one family exhausted, the other assigned",
	  "240.0.0.0/16",
	  { { "a", HOME, .created = 1, .view = "240.0.0.0/16" },
	    { "east", HOME "," HOME6, .created = 2, .view = "fdec:21d3:8400::/56",
	      .reason = "exhausted" } },
	  { 0 } },
	{ "a family that the peer has lost stays held",
	  NULL,
	  { { "east", HOME, NULL, "240.0.0.0/16,fd01:2:3::/56",
	      .view = "240.0.0.0/16,fd01:2:3::/56" } },
	  { 0 } },
	/* ---- nothing yet ---- */
	{ "not published",
	  NULL,
	  { { "east", NULL, .view = "",
	      .reason =
		      "not published: the pod range of 'east' is not known: there is no PublishedCluster of it" } },
	  { 0 } },
	{ ".. beside one that is",
	  NULL,
	  { { "a", NULL, .view = "", .reason = "not published" },
	    { "b", HOME, .view = "240.0.0.0/16" } },
	  { 0 } },
	{ "no peers", NULL, { { 0 } }, { 0 } },
};

struct world {
	struct mk_views_peer peers[PEERS_MAX];
	struct mk_views_taken taken[4];
	struct mk_cidr pools[MK_FAMILIES];
	struct mk_views_input input;
	struct mk_views_result results[PEERS_MAX];
};

static void add_pools(struct world *world, const char *text)
{
	struct mk_cidr pools[MK_FAMILIES] = { 0 };

	parse_ranges(text, pools);
	for (size_t family = 0; family < MK_FAMILIES; family++)
		if (pools[family].ip.family != AF_UNSPEC)
			world->pools[world->input.pool_count++] = pools[family];
	world->input.pools = world->pools;
}

static void build(struct world *world, const struct row *row)
{
	static const char *const what[] = { "own range 0", "own range 1", "own range 2" };

	*world = (struct world){ .input = { .families = { true, true }, .now_s = 1000 } };
	world->input.peers = world->peers;
	world->input.taken = world->taken;
	add_pools(world, row->pools ?: "240.0.0.0/6");
	for (size_t i = 0; i < MK_ARRAY_SIZE(row->peers) && row->peers[i].name; i++) {
		const struct row_peer *peer = &row->peers[i];
		struct mk_views_peer *at = &world->peers[world->input.peer_count++];

		at->name = peer->name;
		at->created_unix_s = peer->created;
		parse_ranges(peer->home, at->home);
		parse_ranges(peer->held, at->held);
		at->is_same = peer->wanted && strcmp(peer->wanted, "Same") == 0;
		if (!at->is_same)
			parse_ranges(peer->wanted, at->wanted);
	}
	for (size_t i = 0; i < MK_ARRAY_SIZE(row->taken) && row->taken[i]; i++)
		world->taken[world->input.taken_count++] =
			(struct mk_views_taken){ cidr_of(row->taken[i]), what[i] };
}

static void check_row_peer(const struct row *row, const struct row_peer *peer,
			   const struct mk_views_result *result)
{
	char view[2 * MK_CIDR_STRLEN], reason[400];
	const char *expected = peer->view ?: "";

	format_ranges(result->view, view);
	snprintf(reason, sizeof(reason), "%s: %s", reasons[result->reason], result->text ?: "");
	if (*expected == '!')
		ck_assert_msg(*view && strcmp(view, expected + 1) != 0, "%s: %s", row->name, view);
	else
		ck_assert_msg(strcmp(view, expected) == 0, "%s: view of %s is %s, not %s",
			      row->name, peer->name, view, expected);
	ck_assert_msg(strncmp(reason, peer->reason ?: "assigned",
			      strlen(peer->reason ?: "assigned")) == 0,
		      "%s: %s", row->name, reason);
}

START_TEST(test_view)
{
	const struct row *row = &rows[_i];
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world, row);
	for (int again = 0; again < 2; again++) {
		ck_ok(mk_views_update(views, &world.input, world.results, &err));
		for (size_t i = 0; i < world.input.peer_count; i++)
			check_row_peer(row, &row->peers[i], &world.results[i]);
		mk_views_results_release(world.results, world.input.peer_count);
	}
	mk_views_free(views);
}
END_TEST

/* ---- over time ------------------------------------------------------------------------------- */

static void update(struct mk_views *views, struct world *world)
{
	ck_ok(mk_views_update(views, &world->input, world->results, &err));
	mk_views_results_release(world->results, world->input.peer_count);
}

static void expect_view(const struct world *world, size_t peer, const char *expected)
{
	char view[2 * MK_CIDR_STRLEN];

	format_ranges(world->results[peer].view, view);
	ck_assert_str_eq(view, expected);
}

static const struct row one_peer = { "one", NULL, { { "east", HOME, .created = 0 } }, { 0 } };

START_TEST(test_released)
{
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world, &one_peer);
	update(views, &world);
	expect_view(&world, 0, "240.0.0.0/16");
	world.peers[0].name = "north"; /* east is gone */
	world.input.now_s += 10;
	update(views, &world);
	expect_view(&world, 0, "240.1.0.0/16");
	memset(world.peers[0].held, 0, sizeof(world.peers[0].held));
	world.peers[0].name = "south"; /* so is north */
	world.input.now_s += MK_VIEWS_UNUSED_S - 1;
	update(views, &world);
	expect_view(&world, 0, "240.2.0.0/16");
	world.peers[0].name = "last";
	world.input.now_s += 1;
	update(views, &world);
	expect_view(&world, 0, "240.0.0.0/16");
	mk_views_free(views);
}
END_TEST

/* A view that the user replaces is released, too. The new one stays. */
START_TEST(test_released_by_choice)
{
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world, &one_peer);
	update(views, &world);
	world.peers[0].wanted[0] = cidr_of("172.16.0.0/16");
	update(views, &world);
	world.peers[0].wanted[0] = (struct mk_cidr){ 0 };
	update(views, &world);
	expect_view(&world, 0, "172.16.0.0/16");
	world.peers[0].name = "north";
	update(views, &world);
	expect_view(&world, 0, "240.1.0.0/16");
	mk_views_free(views);
}
END_TEST

/* A ClusterPeer that is deleted and comes again has its view again, not the lowest free one. */
START_TEST(test_released_comes_back)
{
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world, &(struct row){ "two",
				     NULL,
				     { { "east", HOME, .held = "240.5.0.0/16", .created = 1 },
				       { "north", HOME, .held = "240.3.0.0/16", .created = 2 } },
				     { 0 } });
	update(views, &world);
	world.input.peer_count = 0;
	update(views, &world);
	world.input.peer_count = 2;
	for (size_t i = 0; i < 2; i++)
		world.peers[i].held[0] = (struct mk_cidr){ 0 };
	world.peers[0].created_unix_s = 4; /* a restore makes them in any order */
	world.input.now_s += MK_VIEWS_UNUSED_S - 1;
	update(views, &world);
	expect_view(&world, 0, "240.5.0.0/16");
	expect_view(&world, 1, "240.3.0.0/16");
	mk_views_free(views);
}
END_TEST

/* A peer whose pod range changes again and again uses up no pool. */
START_TEST(test_released_again_and_again)
{
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world, &one_peer);
	for (int i = 0; i < 1000; i++) {
		world.peers[0].home[0] = cidr_of(i % 2 ? "10.0.0.0/8" : HOME);
		update(views, &world);
		expect_view(&world, 0, i % 2 ? "240.0.0.0/8" : "240.0.0.0/16");
	}
	world.peers[1] = (struct mk_views_peer){ .name = "north", .home = { cidr_of(HOME) } };
	world.input.peer_count = 2;
	update(views, &world);
	expect_view(&world, 1, "241.0.0.0/16");
	mk_views_free(views);
}
END_TEST

/* A view that no peer has, but that is kept for the hour, is named, too. */
START_TEST(test_exhausted_by_released)
{
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world, &(struct row){ "kept", NULL, { { "a", "0.0.0.0/6", .created = 0 } }, { 0 } });
	update(views, &world);
	expect_view(&world, 0, "240.0.0.0/6");
	world.peers[0].name = "b";
	ck_ok(mk_views_update(views, &world.input, world.results, &err));
	ck_assert_str_eq(
		world.results[0].text,
		"peerPools has no free IPv4 range of /6 for 'b'; the largest one, 240.0.0.0/6, is kept for 'a' for an hour: enlarge peerPools, or set spec.podCidr");
	mk_views_results_release(world.results, 1);
	mk_views_free(views);
}
END_TEST

/* A hub that shows other names each minute, or large ranges, uses up half of the pool at most. */
START_TEST(test_introduced)
{
	struct mk_views *views = mk_views_new();
	struct world world;
	char name[16];

	build(&world, &one_peer);
	world.peers[0].is_introduced = true;
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "branch-%d", i);
		world.peers[0].name = name;
		world.input.now_s++;
		ck_ok(mk_views_update(views, &world.input, world.results, &err));
		ck_assert_int_eq(world.results[0].view[0].ip.family, i < 512 ? AF_INET : 0);
		if (i >= 512)
			ck_assert_ptr_nonnull(
				strstr(world.results[0].text,
				       "clusters that hubs introduce have half of peerPools"));
		mk_views_results_release(world.results, 1);
	}
	world.peers[1] = (struct mk_views_peer){ .name = "north", .home = { cidr_of(HOME) } };
	world.input.peer_count = 2;
	update(views, &world);
	expect_view(&world, 1, "242.0.0.0/16");
	mk_views_free(views);
}
END_TEST

START_TEST(test_introduced_large)
{
	static const char *const expected[] = { "240.0.0.0/8", "241.0.0.0/8", "", "242.0.0.0/8" };
	static const char *const homes[] = { "10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8",
					     "10.0.0.0/8" };
	static const char *const large[] = { "a", "b", "c", "d" };
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world, &one_peer);
	for (size_t i = 0; i < MK_ARRAY_SIZE(homes); i++)
		world.peers[i] = (struct mk_views_peer){ .name = large[i],
							 .is_introduced = i < 3,
							 .created_unix_s = (int64_t)i,
							 .home = { cidr_of(homes[i]) } };
	world.input.peer_count = MK_ARRAY_SIZE(homes);
	update(views, &world);
	for (size_t i = 0; i < MK_ARRAY_SIZE(homes); i++)
		expect_view(&world, i, expected[i]);
	mk_views_free(views);
}
END_TEST

/* A view that a user wants the peer to leave goes to no peer, also by a new leader. */
START_TEST(test_left)
{
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world, &one_peer);
	update(views, &world);
	world.peers[0].left[1] = cidr_of("240.0.0.0/16");
	for (int again = 0; again < 2; again++) {
		update(views, &world);
		expect_view(&world, 0, "240.1.0.0/16");
	}
	mk_views_free(views);
	views = mk_views_new();
	world.peers[0].held[0] = cidr_of("240.0.0.0/16"); /* the former leader wrote no status */
	world.peers[1] = (struct mk_views_peer){ .name = "north", .home = { cidr_of(HOME) } };
	world.input.peer_count = 2;
	update(views, &world);
	expect_view(&world, 0, "240.1.0.0/16");
	expect_view(&world, 1, "240.2.0.0/16");
	mk_views_free(views);
}
END_TEST

/* Without another range the peer keeps its view, and the reason says what is missing. */
START_TEST(test_left_without_other)
{
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world, &(struct row){ "full",
				     "240.0.0.0/16",
				     { { "east", HOME, .held = "240.0.0.0/16", .created = 0 } },
				     { 0 } });
	world.peers[0].left[0] = cidr_of("240.0.0.0/16");
	ck_ok(mk_views_update(views, &world.input, world.results, &err));
	expect_view(&world, 0, "240.0.0.0/16");
	ck_assert_int_eq(world.results[0].reason, MK_RANGES_POOL_EXHAUSTED);
	mk_views_results_release(world.results, 1);
	mk_views_free(views);
}
END_TEST

START_TEST(test_own_families_only)
{
	struct mk_views *views = mk_views_new();
	struct world world;

	build(&world,
	      &(struct row){ "two", NULL, { { "east", HOME "," HOME6, .created = 0 } }, { 0 } });
	world.input.families[1] = false;
	update(views, &world);
	expect_view(&world, 0, "240.0.0.0/16");
	mk_views_free(views);
}
END_TEST

/* 1,024 peers at once: the pool has as many blocks. */
START_TEST(test_full_pool)
{
	enum { COUNT = 1025 };
	static struct mk_views_peer peers[COUNT];
	static struct mk_views_result results[COUNT];
	static char names[COUNT][8];
	struct mk_cidr pool = cidr_of("240.0.0.0/6");
	struct mk_views_input input = { .peers = peers,
					.peer_count = COUNT,
					.pools = &pool,
					.pool_count = 1,
					.families = { true, true } };
	struct mk_views *views = mk_views_new();

	for (size_t i = 0; i < COUNT; i++) {
		snprintf(names[i], sizeof(names[i]), "p%04zu", i);
		peers[i].name = names[i];
		peers[i].home[0] = cidr_of(HOME);
	}
	ck_ok(mk_views_update(views, &input, results, &err));
	ck_assert_int_eq(results[1023].reason, MK_RANGES_ASSIGNED);
	ck_assert_int_eq(results[1024].reason, MK_RANGES_POOL_EXHAUSTED);
	mk_views_results_release(results, COUNT);
	mk_views_free(views);
}
END_TEST

/* ---- random sequences ------------------------------------------------------------------------ */

#define RUNS	  20 /* a test each, so that none takes long */
#define SEQUENCES 500 /* of a run */
#define STEPS	  24
#define NAMES	  6

static const char *const names[NAMES] = { "a", "b", "c", "d", "e", "f" };

struct life {
	struct mk_views *views;
	struct world world;
	struct mk_cidr before[NAMES][MK_FAMILIES]; /* of the last call of this leader */
	bool known[NAMES],
		was_known[NAMES]; /* the leader's last call, the one before, had the peer */
	struct mk_cidr kept[NAMES][MK_FAMILIES]; /* .. or of the call before that, while checking */
	int64_t released_s[NAMES * STEPS]; /* released views of this leader */
	struct mk_cidr released[NAMES * STEPS];
	size_t released_by[NAMES * STEPS], released_count;
	unsigned int seed;
};

static unsigned int draw(struct life *life, unsigned int below)
{
	life->seed = life->seed * 1103515245 + 12345;
	return (life->seed >> 16) % below;
}

static bool overlap(const struct mk_cidr *a, const struct mk_cidr *b)
{
	return a->ip.family != AF_UNSPEC && a->ip.family == b->ip.family &&
	       (mk_cidr_covers(a, b) || mk_cidr_covers(b, a));
}

static size_t name_index(const char *name)
{
	return (size_t)(name[0] - 'a');
}

static struct mk_cidr random_block(struct life *life)
{
	struct mk_cidr pool = cidr_of("240.0.0.0/28");
	struct mk_cidr block = { mk_cidr_nth(&pool, draw(life, 4) * 4), 30 };

	return block;
}

static void add_peer(struct life *life)
{
	struct mk_views_peer *peer = &life->world.peers[life->world.input.peer_count];
	const char *name = names[draw(life, NAMES)];

	for (size_t i = 0; i < life->world.input.peer_count; i++)
		if (life->world.peers[i].name == name)
			return;
	*peer = (struct mk_views_peer){ .name = name, .created_unix_s = draw(life, 3) };
	if (draw(life, 5))
		peer->home[0] = cidr_of(draw(life, 4) ? "10.0.0.0/30" : "10.0.0.0/31");
	if (draw(life, 2))
		peer->home[1] = cidr_of(HOME6);
	life->world.input.peer_count++;
}

static void remove_peer(struct life *life)
{
	struct mk_views_input *input = &life->world.input;
	size_t at = draw(life, (unsigned int)input->peer_count);

	life->world.peers[at] = life->world.peers[--input->peer_count];
}

/* What a user, a restore, a second leader or a new route can do between two calls. */
static void change(struct life *life)
{
	struct mk_views_input *input = &life->world.input;
	struct mk_views_peer *peer =
		&life->world.peers[draw(life, NAMES) % (input->peer_count ?: 1)];
	unsigned int what = draw(life, 12);

	if (what < 4 || input->peer_count == 0)
		return add_peer(life);
	if (what == 4)
		return remove_peer(life);
	if (what == 5)
		peer->wanted[0] = random_block(life);
	if (what == 6)
		memset(peer->wanted, 0, sizeof(peer->wanted));
	if (what == 7)
		peer->held[0] = random_block(life);
	if (what == 8)
		input->now_s += draw(life, 2 * MK_VIEWS_UNUSED_S);
	if (what == 9)
		life->world.taken[0] = (struct mk_views_taken){ random_block(life), "a route" };
	if (what == 9)
		input->taken_count = draw(life, 2);
	if (what == 10) { /* killed: another leader knows the objects only */
		mk_views_free(life->views);
		life->views = mk_views_new();
		memset(life->before, 0, sizeof(life->before));
		memset(life->known, 0, sizeof(life->known));
		life->released_count = 0;
	}
	if (what == 11)
		peer->home[0] = cidr_of(draw(life, 2) ? "10.0.0.0/30" : "10.0.0.0/31");
}

static bool is_older(const struct mk_views_peer *a, const struct mk_views_peer *b)
{
	if (a->created_unix_s != b->created_unix_s)
		return a->created_unix_s < b->created_unix_s;
	return strcmp(a->name, b->name) < 0;
}

/* No address has two peers. */
static void check_disjoint(const struct life *life, size_t family)
{
	const struct world *world = &life->world;

	for (size_t i = 0; i < world->input.peer_count; i++)
		for (size_t j = 0; j < i; j++)
			ck_assert_msg(!overlap(&world->results[i].view[family],
					       &world->results[j].view[family]),
				      "%s and %s have one view", world->peers[i].name,
				      world->peers[j].name);
}

/* The view that the peer has to keep: of the leader's last call, otherwise of the object. */
static const struct mk_cidr *held_of(const struct life *life, size_t i, size_t family)
{
	const struct mk_views_peer *peer = &life->world.peers[i];
	size_t name = name_index(peer->name);

	return life->was_known[name] ? &life->kept[name][family] : &peer->held[family];
}

/* A view that was held stays, unless the rules end it. */
static void check_kept(const struct life *life, size_t i, size_t family)
{
	const struct world *world = &life->world;
	const struct mk_views_peer *peer = &world->peers[i];
	const struct mk_cidr *view = &world->results[i].view[family];
	const struct mk_cidr *held = held_of(life, i, family);

	if (held->ip.family == AF_UNSPEC || peer->wanted[family].ip.family != AF_UNSPEC ||
	    mk_cidr_equal(view, held))
		return;
	if (peer->home[family].ip.family != AF_UNSPEC &&
	    peer->home[family].prefix_bits != held->prefix_bits)
		return;
	for (size_t j = 0; j < world->input.peer_count; j++)
		if (j != i && is_older(&world->peers[j], peer) &&
		    overlap(&world->results[j].view[family], held))
			return;
	ck_abort_msg("the view of %s moved", peer->name);
}

static bool is_recent(const struct life *life, size_t released)
{
	return life->world.input.now_s - life->released_s[released] < MK_VIEWS_UNUSED_S;
}

/* A view that is new has the right length and is free; in the pool no lower one is. */
static bool is_free(const struct life *life, size_t i, size_t family, const struct mk_cidr *view)
{
	const struct world *world = &life->world;

	for (size_t j = 0; j < world->input.taken_count; j++)
		if (overlap(&world->taken[j].range, view))
			return false;
	for (size_t j = 0; j < world->input.peer_count; j++)
		if (j != i && overlap(&world->results[j].view[family], view))
			return false;
	for (size_t j = 0; j < life->released_count; j++)
		if (overlap(&life->released[j], view) && is_recent(life, j) &&
		    life->released_by[j] != name_index(world->peers[i].name))
			return false;
	return true;
}

/* A peer takes the view that it had, also if there is a lower one. */
static bool had(const struct life *life, size_t i, const struct mk_cidr *view)
{
	for (size_t j = 0; j < life->released_count; j++)
		if (mk_cidr_equal(&life->released[j], view) && is_recent(life, j) &&
		    life->released_by[j] == name_index(life->world.peers[i].name))
			return true;
	return false;
}

static void check_new(const struct life *life, size_t i, size_t family)
{
	const struct world *world = &life->world;
	const struct mk_views_peer *peer = &world->peers[i];
	const struct mk_cidr *view = &world->results[i].view[family];
	struct mk_cidr lower = { cidr_of("240.0.0.0/28").ip, peer->home[family].prefix_bits };

	if (view->ip.family == AF_UNSPEC || mk_cidr_equal(view, held_of(life, i, family)) ||
	    peer->wanted[family].ip.family != AF_UNSPEC)
		return;
	ck_assert_uint_eq(view->prefix_bits, peer->home[family].prefix_bits);
	ck_assert_msg(is_free(life, i, family, view), "the view of %s is not free", peer->name);
	if (family == 1 || had(life, i, view))
		return;
	for (uint32_t step = 0; !mk_cidr_equal(&lower, view); step += mk_cidr_size(&lower)) {
		struct mk_cidr pool = cidr_of("240.0.0.0/28");

		lower.ip = mk_cidr_nth(&pool, step);
		ck_assert_msg(mk_cidr_equal(&lower, view) || !is_free(life, i, family, &lower),
			      "%s could have a lower view", peer->name);
	}
}

/* Without a view, nothing of the pool is free. */
static void check_none(const struct life *life, size_t i)
{
	const struct mk_views_peer *peer = &life->world.peers[i];
	struct mk_cidr pool = cidr_of("240.0.0.0/28");

	if (life->world.results[i].view[0].ip.family != AF_UNSPEC ||
	    peer->home[0].ip.family == AF_UNSPEC || peer->wanted[0].ip.family != AF_UNSPEC)
		return;
	ck_assert_int_eq(life->world.results[i].reason, MK_RANGES_POOL_EXHAUSTED);
	for (uint32_t step = 0; step < 16; step += 1U << (32 - peer->home[0].prefix_bits)) {
		struct mk_cidr block = { mk_cidr_nth(&pool, step), peer->home[0].prefix_bits };

		ck_assert_msg(!is_free(life, i, 0, &block), "%s could have a view", peer->name);
	}
}

static void note_released(struct life *life)
{
	struct world *world = &life->world;
	struct mk_cidr now[NAMES][MK_FAMILIES] = { 0 };

	for (size_t i = 0; i < world->input.peer_count; i++)
		memcpy(now[name_index(world->peers[i].name)], world->results[i].view,
		       sizeof(now[0]));
	for (size_t i = 0; i < NAMES * MK_FAMILIES; i++) {
		struct mk_cidr *was = &life->before[i / 2][i % 2];

		if (was->ip.family == AF_UNSPEC || mk_cidr_equal(was, &now[i / 2][i % 2]))
			continue;
		life->released_s[life->released_count] = world->input.now_s;
		life->released_by[life->released_count] = i / 2;
		life->released[life->released_count++] = *was;
	}
	memcpy(life->was_known, life->known, sizeof(life->known));
	memset(life->known, 0, sizeof(life->known));
	for (size_t i = 0; i < world->input.peer_count; i++)
		life->known[name_index(world->peers[i].name)] = true;
	memcpy(life->kept, life->before, sizeof(now));
	memcpy(life->before, now, sizeof(now));
}

static void check_all(struct life *life)
{
	for (size_t family = 0; family < MK_FAMILIES; family++) {
		check_disjoint(life, family);
		for (size_t i = 0; i < life->world.input.peer_count; i++) {
			check_kept(life, i, family);
			check_new(life, i, family);
		}
	}
	for (size_t i = 0; i < life->world.input.peer_count; i++)
		check_none(life, i);
}

/* The leader writes all views, or is killed after some. Then the same input gives the same. */
static void write_views(struct life *life)
{
	struct world *world = &life->world;
	size_t count = draw(life, 3) ? world->input.peer_count
				     : draw(life, (unsigned int)world->input.peer_count + 1);

	for (size_t i = 0; i < count; i++)
		memcpy(world->peers[i].held, world->results[i].view, sizeof(world->peers[i].held));
}

static void check_again(struct life *life)
{
	struct mk_cidr first[PEERS_MAX][MK_FAMILIES];
	struct world *world = &life->world;

	for (size_t i = 0; i < world->input.peer_count; i++)
		memcpy(first[i], world->results[i].view, sizeof(first[i]));
	update(life->views, world);
	for (size_t i = 0; i < world->input.peer_count; i++)
		ck_assert_msg(mk_cidrs_equal(first[i], 2, world->results[i].view, 2),
			      "the view of %s is not the same again", world->peers[i].name);
}

static void live(unsigned int seed)
{
	struct life life = { .views = mk_views_new(), .seed = seed };

	life.world.input = (struct mk_views_input){ .peers = life.world.peers,
						    .taken = life.world.taken,
						    .families = { true, true } };
	add_pools(&life.world, "240.0.0.0/28");
	for (int step = 0; step < STEPS; step++) {
		change(&life);
		update(life.views, &life.world);
		note_released(&life);
		check_all(&life);
		check_again(&life);
		write_views(&life);
	}
	mk_views_free(life.views);
}

START_TEST(test_sequences)
{
	for (unsigned int i = 1; i <= SEQUENCES; i++)
		if (unit_is_due(i))
			live((unsigned int)_i * SEQUENCES + i);
}
END_TEST

UNIT_SUITE("views")
{
	TCase *tcase = unit_case(suite, "views", NULL, NULL);

	tcase_add_loop_test(tcase, test_view, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_test(tcase, test_released);
	tcase_add_test(tcase, test_released_by_choice);
	tcase_add_test(tcase, test_released_comes_back);
	tcase_add_test(tcase, test_released_again_and_again);
	tcase_add_test(tcase, test_exhausted_by_released);
	tcase_add_test(tcase, test_introduced);
	tcase_add_test(tcase, test_introduced_large);
	tcase_add_test(tcase, test_own_families_only);
	tcase_add_test(tcase, test_left);
	tcase_add_test(tcase, test_left_without_other);
	tcase_add_test(tcase, test_full_pool);
	tcase_add_loop_test(tcase, test_sequences, 0, RUNS);
}

// SPDX-License-Identifier: Apache-2.0
/* Probes of other clusters: when a peer is down, when it is usable again, and which nodes are
 * asked. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "probes/probes.h"
#include "unit/unit.h"

#define NODES_MAX 40
#define RTT_NS	  400000ULL
#define ROUND_NS  1000000000ULL
#define SHOWN_RTT 400U

struct world {
	struct mk_probes *probes;
	struct mk_ip nodes[NODES_MAX];
	struct mk_probe sent[NODES_MAX];
	size_t sent_count;
	uint64_t now_ns;
	unsigned int news; /* of the last round */
};

static struct mk_ip node_at(unsigned int i)
{
	char text[32];
	struct mk_ip ip;

	snprintf(text, sizeof(text), "240.1.%u.1", i);
	ck_assert_int_eq(mk_ip_parse(text, &ip), 0);
	return ip;
}

static void set(struct world *world, const struct mk_probes_peer *peers, size_t count)
{
	struct mk_error err;

	ck_assert_int_eq(mk_probes_set(world->probes, peers, count, &err), 0);
}

/* Peer east with nodes @first to @first + @count - 1. */
static void set_east(struct world *world, unsigned int first, size_t count)
{
	for (unsigned int i = 0; i < count; i++)
		world->nodes[i] = node_at(first + i);
	set(world,
	    &(struct mk_probes_peer){ .name = "east", .nodes = world->nodes, .node_count = count },
	    1);
}

/* Begin a round. */
static void send_round(struct world *world)
{
	const struct mk_probe *list;

	world->now_ns += ROUND_NS;
	world->news = mk_probes_next(world->probes, &list, &world->sent_count);
	for (size_t i = 0; i < world->sent_count; i++)
		mk_probes_sent(world->probes, i, world->now_ns);
	memcpy(world->sent, list, world->sent_count * sizeof(*list));
}

static struct world start(uint64_t seed, size_t count)
{
	char node[32];
	struct world world = { 0 };

	snprintf(node, sizeof(node), "node%u", (unsigned int)seed);
	world.probes = mk_probes_new(seed, node);

	ck_assert_ptr_nonnull(world.probes);
	set_east(&world, 1, count);
	send_round(&world);
	return world;
}

static bool answer(struct world *world, size_t i)
{
	return mk_probes_answer(world->probes, &world->sent[i].to, world->sent[i].nonce,
				world->now_ns + RTT_NS);
}

static struct mk_probes_state state_of(const struct world *world, const char *name)
{
	struct mk_probes_state state;

	ck_assert(mk_probes_get(world->probes, name, &state));
	return state;
}

static void answer_all(struct world *world, size_t most)
{
	for (size_t i = 0; i < most && i < world->sent_count; i++)
		ck_assert(answer(world, i));
}

/* Play rounds: '.' all nodes answer, '1' the first one, 'x' none does. One has begun already, and
 * the next one has at the end. */
static void play(struct world *world, const char *rounds)
{
	for (; *rounds; rounds++) {
		answer_all(world, *rounds == 'x' ? 0 : *rounds == '1' ? 1 : NODES_MAX);
		send_round(world);
	}
}

/* ---- down and usable ------------------------------------------------------------------------- */

#define THREE "xxx"
#define TEN   ".........."
static const struct {
	const char *name, *rounds;
	bool is_down;
	uint32_t probed, answering;
} rows[] = {
	{ "at the start", "", false, 0, 0 },
	{ "all answer", "...", false, 4, 4 },
	{ "two rounds are lost", "..xx", false, 4, 4 },
	{ "three rounds are lost", ".." THREE, true, 4, 0 },
	{ "three rounds are lost at the start", THREE, true, 4, 0 },
	{ "one node answers", "111", false, 4, 1 },
	{ ".. in every third round", "xx1xx1xx", false, 4, 1 },
	{ "two good rounds", THREE "..", true, 4, 4 },
	{ "three good rounds", THREE "...", false, 4, 4 },
	{ "three with a bad one between them", THREE "..x..", true, 4, 4 },
	{ "one node answers again", THREE "111", false, 4, 1 },
	{ "the second time, five", THREE "..." THREE ".....", true, 4, 4 },
	{ "the second time, six", THREE "..." THREE "......", false, 4, 4 },
	{ "the third time, eleven", THREE "..." THREE "......" THREE TEN ".", true, 4, 4 },
	{ "the third time, twelve", THREE "..." THREE "......" THREE TEN "..", false, 4, 4 },
};

START_TEST(test_rounds)
{
	struct world world = start(1, 6);
	struct mk_probes_state state;

	play(&world, rows[_i].rounds);
	state = state_of(&world, "east");
	ck_assert_msg(state.is_down == rows[_i].is_down, "%s: down %d", rows[_i].name,
		      state.is_down);
	ck_assert_msg(state.probed == rows[_i].probed && state.answering == rows[_i].answering,
		      "%s: %u of %u", rows[_i].name, state.answering, state.probed);
	ck_assert_uint_eq(state.shown_rtt_us, state.answering ? SHOWN_RTT : 0);
	mk_probes_free(world.probes);
}
END_TEST

/* Return how many good rounds make the peer usable, after three bad ones. */
static unsigned int good_rounds(struct world *world)
{
	unsigned int count = 0;

	play(world, THREE);
	for (; state_of(world, "east").is_down; count++)
		play(world, ".");
	return count;
}

START_TEST(test_flapping)
{
	static const unsigned int wanted[] = { 3, 6, 12, 24, 48, 60, 60 };
	struct world world = start(1, 2);

	for (size_t i = 0; i < MK_ARRAY_SIZE(wanted); i++)
		ck_assert_uint_eq(good_rounds(&world), wanted[i]);
	for (int i = 1; i < MK_PROBES_CALM; i++)
		play(&world, ".");
	ck_assert_uint_eq(good_rounds(&world), 60);
	for (int i = 0; i < MK_PROBES_CALM; i++)
		play(&world, ".");
	ck_assert_uint_eq(good_rounds(&world), 3);
	mk_probes_free(world.probes);
}
END_TEST

START_TEST(test_news)
{
	struct world world = start(1, 2);

	play(&world, ".");
	ck_assert_uint_eq(world.news, MK_PROBES_SHOWN);
	play(&world, "..xx");
	ck_assert_uint_eq(world.news, 0);
	play(&world, "x");
	ck_assert_uint_eq(world.news, MK_PROBES_USABLE | MK_PROBES_SHOWN | MK_PROBES_PATHS);
	play(&world, "xxx");
	ck_assert_uint_eq(world.news, 0);
	mk_probes_free(world.probes);
}
END_TEST

/* ---- answers --------------------------------------------------------------------------------- */

START_TEST(test_answers_that_do_not_count)
{
	struct world world = start(1, 2);
	struct mk_probe first = world.sent[0];

	ck_assert(!mk_probes_answer(world.probes, &first.to, first.nonce ^ 1, world.now_ns));
	ck_assert(!mk_probes_answer(world.probes, &first.to, 0, world.now_ns));
	ck_assert(!mk_probes_answer(world.probes, &world.sent[1].to, first.nonce, world.now_ns));
	ck_assert(!mk_probes_answer(world.probes, &(struct mk_ip){ .family = AF_INET }, first.nonce,
				    world.now_ns));
	for (int i = 0; i < 3; i++)
		send_round(&world);
	ck_assert(!mk_probes_answer(world.probes, &first.to, first.nonce, world.now_ns));
	ck_assert(state_of(&world, "east").is_down);
	mk_probes_free(world.probes);
}
END_TEST

/* The round trip takes more than two seconds: the peer is usable. */
START_TEST(test_late_answers)
{
	struct world world = start(1, 1);
	struct mk_probe sent[10];

	for (int i = 0; i < 10; i++, send_round(&world)) {
		sent[i] = world.sent[0];
		if (i >= 2)
			ck_assert(mk_probes_answer(world.probes, &sent[i - 2].to, sent[i - 2].nonce,
						   world.now_ns + RTT_NS));
		ck_assert(!state_of(&world, "east").is_down);
	}
	ck_assert_uint_eq(state_of(&world, "east").rtt_us, 2000000 + SHOWN_RTT);
	mk_probes_free(world.probes);
}
END_TEST

/* ---- nodes ----------------------------------------------------------------------------------- */

static bool gets_a_probe(const struct world *world, const struct mk_ip *ip)
{
	for (size_t i = 0; i < world->sent_count; i++)
		if (mk_ip_compare(&world->sent[i].to, ip) == 0)
			return true;
	return false;
}

/* A node that goes changes at most one of the chosen ones; one that comes, too. */
START_TEST(test_choice_is_stable)
{
	struct world world = start((uint64_t)_i, 20), fewer = start((uint64_t)_i, 20);

	ck_assert_uint_eq(world.sent_count, MK_PROBES_NODES);
	for (unsigned int gone = 0; gone < 20; gone++) {
		struct mk_ip left[NODES_MAX];
		size_t count = 0, same = 0;

		for (unsigned int i = 20; i-- > 0;)
			if (i != gone)
				left[count++] = world.nodes[i];
		set(&fewer,
		    &(struct mk_probes_peer){ .name = "east", .nodes = left, .node_count = count },
		    1);
		send_round(&fewer);
		for (size_t i = 0; i < fewer.sent_count; i++)
			same += gets_a_probe(&world, &fewer.sent[i].to);
		ck_assert_uint_eq(fewer.sent_count, MK_PROBES_NODES);
		ck_assert_uint_eq(same, gets_a_probe(&world, &world.nodes[gone]) ? 3 : 4);
	}
	mk_probes_free(world.probes);
	mk_probes_free(fewer.probes);
}
END_TEST

/* The nodes of this cluster ask different ones. */
START_TEST(test_choice_differs)
{
	bool asked[20] = { false };
	size_t count = 0;

	for (uint64_t seed = 0; seed < 30; seed++) {
		struct world world = start(seed, 20);

		for (size_t i = 0; i < 20; i++)
			asked[i] |= gets_a_probe(&world, &world.nodes[i]);
		mk_probes_free(world.probes);
	}
	for (size_t i = 0; i < 20; i++)
		count += asked[i];
	ck_assert_uint_ge(count, 15);
}
END_TEST

/* ---- live nodes ------------------------------------------------------------------------------ */

/* Nodes @live of @count, by their order in the list, as rounds are played. */
static const struct {
	const char *name, *rounds;
	size_t count;
	const char *live, *silent;
} live_rows[] = {
	{ "at the start", "", 2, "11", "" },
	{ "two probes are lost", "11", 2, "11", "" },
	{ "three probes are lost", "111", 2, "10", "n2" },
	{ ".. and two answers come", "111..", 2, "10", "" },
	{ ".. and three", "111...", 2, "11", "" },
	{ "none answers", "xxx", 2, "00", "n1, n2" },
	{ "nodes without probes", "...", 6, "4", "" },
	{ "many do not answer", "xxx", 6, "0", "n, n, n and 1 more" },
};

static void set_named(struct world *world, size_t count)
{
	static const char *const few[] = { "n1", "n2" }, *const many[] = { "n", "n", "n",
									   "n", "n", "n" };

	for (unsigned int i = 0; i < count; i++)
		world->nodes[i] = node_at(i + 1);
	set(world,
	    &(struct mk_probes_peer){ .name = "east",
				      .nodes = world->nodes,
				      .node_count = count,
				      .names = count > 2 ? many : few },
	    1);
}

/* One for each node, or how many are. */
static void print_live(const struct world *world, size_t count, char text[8])
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		bool is_live = mk_probes_is_live(world->probes, &world->nodes[i]);

		sum += is_live;
		text[i] = is_live ? '1' : '0';
	}
	text[count] = 0;
	if (count > 2)
		snprintf(text, 8, "%zu", sum);
}

START_TEST(test_live)
{
	struct world world = { .probes = mk_probes_new(1, "node1") };
	char text[8];

	set_named(&world, live_rows[_i].count);
	send_round(&world);
	ck_assert_uint_eq(world.news, live_rows[_i].count > 4 ? MK_PROBES_PATHS : 0);
	play(&world, live_rows[_i].rounds);
	print_live(&world, live_rows[_i].count, text);
	ck_assert_msg(strcmp(text, live_rows[_i].live) == 0, "%s: %s", live_rows[_i].name, text);
	ck_assert_str_eq(state_of(&world, "east").silent, live_rows[_i].silent);
	mk_probes_free(world.probes);
}
END_TEST

/* A node keeps its flows to external addresses until seven probes are lost while another node
 * answers, and again after three answers. */
static const struct {
	const char *name, *rounds;
	bool keeps; /* the second node of two */
} keep_rows[] = {
	{ "six probes are lost", "111111", true },
	{ "seven probes are lost", "1111111", false },
	{ "none answers", "xxxxxxxxx", true },
	{ ".. and the other one does first", "xxxxxxxxx111.", true },
	{ "six, one of all, and one more", "111111x1", false },
	{ "six and six", "111111.111111", true },
	{ ".. and two answers come", "1111111..", false },
	{ ".. and three", "1111111...", true },
};

START_TEST(test_keeps)
{
	struct world world = start(1, 2);

	for (const char *round = keep_rows[_i].rounds; *round; round++) {
		bool had = mk_probes_keeps(world.probes, &world.nodes[1]);

		play(&world, (const char[]){ *round, 0 });
		if (mk_probes_keeps(world.probes, &world.nodes[1]) != had)
			ck_assert(world.news & MK_PROBES_PATHS);
	}
	ck_assert(mk_probes_keeps(world.probes, &world.nodes[0]));
	ck_assert_msg(mk_probes_keeps(world.probes, &world.nodes[1]) == keep_rows[_i].keeps, "%s",
		      keep_rows[_i].name);
	mk_probes_free(world.probes);
}
END_TEST

START_TEST(test_silent)
{
	struct world world = start(1, 2);

	play(&world, "11");
	ck_assert(!mk_probes_is_silent(world.probes, &world.nodes[1]));
	play(&world, "1");
	ck_assert(mk_probes_is_silent(world.probes, &world.nodes[1]));
	ck_assert(!mk_probes_is_silent(world.probes, &world.nodes[0]));
	play(&world, "1");
	ck_assert(mk_probes_is_silent(world.probes, &world.nodes[1]));
	play(&world, ".");
	ck_assert(!mk_probes_is_silent(world.probes, &world.nodes[1]));
	mk_probes_free(world.probes);
}
END_TEST

/* After a lost probe of a live node, the next round comes soon. */
START_TEST(test_hurry)
{
	struct world world = start(1, 2);

	play(&world, "xx");
	ck_assert(!mk_probes_hurry(world.probes));
	play(&world, "...");
	ck_assert(!mk_probes_hurry(world.probes));
	play(&world, "1");
	ck_assert(mk_probes_hurry(world.probes));
	play(&world, ".");
	ck_assert(!mk_probes_hurry(world.probes));
	play(&world, "11");
	ck_assert(mk_probes_hurry(world.probes));
	play(&world, "1");
	ck_assert(!mk_probes_hurry(world.probes));
	ck_assert(world.news & MK_PROBES_PATHS);
	mk_probes_free(world.probes);
}
END_TEST

START_TEST(test_nodes_come_and_go)
{
	struct world world = start(1, 2);

	play(&world, "xx");
	ck_assert(!mk_probes_is_silent(world.probes, &world.nodes[0]));
	set_east(&world, 1, 3); /* the new node has lost nothing yet, but the peer has */
	play(&world, "x");
	ck_assert(state_of(&world, "east").is_down);
	ck_assert(mk_probes_is_silent(world.probes, &world.nodes[0]));
	ck_assert(!mk_probes_is_silent(world.probes, &world.nodes[2]));
	ck_assert_uint_eq(state_of(&world, "east").probed, 2);
	set_east(&world, 7, 1);
	send_round(&world);
	play(&world, "..");
	ck_assert(state_of(&world, "east").is_down);
	play(&world, ".");
	ck_assert(!state_of(&world, "east").is_down);
	play(&world, THREE);
	ck_assert(state_of(&world, "east").is_down);
	set_east(&world, 7, 0);
	send_round(&world);
	ck_assert_uint_eq(world.sent_count, 0);
	ck_assert(!state_of(&world, "east").is_down);
	ck_assert_uint_eq(world.news, MK_PROBES_USABLE | MK_PROBES_SHOWN);
	set(&world, NULL, 0);
	ck_assert(!mk_probes_get(world.probes, "east", &(struct mk_probes_state){ 0 }));
	mk_probes_free(world.probes);
}
END_TEST

/* ---- paths beside a hub ---------------------------------------------------------------------- */

/* A hub with one node, and far with @count nodes behind it, of which the first one is known to be
 * direct. */
static struct world start_paths(size_t count, bool knows)
{
	static const bool direct[NODES_MAX] = { true };
	static struct mk_ip hub, far[NODES_MAX];
	struct world world = { .probes = mk_probes_new(1, "node1") };

	hub = node_at(200);
	for (unsigned int i = 0; i < count; i++)
		far[i] = world.nodes[i] = node_at(1 + i);
	set(&world,
	    (struct mk_probes_peer[]){ { .name = "hub", .nodes = &hub, .node_count = 1 },
				       { .name = "far",
					 .via = "hub",
					 .nodes = far,
					 .node_count = count,
					 .tries = true,
					 .live = knows ? direct : NULL } },
	    2);
	send_round(&world);
	return world;
}

/* Who answers in each round: 'a' all, 'f' far's nodes, 'h' the hub, '1' far's first node and the
 * hub, 'x' none. */
static void play_paths(struct world *world, const char *rounds)
{
	const struct mk_ip hub = node_at(200);

	for (; *rounds; rounds++) {
		for (size_t i = 0; i < world->sent_count; i++) {
			bool of_hub = mk_ip_compare(&world->sent[i].to, &hub) == 0;
			bool is_first = mk_ip_compare(&world->sent[i].to, &world->nodes[0]) == 0;

			if (*rounds == 'a' || (*rounds == (of_hub ? 'h' : 'f')) ||
			    (*rounds == '1' && (of_hub || is_first)))
				ck_assert(answer(world, i));
		}
		send_round(world);
	}
}

static const struct {
	const char *name, *rounds;
	bool knows;
	const char *direct; /* of the first two nodes, and whether far is down */
} path_rows[] = {
	{ "at the start", "", false, "00 up" },
	{ "two answers", "aa", false, "00 up" },
	{ "three answers", "aaa", false, "11 up" },
	{ "three, not in a row", "aaha", false, "00 up" },
	{ "one node", "111", false, "10 up" },
	{ "two are lost", "aaahh", false, "11 up" },
	{ "three are lost", "aaahhh", false, "00 up" },
	{ ".. of one node", "aaa111", false, "10 up" },
	{ "the hub is down", "xxx", false, "00 down" },
	{ ".. and nodes are direct", "ffff", false, "11 up" },
	{ "all are down", "aaaxxx", false, "00 down" },
	{ "as before a restart", "", true, "10 up" },
	{ ".. until it is lost", "hh", true, "10 up" },
	{ ".. three times", "hhh", true, "00 up" },
};

START_TEST(test_paths)
{
	struct world world = start_paths(6, path_rows[_i].knows);
	char text[16];

	ck_assert_uint_eq(world.sent_count, 7);
	play_paths(&world, path_rows[_i].rounds);
	snprintf(text, sizeof(text), "%d%d %s", mk_probes_is_live(world.probes, &world.nodes[0]),
		 mk_probes_is_live(world.probes, &world.nodes[1]),
		 state_of(&world, "far").is_down ? "down" : "up");
	ck_assert_msg(strcmp(text, path_rows[_i].direct) == 0, "%s: %s", path_rows[_i].name, text);
	mk_probes_free(world.probes);
}
END_TEST

START_TEST(test_path_news)
{
	struct world world = start_paths(2, false);

	play_paths(&world, "aa");
	ck_assert(!(world.news & MK_PROBES_PATHS));
	play_paths(&world, "a");
	ck_assert(world.news & MK_PROBES_PATHS);
	ck_assert_uint_eq(state_of(&world, "far").answering, 2);
	play_paths(&world, "a");
	ck_assert_uint_eq(world.news, 0);
	play_paths(&world, "hhh");
	ck_assert(world.news & MK_PROBES_PATHS);
	ck_assert_uint_eq(state_of(&world, "far").probed, 0);
	mk_probes_free(world.probes);
}
END_TEST

START_TEST(test_many_paths)
{
	static struct mk_ip ips[2000];
	struct mk_probes *probes = mk_probes_new(1, "node1");
	const struct mk_probe *list;
	struct mk_error err;
	size_t count;

	for (size_t i = 0; i < MK_ARRAY_SIZE(ips); i++) {
		struct mk_addr addr = { .word = { 0, 0, htonl(0xffff),
						  htonl(0xf0000001 + (i << 8)) } };

		ips[i] = mk_ip_of_family(&addr, AF_INET);
	}
	ck_assert_int_eq(mk_probes_set(probes,
				       (struct mk_probes_peer[]){ { .name = "a",
								    .via = "h",
								    .nodes = ips,
								    .node_count = 1500,
								    .tries = true },
								  { .name = "b",
								    .via = "h",
								    .nodes = ips + 1500,
								    .node_count = 500,
								    .tries = true } },
				       2, &err),
			 0);
	mk_probes_next(probes, &list, &count);
	ck_assert_uint_eq(count, 512 + 500);
	mk_probes_free(probes);
}
END_TEST

/* A peer whose nodes are not known is down with its hub. */
START_TEST(test_by_a_hub)
{
	const struct mk_ip hub = node_at(1), far = node_at(2);
	const struct mk_probes_peer peers[] = {
		{ .name = "hub", .nodes = &hub, .node_count = 1 },
		{ .name = "east", .via = "hub" },
		{ .name = "far", .via = "hub", .nodes = &far, .node_count = 1 },
		{ .name = "lost", .via = "nothing" },
	};
	struct world world = start(1, 1);

	set(&world, peers, MK_ARRAY_SIZE(peers));
	ck_assert(!state_of(&world, "east").is_down);
	for (int i = 0; i < 4; i++) {
		send_round(&world);
		for (size_t j = 0; j < world.sent_count; j++)
			if (mk_ip_compare(&world.sent[j].to, &far) == 0)
				answer(&world, j);
	}
	ck_assert(state_of(&world, "hub").is_down);
	ck_assert(state_of(&world, "east").is_down);
	ck_assert_uint_eq(state_of(&world, "east").probed, 0);
	ck_assert(!state_of(&world, "far").is_down);
	ck_assert(!state_of(&world, "lost").is_down);
	mk_probes_free(world.probes);
}
END_TEST

UNIT_SUITE("probes of other clusters")
{
	TCase *tcase = unit_case(suite, "probes", NULL, NULL);

	tcase_add_loop_test(tcase, test_rounds, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_test(tcase, test_flapping);
	tcase_add_test(tcase, test_news);
	tcase_add_test(tcase, test_answers_that_do_not_count);
	tcase_add_test(tcase, test_late_answers);
	tcase_add_loop_test(tcase, test_choice_is_stable, 0, 10);
	tcase_add_test(tcase, test_choice_differs);
	tcase_add_loop_test(tcase, test_live, 0, (int)MK_ARRAY_SIZE(live_rows));
	tcase_add_loop_test(tcase, test_keeps, 0, (int)MK_ARRAY_SIZE(keep_rows));
	tcase_add_test(tcase, test_silent);
	tcase_add_test(tcase, test_hurry);
	tcase_add_test(tcase, test_nodes_come_and_go);
	tcase_add_test(tcase, test_by_a_hub);
	tcase_add_loop_test(tcase, test_paths, 0, (int)MK_ARRAY_SIZE(path_rows));
	tcase_add_test(tcase, test_path_news);
	tcase_add_test(tcase, test_many_paths);
}

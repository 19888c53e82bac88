// SPDX-License-Identifier: Apache-2.0
/* The largest packet that passes to a node and back, found by padded probes. */
#include <stdio.h>

#include "probes/path_mtu.h"
#include "probes/probes.h"
#include "unit/unit.h"

#define MOST 1450

struct way {
	struct path_mtu path;
	uint16_t passes; /* larger packets are lost */
	bool is_silent; /* the node answers nothing */
	unsigned int sent, rounds;
};

static void play(struct way *way, unsigned int rounds)
{
	for (; rounds > 0; rounds--) {
		uint16_t bytes = path_mtu_next(&way->path);

		way->sent += bytes > 0;
		way->path.answered = bytes && bytes <= way->passes && !way->is_silent;
		path_mtu_end(&way->path, !way->is_silent);
		way->rounds++;
	}
}

static struct way begin(uint16_t most, uint16_t known, uint16_t passes)
{
	struct way way = { .passes = passes };

	path_mtu_set(&way.path, most, known);
	return way;
}

static void check_found(const struct way *way, uint16_t expected)
{
	ck_assert_msg(way->path.found_bytes <= expected &&
			      way->path.found_bytes + 2 * PATH_MTU_STEP > expected,
		      "%u of %u bytes after %u rounds, %u pass", way->path.found_bytes,
		      way->path.most_bytes, way->rounds, way->passes);
}

/* One probe in ten is padded. */
START_TEST(test_nothing_is_lost)
{
	struct way way = begin(MOST, 0, MOST);

	play(&way, 100);
	ck_assert_uint_eq(way.path.found_bytes, MOST);
	ck_assert_uint_eq(way.sent, 10);
}
END_TEST

START_TEST(test_without_mtu)
{
	struct way way = begin(0, 0, MOST);

	play(&way, 100);
	ck_assert_uint_eq(way.sent, 0);
}
END_TEST

/* A first search takes half a minute at most, also for jumbo frames. */
START_TEST(test_search)
{
	static const uint16_t mosts[] = { 1290, 1370, 1450, 8950, 65485 };
	const uint16_t most = mosts[_i];

	for (unsigned int passes = PATH_MTU_LEAST; passes < most; passes += 1 + passes / 100) {
		struct way way = begin(most, 0, (uint16_t)passes);

		play(&way, 45);
		check_found(&way, (uint16_t)passes);
	}
}
END_TEST

/* Nothing lower than the least is tried, and the search does not go on and on. */
START_TEST(test_nothing_passes)
{
	struct way way = begin(MOST, 0, 1200);

	play(&way, 30);
	ck_assert_uint_eq(way.path.found_bytes, PATH_MTU_LEAST);
	way.sent = 0;
	play(&way, 100);
	ck_assert_uint_le(way.sent, 60);
	ck_assert_uint_eq(way.path.found_bytes, PATH_MTU_LEAST);
}
END_TEST

/* Two probes that are lost by chance change nothing, however often. */
START_TEST(test_lost_by_chance)
{
	struct way way = begin(MOST, 0, MOST);

	for (int i = 0; i < 100; i++) {
		way.passes = i % 3 == 2 ? MOST : 0;
		play(&way, 1);
		ck_assert_uint_eq(way.path.found_bytes, MOST);
	}
}
END_TEST

/* A node that answers nothing says nothing of its way. */
START_TEST(test_silent)
{
	struct way way = begin(MOST, 0, MOST);

	play(&way, 1);
	way.is_silent = true;
	play(&way, 500);
	ck_assert_uint_eq(way.path.found_bytes, MOST);
	ck_assert(!way.path.searches);
}
END_TEST

START_TEST(test_way_changes)
{
	struct way way = begin(MOST, 0, MOST);

	play(&way, 5);
	way.passes = 1400;
	play(&way, 45);
	check_found(&way, 1400);
	way.passes = 1300;
	play(&way, 45);
	check_found(&way, 1300);
	/* half of the way back, and all of it */
	way.passes = 1420;
	play(&way, 100);
	check_found(&way, 1420);
	way.passes = MOST;
	play(&way, 100);
	ck_assert_uint_eq(way.path.found_bytes, MOST);
}
END_TEST

/* What counts before a search stays until its end: no size counts that was not tried. */
START_TEST(test_no_size_between)
{
	struct way way = begin(MOST, 0, 1300);

	for (int i = 0; i < 200; i++) {
		play(&way, 1);
		ck_assert_msg(way.path.found_bytes == MOST || way.path.found_bytes <= 1300,
			      "%u after %d rounds", way.path.found_bytes, i);
	}
}
END_TEST

/* The next agent begins with the size in the tables, and tries the largest one at once. */
START_TEST(test_known)
{
	struct way way = begin(MOST, 1340, 1345);

	ck_assert_uint_eq(way.path.found_bytes, 1340);
	play(&way, 40);
	check_found(&way, 1345);
	way = begin(MOST, 1340, MOST);
	play(&way, 1);
	ck_assert_uint_eq(way.path.found_bytes, MOST);
}
END_TEST

START_TEST(test_configured_again)
{
	struct way way = begin(MOST, 0, 1340);

	play(&way, 45);
	path_mtu_set(&way.path, 1400, 0);
	check_found(&way, 1340);
	path_mtu_set(&way.path, 1300, 0);
	ck_assert_uint_eq(way.path.found_bytes, 1300);
	path_mtu_set(&way.path, MOST, 0);
	ck_assert_uint_eq(way.path.found_bytes, MOST);
	play(&way, 45);
	check_found(&way, 1340);
}
END_TEST

/* ---- among other probes ---------------------------------------------------------------------- */

#define NODES 3

struct peers {
	struct mk_probes *probes;
	struct mk_ip nodes[NODES];
	uint16_t passes[NODES];
	unsigned int news;
};

static void set_east(struct peers *peers, uint16_t known)
{
	const struct mk_probes_peer east = { .name = "east",
					     .nodes = peers->nodes,
					     .node_count = NODES,
					     .mtu_bytes = MOST,
					     .known_mtu_bytes = known };
	struct mk_error err;

	ck_assert_int_eq(mk_probes_set(peers->probes, &east, 1, &err), 0);
}

static struct peers begin_peers(void)
{
	struct peers peers = { .probes = mk_probes_new(1, "n1"), .passes = { MOST, MOST, MOST } };
	char text[MK_IP_STRLEN];

	for (unsigned int i = 0; i < NODES; i++) {
		snprintf(text, sizeof(text), "240.1.%u.1", i);
		ck_assert_int_eq(mk_ip_parse(text, &peers.nodes[i]), 0);
	}
	set_east(&peers, 0);
	return peers;
}

static void answer(struct peers *peers, const struct mk_probe *probe)
{
	for (size_t i = 0; i < NODES; i++)
		if (mk_ip_compare(&probe->to, &peers->nodes[i]) == 0 &&
		    probe->packet_bytes <= peers->passes[i])
			ck_assert(mk_probes_answer(peers->probes, &probe->to, probe->nonce, 1));
}

static struct mk_probes_state play_peers(struct peers *peers, int rounds)
{
	struct mk_probes_state state;
	const struct mk_probe *list;
	size_t count;

	for (peers->news = 0; rounds > 0; rounds--) {
		peers->news |= mk_probes_next(peers->probes, &list, &count);
		for (size_t i = 0; i < count; i++) {
			mk_probes_sent(peers->probes, i, 1);
			answer(peers, &list[i]);
		}
	}
	ck_assert(mk_probes_get(peers->probes, "east", &state));
	return state;
}

/* The smallest of the nodes counts, and the rows are computed again. */
START_TEST(test_peer)
{
	struct peers peers = begin_peers();
	struct mk_probes_state state = play_peers(&peers, 40);

	ck_assert_uint_eq(state.mtu_bytes, 0);
	peers.passes[1] = 1400;
	peers.passes[2] = 1320;
	state = play_peers(&peers, 45);
	ck_assert_uint_le(state.mtu_bytes, 1320);
	ck_assert_uint_gt(state.mtu_bytes, 1300);
	ck_assert(peers.news & MK_PROBES_PATHS && peers.news & MK_PROBES_SHOWN);
	ck_assert_uint_eq(state.answering, NODES);
	ck_assert(!state.is_down);
	ck_assert_uint_eq(play_peers(&peers, 20).mtu_bytes, state.mtu_bytes);
	ck_assert(!(peers.news & MK_PROBES_PATHS));
	peers.passes[1] = peers.passes[2] = MOST;
	ck_assert_uint_eq(play_peers(&peers, 100).mtu_bytes, 0);
	ck_assert(peers.news & MK_PROBES_PATHS);
	mk_probes_free(peers.probes);
}
END_TEST

/* Rows may be computed again before the first round ends. */
START_TEST(test_peer_known)
{
	struct peers peers = { .probes = mk_probes_new(1, "n1") };
	struct mk_probes_state state;

	ck_assert_int_eq(mk_ip_parse("240.1.0.1", &peers.nodes[0]), 0);
	ck_assert_int_eq(mk_ip_parse("240.1.1.1", &peers.nodes[1]), 0);
	ck_assert_int_eq(mk_ip_parse("240.1.2.1", &peers.nodes[2]), 0);
	set_east(&peers, 1340);
	ck_assert(mk_probes_get(peers.probes, "east", &state));
	ck_assert_uint_eq(state.mtu_bytes, 1340);
	mk_probes_free(peers.probes);
}
END_TEST

/* Only small probes decide whether a node is live. */
START_TEST(test_large_ones_are_lost)
{
	struct peers peers = begin_peers();
	struct mk_probes_state state;

	for (size_t i = 0; i < NODES; i++)
		peers.passes[i] = 100;
	state = play_peers(&peers, 60);
	ck_assert_uint_eq(state.answering, NODES);
	ck_assert(!state.is_down && !*state.silent);
	ck_assert_uint_eq(state.mtu_bytes, PATH_MTU_LEAST);
	mk_probes_free(peers.probes);
}
END_TEST

UNIT_SUITE("path_mtu")
{
	TCase *path = unit_case(suite, "path", NULL, NULL);
	TCase *peer = unit_case(suite, "peer", NULL, NULL);

	tcase_add_test(path, test_nothing_is_lost);
	tcase_add_test(path, test_without_mtu);
	tcase_add_loop_test(path, test_search, 0, 5);
	tcase_add_test(path, test_nothing_passes);
	tcase_add_test(path, test_lost_by_chance);
	tcase_add_test(path, test_silent);
	tcase_add_test(path, test_way_changes);
	tcase_add_test(path, test_no_size_between);
	tcase_add_test(path, test_known);
	tcase_add_test(path, test_configured_again);
	tcase_add_test(peer, test_peer);
	tcase_add_test(peer, test_peer_known);
	tcase_add_test(peer, test_large_ones_are_lost);
}

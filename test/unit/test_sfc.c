// SPDX-License-Identifier: Apache-2.0
/* Service function chains: numbers, states of replicas, slots. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "sfc/sfc.h"
#include "unit/unit.h"

#define S 1000000000ULL

static struct mk_sfc *sfc;
static struct mk_error err;
static struct mk_sfc_chain_object chains[MK_SFC_CHAINS + 8];
static struct mk_sfc_pod_object pods[2048];
static char texts[2048][16];
static size_t chain_count, pod_count;
static const uint8_t key[MK_SIPHASH_KEY_BYTES] = { 1, 2, 3 };
static uint64_t now_ns;

static void setup(void)
{
	chain_count = pod_count = 0;
	memset(chains, 0, sizeof(chains));
	memset(pods, 0, sizeof(pods));
	now_ns = 1000 * S;
	sfc = mk_sfc_new(key);
	ck_assert_ptr_nonnull(sfc);
}

static void teardown(void)
{
	mk_sfc_free(sfc);
}

/* A chain of namespace "ns" through one function or two. */
static struct mk_sfc_chain_object *add_chain(const char *uid, const char *first, const char *second)
{
	struct mk_sfc_chain_object *chain = &chains[chain_count++];

	*chain = (struct mk_sfc_chain_object){ .uid = uid, .namespace_ = "ns", .name = uid };
	chain->functions[0].name = first;
	chain->functions[1].name = second;
	chain->functions[0].local_weight = chain->functions[1].local_weight = 1;
	chain->function_count = second ? 2 : 1;
	return chain;
}

/* A ready replica of this node. */
static struct mk_sfc_pod_object *add_pod(const char *uid, const char *function)
{
	struct mk_sfc_pod_object *pod = &pods[pod_count];

	*pod = (struct mk_sfc_pod_object){
		.uid = uid,
		.namespace_ = "ns",
		.name = uid,
		.function = function,
		.ready = true,
		.is_here = true,
		.is_bound = true,
		.weight = 1,
		.ips = { ip_of("10.1.0.9") },
		.ifindex = { (uint32_t)(100 + 2 * pod_count), (uint32_t)(101 + 2 * pod_count) },
		.mode = 1,
	};
	pod_count++;
	return pod;
}

/* A ready replica of another node. */
static struct mk_sfc_pod_object *add_remote(const char *uid, const char *function)
{
	struct mk_sfc_pod_object *pod = add_pod(uid, function);

	pod->is_here = false;
	pod->asks_for_ports = true;
	pod->mode = MK_PORT_NONE;
	pod->vtep_mac = (struct mk_mac){ { 2, 0x4d, 10, 18, 0, 2 } };
	pod->ifindex[0] = pod->ifindex[1] = 0;
	return pod;
}

static void compile(void)
{
	ck_ok(mk_sfc_compile(sfc, chains, chain_count, pods, pod_count, now_ns, &err));
}

static const struct mk_sfc_function *function_of(size_t chain, size_t place)
{
	const struct mk_sfc_rows *rows = mk_sfc_rows(sfc);

	return rows->functions[rows->chains[chains[chain].number].place[place].function];
}

static unsigned slots_of(const struct mk_sfc_function *function, uint16_t number)
{
	unsigned slots = 0;

	for (size_t i = 0; i < MK_SFC_SLOTS; i++)
		slots += function->replica[i] == number;
	return slots;
}

/* No path names anything, in one family. */
static size_t release(void)
{
	static struct mk_sfc_named none;
	const struct mk_sfc_named *named[] = { &none };

	none.since_ns = now_ns;
	return mk_sfc_release(sfc, named, 1, now_ns);
}

/* ---- rows ------------------------------------------------------------------------------------ */

START_TEST(test_rows)
{
	const struct mk_sfc_rows *rows;
	const struct mk_sfc_chain *chain;
	const struct mk_sfc_replica *replica;

	add_chain("a", "firewall", "ids")->leaves_open_flows = true;
	chains[0].functions[1].flags = MK_SFC_SKIP | MK_SFC_HASH_POD;
	add_pod("p", "firewall");
	compile();
	rows = mk_sfc_rows(sfc);
	ck_assert_uint_eq(chains[0].number, mk_sfc_chain_id(sfc, "a", false));
	ck_assert_uint_eq(mk_sfc_chain_id(sfc, "b", false), 0);
	chain = &rows->chains[chains[0].number];
	ck_assert_uint_ne(chain->place[0].function, chain->place[1].function);
	ck_assert_uint_eq(chain->place[1].flags, MK_SFC_SKIP | MK_SFC_HASH_POD);
	ck_assert_uint_eq(chain->place[2].function, 0);
	ck_assert(chain->leaves_open_flows);
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[0].number), MK_SFC_SLOTS);
	ck_assert_uint_eq(slots_of(function_of(0, 1), 0), MK_SFC_SLOTS);
	replica = &rows->replicas[pods[0].number].row;
	ck_assert_uint_eq(replica->state, MK_SFC_USABLE);
	ck_assert_uint_eq(replica->ifindex[MK_SFC_OUTSIDE], 101);
	ck_assert_uint_eq(rows->port_count, 2);
	ck_assert_uint_eq(rows->ports[1].ifindex, 101);
	ck_assert_uint_eq(rows->ports[1].port.side, MK_SFC_OUTSIDE);
	ck_assert_uint_eq(rows->ports[1].port.replica, pods[0].number);
}
END_TEST

START_TEST(test_two_chains_share_a_function)
{
	add_chain("a", "firewall", NULL);
	add_chain("b", "ids", "firewall");
	chains[2] = *add_chain("c", "firewall", NULL);
	chains[2].namespace_ = "other";
	compile();
	ck_assert_ptr_eq(function_of(0, 0), function_of(1, 1));
	ck_assert_ptr_ne(function_of(0, 0), function_of(2, 0));
}
END_TEST

/* ---- states ---------------------------------------------------------------------------------- */

/* Each letter is a replica: r ready, n not ready, d deleted and ready, x deleted and not ready, p
 * without its second port. On another node: R ready, N not ready, D deleted and ready, A without
 * annotation for ports, U the overlay does not reach the node. B on no node yet. New flows go to
 * those that are in capitals in `flows`; `lost` has an l for each replica that open flows leave, k
 * for those that they keep, and - for those without number. */
static const struct {
	const char *name, *replicas, *flows, *lost;
} states[] = {
	{ "ready ones share", "rr", "RR", "kk" },
	{ "not ready: others take its flows", "rn", "R-", "kl" },
	{ "none ready: open flows stay", "nn", "--", "kk" },
	{ "deleted: no new flows while another serves", "rd", "R-", "kk" },
	{ "deleted: new flows if none serves", "dn", "R-", "kk" },
	{ "deleted and not ready: open flows stay, no new ones", "rx", "R-", "kk" },
	{ "... even if none serves", "x", "-", "k" },
	{ "a port is missing", "rp", "R-", "k-" },
	{ "on another node", "Rr", "RR", "kk" },
	{ "on another node, not ready", "Nr", "-R", "lk" },
	{ "on another node, not ready, alone", "N", "-", "k" },
	{ "on another node, deleted", "Dr", "-R", "kk" },
	{ "on another node, deleted, alone", "D", "R", "k" },
	{ "on another node, without annotation", "Ar", "-R", "-k" },
	{ "on a node that the overlay does not reach", "Ur", "-R", "-k" },
	{ ".. which serves nothing: the others keep their flows", "Un", "--", "-k" },
	{ "on no node", "Br", "-R", "-k" },
	{ "nothing", "", "", "" },
};

START_TEST(test_states)
{
	const char *name = states[_i].name;
	static const char *const uids[] = { "p0", "p1", "p2" };

	add_chain("a", "firewall", NULL);
	for (const char *c = states[_i].replicas; *c; c++) {
		const char *uid = uids[c - states[_i].replicas];
		struct mk_sfc_pod_object *pod = strchr("RNDAUB", *c) ? add_remote(uid, "firewall")
								     : add_pod(uid, "firewall");

		pod->ready = strchr("rdpRDAUB", *c) != NULL;
		pod->deleting = strchr("dxD", *c) != NULL;
		if (*c == 'p')
			pod->ifindex[MK_SFC_OUTSIDE] = 0;
		pod->asks_for_ports &= *c != 'A';
		if (strchr("UB", *c))
			pod->vtep_mac = (struct mk_mac){ 0 };
		pod->is_bound = *c != 'B';
	}
	compile();
	for (size_t i = 0; i < pod_count; i++) {
		const struct mk_sfc_replica *row = &mk_sfc_rows(sfc)->replicas[pods[i].number].row;
		char lost = !pods[i].number ? '-' : row->state == MK_SFC_LOST ? 'l' : 'k';
		unsigned slots = pods[i].number ? slots_of(function_of(0, 0), pods[i].number) : 0;

		ck_assert_msg(lost == states[_i].lost[i], "%s: replica %zu is %c", name, i, lost);
		ck_assert_msg((slots > 0) == (states[_i].flows[i] == 'R'), "%s: replica %zu has %u",
			      name, i, slots);
		ck_assert_int_eq(pods[i].state == MK_SFC_POD_UNBOUND,
				 states[_i].replicas[i] == 'B');
	}
}
END_TEST

/* The ports are gone, the Pod is not: DEL has run. */
START_TEST(test_device_gone)
{
	const struct mk_sfc_replica *row;

	add_chain("a", "firewall", NULL);
	add_pod("p", "firewall")->deleting = true;
	compile();
	pods[0].ifindex[0] = pods[0].ifindex[1] = 0;
	compile();
	row = &mk_sfc_rows(sfc)->replicas[pods[0].number].row;
	ck_assert_uint_eq(row->state, MK_SFC_LOST);
	ck_assert_uint_ne(row->uid_hash, 0);
	ck_assert_uint_eq(row->ifindex[0], 0);
	ck_assert_int_eq(pods[0].state, MK_SFC_POD_NO_PORTS);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->port_count, 0);
	ck_assert_uint_eq(slots_of(function_of(0, 0), 0), MK_SFC_SLOTS);
}
END_TEST

/* No chain has the function any more: paths that still name its replica stay whole. */
START_TEST(test_function_leaves)
{
	uint16_t number;

	add_chain("a", "firewall", NULL);
	add_pod("p", "firewall");
	compile();
	number = pods[0].number;
	chains[0].functions[0].name = "ids";
	compile();
	ck_assert_int_eq(pods[0].state, MK_SFC_POD_UNUSED);
	ck_assert_uint_eq(pods[0].number, number);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->replicas[number].row.state, MK_SFC_USABLE);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->port_count, 2);
	now_ns += S;
	ck_assert_uint_eq(release(), 2);
	compile();
	ck_assert_uint_eq(pods[0].number, 0);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->port_count, 0);
}
END_TEST

/* ---- other nodes ----------------------------------------------------------------------------- */

START_TEST(test_remote)
{
	static const uint8_t here[6];
	const struct mk_sfc_rows *rows;
	const struct mk_sfc_replica *row;

	add_chain("a", "firewall", NULL);
	add_remote("far", "firewall");
	add_pod("near", "firewall");
	compile();
	rows = mk_sfc_rows(sfc);
	ck_assert_uint_eq(pods[1].number, 1); /* those of this node first */
	row = &rows->replicas[pods[0].number].row;
	ck_assert_uint_eq(row->state, MK_SFC_USABLE);
	ck_assert_mem_eq(row->vtep_mac, &pods[0].vtep_mac, 6);
	ck_assert_uint_eq(row->mode, MK_PORT_NONE);
	ck_assert_uint_eq(row->ifindex[0] + row->ifindex[1], 0);
	ck_assert_mem_eq(rows->replicas[pods[1].number].row.vtep_mac, here, 6);
	ck_assert_uint_eq(rows->port_count, 2);
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[0].number), MK_SFC_SLOTS / 2 + 1);
	pods[0].vtep_mac.byte[5] = 3;
	compile();
	ck_assert_uint_eq(row->vtep_mac[5], 3);
}
END_TEST

/* The node leaves the overlay and comes back: the replica has its number again. */
START_TEST(test_node_leaves)
{
	struct mk_mac mac;
	uint16_t number;

	add_chain("a", "firewall", NULL);
	mac = add_remote("far", "firewall")->vtep_mac;
	compile();
	number = pods[0].number;
	pods[0].vtep_mac = (struct mk_mac){ 0 };
	compile();
	ck_assert_int_eq(pods[0].state, MK_SFC_POD_NO_NODE);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->replicas[number].row.state, MK_SFC_LOST);
	ck_assert_uint_eq(slots_of(function_of(0, 0), 0), MK_SFC_SLOTS);
	ck_assert(mk_sfc_has_gone(sfc));
	pods[0].vtep_mac = mac;
	compile();
	ck_assert_int_eq(pods[0].state, MK_SFC_POD_SERVING);
	ck_assert_uint_eq(pods[0].number, number);
	ck_assert(!mk_sfc_has_gone(sfc));
}
END_TEST

static uint32_t number_of_tag(uint64_t tag)
{
	const struct mk_sfc_rows *rows = mk_sfc_rows(sfc);
	uint32_t number = 0;

	for (size_t i = 0; i < rows->tag_count; i++) {
		ck_assert(i == 0 || rows->tags[i].tag > rows->tags[i - 1].tag);
		if (rows->tags[i].tag == tag)
			number = rows->tags[i].number;
	}
	return number;
}

static uint64_t tag_of(const struct mk_sfc_pod_object *pod)
{
	return mk_sfc_rows(sfc)->replicas[pod->number].row.uid_hash & MK_SFC_TAG_MASK;
}

START_TEST(test_tags)
{
	uint64_t tag;

	add_chain("a", "firewall", NULL);
	add_remote("far", "firewall");
	add_pod("near", "firewall");
	compile();
	ck_assert_uint_eq(mk_sfc_rows(sfc)->tag_count, 2);
	ck_assert_uint_eq(number_of_tag(tag_of(&pods[0])), pods[0].number);
	ck_assert_uint_eq(number_of_tag(tag_of(&pods[1])), pods[1].number);
	tag = tag_of(&pods[1]);
	pod_count = 1;
	compile();
	ck_assert_uint_ne(number_of_tag(tag), 0); /* until its number is free */
	now_ns += S;
	ck_assert_uint_eq(release(), 1);
	compile();
	ck_assert_uint_eq(number_of_tag(tag), 0);
}
END_TEST

/* A replica is released, and another one comes before the rows are computed. */
START_TEST(test_tag_of_next)
{
	uint64_t gone;

	add_chain("a", "firewall", NULL);
	add_remote("first", "firewall");
	compile();
	gone = tag_of(&pods[0]);
	pod_count = 0;
	compile();
	now_ns += S;
	ck_assert_uint_eq(release(), 1);
	add_remote("next", "firewall");
	compile();
	ck_assert_uint_eq(mk_sfc_rows(sfc)->tag_count, 1);
	ck_assert_uint_eq(number_of_tag(gone), 0);
	ck_assert_uint_eq(number_of_tag(tag_of(&pods[0])), pods[0].number);
}
END_TEST

/* Two UIDs whose hashes end with the same 40 bits. */
#define TWIN_1 "u1824318"
#define TWIN_2 "u2965752"

START_TEST(test_same_tag)
{
	add_chain("a", "firewall", NULL);
	add_remote(_i ? TWIN_2 : TWIN_1, "firewall");
	add_remote(_i ? TWIN_1 : TWIN_2, "firewall");
	compile();
	ck_assert_int_eq(pods[_i].state, MK_SFC_POD_SERVING);
	ck_assert_int_eq(pods[!_i].state, MK_SFC_POD_SAME_TAG);
	ck_assert_uint_eq(pods[!_i].number, 0);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->tag_count, 1);
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[_i].number), MK_SFC_SLOTS);
}
END_TEST

/* The one that is there counts, not one that is gone. */
START_TEST(test_tag_of_gone)
{
	uint64_t tag;

	add_chain("a", "firewall", NULL);
	add_remote(TWIN_1, "firewall");
	compile();
	pod_count = 0;
	add_remote(TWIN_2, "firewall");
	compile();
	tag = tag_of(&pods[0]);
	ck_assert_uint_eq(number_of_tag(tag), pods[0].number);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->tag_count, 1);
}
END_TEST

/* ---- slots ----------------------------------------------------------------------------------- */

static void add_pods(size_t count)
{
	for (size_t i = 0; i < count; i++) {
		snprintf(texts[i], sizeof(texts[i]), "uid-%u", (unsigned)i);
		add_pod(texts[i], "firewall");
	}
}

static const size_t counts[] = { 1, 2, 3, 10, 64, 1000 };

START_TEST(test_shares)
{
	add_chain("a", "firewall", NULL);
	add_pods(counts[_i]);
	compile();
	for (size_t i = 0; i < pod_count; i++) {
		unsigned slots = slots_of(function_of(0, 0), pods[i].number);

		ck_assert_uint_ge(slots, MK_SFC_SLOTS / pod_count);
		ck_assert_uint_le(slots, MK_SFC_SLOTS / pod_count + 1);
	}
}
END_TEST

/* One of @count leaves: at most 6 % of the slots of others move (test_maglev.c). */
START_TEST(test_one_leaves)
{
	struct mk_sfc_function before;
	unsigned moved = 0;
	uint16_t gone;

	add_chain("a", "firewall", NULL);
	add_pods(counts[_i]);
	compile();
	before = *function_of(0, 0);
	gone = pods[0].number;
	pods[0].ready = false;
	compile();
	for (size_t i = 0; i < MK_SFC_SLOTS; i++)
		moved += before.replica[i] != gone &&
			 before.replica[i] != function_of(0, 0)->replica[i];
	ck_assert_uint_le(moved, MK_SFC_SLOTS * 6 / 100);
	ck_assert_uint_eq(slots_of(function_of(0, 0), gone), 0);
}
END_TEST

static void reverse(void)
{
	for (size_t i = 0; i < pod_count / 2; i++) {
		struct mk_sfc_pod_object swap = pods[i];

		pods[i] = pods[pod_count - 1 - i];
		pods[pod_count - 1 - i] = swap;
	}
}

/* Another order of the list, and other numbers, give each replica the same slots. */
START_TEST(test_order)
{
	static const char *uid_of[MK_SFC_REPLICAS];
	static const char *slots[MK_SFC_SLOTS];

	add_chain("a", "firewall", NULL);
	add_pods(10);
	compile();
	for (size_t i = 0; i < pod_count; i++)
		uid_of[pods[i].number] = pods[i].uid;
	for (size_t i = 0; i < MK_SFC_SLOTS; i++)
		slots[i] = uid_of[function_of(0, 0)->replica[i]];
	mk_sfc_free(sfc);
	sfc = mk_sfc_new(key);
	reverse();
	compile();
	for (size_t i = 0; i < pod_count; i++)
		uid_of[pods[i].number] = pods[i].uid;
	for (size_t i = 0; i < MK_SFC_SLOTS; i++)
		ck_assert_str_eq(slots[i], uid_of[function_of(0, 0)->replica[i]]);
}
END_TEST

/* ---- weights --------------------------------------------------------------------------------- */

/* Replicas with these weights, of this node first, then - and of others; their shares of the slots
 * for new flows, in thousandths, to half a slot. */
static const struct {
	const char *name;
	uint16_t local_weight;
	uint8_t here[4], there[4]; /* until 0 */
	uint16_t share[4]; /* of all, in this order */
} weights[] = {
	{ "the node's own are preferred", 16, { 1 }, { 1 }, { 941, 59 } },
	{ ".. unless the chain says no", 1, { 1 }, { 1 }, { 500, 500 } },
	{ ".. or says more", 256, { 1 }, { 1 }, { 996, 4 } },
	{ "each for itself", 16, { 1, 1 }, { 1, 1 }, { 471, 471, 29, 29 } },
	{ "annotations count", 1, { 1, 3 }, { 4 }, { 125, 375, 500 } },
	{ "both count", 4, { 1, 2 }, { 100 }, { 36, 71, 893 } },
	{ "all elsewhere: the chain does not matter", 16, { 0 }, { 1, 1, 2 }, { 250, 250, 500 } },
	{ "all here", 16, { 1, 2, 1 }, { 0 }, { 250, 500, 250 } },
};

static void add_weighted(const uint8_t *given, bool is_here)
{
	for (size_t i = 0; i < 4 && given[i]; i++) {
		char *uid = texts[pod_count];

		snprintf(uid, sizeof(texts[0]), "w-%zu", pod_count);
		(is_here ? add_pod(uid, "firewall") : add_remote(uid, "firewall"))->weight =
			given[i];
	}
}

START_TEST(test_weights)
{
	add_chain("a", "firewall", NULL)->functions[0].local_weight = weights[_i].local_weight;
	add_weighted(weights[_i].here, true);
	add_weighted(weights[_i].there, false);
	compile();
	for (size_t i = 0; i < pod_count; i++) {
		unsigned slots = slots_of(function_of(0, 0), pods[i].number);
		unsigned expected = weights[_i].share[i] * MK_SFC_SLOTS / 1000;

		ck_assert_msg(slots + 2 >= expected && slots <= expected + 2,
			      "%s: replica %zu has %u slots, expected %u", weights[_i].name, i,
			      slots, expected);
	}
}
END_TEST

/* One of this node and ten of others: the others' slots stay when one leaves, here or there. */
START_TEST(test_weighted_leaves)
{
	struct mk_sfc_function before;
	unsigned moved = 0, stayed = 0;

	add_chain("a", "firewall", NULL)->functions[0].local_weight = 16;
	add_pods(3);
	for (size_t i = 0; i < 10; i++) {
		snprintf(texts[pod_count], sizeof(texts[0]), "far-%zu", i);
		add_remote(texts[pod_count], "firewall");
	}
	compile();
	before = *function_of(0, 0);
	pods[_i].ready = false;
	compile();
	for (size_t i = 0; i < MK_SFC_SLOTS; i++) {
		bool is_its = before.replica[i] == pods[_i].number;
		bool moves = before.replica[i] != function_of(0, 0)->replica[i];

		moved += moves && !is_its;
		stayed += !moves && is_its;
	}
	ck_assert_uint_eq(stayed, 0);
	ck_assert_msg(moved <= MK_SFC_SLOTS * 6 / 100, "%u slots of others moved", moved);
}
END_TEST

/* Weight 0 drains: no new flows while another replica serves. */
START_TEST(test_drained)
{
	add_chain("a", "firewall", NULL);
	add_pod("p", "firewall");
	add_pod("q", "firewall")->weight = 0;
	compile();
	ck_assert_int_eq(pods[1].state, MK_SFC_POD_DRAINING);
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[1].number), 0);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->replicas[pods[1].number].row.state, MK_SFC_USABLE);
	pods[0].ready = false; /* nothing serves: the one that drains gets the flows */
	compile();
	ck_assert_int_eq(pods[0].state, MK_SFC_POD_KEEPS);
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[1].number), MK_SFC_SLOTS);
	pods[1].ready = false;
	compile();
	ck_assert_int_eq(pods[1].state, MK_SFC_POD_KEEPS);
}
END_TEST

/* A change of a weight alone changes the slots. */
START_TEST(test_weight_changes)
{
	add_chain("a", "firewall", NULL);
	add_pod("p", "firewall");
	add_pod("q", "firewall");
	compile();
	pods[0].weight = 3;
	compile();
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[0].number), 766);
}
END_TEST

/* Two chains weigh the replicas of a function differently. Its readiness counts for both. */
START_TEST(test_two_weights)
{
	add_chain("a", "firewall", NULL)->functions[0].local_weight = 1;
	add_chain("b", "firewall", NULL)->functions[0].local_weight = 3;
	add_pod("near", "firewall");
	add_remote("far", "firewall");
	compile();
	ck_assert_ptr_ne(function_of(0, 0), function_of(1, 0));
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[0].number), 510);
	ck_assert_uint_eq(slots_of(function_of(1, 0), pods[0].number), 766);
	ck_assert_uint_ne(mk_sfc_function_id(sfc, "ns", "firewall", 0, 3), 0);
	ck_assert_uint_eq(mk_sfc_function_id(sfc, "ns", "firewall", 0, 16), 0);
	pods[1].ready = false;
	compile();
	ck_assert_int_eq(pods[1].state, MK_SFC_POD_LOST);
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[0].number), MK_SFC_SLOTS);
	ck_assert_uint_eq(slots_of(function_of(1, 0), pods[0].number), MK_SFC_SLOTS);
}
END_TEST

/* ---- taps ------------------------------------------------------------------------------------ */

static void make_tap(struct mk_sfc_pod_object *pod)
{
	pod->mode = MK_PORT_TAP;
	pod->ifindex[MK_SFC_OUTSIDE] = 0;
}

static void add_tap_chain(const char *uid)
{
	struct mk_sfc_chain_object *chain = add_chain(uid, "ids", "firewall");

	chain->functions[0].is_tap = true;
	chain->functions[0].flags = MK_SFC_SKIP;
}

START_TEST(test_tap_rows)
{
	const struct mk_sfc_rows *rows;
	const struct mk_sfc_replica *row;

	add_tap_chain("a");
	make_tap(add_pod("near", "ids"));
	make_tap(add_remote("far", "ids"));
	compile();
	rows = mk_sfc_rows(sfc);
	ck_assert_int_eq(pods[0].state, MK_SFC_POD_SERVING);
	ck_assert_int_eq(pods[1].state, MK_SFC_POD_SERVING);
	row = &rows->replicas[pods[0].number].row;
	ck_assert_uint_eq(row->mode, MK_PORT_TAP);
	ck_assert_uint_eq(row->ifindex[MK_SFC_INSIDE], 100);
	ck_assert_uint_eq(row->ifindex[MK_SFC_OUTSIDE], 100);
	ck_assert_uint_eq(rows->port_count, 1);
	ck_assert_uint_eq(rows->ports[0].ifindex, 100);
	ck_assert_uint_eq(rows->ports[0].port.side, MK_SFC_INSIDE);
	ck_assert_uint_eq(rows->ports[0].port.mode, MK_PORT_TAP);
	row = &rows->replicas[pods[1].number].row;
	ck_assert_uint_eq(row->mode, MK_PORT_TAP);
	ck_assert_uint_eq(row->ifindex[MK_SFC_INSIDE] + row->ifindex[MK_SFC_OUTSIDE], 0);
	ck_assert_uint_eq(rows->chains[chains[0].number].place[0].flags, MK_SFC_SKIP);
	ck_assert_uint_eq(slots_of(function_of(0, 0), 0), 0);
	ck_assert(function_of(0, 0)->name_hash & MK_SFC_TAP_MASK);
	ck_assert(!(function_of(0, 1)->name_hash & MK_SFC_TAP_MASK));
	ck_assert_uint_ne(mk_sfc_function_id(sfc, "ns", "ids", MK_SFC_TAP_MASK, 1), 0);
	ck_assert_uint_eq(mk_sfc_function_id(sfc, "ns", "ids", 0, 1), 0);
}
END_TEST

/* A pod of ids, which the chain names as a tap or as none. */
static const struct {
	const char *name;
	bool is_tap, is_tap_pod, is_elsewhere, has_ports;
	enum mk_sfc_pod_state state;
} modes[] = {
	{ "a tap", true, true, false, true, MK_SFC_POD_SERVING },
	{ "a tap elsewhere", true, true, true, true, MK_SFC_POD_SERVING },
	{ "a tap without its port", true, true, false, false, MK_SFC_POD_NO_PORTS },
	{ "two ports for a tap", true, false, false, true, MK_SFC_POD_OTHER_MODE },
	{ "two ports for a tap, elsewhere", true, false, true, true, MK_SFC_POD_OTHER_MODE },
	{ "no ports for a tap", true, false, false, false, MK_SFC_POD_NO_PORTS },
	{ "no ports for a tap, elsewhere", true, false, true, false, MK_SFC_POD_NO_PORTS },
	{ "a tap's pod for another function", false, true, false, true, MK_SFC_POD_OTHER_MODE },
	{ "a tap's pod for another function, elsewhere", false, true, true, true,
	  MK_SFC_POD_OTHER_MODE },
};

START_TEST(test_modes)
{
	struct mk_sfc_pod_object *pod;

	if (modes[_i].is_tap)
		add_tap_chain("a");
	else
		add_chain("a", "ids", "firewall");
	pod = modes[_i].is_elsewhere ? add_remote("p", "ids") : add_pod("p", "ids");
	if (modes[_i].is_tap_pod)
		make_tap(pod);
	if (!modes[_i].has_ports) {
		pod->ifindex[MK_SFC_INSIDE] = 0;
		pod->asks_for_ports = false;
		pod->mode = modes[_i].is_tap_pod ? MK_PORT_TAP : MK_PORT_NONE;
	}
	compile();
	ck_assert_msg(pod->state == modes[_i].state, "%s: state %d", modes[_i].name, pod->state);
	ck_assert_int_eq(pod->number != 0, pod->state == MK_SFC_POD_SERVING);
	ck_assert_uint_eq(slots_of(function_of(0, 0), 0), pod->number ? 0 : MK_SFC_SLOTS);
}
END_TEST

/* One chain names the function as a tap, another one as none: each has its replicas. */
START_TEST(test_tap_of_one_chain)
{
	add_tap_chain("a");
	add_chain("b", "ids", NULL);
	make_tap(add_pod("tap", "ids"));
	add_pod("pair", "ids");
	compile();
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[0].number), MK_SFC_SLOTS);
	ck_assert_uint_eq(slots_of(function_of(1, 0), pods[1].number), MK_SFC_SLOTS);
	pods[1].ready = false; /* the tap's readiness is not its own */
	compile();
	ck_assert_int_eq(pods[1].state, MK_SFC_POD_KEEPS);
}
END_TEST

/* The chain says tap: true, then not any more: the copies of open flows go on. */
START_TEST(test_tap_ends)
{
	const struct mk_sfc_replica *row;

	add_tap_chain("a");
	make_tap(add_pod("p", "ids"));
	compile();
	chains[0].functions[0].is_tap = false;
	compile();
	ck_assert_int_eq(pods[0].state, MK_SFC_POD_OTHER_MODE);
	row = &mk_sfc_rows(sfc)->replicas[pods[0].number].row;
	ck_assert_uint_eq(row->state, MK_SFC_USABLE);
	ck_assert_uint_eq(row->mode, MK_PORT_TAP);
	ck_assert_uint_eq(slots_of(function_of(0, 0), 0), MK_SFC_SLOTS);
}
END_TEST

/* ---- ends ------------------------------------------------------------------------------------ */

/* A chain of ends client and server, with firewall in between. */
static struct mk_sfc_chain_object *add_ends_chain(const char *uid)
{
	struct mk_sfc_chain_object *chain = add_chain(uid, "firewall", NULL);

	chain->ends[MK_SFC_INSIDE] = "client";
	chain->ends[MK_SFC_OUTSIDE] = "server";
	return chain;
}

static struct mk_sfc_pod_object *add_end(const char *uid, const char *function)
{
	struct mk_sfc_pod_object *pod = add_pod(uid, function);

	pod->mode = MK_PORT_END;
	pod->ifindex[MK_SFC_OUTSIDE] = 0;
	return pod;
}

static const struct mk_sfc_function *end_of(size_t chain, enum mk_sfc_side side)
{
	const struct mk_sfc_rows *rows = mk_sfc_rows(sfc);

	return rows->functions[rows->chains[chains[chain].number].end[side]];
}

static struct mk_sfc_port port_of(uint32_t ifindex)
{
	const struct mk_sfc_rows *rows = mk_sfc_rows(sfc);

	for (size_t i = 0; i < rows->port_count; i++)
		if (rows->ports[i].ifindex == ifindex)
			return rows->ports[i].port;
	ck_abort_msg("no port %u", ifindex);
	return (struct mk_sfc_port){ 0 };
}

static void check_port(uint32_t ifindex, size_t pod, enum mk_sfc_side side, uint16_t chain)
{
	struct mk_sfc_port port = port_of(ifindex);

	ck_assert_uint_eq(port.replica, pods[pod].number);
	ck_assert_uint_eq(port.mode, pods[pod].mode);
	ck_assert_uint_eq(port.side, side);
	ck_assert_uint_eq(port.chain, chain);
}

/* Ends look at the chain from outside of it, each from its side. */
START_TEST(test_ends)
{
	const struct mk_sfc_replica *row;
	uint16_t chain;

	add_ends_chain("a");
	add_end("c", "client");
	add_end("s", "server");
	add_pod("f", "firewall");
	compile();
	chain = mk_sfc_chain_id(sfc, "a", true);
	ck_assert_uint_ne(chain, 0);
	ck_assert_uint_eq(chains[0].number, chain);
	ck_assert_uint_eq(mk_sfc_chain_id(sfc, "a", false), 0);
	check_port(100, 0, MK_SFC_OUTSIDE, chain);
	check_port(102, 1, MK_SFC_INSIDE, chain);
	check_port(104, 2, MK_SFC_INSIDE, chain);
	check_port(105, 2, MK_SFC_OUTSIDE, chain);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->port_count, 4);
	row = &mk_sfc_rows(sfc)->replicas[pods[0].number].row;
	ck_assert_uint_eq(row->state, MK_SFC_USABLE);
	ck_assert_uint_eq(row->mode, MK_PORT_END);
	ck_assert_uint_eq(row->ifindex[MK_SFC_INSIDE], 100);
	ck_assert_uint_eq(row->ifindex[MK_SFC_OUTSIDE], 100);
	ck_assert_uint_eq(slots_of(end_of(0, MK_SFC_INSIDE), pods[0].number), MK_SFC_SLOTS);
	ck_assert_uint_eq(slots_of(end_of(0, MK_SFC_OUTSIDE), pods[1].number), MK_SFC_SLOTS);
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[2].number), MK_SFC_SLOTS);
	ck_assert(end_of(0, MK_SFC_INSIDE)->name_hash & MK_SFC_END_MASK);
	ck_assert(end_of(0, MK_SFC_INSIDE)->name_hash & MK_SFC_HERE_MASK);
	ck_assert(!(function_of(0, 0)->name_hash & MK_SFC_END_MASK));
	ck_assert(function_of(0, 0)->name_hash & MK_SFC_HERE_MASK);
	ck_assert_uint_ne(mk_sfc_function_id(sfc, "ns", "firewall", MK_SFC_HERE_MASK, 1), 0);
	ck_assert_uint_eq(mk_sfc_function_id(sfc, "ns", "firewall", 0, 1), 0);
	ck_assert_uint_ne(
		mk_sfc_function_id(sfc, "ns", "client", MK_SFC_HERE_MASK | MK_SFC_END_MASK, 1), 0);
}
END_TEST

/* A chain without ends has no ends in its rows. */
START_TEST(test_no_ends)
{
	add_chain("a", "firewall", NULL);
	add_pod("f", "firewall");
	compile();
	ck_assert_uint_eq(mk_sfc_rows(sfc)->chains[chains[0].number].end[MK_SFC_INSIDE], 0);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->chains[chains[0].number].end[MK_SFC_OUTSIDE], 0);
	check_port(100, 0, MK_SFC_INSIDE, 0);
	check_port(101, 0, MK_SFC_OUTSIDE, 0);
	ck_assert(!(function_of(0, 0)->name_hash & MK_SFC_HERE_MASK));
}
END_TEST

/* All of a chain with ends is on one node. */
START_TEST(test_ends_elsewhere)
{
	add_ends_chain("a");
	add_pod("near", "firewall");
	add_remote("far", "firewall");
	add_remote("client-far", "client")->mode = MK_PORT_END;
	compile();
	for (size_t i = 1; i < pod_count; i++) {
		ck_assert_int_eq(pods[i].state, MK_SFC_POD_UNUSED);
		ck_assert_uint_eq(pods[i].number, 0);
	}
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[0].number), MK_SFC_SLOTS);
	ck_assert_uint_eq(slots_of(end_of(0, MK_SFC_INSIDE), 0), MK_SFC_SLOTS);
	pods[0].ready = false; /* one elsewhere serves nothing here, so flows stay */
	compile();
	ck_assert_int_eq(pods[0].state, MK_SFC_POD_KEEPS);
}
END_TEST

/* A pod of a function of the chain, with ports of this mode. */
static const struct {
	const char *function;
	enum mk_port_mode mode;
	enum mk_sfc_pod_state state;
} end_modes[] = {
	{ "client", MK_PORT_END, MK_SFC_POD_SERVING },
	{ "client", MK_PORT_BRIDGED, MK_SFC_POD_OTHER_MODE },
	{ "client", MK_PORT_TAP, MK_SFC_POD_OTHER_MODE },
	{ "client", MK_PORT_NONE, MK_SFC_POD_NO_PORTS },
	{ "server", MK_PORT_ROUTED, MK_SFC_POD_OTHER_MODE },
	{ "firewall", MK_PORT_INLINE, MK_SFC_POD_SERVING },
	{ "firewall", MK_PORT_END, MK_SFC_POD_OTHER_MODE },
	{ "firewall", MK_PORT_TAP, MK_SFC_POD_OTHER_MODE },
	{ "another", MK_PORT_END, MK_SFC_POD_UNUSED },
};

START_TEST(test_end_modes)
{
	struct mk_sfc_pod_object *pod = add_pod("p", end_modes[_i].function);

	add_ends_chain("a");
	pod->mode = (uint8_t)end_modes[_i].mode;
	if (pod->mode == MK_PORT_NONE)
		pod->ifindex[MK_SFC_INSIDE] = 0;
	if (pod->mode == MK_PORT_NONE || pod->mode == MK_PORT_TAP || pod->mode == MK_PORT_END)
		pod->ifindex[MK_SFC_OUTSIDE] = 0;
	compile();
	ck_assert_msg(pod->state == end_modes[_i].state, "%s, mode %d: state %d",
		      end_modes[_i].function, pod->mode, pod->state);
	ck_assert_int_eq(pod->number != 0, pod->state == MK_SFC_POD_SERVING);
}
END_TEST

/* A chain that is refused takes no number, and no function. */
START_TEST(test_refused)
{
	add_ends_chain("a");
	add_chain("b", "firewall", NULL)->is_refused = true;
	add_pod("f", "firewall");
	compile();
	ck_assert_uint_ne(chains[0].number, 0);
	ck_assert_uint_eq(chains[1].number, 0);
	ck_assert_uint_eq(mk_sfc_chain_id(sfc, "b", false), 0);
	ck_assert_uint_eq(mk_sfc_function_id(sfc, "ns", "firewall", 0, 1), 0);
	check_port(100, 0, MK_SFC_INSIDE, chains[0].number);
}
END_TEST

/* The functions go from a chain without ends to one with ends, and back. The chain that is gone has
 * its number until no path names it, but no port. */
START_TEST(test_ends_begin)
{
	struct mk_sfc_chain_object *chain = add_chain("a", "firewall", NULL);
	uint16_t before, with_ends;

	add_pod("f", "firewall");
	compile();
	before = chain->number;
	chain->ends[MK_SFC_INSIDE] = "client";
	chain->ends[MK_SFC_OUTSIDE] = "server";
	compile();
	with_ends = chain->number;
	ck_assert_uint_ne(with_ends, before);
	ck_assert_uint_ne(mk_sfc_rows(sfc)->chains[before].uid_hash, 0);
	check_port(100, 0, MK_SFC_INSIDE, with_ends);
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[0].number), MK_SFC_SLOTS);
	chain->ends[MK_SFC_INSIDE] = chain->ends[MK_SFC_OUTSIDE] = NULL;
	compile();
	ck_assert_uint_eq(chain->number, before);
	check_port(100, 0, MK_SFC_INSIDE, 0);
	ck_assert_uint_eq(slots_of(function_of(0, 0), pods[0].number), MK_SFC_SLOTS);
}
END_TEST

/* A replica whose chain with ends is gone stays for a while, but leads nowhere. */
START_TEST(test_ends_gone)
{
	add_ends_chain("a");
	add_end("c", "client");
	compile();
	check_port(100, 0, MK_SFC_OUTSIDE, chains[0].number);
	chain_count = 0;
	compile();
	ck_assert_uint_ne(pods[0].number, 0);
	check_port(100, 0, MK_SFC_INSIDE, 0);
	ck_assert_int_eq(pods[0].state, MK_SFC_POD_UNUSED);
	now_ns += 2 * S;
	ck_assert_uint_eq(release(), 5); /* the chain, its functions, and the replica */
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

static uint64_t hash_with(const uint8_t *other, const char *namespace_, const char *function)
{
	uint64_t hash;

	mk_sfc_free(sfc);
	sfc = mk_sfc_new(other);
	chain_count = 0;
	add_chain("a", function, NULL)->namespace_ = namespace_;
	compile();
	hash = function_of(0, 0)->name_hash;
	ck_assert_uint_eq(mk_sfc_function_id(sfc, namespace_, function, 0, 1),
			  mk_sfc_rows(sfc)->chains[chains[0].number].place[0].function);
	return hash;
}

/* Names of equal hashes would join a Pod to another namespace's function. So the hash has a secret
 * key, which namespace and name cannot make up for. */
START_TEST(test_names_are_hashed_with_the_key)
{
	static const uint8_t first[MK_SIPHASH_KEY_BYTES] = { 1 };
	static const uint8_t second[MK_SIPHASH_KEY_BYTES] = { 2 };
	static const uint8_t third[MK_SIPHASH_KEY_BYTES] = { 1, [15] = 1 };
	uint64_t hash = hash_with(first, "ns", "firewall");

	ck_assert_uint_ne(hash, hash_with(second, "ns", "firewall"));
	ck_assert_uint_ne(hash, hash_with(third, "ns", "firewall"));
	ck_assert_uint_ne(hash, hash_with(first, "nsf", "irewall"));
	ck_assert_uint_ne(hash, hash_with(first, "firewall", "ns"));
	ck_assert_uint_ne(hash, hash_with(first, "other", "firewall"));
	ck_assert_uint_ne(hash, hash_with(first, "ns", "other"));
	ck_assert_uint_eq(hash, hash_with(first, "ns", "firewall"));
}
END_TEST

/* ---- numbers --------------------------------------------------------------------------------- */

/* Take over all rows, as after a restart. */
static struct mk_sfc *successor(void)
{
	const struct mk_sfc_rows *rows = mk_sfc_rows(sfc);
	struct mk_sfc *next = mk_sfc_new(key);

	for (uint32_t i = 0; i < rows->chain_count; i++)
		mk_sfc_recall_chain(next, i, &rows->chains[i]);
	for (uint32_t i = 0; i < rows->function_count; i++)
		if (rows->functions[i])
			mk_sfc_recall_function(next, i, rows->functions[i]);
	for (uint32_t i = 0; i < rows->replica_count; i++) {
		struct mk_sfc_replica row = rows->replicas[i].row;

		for (size_t f = 0; f < MK_FAMILIES; f++) {
			row.addr = mk_ip_to_addr(&rows->replicas[i].ips[f]);
			mk_sfc_recall_replica(next, i, &row);
		}
	}
	return next;
}

START_TEST(test_restart)
{
	struct mk_sfc *former = sfc, *next;
	struct mk_sfc_rows was, now;

	add_chain("a", "firewall", "ids");
	add_chain("b", "nat", NULL);
	add_pods(7);
	pods[3].ready = false;
	compile();
	next = successor();
	chains[2] = chains[0]; /* in another order */
	chains[0] = chains[1];
	chains[1] = chains[2];
	reverse();
	sfc = next;
	compile();
	was = *mk_sfc_rows(former);
	now = *mk_sfc_rows(next);
	ck_assert_uint_eq(was.chain_count, now.chain_count);
	ck_assert_uint_eq(was.replica_count, now.replica_count);
	ck_assert_mem_eq(was.chains, now.chains, was.chain_count * sizeof(*was.chains));
	ck_assert_mem_eq(was.replicas, now.replicas, was.replica_count * sizeof(*was.replicas));
	ck_assert_mem_eq(was.ports, now.ports, was.port_count * sizeof(*was.ports));
	for (size_t i = 1; i < was.function_count; i++)
		ck_assert_mem_eq(was.functions[i], now.functions[i], sizeof(*was.functions[i]));
	mk_sfc_free(former);
}
END_TEST

/* After a restart, what is gone has its number until no path names it. */
START_TEST(test_gone_while_away)
{
	struct mk_sfc *next;
	uint16_t chain, replica;

	add_chain("a", "firewall", NULL);
	add_pod("p", "firewall");
	compile();
	chain = chains[0].number;
	replica = pods[0].number;
	next = successor();
	mk_sfc_free(sfc);
	sfc = next;
	chain_count = pod_count = 0;
	add_chain("b", "ids", NULL);
	add_pod("q", "ids");
	compile();
	ck_assert_uint_ne(chains[0].number, chain);
	ck_assert_uint_ne(pods[0].number, replica);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->replicas[replica].row.state, MK_SFC_LOST);
	ck_assert_uint_ne(mk_sfc_rows(sfc)->chains[chain].uid_hash, 0);
	ck_assert_uint_eq(mk_sfc_chain_id(sfc, "a", false), 0);
	ck_assert(mk_sfc_has_gone(sfc));
}
END_TEST

static const struct {
	const char *name;
	bool names_chain, names_replica, too_early, unread;
	size_t released; /* at first; a chain keeps its function */
} releases[] = {
	{ "no path", false, false, false, false, 2 },
	{ "a path names the chain", true, false, false, false, 1 },
	{ "a path names the replica", false, true, false, false, 1 },
	{ "packets may be on their way", false, false, true, false, 0 },
	{ "the other family's paths are not read", false, false, false, true, 0 },
};

START_TEST(test_release)
{
	static struct mk_sfc_named named[2];
	const struct mk_sfc_named *both[] = { &named[0], &named[1] };
	uint16_t chain, replica;

	memset(named, 0, sizeof(named));
	add_chain("a", "firewall", NULL);
	add_pod("p", "firewall");
	compile();
	chain = chains[0].number;
	replica = pods[0].number;
	chain_count = pod_count = 0;
	compile();
	now_ns += releases[_i].too_early ? S - 1 : S;
	named[1].chains[chain] = releases[_i].names_chain;
	named[1].replicas[replica] = releases[_i].names_replica;
	named[0].since_ns = now_ns;
	named[1].since_ns = releases[_i].unread ? 0 : now_ns;
	ck_assert_msg(mk_sfc_release(sfc, both, 2, now_ns) == releases[_i].released, "%s",
		      releases[_i].name);
	if (releases[_i].released < 2)
		return;
	ck_assert_uint_eq(mk_sfc_rows(sfc)->chains[chain].uid_hash, 0);
	compile();
	now_ns += S - 1;
	ck_assert_uint_eq(release(), 0);
	now_ns += 1;
	ck_assert_uint_eq(release(), 1); /* the function */
	ck_assert(!mk_sfc_has_gone(sfc));
	add_chain("b", "ids", NULL);
	add_pod("q", "ids");
	compile();
	ck_assert_uint_eq(chains[0].number, chain);
	ck_assert_uint_eq(pods[0].number, replica);
}
END_TEST

START_TEST(test_too_many)
{
	static char uids[MK_SFC_CHAINS + 1][16];

	for (size_t i = 0; i < MK_SFC_CHAINS; i++) {
		snprintf(uids[i], sizeof(uids[i]), "c%u", (unsigned)i);
		add_chain(uids[i], "firewall", NULL);
	}
	add_pods(MK_SFC_PORTS / 2 + 1);
	add_remote("far", "firewall"); /* has no ports here */
	compile();
	ck_assert_uint_ne(chains[MK_SFC_CHAINS - 2].number, 0);
	ck_assert_uint_eq(chains[MK_SFC_CHAINS - 1].number, 0);
	ck_assert_uint_eq(mk_sfc_chain_id(sfc, uids[MK_SFC_CHAINS - 1], false), 0);
	ck_assert_int_eq(pods[MK_SFC_PORTS / 2 - 1].state, MK_SFC_POD_SERVING);
	ck_assert_int_eq(pods[MK_SFC_PORTS / 2].state, MK_SFC_POD_NO_NUMBER);
	ck_assert_int_eq(pods[MK_SFC_PORTS / 2 + 1].state, MK_SFC_POD_SERVING);
	ck_assert_uint_eq(mk_sfc_rows(sfc)->port_count, MK_SFC_PORTS);
}
END_TEST

UNIT_SUITE("sfc")
{
	TCase *rows = unit_case(suite, "rows", setup, teardown);
	TCase *slots = unit_case(suite, "slots", setup, teardown);
	TCase *numbers = unit_case(suite, "numbers", setup, teardown);

	tcase_add_test(rows, test_rows);
	tcase_add_test(rows, test_two_chains_share_a_function);
	tcase_add_loop_test(rows, test_states, 0, MK_ARRAY_SIZE(states));
	tcase_add_test(rows, test_device_gone);
	tcase_add_test(rows, test_function_leaves);
	tcase_add_test(rows, test_remote);
	tcase_add_test(rows, test_node_leaves);
	tcase_add_test(rows, test_tags);
	tcase_add_test(rows, test_tag_of_next);
	tcase_add_loop_test(rows, test_same_tag, 0, 2);
	tcase_add_test(rows, test_tag_of_gone);
	tcase_add_test(rows, test_tap_rows);
	tcase_add_loop_test(rows, test_modes, 0, MK_ARRAY_SIZE(modes));
	tcase_add_test(rows, test_tap_of_one_chain);
	tcase_add_test(rows, test_tap_ends);
	tcase_add_test(rows, test_ends);
	tcase_add_test(rows, test_no_ends);
	tcase_add_test(rows, test_ends_elsewhere);
	tcase_add_loop_test(rows, test_end_modes, 0, MK_ARRAY_SIZE(end_modes));
	tcase_add_test(rows, test_refused);
	tcase_add_test(rows, test_ends_begin);
	tcase_add_test(rows, test_ends_gone);
	tcase_add_loop_test(slots, test_shares, 0, MK_ARRAY_SIZE(counts));
	tcase_add_loop_test(slots, test_one_leaves, 0, MK_ARRAY_SIZE(counts));
	tcase_add_loop_test(slots, test_weights, 0, MK_ARRAY_SIZE(weights));
	tcase_add_loop_test(slots, test_weighted_leaves, 0, 6);
	tcase_add_test(slots, test_drained);
	tcase_add_test(slots, test_weight_changes);
	tcase_add_test(slots, test_two_weights);
	tcase_add_test(slots, test_names_are_hashed_with_the_key);
	tcase_add_test(slots, test_order);
	tcase_add_test(numbers, test_restart);
	tcase_add_test(numbers, test_gone_while_away);
	tcase_add_loop_test(numbers, test_release, 0, MK_ARRAY_SIZE(releases));
	tcase_add_test(numbers, test_too_many);
}

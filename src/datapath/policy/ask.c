// SPDX-License-Identifier: Apache-2.0
#include "datapath/policy/ask.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/ip.h"

/* ---- tables ---------------------------------------------------------------------------------- */

int mk_policy_maps_open(struct mk_policy_maps *maps, const char *bpf_dir, struct mk_error *err)
{
	const size_t table_bytes = sizeof(struct mk_policy_peer);
	const struct {
		struct mk_table *table;
		const char *name;
		size_t key_bytes, value_bytes;
	} rows[] = {
		{ &maps->identities, "policy_identities", sizeof(struct mk_addr),
		  sizeof(struct mk_policy_identity) },
		{ &maps->peers, "policy_peers", sizeof(struct mk_policy_peer_key), table_bytes },
		{ &maps->blocks, "policy_blocks", sizeof(struct mk_policy_block_key), table_bytes },
		{ &maps->ports, "policy_ports", sizeof(struct mk_policy_port_key),
		  sizeof(struct mk_policy_port) },
	};
	int ret = 0;

	*maps = (struct mk_policy_maps){ 0 };
	for (size_t i = 0; ret == 0 && i < MK_ARRAY_SIZE(rows); i++)
		ret = mk_table_open(rows[i].table, bpf_dir, rows[i].name, rows[i].key_bytes,
				    rows[i].value_bytes, err);
	return ret;
}

void mk_policy_maps_close(struct mk_policy_maps *maps)
{
	mk_table_close(&maps->identities);
	mk_table_close(&maps->peers);
	mk_table_close(&maps->blocks);
	mk_table_close(&maps->ports);
}

/* 1: found, 0: no such entry. */
static int find(const struct mk_table *table, const void *key, void *value, struct mk_error *err)
{
	int ret = mk_table_get(table, key, value, err);

	return ret == -ENOENT ? 0 : ret < 0 ? ret : 1;
}

static int find_peer(const struct mk_policy_maps *maps, uint64_t set, uint64_t peer,
		     uint64_t *table, struct mk_error *err)
{
	const struct mk_policy_peer_key key = { .set = set, .peer = peer };
	struct mk_policy_peer value;
	int ret = find(&maps->peers, &key, &value, err);

	if (ret == 1)
		*table = value.table;
	return ret;
}

static int find_block(const struct mk_policy_maps *maps, uint64_t set, const struct mk_addr *addr,
		      uint64_t *table, struct mk_error *err)
{
	struct mk_policy_block_key key = { .addr = *addr };
	struct mk_policy_peer value;
	int ret;

	key.prefix_bits = MK_POLICY_SET_BITS + mk_ip_bits(mk_table_family(&maps->blocks));
	memcpy(key.set, &set, sizeof(key.set));
	ret = find(&maps->blocks, &key, &value, err);
	if (ret == 1)
		*table = value.table;
	return ret;
}

static int find_ports(const struct mk_policy_maps *maps, uint64_t table, uint8_t proto,
		      uint16_t port, struct mk_policy_port *verdict, struct mk_error *err)
{
	const __be16 wire = htons(port);
	struct mk_policy_port_key key = { .proto = proto };

	key.prefix_bits = MK_POLICY_TABLE_BITS + MK_POLICY_PROTO_BITS + MK_POLICY_PORT_BITS;
	memcpy(key.table, &table, sizeof(key.table));
	memcpy(key.port, &wire, sizeof(key.port));
	return find(&maps->ports, &key, verdict, err);
}

/* ---- the decision ---------------------------------------------------------------------------- */

struct asking {
	const struct mk_policy_maps *maps;
	const struct mk_policy_question *question;
	struct mk_policy_answer *answer;
	struct mk_policy_port verdicts[2]; /* no rules: not asked */
};

/* Ask the table @part of the answer. 1: asked, 0: a table lacks an entry. */
static int ask_table(struct asking *asking, size_t part, struct mk_error *err)
{
	const struct mk_policy_question *question = asking->question;

	return find_ports(asking->maps, asking->answer->tables[part], question->proto,
			  question->port, &asking->verdicts[part], err);
}

/* The peer as a pod: of @class_id, or unknown. */
static int ask_pod(struct asking *asking, uint64_t class_id, struct mk_error *err)
{
	const uint64_t set = asking->question->set;
	uint64_t *table = &asking->answer->tables[0];
	int ret = find_peer(asking->maps, set, class_id ?: MK_PEER_UNKNOWN_POD, table, err);

	if (ret == 0 && class_id)
		ret = find_peer(asking->maps, set, MK_PEER_ANY_POD, table, err);
	return ret == 1 ? ask_table(asking, 0, err) : ret;
}

static int ask_address(struct asking *asking, const struct mk_addr *addr, struct mk_error *err)
{
	uint64_t *table = &asking->answer->tables[1];
	int ret = find_block(asking->maps, asking->question->set, addr, table, err);

	return ret == 1 ? ask_table(asking, 1, err) : ret;
}

static bool is_zero(const struct mk_addr *addr)
{
	const struct mk_addr zero = { 0 };

	return mk_addr_eq(addr, &zero);
}

/* Fill both verdicts. 1: done, 0: a table lacks an entry. */
static int ask_both(struct asking *asking, struct mk_error *err)
{
	const struct mk_policy_question *question = asking->question;
	struct mk_policy_identity identity = { 0 };
	struct mk_addr addr = question->peer;
	bool is_pod;
	int ret = 1;

	if (!question->peer_unproved)
		ret = find(&asking->maps->identities, &addr, &identity, err);
	if (ret < 0)
		return ret;
	if (!is_zero(&identity.counts_as))
		addr = identity.counts_as;
	is_pod = identity.class_id || (is_zero(&identity.counts_as) && question->peer_in_pod_range);
	ret = is_pod ? ask_pod(asking, identity.class_id, err) : 1;
	if (ret != 1 || (identity.class_id && !(question->set & MK_SET_HAS_BLOCKS)))
		return ret;
	return ask_address(asking, &addr, err);
}

/* Return the lower number; 0: none. */
static uint16_t lower(uint16_t a, uint16_t b)
{
	return !a || (b && b < a) ? b : a;
}

static void end(struct mk_policy_answer *answer, bool allowed, enum mk_policy_tier tier,
		uint16_t rule)
{
	answer->allowed = allowed;
	answer->tier = tier;
	answer->rule = rule;
}

/* Of tier Admin or Baseline: does it decide? */
static bool cluster_tier(struct mk_policy_answer *answer, enum mk_policy_tier tier,
			 const uint16_t rules[2], const uint8_t actions[2])
{
	const uint16_t rule = lower(rules[0], rules[1]);
	const uint8_t action = rule == rules[0] ? actions[0] : actions[1];

	if (!rule || action == MK_POLICY_PASS)
		return false;
	end(answer, action == MK_POLICY_ACCEPT, tier, rule);
	return true;
}

static void combine(const struct mk_policy_verdict *pod, const struct mk_policy_verdict *address,
		    bool isolates, bool is_itself, struct mk_policy_answer *answer)
{
	const uint16_t admin[] = { pod->admin, address->admin };
	const uint16_t baseline[] = { pod->baseline, address->baseline };
	const uint8_t admin_action[] = { pod->admin_action, address->admin_action };
	const uint8_t baseline_action[] = { pod->baseline_action, address->baseline_action };
	const uint16_t allows = lower(pod->allows, address->allows);

	if (cluster_tier(answer, MK_TIER_ADMIN, admin, admin_action))
		return;
	if (isolates)
		end(answer, allows || is_itself, MK_TIER_NETWORK_POLICY, is_itself ? 0 : allows);
	else if (!cluster_tier(answer, MK_TIER_BASELINE, baseline, baseline_action))
		end(answer, true, MK_TIER_NONE, 0);
}

/* @asked: no table lacks an entry. Otherwise a set denies, unless all its policies are audited. */
static void combine_in_force(const struct asking *asking, bool asked)
{
	const struct mk_policy_port *verdicts = asking->verdicts;
	const uint64_t set = asking->question->set;

	if (asked)
		combine(&verdicts[0].in_force, &verdicts[1].in_force, set & MK_SET_ISOLATES,
			asking->question->is_itself, asking->answer);
	else
		asking->answer->allowed = set & MK_SET_ONLY_AUDITS;
}

static void combine_audited(const struct asking *asking, bool asked)
{
	const struct mk_policy_port *verdicts = asking->verdicts;
	struct mk_policy_answer *answer = asking->answer, audited = { .allowed = false };

	if (asked)
		combine(&verdicts[0].audited, &verdicts[1].audited,
			asking->question->set & MK_SET_AUDIT_ISOLATES, asking->question->is_itself,
			&audited);
	answer->audit_denies = !audited.allowed;
	answer->audit_tier = audited.tier;
	answer->audit_rule = audited.rule;
}

/* The first chain takes the flow, but a pod's flow to itself is in none. */
static void find_chain(const struct asking *asking)
{
	const struct mk_policy_port *verdicts = asking->verdicts;
	struct mk_policy_answer *answer = asking->answer;
	const uint16_t rule = lower(verdicts[0].chain_rule, verdicts[1].chain_rule);

	if (!rule || !answer->allowed || asking->question->is_itself)
		return;
	answer->chain_rule = rule;
	answer->chain = verdicts[rule == verdicts[0].chain_rule ? 0 : 1].chain;
}

int mk_policy_ask(const struct mk_policy_maps *maps, const struct mk_policy_question *question,
		  struct mk_policy_answer *answer, struct mk_error *err)
{
	struct asking asking = { .maps = maps, .question = question, .answer = answer };
	int ret;

	*answer = (struct mk_policy_answer){ .allowed = question->set == MK_SET_OPEN };
	if (question->set == MK_SET_OPEN || question->set == MK_SET_PENDING)
		return 0;
	ret = ask_both(&asking, err);
	if (ret < 0)
		return ret;
	answer->lacks_entry = ret == 0;
	combine_in_force(&asking, ret == 1);
	if (answer->allowed && question->set & MK_SET_AUDITS)
		combine_audited(&asking, ret == 1);
	find_chain(&asking);
	return 0;
}

/* ---- what would allow it --------------------------------------------------------------------- */

struct search {
	const struct mk_policy_maps *maps;
	const struct mk_policy_question *question;
	const struct mk_policy_answer *answer;
	uint16_t rule;
};

/* Other ports of the same peer. */
static int see_ports(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	const struct mk_policy_verdict *verdict = &((const struct mk_policy_port *)value)->in_force;
	struct search *search = ctx;
	uint64_t table;

	(void)err;
	memcpy(&table, ((const struct mk_policy_port_key *)key)->table, sizeof(table));
	if (table == search->answer->tables[0] || table == search->answer->tables[1])
		search->rule = lower(search->rule, verdict->allows);
	return 0;
}

/* The same port of another peer, which has @table. */
static int see_table(struct search *search, uint64_t table, struct mk_error *err)
{
	const struct mk_policy_question *question = search->question;
	struct mk_policy_port verdict;
	int ret = find_ports(search->maps, table, question->proto, question->port, &verdict, err);

	if (ret == 1)
		search->rule = lower(search->rule, verdict.in_force.allows);
	return ret < 0 ? ret : 0;
}

static int see_peer(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct search *search = ctx;

	if (((const struct mk_policy_peer_key *)key)->set != search->question->set)
		return 0;
	return see_table(search, ((const struct mk_policy_peer *)value)->table, err);
}

static int see_block(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct search *search = ctx;
	uint64_t set;

	memcpy(&set, ((const struct mk_policy_block_key *)key)->set, sizeof(set));
	if (set != search->question->set)
		return 0;
	return see_table(search, ((const struct mk_policy_peer *)value)->table, err);
}

int mk_policy_nearest(const struct mk_policy_maps *maps, const struct mk_policy_question *question,
		      const struct mk_policy_answer *answer, struct mk_policy_nearest *nearest,
		      struct mk_error *err)
{
	struct search search = { .maps = maps, .question = question, .answer = answer };
	int ret = mk_table_each(&maps->ports, see_ports, &search, err);

	nearest->matches_peer = search.rule != 0;
	if (ret == 0 && !search.rule)
		ret = mk_table_each(&maps->peers, see_peer, &search, err);
	if (ret == 0 && !nearest->matches_peer)
		ret = mk_table_each(&maps->blocks, see_block, &search, err);
	nearest->rule = search.rule;
	return ret;
}

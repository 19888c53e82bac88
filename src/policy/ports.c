// SPDX-License-Identifier: Apache-2.0
/* Ports of some rules, flattened. Per protocol the numbers are cut where a rule begins or ends.
 * Each piece gets the first rule of each tier, and the pieces are written as prefixes: the longest
 * one says everything. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "policy/compiler.h"

#define PORTS_END 65536

/* A range of ports of one rule. */
struct span {
	uint32_t first, end; /* not inclusive */
	uint16_t number; /* of the rule */
};

struct flattening {
	const struct set_ *set;
	const uint8_t *bits;
	enum peer_kind kind;
	const struct mk_named_port *ports;
	size_t port_count;
	struct table *table;
	uint8_t proto; /* the present one */
	struct span *spans;
	size_t span_count, span_room;
	/* pieces: piece i is starts[i] to starts[i + 1] */
	uint32_t *starts;
	size_t piece_count;
	struct mk_policy_port *verdicts;
	/* Per tier, in force and audited: the next piece without a verdict. */
	size_t *next[TIER_CHAIN + 1][2];
};

/* ---- spans ----------------------------------------------------------------------------------- */

static void add_span(struct flattening *flat, size_t rule, uint32_t first, uint32_t last)
{
	if (first > last)
		return;
	flat->spans =
		memory_grow(flat->spans, flat->span_count, &flat->span_room, sizeof(*flat->spans));
	flat->spans[flat->span_count++] =
		(struct span){ .first = first, .end = last + 1, .number = (uint16_t)(rule + 1) };
}

/* Rule 55: an unknown pod has every name where a Deny has selectors. */
static bool has_every_name(const struct flattening *flat, const struct rule *rule)
{
	return flat->kind == PEER_UNKNOWN_POD && rule->has_names && rule->has_selectors &&
	       rule->action == MK_POLICY_DENY;
}

static bool has_all(const struct flattening *flat, const struct rule *rule)
{
	return rule->extent == RULE_ALWAYS || rule->of->port_count == 0 ||
	       has_every_name(flat, rule);
}

/* Rule 9: the destination's own numbers of @port. */
static void add_named(struct flattening *flat, size_t rule,
		      const struct mk_policy_port_object *port)
{
	for (size_t i = 0; i < flat->port_count; i++) {
		const struct mk_named_port *named = &flat->ports[i];

		if (named->name == port->name && named->proto == flat->proto &&
		    (port->proto == MK_PROTO_ANY || port->proto == named->proto))
			add_span(flat, rule, named->port, named->port);
	}
}

static void add_spans(struct flattening *flat, size_t index)
{
	const struct rule *rule = flat->set->rules[index].rule;

	if (has_all(flat, rule)) {
		add_span(flat, index, 0, PORTS_END - 1);
		return;
	}
	for (size_t i = 0; i < rule->of->port_count; i++) {
		const struct mk_policy_port_object *port = &rule->of->ports[i];

		if (!port->valid)
			continue;
		if (port->name)
			add_named(flat, index, port);
		else if (port->proto == flat->proto)
			add_span(flat, index, port->first, port->last);
	}
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void cut(struct flattening *flat)
{
	size_t count = 0, kept = 0;

	flat->starts = memory_new((2 * flat->span_count + 2) * sizeof(*flat->starts));
	flat->starts[count++] = 0;
	flat->starts[count++] = PORTS_END;
	for (size_t i = 0; i < flat->span_count; i++) {
		flat->starts[count++] = flat->spans[i].first;
		flat->starts[count++] = flat->spans[i].end;
	}
	qsort(flat->starts, count, sizeof(*flat->starts), mk_compare_ids);
	for (size_t i = 1; i < count; i++)
		if (flat->starts[i] != flat->starts[kept])
			flat->starts[++kept] = flat->starts[i];
	flat->piece_count = kept;
}

static size_t piece_at(const struct flattening *flat, uint32_t port)
{
	size_t low = 0, high = flat->piece_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (flat->starts[middle] < port)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static enum mk_policy_action action_of(const struct set_rule *rule)
{
	return rule->rule->extent == RULE_ALWAYS ? MK_POLICY_DENY : rule->rule->action;
}

/* Does the rule count in the verdict in force, or in the one with the audited policies? */
static bool counts(const struct set_rule *rule, bool audited, uint64_t set)
{
	if (rule->content->tier == TIER_CHAIN)
		return !audited;
	return audited ? set & MK_SET_AUDITS : !rule->content->audited;
}

static void set_verdict(struct mk_policy_port *port, bool audited, const struct set_rule *rule,
			uint16_t number)
{
	struct mk_policy_verdict *verdict = audited ? &port->audited : &port->in_force;
	enum mk_policy_tier tier = rule->content->tier;
	enum mk_policy_action action = action_of(rule);

	if (tier == TIER_CHAIN) {
		port->chain = rule->content->chain_id;
		port->chain_rule = number;
	} else if (tier == MK_TIER_ADMIN) {
		verdict->admin = number;
		verdict->admin_action = (uint8_t)action;
	} else if (tier == MK_TIER_BASELINE) {
		verdict->baseline = number;
		verdict->baseline_action = (uint8_t)action;
	} else {
		verdict->allows = number;
	}
}

static size_t next_free(size_t *next, size_t piece)
{
	size_t found = piece, follows;

	while (next[found] != found)
		found = next[found];
	for (; next[piece] != found && piece != found; piece = follows) {
		follows = next[piece];
		next[piece] = found;
	}
	return found;
}

/* Rule 49: spans are in the order of rules, so a piece keeps the first one of each tier. */
static void paint(struct flattening *flat, const struct span *span, bool audited)
{
	const struct set_rule *rule = &flat->set->rules[span->number - 1];
	enum mk_policy_tier tier = rule->content->tier;
	size_t *next = flat->next[tier][audited], end = piece_at(flat, span->end);

	if (!counts(rule, audited, flat->set->id))
		return;
	for (size_t i = next_free(next, piece_at(flat, span->first)); i < end;
	     i = next_free(next, i)) {
		set_verdict(&flat->verdicts[i], audited, rule, span->number);
		next[i] = i + 1;
	}
}

/* Only a set with chains needs what they would cost all others. */
static enum mk_policy_tier last_tier(const struct flattening *flat)
{
	return flat->set->id & MK_SET_HAS_CHAINS ? TIER_CHAIN : MK_TIER_BASELINE;
}

static void paint_all(struct flattening *flat)
{
	flat->verdicts = memory_new(flat->piece_count * sizeof(*flat->verdicts));
	for (enum mk_policy_tier tier = MK_TIER_ADMIN; tier <= last_tier(flat); tier++)
		for (int audited = 0; audited < 2; audited++) {
			size_t *next = memory_new((flat->piece_count + 1) * sizeof(*next));

			for (size_t i = 0; i <= flat->piece_count; i++)
				next[i] = i;
			flat->next[tier][audited] = next;
		}
	for (size_t i = 0; i < flat->span_count; i++)
		for (int audited = 0; audited < 2; audited++)
			paint(flat, &flat->spans[i], audited);
}

/* ---- prefixes -------------------------------------------------------------------------------- */

static bool same(const struct mk_policy_port *a, const struct mk_policy_port *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static void put_row(struct flattening *flat, uint8_t prefix_bits, uint32_t port,
		    const struct mk_policy_port *verdict)
{
	struct table *table = flat->table;
	struct mk_port_row *row;

	table->rows = memory_grow(table->rows, table->count, &table->room, sizeof(*table->rows));
	row = &table->rows[table->count++];
	memset(row, 0, sizeof(*row));
	row->prefix_bits = prefix_bits;
	row->proto = prefix_bits > 0 ? flat->proto : 0;
	row->port = (uint16_t)port;
	row->verdict = verdict->in_force;
	row->audited = verdict->audited;
	row->chain = verdict->chain;
	row->chain_rule = verdict->chain_rule;
}

/* Write what differs from @around in the ports that begin with @bits bits of @first. */
static void put_prefixes(struct flattening *flat, uint32_t first, unsigned bits,
			 const struct mk_policy_port *around)
{
	uint32_t half = 1U << (MK_POLICY_PORT_BITS - bits) >> 1, end = first + half * 2 + !half;
	size_t piece = piece_at(flat, first + 1) - 1;

	if (flat->starts[piece + 1] >= end) {
		if (!same(&flat->verdicts[piece], around))
			put_row(flat, (uint8_t)(MK_POLICY_PROTO_BITS + bits), first,
				&flat->verdicts[piece]);
		return;
	}
	put_prefixes(flat, first, bits + 1, around);
	put_prefixes(flat, first + half, bits + 1, around);
}

static const struct mk_policy_port *widest(const struct flattening *flat)
{
	size_t best = 0;

	for (size_t i = 1; i < flat->piece_count; i++)
		if (flat->starts[i + 1] - flat->starts[i] >
		    flat->starts[best + 1] - flat->starts[best])
			best = i;
	return &flat->verdicts[best];
}

static void release_pieces(struct flattening *flat)
{
	free(flat->starts);
	free(flat->verdicts);
	for (enum mk_policy_tier tier = MK_TIER_ADMIN; tier <= last_tier(flat); tier++)
		for (int audited = 0; audited < 2; audited++)
			free(flat->next[tier][audited]);
}

static void flatten_proto(struct flattening *flat, uint8_t proto, const struct mk_policy_port *base)
{
	const struct mk_policy_port *most;

	flat->proto = proto;
	flat->span_count = 0;
	for (size_t i = 0; i < flat->set->rule_count; i++)
		if (bit_is_set(flat->bits, i))
			add_spans(flat, i);
	cut(flat);
	paint_all(flat);
	most = widest(flat);
	if (!same(most, base))
		put_row(flat, MK_POLICY_PROTO_BITS, 0, most);
	put_prefixes(flat, 0, 0, most);
	release_pieces(flat);
}

/* Rule 28: other protocols, ICMP too, match only rules without ports. */
static struct mk_policy_port base_verdict(const struct flattening *flat)
{
	struct mk_policy_port base = { 0 };

	for (size_t i = flat->set->rule_count; i-- > 0;) {
		const struct set_rule *rule = &flat->set->rules[i];

		if (!bit_is_set(flat->bits, i) || !has_all(flat, rule->rule))
			continue;
		for (int audited = 0; audited < 2; audited++)
			if (counts(rule, audited, flat->set->id))
				set_verdict(&base, audited, rule, (uint16_t)(i + 1));
	}
	return base;
}

static void flatten(struct flattening *flat)
{
	const uint8_t protos[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP };
	struct mk_policy_port base = base_verdict(flat);

	put_row(flat, 0, 0, &base);
	for (size_t i = 0; i < MK_ARRAY_SIZE(protos); i++)
		flatten_proto(flat, protos[i], &base);
	free(flat->spans);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_rows(struct mk_policies *policies, const struct table *table)
{
	for (size_t i = 0; i < table->count; i++)
		rows_put(&policies->rows[PORTS], &table->rows[i]);
}

static void table_free(struct table *table)
{
	free(table->rows);
	free(table);
}

struct table *table_get(struct mk_policies *policies, const struct set_ *set, const uint8_t *bits,
			enum peer_kind kind, const struct mk_named_port *ports, size_t port_count)
{
	struct table *table = memory_new(sizeof(*table)), *found;
	struct flattening flat = { .set = set,
				   .bits = bits,
				   .kind = kind,
				   .ports = ports,
				   .port_count = port_count,
				   .table = table };

	flatten(&flat);
	table->id =
		mk_siphash(policies->hash_key, table->rows, table->count * sizeof(*table->rows));
	HASH_FIND(hh, policies->tables, &table->id, sizeof(table->id), found);
	if (found) {
		table_free(table);
		found->references++;
		return found;
	}
	for (size_t i = 0; i < table->count; i++)
		table->rows[i].table = table->id;
	table->references = 1;
	HASH_ADD(hh, policies->tables, id, sizeof(table->id), table);
	put_rows(policies, table);
	return table;
}

void table_put(struct mk_policies *policies, struct table *table)
{
	if (--table->references > 0)
		return;
	for (size_t i = 0; i < table->count; i++)
		rows_remove(&policies->rows[PORTS], &table->rows[i]);
	HASH_DEL(policies->tables, table);
	table_free(table);
}

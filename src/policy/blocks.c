// SPDX-License-Identifier: Apache-2.0
/* Blocks of a set. The longest block around an address must say everything. So each prefix that
 * occurs in a cidr or except gets the table of all rules that match there: a walk over the prefixes
 * in order, where each one lies inside those that are still open. */
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

void ip_clean(struct mk_ip *to, const struct mk_ip *ip)
{
	memset(to, 0, sizeof(*to));
	to->family = ip->family;
	memcpy(&to->v6, &ip->v6, mk_ip_bits(ip->family) / 8);
}

/* Rule 7: inside the cidr and outside its own exceptions. */
bool block_has(const struct block *block, const struct mk_ip *ip)
{
	if (!mk_cidr_contains(&block->cidr, ip))
		return false;
	for (size_t i = 0; i < block->except_count; i++)
		if (mk_cidr_contains(&block->except[i], ip))
			return false;
	return true;
}

/* One prefix of one block. */
struct use {
	struct mk_cidr prefix;
	size_t rule, block; /* indices in the set and in the partition */
	bool except;
};
struct place {
	int inside, excepted; /* how many open prefixes say so */
};
struct open_prefix {
	size_t first, count; /* of the uses */
	struct variant *variant;
};

struct partition {
	struct mk_policies *policies;
	struct set_ *set;
	struct use *uses;
	size_t use_count, use_room;
	size_t block_count;
	struct place *places; /* by block */
	int *matches; /* by rule: its blocks around the present prefix */
	uint8_t *bits;
	struct open_prefix open[130]; /* at most one per length, and the family's root */
	size_t depth;
};

static void add_use(struct partition *partition, const struct mk_cidr *prefix, size_t rule,
		    bool except)
{
	if (prefix->ip.family == AF_UNSPEC)
		return;
	partition->uses = memory_grow(partition->uses, partition->use_count, &partition->use_room,
				      sizeof(*partition->uses));
	partition->uses[partition->use_count++] = (struct use){
		.prefix = *prefix, .rule = rule, .block = partition->block_count, .except = except
	};
}

static void find_uses(struct partition *partition)
{
	const struct set_ *set = partition->set;

	for (size_t i = 0; i < set->rule_count; i++)
		for (size_t j = 0; j < set->rules[i].rule->block_count; j++) {
			const struct block *block = &set->rules[i].rule->blocks[j];

			add_use(partition, &block->cidr, i, false);
			for (size_t k = 0; k < block->except_count; k++)
				add_use(partition, &block->except[k], i, true);
			partition->block_count++;
		}
}

static int compare_uses(const void *a, const void *b)
{
	const struct use *x = a, *y = b;

	if (x->prefix.ip.family != y->prefix.ip.family)
		return x->prefix.ip.family < y->prefix.ip.family ? -1 : 1;
	return mk_cidr_compare(&x->prefix, &y->prefix);
}

static void set_bit(struct partition *partition, size_t rule, bool on)
{
	uint8_t bit = (uint8_t)(1 << rule % 8);

	if (on)
		partition->bits[rule / 8] |= bit;
	else
		partition->bits[rule / 8] &= (uint8_t)~bit;
}

/* Rules that match every address. */
static void set_first_bits(struct partition *partition)
{
	for (size_t i = 0; i < partition->set->rule_count; i++) {
		const struct rule *rule = partition->set->rules[i].rule;

		if (rule->extent == RULE_ALWAYS ||
		    (rule->extent == RULE_MATCHES && rule->of->peer_count == 0))
			set_bit(partition, i, true);
	}
}

/* Enter the prefix of @use (@by 1) or leave it (-1). */
static void apply(struct partition *partition, const struct use *use, int by)
{
	struct place *place = &partition->places[use->block];
	bool before = place->inside > 0 && place->excepted == 0, after;

	if (use->except)
		place->excepted += by;
	else
		place->inside += by;
	after = place->inside > 0 && place->excepted == 0;
	if (before == after)
		return;
	partition->matches[use->rule] += after ? 1 : -1;
	set_bit(partition, use->rule, partition->matches[use->rule] > 0);
}

static struct variant *present_variant(struct partition *partition)
{
	return variant_get(partition->policies, partition->set, partition->bits, PEER_ADDRESS, NULL,
			   0);
}

static void put_row(struct partition *partition, const struct mk_cidr *prefix,
		    struct variant *variant)
{
	struct set_ *set = partition->set;
	struct mk_block_row row;

	memset(&row, 0, sizeof(row));
	row.set = set->id;
	ip_clean(&row.block.ip, &prefix->ip);
	row.block.prefix_bits = prefix->prefix_bits;
	row.table = variant->table->id;
	rows_put(&partition->policies->rows[BLOCKS], &row);
	variant->references++;
	set->blocks =
		memory_grow(set->blocks, set->block_count, &set->block_room, sizeof(*set->blocks));
	set->blocks[set->block_count++] =
		(struct block_answer){ .block = row.block, .variant = variant };
}

static void leave(struct partition *partition)
{
	struct open_prefix *open = &partition->open[--partition->depth];

	for (size_t i = open->first; i < open->first + open->count; i++)
		apply(partition, &partition->uses[i], -1);
	variant_put(partition->policies, partition->set, open->variant);
}

/* The uses from @first on have one prefix. A prefix that says the same as the one around it needs
 * no row. */
static void enter(struct partition *partition, size_t first, size_t count)
{
	const struct mk_cidr *prefix = &partition->uses[first].prefix;
	struct open_prefix *open = &partition->open[partition->depth];

	*open = (struct open_prefix){ .first = first, .count = count };
	for (size_t i = first; i < first + count; i++)
		apply(partition, &partition->uses[i], 1);
	open->variant = present_variant(partition);
	if (prefix->prefix_bits == 0 || open->variant != open[-1].variant)
		put_row(partition, prefix, open->variant);
	partition->depth++;
}

static bool is_inside(const struct partition *partition, const struct mk_cidr *prefix)
{
	const struct open_prefix *open = &partition->open[partition->depth - 1];

	return mk_cidr_covers(&partition->uses[open->first].prefix, prefix);
}

static void walk(struct partition *partition)
{
	size_t first = 0, next;

	for (; first < partition->use_count; first = next) {
		const struct mk_cidr *prefix = &partition->uses[first].prefix;

		for (next = first + 1; next < partition->use_count; next++)
			if (compare_uses(&partition->uses[next], &partition->uses[first]) != 0)
				break;
		while (partition->depth > 1 && !is_inside(partition, prefix))
			leave(partition);
		enter(partition, first, next - first);
	}
	while (partition->depth > 1)
		leave(partition);
}

static bool has_any_block(const struct set_ *set, sa_family_t family)
{
	for (size_t i = 0; i < set->block_count; i++)
		if (set->blocks[i].block.prefix_bits == 0 &&
		    set->blocks[i].block.ip.family == family)
			return true;
	return false;
}

/* Addresses that no block has: one row for both families, or one per family. */
static void put_root(struct partition *partition)
{
	const sa_family_t families[] = { AF_INET, AF_INET6 };
	struct variant *root = partition->open[0].variant;
	bool any4 = has_any_block(partition->set, AF_INET);
	bool any6 = has_any_block(partition->set, AF_INET6);

	if (!any4 && !any6)
		put_row(partition, &(struct mk_cidr){ 0 }, root);
	for (int i = 0; any4 != any6 && i < 2; i++)
		if (!has_any_block(partition->set, families[i]))
			put_row(partition, &(struct mk_cidr){ .ip.family = families[i] }, root);
}

void set_make_blocks(struct mk_policies *policies, struct set_ *set)
{
	struct partition partition = { .policies = policies, .set = set, .depth = 1 };

	find_uses(&partition);
	if (partition.use_count > 0)
		qsort(partition.uses, partition.use_count, sizeof(*partition.uses), compare_uses);
	partition.places = memory_new(partition.block_count * sizeof(*partition.places));
	partition.matches = memory_new(set->rule_count * sizeof(*partition.matches));
	partition.bits = memory_new(set->rule_count / 8 + 1);
	set_first_bits(&partition);
	partition.open[0].variant = present_variant(&partition);
	walk(&partition);
	put_root(&partition);
	variant_put(policies, set, partition.open[0].variant);
	free(partition.uses);
	free(partition.places);
	free(partition.matches);
	free(partition.bits);
}

void set_remove_blocks(struct mk_policies *policies, struct set_ *set)
{
	struct mk_block_row row;

	for (size_t i = 0; i < set->block_count; i++) {
		memset(&row, 0, sizeof(row));
		row.set = set->id;
		ip_clean(&row.block.ip, &set->blocks[i].block.ip);
		row.block.prefix_bits = set->blocks[i].block.prefix_bits;
		rows_remove(&policies->rows[BLOCKS], &row);
		variant_put(policies, set, set->blocks[i].variant);
	}
	free(set->blocks);
}

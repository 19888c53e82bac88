// SPDX-License-Identifier: Apache-2.0
/* Sets: their rules in order, which of these match a class, and the rows that say so. */
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

/* ---- variants -------------------------------------------------------------------------------- */

/* Write what a table depends on besides its set. */
static void put_variant_key(struct bytes *bytes, const struct set_ *set, const uint8_t *bits,
			    enum peer_kind kind, const struct mk_named_port *ports,
			    size_t port_count)
{
	bytes->count = 0;
	bytes_put(bytes, bits, (set->rule_count + 7) / 8);
	if (!set->has_names)
		return;
	bytes_put_number(bytes, kind == PEER_UNKNOWN_POD);
	for (size_t i = 0; i < port_count; i++) {
		bytes_put_text(bytes, ports[i].name);
		bytes_put_number(bytes, (uint64_t)ports[i].proto << 16 | ports[i].port);
	}
}

struct variant *variant_get(struct mk_policies *policies, struct set_ *set, const uint8_t *bits,
			    enum peer_kind kind, const struct mk_named_port *ports,
			    size_t port_count)
{
	struct bytes *key = &policies->scratch;
	struct variant *variant;

	if (set->direction == MK_POLICY_INGRESS) { /* rule 9: the destination is the subject */
		ports = set->ports;
		port_count = set->port_count;
	}
	put_variant_key(key, set, bits, kind, ports, port_count);
	HASH_FIND(hh, set->variants, key->at, key->count, variant);
	if (!variant) {
		variant = memory_new(sizeof(*variant) + key->count);
		variant->key_size = key->count;
		memcpy(variant->key, key->at, key->count);
		variant->table = table_get(policies, set, bits, kind, ports, port_count);
		HASH_ADD_KEYPTR(hh, set->variants, variant->key, variant->key_size, variant);
	}
	variant->references++;
	return variant;
}

void variant_put(struct mk_policies *policies, struct set_ *set, struct variant *variant)
{
	if (--variant->references > 0)
		return;
	HASH_DEL(set->variants, variant);
	table_put(policies, variant->table);
	free(variant);
}

/* ---- which rules match ----------------------------------------------------------------------- */

/* Rules 5, 6 and 51. Without @class_: a pod that has no labels, in a namespace that has none. */
static bool peer_has(const struct content *content, const struct mk_policy_peer_object *peer,
		     const struct class_ *class_)
{
	static const struct mk_labels none;

	if (peer->kind != MK_PEER_SELECTORS)
		return false;
	if (!peer->has_namespaces && (!class_ || class_->space->name != content->namespace_))
		return false;
	if (peer->has_namespaces &&
	    !mk_selector_matches(&peer->namespaces, class_ ? &class_->space->labels : &none))
		return false;
	return mk_selector_matches(&peer->pods, class_ ? &class_->labels : &none);
}

static bool class_is_inside(const struct class_ *class_, const struct block *block)
{
	for (size_t i = 0; i < class_->more->block_count; i++)
		if (class_->more->blocks[i] == block->key)
			return true;
	return false;
}

static bool rule_has_class(const struct set_rule *numbered, const struct class_ *class_)
{
	const struct rule *rule = numbered->rule;

	if (rule->extent != RULE_MATCHES)
		return rule->extent == RULE_ALWAYS;
	if (rule->of->peer_count == 0)
		return true;
	for (size_t i = 0; rule->has_selectors && i < rule->of->peer_count; i++)
		if (peer_has(numbered->content, &rule->of->peers[i], class_))
			return true;
	for (size_t i = 0; class_ && class_->more && i < rule->block_count; i++)
		if (rule->blocks[i].key && class_is_inside(class_, &rule->blocks[i]))
			return true;
	return false;
}

/* Rules 17 and 55: an unknown pod matches no selector, but where a Deny has selectors. A chain
 * takes it, because no flow may pass by the chain's functions until its peer is known. */
static bool rule_has_unknown(const struct set_rule *numbered)
{
	const struct rule *rule = numbered->rule;

	if (rule->extent != RULE_MATCHES)
		return rule->extent == RULE_ALWAYS;
	if (rule->action == MK_POLICY_DENY || numbered->content->tier == TIER_CHAIN)
		return rule->of->peer_count == 0 || rule->has_selectors;
	return rule->of->peer_count == 0;
}

static uint8_t *clear_bits(struct mk_policies *policies, const struct set_ *set)
{
	struct bytes *bits = &policies->bits;
	uint64_t zero = 0;

	bits->count = 0;
	for (size_t i = 0; i < set->rule_count / 64 + 1; i++)
		bytes_put(bits, &zero, sizeof(zero));
	return bits->at;
}

static const uint8_t *bits_of(struct mk_policies *policies, const struct set_ *set,
			      const struct class_ *class_)
{
	uint8_t *bits = clear_bits(policies, set);

	for (size_t i = 0; i < set->rule_count; i++)
		if (rule_has_class(&set->rules[i], class_))
			bits[i / 8] |= (uint8_t)(1 << i % 8);
	return bits;
}

static struct variant *variant_by_bits(struct mk_policies *policies, struct set_ *set,
				       const struct class_ *class_, const uint8_t *bits)
{
	const struct class_more *more = class_ ? class_->more : NULL;

	return variant_get(policies, set, bits, PEER_POD, more ? more->ports : NULL,
			   more ? more->port_count : 0);
}

static struct variant *variant_of(struct mk_policies *policies, struct set_ *set,
				  const struct class_ *class_)
{
	return variant_by_bits(policies, set, class_, bits_of(policies, set, class_));
}

static struct variant *variant_of_unknown(struct mk_policies *policies, struct set_ *set)
{
	uint8_t *bits = clear_bits(policies, set);

	for (size_t i = 0; i < set->rule_count; i++)
		if (rule_has_unknown(&set->rules[i]))
			bits[i / 8] |= (uint8_t)(1 << i % 8);
	return variant_get(policies, set, bits, PEER_UNKNOWN_POD, NULL, 0);
}

/* ---- rows of peers --------------------------------------------------------------------------- */

static void put_peer_row(struct mk_policies *policies, const struct set_ *set, uint64_t peer,
			 const struct variant *variant)
{
	struct mk_peer_row row = { .set = set->id, .peer = peer, .table = variant->table->id };

	rows_put(&policies->rows[PEERS], &row);
}

static void remove_peer_row(struct mk_policies *policies, const struct set_ *set, uint64_t peer)
{
	rows_remove(&policies->rows[PEERS], &(struct mk_peer_row){ .set = set->id, .peer = peer });
}

static void replace_answer(struct mk_policies *policies, struct set_ *set, struct answer *answer,
			   struct variant *variant)
{
	variant_put(policies, set, answer->variant);
	answer->variant = variant;
	put_peer_row(policies, set, answer->row.peer, variant);
}

static struct answer *answer_of(const struct mk_policies *policies, const struct set_ *set,
				const struct class_ *class_)
{
	return rows_kept(&policies->rows[PEERS], &(struct mk_peer_row){ set->id, class_->id, 0 });
}

static void add_answer(struct mk_policies *policies, struct set_ *set, const struct class_ *class_,
		       struct variant *variant)
{
	struct answer *answer =
		rows_keep(&policies->rows[PEERS], &(struct mk_peer_row){ set->id, class_->id, 0 });

	answer->variant = variant;
	DL_APPEND(set->answers, answer);
	put_peer_row(policies, set, class_->id, variant);
}

/* Write what @set says about pods of @class_. A class without a row is MK_PEER_ANY_POD. A row that
 * exists stays even if it says the same: its removal would be later than a change. */
static void answer_class(struct mk_policies *policies, struct set_ *set,
			 const struct class_ *class_)
{
	struct variant *variant = variant_of(policies, set, class_);
	struct answer *answer = answer_of(policies, set, class_);

	if (answer && answer->variant != variant)
		replace_answer(policies, set, answer, variant);
	else if (answer || variant == set->any_pod)
		variant_put(policies, set, variant);
	else
		add_answer(policies, set, class_, variant);
}

/* The same for a fresh set, which has no answer yet. Without names of ports the rules that match
 * are all there is, and most classes match those of MK_PEER_ANY_POD. */
static void answer_first(struct mk_policies *policies, struct set_ *set,
			 const struct class_ *class_)
{
	const uint8_t *bits = bits_of(policies, set, class_);
	struct variant *variant;

	if (!set->has_names && memcmp(bits, set->any_pod->key, set->any_pod->key_size) == 0)
		return;
	variant = variant_by_bits(policies, set, class_, bits);
	if (variant == set->any_pod)
		variant_put(policies, set, variant);
	else
		add_answer(policies, set, class_, variant);
}

static void forget_answer(struct mk_policies *policies, struct set_ *set, struct answer *answer)
{
	remove_peer_row(policies, set, answer->row.peer);
	variant_put(policies, set, answer->variant);
	DL_DELETE(set->answers, answer);
	rows_let_go(&policies->rows[PEERS], answer);
}

void sets_forget_class(struct mk_policies *policies, const struct class_ *class_)
{
	struct set_ *set, *next;
	struct answer *answer;

	HASH_ITER(hh, policies->sets, set, next) {
		answer = answer_of(policies, set, class_);
		if (answer)
			forget_answer(policies, set, answer);
	}
}

static void begin_set(struct mk_policies *policies, struct set_ *set)
{
	set->fresh = false;
	set->any_pod = variant_of(policies, set, NULL);
	set->unknown_pod = variant_of_unknown(policies, set);
	put_peer_row(policies, set, MK_PEER_ANY_POD, set->any_pod);
	put_peer_row(policies, set, MK_PEER_UNKNOWN_POD, set->unknown_pod);
	set_make_blocks(policies, set);
}

struct class_list {
	struct class_ **of;
	size_t count, room;
};

static void list_class(struct class_list *list, struct class_ *class_)
{
	if (class_->references == 0)
		return;
	list->of = memory_grow(list->of, list->count, &list->room, sizeof(struct class_ *));
	list->of[list->count++] = class_;
}

/* Classes whose answers may have changed: new ones, and those in a namespace with other labels. */
static void list_changed_classes(struct mk_policies *policies, struct class_list *list)
{
	struct space *space, *next;
	struct class_ *class_;

	HASH_ITER(hh, policies->spaces, space, next)
		if (space->changed)
			DL_FOREACH(space->classes, class_)
				if (!class_->fresh)
					list_class(list, class_);
	while ((class_ = policies->fresh_classes)) {
		policies->fresh_classes = class_->next_fresh;
		class_->fresh = false;
		list_class(list, class_);
	}
}

static void answer_all(struct mk_policies *policies, struct set_ *set)
{
	struct class_ *class_ = NULL;

	begin_set(policies, set);
	while ((class_ = class_after(policies, class_)))
		if (class_->references > 0)
			answer_first(policies, set, class_);
}

void sets_answer(struct mk_policies *policies)
{
	struct class_list changed = { 0 };
	struct set_ *set, *next;

	list_changed_classes(policies, &changed);
	HASH_ITER(hh, policies->sets, set, next) {
		if (set->fresh)
			answer_all(policies, set);
		else
			for (size_t i = 0; i < changed.count; i++)
				answer_class(policies, set, changed.of[i]);
	}
	free(changed.of);
}

/* ---- sets ------------------------------------------------------------------------------------ */

static bool names_port(const struct selection *selection, const struct mk_named_port *port)
{
	for (size_t i = 0; i < selection->count; i++) {
		const struct content *content = selection->contents[i];

		for (size_t j = 0; content->has_names && j < content->rule_count; j++) {
			const struct mk_policy_rule_object *rule = content->rules[j].of;

			for (size_t k = 0; k < rule->port_count; k++)
				if (rule->ports[k].name == port->name)
					return true;
		}
	}
	return false;
}

/* Rule 9: in ingress the numbers of named ports are the subject's own. */
static struct mk_named_port *own_ports(const struct selection *selection,
				       const struct subject *subject, size_t *count)
{
	struct mk_named_port *ports = memory_new(subject->port_count * sizeof(*ports));

	*count = 0;
	for (size_t i = 0; i < subject->port_count; i++)
		if (names_port(selection, &subject->ports[i]))
			ports[(*count)++] = subject->ports[i];
	return ports;
}

static uint64_t flags_of_content(const struct content *content)
{
	uint64_t flags = content->audited ? MK_SET_AUDITS : 0;

	if (content->tier == TIER_CHAIN)
		flags |= MK_SET_HAS_CHAINS;
	if (content->tier == MK_TIER_NETWORK_POLICY)
		flags |= MK_SET_AUDIT_ISOLATES | (content->audited ? 0 : MK_SET_ISOLATES);
	for (size_t i = 0; i < content->rule_count; i++)
		if (content->rules[i].block_count > 0)
			flags |= MK_SET_HAS_BLOCKS;
	return flags;
}

static uint64_t flags_of(const struct selection *selection)
{
	uint64_t flags = 0;
	bool enforces = false;

	for (size_t i = 0; i < selection->count; i++) {
		flags |= flags_of_content(selection->contents[i]);
		enforces |= !selection->contents[i]->audited &&
			    selection->contents[i]->tier != TIER_CHAIN;
	}
	if (!(flags & MK_SET_AUDITS))
		return flags & ~MK_SET_AUDIT_ISOLATES;
	return enforces ? flags : flags | MK_SET_ONLY_AUDITS;
}

static uint64_t id_of(struct mk_policies *policies, const struct selection *selection,
		      enum mk_policy_direction direction, const struct mk_named_port *ports,
		      size_t port_count)
{
	struct bytes *bytes = &policies->scratch;
	uint64_t id;

	bytes->count = 0;
	bytes_put_number(bytes, direction);
	for (size_t i = 0; i < selection->count; i++)
		bytes_put_number(bytes, selection->contents[i]->digest);
	bytes_put_text(bytes, NULL);
	for (size_t i = 0; i < port_count; i++) {
		bytes_put_text(bytes, ports[i].name);
		bytes_put_number(bytes, (uint64_t)ports[i].proto << 16 | ports[i].port);
	}
	id = mk_siphash(policies->hash_key, bytes->at, bytes->count) & ~MK_SET_FLAGS;
	return (id <= MK_SET_PENDING ? id + MK_SET_PENDING + 1 : id) | flags_of(selection);
}

static void number_rules(struct set_ *set)
{
	size_t count = 0;

	for (size_t i = 0; i < set->content_count; i++) {
		const struct content *content = set->contents[i];

		set->has_policies |= content->tier != TIER_CHAIN;
		set->has_selectors |= content->has_selectors;
		set->has_names |= content->has_names;
		for (size_t j = 0; j < content->rule_count; j++)
			set->rules[count++] = (struct set_rule){ .rule = &content->rules[j],
								 .content = content,
								 .index = j };
	}
	set->rule_count = count;
}

static struct set_ *set_new(struct mk_policies *policies, const struct selection *selection)
{
	struct set_ *set = memory_new(sizeof(*set));

	set->fresh = true;
	set->store.texts = &policies->texts;
	set->content_count = selection->count;
	set->contents = store_new(&set->store, selection->count * sizeof(struct content *));
	set->rules = store_new(&set->store, selection->rule_count * sizeof(*set->rules));
	for (size_t i = 0; i < selection->count; i++) {
		set->contents[i] = selection->contents[i];
		set->contents[i]->references++;
		keys_use(policies, set->contents[i]);
	}
	number_rules(set);
	return set;
}

struct set_ *set_get(struct mk_policies *policies, const struct selection *selection,
		     const struct subject *subject, enum mk_policy_direction direction)
{
	size_t port_count = 0;
	struct mk_named_port *ports = NULL;
	struct set_ *set;
	uint64_t id;

	if (direction == MK_POLICY_INGRESS)
		ports = own_ports(selection, subject, &port_count);
	id = id_of(policies, selection, direction, ports, port_count);
	HASH_FIND(hh, policies->sets, &id, sizeof(id), set);
	if (!set) {
		set = set_new(policies, selection);
		set->id = id;
		set->direction = direction;
		set->ports = copy_ports(&set->store, ports, port_count);
		set->port_count = port_count;
		HASH_ADD(hh, policies->sets, id, sizeof(id), set);
	}
	set->references++;
	free(ports);
	return set;
}

static void remove_rows(struct mk_policies *policies, struct set_ *set)
{
	struct answer *answer, *next;

	if (set->fresh)
		return;
	DL_FOREACH_SAFE(set->answers, answer, next)
		forget_answer(policies, set, answer);
	remove_peer_row(policies, set, MK_PEER_ANY_POD);
	remove_peer_row(policies, set, MK_PEER_UNKNOWN_POD);
	variant_put(policies, set, set->any_pod);
	variant_put(policies, set, set->unknown_pod);
	set_remove_blocks(policies, set);
}

static void set_free(struct mk_policies *policies, struct set_ *set)
{
	remove_rows(policies, set);
	HASH_DEL(policies->sets, set);
	for (size_t i = 0; i < set->content_count; i++) {
		keys_unuse(policies, set->contents[i]);
		content_put(set->contents[i]);
	}
	store_release(&set->store);
	free(set);
}

void sets_forget_unused(struct mk_policies *policies)
{
	struct set_ *set, *next;

	HASH_ITER(hh, policies->sets, set, next)
		if (set->released && set->references == 0)
			set_free(policies, set);
		else
			set->released = false;
}

void sets_release(struct mk_policies *policies)
{
	struct set_ *set, *next;

	HASH_ITER(hh, policies->sets, set, next)
		set_free(policies, set);
	bytes_release(&policies->bits);
}

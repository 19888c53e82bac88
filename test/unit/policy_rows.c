// SPDX-License-Identifier: Apache-2.0
/* test/unit/policy_rows.c - rows of policies, and what they say. */
#include "unit/policy_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define TEXT_CHARS 640

/* All rows have a key of bytes and a value; pods and namespaces have a text as key. */
struct held_row {
	UT_hash_handle hh;
	size_t key_bytes;
	union {
		struct mk_identity_row identity;
		struct mk_peer_row peer;
		struct mk_block_row block;
		struct mk_port_row port;
		struct mk_pod_row pod;
		struct mk_namespace_row namespace_;
	} row;
	char key[];
};

/* ---- keeping --------------------------------------------------------------------------------- */

static const size_t key_bytes[] = {
	[ROWS_IDENTITIES] = offsetof(struct mk_identity_row, counts_as),
	[ROWS_PEERS] = offsetof(struct mk_peer_row, table),
	[ROWS_BLOCKS] = offsetof(struct mk_block_row, table),
	[ROWS_PORTS] = offsetof(struct mk_port_row, verdict),
};
static const size_t row_bytes[] = {
	[ROWS_IDENTITIES] = sizeof(struct mk_identity_row),
	[ROWS_PEERS] = sizeof(struct mk_peer_row),
	[ROWS_BLOCKS] = sizeof(struct mk_block_row),
	[ROWS_PORTS] = sizeof(struct mk_port_row),
	[ROWS_PODS] = sizeof(struct mk_pod_row),
	[ROWS_NAMESPACES] = sizeof(struct mk_namespace_row),
};

static void pod_key(char *key, const char *uid, const char *namespace_, const char *name)
{
	snprintf(key, TEXT_CHARS, "%s %s/%s", uid ? uid : "", namespace_, name);
}

/* Write the key of @row; returns its size. */
static size_t key_of(enum policy_row_kind kind, const void *row, char *key)
{
	const struct mk_pod_row *pod = row;
	const struct mk_namespace_row *namespace_ = row;

	if (kind == ROWS_PODS)
		pod_key(key, pod->uid, pod->namespace_, pod->name);
	else if (kind == ROWS_NAMESPACES)
		snprintf(key, TEXT_CHARS, "%s", namespace_->name);
	else
		memcpy(key, row, key_bytes[kind]);
	return kind < ROWS_PODS ? key_bytes[kind] : strlen(key);
}

static struct held_row *find(const struct policy_rows *rows, enum policy_row_kind kind,
			     const void *key, size_t size)
{
	struct held_row *held;

	HASH_FIND(hh, rows->of[kind], key, size, held);
	return held;
}

static void put(struct policy_rows *rows, enum policy_row_kind kind, const void *row)
{
	char key[TEXT_CHARS];
	size_t size = key_of(kind, row, key);
	struct held_row *held = find(rows, kind, key, size);

	if (!held) {
		held = calloc(1, sizeof(*held) + size);
		if (!held)
			abort();
		memcpy(held->key, key, size);
		held->key_bytes = size;
		HASH_ADD_KEYPTR(hh, rows->of[kind], held->key, size, held);
	}
	memcpy(&held->row, row, row_bytes[kind]);
	if (kind == ROWS_PODS)
		held->row.pod.uid = held->row.pod.namespace_ = held->row.pod.name = NULL;
	if (kind == ROWS_NAMESPACES)
		held->row.namespace_.name = NULL;
}

static void drop(struct policy_rows *rows, enum policy_row_kind kind, const void *row)
{
	char key[TEXT_CHARS];
	struct held_row *held = find(rows, kind, key, key_of(kind, row, key));

	if (!held) {
		fprintf(stderr, "a row of kind %d is gone that never was there\n", kind);
		abort();
	}
	HASH_DEL(rows->of[kind], held);
	free(held);
}

static size_t apply(struct policy_rows *rows, enum policy_row_kind kind, const void *put_rows,
		    size_t put_count, const void *gone, size_t gone_count)
{
	for (size_t i = 0; i < put_count; i++)
		put(rows, kind, (const char *)put_rows + i * row_bytes[kind]);
	for (size_t i = 0; i < gone_count; i++)
		drop(rows, kind, (const char *)gone + i * row_bytes[kind]);
	return put_count + gone_count;
}

size_t policy_rows_apply(struct policy_rows *rows, const struct mk_policy_changes *changes)
{
#define APPLY(kind, of)                                                             \
	apply(rows, kind, changes->of.put, changes->of.put_count, changes->of.gone, \
	      changes->of.gone_count)
	return APPLY(ROWS_IDENTITIES, identities) + APPLY(ROWS_PEERS, peers) +
	       APPLY(ROWS_BLOCKS, blocks) + APPLY(ROWS_PORTS, ports) + APPLY(ROWS_PODS, pods) +
	       APPLY(ROWS_NAMESPACES, namespaces);
#undef APPLY
}

size_t policy_rows_count(const struct policy_rows *rows, enum policy_row_kind kind)
{
	return HASH_COUNT(rows->of[kind]);
}

void policy_rows_release(struct policy_rows *rows)
{
	struct held_row *held, *next;

	for (int kind = 0; kind < ROWS_KINDS; kind++)
		HASH_ITER(hh, rows->of[kind], held, next) {
			HASH_DEL(rows->of[kind], held);
			free(held);
		}
}

/* ---- comparing ------------------------------------------------------------------------------- */

static uint64_t table_of(const struct policy_rows *rows, uint64_t set, uint64_t peer)
{
	const struct mk_peer_row key = { .set = set, .peer = peer };
	const struct held_row *held =
		find(rows, ROWS_PEERS, &key, offsetof(struct mk_peer_row, table));

	return held ? held->row.peer.table : 0;
}

static bool same_value(enum policy_row_kind kind, const struct held_row *a,
		       const struct held_row *b)
{
	switch (kind) {
	case ROWS_IDENTITIES:
		return a->row.identity.class_id == b->row.identity.class_id &&
		       mk_ip_equal(&a->row.identity.counts_as, &b->row.identity.counts_as);
	case ROWS_PEERS:
		return a->row.peer.table == b->row.peer.table;
	case ROWS_BLOCKS:
		return a->row.block.table == b->row.block.table;
	case ROWS_PORTS:
		return memcmp(&a->row.port.verdict, &b->row.port.verdict,
			      sizeof(a->row.port) - offsetof(struct mk_port_row, verdict)) == 0;
	case ROWS_PODS:
		return memcmp(a->row.pod.set, b->row.pod.set, sizeof(a->row.pod.set)) == 0;
	default:
		return a->row.namespace_.directions == b->row.namespace_.directions;
	}
}

static bool is_default(const struct policy_rows *rows, enum policy_row_kind kind,
		       const struct held_row *held)
{
	const struct mk_peer_row *peer = &held->row.peer;

	return kind == ROWS_PEERS && peer->table == table_of(rows, peer->set, MK_PEER_ANY_POD);
}

/* Has @b all of @a? */
static bool has_all(const struct policy_rows *b, const struct policy_rows *a,
		    enum policy_row_kind kind)
{
	const struct held_row *held, *next, *other;

	HASH_ITER(hh, a->of[kind], held, next) {
		other = find(b, kind, held->key, held->key_bytes);
		if (other ? !same_value(kind, held, other) : !is_default(a, kind, held))
			return false;
	}
	return true;
}

const char *policy_rows_differ(const struct policy_rows *rows, const struct policy_rows *fresh)
{
	static const char *const names[] = { "identities", "peers", "blocks",
					     "ports",	   "pods",  "namespaces" };

	for (int kind = 0; kind < ROWS_KINDS; kind++)
		if (!has_all(rows, fresh, (enum policy_row_kind)kind) ||
		    !has_all(fresh, rows, (enum policy_row_kind)kind))
			return names[kind];
	return NULL;
}

const struct mk_pod_row *policy_rows_pod(const struct policy_rows *rows, const char *uid,
					 const char *namespace_, const char *name)
{
	const struct held_row *held;
	char key[TEXT_CHARS];

	pod_key(key, uid, namespace_, name);
	held = find(rows, ROWS_PODS, key, strlen(key));
	return held ? &held->row.pod : NULL;
}

int policy_rows_namespace(const struct policy_rows *rows, const char *name)
{
	const struct held_row *held = find(rows, ROWS_NAMESPACES, name, strlen(name));

	return held ? (int)held->row.namespace_.directions : -1;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Copy @ip with zeros in all other bytes. */
static void clean(struct mk_ip *to, const struct mk_ip *ip)
{
	memset(to, 0, sizeof(*to));
	to->family = ip->family;
	if (ip->family == AF_INET)
		to->v4 = ip->v4;
	else
		to->v6 = ip->v6;
}

const struct mk_identity_row *policy_rows_identity(const struct policy_rows *rows,
						   const struct mk_ip *ip)
{
	const struct held_row *held;
	struct mk_identity_row key;

	memset(&key, 0, sizeof(key));
	clean(&key.ip, ip);
	held = find(rows, ROWS_IDENTITIES, &key, key_bytes[ROWS_IDENTITIES]);
	return held ? &held->row.identity : NULL;
}

/* The longest block around @ip, or the one for any address; 0: none. */
static uint64_t table_at(const struct policy_rows *rows, uint64_t set, const struct mk_ip *ip)
{
	const struct held_row *held = NULL;
	struct mk_block_row key;

	memset(&key, 0, sizeof(key));
	key.set = set;
	for (int bits = (int)mk_ip_bits(ip->family); !held && bits >= 0; bits--) {
		struct mk_cidr whole = { .ip = *ip, .prefix_bits = (uint8_t)bits };
		struct mk_cidr block = mk_cidr_network(&whole);

		if (bits > 0 && !(set & MK_SET_HAS_BLOCKS))
			continue;
		clean(&key.block.ip, &block.ip);
		key.block.prefix_bits = (uint8_t)bits;
		held = find(rows, ROWS_BLOCKS, &key, key_bytes[ROWS_BLOCKS]);
	}
	memset(&key.block, 0, sizeof(key.block));
	if (!held)
		held = find(rows, ROWS_BLOCKS, &key, key_bytes[ROWS_BLOCKS]);
	return held ? held->row.block.table : 0;
}

/* The longest entry of @table for the port; NULL: none. */
static const struct mk_port_row *verdict_at(const struct policy_rows *rows, uint64_t table,
					    uint8_t proto, uint16_t port)
{
	const struct held_row *held = NULL;
	struct mk_port_row key;

	for (int bits = 24; !held && bits >= 0; bits -= bits == 8 ? 8 : 1) {
		memset(&key, 0, sizeof(key));
		key.table = table;
		key.prefix_bits = (uint8_t)bits;
		key.proto = bits > 0 ? proto : 0;
		key.port = bits > 8 ? (uint16_t)(port & ~((1U << (24 - bits)) - 1)) : 0;
		held = find(rows, ROWS_PORTS, &key, key_bytes[ROWS_PORTS]);
	}
	return held ? &held->row.port : NULL;
}

/* The lower number of two, with its action. */
static uint16_t first_of(uint16_t a, uint8_t a_action, uint16_t b, uint8_t b_action,
			 uint8_t *action)
{
	bool take_b = !a || (b && b < a);

	*action = take_b ? b_action : a_action;
	return take_b ? b : a;
}

static bool is_final(uint8_t action)
{
	return action == MK_POLICY_ACCEPT || action == MK_POLICY_DENY;
}

static struct policy_decision combine(const struct mk_policy_verdict *c,
				      const struct mk_policy_verdict *b,
				      const struct policy_question *question, bool isolates)
{
	uint8_t action;
	uint16_t rule = first_of(c->admin, c->admin_action, b->admin, b->admin_action, &action);

	if (is_final(action))
		return (struct policy_decision){ .allowed = action == MK_POLICY_ACCEPT,
						 .tier = MK_TIER_ADMIN,
						 .rule = rule };
	if (isolates && question->is_itself)
		return (struct policy_decision){ .allowed = true, .tier = MK_TIER_NETWORK_POLICY };
	if (isolates) {
		rule = first_of(c->allows, 0, b->allows, 0, &action);
		return (struct policy_decision){ .allowed = rule > 0,
						 .tier = MK_TIER_NETWORK_POLICY,
						 .rule = rule };
	}
	rule = first_of(c->baseline, c->baseline_action, b->baseline, b->baseline_action, &action);
	if (is_final(action))
		return (struct policy_decision){ .allowed = action == MK_POLICY_ACCEPT,
						 .tier = MK_TIER_BASELINE,
						 .rule = rule };
	return (struct policy_decision){ .allowed = true };
}

/* The chain with the lower number. */
static void find_chain(const struct mk_port_row *c, const struct mk_port_row *b,
		       struct policy_decision *decision)
{
	const struct mk_port_row *first = c;

	if (!c->chain_rule || (b->chain_rule && b->chain_rule < c->chain_rule))
		first = b;
	decision->chain = first->chain;
	decision->chain_rule = first->chain_rule;
}

/* Which tables has the set for this peer? 0: not asked. */
static void find_tables(const struct policy_rows *rows, const struct policy_question *question,
			uint64_t *c, uint64_t *b)
{
	const struct mk_identity_row *identity =
		question->unproved ? NULL : policy_rows_identity(rows, &question->peer);
	struct mk_ip peer = question->peer;

	*c = *b = 0;
	if (identity && identity->counts_as.family != AF_UNSPEC)
		peer = identity->counts_as;
	if (identity && identity->class_id)
		*c = table_of(rows, question->set, identity->class_id)
			     ?: table_of(rows, question->set, MK_PEER_ANY_POD);
	else if (question->unproved || (!identity && question->in_pod_range))
		*c = table_of(rows, question->set, MK_PEER_UNKNOWN_POD);
	if (!identity || !identity->class_id || question->set & MK_SET_HAS_BLOCKS)
		*b = table_at(rows, question->set, &peer);
}

struct policy_decision policy_rows_ask(const struct policy_rows *rows,
				       const struct policy_question *question)
{
	static const struct mk_port_row none;
	const struct mk_port_row *c = &none, *b = &none;
	struct policy_decision decision, audited;
	uint64_t c_table, b_table;

	if (question->set <= MK_SET_PENDING)
		return (struct policy_decision){ .allowed = question->set == MK_SET_OPEN };
	find_tables(rows, question, &c_table, &b_table);
	if (c_table)
		c = verdict_at(rows, c_table, question->proto, question->port);
	if (b_table)
		b = verdict_at(rows, b_table, question->proto, question->port);
	if (!c || !b || (!c_table && !b_table))
		return (struct policy_decision){ .lacks_row = true };
	decision = combine(&c->verdict, &b->verdict, question, question->set & MK_SET_ISOLATES);
	find_chain(c, b, &decision);
	if (!decision.allowed || !(question->set & MK_SET_AUDITS))
		return decision;
	audited =
		combine(&c->audited, &b->audited, question, question->set & MK_SET_AUDIT_ISOLATES);
	decision.audit_denies = !audited.allowed;
	decision.audit_tier = audited.tier;
	decision.audit_rule = audited.rule;
	return decision;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* src/policy/compiler.h - what the compiler keeps; private to this room.
 *
 *   space      a namespace: its labels, and the policies, subjects and classes in it
 *   policy     a policy; its selectors and its content per direction when a subject needs them
 *   chain      a service function chain: its subject, and its content per direction
 *   content    the rules of one policy in one direction, copied; sets share it
 *   subject    a pod of this node: a sandbox, a Pod bound here, or both
 *   address    an address of a pod or a node, with its class
 *   class_     pods that no selector in use can tell apart
 *   set_       what applies to subjects in one direction
 *   variant    the rules of a set that match some peers, and their table of ports */
#ifndef MK_POLICY_COMPILER_H
#define MK_POLICY_COMPILER_H

#include <uthash.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/index.h"
#include "policy/ids.h"
#include "policy/policy.h"

/* ---- texts.c --------------------------------------------------------------------------------- */

struct text;
struct texts {
	struct text *all;
};
struct piece {
	struct piece *next;
};
/* Texts and memory that are released together. Equal texts of one struct texts have equal
 * pointers. */
struct store {
	struct texts *texts;
	const char **held;
	size_t held_count, held_room;
	struct piece *pieces;
};
const char *text_get(struct texts *texts, const char *text);
void text_put(struct texts *texts, const char *text);
const char *store_text(struct store *store, const char *text); /* NULL: NULL */
void *store_new(struct store *store, size_t size); /* zeroed; 0 bytes: NULL */
void store_release(struct store *store);
struct mk_labels copy_labels(struct store *store, const struct mk_labels *from);
struct mk_named_port *copy_ports(struct store *store, const struct mk_named_port *from,
				 size_t count);
struct mk_selector copy_selector(struct store *store, const struct mk_selector *from);

/* ---- rows.c ---------------------------------------------------------------------------------- */

struct row;
struct row_list {
	void *rows;
	size_t count;
};
/* A row begins with its key of @key_bytes. All bytes count, so padding must be zero. An entry
 * begins with its row, or with only the key if @fill makes the row of it; the rest is its owner's,
 * zero at first. */
struct rows {
	size_t key_bytes, row_bytes, entry_bytes;
	void (*fill)(const void *entry, void *row); /* @row is zero; may be NULL */
	struct mk_cells cells;
	struct mk_index all;
	struct row **changed;
	size_t changed_count, changed_room;
	struct row_list put, gone; /* results of rows_changes() and rows_all() */
};
void rows_init(struct rows *rows, size_t key_bytes, size_t row_bytes, size_t entry_bytes);
void rows_put(struct rows *rows, const void *wanted);
void rows_remove(struct rows *rows, const void *key);
/* Return the kept entry of @key, or NULL. */
void *rows_kept(const struct rows *rows, const void *key);
/* Find or make the entry of @key. It stays until it is let go, even if its row is not wanted. */
void *rows_keep(struct rows *rows, const void *key);
void rows_let_go(struct rows *rows, void *entry);
/* Mark a kept entry, for its owner. Returns false if it is marked already. */
bool rows_mark(void *entry);
void rows_unmark(void *entry);
void rows_each_kept(const struct rows *rows, void (*visit)(void *ctx, void *entry), void *ctx);
/* With @fill instead of rows_put() and rows_remove(): is the row of a kept entry wanted, and does
 * it say something else than before? */
void rows_want(struct rows *rows, void *entry, bool wanted, bool is_other);
/* List what has changed since the last call. */
void rows_changes(struct rows *rows);
void rows_all(struct rows *rows);
void rows_forget_lists(struct rows *rows);
void rows_release(struct rows *rows);

/* ---- content.c ------------------------------------------------------------------------------- */

/* A block with its exceptions. An egress rule with a block and a named port needs both of a pod, so
 * the block is part of the pod's class. */
struct block {
	struct mk_cidr cidr;
	struct mk_cidr *except;
	size_t except_count;
	struct key *key; /* of such a rule while a set uses it; else NULL */
};

enum rule_extent {
	RULE_MATCHES, /* by its peers and ports */
	RULE_NEVER, /* rule 54: an Accept that is not understood */
	RULE_ALWAYS, /* rule 54: a Deny or Pass that is not understood denies everything */
};
struct rule {
	const struct mk_policy_rule_object *of;
	enum mk_policy_action action;
	enum rule_extent extent;
	bool has_selectors, has_names; /* among its peers; among its ports */
	struct block *blocks; /* of peers, and the addresses of nodes */
	size_t block_count;
};

/* What a chain says comes after all policies, and decides nothing among them. */
#define TIER_CHAIN ((enum mk_policy_tier)(MK_TIER_BASELINE + 1))

struct content {
	struct store store;
	size_t references; /* its policy or chain, and sets */
	size_t sets;
	uint64_t digest;
	enum mk_policy_direction direction;
	enum mk_policy_tier tier; /* or TIER_CHAIN */
	bool audited;
	uint16_t chain_id; /* of a chain: its key in map sfc_chains */
	const char *namespace_, *name; /* namespace_ is "" for ClusterNetworkPolicies */
	struct rule *rules;
	size_t rule_count;
	bool has_selectors, has_names;
};

/* A key of labels, a name of ports, or a block that some set in use asks of pods. */
struct key {
	UT_hash_handle hh;
	size_t references;
	struct block block;
	uint8_t of[];
};

/* Copied from the model when a subject needs it: most policies are of namespaces without one. */
struct policy_copy {
	struct store store;
	struct mk_selector namespaces, pods;
	struct content *content[MK_POLICY_DIRECTIONS]; /* NULL: not needed yet */
};

struct policy {
	struct mk_index_link link;
	uint8_t tier; /* enum mk_policy_tier */
	bool audited : 1, has_nodes : 1;
	bool applies[MK_POLICY_DIRECTIONS];
	struct space *space; /* NULL: ClusterNetworkPolicy */
	struct policy *prev, *next; /* in @space, by name; or by tier, priority and name */
	struct policy_copy *copy; /* NULL: not needed yet */
	int priority;
	char name[];
};

struct mk_policies;

/* Return what @policy selects. */
const struct policy_copy *copy_of(struct mk_policies *policies, struct policy *policy);
/* Return the rules of @policy, copied from the model; it belongs to @policy. */
struct content *content_of(struct mk_policies *policies, struct policy *policy,
			   enum mk_policy_direction direction);
/* Copy the rules @from. @head has direction, tier, mode and names; of a chain its number. */
struct content *content_new(struct mk_policies *policies, const struct content *head,
			    const struct mk_policy_rules *from);
void content_put(struct content *content);
void bytes_put_block(struct bytes *bytes, const struct block *block);
void bytes_put_selector(struct bytes *bytes, const struct mk_selector *selector);

/* ---- cluster.c ------------------------------------------------------------------------------- */

struct space {
	UT_hash_handle hh;
	struct store label_store;
	const char *name; /* of the texts */
	bool known; /* there is an object */
	bool changed; /* its labels have */
	struct mk_labels labels;
	struct policy *policies;
	struct subject *subjects;
	struct class_ *classes;
	struct space *next_dead;
};

/* Find or make. */
struct space *space_get(struct mk_policies *policies, const char *name);
void look_at_namespace(struct mk_policies *policies, const char *name);
void look_at_policy(struct mk_policies *policies, const char *namespace_, const char *name);
void look_at_nodes(struct mk_policies *policies);
void report_namespaces(struct mk_policies *policies);
/* May a policy in force select a pod of @space, or a chain that holds it? */
uint32_t space_directions(struct mk_policies *policies, const struct space *space);
/* Bury namespaces without any use. */
void spaces_sweep(struct mk_policies *policies);
void spaces_free_dead(struct space **dead);
/* Is any policy in force, or a chain that holds pods? */
bool has_policies_in_force(const struct mk_policies *policies);
void cluster_release(struct mk_policies *policies);

/* ---- subjects.c ------------------------------------------------------------------------------ */

struct subject {
	UT_hash_handle hh;
	struct store store; /* of the names */
	struct store label_store;
	struct space *space;
	struct subject *prev, *next; /* in @space */
	struct subject *next_dead;
	const char *uid, *namespace_, *name;
	bool bound; /* there is a Pod object bound to this node */
	bool known; /* there is or was an object: the labels are known */
	bool dirty; /* the sets have to be decided */
	bool written;
	size_t sandboxes;
	struct mk_labels labels;
	struct mk_named_port *ports;
	size_t port_count;
	struct set_ *set[MK_POLICY_DIRECTIONS]; /* NULL: open or pending */
	uint64_t ids[MK_POLICY_DIRECTIONS];
	char key[];
};

struct sandbox {
	struct mk_ip ips[MK_FAMILIES];
	struct subject *subject; /* NULL: a container of no Pod */
};

/* Is there a subject with this name, or a Pod that is to be one? */
bool is_subject(const struct mk_policies *policies, const char *namespace_, const char *name);
void look_at_subjects(struct mk_policies *policies, const char *namespace_, const char *name);
void subjects_decide(struct mk_policies *policies);
void subjects_free_dead(struct subject **dead);
void subjects_release(struct mk_policies *policies);

/* ---- chains.c -------------------------------------------------------------------------------- */

struct chain {
	struct chain *prev, *next; /* in order of precedence */
	struct store store;
	const char *namespace_, *name;
	uint16_t priority;
	int64_t created_unix_s;
	bool holds; /* a function must not be passed by: pods wait until they are known */
	bool has_namespaces;
	struct mk_selector namespaces, pods;
	struct mk_selector consent; /* of other namespaces */
	struct mk_selector replicas; /* of its functions */
	struct content *content[MK_POLICY_DIRECTIONS]; /* NULL: it takes no such flows */
};

struct selection;

/* Add the chains that take flows of @subject, in order. */
void select_chains(const struct mk_policies *policies, struct selection *selection,
		   const struct subject *subject, enum mk_policy_direction direction);
/* In which directions may a chain hold a pod of @space? */
uint32_t chain_directions(const struct mk_policies *policies, const struct space *space);
bool has_holding_chains(const struct mk_policies *policies);
void chains_release(struct mk_policies *policies);

/* ---- keys.c ---------------------------------------------------------------------------------- */

void keys_use(struct mk_policies *policies, struct content *content);
void keys_unuse(struct mk_policies *policies, struct content *content);
void keys_forget_kept(struct mk_policies *policies);
/* Does a set in use ask for labels with this key, or for ports with this name? */
bool keys_have_label(const struct mk_policies *policies, const char *key);
bool keys_have_port(const struct mk_policies *policies, const char *name);

/* ---- classes.c ------------------------------------------------------------------------------- */

/* Only some classes have this. */
struct class_more {
	struct mk_named_port *ports;
	struct key **blocks;
	size_t port_count, block_count;
};

struct class_ {
	struct mk_index_link link;
	bool fresh; /* no set has looked at it */
	bool dead;
	uint64_t id;
	struct space *space;
	struct class_ *prev, *next; /* in @space */
	struct class_ *next_dead, *next_fresh;
	struct mk_labels labels; /* of @own */
	uint32_t references; /* addresses */
	struct class_more *more; /* NULL: nothing */
	struct mk_object_label own[];
};

/* Visit all classes: after NULL the first one. */
struct class_ *class_after(const struct mk_policies *policies, const struct class_ *class_);

/* A Pod's claim on an address that is not only its own. */
struct claim {
	struct claim *next; /* in the order of rule 44 */
	const struct mk_pod_object *pod; /* of the model */
};
/* Only some addresses need this: most are of one pod, of another node. */
struct address_more {
	struct claim *claims;
	const struct sandbox *sandbox;
	const struct mk_policy_node_address *node;
	struct mk_ip counts_as; /* of its row */
};
/* An entry of the identities' rows, which exists even if its row is not wanted. It is marked while
 * it is in the list of changed ones. */
struct address {
	struct mk_addr addr; /* key */
	struct class_ *class_;
	/* A struct mk_pod_object of the model, or with ADDRESS_MORE a struct address_more; 0:
	 * nothing. */
	uintptr_t of;
};
#define ADDRESS_MORE ((uintptr_t)1)

void look_at_peer(struct mk_policies *policies, const char *namespace_, const char *name);
/* @pod has no claim any more on the addresses of @former. */
void forget_peer(struct mk_policies *policies, const struct mk_pod_object *pod,
		 const struct mk_pod_object *former);
struct address *address_get(struct mk_policies *policies, const struct mk_ip *ip);
/* Find or make. */
struct address_more *address_more(struct address *address);
void address_fill(const void *address, void *identity_row);
void address_changed(struct mk_policies *policies, struct address *address);
/* Give each changed address its class. */
void classes_decide(struct mk_policies *policies);
void classes_sweep(struct mk_policies *policies);
/* Copy @ip with all other bytes zero, for keys of rows. */
void ip_clean(struct mk_ip *to, const struct mk_ip *ip);
void classes_release(struct mk_policies *policies);

/* ---- sets.c ---------------------------------------------------------------------------------- */

#define RULES_MAX UINT16_MAX /* struct mk_policy_verdict has 16 bits for their numbers */

struct set_rule {
	const struct rule *rule;
	const struct content *content;
	size_t index; /* in its policy */
};

/* Which of a set's rules match, and with which numbers of named ports. */
struct variant {
	UT_hash_handle hh;
	size_t references; /* rows */
	struct table *table;
	size_t key_size;
	uint8_t key[];
};

/* What a set says about a class: an entry of the peers' rows. */
struct answer {
	struct mk_peer_row row;
	struct variant *variant;
	struct answer *prev, *next; /* of the set */
};

struct block_answer {
	struct mk_cidr block;
	struct variant *variant;
};

struct set_ {
	UT_hash_handle hh;
	uint64_t id;
	enum mk_policy_direction direction;
	size_t references; /* subjects */
	bool fresh; /* no class has been looked at */
	bool released; /* it was out of use when mk_policies_release() was called */
	bool has_selectors, has_names;
	bool has_policies; /* not only chains */
	struct content **contents;
	size_t content_count;
	struct set_rule *rules; /* rule number N is rules[N - 1] */
	size_t rule_count;
	/* ingress: the subject's own ports */
	struct store store;
	struct mk_named_port *ports;
	size_t port_count;
	struct variant *variants;
	struct variant *any_pod, *unknown_pod;
	struct answer *answers;
	struct block_answer *blocks;
	size_t block_count, block_room;
};

/* What applies to a subject. */
struct selection {
	struct content **contents;
	size_t count, room, rule_count;
};
void selection_add(struct selection *selection, struct content *content);
/* Find or make the set of @selection for @subject, and count one reference. */
struct set_ *set_get(struct mk_policies *policies, const struct selection *selection,
		     const struct subject *subject, enum mk_policy_direction direction);
/* Write the rows of new sets, of new classes, and of namespaces that have changed. */
void sets_answer(struct mk_policies *policies);
void sets_forget_class(struct mk_policies *policies, const struct class_ *class_);
void sets_forget_unused(struct mk_policies *policies);
void sets_release(struct mk_policies *policies);

/* The peers in which selectors and named ports may match. */
enum peer_kind { PEER_ADDRESS, PEER_POD, PEER_UNKNOWN_POD };
/* Return the variant of @bits, one per rule, and count one reference. @ports are the destination
 * pod's in egress. */
struct variant *variant_get(struct mk_policies *policies, struct set_ *set, const uint8_t *bits,
			    enum peer_kind kind, const struct mk_named_port *ports,
			    size_t port_count);
void variant_put(struct mk_policies *policies, struct set_ *set, struct variant *variant);
static inline bool bit_is_set(const uint8_t *bits, size_t index)
{
	return bits[index / 8] & 1 << index % 8;
}

/* ---- blocks.c -------------------------------------------------------------------------------- */

/* Does @block have @ip? */
bool block_has(const struct block *block, const struct mk_ip *ip);
/* Make the block rows of a new set. */
void set_make_blocks(struct mk_policies *policies, struct set_ *set);
void set_remove_blocks(struct mk_policies *policies, struct set_ *set);

/* ---- ports.c --------------------------------------------------------------------------------- */

struct table {
	UT_hash_handle hh;
	uint64_t id;
	size_t references; /* variants */
	struct mk_port_row *rows;
	size_t count, room;
};
/* Find or make the table of the rules in @bits, and count one reference. */
struct table *table_get(struct mk_policies *policies, const struct set_ *set, const uint8_t *bits,
			enum peer_kind kind, const struct mk_named_port *ports, size_t port_count);
void table_put(struct mk_policies *policies, struct table *table);

/* ---- policies.c ------------------------------------------------------------------------------ */

struct mark {
	UT_hash_handle hh;
	enum mk_kind what;
	const char *namespace_, *name;
	char key[];
};

enum { IDENTITIES, PEERS, BLOCKS, PORTS, PODS, NAMESPACES, ROW_KINDS };

/* What is gone, but named in rows. */
struct graveyard {
	struct space *spaces;
	struct subject *subjects;
};

struct mk_policies {
	const struct mk_model *model;
	char *node_name;
	uint8_t hash_key[HASH_KEY_BYTES];
	struct texts texts;
	struct mark *marks;
	bool all_marked;
	bool changed; /* since the rows were brought up to date */

	struct space *spaces;
	struct mk_index policies; /* of both kinds */
	struct policy *cluster_policies; /* by tier, priority, name */
	bool audit; /* all policies are audited */
	size_t audited_policies;
	bool enforced; /* policies were in force when subjects were decided last */
	bool cluster_changed; /* the namespaces that they select may have changed */

	struct chain *chains; /* by precedence */
	size_t chain_count;
	uint64_t chains_digest;
	struct mk_cidr pod_ranges[MK_FAMILIES];

	struct subject *subjects;
	struct sandbox *sandboxes;
	size_t sandbox_count;
	struct mk_policy_node_address *nodes;
	size_t node_count;

	struct key *label_keys, *port_names, *blocks;
	struct store kept_store;
	const char **kept;
	size_t kept_count;
	struct bytes scratch, bits;
	bool keys_changed; /* each pod needs a class again */
	struct address **changed_addresses;
	size_t changed_address_count, changed_address_room;
	struct mk_index classes; /* by id */
	struct class_ *dead_classes, *fresh_classes;
	struct alike *alike; /* while classes are decided */

	struct set_ *sets;
	struct table *tables;
	bool releasing;
	struct graveyard dead, reported; /* the rows of the latter have been reported */

	struct rows rows[ROW_KINDS];
	struct mk_policy_changes changes;
};

#endif

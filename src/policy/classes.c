// SPDX-License-Identifier: Apache-2.0
/* Addresses and classes. A class has what selectors in use can see of a pod: its namespace, labels
 * with certain keys, and ports with certain names. If an egress rule has a block and a named port,
 * the class also says whether the address is in the block. */
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

/* ---- classes --------------------------------------------------------------------------------- */

/* Blocks in use have no order, so their hashes are added. */
static uint64_t hash_of_blocks(const struct mk_policies *policies, const struct mk_ip *ip)
{
	struct key *key, *next;
	uint64_t sum = 0;

	HASH_ITER(hh, policies->blocks, key, next)
		if (block_has(&key->block, ip))
			sum += mk_siphash(policies->hash_key, key->of, key->hh.keylen);
	return sum;
}

/* Write what selectors in use see of a pod of @of at @ip. */
static void describe(const struct mk_policies *policies, struct bytes *bytes,
		     const struct mk_workload *of, const struct mk_ip *ip)
{
	bytes_put_text(bytes, of->namespace_);
	for (size_t i = 0; i < of->labels.count; i++)
		if (keys_have_label(policies, of->labels.of[i].key)) {
			bytes_put_text(bytes, of->labels.of[i].key);
			bytes_put_text(bytes, of->labels.of[i].value);
		}
	bytes_put_text(bytes, NULL);
	for (size_t i = 0; i < of->port_count; i++)
		if (keys_have_port(policies, of->ports[i].name)) {
			bytes_put_text(bytes, of->ports[i].name);
			bytes_put_number(bytes,
					 (uint64_t)of->ports[i].proto << 16 | of->ports[i].port);
		}
	bytes_put_text(bytes, NULL);
	bytes_put_number(bytes, hash_of_blocks(policies, ip));
}

static struct class_ *class_of(struct mk_index_link *link)
{
	return link ? mk_index_entry(link, struct class_, link) : NULL;
}

struct class_ *class_after(const struct mk_policies *policies, const struct class_ *class_)
{
	return class_of(mk_index_after(&policies->classes, class_ ? &class_->link : NULL));
}

static struct class_ *class_find(const struct mk_policies *policies, uint64_t id)
{
	struct mk_index_link *link =
		mk_index_find(&policies->classes, mk_index_hash(&id, sizeof(id)));

	while (link && class_of(link)->id != id)
		link = mk_index_find_next(link);
	return class_of(link);
}

static void fill_labels(struct mk_policies *policies, struct class_ *class_,
			const struct mk_labels *labels)
{
	for (size_t i = 0; i < labels->count; i++)
		if (keys_have_label(policies, labels->of[i].key))
			class_->own[class_->labels.count++] = (struct mk_object_label){
				.key = text_get(&policies->texts, labels->of[i].key),
				.value = text_get(&policies->texts, labels->of[i].value),
			};
	class_->labels.of = class_->own;
}

static void fill_ports(struct mk_policies *policies, struct class_more *more,
		       const struct mk_workload *of)
{
	more->ports = memory_new(of->port_count * sizeof(*more->ports));
	for (size_t i = 0; i < of->port_count; i++) {
		if (!keys_have_port(policies, of->ports[i].name))
			continue;
		more->ports[more->port_count] = of->ports[i];
		more->ports[more->port_count++].name =
			text_get(&policies->texts, of->ports[i].name);
	}
}

static void fill_blocks(struct mk_policies *policies, struct class_more *more,
			const struct mk_ip *ip)
{
	struct key *key, *next;

	more->blocks = memory_new(HASH_COUNT(policies->blocks) * sizeof(*more->blocks));
	HASH_ITER(hh, policies->blocks, key, next)
		if (block_has(&key->block, ip))
			more->blocks[more->block_count++] = key;
}

static void fill_more(struct mk_policies *policies, struct class_ *class_,
		      const struct mk_workload *of, const struct mk_ip *ip)
{
	if (!policies->port_names && !policies->blocks)
		return;
	class_->more = memory_new(sizeof(*class_->more));
	fill_ports(policies, class_->more, of);
	fill_blocks(policies, class_->more, ip);
}

static void free_more(struct mk_policies *policies, struct class_more *more)
{
	for (size_t i = 0; more && i < more->port_count; i++)
		text_put(&policies->texts, more->ports[i].name);
	if (more) {
		free(more->ports);
		free(more->blocks);
	}
	free(more);
}

static size_t count_labels(const struct mk_policies *policies, const struct mk_labels *labels)
{
	size_t count = 0;

	for (size_t i = 0; i < labels->count; i++)
		count += keys_have_label(policies, labels->of[i].key);
	return count;
}

static struct class_ *class_make(struct mk_policies *policies, struct space *space,
				 const struct mk_workload *of, const struct mk_ip *ip, uint64_t id)
{
	size_t label_count = count_labels(policies, &of->labels);
	struct class_ *class_ =
		memory_new(sizeof(*class_) + label_count * sizeof(struct mk_object_label));

	class_->id = id;
	class_->space = space;
	class_->fresh = true;
	class_->next_fresh = policies->fresh_classes;
	policies->fresh_classes = class_;
	fill_labels(policies, class_, &of->labels);
	fill_more(policies, class_, of, ip);
	DL_APPEND(space->classes, class_);
	if (mk_index_add(&policies->classes, &class_->link, mk_index_hash(&id, sizeof(id))) < 0)
		uthash_fatal("out of memory");
	return class_;
}

static struct class_ *class_by_content(struct mk_policies *policies, struct space *space,
				       const struct mk_workload *of, const struct mk_ip *ip)
{
	uint64_t id;

	policies->scratch.count = 0;
	describe(policies, &policies->scratch, of, ip);
	id = mk_siphash(policies->hash_key, policies->scratch.at, policies->scratch.count);
	id += id <= MK_PEER_UNKNOWN_POD ? MK_PEER_UNKNOWN_POD + 1 : 0;
	return class_find(policies, id) ?: class_make(policies, space, of, ip, id);
}

/* Pods of one workload look alike. While classes are decided, remember the class of each. */
struct alike {
	UT_hash_handle hh;
	struct class_ *class_;
	struct alike_key {
		const struct mk_workload *of;
		uint64_t blocks;
	} key;
};

static struct class_ *class_get(struct mk_policies *policies, struct space *space,
				const struct mk_workload *of, const struct mk_ip *ip)
{
	const struct alike_key key = { of, hash_of_blocks(policies, ip) };
	struct alike *alike;

	HASH_FIND(hh, policies->alike, &key, sizeof(key), alike);
	if (alike)
		return alike->class_;
	alike = memory_new(sizeof(*alike));
	alike->key = key;
	HASH_ADD(hh, policies->alike, key, sizeof(key), alike);
	alike->class_ = class_by_content(policies, space, of, ip);
	return alike->class_;
}

static void forget_alike(struct mk_policies *policies)
{
	struct alike *alike, *next;

	HASH_ITER(hh, policies->alike, alike, next) {
		HASH_DEL(policies->alike, alike);
		free(alike);
	}
}

static void class_free(struct mk_policies *policies, struct class_ *class_)
{
	mk_index_remove(&policies->classes, &class_->link);
	DL_DELETE(class_->space->classes, class_);
	class_->space->changed = true;
	for (size_t i = 0; i < class_->labels.count; i++) {
		text_put(&policies->texts, class_->own[i].key);
		text_put(&policies->texts, class_->own[i].value);
	}
	free_more(policies, class_->more);
	free(class_);
}

static void class_put(struct mk_policies *policies, struct class_ *class_)
{
	if (!class_ || --class_->references > 0 || class_->dead)
		return;
	class_->dead = true;
	class_->next_dead = policies->dead_classes;
	policies->dead_classes = class_;
}

void classes_sweep(struct mk_policies *policies)
{
	struct class_ *class_;

	while ((class_ = policies->dead_classes)) {
		policies->dead_classes = class_->next_dead;
		class_->dead = false;
		if (class_->references > 0)
			continue;
		sets_forget_class(policies, class_);
		class_free(policies, class_);
	}
}

/* ---- addresses ------------------------------------------------------------------------------- */

struct address *address_get(struct mk_policies *policies, const struct mk_ip *ip)
{
	const struct mk_addr key = mk_ip_to_addr(ip);

	return rows_keep(&policies->rows[IDENTITIES], &key);
}

static struct address *address_find(struct mk_policies *policies, const struct mk_ip *ip)
{
	const struct mk_addr key = mk_ip_to_addr(ip);

	return rows_kept(&policies->rows[IDENTITIES], &key);
}

static struct address_more *more_of(const struct address *address)
{
	return address->of & ADDRESS_MORE ? (void *)(address->of & ~ADDRESS_MORE) : NULL;
}

/* Return the first Pod by rule 44, or NULL. */
static const struct mk_pod_object *first_pod(const struct address *address)
{
	const struct address_more *more = more_of(address);

	if (!more)
		return (const void *)address->of;
	return more->claims ? more->claims->pod : NULL;
}

/* Rule 44: of two objects with one address, the one that started last; of equal ones the first by
 * name, so that all nodes choose the same. */
static int compare_claims(const struct claim *left, const struct claim *right)
{
	const struct mk_pod_object *a = left->pod, *b = right->pod;
	int order =
		(a->started_unix_s < b->started_unix_s) - (a->started_unix_s > b->started_unix_s);

	order = order ?: strcmp(a->of->namespace_, b->of->namespace_);
	return order ?: strcmp(a->name, b->name);
}

static void add_claim(struct address_more *more, const struct mk_pod_object *pod)
{
	struct claim *claim = memory_new(sizeof(*claim));

	claim->pod = pod;
	LL_INSERT_INORDER(more->claims, claim, compare_claims);
}

struct address_more *address_more(struct address *address)
{
	const struct mk_pod_object *pod = first_pod(address);
	struct address_more *more = more_of(address);

	if (more)
		return more;
	more = memory_new(sizeof(*more));
	if (pod)
		add_claim(more, pod);
	address->of = (uintptr_t)more | ADDRESS_MORE;
	return more;
}

/* Free what @address has besides its only Pod, if it has nothing. */
static void drop_more(struct address *address)
{
	struct address_more *more = more_of(address);
	const struct mk_pod_object *pod = first_pod(address);

	if (!more || more->sandbox || more->node || (more->claims && more->claims->next))
		return;
	free(more->claims);
	free(more);
	address->of = (uintptr_t)pod;
}

void address_changed(struct mk_policies *policies, struct address *address)
{
	if (!rows_mark(address))
		return;
	policies->changed_addresses =
		memory_grow(policies->changed_addresses, policies->changed_address_count,
			    &policies->changed_address_room, sizeof(struct address *));
	policies->changed_addresses[policies->changed_address_count++] = address;
}

/* Rule 44: on the pod's own node the address file decides. A sandbox whose object is gone, or
 * finished, is an unknown pod to others. */
static const struct mk_pod_object *pod_of_sandbox(const struct mk_policies *policies,
						  const struct subject *subject)
{
	const struct mk_pod_object *pod =
		mk_model_pod(policies->model, subject->namespace_, subject->name);
	const char *uid = pod ? mk_pod_uid(pod) : NULL;

	if (!pod || pod->finished || pod->host_network)
		return NULL;
	return !subject->uid || (uid && strcmp(uid, subject->uid) == 0) ? pod : NULL;
}

/* Return the Pod with @address, or NULL: none is known. */
static const struct mk_pod_object *pod_at(const struct mk_policies *policies,
					  const struct address *address)
{
	const struct address_more *more = more_of(address);

	if (more && more->node)
		return NULL;
	if (more && more->sandbox)
		return more->sandbox->subject ? pod_of_sandbox(policies, more->sandbox->subject)
					      : NULL;
	return first_pod(address);
}

/* A pod whose Namespace is not known is not known either: selectors cannot be asked. */
static struct class_ *class_at(struct mk_policies *policies, const struct address *address)
{
	const struct mk_pod_object *pod = pod_at(policies, address);
	const struct mk_ip ip = mk_ip_from_addr(&address->addr);
	struct space *space = NULL;

	if (pod)
		HASH_FIND_STR(policies->spaces, pod->of->namespace_, space);
	return space && space->known ? class_get(policies, space, pod->of, &ip) : NULL;
}

void address_fill(const void *of, void *to)
{
	const struct address *address = of;
	const struct address_more *more = more_of(address);
	const struct mk_ip ip = mk_ip_from_addr(&address->addr);
	struct mk_identity_row *row = to;

	ip_clean(&row->ip, &ip);
	if (more)
		memcpy(&row->counts_as, &more->counts_as, sizeof(row->counts_as));
	if (address->class_)
		row->class_id = address->class_->id;
}

/* Returns true if the address counts as another than in its row. */
static bool decide_counts_as(struct address_more *more)
{
	struct mk_ip former;

	memcpy(&former, &more->counts_as, sizeof(former));
	memset(&more->counts_as, 0, sizeof(more->counts_as));
	if (more->node && more->node->counts_as.family != AF_UNSPEC)
		ip_clean(&more->counts_as, &more->node->counts_as);
	return memcmp(&former, &more->counts_as, sizeof(former)) != 0;
}

/* Rules 15 and 46: nodes and containers of no Pod are known to be no Pod. */
static bool is_known(const struct address *address)
{
	const struct address_more *more = more_of(address);

	return address->class_ ||
	       (more && (more->node || (more->sandbox && !more->sandbox->subject)));
}

static void decide_class(struct mk_policies *policies, struct address *address)
{
	struct class_ *former = address->class_;
	bool is_other;

	rows_unmark(address);
	address->class_ = class_at(policies, address);
	if (address->class_)
		address->class_->references++;
	is_other = address->class_ != former;
	class_put(policies, former);
	if (more_of(address))
		is_other |= decide_counts_as(more_of(address));
	rows_want(&policies->rows[IDENTITIES], address, is_known(address), is_other);
	drop_more(address);
	if (!address->of)
		rows_let_go(&policies->rows[IDENTITIES], address);
}

static void keys_changed(void *ctx, void *entry)
{
	address_changed(ctx, entry);
}

void classes_decide(struct mk_policies *policies)
{
	if (policies->keys_changed)
		rows_each_kept(&policies->rows[IDENTITIES], keys_changed, policies);
	policies->keys_changed = false;
	for (size_t i = 0; i < policies->changed_address_count; i++)
		decide_class(policies, policies->changed_addresses[i]);
	free(policies->changed_addresses);
	policies->changed_addresses = NULL;
	policies->changed_address_count = policies->changed_address_room = 0;
	forget_alike(policies);
}

/* ---- Pods ------------------------------------------------------------------------------------ */

static bool has_claim(const struct address *address, const struct mk_pod_object *pod)
{
	const struct address_more *more = more_of(address);
	struct claim *claim;

	if (!more)
		return first_pod(address) == pod;
	LL_SEARCH_SCALAR(more->claims, claim, pod, pod);
	return claim;
}

static void remove_claim(struct address *address, const struct mk_pod_object *pod)
{
	struct address_more *more = more_of(address);
	struct claim *claim;

	if (!more) {
		address->of = 0;
		return;
	}
	LL_SEARCH_SCALAR(more->claims, claim, pod, pod);
	LL_DELETE(more->claims, claim);
	free(claim);
}

static void claim(struct mk_policies *policies, const struct mk_pod_object *pod, size_t family)
{
	const struct mk_ip ip = mk_pod_ip(pod, family);
	struct address *address;

	if (ip.family == AF_UNSPEC)
		return;
	address = address_get(policies, &ip);
	if (has_claim(address, pod))
		return;
	if (address->of)
		add_claim(address_more(address), pod);
	else
		address->of = (uintptr_t)pod;
	address_changed(policies, address);
}

static void unclaim(struct mk_policies *policies, const struct mk_pod_object *pod,
		    const struct mk_ip *ip)
{
	struct address *address = address_find(policies, ip);

	if (!address || !has_claim(address, pod))
		return;
	remove_claim(address, pod);
	address_changed(policies, address);
}

void forget_peer(struct mk_policies *policies, const struct mk_pod_object *pod,
		 const struct mk_pod_object *former)
{
	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_ip ip = mk_pod_ip(former, i);

		unclaim(policies, pod, &ip);
	}
}

/* Rules 21, 43 and 44: a Pod is a peer until it has finished or is gone, but not with its node's
 * address. */
void look_at_peer(struct mk_policies *policies, const char *namespace_, const char *name)
{
	const struct mk_pod_object *pod = mk_model_pod(policies->model, namespace_, name);

	if (!pod || pod->host_network || pod->finished)
		return;
	for (size_t i = 0; i < MK_FAMILIES; i++)
		claim(policies, pod, i);
}

static void forget_claims(void *ctx, void *entry)
{
	struct address_more *more = more_of(entry);
	struct claim *claim, *next;

	(void)ctx;
	if (!more)
		return;
	LL_FOREACH_SAFE(more->claims, claim, next)
		free(claim);
	free(more);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void tell_nodes(struct mk_policies *policies, bool set)
{
	for (size_t i = 0; i < policies->node_count; i++) {
		struct address *address = address_get(policies, &policies->nodes[i].ip);

		address_more(address)->node = set ? &policies->nodes[i] : NULL;
		address_changed(policies, address);
	}
}

int mk_policies_set_nodes(struct mk_policies *policies,
			  const struct mk_policy_node_address *addresses, size_t count,
			  struct mk_error *err)
{
	(void)err;
	policies->changed = true;
	tell_nodes(policies, false);
	free(policies->nodes);
	policies->nodes = memory_new(count * sizeof(*policies->nodes));
	policies->node_count = count;
	if (count > 0)
		memcpy(policies->nodes, addresses, count * sizeof(*addresses));
	tell_nodes(policies, true);
	return 0;
}

void classes_release(struct mk_policies *policies)
{
	struct class_ *class_, *next;

	rows_each_kept(&policies->rows[IDENTITIES], forget_claims, NULL);
	for (class_ = class_after(policies, NULL); class_; class_ = next) {
		next = class_after(policies, class_);
		class_free(policies, class_);
	}
	mk_index_release(&policies->classes);
	keys_forget_kept(policies);
	free(policies->changed_addresses);
	free(policies->nodes);
	bytes_release(&policies->scratch);
}

// SPDX-License-Identifier: Apache-2.0
/* Keys of labels, names of ports, and blocks that sets in use ask of pods. Classes have only
 * these. */
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

static struct key *key_find(struct key *keys, const void *of, size_t size)
{
	struct key *key;

	HASH_FIND(hh, keys, of, size, key);
	return key;
}

static struct key *key_get(struct mk_policies *policies, struct key **keys, const void *of,
			   size_t size)
{
	struct key *key = key_find(*keys, of, size);

	if (!key) {
		key = memory_new(sizeof(*key) + size);
		memcpy(key->of, of, size);
		HASH_ADD_KEYPTR(hh, *keys, key->of, size, key);
		policies->keys_changed = true;
	}
	key->references++;
	return key;
}

static void key_put(struct mk_policies *policies, struct key **keys, struct key *key)
{
	if (--key->references > 0)
		return;
	HASH_DEL(*keys, key);
	free(key->block.except);
	free(key);
	policies->keys_changed = true;
}

static struct key *block_key_get(struct mk_policies *policies, const struct block *block)
{
	cleanup_bytes struct bytes bytes = { 0 };
	struct key *key;

	bytes_put_block(&bytes, block);
	key = key_get(policies, &policies->blocks, bytes.at, bytes.count);
	if (key->references > 1)
		return key;
	key->block.cidr = block->cidr;
	key->block.except_count = block->except_count;
	key->block.except = memory_new(block->except_count * sizeof(*block->except));
	if (block->except_count > 0)
		memcpy(key->block.except, block->except,
		       block->except_count * sizeof(*block->except));
	return key;
}

static void use_text(struct mk_policies *policies, struct key **keys, const char *text, bool use)
{
	if (use)
		key_get(policies, keys, text, strlen(text));
	else
		key_put(policies, keys, key_find(*keys, text, strlen(text)));
}

static void use_peers(struct mk_policies *policies, const struct rule *rule, bool use)
{
	for (size_t i = 0; i < rule->of->peer_count; i++) {
		const struct mk_policy_peer_object *peer = &rule->of->peers[i];

		if (peer->kind != MK_PEER_SELECTORS)
			continue;
		for (size_t j = 0; j < peer->pods.count; j++)
			use_text(policies, &policies->label_keys, peer->pods.requirements[j].key,
				 use);
	}
}

/* Rule 9: in egress, a name is a port of the peer. */
static void use_names(struct mk_policies *policies, const struct rule *rule, bool use)
{
	for (size_t i = 0; i < rule->of->port_count; i++)
		if (rule->of->ports[i].valid && rule->of->ports[i].name)
			use_text(policies, &policies->port_names, rule->of->ports[i].name, use);
	for (size_t i = 0; rule->has_names && i < rule->block_count; i++) {
		struct block *block = &rule->blocks[i];

		if (use) {
			block->key = block_key_get(policies, block);
		} else {
			key_put(policies, &policies->blocks, block->key);
			block->key = NULL;
		}
	}
}

static void use_content(struct mk_policies *policies, struct content *content, bool use)
{
	for (size_t i = 0; i < content->rule_count; i++) {
		const struct rule *rule = &content->rules[i];

		if (rule->extent != RULE_MATCHES)
			continue;
		use_peers(policies, rule, use);
		if (content->direction == MK_POLICY_EGRESS)
			use_names(policies, rule, use);
	}
}

void keys_use(struct mk_policies *policies, struct content *content)
{
	if (content->sets++ == 0)
		use_content(policies, content, true);
}

void keys_unuse(struct mk_policies *policies, struct content *content)
{
	if (--content->sets == 0)
		use_content(policies, content, false);
}

/* @text: a range, then its exceptions. */
static void use_kept_block(struct mk_policies *policies, const char *text, bool use)
{
	cleanup_bytes struct bytes bytes = { 0 };
	cleanup_free char *copy = strcpy(memory_new(strlen(text) + 1), text);
	cleanup_free struct mk_cidr *except = memory_new((strlen(text) + 1) * sizeof(*except));
	struct block block = { .except = except };
	char *rest = copy, *part = strsep(&rest, " ");

	if (mk_cidr_parse(part, &block.cidr) < 0)
		return;
	while ((part = strsep(&rest, " ")))
		if (mk_cidr_parse(part, &except[block.except_count++]) < 0)
			return;
	bytes_put_block(&bytes, &block);
	if (use)
		block_key_get(policies, &block);
	else
		key_put(policies, &policies->blocks,
			key_find(policies->blocks, bytes.at, bytes.count));
}

static void use_kept_key(struct mk_policies *policies, const char *key, bool use)
{
	const char *colon = strchr(key, ':');

	if (!colon)
		use_text(policies, &policies->label_keys, key, use);
	else if (strncmp(key, "port:", 5) == 0)
		use_text(policies, &policies->port_names, colon + 1, use);
	else if (strncmp(key, "block:", 6) == 0)
		use_kept_block(policies, colon + 1, use);
}

static void use_kept(struct mk_policies *policies, bool use)
{
	for (size_t i = 0; i < policies->kept_count; i++)
		use_kept_key(policies, policies->kept[i], use);
}

void keys_forget_kept(struct mk_policies *policies)
{
	use_kept(policies, false);
	policies->kept_count = 0;
	store_release(&policies->kept_store);
}

int mk_policies_keep_keys(struct mk_policies *policies, const char *const *keys, size_t count,
			  struct mk_error *err)
{
	(void)err;
	policies->changed = true;
	keys_forget_kept(policies);
	policies->kept = store_new(&policies->kept_store, count * sizeof(*policies->kept));
	for (size_t i = 0; i < count; i++)
		policies->kept[i] = store_text(&policies->kept_store, keys[i]);
	policies->kept_count = count;
	use_kept(policies, true);
	return 0;
}

bool keys_have_label(const struct mk_policies *policies, const char *key)
{
	return policies->label_keys && key_find(policies->label_keys, key, strlen(key));
}

bool keys_have_port(const struct mk_policies *policies, const char *name)
{
	return policies->port_names && key_find(policies->port_names, name, strlen(name));
}

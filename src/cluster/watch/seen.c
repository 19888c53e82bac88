// SPDX-License-Identifier: Apache-2.0
#include "cluster/watch/seen.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"

#define KEY_CHARS 512 /* namespace and name: 253 each at most */

struct version {
	uint64_t number; /* 0: cannot be compared */
	uint32_t uid; /* a hash */
};

struct entry {
	struct mk_index_link link;
	unsigned int round; /* the list in which, or after which, it was last seen */
	uint64_t version; /* as struct version */
	uint32_t uid;
	uint16_t key_chars;
	bool unusable;
	char key[]; /* namespace/name */
};

struct mk_seen {
	struct mk_index entries;
	size_t unusable;
	unsigned int round;
};

struct mk_seen *seen_new(void)
{
	return calloc(1, sizeof(struct mk_seen));
}

static struct entry *entry_of(struct mk_index_link *link)
{
	return link ? mk_index_entry(link, struct entry, link) : NULL;
}

/* Visit all entries: after NULL the first one. */
static struct entry *after(const struct mk_seen *seen, const struct entry *entry)
{
	return entry_of(mk_index_after(&seen->entries, entry ? &entry->link : NULL));
}

void seen_free(struct mk_seen *seen)
{
	struct entry *entry, *next;

	if (!seen)
		return;
	for (entry = after(seen, NULL); entry; entry = next) {
		next = after(seen, entry);
		free(entry);
	}
	mk_index_release(&seen->entries);
	free(seen);
}

size_t seen_count(const struct mk_seen *seen)
{
	return seen->entries.count;
}

size_t seen_unusable(const struct mk_seen *seen)
{
	return seen->unusable;
}

void seen_begin(struct mk_seen *seen)
{
	seen->round++;
}

/* Names longer than Kubernetes allows are cut: the model refuses them anyway. */
static size_t make_key(const struct mk_object_head *head, char key[KEY_CHARS])
{
	size_t first = head->namespace_.size < KEY_CHARS / 2 - 1 ? head->namespace_.size
								 : KEY_CHARS / 2 - 1;
	size_t second = head->name.size < KEY_CHARS / 2 ? head->name.size : KEY_CHARS / 2;

	if (first)
		memcpy(key, head->namespace_.text, first);
	key[first] = '/';
	if (second)
		memcpy(key + first + 1, head->name.text, second);
	return first + 1 + second;
}

static bool has_key(const struct entry *entry, const char *key, size_t length)
{
	return entry->key_chars == length && memcmp(entry->key, key, length) == 0;
}

static struct entry *find(const struct mk_seen *seen, const char *key, size_t length)
{
	struct mk_index_link *link = mk_index_find(&seen->entries, mk_index_hash(key, length));

	while (link && !has_key(entry_of(link), key, length))
		link = mk_index_find_next(link);
	return entry_of(link);
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static bool read_uid(struct mk_span text, uint32_t *hash)
{
	uint8_t uid[16] = { 0 };
	size_t digits = 0;

	for (size_t i = 0; i < text.size; i++) {
		int digit = hex_digit(text.text[i]);

		if (text.text[i] == '-')
			continue;
		if (digit < 0 || digits == 32)
			return false;
		uid[digits / 2] = (uint8_t)(uid[digits / 2] << 4 | digit);
		digits++;
	}
	*hash = mk_index_hash(uid, sizeof(uid));
	return digits == 32;
}

/* Versions are opaque by contract. A version that is not a number compares unequal, which only
 * costs a decode. */
static struct version read_version(const struct mk_object_head *head)
{
	struct version version = { 0 };
	struct mk_span text = head->resource_version;

	if (!read_uid(head->uid, &version.uid) || text.size > 19)
		return (struct version){ 0 };
	for (size_t i = 0; i < text.size; i++) {
		if (text.text[i] < '0' || text.text[i] > '9')
			return (struct version){ 0 };
		version.number = version.number * 10 + (uint64_t)(text.text[i] - '0');
	}
	return version;
}

static bool is_same(const struct entry *entry, const struct version *version)
{
	return version->number && version->number == entry->version && version->uid == entry->uid;
}

static void set_version(struct mk_seen *seen, struct entry *entry, const struct version *version)
{
	entry->version = version->number;
	entry->uid = version->uid;
	entry->round = seen->round;
}

int seen_add(struct mk_seen *seen, const struct mk_object_head *head)
{
	struct version version = read_version(head);
	char key[KEY_CHARS];
	size_t length = make_key(head, key);
	struct entry *entry = find(seen, key, length);

	if (entry) {
		bool unchanged = is_same(entry, &version);

		set_version(seen, entry, &version);
		return unchanged;
	}
	entry = calloc(1, offsetof(struct entry, key) + length + 1);
	if (!entry)
		return -ENOMEM;
	set_version(seen, entry, &version);
	entry->key_chars = (uint16_t)length;
	memcpy(entry->key, key, length);
	if (mk_index_add(&seen->entries, &entry->link, mk_index_hash(key, length)) == 0)
		return 0;
	free(entry);
	return -ENOMEM;
}

bool seen_find(const struct mk_seen *seen, const struct mk_object_head *head, uint64_t *version)
{
	char key[KEY_CHARS];
	const struct entry *entry = find(seen, key, make_key(head, key));

	*version = entry ? entry->version : 0;
	return entry;
}

static void set_usable(struct mk_seen *seen, struct entry *entry, bool usable)
{
	seen->unusable -= entry->unusable;
	entry->unusable = !usable;
	seen->unusable += entry->unusable;
}

void seen_set_usable(struct mk_seen *seen, const struct mk_object_head *head, bool usable)
{
	char key[KEY_CHARS];
	struct entry *entry = find(seen, key, make_key(head, key));

	if (entry)
		set_usable(seen, entry, usable);
}

static void forget(struct mk_seen *seen, struct entry *entry)
{
	set_usable(seen, entry, true);
	mk_index_remove(&seen->entries, &entry->link);
}

void seen_remove(struct mk_seen *seen, const struct mk_object_head *head)
{
	char key[KEY_CHARS];
	struct entry *entry = find(seen, key, make_key(head, key));

	if (!entry)
		return;
	forget(seen, entry);
	free(entry);
}

void seen_sweep(struct mk_seen *seen,
		void (*gone)(void *ctx, const char *namespace_, const char *name), void *ctx)
{
	struct entry *entry = after(seen, NULL), *next;

	for (; entry; entry = next) {
		char *slash = strchr(entry->key, '/');

		next = after(seen, entry);
		if (entry->round == seen->round)
			continue;
		forget(seen, entry);
		*slash = '\0';
		gone(ctx, entry->key, slash + 1);
		free(entry);
	}
}

// SPDX-License-Identifier: Apache-2.0
#include "cluster/watch/seen.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define KEY_CHARS 512 /* namespace and name: 253 each at most */

struct version {
	uint8_t uid[16];
	uint64_t number; /* 0: cannot be compared */
};

struct entry {
	UT_hash_handle hh;
	struct version version;
	unsigned int round; /* the list in which, or after which, it was last seen */
	bool unusable;
	char key[]; /* namespace/name */
};

struct mk_seen {
	struct entry *entries;
	size_t unusable;
	unsigned int round;
};

struct mk_seen *seen_new(void)
{
	return calloc(1, sizeof(struct mk_seen));
}

void seen_free(struct mk_seen *seen)
{
	struct entry *entry, *next;

	if (!seen)
		return;
	HASH_ITER(hh, seen->entries, entry, next) {
		HASH_DEL(seen->entries, entry);
		free(entry);
	}
	free(seen);
}

size_t seen_count(const struct mk_seen *seen)
{
	return HASH_COUNT(seen->entries);
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

static struct entry *find(const struct mk_seen *seen, const char *key, size_t length)
{
	struct entry *entry;

	HASH_FIND(hh, seen->entries, key, length, entry);
	return entry;
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static bool read_uid(struct mk_span text, uint8_t uid[16])
{
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
	return digits == 32;
}

/* Versions are opaque by contract. A version that is not a number compares unequal, which only
 * costs a decode. */
static struct version read_version(const struct mk_object_head *head)
{
	struct version version = { 0 };
	struct mk_span text = head->resource_version;

	if (!read_uid(head->uid, version.uid) || text.size > 19)
		return (struct version){ 0 };
	for (size_t i = 0; i < text.size; i++) {
		if (text.text[i] < '0' || text.text[i] > '9')
			return (struct version){ 0 };
		version.number = version.number * 10 + (uint64_t)(text.text[i] - '0');
	}
	return version;
}

static bool same(const struct version *a, const struct version *b)
{
	return a->number && a->number == b->number && memcmp(a->uid, b->uid, sizeof(a->uid)) == 0;
}

int seen_add(struct mk_seen *seen, const struct mk_object_head *head)
{
	struct version version = read_version(head);
	char key[KEY_CHARS];
	size_t length = make_key(head, key);
	struct entry *entry = find(seen, key, length);

	if (entry) {
		bool unchanged = same(&entry->version, &version);

		entry->version = version;
		entry->round = seen->round;
		return unchanged;
	}
	entry = calloc(1, sizeof(*entry) + length + 1);
	if (!entry)
		return -ENOMEM;
	entry->version = version;
	entry->round = seen->round;
	memcpy(entry->key, key, length);
	HASH_ADD(hh, seen->entries, key, length, entry);
	return 0;
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
	HASH_DEL(seen->entries, entry);
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
	struct entry *entry, *next;

	HASH_ITER(hh, seen->entries, entry, next) {
		char *slash = strchr(entry->key, '/');

		if (entry->round == seen->round)
			continue;
		forget(seen, entry);
		*slash = '\0';
		gone(ctx, entry->key, slash + 1);
		free(entry);
	}
}

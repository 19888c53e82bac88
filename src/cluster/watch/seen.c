// SPDX-License-Identifier: Apache-2.0
#include "cluster/watch/seen.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/index.h"

#define KEY_CHARS 512 /* namespace and name: 253 each at most */

#define VERSION_BITS 46
#define UID_BITS     16

/* Without names, a cell of 24 bytes. */
struct entry {
	struct mk_index_link link; /* with half of the names' hash */
	uint32_t hash; /* the other half */
	uint64_t version : VERSION_BITS; /* a number; 0: cannot be compared */
	uint64_t uid : UID_BITS; /* a hash */
	bool unusable : 1, is_current : 1; /* seen since seen_begin() */
	char key[]; /* namespace/name */
};
_Static_assert(offsetof(struct entry, key) == 24, "a cluster has a hundred thousand");

struct version {
	uint64_t number;
	uint32_t uid;
};

struct mk_seen {
	struct mk_index entries;
	struct mk_cells cells; /* of entries without names */
	size_t unusable;
	bool has_names;
	uint8_t hash_key[MK_SIPHASH_KEY_BYTES];
};

struct mk_seen *seen_new(bool has_names)
{
	struct mk_seen *seen = calloc(1, sizeof(*seen));

	if (!seen)
		return NULL;
	seen->has_names = has_names;
	seen->cells.bytes = offsetof(struct entry, key);
	if (getrandom(seen->hash_key, sizeof(seen->hash_key), 0) == sizeof(seen->hash_key))
		return seen;
	free(seen);
	return NULL;
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

static void entry_free(struct mk_seen *seen, struct entry *entry)
{
	if (seen->has_names)
		free(entry);
	else
		mk_cell_free(&seen->cells, entry);
}

void seen_free(struct mk_seen *seen)
{
	struct entry *entry, *next;

	if (!seen)
		return;
	for (entry = after(seen, NULL); entry; entry = next) {
		next = after(seen, entry);
		entry_free(seen, entry);
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
	for (struct entry *entry = NULL; (entry = after(seen, entry));)
		entry->is_current = false;
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

static uint64_t hash_of(const struct mk_seen *seen, const struct mk_object_head *head)
{
	char key[KEY_CHARS];

	return mk_siphash(seen->hash_key, key, make_key(head, key));
}

static struct entry *find(const struct mk_seen *seen, const struct mk_object_head *head)
{
	uint64_t hash = hash_of(seen, head);
	struct mk_index_link *link = mk_index_find(&seen->entries, (uint32_t)hash);

	while (link && entry_of(link)->hash != hash >> 32)
		link = mk_index_find_next(link);
	return entry_of(link);
}

static struct entry *add(struct mk_seen *seen, const struct mk_object_head *head)
{
	char key[KEY_CHARS];
	size_t length = make_key(head, key);
	uint64_t hash = mk_siphash(seen->hash_key, key, length);
	struct entry *entry = seen->has_names ? calloc(1, offsetof(struct entry, key) + length + 1)
					      : mk_cell_new(&seen->cells);

	if (!entry)
		return NULL;
	entry->hash = hash >> 32;
	if (seen->has_names)
		memcpy(entry->key, key, length);
	if (mk_index_add(&seen->entries, &entry->link, (uint32_t)hash) == 0)
		return entry;
	entry_free(seen, entry);
	return NULL;
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
	*hash = mk_index_hash(uid, sizeof(uid)) >> (32 - UID_BITS);
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
	if (version.number >> VERSION_BITS)
		return (struct version){ 0 };
	return version;
}

static bool is_same(const struct entry *entry, const struct version *version)
{
	return version->number && version->number == entry->version && version->uid == entry->uid;
}

int seen_add(struct mk_seen *seen, const struct mk_object_head *head)
{
	struct version version = read_version(head);
	struct entry *entry = find(seen, head);
	bool unchanged = entry && is_same(entry, &version);

	entry = entry ?: add(seen, head);
	if (!entry)
		return -ENOMEM;
	entry->version = version.number & ((1ULL << VERSION_BITS) - 1);
	entry->uid = version.uid & ((1U << UID_BITS) - 1);
	entry->is_current = true;
	return unchanged;
}

bool seen_find(const struct mk_seen *seen, const struct mk_object_head *head, uint64_t *version)
{
	const struct entry *entry = find(seen, head);

	*version = entry ? entry->version : 0;
	return entry;
}

bool seen_is_gone(const struct mk_seen *seen, const struct mk_object_head *head)
{
	const struct entry *entry = find(seen, head);

	return entry && !entry->is_current;
}

static void set_usable(struct mk_seen *seen, struct entry *entry, bool usable)
{
	seen->unusable -= entry->unusable;
	entry->unusable = !usable;
	seen->unusable += entry->unusable;
}

void seen_set_usable(struct mk_seen *seen, const struct mk_object_head *head, bool usable)
{
	struct entry *entry = find(seen, head);

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
	struct entry *entry = find(seen, head);

	if (!entry)
		return;
	forget(seen, entry);
	entry_free(seen, entry);
}

void seen_sweep(struct mk_seen *seen,
		void (*gone)(void *ctx, const char *namespace_, const char *name), void *ctx)
{
	struct entry *entry = after(seen, NULL), *next;

	for (; entry; entry = next) {
		char *slash = seen->has_names ? strchr(entry->key, '/') : NULL;

		next = after(seen, entry);
		if (entry->is_current)
			continue;
		forget(seen, entry);
		if (slash) {
			*slash = '\0';
			gone(ctx, entry->key, slash + 1);
		}
		entry_free(seen, entry);
	}
}

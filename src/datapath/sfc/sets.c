// SPDX-License-Identifier: Apache-2.0
/* Ports and tags: hashes that lead to a replica. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/sfc/tables_internal.h"

_Static_assert(sizeof(struct mk_sfc_port) == sizeof(uint64_t), "value of a pair");

bool set_make(struct sfc_set *set)
{
	set->of = calloc(set->room, sizeof(*set->of));
	return set->of != NULL;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = ((const struct sfc_pair *)left)->key,
		 b = ((const struct sfc_pair *)right)->key;

	return (a > b) - (a < b);
}

static int read_pair(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct sfc_set *set = ctx;
	struct sfc_pair *pair = &set->of[set->count];
	uint32_t narrow = 0;

	(void)err;
	if (set->count == set->room)
		return 0;
	memcpy(&narrow, key, sizeof(narrow));
	pair->key = narrow;
	if (set->table->key_size == sizeof(pair->key))
		memcpy(&pair->key, key, sizeof(pair->key));
	pair->value = 0;
	memcpy(&pair->value, value, set->table->value_size);
	set->count++;
	return 0;
}

int set_read(struct sfc_set *set, struct mk_error *err)
{
	int ret;

	set->count = 0;
	ret = mk_table_each(set->table, read_pair, set, err);
	qsort(set->of, set->count, sizeof(*set->of), compare);
	return ret;
}

static const struct sfc_pair *find(const struct sfc_pair *pairs, size_t count, uint64_t key)
{
	const struct sfc_pair wanted = { .key = key };

	return mk_find(&wanted, pairs, count, compare);
}

static bool has(const struct sfc_pair *pairs, size_t count, const struct sfc_pair *pair)
{
	const struct sfc_pair *found = find(pairs, count, pair->key);

	return found && found->value == pair->value;
}

static int put(const struct sfc_set *set, const struct sfc_pair *pair, struct mk_error *err)
{
	uint32_t narrow = (uint32_t)pair->key;

	return mk_table_put(set->table,
			    set->table->key_size == sizeof(narrow) ? (void *)&narrow
								   : (void *)&pair->key,
			    &pair->value, err);
}

static int delete (const struct sfc_set *set, uint64_t key, struct mk_error *err)
{
	uint32_t narrow = (uint32_t)key;

	return mk_table_delete(
		set->table, set->table->key_size == sizeof(narrow) ? (void *)&narrow : (void *)&key,
		err);
}

/* ---- what the rows have ---------------------------------------------------------------------- */

static size_t count_of(const struct mk_sfc_rows *rows, enum sfc_set_id id)
{
	return id == SFC_PORTS ? rows->port_count : rows->tag_count;
}

static struct sfc_pair pair_of(const struct mk_sfc_rows *rows, enum sfc_set_id id, size_t at)
{
	struct sfc_pair pair = { 0 };

	if (id == SFC_TAGS)
		return (struct sfc_pair){ rows->tags[at].tag, rows->tags[at].number };
	pair.key = rows->ports[at].ifindex;
	memcpy(&pair.value, &rows->ports[at].port, sizeof(pair.value));
	return pair;
}

static bool is_wanted(const struct mk_sfc_rows *rows, enum sfc_set_id id, uint64_t key)
{
	size_t low = 0, high = count_of(rows, id);

	while (low < high) {
		size_t middle = (low + high) / 2;
		uint64_t found = pair_of(rows, id, middle).key;

		if (found == key)
			return true;
		if (found < key)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* Both are in the order of keys. */
static bool is_as_wanted(const struct applying *apply, enum sfc_set_id id)
{
	const struct sfc_set *set = &apply->sync->sets[id];
	size_t count = count_of(apply->rows, id);

	for (size_t i = 0; set->count == count && i < count; i++) {
		const struct sfc_pair pair = pair_of(apply->rows, id, i);

		if (pair.key != set->of[i].key || pair.value != set->of[i].value)
			return false;
	}
	return set->count == count;
}

static int remove_others(const struct applying *apply, enum sfc_set_id id)
{
	struct sfc_set *set = &apply->sync->sets[id];
	size_t kept = 0;
	int ret = 0;

	for (size_t i = 0; i < set->count; i++) {
		if (ret >= 0 && !is_wanted(apply->rows, id, set->of[i].key)) {
			ret = delete (set, set->of[i].key, apply->err);
			apply->counts->deleted += ret > 0;
			if (ret >= 0)
				continue;
		}
		set->of[kept++] = set->of[i];
	}
	set->count = kept;
	return ret < 0 ? ret : 0;
}

static int put_set(const struct applying *apply, enum sfc_set_id id)
{
	struct sfc_set *set = &apply->sync->sets[id];
	size_t count = count_of(apply->rows, id);
	int ret = 0;

	if (is_as_wanted(apply, id))
		return 0;
	/* The map would be full otherwise. */
	if (set->count + count > set->room)
		ret = remove_others(apply, id);
	for (size_t i = 0; ret == 0 && i < count; i++) {
		const struct sfc_pair pair = pair_of(apply->rows, id, i);

		if (has(set->of, set->count, &pair))
			continue;
		ret = put(set, &pair, apply->err);
		apply->counts->put += ret == 0;
	}
	return ret;
}

int sets_put(const struct applying *apply)
{
	return put_set(apply, SFC_TAGS) ?: put_set(apply, SFC_PORTS);
}

int sets_remove(const struct applying *apply)
{
	int ret = 0;

	for (enum sfc_set_id id = 0; ret == 0 && id < SFC_SETS; id++) {
		struct sfc_set *set = &apply->sync->sets[id];

		if (is_as_wanted(apply, id))
			continue;
		ret = remove_others(apply, id);
		if (ret < 0)
			return ret;
		set->count = count_of(apply->rows, id);
		for (size_t i = 0; i < set->count; i++)
			set->of[i] = pair_of(apply->rows, id, i);
	}
	return ret;
}

/* ---- repair ---------------------------------------------------------------------------------- */

/* An entry that should not be there counts, too. */
int set_reconcile(struct sfc_set *set, struct mk_error *err)
{
	cleanup_free struct sfc_pair *was = calloc(set->room, sizeof(*was));
	size_t count = set->count;
	int differ = 0, ret;

	if (!was)
		return mk_error_errno(err, ENOMEM, "cannot read map %s", set->table->name);
	memcpy(was, set->of, count * sizeof(*was));
	ret = set_read(set, err);
	for (size_t i = 0; ret == 0 && i < count; i++)
		if (!has(set->of, set->count, &was[i])) {
			say_changed(set->table, was[i].key);
			differ++;
		}
	for (size_t i = 0; ret == 0 && i < set->count; i++)
		differ += !find(was, count, set->of[i].key);
	return ret < 0 ? ret : differ;
}

// SPDX-License-Identifier: Apache-2.0
/* Rows of one table: what is wanted, what has been reported, and the difference. */
#include <stdlib.h>
#include <string.h>

#include "policy/compiler.h"

struct row {
	struct mk_index_link link;
	bool wanted : 1, reported : 1, changed : 1, kept : 1, marked : 1;
	_Alignas(8) uint8_t of[]; /* rows.entry_bytes */
};

void rows_init(struct rows *rows, size_t key_bytes, size_t row_bytes, size_t entry_bytes)
{
	*rows = (struct rows){ .key_bytes = key_bytes,
			       .row_bytes = row_bytes,
			       .entry_bytes = entry_bytes,
			       .cells.bytes = (sizeof(struct row) + entry_bytes + 7) / 8 * 8 };
}

static void note_change(struct rows *rows, struct row *row)
{
	if (row->changed)
		return;
	row->changed = true;
	rows->changed = memory_grow(rows->changed, rows->changed_count, &rows->changed_room,
				    sizeof(struct row *));
	rows->changed[rows->changed_count++] = row;
}

static struct row *row_of(struct mk_index_link *link)
{
	return mk_index_entry(link, struct row, link);
}

static struct row *row_find(const struct rows *rows, const void *key)
{
	struct mk_index_link *link = mk_index_find(&rows->all, mk_index_hash(key, rows->key_bytes));

	while (link && memcmp(row_of(link)->of, key, rows->key_bytes) != 0)
		link = mk_index_find_next(link);
	return link ? row_of(link) : NULL;
}

/* Find or make. */
static struct row *row_get(struct rows *rows, const void *key)
{
	struct row *row = row_find(rows, key);

	if (row)
		return row;
	row = mk_cell_new(&rows->cells);
	if (!row)
		uthash_fatal("out of memory");
	memcpy(row->of, key, rows->key_bytes);
	if (mk_index_add(&rows->all, &row->link, mk_index_hash(key, rows->key_bytes)) < 0)
		uthash_fatal("out of memory");
	return row;
}

/* Free @row unless it is in use. */
static void row_drop(struct rows *rows, struct row *row)
{
	if (row->wanted || row->kept || row->changed)
		return;
	mk_index_remove(&rows->all, &row->link);
	mk_cell_free(&rows->cells, row);
}

void rows_put(struct rows *rows, const void *wanted)
{
	struct row *row = row_get(rows, wanted);

	if (row->wanted && memcmp(row->of, wanted, rows->row_bytes) == 0)
		return;
	memcpy(row->of, wanted, rows->row_bytes);
	row->wanted = true;
	note_change(rows, row);
}

void rows_remove(struct rows *rows, const void *key)
{
	struct row *row = row_find(rows, key);

	if (!row || !row->wanted)
		return;
	row->wanted = false;
	note_change(rows, row);
}

static struct row *row_with(void *entry)
{
	return (void *)((uint8_t *)entry - offsetof(struct row, of));
}

void rows_want(struct rows *rows, void *entry, bool wanted, bool is_other)
{
	struct row *row = row_with(entry);

	if (row->wanted == wanted && !(wanted && is_other))
		return;
	row->wanted = wanted;
	note_change(rows, row);
}

void *rows_kept(const struct rows *rows, const void *key)
{
	struct row *row = row_find(rows, key);

	return row && row->kept ? row->of : NULL;
}

void *rows_keep(struct rows *rows, const void *key)
{
	struct row *row = row_get(rows, key);
	size_t owned_from = rows->fill ? rows->key_bytes : rows->row_bytes;

	if (!row->kept)
		memset(row->of + owned_from, 0, rows->entry_bytes - owned_from);
	row->kept = true;
	return row->of;
}

void rows_let_go(struct rows *rows, void *entry)
{
	struct row *row = row_with(entry);

	row->kept = false;
	row_drop(rows, row);
}

bool rows_mark(void *entry)
{
	struct row *row = row_with(entry);
	bool is_new = !row->marked;

	row->marked = true;
	return is_new;
}

void rows_unmark(void *entry)
{
	row_with(entry)->marked = false;
}

/* @visit may let the entry go. */
void rows_each_kept(const struct rows *rows, void (*visit)(void *ctx, void *entry), void *ctx)
{
	struct mk_index_link *link = mk_index_after(&rows->all, NULL), *next;

	for (; link; link = next) {
		next = mk_index_after(&rows->all, link);
		if (row_of(link)->kept)
			visit(ctx, row_of(link)->of);
	}
}

static void append(const struct rows *rows, struct row_list *list, const void *entry)
{
	uint8_t *row = (uint8_t *)list->rows + list->count++ * rows->row_bytes;

	if (rows->fill)
		rows->fill(entry, row);
	else
		memcpy(row, entry, rows->row_bytes);
}

static void finish(struct rows *rows, struct row *row)
{
	row->changed = false;
	if (row->wanted)
		append(rows, &rows->put, row->of);
	else if (row->reported)
		append(rows, &rows->gone, row->of);
	row->reported = row->wanted;
	row_drop(rows, row);
}

/* Empty @list, with space for @count rows. */
static void list_begin(const struct rows *rows, struct row_list *list, size_t count)
{
	free(list->rows);
	*list = (struct row_list){ .rows = count ? memory_new(count * rows->row_bytes) : NULL };
}

void rows_forget_lists(struct rows *rows)
{
	list_begin(rows, &rows->put, 0);
	list_begin(rows, &rows->gone, 0);
}

void rows_changes(struct rows *rows)
{
	size_t wanted = 0;

	for (size_t i = 0; i < rows->changed_count; i++)
		wanted += rows->changed[i]->wanted;
	list_begin(rows, &rows->put, wanted);
	list_begin(rows, &rows->gone, rows->changed_count - wanted);
	for (size_t i = 0; i < rows->changed_count; i++)
		finish(rows, rows->changed[i]);
	free(rows->changed);
	rows->changed = NULL;
	rows->changed_count = rows->changed_room = 0;
}

void rows_all(struct rows *rows)
{
	list_begin(rows, &rows->put, rows->all.count);
	list_begin(rows, &rows->gone, 0);
	for (struct mk_index_link *link = NULL; (link = mk_index_after(&rows->all, link));)
		if (row_of(link)->wanted)
			append(rows, &rows->put, row_of(link)->of);
}

void rows_release(struct rows *rows)
{
	struct mk_index_link *link = mk_index_after(&rows->all, NULL), *next;

	for (; link; link = next) {
		next = mk_index_after(&rows->all, link);
		mk_cell_free(&rows->cells, row_of(link));
	}
	mk_index_release(&rows->all);
	free(rows->changed);
	rows_forget_lists(rows);
}

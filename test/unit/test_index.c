// SPDX-License-Identifier: Apache-2.0
/* The hash table for many entries: what is added is found, what is removed is not, and a walk
 * visits each entry once. Cells for entries are zero, their own, and free again. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"
#include "unit/unit.h"

#define ENTRIES 5000

struct entry {
	char name[24];
	struct mk_index_link link;
	unsigned int visits;
};

static struct mk_index table;
static struct entry entries[ENTRIES];

static uint32_t hash_of(const char *name)
{
	return mk_index_hash(name, strlen(name));
}

static struct entry *entry_of(struct mk_index_link *link)
{
	return link ? mk_index_entry(link, struct entry, link) : NULL;
}

static struct entry *find(const char *name)
{
	struct mk_index_link *link = mk_index_find(&table, hash_of(name));

	while (link && strcmp(entry_of(link)->name, name) != 0)
		link = mk_index_find_next(link);
	return entry_of(link);
}

static void setup(void)
{
	memset(entries, 0, sizeof(entries));
	for (unsigned int i = 0; i < ENTRIES; i++) {
		snprintf(entries[i].name, sizeof(entries[i].name), "namespace/pod-%u", i);
		ck_assert_int_eq(mk_index_add(&table, &entries[i].link, hash_of(entries[i].name)),
				 0);
	}
}

static void teardown(void)
{
	mk_index_release(&table);
}

static void remove_odd(void)
{
	for (unsigned int i = 1; i < ENTRIES; i += 2)
		mk_index_remove(&table, &entries[i].link);
}

START_TEST(test_find)
{
	ck_assert_uint_eq(table.count, ENTRIES);
	for (unsigned int i = 0; i < ENTRIES; i++)
		ck_assert_ptr_eq(find(entries[i].name), &entries[i]);
	ck_assert_ptr_null(find("namespace/pod"));
}
END_TEST

START_TEST(test_remove)
{
	remove_odd();
	ck_assert_uint_eq(table.count, ENTRIES / 2);
	for (unsigned int i = 0; i < ENTRIES; i++)
		ck_assert_ptr_eq(find(entries[i].name), i % 2 ? NULL : &entries[i]);
}
END_TEST

START_TEST(test_walk)
{
	struct mk_index_link *link = NULL;

	remove_odd();
	while ((link = mk_index_after(&table, link)))
		entry_of(link)->visits++;
	for (unsigned int i = 0; i < ENTRIES; i++)
		ck_assert_uint_eq(entries[i].visits, i % 2 ? 0 : 1);
}
END_TEST

/* The next one is asked for before an entry is removed. */
START_TEST(test_walk_removes)
{
	struct mk_index_link *link = mk_index_after(&table, NULL), *next;

	for (; link; link = next) {
		next = mk_index_after(&table, link);
		mk_index_remove(&table, link);
	}
	ck_assert_uint_eq(table.count, 0);
	ck_assert_ptr_null(mk_index_after(&table, NULL));
}
END_TEST

START_TEST(test_equal_hashes)
{
	static struct entry same[3];

	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(mk_index_add(&table, &same[i].link, hash_of("same")), 0);
	mk_index_remove(&table, &same[1].link);
	for (struct mk_index_link *link = mk_index_find(&table, hash_of("same")); link;
	     link = mk_index_find_next(link))
		entry_of(link)->visits++;
	ck_assert_uint_eq(same[0].visits, 1);
	ck_assert_uint_eq(same[1].visits, 0);
	ck_assert_uint_eq(same[2].visits, 1);
}
END_TEST

START_TEST(test_empty)
{
	static const struct mk_index none;

	ck_assert_ptr_null(mk_index_find(&none, 1));
	ck_assert_ptr_null(mk_index_after(&none, NULL));
}
END_TEST

/* Keys that differ in their last bytes alone, as addresses and names do, get chains of few. */
START_TEST(test_spread)
{
	size_t longest = 0;

	for (size_t i = 0; i < table.chain_count; i++) {
		size_t length = 0;

		for (struct mk_index_link *link = table.chains[i]; link; link = link->next)
			length++;
		longest = length > longest ? length : longest;
	}
	ck_assert_uint_le(longest, 10);
}
END_TEST

/* ---- cells ----------------------------------------------------------------------------------- */

#define CELL_BYTES 48

static void fill_cells(struct mk_cells *cells, char **of, size_t count)
{
	static const char zeros[CELL_BYTES];

	for (size_t i = 0; i < count; i++) {
		of[i] = mk_cell_new(cells);
		ck_assert_ptr_nonnull(of[i]);
		ck_assert_mem_eq(of[i], zeros, CELL_BYTES);
		memset(of[i], (int)(i % 251) + 1, CELL_BYTES);
	}
}

static void check_cells(char *const *of, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < CELL_BYTES; j++)
			ck_assert_int_eq((unsigned char)of[i][j], (int)(i % 251) + 1);
}

/* A cell is zero also if it was another one's before, and no two share a byte. */
START_TEST(test_cells)
{
	struct mk_cells cells = { .bytes = CELL_BYTES };
	static char *of[ENTRIES];

	fill_cells(&cells, of, ENTRIES);
	check_cells(of, ENTRIES);
	for (size_t i = ENTRIES / 2; i < ENTRIES; i++)
		mk_cell_free(&cells, of[i]);
	check_cells(of, ENTRIES / 2);
	for (size_t i = 0; i < ENTRIES / 2; i++)
		mk_cell_free(&cells, of[i]);
	fill_cells(&cells, of, ENTRIES);
	check_cells(of, ENTRIES);
	for (size_t i = 0; i < ENTRIES; i++)
		mk_cell_free(&cells, of[i]);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__ /* its malloc(3) counts nothing */
static size_t heap_bytes(void)
{
	struct mallinfo2 now = mallinfo2();

	return now.uordblks + now.hblkhd;
}

/* A cell takes only its bytes. Freed ones are used first, and the last one frees all memory. */
START_TEST(test_memory_of_cells)
{
	struct mk_cells cells = { .bytes = CELL_BYTES };
	static char *of[ENTRIES];
	size_t before = heap_bytes(), full;

	fill_cells(&cells, of, ENTRIES);
	full = heap_bytes();
	ck_assert_uint_le(full - before, (size_t)ENTRIES * (CELL_BYTES + 1) + 4096);
	for (size_t i = 0; i < ENTRIES - 1; i++)
		mk_cell_free(&cells, of[i]);
	fill_cells(&cells, of, ENTRIES - 1);
	ck_assert_uint_eq(heap_bytes(), full);
	for (size_t i = 0; i < ENTRIES; i++)
		mk_cell_free(&cells, of[i]);
	ck_assert_uint_eq(heap_bytes(), before);
}
END_TEST
#endif

UNIT_SUITE("index")
{
	TCase *tc = unit_case(suite, "index", setup, teardown);

	tcase_add_test(tc, test_find);
	tcase_add_test(tc, test_remove);
	tcase_add_test(tc, test_walk);
	tcase_add_test(tc, test_walk_removes);
	tcase_add_test(tc, test_equal_hashes);
	tcase_add_test(tc, test_empty);
	tcase_add_test(tc, test_spread);
	tc = unit_case(suite, "cells", NULL, NULL);
	tcase_add_test(tc, test_cells);
#ifndef __SANITIZE_ADDRESS__
	tcase_add_test(tc, test_memory_of_cells);
#endif
}

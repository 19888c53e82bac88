/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/index.h - a hash table for entries of which there are many: one per pod or object of the
 * cluster. A link takes 12 bytes of an entry, uthash's handle 56; the table has 2 to 4 more. There
 * is no order. The owner of the entries compares their keys. Entries of one size can be cells of a
 * block, without the 8 to 16 bytes that malloc(3) adds to each. */
#ifndef MK_BASE_INDEX_H
#define MK_BASE_INDEX_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Packed: four bytes of an entry may follow without padding. */
struct mk_packed mk_index_link {
	struct mk_index_link *next;
	uint32_t hash;
};

struct mk_index {
	struct mk_index_link **chains;
	size_t chain_count, count;
};

static inline void *mk_index_before(struct mk_index_link *link, size_t bytes)
{
	return (char *)link - bytes;
}

/* @own: a member that is a struct mk_index_link. */
#define mk_index_entry(link, type, own) ((type *)mk_index_before(link, offsetof(type, own)))

#define MK_INDEX_FIRST_CHAINS 16
#define MK_INDEX_FACTOR	      0x9e3779b97f4a7c15 /* 2^64 / the golden ratio */
#define MK_INDEX_CHAIN_LINKS  4 /* on average, before the number of chains doubles */

/* Multiply and fold, eight bytes at a time: names and addresses differ in few of their bytes. */
static inline uint32_t mk_index_hash(const void *key, size_t bytes)
{
	const char *at = key;
	uint64_t hash = bytes, word;

	for (; bytes > 0; at += sizeof(word)) {
		size_t part = bytes < sizeof(word) ? bytes : sizeof(word);

		word = 0;
		memcpy(&word, at, part);
		hash = (hash ^ word) * MK_INDEX_FACTOR;
		hash ^= hash >> 32;
		bytes -= part;
	}
	hash *= MK_INDEX_FACTOR; /* the last byte of a word reaches only high bits so far */
	return (uint32_t)(hash ^ hash >> 32);
}

static inline struct mk_index_link **mk_index_chain(const struct mk_index *index, uint32_t hash)
{
	return &index->chains[hash & (index->chain_count - 1)];
}

static inline void mk_index_move(struct mk_index *to, const struct mk_index *from)
{
	for (size_t i = 0; i < from->chain_count; i++)
		for (struct mk_index_link *link = from->chains[i], *next; link; link = next) {
			struct mk_index_link **chain = mk_index_chain(to, link->hash);

			next = link->next;
			link->next = *chain;
			*chain = link;
		}
}

/* Without memory, chains become longer. */
static inline int mk_index_grow(struct mk_index *index)
{
	struct mk_index more = *index;

	if (index->count < MK_INDEX_CHAIN_LINKS * index->chain_count)
		return 0;
	more.chain_count = index->chain_count ? 2 * index->chain_count : MK_INDEX_FIRST_CHAINS;
	more.chains = calloc(more.chain_count, sizeof(struct mk_index_link *));
	if (!more.chains)
		return index->chains ? 0 : -ENOMEM;
	mk_index_move(&more, index);
	free(index->chains);
	*index = more;
	return 0;
}

/* Add @link with @hash. Returns -ENOMEM if there is no memory for the first chains. */
static inline int mk_index_add(struct mk_index *index, struct mk_index_link *link, uint32_t hash)
{
	struct mk_index_link **chain;
	int ret = mk_index_grow(index);

	if (ret < 0)
		return ret;
	chain = mk_index_chain(index, hash);
	link->hash = hash;
	link->next = *chain;
	*chain = link;
	index->count++;
	return 0;
}

static inline void mk_index_remove(struct mk_index *index, const struct mk_index_link *link)
{
	struct mk_index_link **chain = mk_index_chain(index, link->hash), *at = *chain;

	while (at != link && at->next != link)
		at = at->next;
	if (at == link)
		*chain = link->next;
	else
		at->next = link->next;
	index->count--;
}

static inline struct mk_index_link *mk_index_with(struct mk_index_link *link, uint32_t hash)
{
	while (link && link->hash != hash)
		link = link->next;
	return link;
}

/* Visit the links with @hash: the first, then those after @link. NULL: no further one. */
static inline struct mk_index_link *mk_index_find(const struct mk_index *index, uint32_t hash)
{
	return index->chains ? mk_index_with(*mk_index_chain(index, hash), hash) : NULL;
}

static inline struct mk_index_link *mk_index_find_next(const struct mk_index_link *link)
{
	return mk_index_with(link->next, link->hash);
}

/* Visit all links: after NULL the first one. Get the next link before @link is removed. What is
 * added meanwhile may be visited or not, and its growth may repeat or leave out others. */
static inline struct mk_index_link *mk_index_after(const struct mk_index *index,
						   const struct mk_index_link *link)
{
	size_t chain = 0;

	if (link && link->next)
		return link->next;
	if (link)
		chain = (link->hash & (index->chain_count - 1)) + 1;
	while (chain < index->chain_count && !index->chains[chain])
		chain++;
	return chain < index->chain_count ? index->chains[chain] : NULL;
}

/* Free the chains, not the entries. */
static inline void mk_index_release(struct mk_index *index)
{
	free(index->chains);
	*index = (struct mk_index){ 0 };
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* With malloc's 8 bytes, a block takes 4 KiB. */
#define MK_CELLS_BLOCK_BYTES 4088

struct mk_cell {
	struct mk_cell *next;
};

struct mk_cells {
	size_t bytes; /* of a cell: a multiple of 8, at most 1024 */
	size_t used;
	struct mk_cell *free;
	struct mk_cell *blocks; /* begin with a link */
};

static inline int mk_cells_grow(struct mk_cells *cells)
{
	size_t at = sizeof(struct mk_cell);
	struct mk_cell *block = malloc(MK_CELLS_BLOCK_BYTES), *cell;

	if (!block)
		return -ENOMEM;
	block->next = cells->blocks;
	cells->blocks = block;
	for (; at + cells->bytes <= MK_CELLS_BLOCK_BYTES; at += cells->bytes) {
		cell = (struct mk_cell *)((char *)block + at);
		cell->next = cells->free;
		cells->free = cell;
	}
	return 0;
}

static inline void mk_cells_free_blocks(struct mk_cells *cells)
{
	struct mk_cell *block;

	while ((block = cells->blocks)) {
		cells->blocks = block->next;
		free(block);
	}
	cells->free = NULL;
}

#ifdef __SANITIZE_ADDRESS__ /* each cell is a block, so that a use after free is seen */
static inline void *mk_cell_new(struct mk_cells *cells)
{
	return calloc(1, cells->bytes);
}

static inline void mk_cell_free(struct mk_cells *cells, void *cell)
{
	(void)cells;
	free(cell);
}
#else
/* Return a zeroed cell. NULL: out of memory. */
static inline void *mk_cell_new(struct mk_cells *cells)
{
	struct mk_cell *cell;

	if (!cells->free && mk_cells_grow(cells) < 0)
		return NULL;
	cell = cells->free;
	cells->free = cell->next;
	cells->used++;
	return memset(cell, 0, cells->bytes);
}

/* Free @cell, and with the last one all blocks. */
static inline void mk_cell_free(struct mk_cells *cells, void *cell)
{
	struct mk_cell *freed = cell;

	freed->next = cells->free;
	cells->free = freed;
	if (--cells->used == 0)
		mk_cells_free_blocks(cells);
}
#endif

/* ---- a hash with a key ----------------------------------------------------------------------- */

/* SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): without the key,
 * contents cannot be chosen to have one hash. */
#define MK_SIPHASH_KEY_BYTES 16

static inline uint64_t mk_siphash_rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static inline uint64_t mk_siphash_word(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

static inline void mk_siphash_rounds(uint64_t v[4], unsigned count)
{
	while (count-- > 0) {
		v[0] += v[1];
		v[1] = mk_siphash_rotate(v[1], 13) ^ v[0];
		v[0] = mk_siphash_rotate(v[0], 32);
		v[2] += v[3];
		v[3] = mk_siphash_rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = mk_siphash_rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = mk_siphash_rotate(v[1], 17) ^ v[2];
		v[2] = mk_siphash_rotate(v[2], 32);
	}
}

static inline void mk_siphash_compress(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	mk_siphash_rounds(v, 2);
	v[0] ^= word;
}

/* Return SipHash-2-4 of @size bytes at @data. */
static inline uint64_t mk_siphash(const uint8_t key[MK_SIPHASH_KEY_BYTES], const void *data,
				  size_t size)
{
	const uint8_t *at = data, *end = at + size / 8 * 8;
	uint64_t k0 = mk_siphash_word(key), k1 = mk_siphash_word(key + 8),
		 last = (uint64_t)size << 56;
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
			  k1 ^ 0x7465646279746573 };

	for (; at < end; at += 8)
		mk_siphash_compress(v, mk_siphash_word(at));
	for (size_t i = 0; i < size % 8; i++)
		last |= (uint64_t)end[i] << (8 * i);
	mk_siphash_compress(v, last);
	v[2] ^= 0xff;
	mk_siphash_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif

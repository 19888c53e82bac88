// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "service/service.h"

/* FNV-1a, 64 bit (Fowler, Noll, Vo: draft-eastlake-fnv). */
static uint64_t fnv1a(uint64_t hash, const void *data, size_t size)
{
	const uint8_t *byte = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3;
	return hash;
}

/* The finalizer of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
 * generators", OOPSLA 2014): FNV's high bits depend little on a key's last byte. */
static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static uint64_t backend_hash(const struct mk_service_backend *backend)
{
	uint16_t port = htons(backend->port);
	uint64_t hash = 0xcbf29ce484222325;

	if (backend->ip.family == AF_INET)
		hash = fnv1a(hash, &backend->ip.v4, sizeof(backend->ip.v4));
	else
		hash = fnv1a(hash, &backend->ip.v6, sizeof(backend->ip.v6));
	return mix(fnv1a(hash, &port, sizeof(port)));
}

/* Order by address and port, which is the same on every node. */
static int compare(const void *left, const void *right, void *ctx)
{
	const struct mk_service_backend *backends = ctx;
	uint16_t i = *(const uint16_t *)left, j = *(const uint16_t *)right;
	int order = mk_ip_compare(&backends[i].ip, &backends[j].ip);

	if (order == 0)
		order = (int)backends[i].port - backends[j].port;
	return order ? order : (int)i - j;
}

/* The next slot that a backend prefers, and the step to the one after it. */
struct permutation {
	uint16_t next, skip;
};

static struct permutation permutation_of(uint64_t hash, uint32_t slots)
{
	return (struct permutation){
		.next = (uint16_t)((hash >> 32) % slots),
		.skip = (uint16_t)((hash & 0xffffffff) % (slots - 1) + 1),
	};
}

static uint16_t step(struct permutation *permutation, uint32_t slots)
{
	uint16_t slot = permutation->next;

	permutation->next = (uint16_t)(((uint32_t)slot + permutation->skip) % slots);
	return slot;
}

static void fill(uint16_t *table, uint32_t slots, const uint16_t *order,
		 struct permutation *permutations, size_t count, bool *taken)
{
	for (uint32_t filled = 0; count > 0 && filled < slots; filled++) {
		size_t turn = filled % count;
		uint16_t slot;

		do
			slot = step(&permutations[turn], slots);
		while (taken[slot]);
		taken[slot] = true;
		table[slot] = order[turn];
	}
}

/* Fill @table, where the elements @order have these hashes. @count may be 0. */
static int fill_by_hash(uint16_t *table, uint32_t slots, const uint16_t *order,
			const uint64_t *hashes, size_t count)
{
	cleanup_free struct permutation *permutations = calloc(count + 1, sizeof(*permutations));
	cleanup_free bool *taken = calloc(slots, sizeof(*taken));

	if (!permutations || !taken)
		return -ENOMEM;
	if (count > slots)
		count = slots;
	for (size_t i = 0; i < count; i++)
		permutations[i] = permutation_of(hashes[order[i]], slots);
	fill(table, slots, order, permutations, count, taken);
	return 0;
}

uint16_t *mk_maglev_new(uint32_t slots, const struct mk_service_backend *backends, size_t count)
{
	cleanup_free uint64_t *hashes = calloc(count + 1, sizeof(*hashes));
	cleanup_free uint16_t *order = calloc(count + 1, sizeof(*order));
	uint16_t *table = calloc(mk_maglev_room(slots), sizeof(*table));

	for (size_t i = 0; hashes && order && i < count; i++) {
		hashes[i] = backend_hash(&backends[i]);
		order[i] = (uint16_t)i;
	}
	if (order && table)
		qsort_r(order, count, sizeof(*order), compare, (void *)(uintptr_t)backends);
	if (!hashes || !order || !table || fill_by_hash(table, slots, order, hashes, count) < 0) {
		free(table);
		return NULL;
	}
	return table;
}

static int compare_hashes(const void *left, const void *right, void *ctx)
{
	const uint64_t *hashes = ctx;
	uint64_t a = hashes[*(const uint16_t *)left], b = hashes[*(const uint16_t *)right];

	return (a > b) - (a < b);
}

int mk_maglev_by_hash(uint16_t *table, uint32_t slots, const uint64_t *hashes, size_t count)
{
	cleanup_free uint16_t *order = calloc(count + 1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		order[i] = (uint16_t)i;
	qsort_r(order, count, sizeof(*order), compare_hashes, (void *)(uintptr_t)hashes);
	return fill_by_hash(table, slots, order, hashes, count);
}

// SPDX-License-Identifier: Apache-2.0
/* Maglev tables. */
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

static uint64_t largest(const uint32_t *weights, size_t count)
{
	uint64_t max = 1;

	for (size_t i = 0; weights && i < count; i++)
		if (weights[i] > max)
			max = weights[i];
	return max;
}

/* Does an element of @weight, which has @slots slots, take one in this round? The one with the
 * largest weight does in each round; another one when its share, rounded, is one more (Envoy's
 * maglev_lb.cc does so, but rounds up). */
static bool takes(uint64_t round, uint64_t weight, uint64_t max, uint64_t slots)
{
	return 2 * round * weight >= max * (2 * slots + 1);
}

/* The elements, in their order. */
struct elements {
	struct permutation *permutations;
	uint32_t *weights; /* NULL: all have the same */
	uint32_t *slots; /* that each has */
	size_t count;
};

static void fill(uint16_t *table, uint32_t slots, const uint16_t *order, struct elements *of,
		 bool *taken)
{
	uint64_t max = largest(of->weights, of->count);
	uint32_t filled = 0;

	for (uint64_t round = 1; of->count > 0 && filled < slots; round++)
		for (size_t i = 0; i < of->count && filled < slots; i++) {
			uint16_t slot;

			if (!takes(round, of->weights ? of->weights[i] : 1, max, of->slots[i]))
				continue;
			do
				slot = step(&of->permutations[i], slots);
			while (taken[slot]);
			taken[slot] = true;
			table[slot] = order[i];
			of->slots[i]++;
			filled++;
		}
}

/* Fill @table, where the elements @order have these hashes and weights. @count may be 0. */
static int fill_by_hash(uint16_t *table, uint32_t slots, const uint16_t *order,
			const uint64_t *hashes, const uint32_t *weights, size_t count)
{
	cleanup_free struct permutation *permutations = calloc(count + 1, sizeof(*permutations));
	cleanup_free uint32_t *ordered = weights ? calloc(count + 1, sizeof(*ordered)) : NULL;
	cleanup_free uint32_t *has = calloc(count + 1, sizeof(*has));
	cleanup_free bool *taken = calloc(slots, sizeof(*taken));
	struct elements of = { permutations, ordered, has, count };

	if (!permutations || !has || !taken || (weights && !ordered))
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		permutations[i] = permutation_of(hashes[order[i]], slots);
		if (weights)
			ordered[i] = weights[order[i]];
	}
	fill(table, slots, order, &of, taken);
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
	if (!hashes || !order || !table ||
	    fill_by_hash(table, slots, order, hashes, NULL, count) < 0) {
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

int mk_maglev_by_hash(uint16_t *table, uint32_t slots, const uint64_t *hashes,
		      const uint32_t *weights, size_t count)
{
	cleanup_free uint16_t *order = calloc(count + 1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		order[i] = (uint16_t)i;
	qsort_r(order, count, sizeof(*order), compare_hashes, (void *)(uintptr_t)hashes);
	return fill_by_hash(table, slots, order, hashes, weights, count);
}

// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <string.h>

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
 * generators", OOPSLA 2014): FNV's high bits know little of a key's last byte. */
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

static int compare(const struct mk_service_backend *a, const struct mk_service_backend *b)
{
	int order = mk_ip_compare(&a->ip, &b->ip);

	return order ? order : (int)a->port - b->port;
}

/* Indexes of the backends in the order of address and port, which every node shares; beyond the
 * table's slots the later ones are left out, since no slot would be left for them anyway. */
static size_t canonical_order(const struct mk_service_backend *backends, size_t count,
			      uint16_t order[MK_MAGLEV_SLOTS])
{
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		size_t low = 0, high = used;

		while (low < high) {
			size_t middle = (low + high) / 2;

			if (compare(&backends[order[middle]], &backends[i]) < 0)
				low = middle + 1;
			else
				high = middle;
		}
		if (low == MK_MAGLEV_SLOTS)
			continue;
		if (used < MK_MAGLEV_SLOTS)
			used++;
		memmove(&order[low + 1], &order[low], (used - 1 - low) * sizeof(*order));
		order[low] = (uint16_t)i;
	}
	return used;
}

struct permutation {
	uint16_t next, skip;
};

static struct permutation permutation_of(const struct mk_service_backend *backend)
{
	uint64_t hash = backend_hash(backend);

	return (struct permutation){
		.next = (uint16_t)((hash >> 32) % MK_MAGLEV_SLOTS),
		.skip = (uint16_t)((hash & 0xffffffff) % (MK_MAGLEV_SLOTS - 1) + 1),
	};
}

static uint16_t step(struct permutation *permutation)
{
	uint16_t slot = permutation->next;

	permutation->next = (uint16_t)((slot + permutation->skip) % MK_MAGLEV_SLOTS);
	return slot;
}

void mk_maglev_fill(struct mk_maglev *table, const struct mk_service_backend *backends,
		    size_t count)
{
	struct permutation permutations[MK_MAGLEV_SLOTS];
	uint16_t order[MK_MAGLEV_SLOTS], slot;
	bool taken[MK_MAGLEV_SLOTS] = { false };
	size_t used = canonical_order(backends, count, order);

	memset(table, 0, sizeof(*table));
	for (size_t i = 0; i < used; i++)
		permutations[i] = permutation_of(&backends[order[i]]);
	for (size_t filled = 0; used > 0 && filled < MK_MAGLEV_SLOTS; filled++) {
		size_t turn = filled % used;

		do
			slot = step(&permutations[turn]);
		while (taken[slot]);
		taken[slot] = true;
		table->backend_index[slot] = order[turn];
	}
}

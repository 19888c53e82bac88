// SPDX-License-Identifier: Apache-2.0
/* Names by content. The hash is SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input
 * PRF", 2012): without the key, contents cannot be chosen to have one name. */
#include "policy/ids.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

static uint64_t rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static uint64_t word_at(const uint8_t *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

static void rounds(uint64_t v[4], unsigned count)
{
	while (count-- > 0) {
		v[0] += v[1];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[0] = rotate(v[0], 32);
		v[2] += v[3];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

static void compress(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

uint64_t siphash(const uint8_t key[HASH_KEY_BYTES], const void *data, size_t size)
{
	const uint8_t *at = data, *end = at + size / 8 * 8;
	uint64_t k0 = word_at(key), k1 = word_at(key + 8), last = (uint64_t)size << 56;
	uint64_t v[4] = { k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
			  k1 ^ 0x7465646279746573 };

	for (; at < end; at += 8)
		compress(v, word_at(at));
	for (size_t i = 0; i < size % 8; i++)
		last |= (uint64_t)end[i] << (8 * i);
	compress(v, last);
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void *memory_new(size_t size)
{
	void *memory = calloc(1, size ?: 1);

	if (!memory)
		uthash_fatal("out of memory");
	return memory;
}

void *memory_grow(void *array, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return array;
	*room = *room ? *room * 2 : 4;
	array = reallocarray(array, *room, size);
	if (!array)
		uthash_fatal("out of memory");
	return array;
}

void bytes_put(struct bytes *bytes, const void *data, size_t size)
{
	if (bytes->room - bytes->count < size) {
		bytes->room = (bytes->count + size) * 2;
		bytes->at = realloc(bytes->at, bytes->room);
		if (!bytes->at)
			uthash_fatal("out of memory");
	}
	if (size > 0)
		memcpy(bytes->at + bytes->count, data, size);
	bytes->count += size;
}

void bytes_put_number(struct bytes *bytes, uint64_t number)
{
	bytes_put(bytes, &number, sizeof(number));
}

void bytes_put_text(struct bytes *bytes, const char *text)
{
	bytes_put_number(bytes, text ? strlen(text) : UINT64_MAX);
	bytes_put(bytes, text, text ? strlen(text) : 0);
}

void bytes_put_cidr(struct bytes *bytes, const struct mk_cidr *cidr)
{
	bytes_put_number(bytes, (uint64_t)cidr->ip.family << 8 | cidr->prefix_bits);
	bytes_put(bytes, &cidr->ip.v6, mk_ip_bits(cidr->ip.family) / 8);
}

void bytes_release(struct bytes *bytes)
{
	free(bytes->at);
}

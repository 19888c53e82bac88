// SPDX-License-Identifier: Apache-2.0
/* Names by content. */
#include "policy/ids.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

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

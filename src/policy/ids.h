/* SPDX-License-Identifier: Apache-2.0 */
/* src/policy/ids.h - names by content: what a thing says is written into a row of bytes, and the
 * keyed hash of the bytes is its name. */
#ifndef MK_POLICY_IDS_H
#define MK_POLICY_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/ip.h"

#define HASH_KEY_BYTES 16

/* Bytes that grow. Texts have their length in front, so that two lists of texts never have the same
 * bytes. */
struct bytes {
	uint8_t *at;
	size_t count, room;
};
void bytes_put(struct bytes *bytes, const void *data, size_t size);
void bytes_put_number(struct bytes *bytes, uint64_t number);
void bytes_put_text(struct bytes *bytes, const char *text); /* NULL differs from "" */
void bytes_put_cidr(struct bytes *bytes, const struct mk_cidr *cidr);
void bytes_release(struct bytes *bytes);
#define cleanup_bytes __attribute__((cleanup(bytes_release)))

/* Return zeroed memory. Without memory the process ends, as uthash does: the pinned datapath goes
 * on, and the agent starts again. */
void *memory_new(size_t size);
/* Make room for one more element of @size bytes in @array, which has @count. */
void *memory_grow(void *array, size_t count, size_t *room, size_t size);

#endif

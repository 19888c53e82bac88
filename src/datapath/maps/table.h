/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/table.h - maps, opened: each operation names the map when it fails. */
#ifndef MK_DATAPATH_MAPS_TABLE_H
#define MK_DATAPATH_MAPS_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct mk_table {
	const char *name; /* a string literal */
	int fd; /* owned by whoever opened it */
	uint32_t type; /* enum bpf_map_type */
	uint32_t key_size, value_size;
	uint32_t max_entries;
	uint64_t
		put_flags; /* BPF_ANY; BPF_F_LOCK where values have a bpf_spin_lock: an entry that is
			     * there is changed in place, so that no lookup misses it */
};

/* Fill @table from @fd. */
mk_must_check int mk_table_init(struct mk_table *table, const char *name, int fd,
				struct mk_error *err);
/* Open the pinned map @name and check the sizes that the caller's structs have.
 * On success the file descriptor is the caller's to close. */
mk_must_check int mk_table_open(struct mk_table *table, const char *bpf_dir, const char *name,
				size_t key_size, size_t value_size, struct mk_error *err);
void mk_table_close(struct mk_table *table);

/* The values of an array that may be mapped (BPF_F_MMAPABLE), one after the other: processes that add to
 * them at once lose nothing, and none waits for another. The caller unmaps *@bytes. NULL: no. */
void *mk_table_map(const struct mk_table *table, size_t *bytes);

/* -ENOENT: no such entry (@err says so). */
mk_must_check int mk_table_get(const struct mk_table *table, const void *key, void *value,
			       struct mk_error *err);
mk_must_check int mk_table_put(const struct mk_table *table, const void *key, const void *value,
			       struct mk_error *err);
/* 1: removed, 0: there was none. */
mk_must_check int mk_table_delete(const struct mk_table *table, const void *key,
				  struct mk_error *err);
/* As mk_table_delete(), and *@value is what was removed. -EOPNOTSUPP: the kernel cannot do that with a
 * hash (before Linux 5.14). */
mk_must_check int mk_table_take(const struct mk_table *table, const void *key, void *value,
				struct mk_error *err);
/* All keys at one time, *@count of them, one after the other, sorted as memcmp(3) does; the caller frees
 * *@keys. A table that changes meanwhile: each key that stayed is there once. */
mk_must_check int mk_table_keys(const struct mk_table *table, void **keys, size_t *count,
				struct mk_error *err);

/* Read a table a piece at a time. Start with a zeroed cursor; it ends with `done`. */
struct mk_cursor {
	uint64_t position[2]; /* the kernel's batch token, or the last key */
	uint8_t key[32];
	int started, done, one_by_one;
};
/* At most @room entries into @keys and @values. Returns how many. */
mk_must_check int mk_table_next(const struct mk_table *table, struct mk_cursor *cursor, void *keys,
				void *values, uint32_t room, struct mk_error *err);

#endif

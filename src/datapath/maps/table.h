/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/table.h - open maps. Keys and values are rows: IPv4 and IPv6 tables have one
 * form, the structs of monokube/abi.h with addresses of 16 bytes. An IPv4 address is IPv4-mapped
 * (::ffff:192.0.2.1), but 0.0.0.0 is all zeros, so zero means "any" or "free" in both families. The
 * error of a failed operation names the map. */
#ifndef MK_DATAPATH_MAPS_TABLE_H
#define MK_DATAPATH_MAPS_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

struct row_form;

struct mk_table {
	const char *name; /* a string literal */
	int fd; /* owned by the code that opened it */
	uint32_t type; /* enum bpf_map_type */
	uint32_t key_size, value_size; /* of rows */
	/* How an IPv4 table stores keys and values; NULL: as rows. */
	const struct row_form *key_form, *value_form;
	uint32_t stored_key_size, stored_value_size;
	uint32_t max_entries;
	/* BPF_ANY; BPF_F_LOCK if values have a bpf_spin_lock: an existing entry is changed in
	 * place, so that no lookup misses it. */
	uint64_t put_flags;
};

/* Return the family of a table with addresses. */
static inline sa_family_t mk_table_family(const struct mk_table *table)
{
	return table->key_form || table->value_form ? AF_INET : AF_INET6;
}

/* Fill @table from @fd. */
mk_must_check int mk_table_init(struct mk_table *table, const char *name, int fd,
				struct mk_error *err);
/* Create a map for rows with these sizes, in the form of @family. The caller closes the table. */
mk_must_check int mk_table_create(struct mk_table *table, const char *name, uint32_t type,
				  size_t key_size, size_t value_size, uint32_t max_entries,
				  sa_family_t family, struct mk_error *err);
/* Open the pinned map @name and check its key and value sizes against the caller's structs. The
 * caller closes the table. */
mk_must_check int mk_table_open(struct mk_table *table, const char *bpf_dir, const char *name,
				size_t key_size, size_t value_size, struct mk_error *err);
void mk_table_close(struct mk_table *table);
#define cleanup_table __attribute__((cleanup(mk_table_close)))

/* Map the values of an array (BPF_F_MMAPABLE) into memory. Processes can then add to them
 * atomically, without waiting for each other. The caller unmaps *@bytes. NULL: the map cannot be
 * mapped. */
void *mk_table_map(const struct mk_table *table, size_t *bytes);
/* Return value @index of such memory as a row. *@room is used if the table stores another form. */
const void *mk_table_mapped_row(const struct mk_table *table, const void *values, size_t index,
				void *room);

/* For callers that keep many entries: return a key or a value as the table stores it, with
 * stored_key_size or stored_value_size bytes. @room has MK_STORED_MAX bytes, and is used if the
 * row has another form. What precedes its first address is at the same place in both. */
#define MK_STORED_MAX 64
const void *mk_table_stored_key(const struct mk_table *table, const void *key, void *room);
const void *mk_table_stored_value(const struct mk_table *table, const void *value, void *room);
/* The opposite. */
void mk_table_key_row(const struct mk_table *table, void *key, const void *stored);
void mk_table_value_row(const struct mk_table *table, void *value, const void *stored);

/* -ENOENT: no such entry (@err says so). */
mk_must_check int mk_table_get(const struct mk_table *table, const void *key, void *value,
			       struct mk_error *err);
/* Return how many values an entry of a per-CPU table has. */
size_t mk_table_cpus(void);
/* Read an entry of a per-CPU table whose value is numbers of 64 bits, and add up each in @sum.
 * After an error, @sum stays. */
int mk_table_sum(const struct mk_table *table, const void *key, void *sum, struct mk_error *err);
mk_must_check int mk_table_put(const struct mk_table *table, const void *key, const void *value,
			       struct mk_error *err);
/* -EEXIST: there is such an entry already, and it stays. */
mk_must_check int mk_table_add(const struct mk_table *table, const void *key, const void *value,
			       struct mk_error *err);
/* 1: removed, 0: there was none. */
mk_must_check int mk_table_delete(const struct mk_table *table, const void *key,
				  struct mk_error *err);
/* As mk_table_delete(), and copy the removed value to *@value. -EOPNOTSUPP: the kernel cannot do
 * this with a hash (before Linux 5.14). */
mk_must_check int mk_table_take(const struct mk_table *table, const void *key, void *value,
				struct mk_error *err);
/* Read all keys, *@count of them, sorted in memcmp(3) order; the caller frees *@keys. If the table
 * changes meanwhile, each key that stayed is listed once. */
mk_must_check int mk_table_keys(const struct mk_table *table, void **keys, size_t *count,
				struct mk_error *err);

/* Visit all entries. A result of @visit other than 0 ends the walk and is returned; if it is
 * negative, @visit sets @err. */
typedef int mk_table_visit_fn(void *ctx, const void *key, const void *value, struct mk_error *err);
mk_must_check int mk_table_each(const struct mk_table *table, mk_table_visit_fn *visit, void *ctx,
				struct mk_error *err);

/* Read a table in batches, with pauses. Start with a zeroed cursor; `done` marks the end. */
struct mk_cursor {
	uint64_t position[8]; /* the kernel's batch token; of a map without buckets the last key */
	uint8_t key[64]; /* as stored */
	int started, done, one_by_one;
};
/* Read at most @room entries into @keys and @values. Returns their number. */
mk_must_check int mk_table_next(const struct mk_table *table, struct mk_cursor *cursor, void *keys,
				void *values, uint32_t room, struct mk_error *err);

/* Return the event @data of ring buffer @name as a row. *@room is used if it is an IPv4 table's.
 * NULL: @data is shorter than any such event. */
const void *mk_event_row(const char *name, const void *data, size_t bytes, void *room);

#endif

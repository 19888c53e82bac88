// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/table.h"

#include <bpf/bpf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"

#define SMALL_BYTES 64 /* largest values that are read along with their keys */

/* Does @error mean that the kernel does not know the operation? */
static bool is_unknown(int error)
{
	enum { KERNELS_OWN_ENOTSUPP = 524 };

	return error == EOPNOTSUPP || error == KERNELS_OWN_ENOTSUPP || error == EINVAL;
}

int mk_table_init(struct mk_table *table, const char *name, int fd, struct mk_error *err)
{
	struct bpf_map_info info = { 0 };
	__u32 size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
		return mk_error_errno(err, errno, "cannot ask for the layout of map '%s'", name);
	*table = (struct mk_table){
		.name = name,
		.fd = fd,
		.type = info.type,
		.key_size = info.key_size,
		.value_size = info.value_size,
		.max_entries = info.max_entries,
	};
	return 0;
}

int mk_table_open(struct mk_table *table, const char *bpf_dir, const char *name, size_t key_size,
		  size_t value_size, struct mk_error *err)
{
	cleanup_close int fd = mk_pin_open(bpf_dir, MK_PIN_MAPS, name, err);
	struct mk_table opened;
	int ret;

	if (fd < 0)
		return fd;
	ret = mk_table_init(&opened, name, fd, err);
	if (ret < 0)
		return ret;
	if (opened.key_size != key_size || opened.value_size != value_size)
		return mk_error_set(
			err, EPROTO,
			"pinned map '%s/%s/%s' has keys of %u and values of %u bytes, this version knows %zu and %zu; use the binary that loaded it",
			bpf_dir, MK_PIN_MAPS, name, opened.key_size, opened.value_size, key_size,
			value_size);
	mk_steal_fd(&fd);
	*table = opened;
	return 0;
}

void mk_table_close(struct mk_table *table)
{
	if (table->name && table->fd >= 0)
		close(table->fd);
	*table = (struct mk_table){ .fd = -1 };
}

void *mk_table_map(const struct mk_table *table, size_t *bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *values;

	*bytes = ((size_t)table->max_entries * table->value_size + page - 1) / page * page;
	values = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, table->fd, 0);
	return values == MAP_FAILED ? NULL : values;
}

int mk_table_get(const struct mk_table *table, const void *key, void *value, struct mk_error *err)
{
	if (bpf_map_lookup_elem(table->fd, key, value) < 0)
		return mk_error_errno(err, errno, "cannot read an entry of map '%s'", table->name);
	return 0;
}

static int put(const struct mk_table *table, const void *key, const void *value, uint64_t flags,
	       struct mk_error *err)
{
	if (bpf_map_update_elem(table->fd, key, value, flags) == 0)
		return 0;
	if (errno == E2BIG || errno == ENOSPC)
		return mk_error_set(err, ENOSPC, "map '%s' is full (%u entries)", table->name,
				    table->max_entries);
	return mk_error_errno(err, errno, "cannot write an entry of map '%s'", table->name);
}

int mk_table_put(const struct mk_table *table, const void *key, const void *value,
		 struct mk_error *err)
{
	return put(table, key, value, table->put_flags, err);
}

int mk_table_add(const struct mk_table *table, const void *key, const void *value,
		 struct mk_error *err)
{
	return put(table, key, value, table->put_flags | BPF_NOEXIST, err);
}

int mk_table_delete(const struct mk_table *table, const void *key, struct mk_error *err)
{
	if (bpf_map_delete_elem(table->fd, key) == 0)
		return 1;
	if (errno == ENOENT)
		return 0;
	return mk_error_errno(err, errno, "cannot remove an entry of map '%s'", table->name);
}

int mk_table_take(const struct mk_table *table, const void *key, void *value, struct mk_error *err)
{
	if (bpf_map_lookup_and_delete_elem(table->fd, key, value) == 0)
		return 1;
	if (errno == ENOENT)
		return 0;
	if (is_unknown(errno))
		return mk_error_set(err, EOPNOTSUPP,
				    "the kernel cannot take an entry out of map '%s' (Linux 5.14)",
				    table->name);
	return mk_error_errno(err, errno, "cannot remove an entry of map '%s'", table->name);
}

/* Grow *@keys to @room keys. */
static int grow(const struct mk_table *table, void **keys, size_t room, struct mk_error *err)
{
	void *bigger = realloc(*keys, room * table->key_size);

	if (!bigger)
		return mk_error_errno(err, ENOMEM, "cannot list map '%s'", table->name);
	*keys = bigger;
	return 0;
}

static int compare_keys(const void *a, const void *b, void *size)
{
	return memcmp(a, b, *(uint32_t *)size);
}

static size_t unique(char *keys, size_t count, uint32_t size)
{
	size_t kept = 0;

	qsort_r(keys, count, size, compare_keys, &size);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || memcmp(keys + (kept - 1) * size, keys + i * size, size) != 0)
			memmove(keys + kept++ * size, keys + i * size, size);
	return kept;
}

/* If a key is removed during the walk, the kernel starts over and returns keys again. The bound
 * ends a walk that other processes' changes would prolong for ever. */
static int keys_one_by_one(const struct mk_table *table, void **keys, size_t *count,
			   struct mk_error *err)
{
	size_t room = 0, bound = (size_t)table->max_entries * 4;
	const void *last = NULL;
	int ret;

	while (*count < bound) {
		if (*count == room) {
			room = room ? room * 2 : 64;
			ret = grow(table, keys, room, err);
			if (ret < 0)
				return ret;
		}
		if (*count > 0)
			last = (char *)*keys + (*count - 1) * table->key_size;
		if (bpf_map_get_next_key(table->fd, last,
					 (char *)*keys + *count * table->key_size) < 0)
			return errno == ENOENT ? 0
					       : mk_error_errno(err, errno, "cannot list map '%s'",
								table->name);
		++*count;
	}
	return 0;
}

/* List the keys in batches, which return the values as well. */
static int keys_in_pieces(const struct mk_table *table, void **keys, size_t *count,
			  struct mk_error *err)
{
	enum { PIECE = 512 };
	cleanup_free void *values = calloc(PIECE, table->value_size);
	struct mk_cursor cursor = { 0 };

	if (!values)
		return mk_error_errno(err, ENOMEM, "cannot list map '%s'", table->name);
	while (!cursor.done) {
		int ret = grow(table, keys, *count + PIECE, err);

		if (ret == 0)
			ret = mk_table_next(table, &cursor,
					    (char *)*keys + *count * table->key_size, values, PIECE,
					    err);
		if (ret < 0)
			return ret;
		*count += (size_t)ret;
	}
	return 0;
}

int mk_table_keys(const struct mk_table *table, void **keys, size_t *count, struct mk_error *err)
{
	bool in_pieces = table->type == BPF_MAP_TYPE_HASH && table->value_size <= SMALL_BYTES;
	cleanup_free void *list = NULL;
	int ret;

	*count = 0;
	ret = (in_pieces ? keys_in_pieces : keys_one_by_one)(table, &list, count, err);
	if (ret < 0)
		return ret;
	*count = *count ? unique(list, *count, table->key_size) : 0;
	*keys = mk_steal_ptr(list);
	return 0;
}

/* Read one by one, for maps without batch operations (LPM tries before Linux 5.13). Entries that
 * are removed meanwhile are left out. */
static int next_one_by_one(const struct mk_table *table, struct mk_cursor *cursor, char *keys,
			   char *values, uint32_t room, struct mk_error *err)
{
	uint32_t used = 0;

	if (table->key_size > sizeof(cursor->key))
		return mk_error_set(err, EINVAL, "keys of map '%s' are too long", table->name);
	while (used < room) {
		char *key = keys + (size_t)used * table->key_size;

		if (bpf_map_get_next_key(table->fd, cursor->started ? cursor->key : NULL, key) <
		    0) {
			if (errno != ENOENT)
				return mk_error_errno(err, errno, "cannot list map '%s'",
						      table->name);
			cursor->done = 1;
			break;
		}
		memcpy(cursor->key, key, table->key_size);
		cursor->started = 1;
		if (bpf_map_lookup_elem(table->fd, key,
					values + (size_t)used * table->value_size) == 0)
			used++;
	}
	return (int)used;
}

int mk_table_next(const struct mk_table *table, struct mk_cursor *cursor, void *keys, void *values,
		  uint32_t room, struct mk_error *err)
{
	uint64_t after[2] = { 0 };
	__u32 count = room;
	int ret;

	if (cursor->done)
		return 0;
	if (cursor->one_by_one)
		return next_one_by_one(table, cursor, keys, values, room, err);
	ret = bpf_map_lookup_batch(table->fd, cursor->started ? cursor->position : NULL, after,
				   keys, values, &count, NULL);
	if (ret < 0 && !cursor->started && is_unknown(errno)) {
		cursor->one_by_one = 1;
		return next_one_by_one(table, cursor, keys, values, room, err);
	}
	if (ret < 0 && errno != ENOENT)
		return mk_error_errno(err, errno, "cannot read map '%s'", table->name);
	cursor->done = ret < 0; /* ENOENT: this was the last batch */
	cursor->started = 1;
	memcpy(cursor->position, after, sizeof(after));
	return (int)count;
}

int mk_table_each(const struct mk_table *table, mk_table_visit_fn *visit, void *ctx,
		  struct mk_error *err)
{
	enum { BATCH = 2048 };
	cleanup_free char *keys = calloc(BATCH, table->key_size);
	cleanup_free char *values = calloc(BATCH, table->value_size);
	struct mk_cursor cursor = { 0 };

	if (!keys || !values)
		return mk_error_errno(err, ENOMEM, "cannot read map '%s'", table->name);
	while (!cursor.done) {
		int count = mk_table_next(table, &cursor, keys, values, BATCH, err);

		if (count < 0)
			return count;
		for (int i = 0; i < count; i++) {
			int ret = visit(ctx, keys + (size_t)i * table->key_size,
					values + (size_t)i * table->value_size, err);

			if (ret != 0)
				return ret;
		}
	}
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/table.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "datapath/maps/pin.h"
#include "datapath/maps/row.h"

#define SMALL_BYTES 96 /* largest values that are read along with their keys */

/* Does @error mean that the kernel does not know the operation? */
static bool is_unknown(int error)
{
	enum { KERNELS_OWN_ENOTSUPP = 524 };

	return error == EOPNOTSUPP || error == KERNELS_OWN_ENOTSUPP || error == EINVAL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A table of IPv4 has keys of the short form. If these have no address, its values do; values may
 * be an earlier version's, which are shorter at their end. */
static bool is_ipv4(const struct mk_table *table, const struct row_form *key,
		    const struct row_form *value)
{
	if (key)
		return table->stored_key_size == key->ipv4_bytes;
	return value && table->stored_value_size <= value->ipv4_bytes;
}

static uint32_t left_out(const struct row_form *form)
{
	return form ? (uint32_t)(form->row_bytes - form->ipv4_bytes) : 0;
}

static void choose_forms(struct mk_table *table)
{
	const struct row_form *key = row_key_form(table->name);
	const struct row_form *value = row_value_form(table->name);

	if (!is_ipv4(table, key, value))
		return;
	table->key_form = key;
	table->value_form = value;
	table->key_size += left_out(key);
	table->value_size += left_out(value);
}

static const void *narrow(const struct row_form *form, const void *row, size_t bytes, void *room)
{
	if (!form)
		return row;
	row_narrow(form, room, row, bytes);
	return room;
}

const void *mk_table_stored_key(const struct mk_table *table, const void *key, void *room)
{
	return narrow(table->key_form, key, table->key_size, room);
}

const void *mk_table_stored_value(const struct mk_table *table, const void *value, void *room)
{
	return narrow(table->value_form, value, table->value_size, room);
}

static void to_row(const struct row_form *form, void *row, const void *stored, size_t bytes)
{
	if (form)
		row_widen(form, row, stored, bytes);
	else
		memcpy(row, stored, bytes);
}

void mk_table_key_row(const struct mk_table *table, void *key, const void *stored)
{
	to_row(table->key_form, key, stored, table->key_size);
}

void mk_table_value_row(const struct mk_table *table, void *value, const void *stored)
{
	to_row(table->value_form, value, stored, table->value_size);
}

size_t mk_table_cpus(void)
{
	int cpus = libbpf_num_possible_cpus();

	return cpus > 0 ? (size_t)cpus : 1;
}

/* The number of values of an entry, one per CPU or one, and the distance between them. */
static size_t values_of(const struct mk_table *table)
{
	return table->type == BPF_MAP_TYPE_PERCPU_ARRAY ? mk_table_cpus() : 1;
}

static size_t value_step(uint32_t size)
{
	return (size + 7u) / 8 * 8;
}

/* Return @value as it is stored, in *@room, which the caller frees. */
static const void *stored_value(const struct mk_table *table, const void *value, void **room)
{
	size_t step = value_step(table->stored_value_size), count = values_of(table);

	if (!table->value_form)
		return value;
	*room = calloc(count, step);
	for (size_t i = 0; *room && i < count; i++)
		row_narrow(table->value_form, (char *)*room + i * step,
			   (const char *)value + i * value_step(table->value_size),
			   table->value_size);
	return *room;
}

/* Make rows of @count stored keys or values at the same place, from the last to the first. */
static void to_rows(const struct row_form *form, char *at, size_t count, size_t stored_step,
		    size_t step, size_t bytes)
{
	for (size_t i = count; form && i-- > 0;)
		row_widen(form, at + i * step, at + i * stored_step, bytes);
}

static void value_to_row(const struct mk_table *table, void *value)
{
	to_rows(table->value_form, value, values_of(table), value_step(table->stored_value_size),
		value_step(table->value_size), table->value_size);
}

/* ---- open ------------------------------------------------------------------------------------ */

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
		.stored_key_size = info.key_size,
		.stored_value_size = info.value_size,
		.max_entries = info.max_entries,
	};
	choose_forms(table);
	return 0;
}

int mk_table_create(struct mk_table *table, const char *name, uint32_t type, size_t key_size,
		    size_t value_size, uint32_t max_entries, sa_family_t family,
		    struct mk_error *err)
{
	const bool is_short = family == AF_INET;
	const size_t key_bytes = key_size - (is_short ? left_out(row_key_form(name)) : 0);
	const size_t value_bytes = value_size - (is_short ? left_out(row_value_form(name)) : 0);
	cleanup_close int fd = bpf_map_create(type, name, (uint32_t)key_bytes,
					      (uint32_t)value_bytes, max_entries, NULL);
	int ret;

	if (fd < 0)
		return mk_error_errno(err, errno, "cannot create a map '%s'", name);
	ret = mk_table_init(table, name, fd, err);
	if (ret == 0)
		mk_steal_fd(&fd);
	return ret;
}

static int refuse_layout(const struct mk_table *table, const char *bpf_dir, size_t key_size,
			 size_t value_size, struct mk_error *err)
{
	char path[PATH_MAX] = "";
	int ret = mk_pin_path(path, bpf_dir, MK_PIN_MAPS, table->name, err);

	if (ret < 0)
		return ret;
	return mk_error_set(
		err, EPROTO,
		"pinned map '%s' has keys of %u and values of %u bytes, this version knows %zu and %zu; use the binary that loaded it",
		path, table->stored_key_size, table->stored_value_size,
		key_size - (table->key_size - table->stored_key_size),
		value_size - (table->value_size - table->stored_value_size));
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
		return refuse_layout(&opened, bpf_dir, key_size, value_size, err);
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

	*bytes = table->max_entries * value_step(table->stored_value_size);
	*bytes = (*bytes + page - 1) / page * page;
	values = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, table->fd, 0);
	return values == MAP_FAILED ? NULL : values;
}

/* The kernel rounds the distance of mapped values up to eight bytes. */
const void *mk_table_mapped_row(const struct mk_table *table, const void *values, size_t index,
				void *room)
{
	const char *stored = (const char *)values + index * value_step(table->stored_value_size);

	if (!table->value_form)
		return stored;
	row_widen(table->value_form, room, stored, table->value_size);
	return room;
}

/* ---- one entry ------------------------------------------------------------------------------- */

/* A value buffer has room for rows, so the stored value fits. */
int mk_table_get(const struct mk_table *table, const void *key, void *value, struct mk_error *err)
{
	uint8_t room[MK_STORED_MAX];

	if (bpf_map_lookup_elem(table->fd, mk_table_stored_key(table, key, room), value) < 0)
		return mk_error_errno(err, errno, "cannot read an entry of map '%s'", table->name);
	value_to_row(table, value);
	return 0;
}

int mk_table_sum(const struct mk_table *table, const void *key, void *sum, struct mk_error *err)
{
	size_t numbers = table->value_size / sizeof(uint64_t), count = numbers * mk_table_cpus();
	cleanup_free uint64_t *values = calloc(count, sizeof(*values));
	uint64_t *to = sum;
	int ret;

	if (!values)
		return mk_error_errno(err, ENOMEM, "cannot read an entry of map '%s'", table->name);
	ret = mk_table_get(table, key, values, err);
	for (size_t i = 0; ret == 0 && i < count; i++)
		to[i % numbers] += values[i];
	return ret;
}

static int put(const struct mk_table *table, const void *key, const void *value, uint64_t flags,
	       struct mk_error *err)
{
	cleanup_free void *value_room = NULL;
	const void *stored = stored_value(table, value, &value_room);
	uint8_t room[MK_STORED_MAX];

	if (!stored)
		return mk_error_errno(err, ENOMEM, "cannot write an entry of map '%s'",
				      table->name);
	if (bpf_map_update_elem(table->fd, mk_table_stored_key(table, key, room), stored, flags) ==
	    0)
		return 0;
	if (errno == E2BIG || errno == ENOSPC)
		return mk_error_set(err, ENOSPC, "map '%s' is full (%u entries)", table->name,
				    table->max_entries);
	if (errno == ENOMEM)
		return mk_error_set(err, ENOMEM,
				    "the kernel has no memory for another entry of map '%s'",
				    table->name);
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
	uint8_t room[MK_STORED_MAX];

	if (bpf_map_delete_elem(table->fd, mk_table_stored_key(table, key, room)) == 0)
		return 1;
	if (errno == ENOENT)
		return 0;
	return mk_error_errno(err, errno, "cannot remove an entry of map '%s'", table->name);
}

int mk_table_take(const struct mk_table *table, const void *key, void *value, struct mk_error *err)
{
	uint8_t room[MK_STORED_MAX];

	if (bpf_map_lookup_and_delete_elem(table->fd, mk_table_stored_key(table, key, room),
					   value) == 0) {
		value_to_row(table, value);
		return 1;
	}
	if (errno == ENOENT)
		return 0;
	if (is_unknown(errno))
		return mk_error_set(err, EOPNOTSUPP,
				    "the kernel cannot take an entry out of map '%s' (Linux 5.14)",
				    table->name);
	return mk_error_errno(err, errno, "cannot remove an entry of map '%s'", table->name);
}

/* ---- all entries ----------------------------------------------------------------------------- */

/* Read one by one, for maps without batch operations (LPM tries before Linux 5.13). Entries that
 * are removed meanwhile are left out. */
static int next_one_by_one(const struct mk_table *table, struct mk_cursor *cursor, char *keys,
			   char *values, uint32_t room, struct mk_error *err)
{
	uint32_t used = 0;

	if (table->stored_key_size > sizeof(cursor->key))
		return mk_error_set(err, EINVAL, "keys of map '%s' are too long", table->name);
	while (used < room) {
		char *key = keys + (size_t)used * table->stored_key_size;

		if (bpf_map_get_next_key(table->fd, cursor->started ? cursor->key : NULL, key) <
		    0) {
			if (errno != ENOENT)
				return mk_error_errno(err, errno, "cannot list map '%s'",
						      table->name);
			cursor->done = 1;
			break;
		}
		memcpy(cursor->key, key, table->stored_key_size);
		cursor->started = 1;
		if (bpf_map_lookup_elem(table->fd, key,
					values + (size_t)used * table->stored_value_size) == 0)
			used++;
	}
	return (int)used;
}

static int next_stored(const struct mk_table *table, struct mk_cursor *cursor, void *keys,
		       void *values, uint32_t room, struct mk_error *err)
{
	uint64_t after[MK_ARRAY_SIZE(cursor->position)] = { 0 };
	__u32 count = room;
	int ret;

	if (cursor->done)
		return 0;
	/* the token of a trie is its last key, that of a hash the number of a bucket */
	if (cursor->one_by_one ||
	    (table->type == BPF_MAP_TYPE_LPM_TRIE && table->stored_key_size > sizeof(after)))
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

int mk_table_next(const struct mk_table *table, struct mk_cursor *cursor, void *keys, void *values,
		  uint32_t room, struct mk_error *err)
{
	int ret = next_stored(table, cursor, keys, values, room, err);

	if (ret <= 0)
		return ret;
	to_rows(table->key_form, keys, (size_t)ret, table->stored_key_size, table->key_size,
		table->key_size);
	to_rows(table->value_form, values, (size_t)ret, table->stored_value_size, table->value_size,
		table->value_size);
	return ret;
}

/* Grow *@keys to @room keys, which are stored ones until the list is complete. */
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
			last = (char *)*keys + (*count - 1) * table->stored_key_size;
		if (bpf_map_get_next_key(table->fd, last,
					 (char *)*keys + *count * table->stored_key_size) < 0)
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
	cleanup_free void *values = calloc(PIECE, table->stored_value_size);
	struct mk_cursor cursor = { 0 };

	if (!values)
		return mk_error_errno(err, ENOMEM, "cannot list map '%s'", table->name);
	while (!cursor.done) {
		int ret = grow(table, keys, *count + PIECE, err);

		if (ret == 0)
			ret = next_stored(table, &cursor,
					  (char *)*keys + *count * table->stored_key_size, values,
					  PIECE, err);
		if (ret < 0)
			return ret;
		*count += (size_t)ret;
	}
	return 0;
}

int mk_table_keys(const struct mk_table *table, void **keys, size_t *count, struct mk_error *err)
{
	bool in_pieces =
		table->type == BPF_MAP_TYPE_HASH && table->stored_value_size <= SMALL_BYTES;
	cleanup_free void *list = NULL;
	int ret;

	*count = 0;
	ret = (in_pieces ? keys_in_pieces : keys_one_by_one)(table, &list, count, err);
	if (ret < 0)
		return ret;
	*count = *count ? unique(list, *count, table->stored_key_size) : 0;
	to_rows(table->key_form, list, *count, table->stored_key_size, table->key_size,
		table->key_size);
	*keys = mk_steal_ptr(list);
	return 0;
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

/* ---- ring buffers ---------------------------------------------------------------------------- */

const void *mk_event_row(const char *name, const void *data, size_t bytes, void *room)
{
	const struct row_form *form =
		strcmp(name, "flow_events") == 0 ? &row_form_flow_event : &row_form_drop_event;

	if (bytes >= form->row_bytes)
		return data;
	if (bytes < form->ipv4_bytes)
		return NULL;
	row_widen(form, room, data, form->row_bytes);
	return room;
}

// SPDX-License-Identifier: Apache-2.0
/* A table that another version made larger or smaller, with the same keys and values: a new one
 * takes its place, with all its entries. They are copied before the new programs run, because
 * those find nothing in the old table, and once more when the last old program has ended, for
 * what was entered in between. An entry that was removed in between comes back; sessions expire
 * and pods are reaped, so it does not stay. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/datapath_internal.h"

int mk_migration_add(struct mk_datapath *datapath, const char *name, int old_fd,
		     struct mk_error *err)
{
	struct mk_migration *migration = &datapath->migrations[datapath->migration_count];

	if (datapath->migration_count == MK_MIGRATIONS)
		return mk_error_set(err, ENOSPC, "more than %d maps to move", MK_MIGRATIONS);
	snprintf(migration->name, sizeof(migration->name), "%s", name);
	migration->old_fd = old_fd;
	datapath->migration_count++;
	return 0;
}

bool mk_migration_of(const struct mk_datapath *datapath, const char *name)
{
	for (size_t i = 0; i < datapath->migration_count; i++)
		if (strcmp(datapath->migrations[i].name, name) == 0)
			return true;
	return false;
}

void mk_migrations_release(struct mk_datapath *datapath)
{
	for (size_t i = 0; i < datapath->migration_count; i++)
		close(datapath->migrations[i].old_fd);
	datapath->migration_count = 0;
}

static bool is_array(uint32_t type)
{
	return type == BPF_MAP_TYPE_ARRAY || type == BPF_MAP_TYPE_PERCPU_ARRAY;
}

/* Of a per-CPU table each entry has one value per CPU, each padded to eight bytes. */
static size_t value_room(const struct mk_table *table)
{
	int cpus = libbpf_num_possible_cpus();

	if (table->type != BPF_MAP_TYPE_PERCPU_ARRAY)
		return table->value_size;
	return (table->value_size + 7) / 8 * 8 * (size_t)(cpus > 0 ? cpus : 1);
}

/* An array's slots are all there from the start: one beyond the end of the new one stays behind. */
static int copy_entry(const struct mk_table *from, const struct mk_table *to, const void *key,
		      void *value, struct mk_error *err)
{
	if (bpf_map_lookup_elem(from->fd, key, value) < 0)
		return 0; /* gone since the listing */
	if (is_array(to->type) && *(const uint32_t *)key >= to->max_entries)
		return 0;
	if (bpf_map_update_elem(to->fd, key, value, is_array(to->type) ? BPF_ANY : BPF_NOEXIST) ==
		    0 ||
	    errno == EEXIST)
		return 0;
	return mk_error_errno(err, errno,
			      "cannot move map '%s' (%u entries at most) to its new size (%u)",
			      from->name, from->max_entries, to->max_entries);
}

static int copy_table(const struct mk_table *from, const struct mk_table *to, struct mk_error *err)
{
	cleanup_free void *keys = NULL, *value = malloc(value_room(from));
	size_t count;
	int ret;

	if (!value)
		return mk_error_errno(err, ENOMEM, "cannot move map '%s'", from->name);
	ret = mk_table_keys(from, &keys, &count, err);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = copy_entry(from, to, (char *)keys + i * from->key_size, value, err);
	return ret;
}

static int copy(const struct mk_datapath *datapath, const struct mk_migration *migration,
		bool again, struct mk_error *err)
{
	struct mk_table from, to;
	int fd = mk_object_map(datapath->object, migration->name, err);
	int ret = fd < 0 ? fd : mk_table_init(&from, migration->name, migration->old_fd, err);

	if (ret == 0)
		ret = mk_table_init(&to, migration->name, fd, err);
	if (ret < 0)
		return ret;
	/* a ring buffer holds reports that somebody reads at once or never; an array's values have
	 * moved on by the second time */
	if (from.type == BPF_MAP_TYPE_RINGBUF || (again && is_array(from.type)))
		return 0;
	if (!again)
		mk_log_info("map moves to its new size name=%s entries=%u before=%u", from.name,
			    to.max_entries, from.max_entries);
	return copy_table(&from, &to, err);
}

int mk_migrations_copy(const struct mk_datapath *datapath, bool again, struct mk_error *err)
{
	for (size_t i = 0; i < datapath->migration_count; i++) {
		int ret = copy(datapath, &datapath->migrations[i], again, err);

		if (ret < 0)
			return ret;
	}
	return 0;
}

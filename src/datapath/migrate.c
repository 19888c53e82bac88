// SPDX-License-Identifier: Apache-2.0
/* A table that another version made larger or smaller, with the same keys and values: a new one
 * takes its place, with all its entries. So it is with Maglev tables after maglevTableSize was
 * changed, only that they are computed, from backends that no program writes. They are copied before the new programs run, because
 * those find nothing in the old table, and once more when the last old program has ended, for
 * what was entered in between. An entry that was removed in between comes back; sessions expire
 * and pods are reaped, so it does not stay. */
#include <arpa/inet.h>
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
	if (errno == E2BIG)
		return mk_error_set(
			err, ENOSPC,
			"map '%s' has more entries in use than the %u that are wanted of "
			"it, of %u now: ask for more, or again when there are fewer",
			from->name, to->max_entries, from->max_entries);
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

/* All backends of one generation, as many as there are; the caller frees *@backends. */
static int read_backends(const struct mk_table *table, const struct mk_maglev_key *of,
			 struct mk_service_backend **backends, size_t *count, struct mk_error *err)
{
	struct mk_backend_key key = { .service_id = of->service_id, .generation = of->generation };
	struct mk_service_backend *list = NULL;
	struct mk_backend value;
	size_t room = 0;

	for (; bpf_map_lookup_elem(table->fd, &key, &value) == 0; key.index++) {
		if (key.index == room) {
			struct mk_service_backend *more;

			room = room ? room * 2 : 16;
			more = reallocarray(list, room, sizeof(*list));
			if (!more) {
				free(list);
				return mk_error_errno(err, ENOMEM, "cannot read map '%s'",
						      table->name);
			}
			list = more;
		}
		list[key.index] = (struct mk_service_backend){ .ip = mk_ip_from_addr(&value.addr),
							       .port = ntohs(value.port) };
	}
	*backends = list;
	*count = key.index;
	return 0;
}

static int compute_maglev(const struct mk_datapath *datapath, const struct mk_table *to,
			  const struct mk_table *backends_table, const struct mk_maglev_key *key,
			  struct mk_error *err)
{
	cleanup_free struct mk_service_backend *backends = NULL;
	uint32_t slots = datapath->node.maglev_slots;
	cleanup_free uint16_t *table = NULL;
	size_t count = 0;
	int ret = read_backends(backends_table, key, &backends, &count, err);

	if (ret < 0)
		return ret;
	table = mk_maglev_new(slots ? slots : MK_MAGLEV_SLOTS, backends, count);
	if (!table)
		return mk_error_errno(err, ENOMEM, "Maglev table");
	return mk_table_put(to, key, table, err);
}

/* Maglev tables of another length follow from the backends that are in their own table. Those of
 * replaced generations too: a packet may be on its way to one. */
static int compute_table(const struct mk_datapath *datapath, const struct mk_table *from,
			 const struct mk_table *to, struct mk_error *err)
{
	int fd = mk_object_map(datapath->object, "service_backends", err);
	cleanup_free void *keys = NULL;
	struct mk_table backends;
	size_t count;
	int ret = fd < 0 ? fd : mk_table_init(&backends, "service_backends", fd, err);

	if (ret == 0)
		ret = mk_table_keys(from, &keys, &count, err);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = compute_maglev(datapath, to, &backends, (struct mk_maglev_key *)keys + i,
				     err);
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
		mk_log_info("map moves to its new size name=%s entries=%u before=%u value_bytes=%u "
			    "before=%u",
			    from.name, to.max_entries, from.max_entries, to.value_size,
			    from.value_size);
	if (from.value_size != to.value_size)
		return again ? 0 : compute_table(datapath, &from, &to, err);
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

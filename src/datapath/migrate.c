// SPDX-License-Identifier: Apache-2.0
/* Replace tables of another version or configuration by new tables, with all entries:
 * - Another number of entries: entries are copied.
 * - Longer values than an earlier version's: zeros are appended (see MK_ABI_VERSION).
 * - Pods: each entry is written to its slot, which depends on the number of slots.
 * - New sessions (struct mk_session_place): each also gets a place in the queue, which is the order
 *   of eviction. Sessions beyond the new capacity are left behind, as if they had been evicted.
 * - Maglev tables of another length (maglevTableSize was changed): computed again from the
 *   backends, which no program writes.
 * Entries are copied three times: first so that the agent can read them; again just before the new
 * programs run, because those do not see the old table; and after the last old program has ended,
 * for entries that it wrote in between. An entry that was removed in between comes back, but does
 * not stay: sessions expire and pods are reaped. A connection whose first packets fall into the
 * milliseconds of the second copy may have to repeat one: the program that gets the answer does not
 * use the table with its session. */
#include <arpa/inet.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/datapath_internal.h"
#include "datapath/pods/pod_table.h"

int migration_add(struct mk_datapath *datapath, const char *name, int old_fd, bool only_add,
		  struct mk_error *err)
{
	struct mk_migration *migration = &datapath->migrations[datapath->migration_count];

	if (datapath->migration_count == MK_MIGRATIONS)
		return mk_error_set(err, ENOSPC, "more than %d maps to move", MK_MIGRATIONS);
	snprintf(migration->name, sizeof(migration->name), "%s", name);
	migration->old_fd = old_fd;
	migration->only_add = only_add;
	datapath->migration_count++;
	return 0;
}

bool migration_of(const struct mk_datapath *datapath, const char *name)
{
	for (size_t i = 0; i < datapath->migration_count; i++)
		if (strcmp(datapath->migrations[i].name, name) == 0)
			return true;
	return false;
}

void migrations_release(struct mk_datapath *datapath)
{
	for (size_t i = 0; i < datapath->migration_count; i++)
		close(datapath->migrations[i].old_fd);
	datapath->migration_count = 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

struct copying {
	const struct mk_table *from, *to;
	bool only_add; /* existing entries are newer */
	void *grown; /* buffer for a value of the new table's size */
	const struct mk_table *order; /* the queue of a table of new sessions, otherwise NULL */
	unsigned int left_out;
};

/* Return the values per entry: a per-CPU table has one per CPU, each padded to eight bytes. */
static size_t values_of(const struct mk_table *table)
{
	return table->type == BPF_MAP_TYPE_PERCPU_ARRAY ? mk_table_cpus() : 1;
}

static size_t value_room(const struct mk_table *table)
{
	return (table->value_size + 7u) / 8 * 8;
}

/* Append zeros to a value of an older version. */
static const void *grow(const struct copying *copying, const void *value)
{
	size_t old = value_room(copying->from), new = value_room(copying->to);

	if (copying->from->value_size == copying->to->value_size)
		return value;
	memset(copying->grown, 0, new *values_of(copying->to));
	for (size_t i = 0; i < values_of(copying->to); i++)
		memcpy((char *)copying->grown + i * new, (const char *)value + i * old,
		       copying->from->value_size);
	return copying->grown;
}

/* Add a new session and its place in the queue. If newer sessions have filled the queue, the
 * session goes without a place and only the agent's sweep removes it. */
static int put_new_session(const struct copying *copying, const void *key,
			   const struct mk_session *session)
{
	struct mk_session_place place = { .created_ns = session->created_ns };
	int ret = mk_table_add(copying->to, key, session, NULL);

	memcpy(&place.key, key, sizeof(place.key));
	if (ret == 0 && session->flags & MK_SESSION_FORWARD &&
	    mk_table_put(copying->order, NULL, &place, NULL) < 0)
		return 0; /* without a place */
	if (ret == -EEXIST && !copying->only_add)
		return mk_table_put(copying->to, key, session, NULL);
	return ret == -ENOSPC ? 0 : ret;
}

static int put_value(const struct copying *copying, const void *key, const void *value)
{
	const void *grown = grow(copying, value);

	if (copying->order)
		return put_new_session(copying, key, grown);
	return copying->only_add ? mk_table_add(copying->to, key, grown, NULL)
				 : mk_table_put(copying->to, key, grown, NULL);
}

/* Write an entry to the new table. If that table is in use and full, the entry is lost. */
static int put(void *ctx, const void *key, const void *value, struct mk_error *err)
{
	struct copying *copying = ctx;
	const struct mk_table *from = copying->from, *to = copying->to;
	int ret = put_value(copying, key, value);

	if (ret == 0 || ret == -EEXIST)
		return 0;
	if (ret == -ENOSPC && copying->only_add) {
		copying->left_out++;
		return 0;
	}
	if (ret == -ENOSPC)
		return mk_error_set(
			err, ENOSPC,
			"map '%s' has more entries in use than the new size %u (now %u): choose a larger size, or try again when fewer are in use",
			from->name, to->max_entries, from->max_entries);
	return mk_error_errno(err, -ret,
			      "cannot move map '%s' (%u entries at most) to its new size (%u)",
			      from->name, from->max_entries, to->max_entries);
}

/* A pod's slot follows from its address and the number of slots. */
static uint32_t new_slot(const struct copying *copying, uint32_t slot, const void *value)
{
	static const struct mk_addr none;
	const struct mk_pod_policy *pod = value;

	if (strcmp(copying->from->name, "pod_policies") != 0 || mk_addr_eq(&pod->addr, &none))
		return slot;
	return mk_pod_slot(&pod->addr, copying->to->max_entries);
}

/* Copy an array, except slots beyond the end of the new one. An array that is already in use is not
 * copied: its values are newer. */
static int copy_array(struct copying *copying, struct mk_error *err)
{
	const struct mk_table *from = copying->from;
	cleanup_free void *value = malloc(value_room(from) * values_of(from));
	int ret = 0;

	if (copying->only_add)
		return 0;
	if (!value)
		return mk_error_errno(err, ENOMEM, "cannot move map '%s'", from->name);
	for (uint32_t slot = 0; ret == 0 && slot < from->max_entries; slot++) {
		uint32_t to;

		if (mk_table_get(from, &slot, value, NULL) < 0)
			continue;
		to = new_slot(copying, slot, value);
		if (to < copying->to->max_entries)
			ret = put(copying, &to, value, err);
	}
	return ret;
}

static bool is_array(uint32_t type)
{
	return type == BPF_MAP_TYPE_ARRAY || type == BPF_MAP_TYPE_PERCPU_ARRAY;
}

/* Open the queue of a table of new sessions; the object owns the file descriptor. Returns false if
 * @table is another table. */
static bool open_order(const struct mk_datapath *datapath, const char *table,
		       struct mk_table *order)
{
	const char *name = strcmp(table, "sessions_young") == 0	      ? "sessions_order"
			   : strcmp(table, "nat_sessions_young") == 0 ? "nat_sessions_order"
								      : NULL;
	int fd = name ? mk_object_map(datapath->object, name, NULL) : -1;

	return fd >= 0 && mk_table_init(order, name, fd, NULL) == 0;
}

static int copy_table(const struct mk_datapath *datapath, const struct mk_table *from,
		      const struct mk_table *to, bool only_add, struct mk_error *err)
{
	cleanup_free void *grown = malloc(value_room(to) * values_of(to));
	struct copying copying = { .from = from, .to = to, .only_add = only_add, .grown = grown };
	struct mk_table order;
	int ret;

	if (open_order(datapath, from->name, &order))
		copying.order = &order;
	if (!grown)
		return mk_error_errno(err, ENOMEM, "cannot move map '%s'", from->name);
	ret = is_array(from->type) ? copy_array(&copying, err)
				   : mk_table_each(from, put, &copying, err);
	if (copying.left_out)
		mk_log_error(
			"map is full, entries written during the move are lost name=%s max_entries=%u lost=%u",
			to->name, to->max_entries, copying.left_out);
	return ret;
}

/* ---- pods ------------------------------------------------------------------------------------ */

/* A pod whose slot is in use stays without network; the migration goes on for the others. */
static int put_pod(const struct mk_table *to, const struct mk_pod *pod, bool only_add,
		   struct mk_error *err)
{
	struct mk_error why;
	struct mk_pod there;
	int ret;

	if (only_add && mk_pod_table_get(to, &pod->addr, &there, NULL) == 0)
		return 0;
	ret = mk_pod_table_put(to, pod, &why);
	if (ret == -EEXIST)
		mk_log_error("entry of a pod is not moved to the new map: %s", mk_error_text(&why));
	if (ret == 0 || ret == -EEXIST)
		return 0;
	return mk_error_set(err, -ret, "%s", mk_error_text(&why));
}

static int copy_pods(const struct mk_table *from, const struct mk_table *to, bool only_add,
		     struct mk_error *err)
{
	cleanup_free struct mk_pod *pods = NULL;
	size_t count = 0;
	int ret = mk_pod_table_read(from, &pods, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = put_pod(to, &pods[i], only_add, err);
	return ret;
}

/* ---- Maglev tables --------------------------------------------------------------------------- */

/* Add all backends of one generation to *@backends, which the caller frees. */
static int read_backends(const struct mk_table *table, const struct mk_maglev_key *of,
			 struct mk_service_backend **backends, size_t *count, struct mk_error *err)
{
	struct mk_backend_key key = { .set_id = of->set_id, .generation = of->generation };
	struct mk_backend value;

	for (; mk_table_get(table, &key, &value, NULL) == 0; key.index++) {
		struct mk_service_backend *added = mk_append(*backends, *count);

		if (!added)
			return mk_error_errno(err, ENOMEM, "cannot read map '%s'", table->name);
		added->ip = mk_ip_from_addr(&value.addr);
		added->port = ntohs(value.port);
	}
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

/* Compute the Maglev tables of another length from the backends in their table. This includes
 * tables of replaced generations: a program may still look one up. */
static int compute_table(const struct mk_datapath *datapath, const struct mk_table *from,
			 const struct mk_table *to, struct mk_error *err)
{
	int fd = mk_object_map(datapath->object, "service_backends", err);
	cleanup_free void *keys = NULL;
	struct mk_table backends;
	size_t count;
	int ret = fd < 0 ? fd : mk_table_init(&backends, "service_backends", fd, err);

	ret = ret ?: mk_table_keys(from, &keys, &count, err);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = compute_maglev(datapath, to, &backends, (struct mk_maglev_key *)keys + i,
				     err);
	return ret;
}

/* ---- all steps ------------------------------------------------------------------------------- */

static int open_both(const struct mk_datapath *datapath, const struct mk_migration *migration,
		     struct mk_table *from, struct mk_table *to, struct mk_error *err)
{
	int fd = mk_object_map(datapath->object, migration->name, err);
	int ret = fd < 0 ? fd : mk_table_init(from, migration->name, migration->old_fd, err);

	return ret < 0 ? ret : mk_table_init(to, migration->name, fd, err);
}

static void say(const struct mk_migration *migration, const struct mk_table *from,
		const struct mk_table *to)
{
	if (migration->only_add)
		mk_log_info("map takes over entries that a killed agent left behind name=%s",
			    from->name);
	else
		mk_log_info(
			"map moves to its new size name=%s entries=%u before=%u value_bytes=%u before=%u",
			from->name, to->max_entries, from->max_entries, to->stored_value_size,
			from->stored_value_size);
}

static int copy(const struct mk_datapath *datapath, const struct mk_migration *migration,
		bool again, struct mk_error *err)
{
	struct mk_table from, to;
	int ret = open_both(datapath, migration, &from, &to, err);

	if (ret < 0)
		return ret;
	/* events in a ring buffer and flows of chains with ends are not worth moving; queue entries
	 * are written with the sessions */
	if (from.type == BPF_MAP_TYPE_RINGBUF || from.type == BPF_MAP_TYPE_QUEUE ||
	    from.type == BPF_MAP_TYPE_ARRAY_OF_MAPS)
		return 0;
	if (!again)
		say(migration, &from, &to);
	if (from.value_size != to.value_size && strcmp(from.name, "maglev") == 0)
		return again ? 0 : compute_table(datapath, &from, &to, err);
	if (strcmp(from.name, "pods") == 0)
		return copy_pods(&from, &to, migration->only_add || datapath->published, err);
	return copy_table(datapath, &from, &to, migration->only_add || datapath->published, err);
}

int migrations_copy(const struct mk_datapath *datapath, bool again, struct mk_error *err)
{
	for (size_t i = 0; i < datapath->migration_count; i++) {
		int ret = copy(datapath, &datapath->migrations[i], again, err);

		if (ret < 0)
			return ret;
	}
	return 0;
}

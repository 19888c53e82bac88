// SPDX-License-Identifier: Apache-2.0
#include "datapath/pods/pod_table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/ip.h"
#include "datapath/maps/pin.h"
#include "datapath/pods/pods_internal.h"

int mk_pod_table_open(struct mk_table *table, const char *bpf_dir, struct mk_error *err)
{
	return mk_table_open(table, bpf_dir, "pods", sizeof(__u32), sizeof(struct mk_pod), err);
}

static __u32 slot_of(const struct mk_table *table, const struct mk_addr *addr)
{
	return mk_pod_slot(addr, table->max_entries);
}

static bool is_free(const struct mk_pod *pod)
{
	static const struct mk_addr none;

	return mk_addr_eq(&pod->addr, &none);
}

static const char *format(const struct mk_addr *addr, char text[MK_IP_STRLEN])
{
	struct mk_ip ip = mk_ip_from_addr(addr);

	return mk_ip_format(&ip, text);
}

/* ---- one slot -------------------------------------------------------------------------------- */

int pod_table_holder(const struct mk_table *table, const struct mk_addr *addr, struct mk_pod *pod,
		     struct mk_error *err)
{
	__u32 slot = slot_of(table, addr);
	char text[MK_IP_STRLEN];
	int ret = mk_table_get(table, &slot, pod, err);

	if (ret == 0 && is_free(pod))
		return mk_error_set(err, ENOENT, "map '%s' has no entry for %s", table->name,
				    format(addr, text));
	return ret;
}

int mk_pod_table_get(const struct mk_table *table, const struct mk_addr *addr, struct mk_pod *pod,
		     struct mk_error *err)
{
	char text[MK_IP_STRLEN];
	int ret = pod_table_holder(table, addr, pod, err);

	if (ret == 0 && !mk_addr_eq(&pod->addr, addr))
		return mk_error_set(err, ENOENT, "map '%s' has no entry for %s", table->name,
				    format(addr, text));
	return ret;
}

int pod_table_check_slot(const struct mk_table *table, const struct mk_addr *addr,
			 struct mk_error *err)
{
	char text[MK_IP_STRLEN], other[MK_IP_STRLEN];
	struct mk_pod holder;
	int ret = pod_table_holder(table, addr, &holder, err);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	if (!mk_addr_eq(&holder.addr, addr))
		return mk_error_set(
			err, EEXIST,
			"in map '%s' pod %s of an earlier pod CIDR has the slot of %s: delete that pod",
			table->name, format(&holder.addr, other), format(addr, text));
	return 0;
}

int mk_pod_table_put(const struct mk_table *table, const struct mk_pod *pod, struct mk_error *err)
{
	__u32 slot = slot_of(table, &pod->addr);
	int ret = pod_table_check_slot(table, &pod->addr, err);

	return ret ?: mk_table_put(table, &slot, pod, err);
}

int pod_table_delete(const struct mk_table *table, const struct mk_addr *addr, struct mk_error *err)
{
	static const struct mk_pod none;
	__u32 slot = slot_of(table, addr);
	struct mk_pod pod;
	int ret = mk_pod_table_get(table, addr, &pod, err);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ret = mk_table_put(table, &slot, &none, err);
	return ret < 0 ? ret : 1;
}

/* ---- all slots ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	const struct mk_pod *x = a, *y = b;

	return memcmp(&x->addr, &y->addr, sizeof(x->addr));
}

static size_t count_taken(const struct mk_table *table, const void *slots)
{
	struct mk_pod room;
	size_t taken = 0;

	for (size_t i = 0; i < table->max_entries; i++)
		taken += !is_free(mk_table_mapped_row(table, slots, i, &room));
	return taken;
}

/* Pods that were added after the count are left out. */
static size_t copy_taken(const struct mk_table *table, const void *slots, struct mk_pod *to,
			 size_t room)
{
	size_t copied = 0;
	struct mk_pod row;

	for (size_t i = 0; i < table->max_entries && copied < room; i++) {
		to[copied] = *(const struct mk_pod *)mk_table_mapped_row(table, slots, i, &row);
		copied += !is_free(&to[copied]);
	}
	return copied;
}

int mk_pod_table_read(const struct mk_table *table, struct mk_pod **pods, size_t *count,
		      struct mk_error *err)
{
	size_t bytes, taken;
	void *slots = mk_table_map(table, &bytes);

	*pods = NULL;
	*count = 0;
	if (!slots)
		return mk_error_errno(err, errno, "cannot read map '%s'", table->name);
	taken = count_taken(table, slots);
	*pods = taken ? calloc(taken, sizeof(**pods)) : NULL;
	if (*pods)
		*count = copy_taken(table, slots, *pods, taken);
	munmap(slots, bytes);
	if (taken && !*pods)
		return mk_error_errno(err, ENOMEM, "cannot read map '%s'", table->name);
	if (*count)
		qsort(*pods, *count, sizeof(**pods), compare);
	return 0;
}

/* ---- all families ---------------------------------------------------------------------------- */

int pod_tables_of(const struct mk_pod_tables *tables, sa_family_t family,
		  const struct mk_table **table, struct mk_error *err)
{
	*table = &tables->of[mk_family_index(family)];
	if ((*table)->name)
		return 0;
	return mk_error_set(
		err, ENOENT,
		"the datapath of %s is not loaded: map 'pods' is missing; the agent's log says why",
		mk_family_name(family));
}

int mk_pod_tables_open(struct mk_pod_tables *tables, const char *bpf_dir, struct mk_error *err)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	char dir[PATH_MAX];
	bool found = false;
	int ret = 0;

	*tables = (struct mk_pod_tables){ 0 };
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		if (!mk_pin_has(bpf_dir, families[i]))
			continue;
		found = true;
		ret = mk_pin_dir(dir, bpf_dir, families[i], err);
		ret = ret ?: mk_pod_table_open(&tables->of[i], dir, err);
	}
	if (ret < 0)
		mk_pod_tables_close(tables);
	if (ret == 0 && !found)
		return mk_error_set(err, ENOENT, "no map 'pods' is pinned below '%s'", bpf_dir);
	return ret;
}

void mk_pod_tables_close(struct mk_pod_tables *tables)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		mk_table_close(&tables->of[i]);
}

static sa_family_t family_of(const struct mk_addr *addr)
{
	return mk_addr_is_ipv4(addr) ? AF_INET : AF_INET6;
}

int mk_pod_tables_get(const struct mk_pod_tables *tables, const struct mk_addr *addr,
		      struct mk_pod *pod, struct mk_error *err)
{
	const struct mk_table *table;
	int ret = pod_tables_of(tables, family_of(addr), &table, err);

	return ret ?: mk_pod_table_get(table, addr, pod, err);
}

int mk_pod_tables_put(const struct mk_pod_tables *tables, const struct mk_pod *pod,
		      struct mk_error *err)
{
	const struct mk_table *table;
	int ret = pod_tables_of(tables, family_of(&pod->addr), &table, err);

	return ret ?: mk_pod_table_put(table, pod, err);
}

static int append(struct mk_pod **pods, size_t *count, const struct mk_pod *more, size_t more_count,
		  struct mk_error *err)
{
	struct mk_pod *bigger;

	if (!more_count)
		return 0;
	bigger = realloc(*pods, (*count + more_count) * sizeof(**pods));
	if (!bigger)
		return mk_error_errno(err, ENOMEM, "cannot read map 'pods'");
	memcpy(bigger + *count, more, more_count * sizeof(*more));
	*pods = bigger;
	*count += more_count;
	return 0;
}

int mk_pod_tables_read(const struct mk_pod_tables *tables, struct mk_pod **pods, size_t *count,
		       struct mk_error *err)
{
	cleanup_free struct mk_pod *list = NULL;
	int ret = 0;

	*pods = NULL;
	*count = 0;
	for (size_t i = 0; ret == 0 && i < MK_FAMILIES; i++) {
		cleanup_free struct mk_pod *part = NULL;
		size_t part_count = 0;

		if (tables->of[i].name)
			ret = mk_pod_table_read(&tables->of[i], &part, &part_count, err);
		ret = ret ?: append(&list, count, part, part_count, err);
	}
	if (ret < 0)
		return ret;
	if (*count)
		qsort(list, *count, sizeof(*list), compare);
	*pods = mk_steal_ptr(list);
	return 0;
}

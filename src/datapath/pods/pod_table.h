/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/pod_table.h - map `pods` (struct mk_pod): an array; a pod's slot follows from
 * its address. Two addresses of one pod CIDR never share a slot. While pods of an earlier pod CIDR
 * exist, one of them may have the slot of a current address. A write to a slot is not atomic, and a
 * program may read half of an entry. So a pod's device goes up after its entry is written, and down
 * before the entry is removed. Writers hold the datapath's lock (pin.h). */
#ifndef MK_DATAPATH_PODS_POD_TABLE_H
#define MK_DATAPATH_PODS_POD_TABLE_H

#include "monokube/abi.h"
#include "base/error.h"
#include "base/ip.h"
#include "datapath/maps/table.h"

/* As mk_table_open(), for map `pods`. */
mk_must_check int mk_pod_table_open(struct mk_table *table, const char *bpf_dir,
				    struct mk_error *err);

/* Read the pod with address @addr. -ENOENT: there is none. */
mk_must_check int mk_pod_table_get(const struct mk_table *table, const struct mk_addr *addr,
				   struct mk_pod *pod, struct mk_error *err);
/* Write the pod's entry. -EEXIST: another address has the slot. */
mk_must_check int mk_pod_table_put(const struct mk_table *table, const struct mk_pod *pod,
				   struct mk_error *err);

/* Read all pods, *@count of them, sorted by address (memcmp(3)). The caller frees *@pods, which is
 * NULL if there are none. */
mk_must_check int mk_pod_table_read(const struct mk_table *table, struct mk_pod **pods,
				    size_t *count, struct mk_error *err);

/* The tables of all pinned families, by mk_family_index(). A table without a name is not pinned. */
struct mk_pod_tables {
	struct mk_table of[MK_FAMILIES];
};

/* Open what is pinned below @bpf_dir. -ENOENT: nothing. */
mk_must_check int mk_pod_tables_open(struct mk_pod_tables *tables, const char *bpf_dir,
				     struct mk_error *err);
void mk_pod_tables_close(struct mk_pod_tables *tables);

/* As the functions above, in the table of the address's family. -ENOENT: there is no entry, or the
 * family is not pinned. */
mk_must_check int mk_pod_tables_get(const struct mk_pod_tables *tables, const struct mk_addr *addr,
				    struct mk_pod *pod, struct mk_error *err);
mk_must_check int mk_pod_tables_put(const struct mk_pod_tables *tables, const struct mk_pod *pod,
				    struct mk_error *err);
/* Read the pods' entries of all families. */
mk_must_check int mk_pod_tables_read(const struct mk_pod_tables *tables, struct mk_pod **pods,
				     size_t *count, struct mk_error *err);

#endif

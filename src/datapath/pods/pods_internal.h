/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/pods_internal.h - functions that only this folder uses. */
#ifndef MK_DATAPATH_PODS_PODS_INTERNAL_H
#define MK_DATAPATH_PODS_PODS_INTERNAL_H

#include "datapath/pods/pod_table.h"

/* Get the table of @family. -ENOENT: the family is not pinned. */
mk_must_check int pod_tables_of(const struct mk_pod_tables *tables, sa_family_t family,
				const struct mk_table **table, struct mk_error *err);

/* Read the pod in the slot of @addr, whatever its own address is. -ENOENT: the slot is free. */
mk_must_check int pod_table_holder(const struct mk_table *table, const struct mk_addr *addr,
				   struct mk_pod *pod, struct mk_error *err);

/* Returns 1 if the entry was removed, 0 if there was none. */
mk_must_check int pod_table_delete(const struct mk_table *table, const struct mk_addr *addr,
				   struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/pods_internal.h - functions that only this folder uses. */
#ifndef MK_DATAPATH_PODS_PODS_INTERNAL_H
#define MK_DATAPATH_PODS_PODS_INTERNAL_H

#include "datapath/pods/pod_policies.h"
#include "datapath/pods/pod_table.h"

/* Get the table of @family. -ENOENT: the family is not pinned. */
mk_must_check int pod_tables_of(const struct mk_pod_tables *tables, sa_family_t family,
				const struct mk_table **table, struct mk_error *err);

/* Read the pod in the slot of @addr, whatever its own address is. -ENOENT: the slot is free. */
mk_must_check int pod_table_holder(const struct mk_table *table, const struct mk_addr *addr,
				   struct mk_pod *pod, struct mk_error *err);

/* Can @addr get its slot? -EEXIST: another address has it. */
mk_must_check int pod_table_check_slot(const struct mk_table *table, const struct mk_addr *addr,
				       struct mk_error *err);

/* Returns 1 if the entry was removed, 0 if there was none. */
mk_must_check int pod_table_delete(const struct mk_table *table, const struct mk_addr *addr,
				   struct mk_error *err);

/* Clear the sets of @addr. The slot's generation stays. */
mk_must_check int pod_policies_clear(const struct mk_pod_policies *policies,
				     const struct mk_addr *addr, struct mk_error *err);

/* Make the programs evaluate policies. Before, a pod of @pods without an entry gets an open one:
 * until then nothing applied to it, and it stays so until its policies are known. */
mk_must_check int pod_policies_turn_on(const struct mk_pod_policies *policies,
				       const struct mk_pod_tables *pods, sa_family_t family,
				       struct mk_error *err);

#endif

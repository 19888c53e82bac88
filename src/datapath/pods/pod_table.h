/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/pod_table.h - map pods (struct mk_pod): an array in which a pod's slot follows from its address. Two
 * addresses of one pod CIDR never share a slot; those of a former one and of this one may, while pods of both
 * are there. A slot is not written at one instant: a program that looks meanwhile may see half of an entry, which
 * is why a pod's device goes up after its entry is there, and down before it goes. Who writes has the datapath's
 * lock (pin.h). */
#ifndef MK_DATAPATH_PODS_POD_TABLE_H
#define MK_DATAPATH_PODS_POD_TABLE_H

#include "monokube/abi.h"
#include "base/error.h"
#include "datapath/maps/table.h"

/* As mk_table_open(). */
mk_must_check int mk_pod_table_open(struct mk_table *table, const char *bpf_dir,
				    struct mk_error *err);

/* The pod whose address @addr is; -ENOENT: none. */
mk_must_check int mk_pod_table_get(const struct mk_table *table, const struct mk_addr *addr,
				   struct mk_pod *pod, struct mk_error *err);
/* -EEXIST: the slot is another address's. */
mk_must_check int mk_pod_table_put(const struct mk_table *table, const struct mk_pod *pod,
				   struct mk_error *err);

/* All pods, *@count of them, by address (memcmp(3)); the caller frees *@pods, which is NULL where there is none. */
mk_must_check int mk_pod_table_read(const struct mk_table *table, struct mk_pod **pods,
				    size_t *count, struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/policy/tables.h - bring the policy tables of one family to the rows that src/policy
 * compiles. Only the difference is written.
 *
 * Order of writes: ports, peers and blocks, then identities, then what CNI ADD reads, then the sets
 * of the pods (one store each), then policy_state.on, then peers that change in place, then the
 * generations. What is gone is removed after MK_RETIRE_NS, when no program can still be reading it.
 * So a kill after any write leaves each flow with its old or its new verdict, per pod and
 * direction. If one call changes several objects, a flow may also have the verdict of some of
 * these changes.
 *
 * Rows of an earlier agent stay until mk_policy_sync_release(). */
#ifndef MK_DATAPATH_POLICY_TABLES_H
#define MK_DATAPATH_POLICY_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "datapath/maps/table.h"
#include "policy/policy.h"

struct mk_policy_tables {
	/* policy_state, pod_policies: mapped into memory */
	struct mk_table state, pods;
	struct mk_table identities, peers, blocks, ports, counts, expected, namespaces;
	/* Does this interface exist? NULL: those of all sandboxes do. */
	bool (*has_device)(uint32_t ifindex);
};

struct mk_policy_sync;

/* Read @tables, which the caller owns and which must outlive the result. */
struct mk_policy_sync *mk_policy_sync_new(const struct mk_policy_tables *tables,
					  struct mk_error *err);
void mk_policy_sync_free(struct mk_policy_sync *sync);

struct mk_policy_counts {
	unsigned int put, deleted; /* entries written and removed, all tables together */
	unsigned int switched; /* stores of a set */
	unsigned int lost; /* slots that had no entry of their pod any more; logged */
	unsigned int raised; /* generations */
};

/* Set the sandboxes of this node; copies them. The next apply writes their sets. A sandbox without
 * a compiled row keeps what CNI ADD wrote. If there is nothing, it is pending, or open if it
 * belongs to no Pod. */
mk_must_check int mk_policy_sync_set_sandboxes(struct mk_policy_sync *sync,
					       const struct mk_policy_sandbox *sandboxes,
					       size_t count, struct mk_error *err);
/* Write @changes: those of mk_policies_compile(), or after a start those of mk_policies_all().
 * NULL: only what an earlier call could not write. If a table is full, the pods concerned keep
 * their former sets, everything else is written, and @err names the table. Then call again later.
 * The generation of a pod is raised if it gets another set, or if an address or a class that
 * changed has other ports in its set. @now_ns is CLOCK_MONOTONIC. Adds to @counts. */
mk_must_check int mk_policy_sync_apply(struct mk_policy_sync *sync,
				       const struct mk_policy_changes *changes, uint64_t now_ns,
				       struct mk_policy_counts *counts, struct mk_error *err);
/* Open all pods at once, and remove all rows: policies are not to be enforced. This lasts as long
 * as @sync does. What is left is removed by mk_policy_sync_collect(). */
mk_must_check int mk_policy_sync_open_all(struct mk_policy_sync *sync, uint64_t now_ns,
					  struct mk_policy_counts *counts, struct mk_error *err);
/* The rows of an earlier agent that are not compiled rows are gone. The next apply removes their
 * identities, mk_policy_sync_collect() the rest. */
void mk_policy_sync_release(struct mk_policy_sync *sync, uint64_t now_ns);
/* Remove what has been gone for MK_RETIRE_NS, except rows that a pod's set still needs. Returns 1
 * while something waits. */
mk_must_check int mk_policy_sync_collect(struct mk_policy_sync *sync, uint64_t now_ns,
					 struct mk_policy_counts *counts, struct mk_error *err);
/* Restore entries that other processes have removed or changed: all pods, and about @budget other
 * entries; the next call continues from there. Logs and returns their number. */
mk_must_check int mk_policy_sync_reconcile(struct mk_policy_sync *sync, size_t budget,
					   struct mk_error *err);
/* Visit the sandboxes of Pods: is one of its sets still pending? */
void mk_policy_sync_each_pod(const struct mk_policy_sync *sync,
			     void (*visit)(void *ctx, const struct mk_addr *addr, uint32_t ifindex,
					   bool is_pending),
			     void *ctx);
void mk_policy_sync_set_listed(struct mk_policy_sync *sync, enum mk_policy_listed listed);

/* The number of entries written. */
struct mk_policy_entries {
	size_t identities, peers, blocks, ports, expected, namespaces;
};
void mk_policy_sync_entries(const struct mk_policy_sync *sync, struct mk_policy_entries *entries);

#endif

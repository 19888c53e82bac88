/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/policy_world.h - a cluster for tests of the compiler of policies: a model, the compiler
 * of node n1, and the rows that it has reported. */
#ifndef MK_TEST_POLICY_WORLD_H
#define MK_TEST_POLICY_WORLD_H

#include "cluster/model/model.h"
#include "policy/policy.h"
#include "unit/policy_rows.h"

#define WORLD_SANDBOXES_MAX 256

struct policy_world {
	struct mk_model *model;
	struct mk_policies *policies;
	bool audit; /* all policies are audited */
	struct policy_rows rows;
	struct mk_policy_sandbox sandboxes[WORLD_SANDBOXES_MAX];
	size_t sandbox_count;
	struct mk_policy_node_address nodes[4];
	size_t node_count;
};

void world_begin(struct policy_world *world);
/* .. with namespaces a (team=red), b (team=blue) and c, nodes n1 and n2, and pods a/x, a/z, b/bx of
 * n1 and a/y, b/by, c/cx of n2. */
void world_begin_pods(struct policy_world *world);
/* .. the same; all policies are audited (networkPolicy: audit). */
void world_begin_audit(struct policy_world *world);
void world_end(struct policy_world *world);
/* Apply an object; text with ' for ". */
void world_put(struct policy_world *world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void world_delete(struct policy_world *world, enum mk_kind kind, const char *namespace_,
		  const char *name);
/* A sandbox of this node. @uid, @namespace_: NULL: none. */
void world_sandbox(struct policy_world *world, const char *uid, const char *namespace_,
		   const char *name, const char *ip);
void world_drop_sandbox(struct policy_world *world, const char *ip);
void world_node_address(struct policy_world *world, const char *ip, const char *counts_as);
/* Compile and keep the rows. Returns how many were reported. The number of a chain is in its UID,
 * such as c7, and 0 is none. The pods' range is 10.244.0.0/16. */
size_t world_compile(struct policy_world *world);
/* Forget what is not used, then compare the rows with those of a new compiler. NULL: equal. */
const char *world_compare(struct policy_world *world);

/* Check what the rows say about flows of pod a/x, @flows, separated by semicolons. A flow is "<"
 * (from) or ">" (to), perhaps "?" (the address proves nothing) or "=" (a pod reaches itself), the
 * peer's name or address, T, U, S or I with a port, "+" or "-", and what decides: A, N, B or 0 for
 * the tier, and the rule's number. "~", a tier and a number follow if audited policies deny, "@"
 * and a number if a chain takes the flow. */
void world_check(const struct policy_world *world, const char *row, const char *flows);
/* Apply the objects of @row, compile, and check its flows and the rows. */
struct world_row {
	const char *name;
	const char *objects[4]; /* NULL: no more */
	const char *flows;
};
void world_check_row(struct policy_world *world, const struct world_row *row);

#endif

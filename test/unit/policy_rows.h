/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/policy_rows.h - the rows of a compiler of policies, kept from what it reports, and what
 * they say about a flow, as program `policy` asks tables. */
#ifndef MK_TEST_POLICY_ROWS_H
#define MK_TEST_POLICY_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/policy.h"

struct held_row;
enum policy_row_kind {
	ROWS_IDENTITIES,
	ROWS_PEERS,
	ROWS_BLOCKS,
	ROWS_PORTS,
	ROWS_PODS,
	ROWS_NAMESPACES,
	ROWS_KINDS
};
struct policy_rows {
	struct held_row *of[ROWS_KINDS];
};

/* Write what changed. A row that is gone must be there. Returns how many rows. */
size_t policy_rows_apply(struct policy_rows *rows, const struct mk_policy_changes *changes);
size_t policy_rows_count(const struct policy_rows *rows, enum policy_row_kind kind);
void policy_rows_release(struct policy_rows *rows);
/* Compare @rows with those of @fresh. A peer's row that says what MK_PEER_ANY_POD says is no
 * difference. Returns what differs, or NULL. */
const char *policy_rows_differ(const struct policy_rows *rows, const struct policy_rows *fresh);
/* NULL: no row. */
const struct mk_pod_row *policy_rows_pod(const struct policy_rows *rows, const char *uid,
					 const char *namespace_, const char *name);
/* The bits of directions; -1: no row. */
int policy_rows_namespace(const struct policy_rows *rows, const char *name);
const struct mk_identity_row *policy_rows_identity(const struct policy_rows *rows,
						   const struct mk_ip *ip);

struct policy_question {
	uint64_t set;
	struct mk_ip peer;
	bool unproved; /* the peer's address has no identity (rule 16) */
	bool in_pod_range;
	bool is_itself; /* rule 22 */
	uint8_t proto;
	uint16_t port; /* host order */
};
struct policy_decision {
	bool allowed;
	enum mk_policy_tier tier;
	uint16_t rule; /* 0: none */
	bool lacks_row;
	bool audit_denies; /* .. by @audit_tier and @audit_rule; only if @allowed */
	enum mk_policy_tier audit_tier;
	uint16_t audit_rule;
	uint16_t chain, chain_rule; /* 0: none */
};
struct policy_decision policy_rows_ask(const struct policy_rows *rows,
				       const struct policy_question *question);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/policy/policies.h - this node's network policies, and which flows its service function
 * chains take: from the cluster's objects and the sandboxes of this node, through the compiler, to
 * the tables of each family. */
#ifndef MK_AGENT_POLICY_POLICIES_H
#define MK_AGENT_POLICY_POLICIES_H

#include <stdbool.h>

#include "agent/node/own_node.h"
#include "agent/report/metrics.h"
#include "policy/policy.h"

/* Return the key in map sfc_chains of the chain with @uid, whose entries are written. 0: it has
 * none, and takes no flow. Negative: not known yet, so policies wait. */
typedef int mk_chain_number_fn(void *ctx, const char *uid);

struct mk_node_policies {
	const struct mk_own_node *node;
	struct mk_policies *compiler; /* NULL: not begun, or networkPolicy is off */
	uv_fs_event_t watch; /* of the address files */
	struct sandboxes *sandboxes; /* as last read; NULL: networkPolicy is off */
	bool incomplete; /* a pod of an address file has no entry in map pods (yet) */
	unsigned int looks; /* left for it */
	unsigned int loads[MK_FAMILIES]; /* mk_family.loads whose tables have all rows */
	bool settled; /* nothing changed since the tables were brought up to date */
	unsigned int rounds; /* in which the tables were brought up to date */
	uint64_t applied_ns; /* CLOCK_MONOTONIC: when rows were written last */
	bool released; /* ... and sets without pods were released since */
	bool described; /* the file of names has all sets */
	bool noted; /* ... and what is said about the policies of now */
	struct measures *measures; /* NULL: networkPolicy is off */
	struct denied *denied; /* NULL: logDenied or networkPolicy is off */
	mk_chain_number_fn *chain_number; /* NULL: no chain takes a flow */
	void *chain_ctx;
	bool chains_known; /* the compiler has the chains of now */
	bool has_chains; /* ... or the last ones whose numbers were all known */
	bool holds; /* as last compiled: new pods wait until they are known */
	size_t said_chains; /* as last logged */
	size_t said; /* policies as last logged, plus 1; 0: the tables are not written yet */
};

/* Watch the address files. After mk_own_node_init(). */
mk_must_check int mk_node_policies_start(struct mk_node_policies *policies,
					 const struct mk_own_node *node, struct mk_error *err);
void mk_node_policies_release(struct mk_node_policies *policies);

/* Ask @number about each chain. After an answer of it has changed, mark a MK_KIND_CHAIN. */
void mk_node_policies_use_chains(struct mk_node_policies *policies, mk_chain_number_fn *number,
				 void *ctx);
/* A Pod changed, as for mk_policies_pod_changed(); another object, as for mk_policies_mark(). All
 * chains are looked at if one is marked. */
void mk_node_policies_pod_changed(struct mk_node_policies *policies,
				  const struct mk_pod_object *pod,
				  const struct mk_pod_object *former);
void mk_node_policies_mark(struct mk_node_policies *policies, enum mk_kind what,
			   const char *namespace_, const char *name);

/* Bring the tables to what the policies say, if something changed. Nothing is written before
 * everything that matters has been listed. */
mk_must_check int mk_node_policies_reconcile(struct mk_node_policies *policies,
					     struct mk_error *err);
/* Remove what has been out of use for a second; restore what other processes have changed. Each
 * returns a number of repairs. */
mk_must_check int mk_node_policies_collect(struct mk_node_policies *policies, struct mk_error *err);
mk_must_check int mk_node_policies_reconcile_tables(struct mk_node_policies *policies,
						    struct mk_error *err);
/* Log the flows that policies have denied since the last call, if logDenied is on. */
mk_must_check int mk_node_policies_log_denied(struct mk_node_policies *policies,
					      struct mk_error *err);
/* Fill the metrics of policies, if policies are followed. What it lists belongs to @policies. */
void mk_node_policies_measure(struct mk_node_policies *policies, struct mk_metrics *metrics);

#endif

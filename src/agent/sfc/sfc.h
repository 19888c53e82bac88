/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/sfc/sfc.h - service function chains of this node: from the cluster's objects and the
 * ports of function pods to the tables of each family. Policies say whose flows a chain takes; they
 * get the chains' numbers from here. */
#ifndef MK_AGENT_SFC_SFC_H
#define MK_AGENT_SFC_SFC_H

#include <stdbool.h>

#include "agent/policy/policies.h"
#include "sfc/sfc.h"

struct node_macs;
struct node_ports;
struct sfc_said;

struct mk_node_sfc {
	const struct mk_own_node *node;
	struct mk_node_policies *policies;
	struct mk_sfc *sfc; /* NULL: there has been no chain yet */
	struct node_ports *ports; /* as last read; NULL as long as @sfc */
	struct node_macs *macs; /* of the other nodes, as last seen; NULL as long as @sfc */
	unsigned int plans; /* mk_own_node.plans that @macs has */
	unsigned int loads[MK_FAMILIES]; /* mk_family.loads whose tables have all rows */
	bool settled; /* nothing changed since the tables were brought up to date */
	bool known; /* the numbers of all chains are known */
	uint64_t numbers; /* a hash of these */
	bool described; /* the command line's file says what the tables have */
	struct sfc_said *said; /* NULL as long as @sfc */
};

void mk_node_sfc_init(struct mk_node_sfc *sfc, const struct mk_own_node *node,
		      struct mk_node_policies *policies);
void mk_node_sfc_release(struct mk_node_sfc *sfc);

/* A chain or a function pod changed. */
void mk_node_sfc_changed(struct mk_node_sfc *sfc);

/* A Namespace, a Node or a Service changed, which the status of chains may name. */
void mk_node_sfc_describe_again(struct mk_node_sfc *sfc);

/* Bring the tables to what chains, function pods, ports and the overlay say, if something changed,
 * and let policies look at the chains' numbers. Nothing is written before all of these have been
 * listed. */
mk_must_check int mk_node_sfc_reconcile(struct mk_node_sfc *sfc, struct mk_error *err);
/* Write the command line's file, and say what the status of each chain should be, if something
 * changed. With thousands of function pods this takes
 * longer than the tables, so it does not hold them up. */
mk_must_check int mk_node_sfc_describe(struct mk_node_sfc *sfc, struct mk_error *err);
/* Free the numbers of what is gone and in no path. Policies that are not up to date may still name
 * a chain, so nothing is freed then. */
mk_must_check int mk_node_sfc_collect(struct mk_node_sfc *sfc, struct mk_error *err);
/* Let the next reconcile restore what other processes have changed. Returns how many entries. */
mk_must_check int mk_node_sfc_reconcile_tables(struct mk_node_sfc *sfc, struct mk_error *err);

/* Fill the metrics of chains, if there are any. The caller frees the families' lists; what these
 * name belongs to the model. */
mk_must_check int mk_node_sfc_measure(struct mk_node_sfc *sfc, struct mk_metrics *metrics,
				      struct mk_error *err);

#endif

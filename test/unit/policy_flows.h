/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/policy_flows.h - random changes of the policy tables, on policy_tables_fixture.h: the
 * verdicts of all flows between three pods of this node and twelve peers. After each single write a
 * flow has its old or its new verdict. SEED=N in the environment chooses other changes. */
#ifndef MK_TEST_POLICY_FLOWS_H
#define MK_TEST_POLICY_FLOWS_H

#include "unit/policy_tables_fixture.h"

#define LOCAL	   3 /* pods of this node; the other pods are elsewhere */
#define PODS	   9
#define PEERS	   (PODS + 3) /* also an unknown pod, and two addresses outside */
#define FLOW_PORTS 2
#define CHANGES	   200

extern const char *const peers[PEERS];
extern const uint16_t ports[FLOW_PORTS];

struct verdicts {
	bool allowed[LOCAL][MK_POLICY_DIRECTIONS][PEERS][FLOW_PORTS];
};
/* The change that is being made. */
extern struct flows_change {
	int number, count;
	const char *what; /* for messages */
	bool skips_itself; /* a pod's flows with itself change with two writes */
	struct verdicts were, shall_be;
	uint32_t generations[LOCAL]; /* before it */
} change;

#define EACH_FLOW(pod, d, peer, port)                            \
	for (int pod = 0; pod < LOCAL; pod++)                    \
		for (int d = 0; d < MK_POLICY_DIRECTIONS; d++)   \
			for (int peer = 0; peer < PEERS; peer++) \
				for (size_t port = 0; port < FLOW_PORTS; port++)

/* Begin a test of change.count changes; @first is its usual seed. Then draw numbers below
 * @count. */
void flows_seed(uint32_t first);
uint32_t any_of(uint32_t count);

/* Read the verdicts before the change. */
void flows_begin(int number);
void flows_read(void);
/* Check all flows after each write. */
void flows_watch(void);
/* Check that each flow has its old or its new verdict now; then, that it has the new one. */
void flows_check(void);
void flows_check_result(void);
/* Call @apply in a copy of this process, which ends after its write @write. */
void flows_die_at(int write, int (*apply)(void));
/* Print how much was checked. */
void flows_end(void);

#endif

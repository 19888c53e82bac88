/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/policy/waits.h - how long new pods of this node wait until their policies are in the
 * tables, for a metric. */
#ifndef MK_AGENT_POLICY_WAITS_H
#define MK_AGENT_POLICY_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/histogram.h"

struct waiting_pod;
struct policy_waits {
	struct waiting_pod *pods;
	struct mk_histogram seconds;
	unsigned int turn;
};

void waits_init(struct policy_waits *waits);
/* Look at all pods: begin, see each one, end. A pod that is new and not pending has not waited.
 * Pods of the first look are older, so only those that are pending count. */
void waits_begin(struct policy_waits *waits);
void waits_see(struct policy_waits *waits, const struct mk_addr *addr, uint32_t ifindex,
	       bool is_pending, uint64_t now_ns);
void waits_end(struct policy_waits *waits);
/* Return how many pods were pending at the last look. */
size_t waits_pending(const struct policy_waits *waits);
void waits_release(struct policy_waits *waits);

#endif

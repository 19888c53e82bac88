/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/policy/ask.h - what the policy tables of one family say about a flow: the decision
 * of program `policy` for one set, made in user space. For the command line and for tests. */
#ifndef MK_DATAPATH_POLICY_ASK_H
#define MK_DATAPATH_POLICY_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "datapath/maps/table.h"

struct mk_policy_maps {
	struct mk_table identities, peers, blocks, ports;
};
/* -ENOENT: tables of a version without policies. Call mk_policy_maps_close() in any case. */
mk_must_check int mk_policy_maps_open(struct mk_policy_maps *maps, const char *bpf_dir,
				      struct mk_error *err);
void mk_policy_maps_close(struct mk_policy_maps *maps);

/* May a flow pass one end of it, the pod with @set? */
struct mk_policy_question {
	uint64_t set; /* of the pod, in the flow's direction */
	struct mk_addr peer; /* the other end */
	/* The address of @peer does not prove who sent it: it came by an uplink, or was forwarded
	 * by the host for another system (rule 16). Then @peer has no identity. */
	bool peer_unproved;
	bool peer_in_pod_range; /* in the pods' ranges of the cluster */
	bool is_itself; /* a pod reaches itself through a Service (rule 22) */
	uint8_t proto; /* IPPROTO_* */
	uint16_t port; /* the destination's, host order; 0: the protocol has no ports */
};

struct mk_policy_answer {
	bool allowed;
	enum mk_policy_tier tier; /* which decided */
	uint16_t rule; /* which decided; 0: none */
	bool lacks_entry; /* denied, because a table lacks an entry that each set has */
	/* Allowed, but it would be denied if the audited policies counted. */
	bool audit_denies;
	enum mk_policy_tier audit_tier;
	uint16_t audit_rule;
	/* Allowed: the chain that takes the flow, and the number of its rule; 0: none. */
	uint16_t chain, chain_rule;
	/* The tables of ports of the pod's class and of its address; 0: that one was not asked. */
	uint64_t tables[2];
};
mk_must_check int mk_policy_ask(const struct mk_policy_maps *maps,
				const struct mk_policy_question *question,
				struct mk_policy_answer *answer, struct mk_error *err);

/* Of a flow that no NetworkPolicy allows: the rule that comes nearest to it. */
struct mk_policy_nearest {
	uint16_t rule; /* 0: the set has no rule that allows this peer or this port */
	bool matches_peer; /* false: it allows this port for other peers */
};
/* Walks over whole tables. */
mk_must_check int mk_policy_nearest(const struct mk_policy_maps *maps,
				    const struct mk_policy_question *question,
				    const struct mk_policy_answer *answer,
				    struct mk_policy_nearest *nearest, struct mk_error *err);

#endif

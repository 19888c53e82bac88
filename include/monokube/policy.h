/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* include/monokube/policy.h - tables of network policies, a part of abi.h. Which sets a pod has,
 * what a set says of a peer, and what is counted: manifests/POLICIES.md says what it means. */
#ifndef MONOKUBE_POLICY_H
#define MONOKUBE_POLICY_H

#include <linux/types.h>
#include "addr.h"

/* A set is all that applies to a pod in one direction. Sets, classes of pods and tables of ports
 * are named by a hash of their content (src/policy/ids.h), so equal contents have equal names at
 * any time, and an entry of a set never changes its meaning. */
enum mk_policy_direction { MK_POLICY_INGRESS, MK_POLICY_EGRESS, MK_POLICY_DIRECTIONS };

#define MK_SET_OPEN	  0ULL /* nothing applies to the pod */
#define MK_SET_PENDING	  1ULL /* not known yet: only the pod's own node reaches it */
#define MK_SET_ISOLATES	  (1ULL << 63) /* a NetworkPolicy selects the pod */
#define MK_SET_HAS_BLOCKS (1ULL << 62) /* the set has addresses in map policy_blocks */
/* Some of the set's policies are audited: they count in mk_policy_port.audited alone. */
#define MK_SET_AUDITS	      (1ULL << 61)
#define MK_SET_AUDIT_ISOLATES (1ULL << 60) /* MK_SET_ISOLATES, if the audited ones counted */
#define MK_SET_ONLY_AUDITS    (1ULL << 59) /* all are audited: nothing is dropped */
#define MK_SET_HAS_CHAINS     (1ULL << 58) /* service function chains take flows of the pod */
#define MK_SET_FLAGS	      (63ULL << 58)

/* May this set drop a packet? A chain may, because no flow may pass by its functions. */
static inline int mk_set_enforces(__u64 set)
{
	return set != MK_SET_OPEN && (!(set & MK_SET_ONLY_AUDITS) || set & MK_SET_HAS_CHAINS);
}

/* How many of the cluster's policies the agent has read. */
enum mk_policy_listed {
	MK_POLICY_NOT_LISTED, /* nothing since the boot, or another process has emptied the entry */
	MK_POLICY_LISTED_NONE, /* there are no policies */
	MK_POLICY_LISTED_SOME,
	MK_POLICY_LISTS_AWAITED, /* nothing since the boot, and no pod has a set */
};

/* Map policy_state, one entry, mapped into memory. Each member is written with one store. */
struct mk_policy_state {
	/* A pod of this node has a set. Programs ask no further while this is 0. If @listed is 0,
	 * too, the pods' own entries say whether they have sets. */
	__u32 on;
	__u32 listed; /* enum mk_policy_listed */
};
_Static_assert(sizeof(struct mk_policy_state) == 8, "map value ABI");

/* Map pod_policies, an array by mk_pod_slot(), mapped into memory. An entry belongs to the pod of
 * map pods with the same address and ifindex. If the pod there has another ifindex, it counts as
 * pending. */
struct mk_pod_policy {
	__u64 set[MK_POLICY_DIRECTIONS]; /* each is written with one store */
	struct mk_addr addr;
	__u32 ifindex;
	/* Raised after a change that may forbid something. Sessions opened before are evaluated
	 * again. It stays when the slot's pod goes. */
	__u32 generation;
	__u32 pad[MK_BY_FAMILY(1, 2)];
};
_Static_assert(sizeof(struct mk_pod_policy) == MK_BY_FAMILY(32, 48), "map value ABI");

/* Return mk_session.policy_seen for the sum of both ends' generations; never 0. It repeats after
 * 32,768 changes between two packets of a flow, and then misses them. */
static inline __u16 mk_policy_seen(__u32 generations)
{
	return (__u16)(generations | 0x8000);
}

/* Map policy_identities, by address: the pods of the cluster that selectors may select, and the
 * addresses that nodes use inside the overlay. */
struct mk_policy_identity {
	__u64 class_id; /* of the pod; 0: no pod */
	struct mk_addr counts_as; /* 0: itself */
	__u32 pad[MK_BY_FAMILY(1, 2)];
};
_Static_assert(sizeof(struct mk_policy_identity) == MK_BY_FAMILY(16, 32), "map value ABI");

/* Map policy_peers: the table of ports that @set has for pods of class @peer. A set always has the
 * entries of the two special peers. Without an entry for its class, a pod is MK_PEER_ANY_POD.
 * Without that entry nothing passes. */
#define MK_PEER_ANY_POD	    1ULL
#define MK_PEER_UNKNOWN_POD 2ULL /* an address of the pods' ranges without identity */
struct mk_policy_peer_key {
	__u64 set, peer;
};
struct mk_policy_peer {
	__u64 table; /* part of the key in map policy_ports */
};
_Static_assert(sizeof(struct mk_policy_peer_key) == 16, "map key ABI");
_Static_assert(sizeof(struct mk_policy_peer) == 8, "map value ABI");

/* Map policy_blocks (LPM): the table of ports that @set has for addresses. Blocks do not add up:
 * the longest one says everything. Every set has the block of 0 bits, for any address. A set
 * without MK_SET_HAS_BLOCKS has only that. The programs ask for peers that are no known pod, and
 * for pods if the set has blocks. Without an entry nothing passes. */
#define MK_POLICY_SET_BITS 64
struct mk_policy_block_key {
	__u32 prefix_bits; /* MK_POLICY_SET_BITS and those of the block */
	__u32 set[2]; /* a __u64 in the host's byte order */
	struct mk_addr addr;
};
_Static_assert(sizeof(struct mk_policy_block_key) == MK_BY_FAMILY(16, 28), "map key ABI");

/* Map policy_ports (LPM): the verdicts of a table for destination ports. They do not add up: the
 * longest entry says everything. The entry of MK_POLICY_TABLE_BITS is for protocols without ports
 * and for all that has no longer entry; one with MK_POLICY_PROTO_BITS more is for all ports of
 * @proto. Without an entry nothing passes. */
#define MK_POLICY_TABLE_BITS 64
#define MK_POLICY_PROTO_BITS 8
#define MK_POLICY_PORT_BITS  16
struct mk_policy_port_key {
	__u32 prefix_bits;
	__u32 table[2]; /* a __u64 in the host's byte order */
	__u8 proto; /* IPPROTO_* */
	__u8 port[2]; /* a __be16; not aligned, because no gap may be between the two */
	__u8 pad;
};
_Static_assert(sizeof(struct mk_policy_port_key) == 16, "map key ABI");

enum mk_policy_action { MK_POLICY_NO_RULE, MK_POLICY_ACCEPT, MK_POLICY_DENY, MK_POLICY_PASS };

/* Numbers of rules begin with 1 and are those of the set, in the order in which they are asked.
 * A pod's own verdict (policy_peers) and its address's (policy_blocks) are combined: per tier the
 * rule with the lower number decides; NetworkPolicies allow if one of both allows. */
struct mk_policy_verdict {
	__u16 admin, baseline; /* ClusterNetworkPolicies: the first rule that matches; 0: none */
	__u16 allows; /* NetworkPolicies: the first rule that allows; 0: none */
	__u8 admin_action, baseline_action; /* enum mk_policy_action */
};
struct mk_policy_port {
	struct mk_policy_verdict in_force;
	/* What it would be if no policy were audited. Zero in a set without MK_SET_AUDITS. */
	struct mk_policy_verdict audited;
	/* The first chain that takes the flow: its key in map sfc_chains, and its rule's number in
	 * the set. 0: none. The lower number of a pod's and its address's decides. */
	__u16 chain, chain_rule;
	__u32 pad;
};
_Static_assert(sizeof(struct mk_policy_port) == 24, "map value ABI");

/* Map policy_counts: what a set has decided. Only first packets and dropped packets are counted. If
 * audited policies would deny a flow, this is counted besides what was decided. */
enum mk_policy_tier {
	MK_TIER_NONE, /* nothing decided: allowed; or pending: denied */
	MK_TIER_ADMIN,
	MK_TIER_NETWORK_POLICY, /* rule 0: isolated, and no rule allows */
	MK_TIER_BASELINE,
};
struct mk_policy_count_key {
	__u64 set;
	__u16 rule; /* 0: none */
	__u8 tier; /* enum mk_policy_tier */
	__u8 denied;
	__u8 direction; /* enum mk_policy_direction; the pending set has both */
	__u8 audited; /* @denied, if the audited policies of the set counted, too; it has passed */
	__u8 pad[2];
};
struct mk_policy_count {
	__u64 packets, last_ns; /* CLOCK_MONOTONIC */
};
_Static_assert(sizeof(struct mk_policy_count_key) == 16, "map key ABI");
_Static_assert(sizeof(struct mk_policy_count) == 16, "map value ABI");

/* Map policy_events, a per-CPU array of __u64 by this. */
enum mk_policy_event {
	MK_POLICY_RECHECK, /* a known flow was asked about again */
	MK_POLICY_TAKEN_UP, /* a connection from before the policies went on (rule 33) */
	MK_POLICY_UNKNOWN_PEER, /* dropped; the peer was an unknown address of the pods' ranges */
	MK_POLICY_EVENTS,
};

/* Map policy_expected: the sets of the pods bound to this node. Only CNI ADD reads it. The key is
 * "namespace/name/UID" with the UID as runtimes give it (K8S_POD_UID), or "namespace/name" if there
 * is none. A Pod object may claim another one's UID, so the UID alone is no key. */
#define MK_POLICY_POD_CHARS 320
struct mk_policy_pod_key {
	char text[MK_POLICY_POD_CHARS]; /* filled with zero bytes */
};
struct mk_policy_expected {
	__u64 set[MK_POLICY_DIRECTIONS];
};

/* Map policy_namespaces, by name: can a policy select a pod of this namespace? Only CNI ADD reads
 * it. A namespace without an entry counts as one that policies select. */
#define MK_POLICY_NAMESPACE_CHARS 64
struct mk_policy_namespace_key {
	char name[MK_POLICY_NAMESPACE_CHARS]; /* filled with zero bytes */
};
struct mk_policy_namespace {
	__u32 directions; /* bits by enum mk_policy_direction */
};

#endif

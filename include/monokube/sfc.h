/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* include/monokube/sfc.h - tables of service function chains, shared by user space and programs. A
 * chain takes a flow through functions. The verdict that program `policy` finds for a flow also
 * names its chain (struct mk_policy_port); the replicas chosen for the flow are its path, which the
 * flow's session names (mk_tuple.path).
 *
 * A path is read from the client to the server: first the client's chain for what it begins
 * (egress), then the server's chain for what others begin (ingress). `functions[0]` of a chain is
 * next to its pod, so the functions of an ingress chain are in reverse order.
 *
 * Limits: manifests/CHAINS.md. */
#ifndef MONOKUBE_SFC_H
#define MONOKUBE_SFC_H

#include "abi.h"

#define MK_SFC_CHAINS		 1024
#define MK_SFC_FUNCTIONS	 8 /* of a chain */
#define MK_SFC_FUNCTIONS_ALL	 1024
#define MK_SFC_REPLICAS		 4096
#define MK_SFC_PORTS		 (2 * 1024)
#define MK_SFC_SLOTS		 1021 /* of a function; a prime, for Maglev */
#define MK_SFC_PATHS		 65535
#define MK_SFC_PATH_PROBES	 8
#define MK_SFC_PATH_FUNCTIONS	 (2 * MK_SFC_FUNCTIONS)
#define MK_SFC_LOCAL_WEIGHT	 16 /* of a function, without localWeight */
#define MK_SFC_LOCAL_WEIGHT_MAX	 256
#define MK_SFC_LOCAL_WEIGHT_MASK 0x1ffULL
#define MK_SFC_TAP_MASK		 0x200ULL
#define MK_SFC_END_MASK		 0x400ULL
#define MK_SFC_HERE_MASK	 0x800ULL
#define MK_SFC_END_FLOWS	 16384 /* of a chain with ends */
#define MK_SFC_BACK_MS		 1000 /* for so long a replica that was not there gets no packets */

/* How a function pod handles the frames of its ports. */
enum mk_port_mode {
	MK_PORT_NONE,
	MK_PORT_BRIDGED, /* a bridge in the pod joins both ports */
	MK_PORT_INLINE, /* a program moves frames from one port to the other */
	MK_PORT_ROUTED, /* the pod's kernel routes from one port to the other */
	MK_PORT_TAP, /* one port, `inside`: the pod gets copies, and may not send */
	MK_PORT_END, /* one port: the pod is a replica of a chain's end */
	MK_PORT_MODES
};

/* Sides of a function pod, as enum mk_port_side. */
enum mk_sfc_side { MK_SFC_INSIDE, MK_SFC_OUTSIDE, MK_SFC_SIDES };

enum mk_sfc_place_flags {
	MK_SFC_SKIP = 1 << 0, /* whenUnavailable: Skip, or the function is a tap */
	MK_SFC_KEEP_LOST = 1 << 1, /* onLoss: Drop */
	MK_SFC_HASH_POD = 1 << 2, /* hashBy: Pod */
	MK_SFC_HASH_PEER = 1 << 3, /* hashBy: Peer */
};

/* Map sfc_chains, an array; entry 0 is none. */
struct mk_sfc_place {
	__u16 function; /* key in map sfc_functions; 0: there is no such place */
	__u8 flags; /* enum mk_sfc_place_flags */
	__u8 pad;
};
struct mk_sfc_chain {
	__u64 uid_hash; /* the agent recognises its chain after a restart; 0: the entry is free */
	struct mk_sfc_place place[MK_SFC_FUNCTIONS]; /* [0] is next to the chained pod */
	__u8 leaves_open_flows; /* takeOpenFlows: false */
	__u8 pad;
	/* Keys in map sfc_functions. 0: the chain has no ends. With ends it takes no pod's flows,
	 * and place[0] is next to the inside end. */
	__u16 end[MK_SFC_SIDES];
	__u16 more_pad;
};
_Static_assert(sizeof(struct mk_sfc_chain) == 48, "map value ABI");

/* Map sfc_functions, a hash by __u32: which replica new flows get. Chains that give replicas of
 * this node another weight (localWeight) have an entry of their own. So have chains that name the
 * function as a tap: that entry has replicas of mode MK_PORT_TAP only, any other entry has none of
 * them. The same holds for ends and MK_PORT_END. Functions of a chain with ends have replicas of
 * this node only. One update replaces all. No entry, or a slot with 0: no replica serves. */
struct mk_sfc_function {
	/* A hash of namespace and name, with the localWeight in MK_SFC_LOCAL_WEIGHT_MASK and, for a
	 * tap, MK_SFC_TAP_MASK, for an end, MK_SFC_END_MASK, and for ends and functions of a chain
	 * with ends, MK_SFC_HERE_MASK: the agent recognises it after a restart. */
	__u64 name_hash;
	__u16 replica[MK_SFC_SLOTS]; /* by hash of the flow: key in map sfc_replicas */
	__u16 pad[3];
};
_Static_assert(sizeof(struct mk_sfc_function) == 2056, "map value ABI");

enum mk_sfc_replica_state {
	MK_SFC_FREE, /* no replica has this number */
	MK_SFC_USABLE, /* flows that have it keep it */
	MK_SFC_LOST, /* flows that have it get another one, or are dropped (MK_SFC_KEEP_LOST) */
};

/* Map sfc_replicas, an array; entry 0 is none. The agent writes it. DEL clears `ifindex`: then no
 * packet goes there any more, with or without an agent.
 *
 * A replica of mode MK_PORT_TAP gets a copy of each packet, of both directions, by its one port.
 * Its row names that port for both sides; its entry in sfc_ports has the side MK_SFC_INSIDE. The
 * original goes on to the next place of the path. What the replica sends is dropped.
 *
 * A replica of mode MK_PORT_END has one port, too, which its row names for both sides. */
struct mk_sfc_replica {
	__u64 uid_hash; /* of the Pod: the agent recognises it after a restart */
	struct mk_addr addr; /* of the function pod, in this family; 0: it has none */
	__u32 ifindex[MK_SFC_SIDES]; /* host's ends of its ports; 0: none, or on another node */
	__u32 back_ms; /* CLOCK_MONOTONIC when its node sent a packet back; 0: not. Programs set it */
	__u8 vtep_mac[6]; /* of its node; 0: this node */
	/* enum mk_port_mode; of a replica on another node MK_PORT_TAP, or MK_PORT_NONE */
	__u8 mode;
	__u8 state; /* enum mk_sfc_replica_state */
#if MK_FAMILY != 4
	__u32 pad;
#endif
};
_Static_assert(sizeof(struct mk_sfc_replica) == MK_BY_FAMILY(32, 48), "map value ABI");

/* Map sfc_ports, a hash by ifindex of the host's end. The agent writes it. */
struct mk_sfc_port {
	__u16 replica; /* key in map sfc_replicas */
	/* enum mk_sfc_side. The port of an inside end has MK_SFC_OUTSIDE, because the pod sends
	 * outward by it; the port of an outside end has MK_SFC_INSIDE. */
	__u8 side;
	__u8 mode; /* enum mk_port_mode */
	__u16 chain; /* of a chain with ends: key in map sfc_chains; 0: not of such a chain */
	__u16 pad;
};
_Static_assert(sizeof(struct mk_sfc_port) == 8, "map value ABI");

/* Map sfc_paths, a hash by __u32, 1 to MK_SFC_PATHS. Programs add entries; flows with equal paths
 * share one. The key is a hash of the content, or one of the next MK_SFC_PATH_PROBES - 1. An entry
 * never changes. The agent removes entries that no session has had for a minute. */
struct mk_sfc_path {
	__u16 chain[MK_POLICY_DIRECTIONS]; /* [EGRESS]: the client's, [INGRESS]: the server's */
	/* From the client to the server: MK_SFC_FUNCTIONS places of the egress chain, from its
	 * place 0 up, then those of the ingress chain, from its place 7 down. 0: no function, or
	 * it is skipped. */
	__u16 replica[MK_SFC_PATH_FUNCTIONS];
	__u32 pad;
};
_Static_assert(sizeof(struct mk_sfc_path) == 40, "map value ABI");

/* Map sfc_end_flows, an array of maps by the number of the chain: the flows of a chain with ends.
 * The agent makes an inner map for each such chain, an LRU hash with MK_SFC_END_FLOWS entries;
 * other chains have none. The key is the struct mk_tuple of a packet that goes outward, with path
 * 0. Programs add and update entries, the agent removes idle ones. */
struct mk_sfc_end_flow {
	__u16 end[MK_SFC_SIDES]; /* the replicas of the ends */
	__u16 replica[MK_SFC_FUNCTIONS]; /* by place; 0: no function, or it is skipped */
	__u32 seen_s; /* CLOCK_MONOTONIC */
	__u8 closing; /* a packet with FIN or RST has passed */
	__u8 pad[3];
};
_Static_assert(sizeof(struct mk_sfc_end_flow) == 28, "map value ABI");

/* ---- between nodes --------------------------------------------------------------------------- */

/* A packet for a replica on another node goes by a VXLAN device of its own (struct mk_links), and
 * comes back by it. Only the node of the chained pod (home) knows the flow's path. The inner frame
 * has the VTEP MAC of the receiving node as destination. Its source says what it carries. */
enum mk_sfc_carried {
	MK_SFC_TO, /* for the replica, by the port `side` */
	MK_SFC_FROM, /* the replica has sent it, by the port `side` */
	MK_SFC_BACK, /* as TO, sent back: the replica is not here */
	MK_SFC_TOO_BIG, /* as TO, sent back: it does not fit the replica's port */
};
#define MK_SFC_VNI 2

/* The source of such a frame: a local unicast MAC address. */
struct mk_sfc_mac {
	/* MK_SFC_MAC_LOCAL | enum mk_sfc_carried << 2 | enum mk_sfc_side << 4 | place << 5. The
	 * place: the low 3 bits of the replica's place in the path; side and direction of the
	 * packet show the rest. FROM has none. */
	__u8 what;
	__u8 tag[5]; /* the low 40 bits of mk_sfc_replica.uid_hash, in network order */
};
#define MK_SFC_MAC_LOCAL 0x02
_Static_assert(sizeof(struct mk_sfc_mac) == 6, "a MAC address");

#define MK_SFC_TAG_MASK	  ((1ULL << 40) - 1)
#define MK_SFC_PLACE_MASK (MK_SFC_FUNCTIONS - 1)
_Static_assert((MK_SFC_PLACE_MASK << 5 | 0x1f) == 0xff, "a place fits");

static inline __attribute__((always_inline)) struct mk_sfc_mac
mk_sfc_mac_make(enum mk_sfc_carried carried, enum mk_sfc_side side, __u32 place, __u64 uid_hash)
{
	struct mk_sfc_mac mac = { .what = (__u8)(MK_SFC_MAC_LOCAL | carried << 2 | side << 4 |
						 (place & MK_SFC_PLACE_MASK) << 5) };

	for (int i = 0; i < 5; i++)
		mac.tag[i] = (__u8)(uid_hash >> (32 - 8 * i));
	return mac;
}

static inline __attribute__((always_inline)) enum mk_sfc_carried
mk_sfc_mac_carried(const struct mk_sfc_mac *mac)
{
	return (enum mk_sfc_carried)(mac->what >> 2 & 3);
}

static inline __attribute__((always_inline)) enum mk_sfc_side
mk_sfc_mac_side(const struct mk_sfc_mac *mac)
{
	return mac->what & 1 << 4 ? MK_SFC_OUTSIDE : MK_SFC_INSIDE;
}

static inline __attribute__((always_inline)) __u64 mk_sfc_mac_tag(const struct mk_sfc_mac *mac)
{
	__u64 tag = 0;

	for (int i = 0; i < 5; i++)
		tag = tag << 8 | mac->tag[i];
	return tag;
}

/* Map sfc_tags, a hash by __u64 (mk_sfc_replica.uid_hash & MK_SFC_TAG_MASK) with the replica's
 * number (__u32), of this node and of others. The agent writes it. If two replicas have one tag,
 * only one of them has a number. */

/* ---- counters -------------------------------------------------------------------------------- */

/* Map sfc_counters, a per-CPU hash by __u32, a replica's number. The agent adds and removes
 * entries; programs count if there is one. */
struct mk_sfc_counters {
	/* to that port; to a tap: INSIDE copies of what the chained pod sends, OUTSIDE of what it
	 * gets */
	__u64 sent_packets[MK_SFC_SIDES], sent_bytes[MK_SFC_SIDES];
	__u64 received_packets[MK_SFC_SIDES], received_bytes[MK_SFC_SIDES]; /* from that port */
};
_Static_assert(sizeof(struct mk_sfc_counters) == 64, "map value ABI");

#endif

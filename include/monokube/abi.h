/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* include/monokube/abi.h - everything that bpf/ and src/ share: tables, node constants, drop
 * reasons. Each is declared only here, and sizes are asserted.
 *
 * Ports and addresses are in network byte order if the type is __be; all other numbers are in host
 * byte order, with the unit in the name. Padding is explicit and always zero, because a hash map
 * compares every byte of a key. Enums that number table slots only grow. */
#ifndef MONOKUBE_ABI_H
#define MONOKUBE_ABI_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stddef.h>
#include "addr.h"
#include "policy.h"

/* ---- hooks, programs --------------------------------------------------------------- */

/* The hook at which a packet entered the datapath. Index of the drop counters: append only. */
enum mk_hook {
	MK_HOOK_POD, /* host side of a pod's veth, ingress: a pod sends */
	MK_HOOK_HOST, /* datapath side of the host veth, ingress: the host sends */
	MK_HOOK_OVERLAY, /* VXLAN device, ingress: another node sends */
	MK_HOOK_UPLINK, /* uplink, ingress: hosts outside send */
	MK_HOOK_UPLINK_EGRESS, /* uplink, egress: the host answers */
	MK_HOOK_FUNCTION, /* host side of a function's port, or mksfc, ingress: a function sends */
	MK_HOOK_CLUSTER, /* mkpeer, ingress: another cluster sends */
	MK_HOOK_COUNT
};

/* Slots of the program array `chain`. Append only. */
enum mk_prog {
	MK_PROG_ROUTER,
	MK_PROG_ELB,
	MK_PROG_NAT, /* masquerade, towards the uplink */
	MK_PROG_ERROR, /* an ICMP error made by the datapath: translate and route it */
	MK_PROG_MONITORED, /* the router again: program `monitor` continues here */
	MK_PROG_HOLD, /* a fragment that came before the data that its translation needs */
	MK_PROG_RELEASE, /* the fragment that completes these data */
	MK_PROG_UPLINK, /* a tunnel's packet, now with an Ethernet header */
	MK_PROG_OPEN, /* the first packet of a flow that needs a session of ilb or elb */
	MK_PROG_NDP, /* IPv6: a pod's neighbour discovery */
	MK_PROG_POLICY, /* may this flow of an isolated pod pass? If so, like MK_PROG_OPEN */
	MK_PROG_SFC, /* a packet of a flow with a path: to the first function */
	MK_PROG_SFC_OPEN, /* choose the path of a flow that chains take */
	MK_PROG_SFC_SESSION, /* like MK_PROG_OPEN for a new flow with a path; then MK_PROG_SFC */
	MK_PROG_SFC_TAP, /* a copy of the packet to a tap; then what follows in the path */
	MK_PROG_SFC_ANSWER, /* an answer that leaves a chain, for its session */
	MK_PROG_SFC_END, /* a packet of a chain with ends: to the next function, or to the end */
	MK_PROG_CLUSTER, /* a packet to a pod of another cluster */
	MK_PROG_ILB_CLUSTER, /* a packet of another cluster, with the source as it is seen here */
	MK_PROG_OVERLAY, /* another node's packet that came without VXLAN, as if by the overlay */
	MK_PROG_CLIENT, /* rare packets of clients outside that keep their address */
	MK_PROG_COUNT
};

/* Slots of the program array `other_family`: the hooks' programs. On a node with both families
 * IPv4's programs have the hooks, and pass IPv6's packets on by this array. Append only. */
enum mk_entry {
	MK_ENTRY_POD,
	MK_ENTRY_HOST,
	MK_ENTRY_OVERLAY,
	MK_ENTRY_UPLINK,
	MK_ENTRY_TUNNEL,
	MK_ENTRY_UPLINK_EGRESS,
	MK_ENTRY_LOOPBACK,
	MK_ENTRY_FUNCTION,
	MK_ENTRY_SFC_OVERLAY,
	MK_ENTRY_CLUSTER,
	MK_ENTRY_COUNT
};

/* ---- tables ------------------------------------------------------------------------ */

/* Raised by one with every change of a map's contents. A value only grows at its end, and zero
 * there means the behaviour of the earlier version. So a later version takes tables over by copying
 * their entries (src/datapath/migrate.c). An agent does not change tables of a later version than
 * its own. */
#ifndef MK_TEST_ENLARGED_SESSION
#define MK_ABI_VERSION 1
#else
#define MK_ABI_VERSION 2 /* `make ENLARGED=1`: a made-up later version, for test/lab/t_upgrade.sh */
#endif

#define MK_PROGRAMS_MAX 30

/* Map abi, one entry that no program uses: which version made the tables. Without this map the
 * version is 0. */
struct mk_abi {
	__u32 version; /* MK_ABI_VERSION */
	char made_by[28]; /* MONOKUBE_VERSION, ends in a zero byte */
	/* Identity of the pinned programs (src/datapath/reuse.c); 0: unknown. */
	__u64 object_hash, constants_hash;
	__u32 constants_id; /* id of their map of constants */
	__u32 program_ids[MK_PROGRAMS_MAX];
};
_Static_assert(sizeof(struct mk_abi) == 176, "map value ABI");

#define MK_SPOKE_SECONDS 0x7f /* mask of mk_session.spoke */

#define MK_PROTO_ANY 0

/* A flow in one direction, as in the packet at the time of the look-up. For an ICMP echo both ports
 * are the identifier. Protocols without ports (ESP and others) have zero. */
struct mk_tuple {
	struct mk_addr saddr, daddr;
	__be16 sport, dport;
	__u8 proto; /* IPPROTO_* */
	__u8 pad;
	__u16 path; /* only in mk_session.to: key in map sfc_paths; 0: none. In keys of maps it is 0. */
} __attribute__((aligned(MK_BY_FAMILY(4, 8)))); /* IPv6: half as many instructions for a copy */
_Static_assert(sizeof(struct mk_tuple) == MK_BY_FAMILY(16, 40), "map key ABI");
_Static_assert(offsetof(struct mk_tuple, proto) == MK_BY_FAMILY(12, 36), "map key ABI");

/* FIN, RST, OPEN and MOVED are set while several CPUs handle packets of the session. Linux 5.10 has
 * no atomic OR. So each of these flags has a byte of struct mk_session, which is the flag's bit or
 * 0 and is only stored. The other flags are written when the session is created. mk_session_flags()
 * returns all. */
enum mk_session_flags {
	MK_SESSION_FORWARD = 1 << 0, /* entry of the direction of the first packet */
	/* Reverse entry: send answers by the overlay to the node that has the address, or to
	 * mk_session_node(). Forward entry: another node has the pod, or has taken the request, and
	 * answers go straight to the client (bpf/direct_return.h). */
	MK_SESSION_VIA_OVERLAY = 1 << 1,
	MK_SESSION_FIN = 1 << 2, /* TCP: FIN seen in this direction; SCTP: SHUTDOWN or its ACK */
	MK_SESSION_RST = 1 << 3, /* TCP: RST seen in this direction; SCTP: ABORT */
	MK_SESSION_VIA_HOST = 1 << 4, /* the host's stack forwards the flow */
	MK_SESSION_OPEN = 1 << 5, /* TCP, SCTP: handshake completed */
	/* The host asked one of its own addresses: it accepts the answer only from the loopback
	 * device. */
	MK_SESSION_LOOPBACK = 1 << 6,
	MK_SESSION_MOVED = 1 << 7, /* half-open table: established, the agent removes it */
};

/* Forward entry of a flow whose answers go straight to the client (bpf/direct_return.h) */
#define MK_SESSION_DELEGATED (MK_SESSION_FORWARD | MK_SESSION_VIA_OVERLAY)

/* One direction of a session: a packet with the key's tuple is rewritten to the tuple `to`. A
 * session is a pair of entries: if K -> T is one, reverse(T) -> reverse(K) is the other.
 *
 * Maps sessions, nat_sessions: established sessions, never evicted, expired by the agent. Maps
 * sessions_young, nat_sessions_young: half-open and one-way flows. There the oldest are evicted
 * (struct mk_session_place).
 *
 * Half-open TCP sessions may also be among the established ones (TCP without MK_SESSION_OPEN).
 * Their quota is an __s64 in each CPU's entry of map half_open_quota. Programs take from the quota
 * and return to it; the agent sets it after each pass of its sweep. */
struct mk_session {
	struct mk_tuple to;
	__u64 created_ns; /* CLOCK_MONOTONIC */
	__u64 last_seen_ns; /* CLOCK_MONOTONIC, refreshed at most once a second */
	__u64 bytes; /* not yet in the Service's counters (signed, bpf/account.h), like packets */
	__u32 packets;
	/* mk_session_node() if there is one; otherwise mk_frontend.set_id of the Service, or 0 */
	__u32 set_id;
	__u32 service_id; /* mk_frontend.service_id, 0: the session is no Service's */
	__u8 flags; /* enum mk_session_flags, without those that have a byte */
	/* Both in forward entries. They share a byte, so two CPUs that set them at once may lose
	 * one. The next packet of that side sets it again.
	 *
	 * In the answers' entry of a connection that has moved to another node, `spoke` is the
	 * second of the last answer by that node (bpf/answer.h). */
	__u8 spoke : 7; /* half-open table: a packet has come since it got its slot */
	__u8 replied : 1; /* the other side has answered */
	/* CLOCK_MONOTONIC, seconds modulo 2^8: when an RST came from the other direction; 0: none,
	 * or it was ignored */
	__u8 reset_s;
	__u8 stage; /* MK_SESSION_OPEN (TCP, SCTP), MK_SESSION_MOVED (UDP), or 0 */
	/* TCP, host byte order: the acknowledgement of this direction's packets, noted at most once
	 * a second. Before the handshake is complete, in the forward entry: the number that
	 * completes it, the server's initial sequence number plus 1. 0: unknown. */
	__u32 ack;
	/* mk_policy_seen() when policies allowed the flow; 0: not asked yet. In nat_sessions: 1 if
	 * the flow has no other session, otherwise 0 (bpf/masquerade.h). */
	__u16 policy_seen;
	__u8 fin; /* MK_SESSION_FIN, or 0 */
	__u8 reset; /* MK_SESSION_RST, or 0 */
#ifdef MK_TEST_ENLARGED_SESSION
	__u64 test[2];
};
#else
};
_Static_assert(sizeof(struct mk_session) == MK_BY_FAMILY(64, 88), "map value ABI");
#endif
_Static_assert(offsetof(struct mk_session, service_id) == MK_BY_FAMILY(48, 72), "map value ABI");

/* The node by which a client outside came, and to which answers go by the overlay. On the node that
 * took the request: the one to which packets go unchanged (bpf/direct_return.h). It is the last
 * four bytes of the VTEP MAC address, as they are there. 0: none. */
static inline __attribute__((always_inline)) __u32 mk_session_node(const struct mk_session *session)
{
	return !session->service_id || session->flags & MK_SESSION_VIA_OVERLAY ? session->set_id
									       : 0;
}

/* Return all of enum mk_session_flags. */
static inline __attribute__((always_inline)) __u8 mk_session_flags(const struct mk_session *session)
{
	return session->flags | session->stage | session->fin | session->reset;
}

static inline void mk_session_set_flags(struct mk_session *session, __u8 flags)
{
	session->stage = flags & (MK_SESSION_OPEN | MK_SESSION_MOVED);
	session->fin = flags & MK_SESSION_FIN;
	session->reset = flags & MK_SESSION_RST;
	session->flags = flags & (__u8) ~(session->stage | session->fin | session->reset);
}

/* Maps sessions_order, nat_sessions_order (queues): the sessions of sessions_young and
 * nat_sessions_young in order of creation. If the queue is full, a program takes its first slot and
 * evicts that session. A session is not evicted if it has ended, is established, or its client has
 * sent a packet since. */
struct mk_session_place {
	struct mk_tuple key; /* of the forward entry */
	__u64 created_ns; /* of the session; if the entry has another time, it is another session */
};
_Static_assert(sizeof(struct mk_session_place) == MK_BY_FAMILY(24, 48), "map value ABI");

/* The number of slots for a table of @entries: two entries per session, plus an eighth of the table
 * for entries without a slot. */
static inline __u32 mk_session_places(__u32 entries)
{
	return entries / 16 * 7;
}

/* The number of slots in maps sessions_kept and nat_sessions_kept (queues), for a table of
 * @entries. They hold established sessions in the order in which they were established. A program
 * that finds the table or the queue full takes the first slot. It removes that slot's session if
 * the session is over or idle for too long. A quarter of the sessions have a slot. A session that
 * outlives its slot is removed by the agent. */
static inline __u32 mk_session_kept_places(__u32 entries)
{
	return entries / 8;
}

enum mk_scope {
	MK_SCOPE_INTERNAL, /* seen from pods and hosts of the cluster */
	MK_SCOPE_EXTERNAL, /* seen from the uplink */
};

/* Map frontends: addresses of Services. An entry with port 0 and proto MK_PROTO_ANY only marks an
 * address as a Service's: unknown ports of that address are refused, and pings are answered. */
struct mk_frontend_key {
	struct mk_addr addr;
	__be16 port;
	__u8 proto;
	__u8 scope; /* enum mk_scope */
};
_Static_assert(sizeof(struct mk_frontend_key) == MK_BY_FAMILY(8, 20), "map key ABI");

enum mk_frontend_flags {
	MK_FRONTEND_MASQUERADE = 1 << 0, /* requests get the virtual pod address as source */
	MK_FRONTEND_MAGLEV = 1 << 1, /* choose by the maglev table, otherwise at random by weight */
	MK_FRONTEND_DROP_EMPTY = 1 << 2, /* no backend: drop (other nodes have some), not refuse */
	/* For commands; no program reads them. Endpoints are left out: other clusters are
	 * preferred, or their cluster is down. */
	MK_FRONTEND_PREFERS = 1 << 3,
	MK_FRONTEND_WITHOUT_DOWN = 1 << 4,
};

/* Backends have numbers 0..backend_count-1, local ones first. A local backend has the weight
 * local_weight, any other 1. */
struct mk_frontend {
	__u32 set_id; /* of the backend set, never 0 */
	__u32 generation; /* of the backends: part of their keys */
	__u16 backend_count;
	__u16 local_count;
	__u16 local_weight;
	__u16 flags; /* enum mk_frontend_flags */
	__u32 service_id; /* of the Service: key of its counters, never 0 */
	__u32 affinity_id; /* of the Service port: part of the key in map affinity; 0: no affinity */
	__u32 affinity_timeout_s;
	__u32 ranges_id; /* clients that map source_ranges admits; 0: all */
	/* User space writes under this lock (BPF_F_LOCK), so the entry is updated in place. A
	 * replaced entry could be missed by a concurrent look-up: the new one goes to the front of
	 * its bucket, then the old one is removed (kernel/bpf/hashtab.c). Programs read without the
	 * lock. A mix of two versions gives a backend or none; if none, the entry is read again. */
	struct bpf_spin_lock lock;
};
_Static_assert(sizeof(struct mk_frontend) == 36, "map value ABI");

/* Map service_backends */
struct mk_backend_key {
	__u32 set_id, generation, index;
};
struct mk_backend {
	struct mk_addr addr;
	__be16 port;
	__u8 pad[2];
};
_Static_assert(sizeof(struct mk_backend_key) == 12, "map key ABI");
_Static_assert(sizeof(struct mk_backend) == MK_BY_FAMILY(8, 20), "map value ABI");

/* Maps affinity, affinity_new (LRU): the backend of a client's last new connection to any address
 * of a Service port. It is used only while it is in the set to choose from. Map affinity_backends,
 * an index by backend for ports with affinity, shows that. A first packet writes affinity_new. The
 * entry moves to affinity when the client completes its session. So packets with forged sources
 * evict no client with a connection. */
struct mk_affinity_key {
	struct mk_addr client;
	__u32 affinity_id; /* mk_frontend.affinity_id */
};
struct mk_affinity {
	struct mk_backend backend;
#if MK_FAMILY != 4
	__u8 pad[4];
#endif
	__u64 last_new_ns; /* CLOCK_MONOTONIC, of the last new connection */
};
struct mk_affinity_backend_key {
	__u32 set_id, generation;
	struct mk_backend backend;
};
_Static_assert(sizeof(struct mk_affinity_key) == MK_BY_FAMILY(8, 20), "map key ABI");
_Static_assert(sizeof(struct mk_affinity) == MK_BY_FAMILY(16, 32), "map value ABI");
_Static_assert(sizeof(struct mk_affinity_backend_key) == MK_BY_FAMILY(16, 28), "map key ABI");

/* Map source_ranges (LPM): clients that a load-balancer address admits. The id is the first 32 bits
 * of the prefix, so prefix_bits starts at 32. The value has no meaning. */
struct mk_source_range_key {
	__u32 prefix_bits;
	__u32 ranges_id; /* mk_frontend.ranges_id */
	struct mk_addr addr;
};
_Static_assert(sizeof(struct mk_source_range_key) == MK_BY_FAMILY(12, 24), "map key ABI");

/* Maps service_counters, by mk_frontend.service_id, and service_drops. The first counted packet
 * creates an entry, so only Services with traffic have one. Packets are counted as on the wire.
 * Those of a session are added up in its entry and flushed about once a second.
 *
 * Map service_counters_ended has the same form. The agent adds what sessions still held when it
 * removed them. Programs and agent each write their own map, so neither overwrites the other. The
 * count of a Service is the sum of both. */
enum mk_flow_direction { MK_FLOW_REQUEST, MK_FLOW_REPLY, MK_FLOW_DIRECTIONS };
struct mk_service_counter {
	__u64 connections;
	__u64 packets[MK_FLOW_DIRECTIONS], bytes[MK_FLOW_DIRECTIONS];
};
struct mk_service_drop_key {
	__u32 service_id;
	__u32 reason; /* enum mk_drop_reason */
};
_Static_assert(sizeof(struct mk_service_counter) == 40, "map value ABI");
_Static_assert(sizeof(struct mk_service_drop_key) == 8, "map key ABI");

/* Map maglev: per slot a backend's index (__u16). mk_node.maglev_slots is the number of slots, a
 * prime (Maglev paper, section 3.4). The value is padded to a power of two, because before Linux
 * 6.x the verifier can bound an index only by its bits. */
#define MK_MAGLEV_SLOTS	    1021 /* unless configured otherwise */
#define MK_MAGLEV_SLOTS_MAX 65521
struct mk_maglev_key {
	__u32 set_id, generation;
};
_Static_assert(sizeof(struct mk_maglev_key) == 8, "map key ABI");

/* The number of entries in a table of @slots slots, with padding. */
static inline __u32 mk_maglev_room(__u32 slots)
{
	__u32 room = 1;

	while (room < slots)
		room *= 2;
	return room;
}

/* Map pods: an array of the local pods. A pod's slot is the low bits of its address
 * (mk_pod_slot()). So programs, which look up two pods per packet, need no hash. If a slot has
 * another address, the pod does not exist. There are as many slots as the pod CIDR has addresses;
 * the number never decreases. */
struct mk_pod {
	__u32 ifindex; /* host side of the veth */
	__u8 mac[6]; /* of the pod's interface */
	/* Its namespace: IFLA_LINK_NETNSID of the host side, plus 1; 0: unknown. */
	__u16 netns_ref : 15;
	/* The host side has a queue that limits the pod's ingress, so packets must pass it. */
	__u16 shaped : 1;
	struct mk_addr addr; /* 0: the slot is free */
#if MK_FAMILY != 4
	__u8 pad[4];
#endif
};
#define MK_POD_NETNS_REF_MAX 0x7fff
_Static_assert(sizeof(struct mk_pod) == MK_BY_FAMILY(16, 32), "map value ABI");

/* Of a larger pod CIDR, pods use only this many addresses. */
#define MK_POD_SLOTS_MAX_IPV4 65536
#define MK_POD_SLOTS_MAX_IPV6 1024
#ifndef MK_ROWS
#define MK_POD_SLOTS_MAX MK_BY_FAMILY(MK_POD_SLOTS_MAX_IPV4, MK_POD_SLOTS_MAX_IPV6)
#else
/* Is @mask a netmask of IPv6? One of IPv4 begins with zeros in a row. */
static inline int mk_mask_is_ipv6(const struct mk_addr *mask)
{
	return mask->word[0] != 0;
}

/* The number of slots for a pod CIDR with @mask: a power of two. */
static inline __u32 mk_pod_slots(const struct mk_addr *mask)
{
	__u32 most = mk_mask_is_ipv6(mask) ? MK_POD_SLOTS_MAX_IPV6 : MK_POD_SLOTS_MAX_IPV4;
	__u32 others = ~mk_addr_low_bits(mask);

	return others < most ? others + 1 : most;
}

/* The bits of an address behind the prefix of a pod CIDR with @mask. */
static inline __u32 mk_pod_host_bits(const struct mk_addr *mask)
{
	__u32 bits = 0;

	for (int i = mk_mask_is_ipv6(mask) ? 0 : MK_ADDR_WORDS - 1; i < MK_ADDR_WORDS; i++)
		bits += (__u32)__builtin_popcount(~mask->word[i]);
	return bits;
}
#endif

static inline __u32 mk_pod_slot(const struct mk_addr *addr, __u32 slots)
{
	return mk_addr_low_bits(addr) & (slots - 1);
}

/* Map host_ports: ports of this host that lead to a local pod (a container's hostPort). The CNI
 * plugin writes it. Programs look here for new flows that match no Service's frontend. */
struct mk_host_port_key {
	struct mk_addr addr; /* 0: any address of this host */
	__be16 port;
	__u8 proto; /* IPPROTO_* */
	__u8 pad;
};
struct mk_host_port {
	struct mk_addr addr; /* the pod's */
	__be16 port;
	__u8 leaving; /* opens no new session; removed after its sessions have been cut */
	__u8 pad;
	__u32 ifindex; /* the pod's in map pods; if that has another ifindex, the pod is gone */
};
_Static_assert(sizeof(struct mk_host_port_key) == MK_BY_FAMILY(8, 20), "map key ABI");
_Static_assert(sizeof(struct mk_host_port) == MK_BY_FAMILY(12, 24), "map value ABI");

/* Map cni_calls, an array by enum mk_cni_command that no program uses. The CNI plugin adds to it by
 * memory map, and the agent reads it. Limits of the buckets: src/pod/request/calls.h. Append
 * only. */
enum mk_cni_command {
	MK_CNI_COMMAND_ADD,
	MK_CNI_COMMAND_DEL,
	MK_CNI_COMMAND_CHECK,
	MK_CNI_COMMAND_GC,
	MK_CNI_COMMAND_STATUS,
	MK_CNI_COMMANDS
};
#define MK_CNI_BUCKETS 16
struct mk_cni_calls {
	__u64 failed; /* number of failed calls */
	__u64 total_ns; /* total duration of all calls */
	__u64 buckets[MK_CNI_BUCKETS]; /* calls by duration, each in one bucket */
};
_Static_assert(sizeof(struct mk_cni_calls) == 144, "map value ABI");

/* Map pods_gone, one entry that no program uses: what the devices of removed pods had sent. The CNI
 * plugin adds to it by memory map. Together with the counters of the existing devices it is the
 * traffic of hook `pod`. */
struct mk_pod_traffic {
	__u64 packets, bytes;
};
_Static_assert(sizeof(struct mk_pod_traffic) == 16, "map value ABI");

/* Map routes (LPM). An address that matches nothing is outside the cluster. */
enum mk_route_type {
	MK_ROUTE_PODS = 1, /* this node's pod CIDR: look in map pods */
	MK_ROUTE_OVERLAY, /* another node's pod CIDR or VTEP address */
	MK_ROUTE_HOST, /* an address of this host */
	MK_ROUTE_DROP, /* inside the cluster's ranges, but on no node */
	/* Another node's own address, if mk_node.keeps_source: pods' packets to it are masqueraded
	 * all the same. Their answers would otherwise come by the overlay. */
	MK_ROUTE_NODE,
	MK_ROUTE_CLUSTER, /* the view of another cluster's pods (clusters.h) */
};
struct mk_route_key {
	__u32 prefix_bits;
	struct mk_addr addr;
};
struct mk_route {
	__u8 type; /* enum mk_route_type */
	/* Both for MK_ROUTE_OVERLAY: no WireGuard leads there (mk_node.encrypts_all); packets go to
	 * the node's own address, without VXLAN (map link_nodes). */
	__u8 is_clear : 1;
	__u8 is_direct : 1;
	/* MK_ROUTE_OVERLAY: of the node that has the address. MK_ROUTE_CLUSTER: the first four
	 * bytes are the cluster's number (mk_route_cluster()). Otherwise 0. */
	__u8 vtep_mac[6];
};
_Static_assert(sizeof(struct mk_route_key) == MK_BY_FAMILY(8, 20), "map key ABI");
_Static_assert(sizeof(struct mk_route) == 8, "map value ABI");

/* The number of the cluster in a route of type MK_ROUTE_CLUSTER. */
static inline __attribute__((always_inline)) __u32 mk_route_cluster(const struct mk_route *route)
{
	__u32 number;

	__builtin_memcpy(&number, route->vtep_mac, sizeof(number));
	return number;
}

static inline struct mk_route mk_route_to_cluster(__u32 number)
{
	struct mk_route route = { .type = MK_ROUTE_CLUSTER };

	__builtin_memcpy(route.vtep_mac, &number, sizeof(number));
	return route;
}

/* Map node_routes, an array: the routes to other nodes' pod CIDRs by node number. A node's number
 * is the position of its pod CIDR in the cluster's range. A look-up costs the same for any number
 * of nodes. Only pod CIDRs of the same size as this node's are here, with numbers below this limit.
 * Type 0: look in map routes. Since version 7 of the tables. */
#define MK_NODE_ROUTES 65536

/* The number of the node whose pod CIDR has @addr, which is in the cluster's range with mask
 * @cluster_mask. */
static inline __u32 mk_node_number(const struct mk_addr *addr, const struct mk_addr *cluster_mask,
				   __u32 pod_host_bits)
{
	return mk_addr_bits_above(addr, pod_host_bits) &
	       ~mk_addr_bits_above(cluster_mask, pod_host_bits);
}

#define MK_VXLAN_VNI 1 /* of the overlay's packets */

/* Map peers: the addresses of the other nodes, from which their overlay packets come. Since version
 * 7 of the tables. */
struct mk_peer {
	__u8 vtep_mac[6]; /* identifies the node, as mk_route.vtep_mac does */
	__u8 is_direct; /* as mk_route.is_direct */
	__u8 pad;
};
_Static_assert(sizeof(struct mk_peer) == 8, "map value ABI");

/* The first two bytes of the MAC addresses that belong to addresses of pods and of the overlay. */
#define MK_MAC_PREFIX 0x024d

/* Map link_nodes: the other nodes on the links of this host's uplinks. They may send packets of
 * their pods without VXLAN, and get such packets if mk_route.is_direct says so. */
struct mk_link_node_key {
	__u8 vtep_mac[6]; /* as mk_route.vtep_mac */
	__u8 pad[2];
};
struct mk_link_node {
	struct mk_addr addr; /* the node's own, of the pods' family */
	__u32 ifindex; /* of the uplink */
	__u32 mtu_bytes;
	/* The MAC address of @addr when the host's neighbour table was last asked; 0: not yet.
	 * Programs write it. */
	__u8 mac[6];
	/* When a frame with its VTEP MAC address last came by the link (bpf/direct_return.h), a
	 * second of CLOCK_MONOTONIC modulo 2^15; 0: never. Did it say then that it gets such frames
	 * of this node? Programs write both. */
	__u16 shown_s : 15;
	__u16 sees_this : 1;
};
#define MK_SHOWN_SECONDS 0x7fff /* mask of shown_s */
#define MK_SHOWN_FOR_S	 15 /* some probes later */
#define mk_link_is_shown(node_, now_s_) \
	((node_)->shown_s && (((now_s_) - (node_)->shown_s) & MK_SHOWN_SECONDS) <= MK_SHOWN_FOR_S)
_Static_assert(sizeof(struct mk_link_node_key) == 8, "map key ABI");
_Static_assert(sizeof(struct mk_link_node) == MK_BY_FAMILY(20, 32), "map value ABI");

/* Key of map far_peers: the same where the overlay's packets are not of the pods' family. An IPv4
 * address is mapped (RFC 4291, 2.5.5.2). */
struct mk_far_addr {
	__be32 word[4];
};
#define MK_PEERS_MAX 65536
_Static_assert(sizeof(struct mk_far_addr) == 16, "map key ABI");

/* Map fragments (LRU): the data known from the fragments of a packet at a hook. Before version 4 of
 * the tables only the ports. */
#if MK_FAMILY == 4
typedef __be16 mk_fragment_id;
#else
typedef __be32 mk_fragment_id;
#endif
struct mk_fragment_key {
	struct mk_addr saddr, daddr;
	mk_fragment_id id;
	__u8 proto;
	__u8 hook; /* enum mk_hook; MK_HOOK_COUNT: the loopback device's egress */
#if MK_FAMILY != 4
	__u8 pad[2];
#endif
};
struct mk_fragment {
	__be16 sport, dport; /* from the first fragment */
	__u32 l4_bytes; /* of the whole packet, from the last fragment; 0: not seen */
	__u64 begun_ns; /* CLOCK_MONOTONIC; identifies the packet together with the key */
	__u64 released_ns; /* release of the first fragment; 0: not released, or it came in again */
	__u32 passed_bytes; /* when it reaches l4_bytes, the entry is deleted */
	__u8 has_first;
	__u8 l4; /* enum mk_l4 of bpf/packet.h; from the first fragment */
	__u8 not_held; /* map held had no slot for one of them: no more of them wait */
	__u8 proto; /* IPv6: of layer 4, from the first fragment */
};
_Static_assert(sizeof(struct mk_fragment_key) == MK_BY_FAMILY(12, 40), "map key ABI");
_Static_assert(sizeof(struct mk_fragment) == 32, "map value ABI");

/* Map held, an array: fragments that came before the data that their translation needs, as frames.
 * The fragments of a packet use MK_HELD_OF_PACKET adjacent slots. A slot is free when its fragment
 * has waited for MK_HELD_NS. */
#define MK_HELD_SLOTS	  128 /* a power of two */
#define MK_HELD_OF_PACKET 8
#define MK_HELD_BYTES	  9216 /* the longest frame that is held */
#define MK_HELD_NS	  2000000000ULL
struct mk_held {
	/* Protects all but the data. While bytes is 0, the slot belongs to one CPU. */
	struct bpf_spin_lock lock;
	struct mk_fragment_key of;
#if MK_FAMILY != 4
	__u8 pad_of[4];
#endif
	__u64 begun_ns; /* mk_fragment.begun_ns */
	__u64 since_ns; /* CLOCK_MONOTONIC; 0: free */
	__u32 ifindex;
	__u16 bytes; /* 0: the frame is being stored or sent */
	__u8 is_first;
	__u8 pad;
	__u8 data[MK_HELD_BYTES];
};
_Static_assert(sizeof(struct mk_held) == MK_BY_FAMILY(40, 72) + MK_HELD_BYTES, "map value ABI");

/* Map runtime, one entry: settings that user space may change while programs run. */
struct mk_runtime {
	__u32 report_drops; /* a listener reads the ring buffer drop_events */
	/* A flow whose client keeps its address may have this host itself as its backend
	 * (externalTrafficPolicy Local). */
	__u8 host_backends;
	__u8 frontends_gone; /* a connection may exist whose frontend has been removed */
	__u8 monitored; /* program `monitor` is in the router's slot: local packets pass it too */
	/* Both since version 7 of the tables. peers_known: map peers has all nodes, so overlay
	 * packets of other senders are dropped. */
	__u8 peers_known : 1;
	__u8 ranges_shared : 1; /* hosts outside also have addresses in the cluster's ranges */
	__u32 host_ports; /* map host_ports is not empty */
	/* range of the NodePorts that the host may use at a loopback address; highest 0: none */
	__u16 localhost_port_min, localhost_port_max;
};
_Static_assert(sizeof(struct mk_runtime) == 16, "map value ABI");

/* Map udp_ports, one entry: a bit per port (host order) at which backends of Services or host ports
 * receive UDP. A bit stays set until the next boot, even if no backend uses the port any more.
 * Agent and CNI plugin set bits. */
struct mk_port_set {
	__u32 words[65536 / 32];
};
_Static_assert(sizeof(struct mk_port_set) == 8192, "map value ABI");

static inline void mk_port_set_add(struct mk_port_set *set, __u16 port)
{
	set->words[port / 32] |= 1u << (port % 32);
}

#define MK_LOOPBACK_IFINDEX 1 /* in every network namespace: linux/net/net_namespace.h */

/* ---- what changes while programs run ------------------------------------------------- */

/* Map uplinks, by ifindex: the devices to outside, which carry the programs. Since version 7 of the
 * tables. */
#define MK_UPLINKS_MAX 64
struct mk_uplink {
	__u32 ifindex;
	__u32 mtu_bytes;
	/* Source of masqueraded packets if the kernel does not return the route's source. */
	struct mk_addr addr;
	__u32 flags; /* enum mk_uplink_flags */
#if MK_FAMILY != 4
	/* The source of packets to unique local addresses (fc00::/7); 0: mk_uplink.addr. */
	struct mk_addr addr_local;
#endif
};
_Static_assert(sizeof(struct mk_uplink) == MK_BY_FAMILY(16, 44), "map value ABI");

enum mk_uplink_flags {
	MK_UPLINK_TUNNEL = 1 << 0, /* frames without Ethernet header (tun, WireGuard) */
	/* No address of the Node and no default route. The host routes packets from here to other
	 * addresses of Services. */
	MK_UPLINK_SIDE = 1 << 1,
};

/* The network of an uplink's address. */
#define MK_LINK_NETWORKS 8
struct mk_link_network {
	struct mk_addr net, mask;
	__u32 ifindex; /* 0: none */
};
_Static_assert(sizeof(struct mk_link_network) == MK_BY_FAMILY(12, 36), "map value ABI");

struct mk_link_set {
	struct mk_addr node_addr; /* the first InternalIP */
	__u32 overlay_ifindex;
	__u32 host_ifindex; /* the host's end of the host veth pair: the host receives on it */
	__u32 host_peer_ifindex; /* the datapath's end: hook `host` */
	__u32 overlay_mtu_bytes;
	__u32 ask_host; /* 0: all packets leave the cluster by `first`, with its address */
	struct mk_uplink first; /* carries the overlay */
	struct mk_link_network networks[MK_LINK_NETWORKS];
};
_Static_assert(sizeof(struct mk_link_set) == MK_BY_FAMILY(136, 368), "map value ABI");

/* Map links, one entry. Programs read the current set. The agent writes the other set and then
 * changes `current`, so no packet meets half a change. Since version 7 of the tables. */
struct mk_links {
	__u32 current; /* 0 or 1 */
	__u32 sfc_ifindex; /* VXLAN device of chains (MK_SFC_VNI); 0: none */
	struct mk_link_set set[2];
	__u32 cluster_ifindex; /* VXLAN device to other clusters (MK_CLUSTER_VNI); 0: none */
	__u32 wg_ifindex; /* WireGuard device to nodes of this and other clusters; 0: none */
	__u32 wg_peer_ifindex; /* VXLAN device on it (MK_CLUSTER_WG_VNI); 0: none */
};
_Static_assert(sizeof(struct mk_links) == MK_BY_FAMILY(292, 756), "map value ABI");

/* Map way, per CPU, one entry: the result of the host's routing for the current packet, passed from
 * the router to nat. */
struct mk_way {
	__u32 ifindex;
	struct mk_addr next_hop; /* 0: the kernel finds it */
	struct mk_addr source; /* of masqueraded packets */
	__u32 mtu_bytes;
};
_Static_assert(sizeof(struct mk_way) == MK_BY_FAMILY(16, 40), "map value ABI");

/* ---- node constants: .rodata, set before load, folded by the JIT --------------------- */

/* Where this kernel's struct sk_buff has the members that bpf/partial.h reads: a window of
 * MK_SKB_WINDOW_BYTES, and in it the byte of each member. */
#define MK_SKB_WINDOW_BYTES 64
struct mk_skb_window {
	__u16 off; /* in struct sk_buff; 0: the kernel does not show it, and nothing is read */
	__u8 csum_off; /* csum_start, and behind it csum_offset */
	__u8 network_off; /* network_header */
	__u8 summed_off, summed_shift; /* ip_summed, two bits */
	__u8 of_all_sockets; /* for tests: a test run's packet has an IPv4 or IPv6 socket */
};

struct mk_node {
	struct mk_addr vtep_addr, gateway_addr;
	struct mk_addr vpod_addr; /* virtual pod address */
	struct mk_addr pod_net, pod_mask;
	struct mk_addr cluster_net, cluster_mask;
	__u32 maglev_slots; /* 0: MK_MAGLEV_SLOTS */
	__u32 maglev_mask; /* mk_maglev_room() - 1; set when the object is opened */
	__u16 nat_port_min, nat_port_max; /* inclusive */
	__be16 vxlan_port;
	__u8 gateway_mac[6]; /* host side of every pod veth and of the host veth pair */
	__u8 vtep_mac[6];
	__u8 has_coarse_clock; /* bpf_ktime_get_coarse_ns(), Linux 5.11; set when opened */
	__u8 has_ipv6_csum; /* BPF_F_IPV6 of bpf_l4_csum_replace(), Linux 6.16; set when opened */
	__u32 pod_slots; /* of map pods; set when the object is loaded */
	struct mk_addr vtep_net, vtep_mask; /* range of the nodes' overlay addresses */
	__u32 pod_host_bits; /* of an address in pod_net; set when the object is opened */
	/* Pods' packets leave the cluster with their own source: the network routes pod CIDRs to
	 * their nodes (IPv6 without masquerade). */
	__u8 keeps_source;
	__u8 has_other_family; /* IPv4: this node also has IPv6 (map other_family) */
	/* The nodes' addresses, between which the overlay sends, are of the other family. If this
	 * node's pods have that family, too, its programs check the carriers. */
	__u8 is_carried_by_other; /* ... and carriers are checked there */
	__u8 checks_far_carriers; /* ... and carriers are checked here (map far_peers) */
	__u8 makes_no_copies; /* `monokube trace` runs the programs: taps get nothing */
	__u8 encrypts; /* this node may have mkwg: carriers of MK_CLUSTER_WG_VNI leave by it only */
	/* encryption: WireGuardOnly. The overlay's carriers, and those of chains, leave and come by
	 * mkwg only. */
	__u8 encrypts_all;
	__u8 keeps_client; /* clientAddress: Keep (bpf/client.h) */
	__u8 returns_direct; /* directServerReturn (bpf/direct_return.h) */
	__u32 cluster_number; /* of this cluster (clusters.h); 0: there are no others */
	/* A CPU opens one TCP session from outside per so many nanoseconds, without proof of the
	 * client's address (bpf/syn_gate.h); 0: all. */
	__u32 syn_ns;
	struct mk_skb_window skb; /* set when opened */
};
_Static_assert(sizeof(struct mk_node) == MK_BY_FAMILY(100, 208), "rodata ABI");

/* ---- drops ------------------------------------------------------------------------- */

/* One line per reason: the name, and the text that an operator reads. Append only. */
#define MK_DROP_REASONS(X)                                                                         \
	X(TRUNCATED, "packet shorter than its headers say")                                        \
	X(BAD_HEADER, "invalid IP version, header length or total length")                         \
	X(NOT_IPV4, "neither IPv4 nor IPv6, or of a family this node does not run")                \
	X(SPOOFED_ADDRESS, "pod sends from an address that is not its own")                        \
	X(SPOOFED_MAC, "pod sends from a MAC address that is not its own")                         \
	X(CHAIN_BROKEN, "tail call into an empty slot of the program array")                       \
	X(NO_BACKEND, "chosen backend is not in its table")                                        \
	X(NO_LOCAL_BACKEND, "traffic policy Local and no backend on this node")                    \
	X(SESSION_TABLE_FULL, "no free entry for a new session")                                   \
	X(NAT_PORTS_EXHAUSTED, "no free source port towards this destination")                     \
	X(NO_POD,                                                                                  \
	  "address of this node's pod CIDR that no pod has (answered with host unreachable)")      \
	X(NO_ROUTE, "address inside the cluster's ranges that no pod, node or Service has")        \
	X(NOT_UNICAST, "multicast, broadcast or loopback destination")                             \
	X(TTL_EXPIRED, "TTL used up (answered with time exceeded where possible)")                 \
	X(TOO_BIG, "does not fit the next MTU (answered with fragmentation needed)")               \
	X(FRAGMENT_UNKNOWN, "fragment whose first fragment was not seen")                          \
	X(PROTOCOL, "protocol that cannot be translated")                                          \
	X(REWRITE_FAILED, "the kernel refused to change the packet")                               \
	X(REFUSED, "Service without backends or unknown port (answered with port unreachable)")    \
	X(OVERLAY_STRAY, "packet from another node that is not for this node")                     \
	X(SOURCE_RANGE, "client is not in the Service's loadBalancerSourceRanges")                 \
	X(OVERLAY_FORGED,                                                                          \
	  "UDP to the overlay's port through the datapath: only nodes may send it")                \
	X(SOURCE_ROUTE, "packet chooses its own route (IP option source route)")                   \
	X(FORGED_ERROR,                                                                            \
	  "ICMP error of a pod about another's packet, or that shrinks overlay packets")           \
	X(MARTIAN_SOURCE, "packet on an uplink with a source that no host outside can have")       \
	X(OVERLAY_STRANGER,                                                                        \
	  "overlay packet from no node, or with the source address of another node")               \
	X(ERROR_LIMIT, "not forwarded; no ICMP error sent, because their limit was reached")       \
	X(HOST_ROUTE,                                                                              \
	  "this host has no route there, or one that forbids it (answered as the host would)")     \
	X(NO_UPLINK,                                                                               \
	  "this host's route uses no uplink, or one without an address (net unreachable)")         \
	X(EXTENSION_HEADER,                                                                        \
	  "IPv6 extension headers that are too many, or too long, to find layer 4")                \
	X(NEIGHBOUR_DISCOVERY, "IPv6 neighbour discovery or multicast listener message of a pod")  \
	X(POLICY_INGRESS, "the destination pod's policies do not allow it")                        \
	X(POLICY_EGRESS, "the source pod's policies do not allow it")                              \
	X(POLICY_PENDING, "the pod's policies are not known yet")                                  \
	X(POLICY_NO_FLOW, "belongs to no known connection, and a policy isolates an end of it")    \
	X(SFC_NO_CHAIN, "packet of a function pod that belongs to no service function chain")      \
	X(SFC_UNAVAILABLE, "no replica of a function of the flow's chain is ready")                \
	X(SFC_FORGED, "packet of a function pod whose flow does not pass this function")           \
	X(SFC_REFLECTED, "packet of a function pod on the side from which it came")                \
	X(SFC_PATHS_FULL, "no free entry for the path of a flow through a chain")                  \
	X(SFC_AMBIGUOUS,                                                                           \
	  "another replica of the chain's end has this flow: let each use ports of its own")       \
	X(PEER_UNKNOWN, "address of no ClusterPeer, or a packet of a cluster that is none")        \
	X(PEER_NO_NODE, "no node of the ClusterPeer is known, or device mkpeer is missing")        \
	X(PEER_VERSION, "packet of another cluster in a format that this version does not know")   \
	X(PEER_SOURCE, "source that no pod of the sending cluster can have")                       \
	X(PEER_TRANSIT, "packet for a third cluster that this one does not relay to")              \
	X(PEER_DENIED, "another cluster's packet that the ClusterPeer's access does not allow")    \
	X(PEER_CLEAR, "packet to a ClusterPeer with encryption that would leave unencrypted")      \
	X(OVERLAY_CLEAR,                                                                           \
	  "overlay packet that leaves or comes unencrypted, with encryption: WireGuardOnly")       \
	X(DIRECT_FORGED,                                                                           \
	  "another node's pod or overlay address without VXLAN, not from that node's MAC address") \
	X(SYN_FLOOD,                                                                               \
	  "TCP connection above synRate (a SYN is answered: its client can prove its address)")    \
	X(CHECKSUM_PLACE,                                                                          \
	  "pod asks a device to write a checksum over a header: addresses or ports could change")

enum mk_drop_reason {
#define MK_DROP_ENUM(name, text) MK_DROP_##name,
	MK_DROP_REASONS(MK_DROP_ENUM)
#undef MK_DROP_ENUM
		MK_DROP_COUNT
};

/* Map error_budget, per CPU, one entry: the time, CLOCK_MONOTONIC in ns, at which the ICMP errors
 * sent so far are paid for. Each error costs MK_ERROR_NS, and MK_ERROR_BURST errors may be sent in
 * advance: the kernel's own limits (icmp_msgs_per_sec, icmp_msgs_burst). "Fragmentation needed" has
 * a larger burst, so that a flood of other errors does not suppress it. */
#define MK_ERROR_NS	   1000000ULL
#define MK_ERROR_BURST	   50
#define MK_ERROR_BURST_MTU 60

/* Map syn_secret, one entry (bpf/syn_gate.h). The agent makes it once; 0: not yet. */
struct mk_syn_secret {
	__u64 half[2];
	__u64 asked_ns; /* when a client was asked last, by the second */
};
_Static_assert(sizeof(struct mk_syn_secret) == 24, "map value ABI");

/* Map syn_verified: the client with this address has proved it. */
struct mk_syn_client {
	__u64 since_ns, paid_ns; /* paid_ns: its own budget, as in map syn_budget */
};
_Static_assert(sizeof(struct mk_syn_client) == 16, "map value ABI");
#define MK_SYN_CLIENTS_MAX 16384 /* without synRate the table has one entry */

/* Map syn_budget, per CPU, one entry: as map error_budget, for TCP sessions from outside. The SYNs
 * of so many nanoseconds, but at least one, may come at once. */
#define MK_SYN_BURST_NS 100000000ULL

/* Map drops: per-CPU array, index = reason * MK_HOOK_COUNT + hook. */
struct mk_drop_counter {
	__u64 packets, bytes;
};

/* Ring buffer drop_events. The tuple is that of the packet when it was dropped; zero if it could
 * not be read. If a set of policies decided, @decided.set is not 0. Then @client and @server are
 * the ends of the flow in the direction of its request, @server after destination translation. */
struct mk_drop_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 ifindex;
	__u16 length_bytes;
	__u8 reason; /* enum mk_drop_reason */
	__u8 hook; /* enum mk_hook */
	struct mk_tuple tuple;
	struct mk_policy_count_key decided;
	struct mk_addr client, server;
};
_Static_assert(sizeof(struct mk_drop_event) == MK_BY_FAMILY(56, 104), "ring buffer ABI");

/* ---- flows that `monitor` reports ---------------------------------------------------- */

/* While `monokube monitor` runs, program `monitor` is in slot MK_PROG_ROUTER of the chain, and
 * mk_runtime.monitored sends all packets there. The program reports packets as the router gets them
 * and continues at MK_PROG_MONITORED. At other times programs only read that byte. */
#define MK_MONITOR_FLOWS	8192 /* a power of two */
#define MK_MONITOR_IDLE_S	10 /* a flow that was silent for longer is reported again */
#define MK_MONITOR_EVENTS_PER_S 1000 /* per CPU */

/* Map monitor_settings, one entry. Zero: any. The address or port may be of either side, before or
 * after load balancing. */
struct mk_monitor_settings {
	__u64 until_ns; /* CLOCK_MONOTONIC; extended while a monitor runs, in case it is killed */
	__u32 sample; /* also report one of this many packets after a flow's first; 0: none */
	__u32 service_id; /* mk_frontend.service_id */
	__u32 since_s; /* CLOCK_MONOTONIC; flows last seen before are reported again */
	struct mk_addr addr;
	__be16 port;
	__u8 proto;
	__u8 pad[MK_BY_FAMILY(5, 9)];
};
_Static_assert(sizeof(struct mk_monitor_settings) == MK_BY_FAMILY(32, 48), "map value ABI");

/* Map monitor_counts, per CPU, one entry. */
struct mk_monitor_count {
	__u64 left_out; /* events over MK_MONITOR_EVENTS_PER_S, or without space in the ring buffer */
	__u64 second_ns; /* start of the second that `reported` counts */
	__u32 reported;
	__u32 sampled; /* packets since the last sample (mk_monitor_settings.sample) */
};
_Static_assert(sizeof(struct mk_monitor_count) == 24, "map value ABI");

/* Map monitor_flows, by hash: when one direction of a flow was last seen. Flows that share a slot
 * are reported more than once. */
struct mk_monitor_flow {
	__u32 hash;
	__u32 seen_s; /* CLOCK_MONOTONIC */
};
_Static_assert(sizeof(struct mk_monitor_flow) == 8, "map value ABI");

enum mk_flow_session {
	MK_FLOW_NO_SESSION,
	MK_FLOW_OPENING, /* new: half-open, or seen in only one direction */
	MK_FLOW_ESTABLISHED,
};

/* Ring buffer flow_events. */
struct mk_flow_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 ifindex;
	__u32 service_id; /* of the Service's session; 0: none */
	__u16 length_bytes;
	__u8 hook; /* enum mk_hook */
	__u8 sampled; /* not the first of its flow */
	__u8 session; /* enum mk_flow_session, of the session that translates `came` to `goes` */
	__u8 session_flags; /* enum mk_session_flags, of the other direction */
	__u8 tcp_flags;
	__u8 to_host; /* its session sends it to the host, whatever the destination */
	struct mk_tuple came, goes; /* at the hook; at the router */
};
_Static_assert(sizeof(struct mk_flow_event) == MK_BY_FAMILY(56, 104), "ring buffer ABI");

#endif

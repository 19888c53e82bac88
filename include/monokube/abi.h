/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* include/monokube/abi.h - everything that bpf/ and src/ share: tables, node constants,
 * drop reasons. Said once, here; layout asserted at the end of each struct.
 *
 * Ports and addresses are in network byte order where the type says __be; the rest is in
 * host byte order with the unit in the name. Padding is explicit and always zero, because a
 * hash map compares every byte of a key. Enums that number table slots only ever grow. */
#ifndef MONOKUBE_ABI_H
#define MONOKUBE_ABI_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stddef.h>
#include "addr.h"

/* ---- hooks, programs --------------------------------------------------------------- */

/* Where a packet met the datapath. Index of the drop counters: append only. */
enum mk_hook {
	MK_HOOK_POD, /* host side of a pod's veth, ingress: a pod sends */
	MK_HOOK_HOST, /* datapath side of the host veth, ingress: the host sends */
	MK_HOOK_OVERLAY, /* VXLAN device, ingress: another node sends */
	MK_HOOK_UPLINK, /* uplink, ingress: the world sends */
	MK_HOOK_UPLINK_EGRESS, /* uplink, egress: the host answers */
	MK_HOOK_COUNT
};

/* Slots of the program array `chain`. Append only. */
enum mk_prog {
	MK_PROG_ROUTER,
	MK_PROG_ELB,
	MK_PROG_NAT, /* masquerade, towards the uplink */
	MK_PROG_ERROR, /* an ICMP error the datapath made itself: translate and route it */
	MK_PROG_WATCHED, /* the router again: where program `watch` goes on */
	MK_PROG_HOLD, /* a fragment that came before what its translation needs */
	MK_PROG_RELEASE, /* the one that it waited for */
	MK_PROG_UPLINK, /* a tunnel's packet, with an Ethernet header before it */
	MK_PROG_OPEN, /* the first packet of a flow that needs a session of ilb or elb */
	MK_PROG_COUNT
};

/* ---- tables ------------------------------------------------------------------------ */

/* Raised by one with every change of what a map holds. A value only grows, at its end, and zero there
 * means what the version before did: so the next version takes tables over by copying what there is
 * (src/datapath/migrate.c). Tables of a later version than one's own are left alone. */
#ifndef MK_TEST_ENLARGED_SESSION
#define MK_ABI_VERSION 7
#else
#define MK_ABI_VERSION 8 /* `make ENLARGED=1`: as if there were one, for test/lab/t_upgrade.sh */
#endif

#define MK_PROGRAMS_MAX 16

/* Map abi, one entry that no program uses: who made the tables. Where it is missing: version 0. */
struct mk_abi {
	__u32 version; /* MK_ABI_VERSION */
	char made_by[28]; /* MONOKUBE_VERSION, ends in a zero byte */
	/* Of the programs that are pinned (src/datapath/reuse.c); 0: not known. */
	__u64 object_hash, constants_hash;
	__u32 constants_id; /* of their map of constants */
	__u32 pad;
	__u32 program_ids[MK_PROGRAMS_MAX];
};
_Static_assert(sizeof(struct mk_abi) == 120, "map value ABI");

#define MK_PROTO_ANY 0

/* A flow in one direction, as the packet shows it at the moment of the lookup.
 * ICMP echo: the identifier stands in both ports. No ports (ESP and others): zero. */
struct mk_tuple {
	struct mk_addr saddr, daddr;
	__be16 sport, dport;
	__u8 proto; /* IPPROTO_* */
	__u8 pad[3];
};
_Static_assert(sizeof(struct mk_tuple) == 16, "map key ABI");
_Static_assert(offsetof(struct mk_tuple, proto) == 12, "map key ABI");

/* FIN, RST, OPEN and MOVED are set while packets of the session pass on several CPUs. Linux 5.10 has no atomic OR, so
 * each has a byte of struct mk_session, which holds its bit or 0, and is only stored. The others are written at
 * creation. mk_session_flags() gives all of them. */
enum mk_session_flags {
	MK_SESSION_FORWARD = 1 << 0, /* direction of the first packet */
	/* Reverse entry: to the node whose address it is, by the overlay. Up to version 6 of the tables, forward
	 * entry: mk_session.replied. */
	MK_SESSION_VIA_OVERLAY = 1 << 1,
	MK_SESSION_FIN = 1 << 2, /* TCP: FIN seen in this direction; SCTP: SHUTDOWN or its ACK */
	MK_SESSION_RST = 1 << 3, /* TCP: RST seen in this direction; SCTP: ABORT */
	MK_SESSION_VIA_HOST = 1 << 4, /* belongs to the host's stack: hand it over untranslated */
	MK_SESSION_OPEN = 1 << 5, /* TCP, SCTP: handshake completed */
	MK_SESSION_LOOPBACK = 1 << 6, /* the host asked an address of its own: its stack takes the
				       * answer from the loopback device alone */
	MK_SESSION_MOVED = 1 << 7, /* half-open table: established by now, the agent removes it */
};

/* One direction of a session: a packet that shows the key is rewritten to show `to`.
 * A session is a pair: if K -> T is one entry, reverse(T) -> reverse(K) is the other.
 * Maps: sessions, nat_sessions (established, never evicted, expired by the agent) and
 * sessions_new, nat_sessions_new (half-open and one-way flows, where the oldest make room: struct
 * mk_session_place; up to version 3 of the tables LRU tables). Half-open TCP sessions may be
 * among the established ones (TCP without MK_SESSION_OPEN): as many as each CPU's entry of map sessions_room,
 * an __s64, says that there is room for. Programs take and give back, the agent sets it after each
 * pass of its sweep. */
struct mk_session {
	struct mk_tuple to;
	__u64 created_ns; /* CLOCK_MONOTONIC */
	__u64 last_seen_ns; /* CLOCK_MONOTONIC, refreshed at most once a second */
	__u64 bytes; /* not yet added to the Service's counters (signed, bpf/account.h), as are: */
	__u32 packets;
	__u32 service_id; /* mk_service.id, 0: not a Service's */
	__u32 account_id; /* mk_service.account_id, 0: not a Service's */
	__u8 flags; /* enum mk_session_flags, without those that have a byte */
	__u8 spoke; /* half-open table, forward entry: another packet since its place in the order */
	/* Since version 7 of the tables, as is what follows: */
	__u8 replied; /* forward entry: the other side has answered */
	__u8 stage; /* MK_SESSION_OPEN (TCP, SCTP), MK_SESSION_MOVED (UDP), or 0 */
	/* TCP, host byte order: what this direction's packets acknowledge, noted at most once a second. Forward entry
	 * until the handshake is done: what completes it, the server's initial sequence number and 1. 0: not
	 * known. */
	__u32 ack;
	/* CLOCK_MONOTONIC, modulo 2^16: when an RST came from the other direction; 0: none, or it was ignored */
	__u16 reset_s;
	__u8 fin; /* MK_SESSION_FIN, or 0 */
	__u8 reset; /* MK_SESSION_RST, or 0 */
#ifdef MK_TEST_ENLARGED_SESSION
	__u64 test[2];
};
#else
};
_Static_assert(sizeof(struct mk_session) == 64, "map value ABI");
#endif
_Static_assert(offsetof(struct mk_session, account_id) == 48, "map value ABI");

/* All of enum mk_session_flags. */
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

/* Maps sessions_order, nat_sessions_order (queues): the sessions of sessions_new and nat_sessions_new in the
 * order in which they came. Who finds the queue full takes the first out, and its session with it, unless that
 * has ended, is established, or has spoken since. */
struct mk_session_place {
	struct mk_tuple key; /* of the forward entry */
	__u64 created_ns; /* as there: another one with this key is another session */
};
_Static_assert(sizeof(struct mk_session_place) == 24, "map value ABI");

/* Places for a table of @entries: two entries each, and an eighth for those that have none for a moment. */
static inline __u32 mk_session_places(__u32 entries)
{
	return entries / 16 * 7;
}

/* Maps sessions_kept, nat_sessions_kept (queues): places of established sessions in the order in which they became
 * that, for a table of @entries. Who finds the table or the queue full takes the first out, and its session with it if
 * that is over or idle for long. A quarter of the sessions has room: what goes on for so long that many others have
 * come and gone is the agent's. Since version 7 of the tables. */
static inline __u32 mk_session_kept_places(__u32 entries)
{
	return entries / 8;
}

enum mk_scope {
	MK_SCOPE_INTERNAL, /* seen from pods and hosts of the cluster */
	MK_SCOPE_EXTERNAL, /* seen from the uplink */
};

/* Map services: a frontend. An entry with port 0 and proto MK_PROTO_ANY says only that the
 * address is a Service's: an unknown port of it is refused, a ping is answered. */
struct mk_service_key {
	struct mk_addr addr;
	__be16 port;
	__u8 proto;
	__u8 scope; /* enum mk_scope */
};
_Static_assert(sizeof(struct mk_service_key) == 8, "map key ABI");

enum mk_service_flags {
	MK_SERVICE_MASQUERADE = 1 << 0, /* requests get the virtual pod address as source */
	MK_SERVICE_MAGLEV = 1 << 1, /* choose by the maglev table, else weighted at random */
	MK_SERVICE_DROP_EMPTY = 1 << 2, /* no backend: drop (endpoints elsewhere), else refuse */
};

/* Backends are numbered 0..backend_count-1, the local ones first. A local backend weighs
 * local_weight, any other 1. */
struct mk_service {
	__u32 id; /* of the backend set, never 0 */
	__u32 generation; /* of the backends: part of their keys */
	__u16 backend_count;
	__u16 local_count;
	__u16 local_weight;
	__u16 flags; /* enum mk_service_flags */
	__u32 account_id; /* of the Service: key of its counters, never 0 */
	__u32 affinity_id; /* of the Service port: part of the key in map affinity; 0: no affinity */
	__u32 affinity_timeout_s;
	__u32 ranges_id; /* whom map source_ranges lets in; 0: everybody */
	/* User space writes under it (BPF_F_LOCK), so in place: an entry that is replaced is missed by a
	 * lookup that passes at that moment (kernel/bpf/hashtab.c: the new one goes to the front of its
	 * bucket, then the old one leaves). Programs read without it: what two versions give together
	 * names a backend, or none, and then the entry is read again. Since version 2 of the tables. */
	struct bpf_spin_lock lock;
};
_Static_assert(sizeof(struct mk_service) == 36, "map value ABI");

/* Map service_backends */
struct mk_backend_key {
	__u32 service_id, generation, index;
};
struct mk_backend {
	struct mk_addr addr;
	__be16 port;
	__u8 pad[2];
};
_Static_assert(sizeof(struct mk_backend_key) == 12, "map key ABI");
_Static_assert(sizeof(struct mk_backend) == 8, "map value ABI");

/* Maps affinity, affinity_new (LRU): the backend that a client got when it last opened a connection to any address
 * of a Service port. Counts only while the backend is in the set that is chosen from, which is what
 * map affinity_backends says: index by backend, for the sets of ports with affinity. A first packet writes
 * affinity_new. An entry moves to affinity when the client completes its session. So packets with forged sources
 * evict no client that has a connection. Before version 7 of the tables a first packet wrote affinity. */
struct mk_affinity_key {
	struct mk_addr client;
	__u32 affinity_id; /* mk_service.affinity_id */
};
struct mk_affinity {
	struct mk_backend backend;
	__u64 last_new_ns; /* CLOCK_MONOTONIC, of the last new connection */
};
struct mk_affinity_backend_key {
	__u32 service_id, generation;
	struct mk_backend backend;
};
_Static_assert(sizeof(struct mk_affinity_key) == 8, "map key ABI");
_Static_assert(sizeof(struct mk_affinity) == 16, "map value ABI");
_Static_assert(sizeof(struct mk_affinity_backend_key) == 16, "map key ABI");

/* Map source_ranges (LPM): clients that a load-balancer address takes. The id is the prefix's first
 * 32 bits, so prefix_bits counts from 32; the value says nothing. */
struct mk_source_range_key {
	__u32 prefix_bits;
	__u32 ranges_id; /* mk_service.ranges_id */
	struct mk_addr addr;
};
_Static_assert(sizeof(struct mk_source_range_key) == 12, "map key ABI");

/* Map service_counters, by mk_service.account_id, and map service_drops: made by the first packet
 * that counts, so only Services with traffic have entries. Packets as on the wire; those of a
 * session are gathered in its entry and added about once a second. Map service_counters_ended, of
 * the same form, has what sessions still held when the agent removed them: programs and agent each
 * write their own, so neither loses what the other adds. A Service's count is the sum of both. */
enum mk_flow_direction { MK_FLOW_REQUEST, MK_FLOW_REPLY, MK_FLOW_DIRECTIONS };
struct mk_service_counter {
	__u64 connections;
	__u64 packets[MK_FLOW_DIRECTIONS], bytes[MK_FLOW_DIRECTIONS];
};
struct mk_service_drop_key {
	__u32 account_id;
	__u32 reason; /* enum mk_drop_reason */
};
_Static_assert(sizeof(struct mk_service_counter) == 40, "map value ABI");
_Static_assert(sizeof(struct mk_service_drop_key) == 8, "map key ABI");

/* Map maglev: a backend's index (__u16) per slot. mk_node.maglev_slots says how many, a prime
 * (Maglev paper, section 3.4); the value is padded to a power of two of them, because before 6.x
 * the verifier bounds an index by its bits alone. */
#define MK_MAGLEV_SLOTS	    1021 /* unless configured otherwise */
#define MK_MAGLEV_SLOTS_MAX 65521
struct mk_maglev_key {
	__u32 service_id, generation;
};
_Static_assert(sizeof(struct mk_maglev_key) == 8, "map key ABI");

/* Entries of a table of @slots slots, padding included. */
static inline __u32 mk_maglev_room(__u32 slots)
{
	__u32 room = 1;

	while (room < slots)
		room *= 2;
	return room;
}

/* Map pods: local pods, an array. A pod's slot is its address's low bits (mk_pod_slot()), so that programs, which ask
 * for two pods per packet, need no hash; who is not the one that was asked for is not there. As many slots as the pod
 * CIDR has addresses, never fewer than there were. Up to version 5 of the tables a hash by struct mk_addr, whose
 * values had no addr. */
struct mk_pod {
	__u32 ifindex; /* host side of the veth */
	__u8 mac[6]; /* of the pod's interface */
	__u16 netns_ref : 15; /* its namespace: IFLA_LINK_NETNSID of the host side, and 1; 0: not known. Since
			       * version 5 of the tables */
	__u16 shaped : 1; /* the host side has a queue that limits what the pod receives: packets have to
			   * pass it. Since version 7 of the tables */
	struct mk_addr addr; /* 0: nobody's slot */
};
#define MK_POD_NETNS_REF_MAX 0x7fff
_Static_assert(sizeof(struct mk_pod) == 16, "map value ABI");

#define MK_POD_SLOTS_MAX 65536 /* of a larger pod CIDR so many addresses are given to pods */

/* For a pod CIDR with mask @mask: a power of two. */
static inline __u32 mk_pod_slots(const struct mk_addr *mask)
{
	__u32 others = ~mk_addr_low_bits(mask);

	return others < MK_POD_SLOTS_MAX ? others + 1 : MK_POD_SLOTS_MAX;
}

static inline __u32 mk_pod_slot(const struct mk_addr *addr, __u32 slots)
{
	return mk_addr_low_bits(addr) & (slots - 1);
}

/* Map host_ports: a port of this host that leads to a pod here (a container's hostPort). Written by
 * the CNI mode; asked for new flows that are for no Service's frontend. */
struct mk_host_port_key {
	struct mk_addr addr; /* 0: any address of this host */
	__be16 port;
	__u8 proto; /* IPPROTO_* */
	__u8 pad;
};
struct mk_host_port {
	struct mk_addr addr; /* the pod's */
	__be16 port;
	__u8 leaving; /* opens no session any more; goes when those that it opened are cut */
	__u8 pad;
	__u32 ifindex; /* the pod's in map pods: another one there, and this pod is gone */
};
_Static_assert(sizeof(struct mk_host_port_key) == 8, "map key ABI");
_Static_assert(sizeof(struct mk_host_port) == 12, "map value ABI");

/* Map cni_calls, an array by enum mk_cni_command that no program uses: the CNI mode adds to it by
 * memory map, the agent reads it. Bounds of the buckets: src/cni/calls.h. Append only. */
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
	__u64 failed; /* of all */
	__u64 total_ns; /* that all took */
	__u64 buckets[MK_CNI_BUCKETS]; /* each call is in one, by how long it took */
};
_Static_assert(sizeof(struct mk_cni_calls) == 144, "map value ABI");

/* Map pods_gone, one entry that no program uses: what the devices of pods that are gone have sent. The
 * CNI mode adds to it by memory map; with what the devices of those that are here count it is hook
 * `pod`'s traffic. */
struct mk_pod_traffic {
	__u64 packets, bytes;
};
_Static_assert(sizeof(struct mk_pod_traffic) == 16, "map value ABI");

/* Map routes (LPM). What matches nothing is outside the cluster. */
enum mk_route_type {
	MK_ROUTE_PODS = 1, /* this node's pod CIDR: map pods decides */
	MK_ROUTE_OVERLAY, /* another node's pod CIDR or VTEP address */
	MK_ROUTE_HOST, /* an address of this host */
	MK_ROUTE_DROP, /* inside the cluster's ranges, but nobody's */
};
struct mk_route_key {
	__u32 prefix_bits;
	struct mk_addr addr;
};
struct mk_route {
	__u8 type; /* enum mk_route_type */
	__u8 pad;
	__u8 vtep_mac[6]; /* MK_ROUTE_OVERLAY: of the node that has it, else zero */
};
_Static_assert(sizeof(struct mk_route_key) == 8, "map key ABI");
_Static_assert(sizeof(struct mk_route) == 8, "map value ABI");

/* Map node_routes, an array: the entries of map routes for other nodes' pod CIDRs, by the node's number, which is the
 * pod CIDR's place in the cluster's range. A look-up costs the same however many nodes there are. Pod CIDRs of the
 * same size as this node's alone are here, of a range with at most so many. Type 0: ask map routes. Since version 7 of
 * the tables. */
#define MK_NODE_ROUTES 65536

/* The place of @addr, inside the cluster's range with mask @cluster_mask. */
static inline __u32 mk_node_number(const struct mk_addr *addr, const struct mk_addr *cluster_mask,
				   __u32 pod_host_bits)
{
	return (mk_addr_low_bits(addr) & ~mk_addr_low_bits(cluster_mask)) >> pod_host_bits;
}

#define MK_VXLAN_VNI 1 /* of the overlay */

/* Map peers, by address: the other nodes' addresses, from which their overlay packets come. Since version 7 of the
 * tables. */
struct mk_peer {
	__u8 vtep_mac[6]; /* says which node: mk_route.vtep_mac */
	__u8 pad[2];
};
_Static_assert(sizeof(struct mk_peer) == 8, "map value ABI");

/* Map fragments (LRU): what the fragments of a packet that a hook has seen say of it. Since version 4 of
 * the tables more than the ports. */
struct mk_fragment_key {
	struct mk_addr saddr, daddr;
	__be16 id;
	__u8 proto;
	__u8 hook; /* enum mk_hook; MK_HOOK_COUNT: the loopback device's egress */
};
struct mk_fragment {
	__be16 sport, dport; /* from the first */
	__u32 l4_bytes; /* of the whole packet, from the last; 0: not seen */
	__u64 begun_ns; /* CLOCK_MONOTONIC; with the key it says which packet */
	__u64 released_ns; /* the first, which comes in again; 0: not, or it has */
	__u32 passed_bytes; /* of l4_bytes: all, and the entry goes */
	__u8 has_first;
	__u8 l4; /* enum mk_l4 of bpf/packet.h; from the first */
	__u8 no_room; /* for some of them in map held: no more of them wait */
	__u8 pad;
};
_Static_assert(sizeof(struct mk_fragment_key) == 12, "map key ABI");
_Static_assert(sizeof(struct mk_fragment) == 32, "map value ABI");

/* Map held, an array: fragments that came before what their translation needs, as frames. Those of one
 * packet are in MK_HELD_OF_PACKET slots in a row. A slot whose fragment has waited for MK_HELD_NS is
 * free. */
#define MK_HELD_SLOTS	  128 /* a power of two */
#define MK_HELD_OF_PACKET 8
#define MK_HELD_BYTES	  9216 /* frames up to this */
#define MK_HELD_NS	  2000000000ULL
struct mk_held {
	struct bpf_spin_lock
		lock; /* of all but the data, whose slot is one CPU's while bytes is 0 */
	struct mk_fragment_key of;
	__u64 begun_ns; /* mk_fragment.begun_ns */
	__u64 since_ns; /* CLOCK_MONOTONIC; 0: free */
	__u32 ifindex;
	__u16 bytes; /* 0: comes, or goes */
	__u8 is_first;
	__u8 pad;
	__u8 data[MK_HELD_BYTES];
};
_Static_assert(sizeof(struct mk_held) == 40 + MK_HELD_BYTES, "map value ABI");

/* Map runtime, one entry: what user space may switch while programs run. */
struct mk_runtime {
	__u32 report_drops; /* somebody reads the ring buffer drop_events */
	__u8 host_backends; /* some client's flow may have this host itself as its backend and keep
			     * its address (externalTrafficPolicy Local) */
	__u8 frontends_gone; /* some connection may have been opened by a frontend that is gone */
	__u8 watched; /* program `watch` has the router's slot: packets for local pods go there, too */
	/* Both since version 7 of the tables. Map peers has all nodes: others' overlay packets are dropped. */
	__u8 peers_known : 1;
	__u8 ranges_shared : 1; /* hosts outside have addresses in the cluster's ranges, too */
	__u32 host_ports; /* map host_ports is not empty */
	/* all NodePorts that the host may ask at a loopback address are from here to there; highest 0: none */
	__u16 localhost_port_min, localhost_port_max;
};
_Static_assert(sizeof(struct mk_runtime) == 16, "map value ABI");

/* Map udp_ports, one entry: a bit for each port (host order) at which backends of Services or of host ports
 * take UDP, or have: none is taken back before the next boot. Agent and CNI mode add to it. */
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

/* Map uplinks, by the device's number: devices to outside, which carry the programs. Since version 7 of the tables. */
#define MK_UPLINKS_MAX 64
struct mk_uplink {
	__u32 ifindex;
	__u32 mtu_bytes;
	struct mk_addr
		addr; /* source of what leaves masqueraded, where the kernel does not tell the route's */
	__u32 flags; /* enum mk_uplink_flags */
};
_Static_assert(sizeof(struct mk_uplink) == 16, "map value ABI");

enum mk_uplink_flags {
	MK_UPLINK_TUNNEL = 1 << 0, /* frames without Ethernet header (tun, WireGuard) */
	MK_UPLINK_SIDE =
		1 << 1, /* no address of the Node, no default route: Services' other addresses
				  * are the host's to route */
};

/* A network of an uplink's address. */
#define MK_LINK_NETWORKS 8
struct mk_link_network {
	struct mk_addr net, mask;
	__u32 ifindex; /* 0: none */
};
_Static_assert(sizeof(struct mk_link_network) == 12, "map value ABI");

struct mk_link_set {
	struct mk_addr node_addr; /* the first InternalIP */
	__u32 overlay_ifindex;
	__u32 host_ifindex; /* host's end of the host veth pair: the host receives on it */
	__u32 host_peer_ifindex; /* the datapath's end: hook `host` */
	__u32 overlay_mtu_bytes;
	__u32 ask_host; /* 0: all that leaves the cluster leaves by `first`, with its address */
	struct mk_uplink first; /* carries the overlay */
	struct mk_link_network networks[MK_LINK_NETWORKS];
};
_Static_assert(sizeof(struct mk_link_set) == 136, "map value ABI");

/* Map links, one entry. A program reads the current set; the agent writes the other, and then which is current: no
 * packet meets half of a change. Since version 7 of the tables. */
struct mk_links {
	__u32 current; /* 0 or 1 */
	__u32 pad;
	struct mk_link_set set[2];
};
_Static_assert(sizeof(struct mk_links) == 280, "map value ABI");

/* Map way, per CPU, one entry: what the host's routing says of the packet at hand; the router tells nat. */
struct mk_way {
	__u32 ifindex;
	__be32 next_hop; /* 0: the kernel looks itself */
	struct mk_addr source; /* of what leaves masqueraded */
	__u32 mtu_bytes;
};
_Static_assert(sizeof(struct mk_way) == 16, "map value ABI");

/* ---- node constants: .rodata, set before load, folded by the JIT --------------------- */

struct mk_node {
	struct mk_addr vtep_addr, gateway_addr;
	struct mk_addr vpod_addr; /* virtual pod address */
	struct mk_addr pod_net, pod_mask;
	struct mk_addr cluster_net, cluster_mask;
	__u32 maglev_slots; /* 0: MK_MAGLEV_SLOTS */
	__u32 maglev_mask; /* mk_maglev_room() - 1; whoever opens the object sets it */
	__u16 nat_port_min, nat_port_max; /* inclusive */
	__be16 vxlan_port;
	__u8 gateway_mac[6]; /* host side of every pod veth and of the host veth pair */
	__u8 vtep_mac[6];
	__u8 has_coarse_clock; /* bpf_ktime_get_coarse_ns() (Linux 5.11); whoever opens the object sets it */
	__u8 pad;
	__u32 pod_slots; /* of map pods; whoever loads the object sets it */
	struct mk_addr vtep_net, vtep_mask; /* range of the nodes' overlay addresses */
	__u32 pod_host_bits; /* of an address in pod_net; whoever opens the object sets it */
};
_Static_assert(sizeof(struct mk_node) == 72, "rodata ABI");

/* ---- drops ------------------------------------------------------------------------- */

/* One line per reason: name, what an operator reads. Append only. */
#define MK_DROP_REASONS(X)                                                                      \
	X(TRUNCATED, "packet shorter than its headers say")                                     \
	X(BAD_HEADER, "IP version, header length or total length makes no sense")               \
	X(NOT_IPV4, "not an untagged IPv4 packet (ARP, IPv6, VLAN)")                            \
	X(SPOOFED_ADDRESS, "pod sends from an address that is not its own")                     \
	X(SPOOFED_MAC, "pod sends from a MAC address that is not its own")                      \
	X(CHAIN_BROKEN, "tail call into an empty slot of the program array")                    \
	X(NO_BACKEND, "chosen backend is not in its table")                                     \
	X(NO_LOCAL_BACKEND, "traffic policy Local and no backend on this node")                 \
	X(SESSION_TABLE_FULL, "no room for a new session")                                      \
	X(NAT_PORTS_EXHAUSTED, "no free source port towards this destination")                  \
	X(NO_POD,                                                                               \
	  "address of this node's pod CIDR that no pod has (answered with host unreachable)")   \
	X(NO_ROUTE, "address inside the cluster's ranges that nobody has")                      \
	X(NOT_UNICAST, "multicast, broadcast or loopback destination")                          \
	X(TTL_EXPIRED, "TTL used up (answered with time exceeded where possible)")              \
	X(TOO_BIG, "does not fit the next MTU (answered with fragmentation needed)")            \
	X(FRAGMENT_UNKNOWN, "fragment whose first fragment was not seen")                       \
	X(PROTOCOL, "protocol that cannot be translated")                                       \
	X(REWRITE_FAILED, "the kernel refused to change the packet")                            \
	X(REFUSED, "Service without backends or unknown port (answered with port unreachable)") \
	X(OVERLAY_STRAY, "another node sent what is not for this node")                         \
	X(SOURCE_RANGE, "client is not in the Service's loadBalancerSourceRanges")              \
	X(OVERLAY_FORGED, "UDP to the overlay's port through the datapath: only nodes send it") \
	X(SOURCE_ROUTE, "packet names its own way (IP option source route)")                    \
	X(FORGED_ERROR, "pod's ICMP error about a packet that was not for it")                  \
	X(MARTIAN_SOURCE, "packet on an uplink with a source that no host outside can have")    \
	X(OVERLAY_STRANGER, "overlay packet of no node, or with a source of another node's")    \
	X(ERROR_LIMIT, "not forwarded, and too many ICMP errors sent to send one about it")     \
	X(HOST_ROUTE,                                                                           \
	  "this host has no route there, or one that forbids it (answered as the host would)")  \
	X(NO_UPLINK,                                                                            \
	  "this host's route leads by a device without programs (answered with net unreachable)")

enum mk_drop_reason {
#define MK_DROP_ENUM(name, text) MK_DROP_##name,
	MK_DROP_REASONS(MK_DROP_ENUM)
#undef MK_DROP_ENUM
		MK_DROP_COUNT
};

/* Map error_budget, per CPU, one entry: CLOCK_MONOTONIC in ns at which the ICMP errors sent so far are paid for. Each
 * costs MK_ERROR_NS, and MK_ERROR_BURST may be sent in advance: the kernel's own limits (icmp_msgs_per_sec,
 * icmp_msgs_burst). A flood of the others must not suppress "fragmentation needed", which may be sent farther in
 * advance. */
#define MK_ERROR_NS	   1000000ULL
#define MK_ERROR_BURST	   50
#define MK_ERROR_BURST_MTU 60

/* Map drops: per-CPU array, index = reason * MK_HOOK_COUNT + hook. */
struct mk_drop_counter {
	__u64 packets, bytes;
};

/* Ring buffer drop_events. The tuple is what the packet showed when it was dropped; zero
 * where it could not be read. */
struct mk_drop_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 ifindex;
	__u16 length_bytes;
	__u8 reason; /* enum mk_drop_reason */
	__u8 hook; /* enum mk_hook */
	struct mk_tuple tuple;
};
_Static_assert(sizeof(struct mk_drop_event) == 32, "ring buffer ABI");

/* ---- flows, watched ---------------------------------------------------------------- */

/* While somebody watches (`monokube monitor`), slot MK_PROG_ROUTER of the chain holds program
 * `watch`, which tells of packets as the router gets them and goes on to MK_PROG_WATCHED, and
 * mk_runtime.watched has all packets go there. Else nothing runs, and that byte alone is asked. */
#define MK_WATCH_FLOWS	      8192 /* a power of two */
#define MK_WATCH_IDLE_S	      10 /* a flow that was silent for longer is told of again */
#define MK_WATCH_EVENTS_PER_S 1000 /* of one CPU */

/* Map watch_settings, one entry. Zero: any. An address or port is one of either side, before or
 * after load balancing. */
struct mk_watch_settings {
	__u64 until_ns; /* CLOCK_MONOTONIC; put off while somebody watches, in case he is killed */
	__u32 sample; /* beside the first packet of each flow, one of so many; 0: none */
	__u32 account_id; /* mk_service.account_id */
	__u32 since_s; /* CLOCK_MONOTONIC; flows seen before are told of again */
	struct mk_addr addr;
	__be16 port;
	__u8 proto;
	__u8 pad[5];
};
_Static_assert(sizeof(struct mk_watch_settings) == 32, "map value ABI");

/* Map watch_counts, per CPU, one entry. */
struct mk_watch_count {
	__u64 left_out; /* events beyond MK_WATCH_EVENTS_PER_S, or the ring buffer's room */
	__u64 second_ns; /* begin of the second that `told` counts */
	__u32 told;
	__u32 sampled; /* packets since the last one of mk_watch_settings.sample */
};
_Static_assert(sizeof(struct mk_watch_count) == 24, "map value ABI");

/* Map watch_flows: when a flow, one direction of it, was last seen, by its hash. Two that share a
 * slot are told of more than once. */
struct mk_watch_flow {
	__u32 hash;
	__u32 seen_s; /* CLOCK_MONOTONIC */
};
_Static_assert(sizeof(struct mk_watch_flow) == 8, "map value ABI");

enum mk_flow_session {
	MK_FLOW_NO_SESSION,
	MK_FLOW_OPENING, /* new: half-open, or seen in one direction */
	MK_FLOW_ESTABLISHED,
};

/* Ring buffer flow_events. */
struct mk_flow_event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 ifindex;
	__u32 account_id; /* of the Service's session; 0: none */
	__u16 length_bytes;
	__u8 hook; /* enum mk_hook */
	__u8 sampled; /* not the first of its flow */
	__u8 session; /* enum mk_flow_session, of the translation between came and goes */
	__u8 session_flags; /* enum mk_session_flags, of the other direction */
	__u8 tcp_flags;
	__u8 to_host; /* its session says so, whatever the destination */
	struct mk_tuple came, goes; /* as the hook got it; as the router gets it */
};
_Static_assert(sizeof(struct mk_flow_event) == 56, "ring buffer ABI");

#endif

/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/maps.h - all tables, each defined once. All objects are linked into one, so each definition
 * is weak: the linker keeps one and checks that all agree. User space pins all tables by name.
 * Sizes here are defaults for one node. */
#ifndef MK_BPF_MAPS_H
#define MK_BPF_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "monokube/abi.h"
#include "monokube/clusters.h"
#include "monokube/sfc.h"

/* Constants of this node, set before load and folded by the JIT. */
const volatile struct mk_node mk_node __attribute__((weak)) = { 0 };

static __always_inline struct mk_addr addr_copy(const volatile struct mk_addr *addr)
{
	struct mk_addr copy;

	for (int i = 0; i < MK_ADDR_WORDS; i++)
		copy.word[i] = addr->word[i];
	return copy;
}

/* Copies of the node's addresses: helpers and comparisons need non-volatile ones. */
#define MK_NODE_ADDRESS(name, member)                    \
	static __always_inline struct mk_addr name(void) \
	{                                                \
		return addr_copy(&mk_node.member);       \
	}
MK_NODE_ADDRESS(mk_node_vtep, vtep_addr)
MK_NODE_ADDRESS(mk_node_gateway, gateway_addr)
MK_NODE_ADDRESS(mk_node_vpod, vpod_addr)
MK_NODE_ADDRESS(mk_node_cluster_net, cluster_net)
MK_NODE_ADDRESS(mk_node_cluster_mask, cluster_mask)
MK_NODE_ADDRESS(mk_node_pod_net, pod_net)
MK_NODE_ADDRESS(mk_node_pod_mask, pod_mask)
MK_NODE_ADDRESS(mk_node_vtep_net, vtep_net)
MK_NODE_ADDRESS(mk_node_vtep_mask, vtep_mask)

static __always_inline int is_addr(const struct mk_addr *addr, struct mk_addr other)
{
	return mk_addr_eq(addr, &other);
}

/* Is @addr in the range of all nodes' pods? Service addresses never are. */
static __always_inline int is_pod_range(const struct mk_addr *addr)
{
	struct mk_addr net = mk_node_cluster_net(), mask = mk_node_cluster_mask();

	return mk_addr_in(addr, &net, &mask);
}

/* Is @addr in the range of the nodes' overlay addresses? */
static __always_inline int is_vtep_range(const struct mk_addr *addr)
{
	struct mk_addr net = mk_node_vtep_net(), mask = mk_node_vtep_mask();

	return mk_addr_in(addr, &net, &mask);
}

static __always_inline int is_local_pod_range(const struct mk_addr *addr)
{
	struct mk_addr net = mk_node_pod_net(), mask = mk_node_pod_mask();

	return mk_addr_in(addr, &net, &mask);
}

#define MK_MAP(map_name, map_type, key_type, value_type, entries, map_flags_) \
	struct {                                                              \
		__uint(type, map_type);                                       \
		__uint(max_entries, entries);                                 \
		__uint(map_flags, map_flags_);                                \
		__type(key, key_type);                                        \
		__type(value, value_type);                                    \
	} map_name __attribute__((weak)) SEC(".maps")

#define MK_IS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

/* Find the entry @number of a map whose keys are 32-bit numbers. The key is a whole word of the
 * stack: after stores of parts of words the verifier keeps apart what the stack had before, and
 * walks the code that follows once for each. */
static __always_inline void *find_number(const void *map, __u32 number)
{
	__u64 key = MK_IS_LITTLE ? number : (__u64)number << 32;

	return bpf_map_lookup_elem((void *)map, &key);
}

/* frontends, and their backends by service, generation and index */
MK_MAP(frontends, BPF_MAP_TYPE_HASH, struct mk_frontend_key, struct mk_frontend, 262144,
       BPF_F_NO_PREALLOC);
MK_MAP(service_backends, BPF_MAP_TYPE_HASH, struct mk_backend_key, struct mk_backend, 524288,
       BPF_F_NO_PREALLOC);

/* the value has the size of the node's Maglev tables, which user space sets before load */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, sizeof(struct mk_maglev_key));
	__uint(value_size, sizeof(__u16));
} maglev __attribute__((weak)) SEC(".maps");

MK_MAP(affinity, BPF_MAP_TYPE_LRU_HASH, struct mk_affinity_key, struct mk_affinity, 65536, 0);
MK_MAP(affinity_new, BPF_MAP_TYPE_LRU_HASH, struct mk_affinity_key, struct mk_affinity, 65536, 0);
MK_MAP(affinity_backends, BPF_MAP_TYPE_HASH, struct mk_affinity_backend_key, __u32, 262144,
       BPF_F_NO_PREALLOC);
MK_MAP(source_ranges, BPF_MAP_TYPE_LPM_TRIE, struct mk_source_range_key, __u32, 65536,
       BPF_F_NO_PREALLOC);
MK_MAP(service_counters, BPF_MAP_TYPE_HASH, __u32, struct mk_service_counter, 131072,
       BPF_F_NO_PREALLOC);
MK_MAP(service_counters_ended, BPF_MAP_TYPE_HASH, __u32, struct mk_service_counter, 131072,
       BPF_F_NO_PREALLOC);
MK_MAP(service_drops, BPF_MAP_TYPE_HASH, struct mk_service_drop_key, __u64, 131072,
       BPF_F_NO_PREALLOC);

/* A queue of slots for new sessions or for established sessions (bpf/eviction.h). */
#define MK_ORDER(map_name, places)                      \
	struct {                                        \
		__uint(type, BPF_MAP_TYPE_QUEUE);       \
		__uint(max_entries, places);            \
		__type(value, struct mk_session_place); \
	} map_name __attribute__((weak)) SEC(".maps")

/* sessions of ilb and elb: new ones may be evicted, established ones are never evicted */
MK_MAP(sessions, BPF_MAP_TYPE_HASH, struct mk_tuple, struct mk_session, 524288, BPF_F_NO_PREALLOC);
MK_MAP(sessions_young, BPF_MAP_TYPE_HASH, struct mk_tuple, struct mk_session, 65536, 0);
MK_ORDER(sessions_order, 65536 / 16 * 7);
MK_ORDER(sessions_kept, 524288 / 8);
/* sessions of nat */
MK_MAP(nat_sessions, BPF_MAP_TYPE_HASH, struct mk_tuple, struct mk_session, 524288,
       BPF_F_NO_PREALLOC);
MK_MAP(nat_sessions_young, BPF_MAP_TYPE_HASH, struct mk_tuple, struct mk_session, 65536, 0);
MK_ORDER(nat_sessions_order, 65536 / 16 * 7);
MK_ORDER(nat_sessions_kept, 524288 / 8);

/* the quota of half-open sessions in the established tables: quota_of_this_cpu() */
MK_MAP(half_open_quota, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __s64, 1, 0);

MK_MAP(pods, BPF_MAP_TYPE_ARRAY, __u32, struct mk_pod, MK_POD_SLOTS_MAX, BPF_F_MMAPABLE);
MK_MAP(host_ports, BPF_MAP_TYPE_HASH, struct mk_host_port_key, struct mk_host_port, 16384,
       BPF_F_NO_PREALLOC);
MK_MAP(abi, BPF_MAP_TYPE_ARRAY, __u32, struct mk_abi, 1, 0);
MK_MAP(cni_calls, BPF_MAP_TYPE_ARRAY, __u32, struct mk_cni_calls, MK_CNI_COMMANDS, BPF_F_MMAPABLE);
MK_MAP(pods_gone, BPF_MAP_TYPE_ARRAY, __u32, struct mk_pod_traffic, 1, BPF_F_MMAPABLE);
MK_MAP(routes, BPF_MAP_TYPE_LPM_TRIE, struct mk_route_key, struct mk_route, 32768,
       BPF_F_NO_PREALLOC);
MK_MAP(node_routes, BPF_MAP_TYPE_ARRAY, __u32, struct mk_route, MK_NODE_ROUTES, BPF_F_MMAPABLE);
MK_MAP(peers, BPF_MAP_TYPE_HASH, struct mk_addr, struct mk_peer, MK_PEERS_MAX, BPF_F_NO_PREALLOC);
MK_MAP(far_peers, BPF_MAP_TYPE_HASH, struct mk_far_addr, struct mk_peer, MK_PEERS_MAX,
       BPF_F_NO_PREALLOC);
MK_MAP(link_nodes, BPF_MAP_TYPE_HASH, struct mk_link_node_key, struct mk_link_node, MK_PEERS_MAX,
       BPF_F_NO_PREALLOC);
MK_MAP(fragments, BPF_MAP_TYPE_LRU_HASH, struct mk_fragment_key, struct mk_fragment, 4096, 0);
MK_MAP(held, BPF_MAP_TYPE_ARRAY, __u32, struct mk_held, MK_HELD_SLOTS, 0);
MK_MAP(runtime, BPF_MAP_TYPE_ARRAY, __u32, struct mk_runtime, 1, 0);
MK_MAP(udp_ports, BPF_MAP_TYPE_ARRAY, __u32, struct mk_port_set, 1, 0);
MK_MAP(drops, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct mk_drop_counter,
       MK_DROP_COUNT *MK_HOOK_COUNT, 0);
MK_MAP(error_budget, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, 1, 0);
/* a flood of SYNs (bpf/syn_gate.h) */
MK_MAP(syn_secret, BPF_MAP_TYPE_ARRAY, __u32, struct mk_syn_secret, 1, 0);
MK_MAP(syn_budget, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, 1, 0);
MK_MAP(syn_verified, BPF_MAP_TYPE_LRU_HASH, struct mk_addr, struct mk_syn_client,
       MK_SYN_CLIENTS_MAX, 0);
MK_MAP(links, BPF_MAP_TYPE_ARRAY, __u32, struct mk_links, 1, 0);
MK_MAP(uplinks, BPF_MAP_TYPE_HASH, __u32, struct mk_uplink, MK_UPLINKS_MAX, BPF_F_NO_PREALLOC);
MK_MAP(way, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct mk_way, 1, 0);
/* policies; no program uses the last two */
MK_MAP(policy_state, BPF_MAP_TYPE_ARRAY, __u32, struct mk_policy_state, 1, BPF_F_MMAPABLE);
MK_MAP(pod_policies, BPF_MAP_TYPE_ARRAY, __u32, struct mk_pod_policy, MK_POD_SLOTS_MAX,
       BPF_F_MMAPABLE);
MK_MAP(policy_identities, BPF_MAP_TYPE_HASH, struct mk_addr, struct mk_policy_identity, 131072,
       BPF_F_NO_PREALLOC);
MK_MAP(policy_peers, BPF_MAP_TYPE_HASH, struct mk_policy_peer_key, struct mk_policy_peer, 262144,
       BPF_F_NO_PREALLOC);
MK_MAP(policy_blocks, BPF_MAP_TYPE_LPM_TRIE, struct mk_policy_block_key, struct mk_policy_peer,
       65536, BPF_F_NO_PREALLOC);
MK_MAP(policy_ports, BPF_MAP_TYPE_LPM_TRIE, struct mk_policy_port_key, struct mk_policy_port, 65536,
       BPF_F_NO_PREALLOC);
MK_MAP(policy_counts, BPF_MAP_TYPE_HASH, struct mk_policy_count_key, struct mk_policy_count, 16384,
       BPF_F_NO_PREALLOC);
MK_MAP(policy_events, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, MK_POLICY_EVENTS, 0);
MK_MAP(policy_expected, BPF_MAP_TYPE_HASH, struct mk_policy_pod_key, struct mk_policy_expected,
       4096, BPF_F_NO_PREALLOC);
MK_MAP(policy_namespaces, BPF_MAP_TYPE_HASH, struct mk_policy_namespace_key,
       struct mk_policy_namespace, 16384, BPF_F_NO_PREALLOC);
/* service function chains */
MK_MAP(sfc_chains, BPF_MAP_TYPE_ARRAY, __u32, struct mk_sfc_chain, MK_SFC_CHAINS, 0);
MK_MAP(sfc_functions, BPF_MAP_TYPE_HASH, __u32, struct mk_sfc_function, MK_SFC_FUNCTIONS_ALL,
       BPF_F_NO_PREALLOC);
MK_MAP(sfc_replicas, BPF_MAP_TYPE_ARRAY, __u32, struct mk_sfc_replica, MK_SFC_REPLICAS, 0);
MK_MAP(sfc_tags, BPF_MAP_TYPE_HASH, __u64, __u32, MK_SFC_REPLICAS, BPF_F_NO_PREALLOC);
MK_MAP(sfc_ports, BPF_MAP_TYPE_HASH, __u32, struct mk_sfc_port, MK_SFC_PORTS, BPF_F_NO_PREALLOC);
MK_MAP(sfc_paths, BPF_MAP_TYPE_HASH, __u32, struct mk_sfc_path, MK_SFC_PATHS, BPF_F_NO_PREALLOC);
MK_MAP(sfc_counters, BPF_MAP_TYPE_PERCPU_HASH, __u32, struct mk_sfc_counters, MK_SFC_REPLICAS,
       BPF_F_NO_PREALLOC);
/* other clusters */
MK_MAP(clusters, BPF_MAP_TYPE_HASH, __u32, struct mk_cluster, MK_CLUSTER_ROWS, BPF_F_NO_PREALLOC);
MK_MAP(cluster_nodes, BPF_MAP_TYPE_HASH, struct mk_cluster_node_key, __u32, MK_CLUSTER_NODES,
       BPF_F_NO_PREALLOC);
MK_MAP(cluster_carriers, BPF_MAP_TYPE_HASH, struct mk_far_addr, __u32, MK_CLUSTER_CARRIERS,
       BPF_F_NO_PREALLOC);
MK_MAP(cluster_counters, BPF_MAP_TYPE_PERCPU_HASH, __u32, struct mk_cluster_counters, MK_CLUSTERS,
       BPF_F_NO_PREALLOC);
MK_MAP(exports, BPF_MAP_TYPE_HASH, struct mk_export, struct mk_addr, MK_EXPORTS, BPF_F_NO_PREALLOC);
/* only program `monitor` uses these */
MK_MAP(monitor_settings, BPF_MAP_TYPE_ARRAY, __u32, struct mk_monitor_settings, 1, 0);
MK_MAP(monitor_counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct mk_monitor_count, 1, 0);
MK_MAP(monitor_flows, BPF_MAP_TYPE_ARRAY, __u32, struct mk_monitor_flow, MK_MONITOR_FLOWS, 0);

/* Find the local pod with address @addr, or NULL. */
static __always_inline struct mk_pod *pod_find(const struct mk_addr *addr)
{
	__u32 slot = mk_pod_slot(addr, mk_node.pod_slots);
	struct mk_pod *pod = find_number(&pods, slot);

	return pod && mk_addr_eq(&pod->addr, addr) ? pod : NULL;
}

/* The current set of the node's devices and addresses. It is never NULL, but the verifier does not
 * know that. */
static __always_inline const struct mk_link_set *links_now(void)
{
	const struct mk_links *found = find_number(&links, 0);

	return found ? &found->set[found->current & 1] : NULL;
}

static __always_inline struct mk_addr mk_node_addr(void)
{
	const struct mk_link_set *now = links_now();

	return now ? now->node_addr : (struct mk_addr){ { 0 } };
}

static __always_inline int is_zero(const struct mk_addr *addr)
{
	const struct mk_addr zero = { { 0 } };

	return mk_addr_eq(addr, &zero);
}

/* A route as one word, because the agent writes a route with one store. */
union mk_route_word {
	__u64 word;
	struct mk_route route;
};
_Static_assert(sizeof(union mk_route_word) == sizeof(struct mk_route), "one piece");

/* Copy the route to @addr to *@route. Returns 0, or -1 if there is none. */
static __always_inline int route_find(const struct mk_addr *addr, struct mk_route *route)
{
	struct mk_route_key key = { .prefix_bits = MK_ADDR_BITS, .addr = *addr };
	struct mk_addr mask = mk_node_cluster_mask();
	union mk_route_word copy = { 0 };
	const __u64 *found;
	__u32 number;

	if (is_pod_range(addr)) {
		number = mk_node_number(addr, &mask, mk_node.pod_host_bits);
		found = find_number(&node_routes, number);
		if (found)
			copy.word = *(const volatile __u64 *)found;
	}
	if (!copy.route.type) {
		found = bpf_map_lookup_elem(&routes, &key);
		if (!found)
			return -1;
		copy.word = *found;
	}
	*route = copy.route;
	return 0;
}

/* Is @addr an address of this host? */
static __always_inline int is_host_address(const struct mk_addr *addr)
{
	struct mk_route_key key = { .prefix_bits = MK_ADDR_BITS, .addr = *addr };
	struct mk_route *route = bpf_map_lookup_elem(&routes, &key);

	return route && route->type == MK_ROUTE_HOST;
}

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} drop_events __attribute__((weak)) SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} flow_events __attribute__((weak)) SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MK_PROG_COUNT);
	__type(key, __u32);
	__type(value, __u32);
} chain __attribute__((weak)) SEC(".maps");

#endif

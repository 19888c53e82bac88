// SPDX-License-Identifier: Apache-2.0
/* Map node_routes: other nodes' pods, by the node's number. */
#include "datapath/datapath_internal.h"

#include <string.h>
#include <sys/mman.h>

/* Return the slot of @dst, or MK_NODE_ROUTES if it has none. */
static __u32 slot_of(const struct mk_node *node, const struct mk_cidr *dst)
{
	struct mk_addr addr = mk_ip_to_addr(&dst->ip);
	__u32 number =
		mk_node_number(&addr, &node->cluster_mask, mk_pod_host_bits(&node->pod_mask));

	if (!mk_addr_in(&addr, &node->cluster_net, &node->cluster_mask))
		return MK_NODE_ROUTES;
	return number < MK_NODE_ROUTES ? number : MK_NODE_ROUTES;
}

/* A prefix longer than a pod CIDR, such as an address of this host, is only in map `routes`. The
 * slot of the pod CIDR around it stays empty, so that map `routes` is used for all of that CIDR. */
void node_routes_make(const struct mk_node *node, const struct mk_route_entry *entries,
		      size_t count, struct mk_route *slots)
{
	unsigned bits = mk_ip_bits(mk_mask_is_ipv6(&node->pod_mask) ? AF_INET6 : AF_INET) -
			mk_pod_host_bits(&node->pod_mask);

	memset(slots, 0, MK_NODE_ROUTES * sizeof(*slots));
	for (size_t i = 0; i < count; i++) {
		__u32 slot = slot_of(node, &entries[i].dst);

		if (slot < MK_NODE_ROUTES && entries[i].dst.prefix_bits == bits &&
		    entries[i].route.type == MK_ROUTE_OVERLAY)
			slots[slot] = entries[i].route;
	}
	for (size_t i = 0; i < count; i++) {
		__u32 slot = slot_of(node, &entries[i].dst);

		if (slot < MK_NODE_ROUTES && entries[i].dst.prefix_bits > bits)
			slots[slot] = (struct mk_route){ 0 };
	}
}

_Static_assert(sizeof(struct mk_route) == sizeof(uint64_t), "written in one piece");

int node_routes_put(const struct mk_table *table, const struct mk_route *slots,
		    struct mk_error *err)
{
	size_t bytes = 0;
	uint64_t *map = mk_table_map(table, &bytes), wanted;
	int changed = 0;

	if (!map)
		return mk_error_errno(err, errno, "cannot map '%s' into memory", table->name);
	for (size_t i = 0; i < MK_NODE_ROUTES; i++) {
		memcpy(&wanted, &slots[i], sizeof(wanted));
		if (map[i] == wanted)
			continue;
		__atomic_store_n(&map[i], wanted, __ATOMIC_RELEASE);
		changed++;
	}
	munmap(map, bytes);
	return changed;
}

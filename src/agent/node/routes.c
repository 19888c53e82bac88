// SPDX-License-Identifier: Apache-2.0
/* The rows of map routes, and which ranges the host routes to the datapath. */
#include <stdlib.h>
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"

/* Capacity for all: per peer its pod CIDR and its VTEP, one per address of this and of other nodes,
 * four ranges, those of Services, and the views of other clusters. */
static size_t bound(const struct routes_input *input)
{
	return 2 * input->plan->peer_count + input->local_count + input->other_count + 4 +
	       input->service_range_count + input->cluster_route_count;
}

static void add(struct mk_route_entry *entries, size_t *count, const struct mk_ip *ip,
		uint8_t prefix_bits, enum mk_route_type type)
{
	struct mk_cidr dst = { .ip = *ip, .prefix_bits = prefix_bits };

	entries[(*count)++] = (struct mk_route_entry){
		.dst = mk_cidr_network(&dst),
		.route = { .type = (__u8)type },
	};
}

static void add_address(struct mk_route_entry *entries, size_t *count, const struct mk_ip *ip,
			enum mk_route_type type)
{
	add(entries, count, ip, (uint8_t)mk_ip_bits(ip->family), type);
}

/* With encryption: WireGuardOnly, a node that no WireGuard leads to gets nothing. */
static void add_peer(const struct routes_input *input, struct mk_route_entry *entries,
		     size_t *count, const struct mk_overlay_peer *peer)
{
	bool is_clear = input->encrypts_all && (!input->has_wireguard || !peer->wireguard.port);
	size_t first = *count;

	add(entries, count, &peer->pod_cidr.ip, peer->pod_cidr.prefix_bits, MK_ROUTE_OVERLAY);
	add_address(entries, count, &peer->vtep, MK_ROUTE_OVERLAY);
	for (size_t i = first; i < *count; i++) {
		entries[i].route.is_clear = is_clear;
		entries[i].route.is_direct = peer->is_direct;
		memcpy(entries[i].route.vtep_mac, peer->vtep_mac.byte, sizeof(peer->vtep_mac.byte));
	}
}

int wanted_routes(const struct routes_input *input, struct mk_route_entry **entries, size_t *count,
		  struct mk_error *err)
{
	const struct mk_cidr *own = &input->own->pod_cidr;
	const struct mk_cidr *cluster = &input->cluster_cidr, *vteps = &input->vtep_cidr;
	struct mk_route_entry *list = calloc(bound(input), sizeof(*list));

	if (!list)
		return mk_error_errno(err, ENOMEM, "cannot list the routes");
	*count = 0;
	add(list, count, &own->ip, own->prefix_bits, MK_ROUTE_PODS);
	add(list, count, &cluster->ip, cluster->prefix_bits, MK_ROUTE_DROP);
	add(list, count, &vteps->ip, vteps->prefix_bits, MK_ROUTE_DROP);
	if (input->peer_pool.ip.family != AF_UNSPEC)
		add(list, count, &input->peer_pool.ip, input->peer_pool.prefix_bits, MK_ROUTE_DROP);
	for (size_t i = 0; i < input->cluster_route_count; i++)
		list[(*count)++] = input->cluster_routes[i];
	for (size_t i = 0; i < input->service_range_count; i++)
		add(list, count, &input->service_ranges[i].ip, input->service_ranges[i].prefix_bits,
		    MK_ROUTE_DROP);
	for (size_t i = 0; i < input->plan->peer_count; i++)
		add_peer(input, list, count, &input->plan->peers[i]);
	for (size_t i = 0; i < input->other_count; i++)
		add_address(list, count, &input->others[i], MK_ROUTE_NODE);
	/* last: if an address is in two lists, the host's own wins */
	for (size_t i = 0; i < input->local_count; i++)
		add_address(list, count, &input->local[i], MK_ROUTE_HOST);
	*entries = list;
	return 0;
}

static bool overlap(const struct mk_cidr *a, const struct mk_cidr *b)
{
	return mk_cidr_covers(a, b) || mk_cidr_covers(b, a);
}

/* Does @range contain a network of the host, or its gateway? A single address does not count:
 * NodeLocal DNSCache and kube-proxy's ipvs mode give a device of the host a Service's address. */
static bool has_network(const struct mk_networks *networks, const struct mk_cidr *range)
{
	for (size_t i = 0; networks && i < networks->count; i++) {
		const struct mk_network *network = &networks->list[i];
		bool counts = network->kind == MK_NET_GATEWAY ||
			      (network->kind == MK_NET_ON_LINK &&
			       network->cidr.prefix_bits < mk_ip_bits(network->cidr.ip.family));

		if (counts && mk_cidr_covers(range, &network->cidr))
			return true;
	}
	return false;
}

/* Returns in words what @range would cut off; NULL: nothing. */
static const char *cut_off(const struct ranges_input *input, const struct mk_cidr *range)
{
	if (overlap(range, &input->cluster_cidr))
		return "clusterCidr";
	if (overlap(range, &input->vtep_cidr))
		return "vtepCidr";
	if (mk_cidr_contains(range, input->internal_ip))
		return "this node's InternalIP";
	for (size_t i = 0; i < input->plan->peer_count; i++)
		if (mk_cidr_contains(range, &input->plan->peers[i].underlay))
			return "a node's InternalIP";
	if (has_network(input->networks, range))
		return "a network of this node";
	return NULL;
}

int usable_ranges(const struct ranges_input *input, struct mk_cidr *usable, struct mk_error *why)
{
	char text[MK_CIDR_STRLEN];
	size_t kept = 0;

	for (size_t i = 0; i < input->count; i++) {
		const struct mk_service_cidr *range = &input->ranges[i];
		const char *what = cut_off(input, &range->cidr);
		bool ours = strcmp(range->name, MK_CLUSTERSET_RANGE) == 0;

		if (!what)
			usable[kept++] = mk_cidr_network(&range->cidr);
		else /* one is enough to know what to look for */
			(void)mk_error_set(
				why, EINVAL,
				"%s%s%s %s is not routed as a whole: it overlaps %s; give Services a range of their own",
				ours ? "" : "ServiceCIDR '", range->name, ours ? "" : "'",
				mk_cidr_format(&range->cidr, text), what);
	}
	return (int)(input->count - kept);
}

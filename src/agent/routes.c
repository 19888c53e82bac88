// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"

/* Room for all: per peer its pod CIDR and its VTEP, per own address one, and three ranges. */
static size_t bound(const struct mk_routes_input *input)
{
	return 2 * input->plan->peer_count + input->local_count + 3;
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

static void add_peer(struct mk_route_entry *entries, size_t *count,
		     const struct mk_overlay_peer *peer)
{
	size_t first = *count;

	add(entries, count, &peer->pod_cidr.ip, peer->pod_cidr.prefix_bits, MK_ROUTE_OVERLAY);
	add(entries, count, &peer->vtep, MK_ADDR_BITS, MK_ROUTE_OVERLAY);
	for (size_t i = first; i < *count; i++)
		memcpy(entries[i].route.vtep_mac, peer->vtep_mac.byte, sizeof(peer->vtep_mac.byte));
}

int mk_agent_routes(const struct mk_routes_input *input, struct mk_route_entry **entries,
		    size_t *count, struct mk_error *err)
{
	const struct mk_config *config = input->config;
	const struct mk_cidr *own = &input->own->pod_cidr;
	struct mk_route_entry *list = calloc(bound(input), sizeof(*list));

	if (!list)
		return mk_error_errno(err, ENOMEM, "cannot list the routes");
	*count = 0;
	add(list, count, &own->ip, own->prefix_bits, MK_ROUTE_PODS);
	add(list, count, &config->cluster_cidr.ip, config->cluster_cidr.prefix_bits, MK_ROUTE_DROP);
	add(list, count, &config->vtep_cidr.ip, config->vtep_cidr.prefix_bits, MK_ROUTE_DROP);
	for (size_t i = 0; i < input->plan->peer_count; i++)
		add_peer(list, count, &input->plan->peers[i]);
	/* last: where an address is in two lists, the host's own wins */
	for (size_t i = 0; i < input->local_count; i++)
		add(list, count, &input->local[i], MK_ADDR_BITS, MK_ROUTE_HOST);
	*entries = list;
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/clusters/wireguard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

/* The families share the nodes, and so the peers of WireGuard. */
int wireguard_set(const struct mk_node_clusters *clusters, struct mk_error *err)
{
	const struct mk_clusters_rows *rows = clusters->rows;
	size_t count = rows[0].tunnel_count + rows[1].tunnel_count, kept = 0;
	cleanup_free struct mk_wg_peer *all = calloc(count + 1, sizeof(*all));

	if (!all)
		return mk_error_errno(err, ENOMEM, "%zu nodes of other clusters", count);
	for (size_t i = 0, used = 0; i < MK_FAMILIES; used += rows[i++].tunnel_count)
		if (rows[i].tunnel_count)
			memcpy(&all[used], rows[i].tunnels, rows[i].tunnel_count * sizeof(*all));
	qsort(all, count, sizeof(*all), mk_wg_peer_compare);
	for (size_t i = 0; i < count; i++)
		if (!kept || mk_wg_peer_compare(&all[kept - 1], &all[i]) != 0)
			all[kept++] = all[i];
	return mk_overlay_set_tunnels(clusters->node->core->overlay, all, kept, err);
}

const char *clusters_no_wireguard(const struct mk_own_node *node)
{
	if (node->internal_ip.family != AF_INET)
		return "the nodes' addresses are of IPv6 (underlayFamily): WireGuard is used between IPv4 addresses only";
	if (!node->core->config.wireguard_port)
		return "this node has no WireGuard: set wireguardPort, such as 51871, in the ConfigMap and restart the agents";
	if (node->devices.wg_lacks_kernel)
		return "the kernel of this node has no WireGuard: load or install its module 'wireguard'";
	return node->devices.wg_ifindex ? NULL
					: "the WireGuard device of this node is not there yet";
}

bool wireguard_answers(const struct mk_overlay *overlay, uint32_t cluster)
{
	const struct mk_overlay_handshakes seen = mk_overlay_handshakes(overlay, cluster);

	return !seen.nodes || time(NULL) - seen.last_unix_s <= MK_WG_HANDSHAKE_MAX_S;
}

uint64_t wireguard_age_s(const struct mk_overlay *overlay, uint32_t cluster)
{
	const struct mk_overlay_handshakes seen = mk_overlay_handshakes(overlay, cluster);
	int64_t age = time(NULL) - seen.last_unix_s;

	if (!seen.last_unix_s)
		return 0;
	return age > 1 ? (uint64_t)age : 1;
}

bool wireguard_has_news(struct mk_node_clusters *clusters)
{
	size_t silent = mk_overlay_silent_tunnels(clusters->node->core->overlay,
						  time(NULL) - MK_WG_HANDSHAKE_MAX_S);
	bool is_news = silent != clusters->silent_tunnels;

	clusters->silent_tunnels = silent;
	return is_news;
}

bool mk_node_clusters_answers(const struct mk_node_clusters *clusters, uint32_t number)
{
	/* a border node's WireGuard is not seen here */
	return clusters->rows[0].border || clusters->rows[1].border ||
	       wireguard_answers(clusters->node->core->overlay, number);
}

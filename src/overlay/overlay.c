// SPDX-License-Identifier: Apache-2.0
#include "overlay/overlay.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "overlay/overlay_internal.h"

struct mk_overlay *mk_overlay_new(struct mk_nl *nl, struct mk_error *err)
{
	struct mk_overlay *overlay = calloc(1, sizeof(*overlay));

	if (!overlay) {
		(void)mk_error_errno(err, ENOMEM, "cannot keep the overlay");
		return NULL;
	}
	overlay->nl = nl;
	mk_overlay_refresh(overlay);
	return overlay;
}

static void free_peers(struct overlay_family *family)
{
	for (size_t i = 0; i < family->peer_count; i++)
		free(family->peers[i].node);
	free(family->peers);
	family->peers = NULL;
	family->peer_count = 0;
}

static void release_family(struct overlay_family *family)
{
	free_peers(family);
	free(family->ranges);
	*family = (struct overlay_family){ 0 };
}

void mk_overlay_free(struct mk_overlay *overlay)
{
	struct overlay_route *route, *next;

	if (!overlay)
		return;
	HASH_ITER(hh, overlay->routes, route, next) {
		HASH_DEL(overlay->routes, route);
		free(route);
	}
	for (size_t i = 0; i < MK_FAMILIES; i++)
		release_family(&overlay->families[i]);
	free(overlay->clusters);
	free(overlay->tunnels);
	free(overlay->wg_peers);
	free(overlay);
}

const struct mk_overlay_repairs *mk_overlay_repairs(const struct mk_overlay *overlay)
{
	return &overlay->repairs;
}

void mk_overlay_refresh(struct mk_overlay *overlay)
{
	overlay->refresh = true;
}

/* ---- wanted state ---------------------------------------------------------------------------- */

static struct overlay_family *family_of(struct mk_overlay *overlay, sa_family_t family)
{
	return &overlay->families[mk_family_index(family)];
}

static bool same_node(const struct mk_overlay *overlay, const struct mk_devices *devices,
		      const struct overlay_family *family, const struct mk_addresses *own)
{
	const struct mk_devices *had = &overlay->devices;

	return mk_ip_equal(&family->own.vtep, &own->vtep) &&
	       had->host_ifindex == devices->host_ifindex &&
	       had->overlay_ifindex == devices->overlay_ifindex &&
	       had->sfc_ifindex == devices->sfc_ifindex &&
	       had->cluster_ifindex == devices->cluster_ifindex &&
	       had->wg_ifindex == devices->wg_ifindex &&
	       had->wg_peer_ifindex == devices->wg_peer_ifindex;
}

void mk_overlay_set_node(struct mk_overlay *overlay, const struct mk_devices *devices,
			 const struct mk_addresses *own)
{
	struct overlay_family *family = family_of(overlay, own->vtep.family);

	if (!overlay_has(family)) { /* the kernel was not asked for its routes */
		overlay->refresh = true;
		overlay->was_complete = false;
	}
	family->gone = family->forgotten = false;
	overlay->entries_changed |= !same_node(overlay, devices, family, own);
	family->own = *own;
	overlay->devices = *devices;
	overlay->peers_changed = true;
}

static void clear_ranges(struct mk_overlay *overlay, sa_family_t family)
{
	struct overlay_route *route, *next;

	HASH_ITER(hh, overlay->routes, route, next)
		if (route->dst.ip.family == family)
			route->range = false;
}

void mk_overlay_forget_family(struct mk_overlay *overlay, sa_family_t family)
{
	struct overlay_family *of = family_of(overlay, family);

	if (of->gone)
		return;
	release_family(of);
	clear_ranges(overlay, family);
	of->gone = of->forgotten = true;
	overlay->refresh = true;
	overlay_changed(overlay);
}

/* Do both lists need the same FDB, neighbour and WireGuard entries? */
static bool same_entries(const struct overlay_family *had, const struct mk_overlay_plan *plan)
{
	bool same = had->peer_count == plan->peer_count;

	for (size_t i = 0; same && i < plan->peer_count; i++) {
		const struct mk_overlay_peer *a = &had->peers[i], *b = &plan->peers[i];

		same = strcmp(a->node, b->node) == 0 && mk_ip_equal(&a->vtep, &b->vtep) &&
		       memcmp(&a->vtep_mac, &b->vtep_mac, sizeof(a->vtep_mac)) == 0 &&
		       mk_ip_equal(&a->underlay, &b->underlay) &&
		       memcmp(&a->wireguard, &b->wireguard, sizeof(a->wireguard)) == 0;
	}
	return same;
}

int mk_overlay_set_peers(struct mk_overlay *overlay, sa_family_t family,
			 const struct mk_overlay_plan *plan, struct mk_error *err)
{
	struct overlay_family *of = family_of(overlay, family);
	struct mk_overlay_peer *peers =
		calloc(plan->peer_count ? plan->peer_count : 1, sizeof(*peers));

	if (!peers)
		return mk_error_errno(err, ENOMEM, "cannot keep the list of nodes");
	overlay->entries_changed |= !same_entries(of, plan);
	free_peers(of);
	of->peers = peers;
	for (size_t i = 0; i < plan->peer_count; i++) {
		peers[i] = plan->peers[i];
		peers[i].node = strdup(plan->peers[i].node);
		if (!peers[i].node)
			return mk_error_errno(err, ENOMEM, "cannot keep the list of nodes");
		of->peer_count = i + 1;
	}
	overlay->peers_changed = true;
	return 0;
}

int mk_overlay_set_ranges(struct mk_overlay *overlay, sa_family_t family,
			  const struct mk_cidr *ranges, size_t count, struct mk_error *err)
{
	struct overlay_family *of = family_of(overlay, family);
	struct mk_cidr *copy;

	if (mk_cidrs_equal(of->ranges, of->range_count, ranges, count))
		return 0;
	copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return mk_error_errno(err, ENOMEM, "cannot keep the ranges of the datapath");
	for (size_t i = 0; i < count; i++) {
		copy[i] = ranges[i];
		if (!overlay_route(overlay, &copy[i], overlay_metric(&copy[i]), true)) {
			free(copy);
			return mk_error_errno(err, ENOMEM,
					      "cannot keep the ranges of the datapath");
		}
	}
	free(of->ranges);
	of->ranges = copy;
	of->range_count = count;
	clear_ranges(overlay, family);
	for (size_t i = 0; i < count; i++)
		overlay_route(overlay, &copy[i], overlay_metric(&copy[i]), false)->range = true;
	overlay->ranges_changed = true;
	return 0;
}

static bool same_clusters(const struct mk_overlay *overlay, const struct mk_clusters_fdb *rows,
			  size_t count)
{
	const struct mk_clusters_fdb *had = overlay->clusters;

	if (overlay->cluster_count != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (memcmp(&had[i].mac, &rows[i].mac, sizeof(rows[i].mac)) != 0 ||
		    !mk_ip_equal(&had[i].remote, &rows[i].remote) || had[i].port != rows[i].port ||
		    had[i].is_encrypted != rows[i].is_encrypted)
			return false;
	return true;
}

int mk_overlay_set_clusters(struct mk_overlay *overlay, const struct mk_clusters_fdb *rows,
			    size_t count, bool is_all, struct mk_error *err)
{
	struct mk_clusters_fdb *copy;

	if ((overlay->clusters_known || !is_all) && same_clusters(overlay, rows, count))
		return 0;
	copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return mk_error_errno(err, ENOMEM, "cannot keep the nodes of other clusters");
	if (count)
		memcpy(copy, rows, count * sizeof(*copy));
	free(overlay->clusters);
	overlay->clusters = copy;
	overlay->cluster_count = count;
	overlay->clusters_known |= is_all;
	overlay_changed(overlay);
	return 0;
}

/* Both families have the same node. */
static bool is_of_first(const struct mk_overlay *overlay, const struct mk_overlay_peer *node)
{
	const struct overlay_family *first = &overlay->families[0];

	for (size_t i = 0; i < first->peer_count; i++)
		if (strcmp(first->peers[i].node, node->node) == 0)
			return true;
	return false;
}

static enum mk_overlay_lack lack_of(const struct mk_overlay *overlay,
				    const struct mk_overlay_peer *node)
{
	if (!node->wireguard.port)
		return MK_OVERLAY_LACKS_KEY;
	return wireguard_peer(overlay, node) ? MK_OVERLAY_LACKS_HANDSHAKE : MK_OVERLAY_SAME_KEY;
}

void mk_overlay_each_clear(const struct mk_overlay *overlay, mk_overlay_clear_fn *see, void *ctx)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		for (size_t j = 0; j < overlay->families[i].peer_count; j++) {
			const struct mk_overlay_peer *node = &overlay->families[i].peers[j];

			if (node->is_clear && (i == 0 || !is_of_first(overlay, node)))
				see(ctx, node->node, lack_of(overlay, node));
		}
}

void mk_overlay_on_left_vip(struct mk_overlay *overlay, mk_overlay_left_vip_fn *fn, void *ctx)
{
	overlay->left_vip = fn;
	overlay->left_vip_ctx = ctx;
}

/* ---- synchronisation ------------------------------------------------------------------------- */

/* Make FDB and neighbour entries first: a route without them would lead nowhere. */
static int sync_all(struct mk_overlay *overlay, bool complete, unsigned int *changes,
		    struct mk_error *err)
{
	bool nodes =
		overlay->peers_changed || overlay->refresh || complete != overlay->was_complete;
	int ret = 0;

	if (overlay->refresh)
		ret = overlay_read_routes(overlay, err);
	if (ret == 0 && nodes)
		ret = wireguard_sync(overlay, complete, changes, err);
	if (ret == 0 && nodes)
		ret = overlay_put_neighbours(overlay, changes, err);
	if (ret == 0 && nodes)
		ret = overlay_use_links(overlay, err);
	if (ret == 0 && nodes)
		ret = overlay_want_routes(overlay, err);
	if (ret == 0 && complete && !overlay->was_complete && overlay->left_vip)
		overlay_offer_left_vips(overlay);
	if (ret == 0)
		ret = overlay_sync_routes(overlay, nodes || overlay->ranges_changed, complete,
					  changes, err);
	if (ret == 0 && nodes && complete)
		ret = overlay_prune_neighbours(overlay, changes, err);
	return ret;
}

int mk_overlay_sync(struct mk_overlay *overlay, bool complete, unsigned int *changes,
		    struct mk_error *err)
{
	int ret = sync_all(overlay, complete, changes, err);

	overlay->refresh = ret < 0;
	if (ret < 0)
		return mk_error_wrap(err, "overlay");
	overlay->peers_changed = overlay->entries_changed = false;
	overlay->ranges_changed = false;
	overlay->was_complete = complete;
	for (size_t i = 0; complete && i < MK_FAMILIES; i++)
		overlay->families[i].forgotten = false;
	return 0;
}

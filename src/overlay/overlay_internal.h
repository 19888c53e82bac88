/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/overlay_internal.h - the object behind overlay.h, shared by routes.c,
 * neighbour.c (FDB and neighbours) and wireguard.c. */
#ifndef MK_OVERLAY_OVERLAY_INTERNAL_H
#define MK_OVERLAY_OVERLAY_INTERNAL_H

#include <uthash.h>

#include "overlay/overlay.h"
#include "overlay/wireguard.h"

/* Without padding, so that its bytes can be hashed. */
struct route_key {
	uint32_t metric;
	uint8_t family, prefix_bits, bytes[16], pad[2];
};

struct overlay_route {
	struct route_key key;
	struct mk_cidr dst;
	bool node; /* wanted as a node's pod CIDR */
	bool range; /* wanted as a range of Service addresses or of another cluster */
	unsigned int vip_users; /* wanted outside of these: number of Services with this address */
	bool queued; /* may have become wanted or unwanted since the last sync */
	struct overlay_route *prev, *next; /* in the queue */
	bool is_installed;
	bool was_made; /* `made` was written, or found right */
	struct mk_nl_route wanted, installed, made;
	UT_hash_handle hh;
};

/* What one family wants. */
struct overlay_family {
	struct mk_addresses own; /* without addresses: the node does not have the family */
	struct mk_overlay_peer *peers;
	size_t peer_count;
	struct mk_cidr *ranges; /* of Service addresses and other clusters */
	size_t range_count;
	bool gone; /* mk_overlay_forget_family() */
	bool forgotten; /* .. and its routes and neighbours in the kernel have to be removed */
};

struct mk_overlay {
	struct mk_nl *nl;
	struct mk_devices devices;
	struct overlay_family families[MK_FAMILIES];
	struct mk_clusters_fdb *clusters; /* nodes of other clusters */
	size_t cluster_count;
	struct mk_wg_peer *tunnels; /* nodes of other clusters that are reached encrypted, by key */
	size_t tunnel_count;
	struct mk_wg_peer *wg_peers; /* @tunnels and the nodes of this cluster, by key */
	size_t wg_peer_count;
	bool clusters_known; /* no table uses an entry that @clusters lacks */
	struct overlay_route *routes, *queue;
	bool refresh, peers_changed, ranges_changed, was_complete;
	bool entries_changed; /* .. not only routes: a missing entry is no repair then */
	struct mk_overlay_repairs repairs;
	mk_overlay_left_vip_fn *left_vip;
	void *left_vip_ctx;
};

/* The devices or the nodes' addresses changed. */
static inline void overlay_changed(struct mk_overlay *overlay)
{
	overlay->peers_changed = overlay->entries_changed = true;
}

static inline bool overlay_has(const struct overlay_family *family)
{
	return family->own.vtep.family != AF_UNSPEC;
}

/* Does the kernel have to be asked for routes and neighbours of @family? */
static inline bool overlay_reads(const struct overlay_family *family)
{
	return overlay_has(family) || family->forgotten;
}

/* What decides whether carriers to a node leave by WireGuard. */
struct overlay_way {
	enum mk_encryption encryption;
	bool has_device; /* this node has mkwg */
	bool has_entry; /* the kernel has an FDB entry for the node */
	bool was_encrypted; /* .. which leads to mkwg */
	bool has_key; /* the node published a key, and no other node has it */
	bool has_handshake; /* .. and has made a handshake */
};
/* Pure. */
bool overlay_encrypts(const struct overlay_way *way);
/* Does the node get packets in the clear, or with WireGuardOnly none, although encryption is on? */
bool overlay_is_clear(const struct overlay_way *way);

/* Have the WireGuard device. Returns 1 if it was not right. Without WireGuard in the kernel:
 * devices->wg_lacks_kernel. */
mk_must_check int wireguard_ensure(struct mk_nl *nl, const struct mk_wireguard_wanted *wanted,
				   uint32_t mtu_bytes, struct mk_devices *devices,
				   struct mk_error *err);
/* Remove the device, if it is ours. Adds to *@removed. */
mk_must_check int wireguard_remove(struct mk_nl *nl, unsigned int *removed, struct mk_error *err);
/* Bring the device's peers to overlay->tunnels and the nodes with a key. Unwanted peers are removed
 * only if @complete. */
mk_must_check int wireguard_sync(struct mk_overlay *overlay, bool complete, unsigned int *changes,
				 struct mk_error *err);
/* The peer of a node of this cluster; NULL: it has no key, or another node has the same. */
const struct mk_wg_peer *wireguard_peer(const struct mk_overlay *overlay,
					const struct mk_overlay_peer *node);
/* Compare a peer of the kernel, NULL: none, with the wanted one. Returns true if *@put has to be
 * written. An endpoint of AF_UNSPEC there means that the kernel's stays. */
bool wireguard_change(const struct mk_wg_peer *found, const struct mk_wg_peer *wanted,
		      struct mk_wg_peer *put);

/* FDB and neighbour entries: make those wanted; remove the others. */
mk_must_check int overlay_put_neighbours(struct mk_overlay *overlay, unsigned int *changes,
					 struct mk_error *err);
mk_must_check int overlay_use_links(struct mk_overlay *overlay, struct mk_error *err);
mk_must_check int overlay_prune_neighbours(struct mk_overlay *overlay, unsigned int *changes,
					   struct mk_error *err);

/* routes.c: the metric of monokube's routes to @dst. */
uint32_t overlay_metric(const struct mk_cidr *dst);
/* @metric: mostly overlay_metric(). */
struct overlay_route *overlay_route(struct mk_overlay *overlay, const struct mk_cidr *dst,
				    uint32_t metric, bool create);
/* Read from the kernel which routes are installed. */
mk_must_check int overlay_read_routes(struct mk_overlay *overlay, struct mk_error *err);
/* Want those to this node's pod CIDR and to every other node's. */
mk_must_check int overlay_want_routes(struct mk_overlay *overlay, struct mk_error *err);
/* Offer those of an earlier agent, which knew whether flows still need them, to
 * overlay->left_vip(). */
void overlay_offer_left_vips(struct mk_overlay *overlay);
/* Write the differences. @all: every route; otherwise those of Service addresses that came or went.
 * Wanted routes are made before others are removed: an address never lacks a route into the
 * datapath. */
mk_must_check int overlay_sync_routes(struct mk_overlay *overlay, bool all, bool complete,
				      unsigned int *changes, struct mk_error *err);

#endif

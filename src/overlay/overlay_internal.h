/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/overlay_internal.h - the object behind overlay.h, shared by overlay.c (routes) and
 * neighbour.c (FDB and neighbours). */
#ifndef MK_OVERLAY_OVERLAY_INTERNAL_H
#define MK_OVERLAY_OVERLAY_INTERNAL_H

#include <uthash.h>

#include "overlay/overlay.h"

struct overlay_route {
	uint64_t key; /* address and prefix */
	struct mk_cidr dst;
	bool node; /* wanted: a node's pod CIDR */
	unsigned int vip_users; /* wanted: so many Services have this address */
	bool is_installed;
	struct mk_nl_route wanted, installed;
	UT_hash_handle hh;
};

struct mk_overlay {
	struct mk_nl *nl;
	struct mk_devices devices;
	struct mk_addresses own;
	struct mk_overlay_peer *peers;
	size_t peer_count;
	struct overlay_route *routes;
	bool refresh, peers_changed, was_complete;
};

struct overlay_route *mk_overlay_route(struct mk_overlay *overlay, const struct mk_cidr *dst,
				       bool create);

/* FDB and neighbour entries: make the wanted ones; remove the others. */
mk_must_check int mk_overlay_put_neighbours(struct mk_overlay *overlay, unsigned int *changes,
					    struct mk_error *err);
mk_must_check int mk_overlay_prune_neighbours(struct mk_overlay *overlay, unsigned int *changes,
					      struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/overlay.h - the kernel's side of the overlay: per other node one FDB entry, one
 * neighbour and one route, and routes into the datapath: per range of Service addresses, and per
 * Service address outside of these. Everything by difference: first from what the kernel shows (our routes carry MK_RTPROT), then from memory,
 * until mk_overlay_refresh() asks the kernel again. Loop thread only. */
#ifndef MK_OVERLAY_OVERLAY_H
#define MK_OVERLAY_OVERLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/netlink.h"
#include "config/addresses.h"
#include "overlay/device.h"
#include "overlay/plan.h"

struct mk_overlay;

/* @nl stays the caller's. */
struct mk_overlay *mk_overlay_new(struct mk_nl *nl, struct mk_error *err);
void mk_overlay_free(struct mk_overlay *overlay);

/* Which interfaces and own addresses the routes use from now on. */
void mk_overlay_set_node(struct mk_overlay *overlay, const struct mk_devices *devices,
			 const struct mk_addresses *own);
/* The nodes, from now on; @plan is copied. */
mk_must_check int mk_overlay_set_peers(struct mk_overlay *overlay,
				       const struct mk_overlay_plan *plan, struct mk_error *err);
/* Ranges that Service addresses come from: one route each, and none for the addresses inside. Network
 * addresses, copied. */
mk_must_check int mk_overlay_set_service_ranges(struct mk_overlay *overlay,
						const struct mk_cidr *ranges, size_t count,
						struct mk_error *err);
/* A Service address is in use, once more or once less. */
mk_must_check int mk_overlay_vip_get(struct mk_overlay *overlay, const struct mk_ip *vip,
				     struct mk_error *err);
void mk_overlay_vip_put(struct mk_overlay *overlay, const struct mk_ip *vip);
/* Of addresses that an agent before this one made routes for, and that nobody uses: each is told once,
 * when all has been listed, before its route goes; mk_overlay_vip_get() keeps it. */
typedef void mk_overlay_left_vip_fn(void *ctx, const struct mk_ip *vip);
void mk_overlay_on_left_vip(struct mk_overlay *overlay, mk_overlay_left_vip_fn *fn, void *ctx);

/* Somebody else may have changed something: compare with the kernel at the next sync. */
void mk_overlay_refresh(struct mk_overlay *overlay);

/* Since the start: what was ours, and was missing or altered when the kernel was asked. Each is a line
 * of the log. */
struct mk_overlay_repairs {
	uint64_t routes, neighbours; /* neighbours: FDB entries too */
};
const struct mk_overlay_repairs *mk_overlay_repairs(const struct mk_overlay *overlay);

/* Make it so. What nobody wants is removed only if @complete: every list has been read. Adds the
 * number of requests that changed something to *@changes. After an error: refreshes by itself. */
mk_must_check int mk_overlay_sync(struct mk_overlay *overlay, bool complete, unsigned int *changes,
				  struct mk_error *err);

/* `monokube cleanup`: remove our routes, @vxlan_name if it is a VXLAN device, the host veth pair.
 * Adds to *@removed. */
mk_must_check int mk_overlay_remove(struct mk_nl *nl, const char *vxlan_name, unsigned int *removed,
				    struct mk_error *err);

#endif

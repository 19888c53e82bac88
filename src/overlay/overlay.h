/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/overlay.h - the overlay in the kernel: one FDB entry, one neighbour and one route per
 * other node; the chains' VXLAN device has the same FDB entries; the device to other clusters has
 * one per node of theirs that gets packets. Routes into the datapath: one per range of Service
 * addresses or of another cluster, and one per Service address outside these ranges. Only
 * differences are written. They are computed first from what the kernel shows (our routes carry
 * MK_RTPROT), then from memory, until mk_overlay_refresh() asks the kernel again.
 *
 * One object has both families, on the same devices. A call for one family leaves the other's
 * routes and neighbour entries as they are. FDB entries are shared: the same MAC address and
 * remote address. Loop thread only. */
#ifndef MK_OVERLAY_OVERLAY_H
#define MK_OVERLAY_OVERLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/netlink/netlink.h"
#include "clusters/clusters.h"
#include "config/addresses.h"
#include "overlay/device.h"
#include "overlay/plan.h"

struct mk_overlay;

/* @nl stays the caller's. */
struct mk_overlay *mk_overlay_new(struct mk_nl *nl, struct mk_error *err);
void mk_overlay_free(struct mk_overlay *overlay);

/* Set the interfaces, and this node's addresses of one family. Until then the family is absent:
 * its routes are neither read nor written. */
void mk_overlay_set_node(struct mk_overlay *overlay, const struct mk_devices *devices,
			 const struct mk_addresses *own);
/* The node does not have @family any more: the next complete sync removes its routes and
 * neighbour entries, also those of an earlier agent. Further calls do nothing. */
void mk_overlay_forget_family(struct mk_overlay *overlay, sa_family_t family);
/* Set the nodes with @family; @plan is copied. */
mk_must_check int mk_overlay_set_peers(struct mk_overlay *overlay, sa_family_t family,
				       const struct mk_overlay_plan *plan, struct mk_error *err);
/* Set the ranges of Service addresses and of other clusters of @family: one route each, and none
 * for Services' addresses inside. @ranges are network addresses, and copied. */
mk_must_check int mk_overlay_set_ranges(struct mk_overlay *overlay, sa_family_t family,
					const struct mk_cidr *ranges, size_t count,
					struct mk_error *err);
/* Set the nodes of other clusters that get packets of any family; @rows are copied. Until the
 * first call with @is_all, entries of an earlier agent stay: the tables may still use them. Without
 * mk_device_wanted.peer_name nothing is written. */
mk_must_check int mk_overlay_set_clusters(struct mk_overlay *overlay,
					  const struct mk_clusters_fdb *rows, size_t count,
					  bool is_all, struct mk_error *err);
/* Set the peers of the WireGuard device, sorted by key; @peers are copied. */
mk_must_check int mk_overlay_set_tunnels(struct mk_overlay *overlay, const struct mk_wg_peer *peers,
					 size_t count, struct mk_error *err);
/* Visit the other nodes to which packets of the overlay are not encrypted although they shall be.
 * As of the last synchronisation. */
enum mk_overlay_lack {
	MK_OVERLAY_LACKS_KEY,
	MK_OVERLAY_LACKS_HANDSHAKE, /* the first one */
	MK_OVERLAY_SAME_KEY, /* its key is that of another node */
};
typedef void mk_overlay_clear_fn(void *ctx, const char *node, enum mk_overlay_lack lack);
void mk_overlay_each_clear(const struct mk_overlay *overlay, mk_overlay_clear_fn *see, void *ctx);
/* Handshakes with the nodes of cluster @cluster, as read at the last synchronisation. */
struct mk_overlay_handshakes {
	size_t nodes; /* that have a key */
	int64_t last_unix_s; /* 0: none yet */
};
struct mk_overlay_handshakes mk_overlay_handshakes(const struct mk_overlay *overlay,
						   uint32_t cluster);
/* Count the nodes, of all clusters, with no handshake since @since_unix_s. */
size_t mk_overlay_silent_tunnels(const struct mk_overlay *overlay, int64_t since_unix_s);
/* Add or drop one use of a Service address. */
mk_must_check int mk_overlay_vip_get(struct mk_overlay *overlay, const struct mk_ip *vip,
				     struct mk_error *err);
void mk_overlay_vip_put(struct mk_overlay *overlay, const struct mk_ip *vip);
/* Called once for each unused address that an earlier agent made a route for, when everything has
 * been listed, before the route is removed. mk_overlay_vip_get() keeps it. */
typedef void mk_overlay_left_vip_fn(void *ctx, const struct mk_ip *vip);
void mk_overlay_on_left_vip(struct mk_overlay *overlay, mk_overlay_left_vip_fn *fn, void *ctx);

/* Compare with the kernel at the next sync: others may have changed something. */
void mk_overlay_refresh(struct mk_overlay *overlay);
/* Is @dst, a network address, the destination of a route of ours? Another process may have replaced
 * it. */
bool mk_overlay_has_route(const struct mk_overlay *overlay, const struct mk_cidr *dst);

/* Since the start: entries of ours that were missing or altered when the kernel was asked. Each
 * has a line in the log. */
struct mk_overlay_repairs {
	uint64_t routes, neighbours; /* neighbours: FDB entries too */
};
const struct mk_overlay_repairs *mk_overlay_repairs(const struct mk_overlay *overlay);

/* Write the differences. Unwanted entries are removed only if @complete: every list has been read.
 * Adds the number of requests that changed something to *@changes. An error causes a refresh. */
mk_must_check int mk_overlay_sync(struct mk_overlay *overlay, bool complete, unsigned int *changes,
				  struct mk_error *err);

/* The settings name the VXLAN device of @id differently than those of the last run: give it @name,
 * so that it keeps its routes and programs. Do nothing if there is no such device, or if @name is
 * taken. */
mk_must_check int mk_overlay_rename(struct mk_nl *nl, const char *former, const char *name,
				    uint32_t id, struct mk_error *err);

/* `monokube cleanup`: remove our routes, those of the @vxlan_count @vxlan_names that are VXLAN
 * devices, and the host veth pair. Adds to *@removed. */
mk_must_check int mk_overlay_remove(struct mk_nl *nl, const char *const *vxlan_names,
				    size_t vxlan_count, unsigned int *removed,
				    struct mk_error *err);
/* ... of a node that had both families, only one: our routes, and what the devices have of @family.
 * The devices stay. */
mk_must_check int mk_overlay_remove_family(struct mk_nl *nl, const char *vxlan_name,
					   sa_family_t family, unsigned int *removed,
					   struct mk_error *err);

#endif

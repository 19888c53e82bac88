/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/device.h - the interfaces that the datapath needs on a node: the overlay's VXLAN
 * device, those of chains and of other clusters, and the host veth pair. A correct device keeps its
 * ifindex. */
#ifndef MK_OVERLAY_DEVICE_H
#define MK_OVERLAY_DEVICE_H

#include <stdbool.h>

#include "monokube/abi.h"
#include "base/netlink/netlink.h"
#include "config/addresses.h"
#include "config/config.h"
#include "overlay/wireguard.h"

#define MK_HOST_PEER_MTU_BYTES	 65535 /* the maximum of a veth */
#define MK_VXLAN_OVERHEAD_BYTES	 50 /* outer IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14 */
#define MK_VXLAN_OVERHEAD6_BYTES 70 /* the same with an outer IPv6 header of 40 */
#define MK_IPV6_MTU_MIN_BYTES	 1280 /* RFC 8200, 5 */

#define MK_WG_OVERHEAD_BYTES 60 /* WireGuard over IPv4: IP 20, UDP 8, header 16, tag 16 */

/* Returns what the overlay adds to a packet. @underlay: family of the outer header. */
static inline uint32_t mk_vxlan_overhead_bytes(sa_family_t underlay)
{
	return underlay == AF_INET6 ? MK_VXLAN_OVERHEAD6_BYTES : MK_VXLAN_OVERHEAD_BYTES;
}
/* .. and what encryption adds. */
static inline uint32_t mk_overlay_overhead_bytes(sa_family_t underlay, bool is_encrypted)
{
	return mk_vxlan_overhead_bytes(underlay) + (is_encrypted ? MK_WG_OVERHEAD_BYTES : 0);
}

struct mk_overlay_path {
	const char *uplink_name;
	uint32_t uplink_mtu_bytes;
	uint32_t configured_bytes; /* setting mtu; 0: none */
	sa_family_t underlay; /* family of the outer headers */
	bool is_encrypted; /* by WireGuard */
	bool ipv6; /* pods have IPv6, alone or beside IPv4 */
};
/* Compute the overlay's MTU: as configured, or the uplink's less the overhead. -EINVAL: pods of
 * IPv6 need a larger one. Pure. */
mk_must_check int mk_overlay_mtu(const struct mk_overlay_path *path, uint32_t *mtu_bytes,
				 struct mk_error *err);

struct mk_device_wanted {
	const char *vxlan_name;
	const char *sfc_name; /* VXLAN device of service function chains (MK_SFC_VNI) */
	const char *peer_name; /* that of other clusters (MK_CLUSTER_VNI); NULL: none */
	const char
		*former_peer_name; /* without peer_name: remove this device of an earlier agent */
	/* The device to nodes that are reached encrypted, over IPv4 only; with @peer_name also a
	 * VXLAN device on it. NULL: none; those of an earlier agent are removed. */
	const struct mk_wireguard_wanted *wireguard;
	enum mk_encryption encryption; /* of the overlay */
	uint16_t vxlan_port; /* of all */
	struct mk_ip underlay; /* the Node's InternalIP, on the uplink: IPv4 or IPv6 */
	int uplink_ifindex;
	uint32_t mtu_bytes; /* of pods, so also of the VXLAN devices and host veth */
	/* by mk_family_index(), without a VTEP: none; MAC addresses are the same in both */
	struct mk_addresses addresses[MK_FAMILIES];
};

struct mk_devices {
	int host_ifindex, host_peer_ifindex, overlay_ifindex, sfc_ifindex;
	int cluster_ifindex; /* 0: none */
	int wg_ifindex, wg_peer_ifindex; /* 0: none */
	bool wg_lacks_kernel; /* the kernel has no WireGuard */
	uint8_t wg_public_key[MK_WG_KEY_BYTES]; /* with wg_ifindex */
	unsigned int vxlan_port; /* of these VXLAN devices */
	int uplink_ifindex; /* for which those of the overlay, chains and clusters were made */
	enum mk_encryption encryption; /* of the overlay; without wg_ifindex it has no way */
	unsigned int families; /* that they have, as bits by mk_family_index() */
};

/* Create or correct the devices. They have one address of each family of wanted->addresses, and
 * keep those of a family without. An IPv6 address is deprecated: the host's own packets have it
 * only if a route names it. The devices of chains and of other clusters have no address: only
 * programs send by them.
 *
 * A VXLAN device or veth pair of that name with other properties is replaced. The log names
 * replaced and corrected devices, and those of @devices that are missing. Returns how many of them
 * were not right. What a family needs that @devices do not have yet is no fault. */
mk_must_check int mk_devices_ensure(struct mk_nl *nl, const struct mk_device_wanted *wanted,
				    struct mk_devices *devices, struct mk_error *err);

#endif

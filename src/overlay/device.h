/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/device.h - the interfaces that the datapath needs on a node: the VXLAN device and the
 * host veth pair. A correct device keeps its ifindex. */
#ifndef MK_OVERLAY_DEVICE_H
#define MK_OVERLAY_DEVICE_H

#include "monokube/abi.h"
#include "base/netlink/netlink.h"
#include "config/addresses.h"

#define MK_HOST_PEER_MTU_BYTES	65535 /* the maximum of a veth */
#define MK_VXLAN_OVERHEAD_BYTES 50 /* outer IPv4 20, UDP 8, VXLAN 8, inner Ethernet 14 */

struct mk_device_wanted {
	const char *vxlan_name;
	uint16_t vxlan_port;
	struct mk_ip underlay; /* the Node's InternalIP, on the uplink */
	int uplink_ifindex;
	uint32_t mtu_bytes; /* of pods, so also of the VXLAN device and host veth */
	struct mk_addresses addresses;
};

struct mk_devices {
	int host_ifindex, host_peer_ifindex, overlay_ifindex;
};

/* Create or correct the devices. A VXLAN device or veth pair of that name with other properties is
 * replaced. The log names replaced and corrected devices, and those of @devices that are missing.
 * Returns how many of the two were not right. */
mk_must_check int mk_devices_ensure(struct mk_nl *nl, const struct mk_device_wanted *wanted,
				    struct mk_devices *devices, struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/wireguard.h - the WireGuard device to other nodes: its key, the device, and a peer
 * for each node of this cluster that has a key, and of a cluster that is reached encrypted.
 *
 * The overlay between the nodes of one cluster needs no device of its own. The FDB entry of a node
 * says by which link its carriers leave (NDA_IFINDEX): by the uplink, or by mkwg. Routes,
 * neighbours, the device and the packet path stay the same. Without encryption nothing costs more.
 * On arrival WireGuard has proved the sender's address, and program `wireguard_in` checks the
 * carrier as `nat_uplink` does in the clear.
 *
 * Every node with the device accepts encrypted packets of nodes whose keys it knows, whatever it
 * sends. So the setting changes node by node. An entry in the clear stays until the first
 * handshake, which shows that the other node knows this one's key. Then the entry leads to mkwg for
 * as long as the Node exists. The kernel keeps it when agents come and go. */
#ifndef MK_OVERLAY_WIREGUARD_H
#define MK_OVERLAY_WIREGUARD_H

#include "base/netlink/wireguard.h"

#define MK_WG_NAME	"mkwg" /* the device */
#define MK_WG_PEER_NAME "mkwgpeer" /* the VXLAN device that sends by it */
#define MK_WG_KEY_FILE	"wireguard.key" /* the private key, 32 bytes, in the state directory */

struct mk_wireguard_wanted {
	uint8_t private_key[MK_WG_KEY_BYTES];
	uint16_t port; /* UDP */
};

/* The device's own address, which no packet has. */
#define MK_WG_ADDRESS "169.254.109.107"
bool mk_wireguard_has_address(const struct mk_ip *ip);

/* Read the private key of this node from @state_dir. The first call creates it. A file that has
 * another size is no key, and stays. */
mk_must_check int mk_wireguard_key(const char *state_dir, uint8_t private_key[MK_WG_KEY_BYTES],
				   struct mk_error *err);

#endif

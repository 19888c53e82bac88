/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/netlink/wireguard.h - WireGuard devices by generic netlink (linux/wireguard.h). The
 * kernel computes the public key from the private one. mk_nl_wireguard_add() creates a device. */
#ifndef MK_BASE_NETLINK_WIREGUARD_H
#define MK_BASE_NETLINK_WIREGUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"

#define MK_WG_KEY_BYTES 32

/* A key in base64, as wg(8) shows it. @text of mk_wg_key_parse() has exactly that form. */
#define MK_WG_KEY_STRLEN 45
const char *mk_wg_key_format(const uint8_t key[MK_WG_KEY_BYTES], char text[MK_WG_KEY_STRLEN]);
mk_must_check int mk_wg_key_parse(const char *text, uint8_t key[MK_WG_KEY_BYTES]);

/* What a node tells others. */
struct mk_wg_public {
	uint8_t key[MK_WG_KEY_BYTES];
	uint16_t port; /* UDP, host order; 0: it has no WireGuard */
};

/* Read KEY:PORT. Returns false, and no port, if @text is something else. */
bool mk_wg_public_parse(const char *text, struct mk_wg_public *wireguard);

struct mk_wg_peer {
	uint8_t public_key[MK_WG_KEY_BYTES];
	struct mk_ip endpoint; /* AF_UNSPEC: none */
	uint16_t port; /* of the endpoint, host order */
	struct mk_ip carrier; /* the only address that the peer may have inside the tunnel */
	uint16_t keepalive_s; /* 0: off */
	/* The caller's: an endpoint that the kernel has learnt stays, because @endpoint may be
	 * behind address translation. */
	bool roams;
	/* Only when read: it has other addresses or a preshared key. */
	bool is_odd;
	uint32_t cluster; /* the caller's: whose node it is */
	int64_t handshake_unix_s; /* only when read: of the last handshake; 0: none yet */
};

/* Order two struct mk_wg_peer by key, for qsort() and bsearch(). */
int mk_wg_peer_compare(const void *left, const void *right);

struct mk_wg_device {
	uint8_t private_key[MK_WG_KEY_BYTES]; /* never printed; zeros: none */
	uint8_t public_key[MK_WG_KEY_BYTES]; /* zeros: none */
	uint16_t port; /* host order */
	struct mk_wg_peer *peers; /* mk_wg_device_release() */
	size_t peer_count;
};

/* Read device @ifindex of the calling thread's network namespace. */
mk_must_check int mk_wg_device_get(int ifindex, struct mk_wg_device *device, struct mk_error *err);
void mk_wg_device_release(struct mk_wg_device *device);
/* Set the private key and the port of device @ifindex. Peers stay. */
mk_must_check int mk_wg_device_set(int ifindex, const uint8_t private_key[MK_WG_KEY_BYTES],
				   uint16_t port, struct mk_error *err);
/* Add the peer with @peer->public_key, or give it this endpoint, keepalive and carrier only. With
 * an endpoint of AF_UNSPEC, its own one stays. A new keepalive also begins a handshake. */
mk_must_check int mk_wg_peer_put(int ifindex, const struct mk_wg_peer *peer, struct mk_error *err);
mk_must_check int mk_wg_peer_delete(int ifindex, const uint8_t public_key[MK_WG_KEY_BYTES],
				    struct mk_error *err);

#endif

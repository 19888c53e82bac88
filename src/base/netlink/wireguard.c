// SPDX-License-Identifier: Apache-2.0
#include "base/netlink/wireguard.h"

#include <linux/genetlink.h>
#include <linux/wireguard.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/netlink/request.h"

_Static_assert(MK_WG_KEY_BYTES == WG_KEY_LEN, "keys of WireGuard");

/* ---- texts ----------------------------------------------------------------------------------- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const char *mk_wg_key_format(const uint8_t key[MK_WG_KEY_BYTES], char text[MK_WG_KEY_STRLEN])
{
	const size_t chars = MK_WG_KEY_STRLEN - 2; /* before "=" */

	for (size_t i = 0; i < chars; i++) {
		size_t bit = i * 6, at = bit / 8;
		unsigned int two =
			(unsigned int)key[at] << 8 | (at + 1 < MK_WG_KEY_BYTES ? key[at + 1] : 0U);

		text[i] = digits[two >> (10 - bit % 8) & 63];
	}
	text[chars] = '=';
	text[chars + 1] = '\0';
	return text;
}

int mk_wg_key_parse(const char *text, uint8_t key[MK_WG_KEY_BYTES])
{
	const size_t chars = MK_WG_KEY_STRLEN - 2;
	char again[MK_WG_KEY_STRLEN];
	unsigned int value = 0, bits = 0;
	size_t count = 0;

	if (strlen(text) != chars + 1)
		return -EINVAL;
	for (size_t i = 0; i < chars; i++) {
		const char *digit = strchr(digits, text[i]);

		if (!digit)
			return -EINVAL;
		value = value << 6 | (unsigned int)(digit - digits);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			key[count++] = (uint8_t)(value >> bits);
		}
	}
	return strcmp(mk_wg_key_format(key, again), text) == 0 ? 0 : -EINVAL;
}

bool mk_wg_public_parse(const char *text, struct mk_wg_public *wireguard)
{
	char key[MK_WG_KEY_STRLEN];
	unsigned long port;

	wireguard->port = 0;
	if (strlen(text) < sizeof(key) || text[sizeof(key) - 1] != ':')
		return false;
	memcpy(key, text, sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	port = strtoul(text + sizeof(key), NULL, 10);
	if (mk_wg_key_parse(key, wireguard->key) < 0 || port > UINT16_MAX)
		return false;
	wireguard->port = (uint16_t)port;
	return port > 0;
}

/* ---- generic netlink ------------------------------------------------------------------------- */

static int see_family(void *ctx, const void *header, struct nlattr **attrs)
{
	uint16_t *family = ctx;

	(void)header;
	if (attrs[CTRL_ATTR_FAMILY_ID])
		*family = nla_get_u16(attrs[CTRL_ATTR_FAMILY_ID]);
	return 0;
}

/* Open a socket; *@family is WireGuard's number, which the kernel gives to it when it is loaded. */
static struct mk_nl *open_family(uint16_t *family, struct mk_error *err)
{
	const struct genlmsghdr header = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 };
	struct mk_nl *nl = nl_open(NETLINK_GENERIC, err);
	struct nl_msg *msg;
	int ret;

	if (!nl)
		return NULL;
	msg = nlmsg_new(GENL_ID_CTRL, 0, &header, sizeof(header));
	nl_put_text(msg, CTRL_ATTR_FAMILY_NAME, WG_GENL_NAME);
	*family = 0;
	ret = nl_query(nl, msg, sizeof(header), see_family, family, err);
	if (ret == 0 && *family)
		return nl;
	if (ret == 0)
		(void)mk_error_set(
			err, ENOENT,
			"no generic netlink family '%s': load or install the module of this name",
			WG_GENL_NAME);
	mk_error_wrap(err, "WireGuard of the kernel");
	mk_nl_free(nl);
	return NULL;
}

static struct nl_msg *new_message(uint16_t family, uint8_t command, int flags, int ifindex)
{
	const struct genlmsghdr header = { .cmd = command, .version = WG_GENL_VERSION };
	struct nl_msg *msg = nlmsg_new(family, flags, &header, sizeof(header));

	NL_PUT(msg, WGDEVICE_A_IFINDEX, uint32_t, (uint32_t)ifindex);
	return msg;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_key(const struct nlattr *attr, uint8_t key[MK_WG_KEY_BYTES])
{
	if (!attr || nla_len(attr) != MK_WG_KEY_BYTES)
		return false;
	memcpy(key, nla_data(attr), MK_WG_KEY_BYTES);
	return true;
}

static void read_endpoint(const struct nlattr *attr, struct mk_wg_peer *peer)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (attr && nla_len(attr) == sizeof(v4)) {
		memcpy(&v4, nla_data(attr), sizeof(v4));
		peer->endpoint.family = AF_INET;
		memcpy(&peer->endpoint.v4, &v4.sin_addr, sizeof(peer->endpoint.v4));
		peer->port = ntohs(v4.sin_port);
	} else if (attr && nla_len(attr) == sizeof(v6)) {
		memcpy(&v6, nla_data(attr), sizeof(v6));
		peer->endpoint.family = AF_INET6;
		memcpy(&peer->endpoint.v6, &v6.sin6_addr, sizeof(peer->endpoint.v6));
		peer->port = ntohs(v6.sin6_port);
	}
}

/* One address is the carrier. A second one, or a range, is odd. */
static void read_carriers(struct nlattr *list, struct mk_wg_peer *peer)
{
	struct nlattr *item, *attrs[NL_ATTRS];
	struct mk_ip ip;
	int left;

	if (!list)
		return;
	nla_for_each_nested(item, list, left)
	{
		nl_nested(item, attrs);
		if (peer->carrier.family != AF_UNSPEC || !nl_ip(attrs[WGALLOWEDIP_A_IPADDR], &ip) ||
		    !attrs[WGALLOWEDIP_A_CIDR_MASK] ||
		    nla_get_u8(attrs[WGALLOWEDIP_A_CIDR_MASK]) != ip_bits(&ip)) {
			peer->is_odd = true;
			continue;
		}
		peer->carrier = ip;
	}
}

static bool has_preshared_key(const struct nlattr *attr)
{
	static const uint8_t none[MK_WG_KEY_BYTES];
	uint8_t key[MK_WG_KEY_BYTES];

	return read_key(attr, key) && memcmp(key, none, sizeof(key)) != 0;
}

static void read_peer(struct nlattr **attrs, struct mk_wg_peer *peer)
{
	struct {
		int64_t tv_sec, tv_nsec; /* struct __kernel_timespec */
	} handshake;
	struct nlattr *keepalive = attrs[WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL];
	struct nlattr *time = attrs[WGPEER_A_LAST_HANDSHAKE_TIME];

	read_endpoint(attrs[WGPEER_A_ENDPOINT], peer);
	peer->is_odd = has_preshared_key(attrs[WGPEER_A_PRESHARED_KEY]);
	peer->keepalive_s = keepalive ? nla_get_u16(keepalive) : 0;
	if (time && nla_len(time) == sizeof(handshake)) {
		memcpy(&handshake, nla_data(time), sizeof(handshake));
		peer->handshake_unix_s = handshake.tv_sec;
	}
}

/* A peer with many addresses goes on in the next message: only its key and further addresses. */
static int add_peer(struct mk_wg_device *device, struct nlattr *item)
{
	struct nlattr *attrs[NL_ATTRS];
	struct mk_wg_peer *peer;
	uint8_t key[MK_WG_KEY_BYTES];

	nl_nested(item, attrs);
	if (!read_key(attrs[WGPEER_A_PUBLIC_KEY], key))
		return 0;
	peer = device->peer_count ? &device->peers[device->peer_count - 1] : NULL;
	if (!peer || memcmp(peer->public_key, key, sizeof(key)) != 0) {
		peer = mk_append(device->peers, device->peer_count);
		if (!peer)
			return -ENOMEM;
		memcpy(peer->public_key, key, sizeof(key));
		read_peer(attrs, peer);
	}
	read_carriers(attrs[WGPEER_A_ALLOWEDIPS], peer);
	return 0;
}

static int see_device(void *ctx, const void *header, struct nlattr **attrs)
{
	struct mk_wg_device *device = ctx;
	struct nlattr *item;
	int left, ret = 0;

	(void)header;
	(void)read_key(attrs[WGDEVICE_A_PRIVATE_KEY], device->private_key);
	(void)read_key(attrs[WGDEVICE_A_PUBLIC_KEY], device->public_key);
	if (attrs[WGDEVICE_A_LISTEN_PORT])
		device->port = nla_get_u16(attrs[WGDEVICE_A_LISTEN_PORT]);
	if (attrs[WGDEVICE_A_PEERS])
		nla_for_each_nested(item, attrs[WGDEVICE_A_PEERS], left) ret =
			ret ?: add_peer(device, item);
	return ret;
}

int mk_wg_device_get(int ifindex, struct mk_wg_device *device, struct mk_error *err)
{
	uint16_t family;
	cleanup_nl struct mk_nl *nl = open_family(&family, err);
	struct nl_msg *msg;
	int ret;

	*device = (struct mk_wg_device){ 0 };
	if (!nl)
		return -EIO;
	msg = new_message(family, WG_CMD_GET_DEVICE, NLM_F_DUMP, ifindex);
	ret = nl_query(nl, msg, sizeof(struct genlmsghdr), see_device, device, err);
	if (ret == -ENOMEM)
		(void)mk_error_errno(err, ENOMEM, "peers");
	if (ret < 0)
		mk_wg_device_release(device);
	return nl_wrap(ret, err, "cannot read WireGuard device number %d", ifindex);
}

void mk_wg_device_release(struct mk_wg_device *device)
{
	free(device->peers);
	explicit_bzero(device, sizeof(*device));
}

/* ---- writing --------------------------------------------------------------------------------- */

int mk_wg_device_set(int ifindex, const uint8_t private_key[MK_WG_KEY_BYTES], uint16_t port,
		     struct mk_error *err)
{
	uint16_t family;
	cleanup_nl struct mk_nl *nl = open_family(&family, err);
	struct nl_msg *msg;

	if (!nl)
		return -EIO;
	msg = new_message(family, WG_CMD_SET_DEVICE, 0, ifindex);
	nl_put(msg, WGDEVICE_A_PRIVATE_KEY, private_key, MK_WG_KEY_BYTES);
	NL_PUT(msg, WGDEVICE_A_LISTEN_PORT, uint16_t, port);
	return nl_wrap(nl_request(nl, msg, err), err,
		       "cannot set key and UDP port %u of WireGuard device number %d", port,
		       ifindex);
}

static void put_endpoint(struct nl_msg *msg, const struct mk_wg_peer *peer)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(peer->port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(peer->port) };

	memcpy(&v4.sin_addr, &peer->endpoint.v4, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, &peer->endpoint.v6, sizeof(v6.sin6_addr));
	if (peer->endpoint.family == AF_INET)
		nl_put(msg, WGPEER_A_ENDPOINT, &v4, sizeof(v4));
	else if (peer->endpoint.family == AF_INET6)
		nl_put(msg, WGPEER_A_ENDPOINT, &v6, sizeof(v6));
}

static void put_carrier(struct nl_msg *msg, const struct mk_ip *carrier)
{
	struct nlattr *list = nl_begin(msg, WGPEER_A_ALLOWEDIPS), *item = nl_begin(msg, 0);

	NL_PUT(msg, WGALLOWEDIP_A_FAMILY, uint16_t, carrier->family);
	nl_put_ip(msg, WGALLOWEDIP_A_IPADDR, carrier);
	NL_PUT(msg, WGALLOWEDIP_A_CIDR_MASK, uint8_t, ip_bits(carrier));
	nl_end(msg, item);
	nl_end(msg, list);
}

static void put_peer(struct nl_msg *msg, const struct mk_wg_peer *peer)
{
	static const uint8_t none[MK_WG_KEY_BYTES];
	struct nlattr *list = nl_begin(msg, WGDEVICE_A_PEERS), *item = nl_begin(msg, 0);

	nl_put(msg, WGPEER_A_PUBLIC_KEY, peer->public_key, MK_WG_KEY_BYTES);
	NL_PUT(msg, WGPEER_A_FLAGS, uint32_t, WGPEER_F_REPLACE_ALLOWEDIPS);
	nl_put(msg, WGPEER_A_PRESHARED_KEY, none, sizeof(none));
	NL_PUT(msg, WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, uint16_t, peer->keepalive_s);
	put_endpoint(msg, peer);
	put_carrier(msg, &peer->carrier);
	nl_end(msg, item);
	nl_end(msg, list);
}

int mk_wg_peer_put(int ifindex, const struct mk_wg_peer *peer, struct mk_error *err)
{
	uint16_t family;
	cleanup_nl struct mk_nl *nl = open_family(&family, err);
	char text[MK_IP_STRLEN];
	struct nl_msg *msg;

	if (!nl)
		return -EIO;
	msg = new_message(family, WG_CMD_SET_DEVICE, 0, ifindex);
	put_peer(msg, peer);
	return nl_wrap(nl_request(nl, msg, err), err, "cannot write the WireGuard peer at %s",
		       mk_ip_format(&peer->carrier, text));
}

int mk_wg_peer_compare(const void *left, const void *right)
{
	const struct mk_wg_peer *a = left, *b = right;

	return memcmp(a->public_key, b->public_key, sizeof(a->public_key));
}

int mk_wg_peer_delete(int ifindex, const uint8_t public_key[MK_WG_KEY_BYTES], struct mk_error *err)
{
	uint16_t family;
	cleanup_nl struct mk_nl *nl = open_family(&family, err);
	struct nlattr *list, *item;
	struct nl_msg *msg;

	if (!nl)
		return -EIO;
	msg = new_message(family, WG_CMD_SET_DEVICE, 0, ifindex);
	list = nl_begin(msg, WGDEVICE_A_PEERS);
	item = nl_begin(msg, 0);
	nl_put(msg, WGPEER_A_PUBLIC_KEY, public_key, MK_WG_KEY_BYTES);
	NL_PUT(msg, WGPEER_A_FLAGS, uint32_t, WGPEER_F_REMOVE_ME);
	nl_end(msg, item);
	nl_end(msg, list);
	return nl_wrap(nl_request(nl, msg, err), err, "cannot remove a WireGuard peer");
}

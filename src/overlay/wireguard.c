// SPDX-License-Identifier: Apache-2.0
#include "overlay/wireguard.h"

#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/state_file.h"
#include "overlay/overlay_internal.h"

/* The device's description. A device without it is another program's. */
#define ALIAS "monokube"

#define FIRST_KEEPALIVE_S 10 /* to a node of this cluster, until its first handshake */

/* ---- key ------------------------------------------------------------------------------------- */

/* The kernel clears and sets the bits that Curve25519 fixes. */
static int make_key(const char *path, uint8_t key[MK_WG_KEY_BYTES], struct mk_error *err)
{
	if (getrandom(key, MK_WG_KEY_BYTES, 0) != MK_WG_KEY_BYTES)
		return mk_error_errno(err, errno, "no random numbers for '%s'", path);
	return mk_file_replace(path, key, MK_WG_KEY_BYTES, 0600, err);
}

/* After a crash of the machine the file may be empty. */
int mk_wireguard_key(const char *state_dir, uint8_t private_key[MK_WG_KEY_BYTES],
		     struct mk_error *err)
{
	char path[PATH_MAX], *data = NULL;
	size_t size = 0;
	int ret = mk_state_path(state_dir, MK_WG_KEY_FILE, path, err);

	if (ret < 0)
		return ret;
	ret = mk_file_read(path, MK_WG_KEY_BYTES, &data, &size, err);
	if (ret == -ENOENT || (ret == 0 && size == 0)) {
		free(data);
		return make_key(path, private_key, err);
	}
	if (ret == 0 && size == MK_WG_KEY_BYTES)
		memcpy(private_key, data, MK_WG_KEY_BYTES);
	else if (ret == 0 || ret == -EFBIG)
		ret = mk_error_set(
			err, EINVAL,
			"'%s' is no WireGuard key of %d bytes: remove it, and the agent makes another one",
			path, MK_WG_KEY_BYTES);
	if (data)
		explicit_bzero(data, size);
	free(data);
	return ret;
}

bool mk_wireguard_has_address(const struct mk_ip *ip)
{
	struct mk_ip own;

	return mk_ip_parse(MK_WG_ADDRESS, &own) == 0 && mk_ip_equal(&own, ip);
}

/* ---- device ---------------------------------------------------------------------------------- */

static bool is_ours(const struct mk_link *link)
{
	return strcmp(link->kind, "wireguard") == 0 && strcmp(link->alias, ALIAS) == 0;
}

static int create(struct mk_nl *nl, uint32_t mtu_bytes, struct mk_link *link, struct mk_error *err)
{
	const struct mk_link_change mark = { .alias = ALIAS };
	int ret = mk_nl_wireguard_add(nl, MK_WG_NAME, mtu_bytes, err);

	ret = ret ?: mk_nl_link_get(nl, MK_WG_NAME, link, err);
	ret = ret ?: mk_nl_link_change(nl, link->ifindex, &mark, err);
	if (ret == 0)
		mk_log_info("WireGuard device created name=" MK_WG_NAME " mtu=%u", mtu_bytes);
	return ret;
}

/* Returns 1: it was created; 0: it exists. */
static int have_device(struct mk_nl *nl, uint32_t mtu_bytes, int before, struct mk_link *link,
		       struct mk_error *err)
{
	int ret = mk_nl_link_get(nl, MK_WG_NAME, link, err);

	if (ret == 0 && !is_ours(link))
		return mk_error_set(
			err, EEXIST,
			"interface '" MK_WG_NAME
			"' exists and is not the agent's (kind '%s', alias '%s'): rename or remove it, or set wireguardPort to 0",
			link->kind, link->alias);
	if (ret != -ENODEV)
		return ret;
	if (before)
		mk_log_warn("device was missing and is made again name=" MK_WG_NAME);
	return create(nl, mtu_bytes, link, err) ?: 1;
}

/* Returns 1 if an existing device was not as it has to be. */
static int adjust_link(struct mk_nl *nl, const struct mk_link *link, bool fresh, uint32_t mtu_bytes,
		       struct mk_error *err)
{
	const struct mk_link_change change = {
		.set_flags = IFF_UP & ~link->flags,
		.mtu_bytes = link->mtu_bytes == mtu_bytes ? 0 : mtu_bytes,
	};
	int ret;

	if (!change.set_flags && !change.mtu_bytes)
		return 0;
	ret = mk_nl_link_change(nl, link->ifindex, &change, err);
	if (ret < 0 || fresh)
		return ret;
	mk_log_warn("device had wrong properties and is corrected name=" MK_WG_NAME
		    " what=\"%s%s\"",
		    change.set_flags ? "was down, " : "", change.mtu_bytes ? "other MTU, " : "");
	return 1;
}

/* The kernel fixes bits of a private key, so it shows another one than it got. */
static bool has_key(const struct mk_wg_device *device, const uint8_t wanted[MK_WG_KEY_BYTES])
{
	uint8_t key[MK_WG_KEY_BYTES];
	bool same;

	memcpy(key, wanted, sizeof(key));
	key[0] &= 248;
	key[31] = (key[31] & 127) | 64;
	same = memcmp(device->private_key, key, sizeof(key)) == 0;
	explicit_bzero(key, sizeof(key));
	return same;
}

/* Returns 1 if an existing device had another key or port. */
static int adjust_key(const struct mk_link *link, bool fresh,
		      const struct mk_wireguard_wanted *wanted, uint8_t public_key[MK_WG_KEY_BYTES],
		      struct mk_error *err)
{
	struct mk_wg_device device;
	int ret = mk_wg_device_get(link->ifindex, &device, err);
	bool right =
		ret == 0 && device.port == wanted->port && has_key(&device, wanted->private_key);

	if (ret == 0 && !right) {
		mk_wg_device_release(&device);
		ret = mk_wg_device_set(link->ifindex, wanted->private_key, wanted->port, err);
		ret = ret ?: mk_wg_device_get(link->ifindex, &device, err);
	}
	if (ret < 0)
		return ret;
	memcpy(public_key, device.public_key, MK_WG_KEY_BYTES);
	mk_wg_device_release(&device);
	if (right || fresh)
		return 0;
	mk_log_warn("device had wrong properties and is corrected name=" MK_WG_NAME
		    " what=\"key or UDP port\"");
	return 1;
}

static int ensure(struct mk_nl *nl, const struct mk_wireguard_wanted *wanted, uint32_t mtu_bytes,
		  struct mk_devices *devices, struct mk_error *err)
{
	struct mk_link link;
	int fresh = have_device(nl, mtu_bytes, devices->wg_ifindex, &link, err), adjusted, ret;

	if (fresh < 0)
		return fresh;
	ret = adjust_key(&link, fresh, wanted, devices->wg_public_key, err);
	adjusted = ret < 0 ? ret : adjust_link(nl, &link, fresh, mtu_bytes, err);
	if (adjusted < 0)
		return adjusted;
	devices->wg_ifindex = link.ifindex;
	return fresh || ret || adjusted;
}

/* A kernel without WireGuard is no fault of the node: it has no device, and sends nothing. */
int wireguard_ensure(struct mk_nl *nl, const struct mk_wireguard_wanted *wanted, uint32_t mtu_bytes,
		     struct mk_devices *devices, struct mk_error *err)
{
	int ret = ensure(nl, wanted, mtu_bytes, devices, err);

	if (ret >= 0)
		devices->wg_lacks_kernel = false;
	if (ret != -EOPNOTSUPP)
		return ret;
	if (!devices->wg_lacks_kernel)
		mk_log_warn(
			"this kernel has no WireGuard: load or install its module 'wireguard'; nothing is sent to clusters with encryption: WireGuard, and the overlay is not encrypted");
	devices->wg_lacks_kernel = true;
	devices->wg_ifindex = 0;
	return 0;
}

int wireguard_remove(struct mk_nl *nl, unsigned int *removed, struct mk_error *err)
{
	struct mk_link link;
	int ret = mk_nl_link_get(nl, MK_WG_NAME, &link, err);

	if (ret == -ENODEV || (ret == 0 && !is_ours(&link)))
		return 0;
	ret = ret ?: mk_nl_link_delete(nl, MK_WG_NAME, err);
	if (ret == 0)
		++*removed;
	return ret;
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* A key that comes twice is that of the lowest address. */
static int compare_peers(const void *left, const void *right)
{
	const struct mk_wg_peer *a = left, *b = right;
	int order = mk_wg_peer_compare(a, b);

	return order ? order : mk_ip_compare(&a->carrier, &b->carrier);
}

/* @list is sorted by key. */
static const struct mk_wg_peer *find(const struct mk_wg_peer *list, size_t count,
				     const struct mk_wg_peer *peer)
{
	return mk_find(peer, list, count, mk_wg_peer_compare);
}

static bool has_carrier(const struct mk_wg_peer *found, const struct mk_wg_peer *wanted)
{
	return found && !found->is_odd && mk_ip_equal(&found->carrier, &wanted->carrier);
}

static bool has_keepalive(const struct mk_wg_peer *found, const struct mk_wg_peer *wanted)
{
	return found->keepalive_s == wanted->keepalive_s;
}

/* A node that roams begins by itself, so the kernel has learnt its endpoint, or soon does. */
static bool keeps_endpoint(const struct mk_wg_peer *found, const struct mk_wg_peer *wanted)
{
	return found && wanted->roams && found->endpoint.family != AF_UNSPEC;
}

static bool has_endpoint(const struct mk_wg_peer *found, const struct mk_wg_peer *wanted)
{
	return keeps_endpoint(found, wanted) ||
	       (mk_ip_equal(&found->endpoint, &wanted->endpoint) && found->port == wanted->port);
}

bool wireguard_change(const struct mk_wg_peer *found, const struct mk_wg_peer *wanted,
		      struct mk_wg_peer *put)
{
	*put = *wanted;
	if (keeps_endpoint(found, wanted))
		put->endpoint = (struct mk_ip){ .family = AF_UNSPEC };
	return !has_carrier(found, wanted) || !has_endpoint(found, wanted) ||
	       !has_keepalive(found, wanted);
}

/* The kernel itself changes an endpoint when the node sends from elsewhere: no line for that. */
static void say_repaired(struct mk_overlay *overlay, const struct mk_wg_peer *found,
			 const struct mk_wg_peer *peer)
{
	char text[MK_IP_STRLEN];

	if (overlay->entries_changed || has_carrier(found, peer))
		return;
	overlay->repairs.neighbours++;
	mk_log_warn("WireGuard peer was missing or altered and is put back address=%s",
		    mk_ip_format(&peer->carrier, text));
}

/* Unwanted peers go first: a wanted one may have the address of such a peer. */
static int sync_peers(struct mk_overlay *overlay, const struct mk_wg_device *device, bool is_all,
		      unsigned int *changes, struct mk_error *err)
{
	int ifindex = overlay->devices.wg_ifindex, ret = 0;

	for (size_t i = 0; is_all && ret == 0 && i < device->peer_count; i++) {
		if (find(overlay->wg_peers, overlay->wg_peer_count, &device->peers[i]))
			continue;
		++*changes;
		ret = mk_wg_peer_delete(ifindex, device->peers[i].public_key, err);
	}
	for (size_t i = 0; ret == 0 && i < overlay->wg_peer_count; i++) {
		const struct mk_wg_peer *wanted = &overlay->wg_peers[i];
		const struct mk_wg_peer *found = find(device->peers, device->peer_count, wanted);
		struct mk_wg_peer put;

		if (!wireguard_change(found, wanted, &put))
			continue;
		++*changes;
		ret = mk_wg_peer_put(ifindex, &put, err);
		if (ret == 0)
			say_repaired(overlay, found, wanted);
	}
	return ret;
}

static void note_handshakes(struct mk_overlay *overlay, const struct mk_wg_device *device)
{
	for (size_t i = 0; i < overlay->tunnel_count; i++) {
		struct mk_wg_peer *tunnel = &overlay->tunnels[i];
		const struct mk_wg_peer *found = find(device->peers, device->peer_count, tunnel);

		tunnel->handshake_unix_s = found ? found->handshake_unix_s : 0;
	}
}

/* The kernel ignores a peer with the device's own key. `monokube check` reports such nodes. */
static bool has_own_key(const struct mk_overlay *overlay, const struct mk_overlay_peer *node)
{
	return memcmp(node->wireguard.key, overlay->devices.wg_public_key, MK_WG_KEY_BYTES) == 0;
}

/* A node of this cluster. Until the first handshake the kernel tries one every ten seconds. */
static void want_node(struct mk_overlay *overlay, const struct mk_wg_device *device,
		      const struct mk_overlay_peer *node)
{
	struct mk_wg_peer *peer = &overlay->wg_peers[overlay->wg_peer_count];
	const struct mk_wg_peer *found;

	if (!node->wireguard.port || node->underlay.family != AF_INET || has_own_key(overlay, node))
		return;
	*peer = (struct mk_wg_peer){ .endpoint = node->underlay,
				     .port = node->wireguard.port,
				     .carrier = node->underlay };
	memcpy(peer->public_key, node->wireguard.key, sizeof(peer->public_key));
	found = find(device->peers, device->peer_count, peer);
	peer->handshake_unix_s = found ? found->handshake_unix_s : 0;
	if (overlay->devices.encryption != MK_ENCRYPTION_NONE && !peer->handshake_unix_s)
		peer->keepalive_s = FIRST_KEEPALIVE_S;
	overlay->wg_peer_count++;
}

/* Both families have the same nodes. A key that two nodes publish is that of the lower address. */
static void sort_peers(struct mk_overlay *overlay)
{
	struct mk_wg_peer *peers = overlay->wg_peers;
	size_t kept = 0;

	if (overlay->wg_peer_count)
		qsort(peers, overlay->wg_peer_count, sizeof(*peers), compare_peers);
	for (size_t i = 0; i < overlay->wg_peer_count; i++)
		if (!kept || mk_wg_peer_compare(&peers[kept - 1], &peers[i]) != 0)
			peers[kept++] = peers[i];
	overlay->wg_peer_count = kept;
}

/* List all peers: the nodes of this cluster and those of other ones. */
static int want_peers(struct mk_overlay *overlay, const struct mk_wg_device *device,
		      struct mk_error *err)
{
	const struct overlay_family *families = overlay->families;
	size_t most = overlay->tunnel_count + families[0].peer_count + families[1].peer_count;
	struct mk_wg_peer *peers = calloc(most + 1, sizeof(*peers));

	if (!peers)
		return mk_error_errno(err, ENOMEM, "cannot keep the WireGuard peers");
	free(overlay->wg_peers);
	overlay->wg_peers = peers;
	overlay->wg_peer_count = overlay->tunnel_count;
	if (overlay->tunnel_count)
		memcpy(peers, overlay->tunnels, overlay->tunnel_count * sizeof(*peers));
	for (size_t i = 0; i < MK_FAMILIES; i++)
		for (size_t j = 0; j < families[i].peer_count; j++)
			want_node(overlay, device, &families[i].peers[j]);
	sort_peers(overlay);
	return 0;
}

const struct mk_wg_peer *wireguard_peer(const struct mk_overlay *overlay,
					const struct mk_overlay_peer *node)
{
	struct mk_wg_peer wanted;
	const struct mk_wg_peer *found;

	memcpy(wanted.public_key, node->wireguard.key, sizeof(wanted.public_key));
	found = node->wireguard.port ? find(overlay->wg_peers, overlay->wg_peer_count, &wanted)
				     : NULL;
	return found && mk_ip_equal(&found->carrier, &node->underlay) ? found : NULL;
}

int wireguard_sync(struct mk_overlay *overlay, bool complete, unsigned int *changes,
		   struct mk_error *err)
{
	bool is_all = complete && (overlay->clusters_known || !overlay->devices.wg_peer_ifindex);
	struct mk_wg_device device;
	int ret;

	if (!overlay->devices.wg_ifindex)
		return 0;
	ret = mk_wg_device_get(overlay->devices.wg_ifindex, &device, err);
	if (ret < 0)
		return ret;
	if (device.peer_count)
		qsort(device.peers, device.peer_count, sizeof(*device.peers), mk_wg_peer_compare);
	note_handshakes(overlay, &device);
	ret = want_peers(overlay, &device, err);
	ret = ret ?: sync_peers(overlay, &device, is_all, changes, err);
	mk_wg_device_release(&device);
	return ret;
}

static bool same_tunnels(const struct mk_overlay *overlay, const struct mk_wg_peer *peers,
			 size_t count)
{
	const struct mk_wg_peer *had = overlay->tunnels;

	if (overlay->tunnel_count != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (memcmp(had[i].public_key, peers[i].public_key, MK_WG_KEY_BYTES) != 0 ||
		    !mk_ip_equal(&had[i].endpoint, &peers[i].endpoint) ||
		    !mk_ip_equal(&had[i].carrier, &peers[i].carrier) ||
		    had[i].port != peers[i].port || had[i].cluster != peers[i].cluster ||
		    had[i].roams != peers[i].roams || had[i].keepalive_s != peers[i].keepalive_s)
			return false;
	return true;
}

int mk_overlay_set_tunnels(struct mk_overlay *overlay, const struct mk_wg_peer *peers, size_t count,
			   struct mk_error *err)
{
	struct mk_wg_peer *copy;

	if (same_tunnels(overlay, peers, count))
		return 0;
	copy = calloc(count + 1, sizeof(*copy));
	if (!copy)
		return mk_error_errno(err, ENOMEM, "cannot keep the WireGuard peers");
	if (count)
		memcpy(copy, peers, count * sizeof(*copy));
	free(overlay->tunnels);
	overlay->tunnels = copy;
	overlay->tunnel_count = count;
	overlay_changed(overlay);
	return 0;
}

struct mk_overlay_handshakes mk_overlay_handshakes(const struct mk_overlay *overlay,
						   uint32_t cluster)
{
	struct mk_overlay_handshakes seen = { 0 };

	for (size_t i = 0; i < overlay->tunnel_count; i++) {
		const struct mk_wg_peer *tunnel = &overlay->tunnels[i];

		if (tunnel->cluster != cluster)
			continue;
		seen.nodes++;
		if (tunnel->handshake_unix_s > seen.last_unix_s)
			seen.last_unix_s = tunnel->handshake_unix_s;
	}
	return seen;
}

size_t mk_overlay_silent_tunnels(const struct mk_overlay *overlay, int64_t since_unix_s)
{
	size_t count = 0;

	for (size_t i = 0; i < overlay->tunnel_count; i++)
		count += overlay->tunnels[i].handshake_unix_s < since_unix_s;
	return count;
}

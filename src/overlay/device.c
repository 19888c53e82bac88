// SPDX-License-Identifier: Apache-2.0
#include "overlay/device.h"

#include <linux/if_addr.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "config/config.h"
#include "host/sysctl.h"
#include "monokube/clusters.h"
#include "monokube/sfc.h"
#include "overlay/overlay_internal.h"

/* ---- MTU ------------------------------------------------------------------------------------- */

int mk_overlay_mtu(const struct mk_overlay_path *path, uint32_t *mtu_bytes, struct mk_error *err)
{
	uint32_t overhead = mk_overlay_overhead_bytes(path->underlay, path->is_encrypted);
	uint32_t uplink = path->uplink_mtu_bytes;

	*mtu_bytes = uplink > overhead ? uplink - overhead : uplink;
	if (path->configured_bytes)
		*mtu_bytes = path->configured_bytes;
	if (!path->ipv6 || *mtu_bytes >= MK_IPV6_MTU_MIN_BYTES)
		return 0;
	if (path->configured_bytes)
		return mk_error_set(err, EINVAL,
				    "mtu %u is too small: pods of IPv6 need at least %u",
				    *mtu_bytes, MK_IPV6_MTU_MIN_BYTES);
	return mk_error_set(
		err, EINVAL,
		"MTU %u of uplink '%s' is too small: pods of IPv6 need at least %u (%u, and %u for VXLAN%s)",
		uplink, path->uplink_name, MK_IPV6_MTU_MIN_BYTES + overhead, MK_IPV6_MTU_MIN_BYTES,
		overhead, path->is_encrypted ? " and WireGuard" : "");
}

/* ---- properties ------------------------------------------------------------------------------ */

static bool mac_equal(const struct mk_mac *a, const struct mk_mac *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static void say_adjusted(const struct mk_link *link, const struct mk_link_change *change)
{
	mk_log_warn("device had wrong properties and is corrected name=%s what=\"%s%s%s%s\"",
		    link->name, change->set_flags & IFF_UP ? "was down, " : "",
		    change->set_flags & IFF_NOARP ? "asked by ARP, " : "",
		    change->mtu_bytes ? "other MTU, " : "", change->mac ? "other MAC, " : "");
}

/* Call only for a device that this agent had before. */
static void say_missing(const char *name)
{
	mk_log_warn("device was missing and is made again name=%s", name);
}

/* Set the device up, with this MTU and MAC; changes only what differs. @fresh: just created, so it
 * is down without a fault. Returns 1 if an existing device differed. */
static int adjust(struct mk_nl *nl, const struct mk_link *link, bool fresh,
		  const struct mk_mac *mac, uint32_t mtu_bytes, uint32_t flags,
		  struct mk_error *err)
{
	struct mk_link_change change = { .set_flags = flags & ~link->flags };
	int ret;

	if (link->mtu_bytes != mtu_bytes)
		change.mtu_bytes = mtu_bytes;
	if (!mac_equal(&link->mac, mac))
		change.mac = mac;
	if (!change.set_flags && !change.mtu_bytes && !change.mac)
		return 0;
	ret = mk_nl_link_change(nl, link->ifindex, &change, err);
	if (ret < 0 || fresh)
		return ret;
	say_adjusted(link, &change);
	return 1;
}

/* An MTU below IPv6's minimum has taken IPv6 off the device: correct the MTU first. */
static int regain_ipv6(struct mk_nl *nl, struct mk_link *link, uint32_t mtu_bytes,
		       struct mk_error *err)
{
	const struct mk_link_change change = { .mtu_bytes = mtu_bytes };
	int ret = mk_nl_link_change(nl, link->ifindex, &change, err);

	ret = ret ?: mk_nl_link_get_index(nl, link->ifindex, link, err);
	if (ret < 0)
		return ret;
	if (!link->ipv6.exists)
		return mk_error_set(err, EAFNOSUPPORT,
				    "interface '%s' has no IPv6: this kernel runs without it",
				    link->name);
	say_adjusted(link, &change);
	return 1;
}

/* Have IPv6 on @link before it goes up, without an address that the kernel makes. Returns 1 if an
 * existing device lacked something. */
static int have_ipv6(struct mk_nl *nl, struct mk_link *link, bool fresh, uint32_t mtu_bytes,
		     struct mk_error *err)
{
	const struct mk_link_change quiet = { .no_link_local = true };
	int lost = link->ipv6.exists ? 0 : regain_ipv6(nl, link, mtu_bytes, err), ret = 0;
	bool was_quiet = link->ipv6.no_link_local;

	if (lost < 0)
		return lost;
	if (!was_quiet)
		ret = mk_nl_link_change(nl, link->ifindex, &quiet, err);
	if (ret == 0)
		ret = mk_sysctls_ipv6_device(link->name, !fresh && !lost, err);
	return ret < 0 ? ret : !fresh && (lost || !was_quiet || ret > 0);
}

/* ---- addresses ------------------------------------------------------------------------------- */

struct stale {
	const struct mk_nl_addr *wanted;
	struct mk_cidr found[8]; /* enough: more are not added at once */
	size_t count;
	bool has_wanted;
};

static int visit_addr(void *ctx, const struct mk_nl_addr *addr)
{
	struct stale *stale = ctx;

	if (addr->ifindex != stale->wanted->ifindex)
		return 0;
	if (mk_cidr_equal(&addr->cidr, &stale->wanted->cidr))
		stale->has_wanted = (addr->flags & stale->wanted->flags) == stale->wanted->flags;
	else if (stale->count < MK_ARRAY_SIZE(stale->found))
		stale->found[stale->count++] = addr->cidr;
	return 0;
}

/* The kernel sends an IPv6 address no probe, and never chooses it as the source of the host's
 * packets by itself. */
static struct mk_nl_addr address_of(const struct mk_link *link, const struct mk_ip *ip)
{
	return (struct mk_nl_addr){
		.ifindex = link->ifindex,
		.cidr = { .ip = *ip, .prefix_bits = (uint8_t)mk_ip_bits(ip->family) },
		.flags = ip->family == AF_INET6 ? IFA_F_NODAD | IFA_F_DEPRECATED : 0,
	};
}

/* Make @ip the only address of its family on @link. Returns 1 if @ip was missing on a
 * device that is not @fresh. */
static int ensure_address(struct mk_nl *nl, const struct mk_link *link, bool fresh,
			  const struct mk_ip *ip, struct mk_error *err)
{
	const struct mk_nl_addr wanted = address_of(link, ip);
	struct stale stale = { .wanted = &wanted };
	char text[MK_IP_STRLEN];
	int ret = mk_nl_each_addr(nl, ip->family, visit_addr, &stale, err);

	if (ret == 0 && !stale.has_wanted)
		ret = mk_nl_addr_add(nl, &wanted, err);
	for (size_t i = 0; ret == 0 && i < stale.count; i++)
		ret = mk_nl_addr_delete(nl, link->ifindex, &stale.found[i], err);
	if (ret < 0 || fresh || stale.has_wanted)
		return ret;
	mk_log_warn("address of a device was missing and is back name=%s address=%s", link->name,
		    mk_ip_format(ip, text));
	return 1;
}

/* The addresses that a device has in each family. */
struct device_ips {
	const struct mk_ip *of[MK_FAMILIES]; /* AF_UNSPEC: none */
};

static bool has_ipv6(const struct mk_device_wanted *wanted)
{
	return wanted->addresses[mk_family_index(AF_INET6)].vtep.family == AF_INET6;
}

/* Both families have the same MAC addresses. */
static const struct mk_addresses *macs_of(const struct mk_device_wanted *wanted)
{
	bool v4 = wanted->addresses[mk_family_index(AF_INET)].vtep.family == AF_INET;

	return &wanted->addresses[mk_family_index(v4 ? AF_INET : AF_INET6)];
}

static bool is_new(const struct mk_devices *devices, unsigned int family_index)
{
	return !(devices->families & 1U << family_index);
}

/* Returns how many were missing. */
static int ensure_addresses(struct mk_nl *nl, const struct mk_devices *devices,
			    const struct mk_link *link, bool fresh, const struct device_ips *ips,
			    struct mk_error *err)
{
	int missing = 0;

	for (unsigned int i = 0; i < MK_FAMILIES; i++) {
		int ret = 0;

		if (ips->of[i]->family != AF_UNSPEC)
			ret = ensure_address(nl, link, fresh || is_new(devices, i), ips->of[i],
					     err);
		if (ret < 0)
			return ret;
		missing += ret;
	}
	return missing;
}

/* ---- VXLAN ----------------------------------------------------------------------------------- */

/* One of the devices. */
struct vxlan {
	const char *name, *setting; /* `setting` names the device */
	uint32_t id;
	bool dont_fragment;
	int made_on; /* ifindex of the uplink for which this agent has made it; 0: it has not */
};

/* Returns what differs and cannot be changed on an existing device; NULL: nothing. */
static const char *vxlan_difference(const struct mk_link *link, const struct vxlan *vxlan,
				    const struct mk_device_wanted *wanted)
{
	if (strcmp(link->kind, "vxlan") != 0)
		return "kind";
	if (link->vxlan_id != vxlan->id)
		return "VNI";
	if (link->vxlan_port != wanted->vxlan_port)
		return "port";
	if (link->vxlan_learning)
		return "learning";
	if (link->vxlan_zero_checksums)
		return "zero checksums";
	if (!mk_ip_equal(&link->vxlan_local, &wanted->underlay))
		return "local address";
	if (link->peer_ifindex != wanted->uplink_ifindex)
		return "uplink";
	return NULL;
}

/* Is the device as this agent has left it, for the same uplink? Otherwise a difference is no fault:
 * the kernel removes the device with its uplink, and settings may have changed at a restart. */
static bool is_kept(const struct vxlan *vxlan, const struct mk_device_wanted *wanted)
{
	return vxlan->made_on == wanted->uplink_ifindex;
}

/* Returns 1: it exists and is right (or can be changed); 0: it does not exist; REPLACED: this agent
 * has deleted it, because it differed. */
#define REPLACED 2
static int adopt_vxlan(struct mk_nl *nl, const struct vxlan *vxlan,
		       const struct mk_device_wanted *wanted, struct mk_link *link,
		       struct mk_error *err)
{
	const char *difference;
	int ret = mk_nl_link_get(nl, vxlan->name, link, err);

	if (ret == -ENODEV)
		return 0;
	if (ret < 0)
		return ret;
	difference = vxlan_difference(link, vxlan, wanted);
	if (!difference)
		return 1;
	if (strcmp(link->kind, "vxlan") != 0)
		return mk_error_set(
			err, EEXIST,
			"interface '%s' exists and is no VXLAN device (kind '%s'): choose another %s",
			vxlan->name, link->kind, vxlan->setting);
	mk_log(is_kept(vxlan, wanted) ? MK_LOG_WARN : MK_LOG_INFO,
	       "VXLAN device is replaced: it differs name=%s difference=\"%s\"", vxlan->name,
	       difference);
	return mk_nl_link_delete(nl, vxlan->name, err) ?: REPLACED;
}

struct taken {
	const struct mk_vxlan *by;
	char name[IFNAMSIZ];
};

static int see_taken(void *ctx, const struct mk_link *link)
{
	struct taken *taken = ctx;

	if (strcmp(link->kind, "vxlan") == 0 && link->vxlan_id == taken->by->id &&
	    link->vxlan_port == taken->by->port)
		snprintf(taken->name, sizeof(taken->name), "%s", link->name);
	return 0;
}

/* Add the name of the device that has the VNI to the kernel's error. */
static int say_taken(struct mk_nl *nl, const struct mk_vxlan *device, struct mk_error *err)
{
	struct taken taken = { .by = device };

	if (mk_nl_each_link(nl, see_taken, &taken, NULL) < 0 || !*taken.name)
		return -EEXIST;
	return mk_error_set(
		err, EEXIST,
		"VXLAN device '%s' cannot be created, because device '%s' has VNI %u and port %u: delete that device if no other network needs it (ip link del %s), or set vxlanPort to another port on all nodes",
		device->name, taken.name, device->id, device->port, taken.name);
}

static int create_vxlan(struct mk_nl *nl, const struct vxlan *vxlan,
			const struct mk_device_wanted *wanted, struct mk_link *link,
			struct mk_error *err)
{
	struct mk_vxlan device = {
		.name = vxlan->name,
		.id = vxlan->id,
		.port = wanted->vxlan_port,
		.local = wanted->underlay,
		.dont_fragment = vxlan->dont_fragment,
		.uplink_ifindex = wanted->uplink_ifindex,
		.mac = macs_of(wanted)->vtep_mac,
		.mtu_bytes = wanted->mtu_bytes,
	};
	int ret = mk_nl_vxlan_add(nl, &device, err);

	if (ret == -EEXIST)
		return say_taken(nl, &device, err);
	if (ret < 0)
		return ret;
	mk_log_info("VXLAN device created name=%s vni=%u port=%u mtu=%u", device.name, device.id,
		    device.port, device.mtu_bytes);
	return mk_nl_link_get(nl, vxlan->name, link, err);
}

/* Have the device. Returns 1 if it was created. */
static int have_vxlan(struct mk_nl *nl, const struct vxlan *vxlan,
		      const struct mk_device_wanted *wanted, struct mk_link *link,
		      struct mk_error *err)
{
	int found = adopt_vxlan(nl, vxlan, wanted, link, err), ret;

	if (found < 0 || found == 1)
		return found < 0 ? found : 0;
	ret = create_vxlan(nl, vxlan, wanted, link, err);
	if (ret == 0 && found == 0 && is_kept(vxlan, wanted))
		say_missing(vxlan->name);
	return ret < 0 ? ret : 1;
}

/* With encryption: WireGuardOnly, no fragment of a carrier leaves: a later one would not show what
 * it is of. @fresh: just created. Returns 1 if an existing device differed. */
static int adjust_fragments(struct mk_nl *nl, const struct mk_link *link, uint32_t id, bool fresh,
			    const struct mk_device_wanted *wanted, struct mk_error *err)
{
	bool is_set = wanted->encryption == MK_ENCRYPTION_ONLY;
	int ret;

	if (link->vxlan_dont_fragment == is_set)
		return 0;
	ret = mk_nl_vxlan_dont_fragment(nl, link->ifindex, id, is_set, err);
	return ret < 0 || fresh ? ret : 1;
}

static int ensure_vxlan(struct mk_nl *nl, const struct mk_device_wanted *wanted,
			struct mk_devices *devices, struct mk_error *err)
{
	const struct device_ips ips = { { &wanted->addresses[0].vtep,
					  &wanted->addresses[1].vtep } };
	const struct vxlan vxlan = { wanted->vxlan_name, "vxlanIfaceName", MK_VXLAN_VNI, false,
				     devices->uplink_ifindex };
	struct mk_link link;
	int fresh = have_vxlan(nl, &vxlan, wanted, &link, err);
	int adjusted, lacked = 0, ret;

	if (fresh < 0)
		return fresh;
	devices->overlay_ifindex = link.ifindex;
	if (has_ipv6(wanted))
		lacked = have_ipv6(nl, &link, fresh || is_new(devices, mk_family_index(AF_INET6)),
				   wanted->mtu_bytes, err);
	if (lacked < 0)
		return lacked;
	adjusted = adjust(nl, &link, fresh, &macs_of(wanted)->vtep_mac, wanted->mtu_bytes, IFF_UP,
			  err);
	ret = adjusted < 0 ? adjusted : adjust_fragments(nl, &link, vxlan.id, fresh, wanted, err);
	if (ret < 0)
		return ret;
	adjusted |= ret;
	ret = ensure_addresses(nl, devices, &link, fresh, &ips, err);
	return ret < 0 ? ret : fresh || lacked || adjusted || ret;
}

/* Have a device without addresses: only programs send by it, to MAC addresses in its FDB. */
static int ensure_quiet(struct mk_nl *nl, const struct vxlan *vxlan,
			const struct mk_device_wanted *wanted, int *ifindex, struct mk_error *err)
{
	const struct mk_link_change quiet = { .no_link_local = true };
	struct mk_link link;
	int fresh = have_vxlan(nl, vxlan, wanted, &link, err), ret = 0;

	if (fresh < 0)
		return fresh;
	*ifindex = link.ifindex;
	if (link.ipv6.exists && !link.ipv6.no_link_local)
		ret = mk_nl_link_change(nl, link.ifindex, &quiet, err);
	if (ret == 0)
		ret = adjust(nl, &link, fresh, &macs_of(wanted)->vtep_mac, wanted->mtu_bytes,
			     IFF_UP | IFF_NOARP, err);
	return ret < 0 ? ret : fresh || ret;
}

/* Remove the device that an agent with clusterName has made. A device with another VNI is not
 * ours. */
static int remove_former(struct mk_nl *nl, const char *name, uint32_t id, int *ifindex,
			 struct mk_error *err)
{
	struct mk_link link;
	int ret;

	*ifindex = 0;
	if (!name)
		return 0;
	ret = mk_nl_link_get(nl, name, &link, err);
	if (ret == -ENODEV)
		return 0;
	if (ret < 0 || strcmp(link.kind, "vxlan") != 0 || link.vxlan_id != id)
		return ret < 0 ? ret : 0;
	mk_log_info("VXLAN device of other clusters is removed: clusterName is not set name=%s",
		    name);
	return mk_nl_link_delete(nl, name, err);
}

static int ensure_chains(struct mk_nl *nl, const struct mk_device_wanted *wanted,
			 struct mk_devices *devices, struct mk_error *err)
{
	const struct vxlan vxlan = { wanted->sfc_name, "sfcIfaceName", MK_SFC_VNI, false,
				     devices->uplink_ifindex };
	int right = ensure_quiet(nl, &vxlan, wanted, &devices->sfc_ifindex, err);
	struct mk_link link;
	int ret = right < 0 ? right : mk_nl_link_get_index(nl, devices->sfc_ifindex, &link, err);

	ret = ret ?: adjust_fragments(nl, &link, vxlan.id, right, wanted, err);
	return ret < 0 ? ret : right || ret;
}

static int ensure_clusters(struct mk_nl *nl, const struct mk_device_wanted *wanted,
			   struct mk_devices *devices, struct mk_error *err)
{
	const struct vxlan vxlan = { wanted->peer_name, "peerIfaceName", MK_CLUSTER_VNI, false,
				     devices->uplink_ifindex };

	return wanted->peer_name ? ensure_quiet(nl, &vxlan, wanted, &devices->cluster_ifindex, err)
				 : remove_former(nl, wanted->former_peer_name, MK_CLUSTER_VNI,
						 &devices->cluster_ifindex, err);
}

/* Both devices go with WireGuard's. */
static int forget_encrypted(struct mk_nl *nl, struct mk_devices *devices, struct mk_error *err)
{
	unsigned int removed = 0;
	int ret = wireguard_remove(nl, &removed, err);

	if (removed)
		mk_log_info(
			"WireGuard device is removed: it is not wanted any more name=" MK_WG_NAME);
	devices->wg_ifindex = devices->wg_peer_ifindex = 0;
	devices->wg_lacks_kernel = false;
	return ret;
}

/* The kernel takes no packet from a device without an address, if it checks sources (rp_filter). No
 * packet has this one. */
static int ensure_wireguard_address(struct mk_nl *nl, int ifindex, bool fresh, struct mk_error *err)
{
	struct mk_ip ip;
	struct mk_link link;
	int ret = mk_nl_link_get_index(nl, ifindex, &link, err);

	if (ret == 0 && mk_ip_parse(MK_WG_ADDRESS, &ip) < 0)
		return mk_error_set(err, EINVAL, "address '%s' of '%s' makes no sense",
				    MK_WG_ADDRESS, link.name);
	return ret ?: ensure_address(nl, &link, fresh, &ip, err);
}

#define WG_MTU_BYTES 65000 /* with its outer headers, it fits an IPv4 packet */

/* The VXLAN device takes what the overlay takes: an IPv4 packet that may be fragmented may be
 * larger than the MTU. No carrier is fragmented before WireGuard has encrypted it. */
static int ensure_encrypted(struct mk_nl *nl, const struct mk_device_wanted *wanted,
			    struct mk_devices *devices, struct mk_error *err)
{
	const struct vxlan vxlan = { MK_WG_PEER_NAME, "wireguardPort", MK_CLUSTER_WG_VNI, true,
				     devices->wg_ifindex };
	struct mk_device_wanted inner = *wanted;
	int tunnel, ret;

	if (!wanted->wireguard)
		return forget_encrypted(nl, devices, err);
	tunnel = wireguard_ensure(nl, wanted->wireguard, WG_MTU_BYTES, devices, err);
	if (tunnel < 0 || !devices->wg_ifindex) {
		devices->wg_peer_ifindex = 0;
		return tunnel;
	}
	ret = ensure_wireguard_address(nl, devices->wg_ifindex, tunnel > 0, err);
	if (ret < 0)
		return ret;
	tunnel += ret;
	inner.uplink_ifindex = devices->wg_ifindex;
	ret = wanted->peer_name ? ensure_quiet(nl, &vxlan, &inner, &devices->wg_peer_ifindex, err)
				: remove_former(nl, MK_WG_PEER_NAME, MK_CLUSTER_WG_VNI,
						&devices->wg_peer_ifindex, err);
	return ret < 0 ? ret : tunnel + ret;
}

/* ---- host veth pair -------------------------------------------------------------------------- */

/* Returns 1: both ends exist and are a pair; 0: they do not exist (any more). */
static int adopt_veth(struct mk_nl *nl, struct mk_link *host, struct mk_link *peer,
		      struct mk_error *err)
{
	int ret = mk_nl_link_get(nl, MK_HOST_VETH, host, err);
	int peer_ret = mk_nl_link_get(nl, MK_HOST_PEER, peer, err);

	if (ret == -ENODEV && peer_ret == -ENODEV)
		return 0;
	if ((ret < 0 && ret != -ENODEV) || (peer_ret < 0 && peer_ret != -ENODEV))
		return ret < 0 && ret != -ENODEV ? ret : peer_ret;
	if (ret == 0 && peer_ret == 0 && strcmp(host->kind, "veth") == 0 &&
	    host->peer_ifindex == peer->ifindex)
		return 1;
	mk_log_warn("host veth pair is replaced: '%s' and '%s' are no pair", MK_HOST_VETH,
		    MK_HOST_PEER);
	ret = mk_nl_link_delete(nl, MK_HOST_VETH, err);
	return ret ?: mk_nl_link_delete(nl, MK_HOST_PEER, err);
}

static int create_veth(struct mk_nl *nl, const struct mk_device_wanted *wanted,
		       struct mk_link *host, struct mk_link *peer, struct mk_error *err)
{
	struct mk_veth veth = {
		.name = MK_HOST_VETH,
		.mac = macs_of(wanted)->gateway_mac,
		.peer_name = MK_HOST_PEER,
		.peer_mac = macs_of(wanted)->gateway_mac,
		.peer_netns_fd = -1,
		.mtu_bytes = wanted->mtu_bytes,
	};
	int ret = mk_nl_veth_add(nl, &veth, err);

	if (ret < 0)
		return ret;
	mk_log_info("host veth pair created name=%s peer=%s mtu=%u", MK_HOST_VETH, MK_HOST_PEER,
		    veth.mtu_bytes);
	ret = mk_nl_link_get(nl, MK_HOST_VETH, host, err);
	return ret < 0 ? ret : mk_nl_link_get(nl, MK_HOST_PEER, peer, err);
}

static int ensure_veth(struct mk_nl *nl, const struct mk_device_wanted *wanted,
		       struct mk_devices *devices, struct mk_error *err)
{
	const struct device_ips ips = { { &wanted->addresses[0].gateway,
					  &wanted->addresses[1].gateway } };
	const struct mk_mac *mac = &macs_of(wanted)->gateway_mac;
	struct mk_link host, peer;
	int changed, lacked = 0, ret = adopt_veth(nl, &host, &peer, err);
	bool fresh = ret == 0;

	if (fresh && devices->host_ifindex)
		say_missing(MK_HOST_VETH);
	if (fresh)
		ret = create_veth(nl, wanted, &host, &peer, err);
	if (ret < 0)
		return ret;
	devices->host_ifindex = host.ifindex;
	devices->host_peer_ifindex = peer.ifindex;
	if (has_ipv6(wanted))
		lacked = have_ipv6(nl, &host, fresh || is_new(devices, mk_family_index(AF_INET6)),
				   wanted->mtu_bytes, err);
	if (lacked < 0)
		return lacked;
	/* no ARP on the host's end: every packet for a Service goes to the MAC of the other
	 * end, which both ends share */
	ret = adjust(nl, &host, fresh, mac, wanted->mtu_bytes, IFF_UP | IFF_NOARP, err);
	changed = fresh || lacked || ret > 0;
	/* this end receives packets as large as on the loopback device: before Linux 5.12 a
	 * redirect checks the MTU. Nothing leaves by this end. */
	if (ret >= 0)
		ret = adjust(nl, &peer, fresh, mac, MK_HOST_PEER_MTU_BYTES, IFF_UP, err);
	changed |= ret > 0;
	if (ret >= 0)
		ret = ensure_addresses(nl, devices, &host, fresh, &ips, err);
	return ret < 0 ? ret : changed || ret;
}

int mk_devices_ensure(struct mk_nl *nl, const struct mk_device_wanted *wanted,
		      struct mk_devices *devices, struct mk_error *err)
{
	int veth = ensure_veth(nl, wanted, devices, err), vxlan, sfc, clusters, encrypted;

	if (veth < 0)
		return veth;
	vxlan = ensure_vxlan(nl, wanted, devices, err);
	if (vxlan < 0)
		return vxlan;
	sfc = ensure_chains(nl, wanted, devices, err);
	if (sfc < 0)
		return sfc;
	clusters = ensure_clusters(nl, wanted, devices, err);
	if (clusters < 0)
		return clusters;
	encrypted = ensure_encrypted(nl, wanted, devices, err);
	if (encrypted < 0)
		return encrypted;
	devices->vxlan_port = wanted->vxlan_port;
	devices->encryption = wanted->encryption;
	devices->uplink_ifindex = wanted->uplink_ifindex;
	devices->families = 0;
	for (unsigned int i = 0; i < MK_FAMILIES; i++)
		if (wanted->addresses[i].vtep.family != AF_UNSPEC)
			devices->families |= 1U << i;
	return veth + vxlan + sfc + clusters + encrypted;
}

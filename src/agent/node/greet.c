// SPDX-License-Identifier: Apache-2.0
/* Setting routing, over IPv6: make new uplinks known to the other nodes on their links. Packets
 * of pods make the kernel ask for the MAC address of another node, but with the uplink's link-local
 * address as source (ndisc_solicit() in net/ipv6/ndisc.c). The other node then goes on with the old
 * MAC address of this node's InternalIP, and drops direct packets from the new one. So the first
 * packet by a new uplink is one from the InternalIP. For it, the kernel asks with this address, and
 * the other node takes the new MAC address from the question (RFC 4861, section 7.2.3). */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/log.h"

static bool is_greeted(const struct mk_own_family *own, int ifindex)
{
	for (size_t i = 0; i < MK_UPLINKS_MAX; i++)
		if (own->greeted[i] == ifindex)
			return true;
	return false;
}

static const struct mk_own_uplink *uplink_by(const struct mk_own_uplinks *uplinks, int ifindex)
{
	for (size_t i = 0; i < uplinks->count; i++)
		if (uplinks->uplink[i].link.ifindex == ifindex)
			return &uplinks->uplink[i];
	return NULL;
}

/* An empty datagram to the port of the overlay: the kernel there ignores it. */
static int greet(int fd, const struct mk_overlay_peer *peer, const struct mk_ip *from,
		 uint16_t vxlan_port)
{
	const struct in6_pktinfo by = { .ipi6_addr = from->v6,
					.ipi6_ifindex = (unsigned int)peer->link_ifindex };
	struct sockaddr_in6 to = { .sin6_family = AF_INET6,
				   .sin6_port = htons(vxlan_port),
				   .sin6_addr = peer->link_ip.v6 };
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(by))];
	} control = { .header = { .cmsg_level = IPPROTO_IPV6,
				  .cmsg_type = IPV6_PKTINFO,
				  .cmsg_len = CMSG_LEN(sizeof(by)) } };
	const struct msghdr message = { .msg_name = &to,
					.msg_namelen = sizeof(to),
					.msg_control = &control,
					.msg_controllen = sizeof(control.room) };

	memcpy(CMSG_DATA(&control.header), &by, sizeof(by));
	return sendmsg(fd, &message, MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Remember the uplinks whose nodes know them. Numbers of devices are not used again. */
static void remember_greeted(struct mk_own_family *own, const struct mk_own_uplinks *uplinks)
{
	memset(own->greeted, 0, sizeof(own->greeted));
	for (size_t i = 0; i < own->plan.peer_count; i++) {
		const struct mk_own_uplink *uplink =
			uplink_by(uplinks, own->plan.peers[i].link_ifindex);

		if (uplink)
			own->greeted[uplink - uplinks->uplink] = uplink->link.ifindex;
	}
}

void greet_links(struct mk_own_family *own)
{
	const struct mk_own_uplinks *uplinks = &own->node->uplinks;
	uint16_t port = own->family->core->config.vxlan_port;
	cleanup_close int fd = -1;

	for (size_t i = 0; i < own->plan.peer_count; i++) {
		const struct mk_overlay_peer *peer = &own->plan.peers[i];
		const struct mk_own_uplink *uplink = uplink_by(uplinks, peer->link_ifindex);
		int ret;

		if (!uplink || peer->link_ip.family != AF_INET6 ||
		    is_greeted(own, peer->link_ifindex))
			continue;
		if (fd < 0)
			fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		ret = fd < 0 ? -errno
			     : greet(fd, peer, &uplink->source[mk_family_index(AF_INET6)].addr.ip,
				     port);
		if (ret < 0)
			mk_log_warn(
				"cannot send node '%s' a packet by '%s': %s; if this device is new, that node may use the old MAC address for half a minute",
				peer->node, uplink->link.name, strerror(-ret));
	}
	remember_greeted(own, uplinks);
}

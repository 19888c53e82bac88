// SPDX-License-Identifier: Apache-2.0
/* Devices, by rtnetlink. */
#include "base/netlink/netlink.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <string.h>

#include "base/netlink/request.h"

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_set(const struct nlattr *attr)
{
	return attr && nla_get_u8(attr) != 0;
}

static void parse_vxlan(struct nlattr *data, struct mk_link *link)
{
	struct nlattr *attrs[NL_ATTRS];

	nl_nested(data, attrs);
	link->vxlan_id = nl_u32(attrs[IFLA_VXLAN_ID]);
	if (attrs[IFLA_VXLAN_PORT])
		link->vxlan_port = ntohs(nla_get_u16(attrs[IFLA_VXLAN_PORT]));
	/* the uplink; this kind has no IFLA_LINK */
	link->peer_ifindex = (int)nl_u32(attrs[IFLA_VXLAN_LINK]);
	link->vxlan_learning = is_set(attrs[IFLA_VXLAN_LEARNING]);
	link->vxlan_zero_checksums = is_set(attrs[IFLA_VXLAN_UDP_ZERO_CSUM6_TX]) ||
				     is_set(attrs[IFLA_VXLAN_UDP_ZERO_CSUM6_RX]);
	link->vxlan_dont_fragment =
		attrs[IFLA_VXLAN_DF] && nla_get_u8(attrs[IFLA_VXLAN_DF]) == VXLAN_DF_SET;
	if (!nl_ip(attrs[IFLA_VXLAN_LOCAL], &link->vxlan_local))
		nl_ip(attrs[IFLA_VXLAN_LOCAL6], &link->vxlan_local);
}

static void parse_traffic(struct nlattr *attr, struct mk_link_traffic *traffic)
{
	struct rtnl_link_stats64 stats;

	if (attr && nla_memcpy(&stats, attr, sizeof(stats)) >= (int)sizeof(*traffic))
		*traffic = (struct mk_link_traffic){ .rx_packets = stats.rx_packets,
						     .rx_bytes = stats.rx_bytes,
						     .tx_packets = stats.tx_packets,
						     .tx_bytes = stats.tx_bytes };
}

static void parse_ipv6(struct nlattr *families, struct mk_link_ipv6 *ipv6)
{
	struct nlattr *family[NL_ATTRS], *attrs[NL_ATTRS];
	int32_t conf[DEVCONF_DISABLE_IPV6 + 1] = { 0 };

	nl_nested(families, family);
	nl_nested(family[AF_INET6], attrs);
	ipv6->exists = attrs[IFLA_INET6_CONF] != NULL;
	ipv6->no_link_local = attrs[IFLA_INET6_ADDR_GEN_MODE] &&
			      nla_get_u8(attrs[IFLA_INET6_ADDR_GEN_MODE]) == IN6_ADDR_GEN_MODE_NONE;
	if (attrs[IFLA_INET6_CONF])
		nla_memcpy(conf, attrs[IFLA_INET6_CONF], sizeof(conf));
	ipv6->disabled = conf[DEVCONF_DISABLE_IPV6] != 0;
}

static int take_link(void *ctx, const void *reply, struct nlattr **attrs)
{
	const struct ifinfomsg *header = reply;
	struct nlattr *info[NL_ATTRS];
	struct mk_link *link = ctx;

	*link = (struct mk_link){
		.ifindex = header->ifi_index,
		.flags = header->ifi_flags,
		.type = header->ifi_type,
		.peer_ifindex = (int)nl_u32(attrs[IFLA_LINK]),
		.peer_netns = -1,
		.master_ifindex = (int)nl_u32(attrs[IFLA_MASTER]),
		.mtu_bytes = nl_u32(attrs[IFLA_MTU]),
	};
	if (attrs[IFLA_LINK_NETNSID])
		link->peer_netns = nla_get_s32(attrs[IFLA_LINK_NETNSID]);
	nl_text(attrs[IFLA_IFNAME], link->name, sizeof(link->name));
	nl_text(attrs[IFLA_IFALIAS], link->alias, sizeof(link->alias));
	nl_text(attrs[IFLA_QDISC], link->qdisc, sizeof(link->qdisc));
	nl_mac(attrs[IFLA_ADDRESS], &link->mac);
	parse_traffic(attrs[IFLA_STATS64], &link->traffic);
	parse_ipv6(attrs[IFLA_AF_SPEC], &link->ipv6);
	nl_nested(attrs[IFLA_LINKINFO], info);
	nl_text(info[IFLA_INFO_KIND], link->kind, sizeof(link->kind));
	nl_text(info[IFLA_INFO_SLAVE_KIND], link->master_kind, sizeof(link->master_kind));
	if (strcmp(link->kind, "vxlan") == 0)
		parse_vxlan(info[IFLA_INFO_DATA], link);
	return 0;
}

bool mk_nl_is_of_vrf(const struct mk_link *link)
{
	return strcmp(link->kind, "vrf") == 0 || strcmp(link->master_kind, "vrf") == 0;
}

/* Make a request for links; @mask: RTEXT_FILTER_*. */
static struct nl_msg *ask_link(int flags, int ifindex, uint32_t mask)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = ifindex };
	struct nl_msg *msg = nlmsg_new(RTM_GETLINK, flags, &header, sizeof(header));

	NL_PUT(msg, IFLA_EXT_MASK, uint32_t, mask);
	return msg;
}

static int get_link(struct mk_nl *nl, struct nl_msg *msg, struct mk_link *link,
		    struct mk_error *err)
{
	*link = (struct mk_link){ 0 };
	return nl_query(nl, msg, sizeof(struct ifinfomsg), take_link, link, err);
}

int mk_nl_link_get(struct mk_nl *nl, const char *name, struct mk_link *link, struct mk_error *err)
{
	struct nl_msg *msg = ask_link(0, 0, RTEXT_FILTER_SKIP_STATS);

	nl_put_text(msg, IFLA_IFNAME, name);
	return nl_wrap(get_link(nl, msg, link, err), err, "interface '%s'", name);
}

int mk_nl_link_get_index(struct mk_nl *nl, int ifindex, struct mk_link *link, struct mk_error *err)
{
	struct nl_msg *msg = ask_link(0, ifindex, RTEXT_FILTER_SKIP_STATS);

	return nl_wrap(get_link(nl, msg, link, err), err, "interface number %d", ifindex);
}

int mk_nl_link_traffic(struct mk_nl *nl, int ifindex, struct mk_link_traffic *traffic,
		       struct mk_error *err)
{
	struct mk_link link;
	int ret = get_link(nl, ask_link(0, ifindex, 0), &link, err);

	*traffic = link.traffic;
	return nl_wrap(ret, err, "interface number %d", ifindex);
}

struct link_walk {
	int (*visit)(void *ctx, const struct mk_link *link);
	void *ctx;
};

static int walk_link(void *ctx, const void *reply, struct nlattr **attrs)
{
	const struct link_walk *walk = ctx;
	struct mk_link link;

	(void)take_link(&link, reply, attrs);
	return walk->visit(walk->ctx, &link);
}

static int dump_links(struct mk_nl *nl, uint32_t mask,
		      int (*visit)(void *ctx, const struct mk_link *link), void *ctx,
		      struct mk_error *err)
{
	struct link_walk walk = { visit, ctx };

	return nl_query(nl, ask_link(NLM_F_DUMP, 0, mask), sizeof(struct ifinfomsg), walk_link,
			&walk, err);
}

int mk_nl_each_link(struct mk_nl *nl, int (*visit)(void *ctx, const struct mk_link *link),
		    void *ctx, struct mk_error *err)
{
	return dump_links(nl, RTEXT_FILTER_SKIP_STATS, visit, ctx, err);
}

int mk_nl_each_link_traffic(struct mk_nl *nl, int (*visit)(void *ctx, const struct mk_link *link),
			    void *ctx, struct mk_error *err)
{
	return dump_links(nl, 0, visit, ctx, err);
}

/* ---- creating -------------------------------------------------------------------------------- */

static struct nl_msg *new_link(void)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC };

	return nlmsg_new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
}

static void put_device(struct nl_msg *msg, const char *name, const struct mk_mac *mac,
		       uint32_t mtu_bytes)
{
	nl_put_text(msg, IFLA_IFNAME, name);
	nl_put_mac(msg, IFLA_ADDRESS, mac);
	if (mtu_bytes)
		NL_PUT(msg, IFLA_MTU, uint32_t, mtu_bytes);
}

/* Use one queue per direction. By default the kernel makes one per CPU, each with a
 * directory in sysfs. A veth does not need them: it sends without a queue lock and receives
 * on the sender's CPU. */
static void put_one_queue(struct nl_msg *msg)
{
	NL_PUT(msg, IFLA_NUM_TX_QUEUES, uint32_t, 1);
	NL_PUT(msg, IFLA_NUM_RX_QUEUES, uint32_t, 1);
}

/* The other end has the form of a separate link: fixed header, then attributes. */
static void put_veth_peer(struct nl_msg *msg, const struct mk_veth *veth)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
	struct nlattr *peer = nl_begin(msg, VETH_INFO_PEER);

	nl_append(msg, &header, sizeof(header));
	put_device(msg, veth->peer_name, &veth->peer_mac, veth->mtu_bytes);
	put_one_queue(msg);
	if (veth->peer_netns_fd >= 0)
		NL_PUT(msg, IFLA_NET_NS_FD, uint32_t, (uint32_t)veth->peer_netns_fd);
	nl_end(msg, peer);
}

int mk_nl_veth_add(struct mk_nl *nl, const struct mk_veth *veth, struct mk_error *err)
{
	struct nl_msg *msg = new_link();
	struct nlattr *info, *data;

	put_device(msg, veth->name, &veth->mac, veth->mtu_bytes);
	put_one_queue(msg);
	info = nl_begin(msg, IFLA_LINKINFO);
	nl_put_text(msg, IFLA_INFO_KIND, "veth");
	data = nl_begin(msg, IFLA_INFO_DATA);
	put_veth_peer(msg, veth);
	nl_end(msg, data);
	nl_end(msg, info);
	return nl_wrap(nl_request(nl, msg, err), err, "cannot create veth pair '%s' and '%s'",
		       veth->name, veth->peer_name);
}

int mk_nl_bridge_add(struct mk_nl *nl, const char *name, const struct mk_mac *mac,
		     struct mk_error *err)
{
	struct nl_msg *msg = new_link();
	struct nlattr *info, *data;

	put_device(msg, name, mac, 0);
	info = nl_begin(msg, IFLA_LINKINFO);
	nl_put_text(msg, IFLA_INFO_KIND, "bridge");
	data = nl_begin(msg, IFLA_INFO_DATA);
	NL_PUT(msg, IFLA_BR_STP_STATE, uint32_t, 0);
	NL_PUT(msg, IFLA_BR_MCAST_SNOOPING, uint8_t, 0);
	nl_end(msg, data);
	nl_end(msg, info);
	return nl_wrap(nl_request(nl, msg, err), err, "cannot create bridge '%s'", name);
}

int mk_nl_wireguard_add(struct mk_nl *nl, const char *name, uint32_t mtu_bytes,
			struct mk_error *err)
{
	struct nl_msg *msg = new_link();
	struct nlattr *info;

	nl_put_text(msg, IFLA_IFNAME, name);
	NL_PUT(msg, IFLA_MTU, uint32_t, mtu_bytes);
	info = nl_begin(msg, IFLA_LINKINFO);
	nl_put_text(msg, IFLA_INFO_KIND, "wireguard");
	nl_end(msg, info);
	return nl_wrap(nl_request(nl, msg, err), err, "cannot create WireGuard device '%s'", name);
}

int mk_nl_vxlan_add(struct mk_nl *nl, const struct mk_vxlan *vxlan, struct mk_error *err)
{
	struct nl_msg *msg = new_link();
	struct nlattr *info, *data;

	put_device(msg, vxlan->name, &vxlan->mac, vxlan->mtu_bytes);
	info = nl_begin(msg, IFLA_LINKINFO);
	nl_put_text(msg, IFLA_INFO_KIND, "vxlan");
	data = nl_begin(msg, IFLA_INFO_DATA);
	NL_PUT(msg, IFLA_VXLAN_ID, uint32_t, vxlan->id);
	NL_PUT(msg, IFLA_VXLAN_PORT, uint16_t, htons(vxlan->port));
	NL_PUT(msg, IFLA_VXLAN_LEARNING, uint8_t, 0);
	if (vxlan->dont_fragment)
		NL_PUT(msg, IFLA_VXLAN_DF, uint8_t, VXLAN_DF_SET);
	if (vxlan->uplink_ifindex)
		NL_PUT(msg, IFLA_VXLAN_LINK, uint32_t, (uint32_t)vxlan->uplink_ifindex);
	nl_put_ip(msg, vxlan->local.family == AF_INET ? IFLA_VXLAN_LOCAL : IFLA_VXLAN_LOCAL6,
		  &vxlan->local);
	nl_end(msg, data);
	nl_end(msg, info);
	return nl_wrap(nl_request(nl, msg, err), err,
		       "cannot create VXLAN device '%s' (VNI %u, port %u)", vxlan->name, vxlan->id,
		       vxlan->port);
}

/* The kernel wants to see the VNI again. */
int mk_nl_vxlan_dont_fragment(struct mk_nl *nl, int ifindex, uint32_t id, bool is_set,
			      struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = ifindex };
	struct nl_msg *msg = nlmsg_new(RTM_NEWLINK, 0, &header, sizeof(header));
	struct nlattr *info = nl_begin(msg, IFLA_LINKINFO), *data;

	nl_put_text(msg, IFLA_INFO_KIND, "vxlan");
	data = nl_begin(msg, IFLA_INFO_DATA);
	NL_PUT(msg, IFLA_VXLAN_ID, uint32_t, id);
	NL_PUT(msg, IFLA_VXLAN_DF, uint8_t, is_set ? VXLAN_DF_SET : VXLAN_DF_UNSET);
	nl_end(msg, data);
	nl_end(msg, info);
	return nl_wrap(nl_request(nl, msg, err), err,
		       "cannot change fragmentation of VXLAN device number %d", ifindex);
}

/* ---- changing, deleting ---------------------------------------------------------------------- */

static void put_no_link_local(struct nl_msg *msg)
{
	struct nlattr *families = nl_begin(msg, IFLA_AF_SPEC), *family = nl_begin(msg, AF_INET6);

	NL_PUT(msg, IFLA_INET6_ADDR_GEN_MODE, uint8_t, IN6_ADDR_GEN_MODE_NONE);
	nl_end(msg, family);
	nl_end(msg, families);
}

int mk_nl_link_change(struct mk_nl *nl, int ifindex, const struct mk_link_change *change,
		      struct mk_error *err)
{
	const struct ifinfomsg header = {
		.ifi_family = AF_UNSPEC,
		.ifi_index = ifindex,
		.ifi_flags = change->set_flags & ~change->clear_flags,
		.ifi_change = change->set_flags | change->clear_flags,
	};
	struct nl_msg *msg = nlmsg_new(RTM_NEWLINK, 0, &header, sizeof(header));

	if (change->name)
		nl_put_text(msg, IFLA_IFNAME, change->name);
	if (change->mtu_bytes)
		NL_PUT(msg, IFLA_MTU, uint32_t, change->mtu_bytes);
	if (change->master_ifindex)
		NL_PUT(msg, IFLA_MASTER, uint32_t, (uint32_t)change->master_ifindex);
	if (change->mac)
		nl_put_mac(msg, IFLA_ADDRESS, change->mac);
	if (change->alias && *change->alias)
		nl_put(msg, IFLA_IFALIAS, change->alias, strlen(change->alias));
	if (change->no_link_local)
		put_no_link_local(msg);
	return nl_wrap(nl_request(nl, msg, err), err, "cannot change interface number %d", ifindex);
}

int mk_nl_link_delete(struct mk_nl *nl, const char *name, struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
	struct nl_msg *msg = nlmsg_new(RTM_DELLINK, 0, &header, sizeof(header));
	int ret;

	nl_put_text(msg, IFLA_IFNAME, name);
	ret = nl_request(nl, msg, err);
	return ret == -ENODEV ? 0 : nl_wrap(ret, err, "cannot delete interface '%s'", name);
}

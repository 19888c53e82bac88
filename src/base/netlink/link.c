// SPDX-License-Identifier: Apache-2.0
#include "base/netlink/netlink.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <string.h>

#include "base/netlink/request.h"

/* ---- reading --------------------------------------------------------------------------------- */

static void parse_vxlan(struct nlattr *data, struct mk_link *link)
{
	struct nlattr *attrs[IFLA_VXLAN_MAX + 1];

	if (nla_parse_nested(attrs, IFLA_VXLAN_MAX, data, NULL) < 0)
		return;
	if (attrs[IFLA_VXLAN_ID])
		link->vxlan_id = nla_get_u32(attrs[IFLA_VXLAN_ID]);
	if (attrs[IFLA_VXLAN_PORT])
		link->vxlan_port = ntohs(nla_get_u16(attrs[IFLA_VXLAN_PORT]));
	if (attrs[IFLA_VXLAN_LINK]) /* the uplink; this kind has no IFLA_LINK */
		link->peer_ifindex = (int)nla_get_u32(attrs[IFLA_VXLAN_LINK]);
	if (attrs[IFLA_VXLAN_LEARNING])
		link->vxlan_learning = nla_get_u8(attrs[IFLA_VXLAN_LEARNING]) != 0;
	nla_get_ip(attrs[IFLA_VXLAN_LOCAL], &link->vxlan_local);
}

static void parse_link_info(struct nlattr *info, struct mk_link *link)
{
	struct nlattr *attrs[IFLA_INFO_MAX + 1];

	if (nla_parse_nested(attrs, IFLA_INFO_MAX, info, NULL) < 0 || !attrs[IFLA_INFO_KIND])
		return;
	nla_strlcpy(link->kind, attrs[IFLA_INFO_KIND], sizeof(link->kind));
	if (attrs[IFLA_INFO_DATA] && strcmp(link->kind, "vxlan") == 0)
		parse_vxlan(attrs[IFLA_INFO_DATA], link);
}

/* false: the message is not a link, or invalid. */
static bool parse_link(const struct nlmsghdr *reply, struct mk_link *link)
{
	struct nlattr *attrs[IFLA_MAX + 1];
	const struct ifinfomsg *header;

	*link = (struct mk_link){ .peer_netns = -1 };
	if (reply->nlmsg_type != RTM_NEWLINK)
		return false;
	if (nlmsg_parse((struct nlmsghdr *)reply, sizeof(*header), attrs, IFLA_MAX, NULL) < 0)
		return false;
	header = nlmsg_data(reply);
	link->ifindex = header->ifi_index;
	link->flags = header->ifi_flags;
	link->type = header->ifi_type;
	if (attrs[IFLA_IFNAME])
		nla_strlcpy(link->name, attrs[IFLA_IFNAME], sizeof(link->name));
	if (attrs[IFLA_IFALIAS])
		nla_strlcpy(link->alias, attrs[IFLA_IFALIAS], sizeof(link->alias));
	if (attrs[IFLA_QDISC])
		nla_strlcpy(link->qdisc, attrs[IFLA_QDISC], sizeof(link->qdisc));
	if (attrs[IFLA_LINK])
		link->peer_ifindex = (int)nla_get_u32(attrs[IFLA_LINK]);
	if (attrs[IFLA_LINK_NETNSID])
		link->peer_netns = nla_get_s32(attrs[IFLA_LINK_NETNSID]);
	if (attrs[IFLA_MASTER])
		link->master_ifindex = (int)nla_get_u32(attrs[IFLA_MASTER]);
	if (attrs[IFLA_MTU])
		link->mtu_bytes = nla_get_u32(attrs[IFLA_MTU]);
	nla_get_mac(attrs[IFLA_ADDRESS], &link->mac);
	if (attrs[IFLA_LINKINFO])
		parse_link_info(attrs[IFLA_LINKINFO], link);
	return true;
}

static int take_link(void *ctx, const struct nlmsghdr *reply)
{
	parse_link(reply, ctx);
	return 0;
}

static int get_link(struct mk_nl *nl, struct nl_msg *msg, struct mk_link *link,
		    struct mk_error *err)
{
	*link = (struct mk_link){ 0 };
	if (msg && nla_put_u32(msg, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0)
		return mk_error_errno(err, ENOMEM, "netlink request");
	return nl_query(nl, msg, take_link, link, err);
}

int mk_nl_link_get(struct mk_nl *nl, const char *name, struct mk_link *link, struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(RTM_GETLINK, 0, &header, sizeof(header));
	int ret = get_link(nl, msg && nla_put_string(msg, IFLA_IFNAME, name) == 0 ? msg : NULL,
			   link, err);

	return ret < 0 ? nl_wrap(ret, err, "interface '%s'", name) : 0;
}

int mk_nl_link_get_index(struct mk_nl *nl, int ifindex, struct mk_link *link, struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = ifindex };
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(RTM_GETLINK, 0, &header, sizeof(header));
	int ret = get_link(nl, msg, link, err);

	return ret < 0 ? nl_wrap(ret, err, "interface number %d", ifindex) : 0;
}

static int take_traffic(void *ctx, const struct nlmsghdr *reply)
{
	struct mk_link_traffic *traffic = ctx;
	struct nlattr *attrs[IFLA_MAX + 1];
	struct rtnl_link_stats64 stats;

	if (reply->nlmsg_type != RTM_NEWLINK ||
	    nlmsg_parse((struct nlmsghdr *)reply, sizeof(struct ifinfomsg), attrs, IFLA_MAX, NULL) <
		    0 ||
	    !attrs[IFLA_STATS64] ||
	    nla_memcpy(&stats, attrs[IFLA_STATS64], sizeof(stats)) < (int)sizeof(*traffic))
		return 0;
	*traffic = (struct mk_link_traffic){ .rx_packets = stats.rx_packets,
					     .rx_bytes = stats.rx_bytes,
					     .tx_packets = stats.tx_packets,
					     .tx_bytes = stats.tx_bytes };
	return 0;
}

int mk_nl_link_traffic(struct mk_nl *nl, int ifindex, struct mk_link_traffic *traffic,
		       struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC, .ifi_index = ifindex };
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(RTM_GETLINK, 0, &header, sizeof(header));
	int ret;

	*traffic = (struct mk_link_traffic){ 0 };
	ret = nl_query(nl, msg, take_traffic, traffic, err);
	return ret < 0 ? nl_wrap(ret, err, "interface number %d", ifindex) : 0;
}

struct link_walk {
	int (*visit)(void *ctx, const struct mk_link *link);
	void *ctx;
};

static int walk_link(void *ctx, const struct nlmsghdr *reply)
{
	const struct link_walk *walk = ctx;
	struct mk_link link;

	return parse_link(reply, &link) ? walk->visit(walk->ctx, &link) : 0;
}

int mk_nl_each_link(struct mk_nl *nl, int (*visit)(void *ctx, const struct mk_link *link),
		    void *ctx, struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_GETLINK, NLM_F_DUMP, &header, sizeof(header));
	struct link_walk walk = { .visit = visit, .ctx = ctx };

	if (msg && nla_put_u32(msg, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS) < 0)
		return mk_error_errno(err, ENOMEM, "netlink request");
	return nl_query(nl, msg, walk_link, &walk, err);
}

struct traffic_walk {
	int (*visit)(void *ctx, const struct mk_link *link, const struct mk_link_traffic *traffic);
	void *ctx;
};

static int walk_traffic(void *ctx, const struct nlmsghdr *reply)
{
	const struct traffic_walk *walk = ctx;
	struct mk_link_traffic traffic = { 0 };
	struct mk_link link;

	if (!parse_link(reply, &link))
		return 0;
	(void)take_traffic(&traffic, reply);
	return walk->visit(walk->ctx, &link, &traffic);
}

int mk_nl_each_link_traffic(struct mk_nl *nl,
			    int (*visit)(void *ctx, const struct mk_link *link,
					 const struct mk_link_traffic *traffic),
			    void *ctx, struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_GETLINK, NLM_F_DUMP, &header, sizeof(header));
	struct traffic_walk walk = { .visit = visit, .ctx = ctx };

	return nl_query(nl, msg, walk_traffic, &walk, err);
}

/* ---- creating -------------------------------------------------------------------------------- */

static int put_device(struct nl_msg *msg, const char *name, const struct mk_mac *mac,
		      uint32_t mtu_bytes)
{
	NLA_PUT_STRING(msg, IFLA_IFNAME, name);
	NLA_PUT(msg, IFLA_ADDRESS, sizeof(mac->byte), mac->byte);
	if (mtu_bytes)
		NLA_PUT_U32(msg, IFLA_MTU, mtu_bytes);
	return 0;
nla_put_failure:
	return -ENOMEM;
}

/* Use one queue per direction. By default the kernel makes one per CPU, each with a
 * directory in sysfs. A veth does not need them: it sends without a queue lock and receives
 * on the sender's CPU. */
static int put_one_queue(struct nl_msg *msg)
{
	NLA_PUT_U32(msg, IFLA_NUM_TX_QUEUES, 1);
	NLA_PUT_U32(msg, IFLA_NUM_RX_QUEUES, 1);
	return 0;
nla_put_failure:
	return -ENOMEM;
}

/* The other end has the form of a separate link: fixed header, then attributes. */
static int put_veth_peer(struct nl_msg *msg, const struct mk_veth *veth)
{
	struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
	struct nlattr *peer = nla_nest_start(msg, VETH_INFO_PEER);

	if (!peer || nlmsg_append(msg, &header, sizeof(header), NLMSG_ALIGNTO) < 0)
		return -ENOMEM;
	if (put_device(msg, veth->peer_name, &veth->peer_mac, veth->mtu_bytes) < 0 ||
	    put_one_queue(msg) < 0)
		return -ENOMEM;
	if (veth->peer_netns_fd >= 0)
		NLA_PUT_U32(msg, IFLA_NET_NS_FD, (uint32_t)veth->peer_netns_fd);
	nla_nest_end(msg, peer);
	return 0;
nla_put_failure:
	return -ENOMEM;
}

/* Begin the attributes of a device of @kind, with *@data inside. NULL: no space. */
static struct nlattr *begin_kind(struct nl_msg *msg, const char *kind, struct nlattr **data)
{
	struct nlattr *info = nla_nest_start(msg, IFLA_LINKINFO);

	if (!info || nla_put_string(msg, IFLA_INFO_KIND, kind) < 0)
		return NULL;
	*data = nla_nest_start(msg, IFLA_INFO_DATA);
	return *data ? info : NULL;
}

static int put_veth(struct nl_msg *msg, const struct mk_veth *veth)
{
	struct nlattr *info, *data;

	if (put_device(msg, veth->name, &veth->mac, veth->mtu_bytes) < 0 || put_one_queue(msg) < 0)
		return -ENOMEM;
	info = begin_kind(msg, "veth", &data);
	if (!info || put_veth_peer(msg, veth) < 0)
		return -ENOMEM;
	nla_nest_end(msg, data);
	nla_nest_end(msg, info);
	return 0;
}

int mk_nl_veth_add(struct mk_nl *nl, const struct mk_veth *veth, struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
	int ret = nl_request(nl, msg && put_veth(msg, veth) == 0 ? msg : NULL, err);

	return ret < 0 ? nl_wrap(ret, err, "cannot create veth pair '%s' and '%s'", veth->name,
				 veth->peer_name)
		       : 0;
}

static int put_vxlan(struct nl_msg *msg, const struct mk_vxlan *vxlan)
{
	struct nlattr *info, *data;

	if (put_device(msg, vxlan->name, &vxlan->mac, vxlan->mtu_bytes) < 0)
		return -ENOMEM;
	info = begin_kind(msg, "vxlan", &data);
	if (!info)
		return -ENOMEM;
	NLA_PUT_U32(msg, IFLA_VXLAN_ID, vxlan->id);
	NLA_PUT_U16(msg, IFLA_VXLAN_PORT, htons(vxlan->port));
	NLA_PUT_U8(msg, IFLA_VXLAN_LEARNING, 0);
	if (vxlan->uplink_ifindex)
		NLA_PUT_U32(msg, IFLA_VXLAN_LINK, (uint32_t)vxlan->uplink_ifindex);
	if (vxlan->local.family != AF_UNSPEC &&
	    nlmsg_put_ip(msg, vxlan->local.family == AF_INET ? IFLA_VXLAN_LOCAL : IFLA_VXLAN_LOCAL6,
			 &vxlan->local) < 0)
		return -ENOMEM;
	nla_nest_end(msg, data);
	nla_nest_end(msg, info);
	return 0;
nla_put_failure:
	return -ENOMEM;
}

int mk_nl_vxlan_add(struct mk_nl *nl, const struct mk_vxlan *vxlan, struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
	int ret = nl_request(nl, msg && put_vxlan(msg, vxlan) == 0 ? msg : NULL, err);

	return ret < 0 ? nl_wrap(ret, err, "cannot create VXLAN device '%s' (VNI %u, port %u)",
				 vxlan->name, vxlan->id, vxlan->port)
		       : 0;
}

/* ---- changing, deleting ---------------------------------------------------------------------- */

static int put_change(struct nl_msg *msg, const struct mk_link_change *change)
{
	if (change->mtu_bytes)
		NLA_PUT_U32(msg, IFLA_MTU, change->mtu_bytes);
	if (change->mac)
		NLA_PUT(msg, IFLA_ADDRESS, sizeof(change->mac->byte), change->mac->byte);
	if (change->alias && *change->alias)
		NLA_PUT(msg, IFLA_IFALIAS, (int)strlen(change->alias), change->alias);
	return 0;
nla_put_failure:
	return -ENOMEM;
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
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(RTM_NEWLINK, 0, &header, sizeof(header));
	int ret = nl_request(nl, msg && put_change(msg, change) == 0 ? msg : NULL, err);

	return ret < 0 ? nl_wrap(ret, err, "cannot change interface number %d", ifindex) : 0;
}

int mk_nl_link_delete(struct mk_nl *nl, const char *name, struct mk_error *err)
{
	const struct ifinfomsg header = { .ifi_family = AF_UNSPEC };
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(RTM_DELLINK, 0, &header, sizeof(header));
	int ret = nl_request(nl, msg && nla_put_string(msg, IFLA_IFNAME, name) == 0 ? msg : NULL,
			     err);

	if (ret == -ENODEV)
		return 0;
	return ret < 0 ? nl_wrap(ret, err, "cannot delete interface '%s'", name) : 0;
}

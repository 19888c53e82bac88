// SPDX-License-Identifier: Apache-2.0
#include "base/netlink/netlink.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "base/netlink/request.h"

/* A neighbour maps an IP address to a MAC address. An entry of a VXLAN device's forwarding database
 * maps a MAC address to a node. The kernel has one message for both. */
static int change_neigh(struct mk_nl *nl, int type, int flags, const struct ndmsg *header,
			const struct mk_ip *ip, const struct mk_mac *mac, struct mk_error *err)
{
	cleanup_nlmsg struct nl_msg *msg = nlmsg_new(type, flags, header, sizeof(*header));

	if (msg && nlmsg_put_ip(msg, NDA_DST, ip) < 0)
		return mk_error_errno(err, ENOMEM, "netlink request");
	if (msg && mac && nla_put(msg, NDA_LLADDR, sizeof(mac->byte), mac->byte) < 0)
		return mk_error_errno(err, ENOMEM, "netlink request");
	return nl_request(nl, msg, err);
}

static struct ndmsg neigh_header(int ifindex, const struct mk_ip *ip)
{
	return (struct ndmsg){
		.ndm_family = (uint8_t)ip->family,
		.ndm_ifindex = ifindex,
		.ndm_state = NUD_PERMANENT,
		.ndm_type = RTN_UNICAST,
	};
}

int mk_nl_neigh_put(struct mk_nl *nl, int ifindex, const struct mk_ip *ip, const struct mk_mac *mac,
		    struct mk_error *err)
{
	const struct ndmsg header = neigh_header(ifindex, ip);
	char ip_text[MK_IP_STRLEN], mac_text[MK_MAC_STRLEN];
	int ret =
		change_neigh(nl, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &header, ip, mac, err);

	if (ret == 0)
		return 0;
	return nl_wrap(ret, err, "cannot set neighbour %s (%s) on interface number %d",
		       mk_ip_format(ip, ip_text), mk_mac_format(mac, mac_text), ifindex);
}

int mk_nl_neigh_delete(struct mk_nl *nl, int ifindex, const struct mk_ip *ip, struct mk_error *err)
{
	const struct ndmsg header = neigh_header(ifindex, ip);
	int ret = change_neigh(nl, RTM_DELNEIGH, 0, &header, ip, NULL, err);
	char text[MK_IP_STRLEN];

	/* ENODEV: the interface and its neighbours are gone */
	if (ret == 0 || ret == -ENOENT || ret == -ENODEV)
		return 0;
	return nl_wrap(ret, err, "cannot delete neighbour %s from interface number %d",
		       mk_ip_format(ip, text), ifindex);
}

static struct ndmsg fdb_header(int ifindex)
{
	return (struct ndmsg){
		.ndm_family = AF_BRIDGE,
		.ndm_ifindex = ifindex,
		.ndm_state = NUD_NOARP | NUD_PERMANENT,
		.ndm_flags = NTF_SELF,
	};
}

int mk_nl_fdb_put(struct mk_nl *nl, int ifindex, const struct mk_mac *mac,
		  const struct mk_ip *remote, struct mk_error *err)
{
	const struct ndmsg header = fdb_header(ifindex);
	char ip_text[MK_IP_STRLEN], mac_text[MK_MAC_STRLEN];
	int ret = change_neigh(nl, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &header, remote, mac,
			       err);

	if (ret == 0)
		return 0;
	return nl_wrap(ret, err, "cannot set FDB entry %s to node %s on interface number %d",
		       mk_mac_format(mac, mac_text), mk_ip_format(remote, ip_text), ifindex);
}

int mk_nl_fdb_delete(struct mk_nl *nl, int ifindex, const struct mk_mac *mac,
		     const struct mk_ip *remote, struct mk_error *err)
{
	const struct ndmsg header = fdb_header(ifindex);
	char ip_text[MK_IP_STRLEN], mac_text[MK_MAC_STRLEN];
	int ret = change_neigh(nl, RTM_DELNEIGH, 0, &header, remote, mac, err);

	if (ret == 0 || ret == -ENOENT || ret == -ENODEV)
		return 0;
	return nl_wrap(ret, err, "cannot delete FDB entry %s to node %s from interface number %d",
		       mk_mac_format(mac, mac_text), mk_ip_format(remote, ip_text), ifindex);
}

struct neigh_walk {
	int ifindex;
	uint8_t family;
	int (*visit_neigh)(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac,
			   bool permanent);
	int (*visit_fdb)(void *ctx, const struct mk_mac *mac, const struct mk_ip *remote);
	void *ctx;
};

static int walk_neigh(void *ctx, const struct nlmsghdr *reply)
{
	const struct neigh_walk *walk = ctx;
	struct nlattr *attrs[NDA_MAX + 1];
	const struct ndmsg *header;
	struct mk_mac mac;
	struct mk_ip ip;

	if (reply->nlmsg_type != RTM_NEWNEIGH ||
	    nlmsg_parse((struct nlmsghdr *)reply, sizeof(*header), attrs, NDA_MAX, NULL) < 0)
		return 0;
	header = nlmsg_data(reply);
	if (header->ndm_ifindex != walk->ifindex || header->ndm_family != walk->family)
		return 0;
	/* FDB entries without a node are multicast groups of the device itself */
	if (!nla_get_ip(attrs[NDA_DST], &ip))
		return 0;
	nla_get_mac(attrs[NDA_LLADDR], &mac);
	if (walk->visit_fdb)
		return walk->visit_fdb(walk->ctx, &mac, &ip);
	return walk->visit_neigh(walk->ctx, &ip, &mac, (header->ndm_state & NUD_PERMANENT) != 0);
}

static int dump_neigh(struct mk_nl *nl, struct neigh_walk *walk, struct mk_error *err)
{
	const struct ndmsg header = { .ndm_family = walk->family };
	cleanup_nlmsg struct nl_msg *msg =
		nlmsg_new(RTM_GETNEIGH, NLM_F_DUMP, &header, sizeof(header));

	if (msg && nla_put_u32(msg, NDA_IFINDEX, (uint32_t)walk->ifindex) < 0)
		return mk_error_errno(err, ENOMEM, "netlink request");
	return nl_query(nl, msg, walk_neigh, walk, err);
}

int mk_nl_each_neigh(struct mk_nl *nl, int ifindex,
		     int (*visit)(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac,
				  bool permanent),
		     void *ctx, struct mk_error *err)
{
	struct neigh_walk walk = {
		.ifindex = ifindex,
		.family = AF_INET,
		.visit_neigh = visit,
		.ctx = ctx,
	};

	return dump_neigh(nl, &walk, err);
}

int mk_nl_each_fdb(struct mk_nl *nl, int ifindex,
		   int (*visit)(void *ctx, const struct mk_mac *mac, const struct mk_ip *remote),
		   void *ctx, struct mk_error *err)
{
	struct neigh_walk walk = {
		.ifindex = ifindex,
		.family = AF_BRIDGE,
		.visit_fdb = visit,
		.ctx = ctx,
	};

	return dump_neigh(nl, &walk, err);
}

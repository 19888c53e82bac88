// SPDX-License-Identifier: Apache-2.0
/* Neighbour and FDB entries, by rtnetlink. */
#include "base/netlink/netlink.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include "base/netlink/request.h"

/* A neighbour maps an IP address to a MAC address. An entry of a VXLAN device's forwarding database
 * maps a MAC address to a node. The kernel has one message for both. @mac NULL: any. @port 0: the
 * device's own. @by_ifindex: of an FDB entry, or 0. */
static int change_neigh(struct mk_nl *nl, int type, const struct ndmsg *header,
			const struct mk_ip *ip, const struct mk_mac *mac, uint16_t port,
			int by_ifindex, struct mk_error *err)
{
	bool add = type == RTM_NEWNEIGH;
	struct nl_msg *msg =
		nlmsg_new(type, add ? NLM_F_CREATE | NLM_F_REPLACE : 0, header, sizeof(*header));
	char ip_text[MK_IP_STRLEN], mac_text[MK_MAC_STRLEN];
	int ret;

	nl_put_ip(msg, NDA_DST, ip);
	if (mac)
		nl_put_mac(msg, NDA_LLADDR, mac);
	if (port)
		NL_PUT(msg, NDA_PORT, uint16_t, htons(port));
	if (by_ifindex)
		NL_PUT(msg, NDA_IFINDEX, uint32_t, (uint32_t)by_ifindex);
	ret = nl_request(nl, msg, err);
	/* ENODEV: the interface and its entries are gone */
	if (!add && (ret == -ENOENT || ret == -ENODEV))
		return 0;
	return nl_wrap(ret, err, "cannot %s %s %s (%s) on interface number %d",
		       add ? "set" : "delete",
		       header->ndm_family == AF_BRIDGE ? "FDB entry" : "neighbour",
		       mk_ip_format(ip, ip_text), mac ? mk_mac_format(mac, mac_text) : "any",
		       header->ndm_ifindex);
}

/* Each neighbour is a next hop. If an IPv6 next hop is no router, Linux forgets the MTU that an
 * ICMP error gave for a way through it, each time that it collects old routes (30 s). */
static struct ndmsg neigh_header(int ifindex, const struct mk_ip *ip)
{
	return (struct ndmsg){
		.ndm_family = (uint8_t)ip->family,
		.ndm_ifindex = ifindex,
		.ndm_state = NUD_PERMANENT,
		.ndm_flags = ip->family == AF_INET6 ? NTF_ROUTER : 0,
		.ndm_type = RTN_UNICAST,
	};
}

int mk_nl_neigh_put(struct mk_nl *nl, int ifindex, const struct mk_ip *ip, const struct mk_mac *mac,
		    struct mk_error *err)
{
	const struct ndmsg header = neigh_header(ifindex, ip);

	return change_neigh(nl, RTM_NEWNEIGH, &header, ip, mac, 0, 0, err);
}

int mk_nl_neigh_use(struct mk_nl *nl, int ifindex, const struct mk_ip *ip, struct mk_error *err)
{
	const struct ndmsg header = {
		.ndm_family = (uint8_t)ip->family,
		.ndm_ifindex = ifindex,
		.ndm_flags = NTF_USE,
		.ndm_type = RTN_UNICAST,
	};

	return change_neigh(nl, RTM_NEWNEIGH, &header, ip, NULL, 0, 0, err);
}

int mk_nl_neigh_delete(struct mk_nl *nl, int ifindex, const struct mk_ip *ip, struct mk_error *err)
{
	const struct ndmsg header = neigh_header(ifindex, ip);

	return change_neigh(nl, RTM_DELNEIGH, &header, ip, NULL, 0, 0, err);
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

int mk_nl_fdb_put(struct mk_nl *nl, int ifindex, const struct mk_nl_fdb *fdb, struct mk_error *err)
{
	const struct ndmsg header = fdb_header(ifindex);

	return change_neigh(nl, RTM_NEWNEIGH, &header, &fdb->remote, &fdb->mac, fdb->port,
			    fdb->by_ifindex, err);
}

int mk_nl_fdb_delete(struct mk_nl *nl, int ifindex, const struct mk_nl_fdb *fdb,
		     struct mk_error *err)
{
	const struct ndmsg header = fdb_header(ifindex);

	return change_neigh(nl, RTM_DELNEIGH, &header, &fdb->remote, &fdb->mac, fdb->port,
			    fdb->by_ifindex, err);
}

struct neigh_walk {
	int ifindex;
	uint8_t family;
	int (*visit_neigh)(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac,
			   bool permanent);
	int (*visit_fdb)(void *ctx, const struct mk_nl_fdb *fdb);
	void *ctx;
};

static int walk_neigh(void *ctx, const void *reply, struct nlattr **attrs)
{
	const struct neigh_walk *walk = ctx;
	const struct ndmsg *header = reply;
	struct mk_mac mac;
	struct mk_ip ip;

	/* FDB entries without a node are multicast groups of the device itself */
	if (header->ndm_ifindex != walk->ifindex || header->ndm_family != walk->family ||
	    !nl_ip(attrs[NDA_DST], &ip))
		return 0;
	nl_mac(attrs[NDA_LLADDR], &mac);
	if (walk->visit_fdb) {
		/* the kernel leaves out the device's own port */
		const struct mk_nl_fdb fdb = {
			mac,
			ip,
			attrs[NDA_PORT] ? ntohs(nla_get_u16(attrs[NDA_PORT])) : 0,
			attrs[NDA_IFINDEX] ? (int)nla_get_u32(attrs[NDA_IFINDEX]) : 0,
		};

		return walk->visit_fdb(walk->ctx, &fdb);
	}
	return walk->visit_neigh(walk->ctx, &ip, &mac, (header->ndm_state & NUD_PERMANENT) != 0);
}

static int dump_neigh(struct mk_nl *nl, struct neigh_walk *walk, struct mk_error *err)
{
	const struct ndmsg header = { .ndm_family = walk->family };
	struct nl_msg *msg = nlmsg_new(RTM_GETNEIGH, NLM_F_DUMP, &header, sizeof(header));

	NL_PUT(msg, NDA_IFINDEX, uint32_t, (uint32_t)walk->ifindex);
	return nl_query(nl, msg, sizeof(header), walk_neigh, walk, err);
}

int mk_nl_each_neigh(struct mk_nl *nl, sa_family_t family, int ifindex,
		     int (*visit)(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac,
				  bool permanent),
		     void *ctx, struct mk_error *err)
{
	struct neigh_walk walk = { ifindex, (uint8_t)family, visit, NULL, ctx };

	return dump_neigh(nl, &walk, err);
}

int mk_nl_each_fdb(struct mk_nl *nl, int ifindex,
		   int (*visit)(void *ctx, const struct mk_nl_fdb *fdb), void *ctx,
		   struct mk_error *err)
{
	struct neigh_walk walk = { ifindex, AF_BRIDGE, NULL, visit, ctx };

	return dump_neigh(nl, &walk, err);
}

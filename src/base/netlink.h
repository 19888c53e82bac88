/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/netlink.h - the few rtnetlink requests monokube makes, over libnl-route. Every
 * request is synchronous and idempotent where said; errors carry the kernel's own text.
 *
 * A handle lives in the network namespace in which it was opened (rtnetlink(7)). */
#ifndef MK_BASE_NETLINK_H
#define MK_BASE_NETLINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/ip.h"

struct mk_nl;

/* Open in the calling thread's network namespace. NULL with @err on failure. */
struct mk_nl *mk_nl_open(struct mk_error *err);
/* Open in the namespace behind @netns_fd; the calling thread comes back to that of @home, its own.
 * NULL with -EEXIST where the two are the same. */
struct mk_nl *mk_nl_open_in(const struct mk_nl *home, int netns_fd, struct mk_error *err);
void mk_nl_free(struct mk_nl *nl);
/* What nlmsg_pid of a notification says if a request of @nl made the change. */
uint32_t mk_nl_port(const struct mk_nl *nl);

static inline void mk_cleanup_nl(struct mk_nl **nl)
{
	mk_nl_free(*nl);
}
#define cleanup_nl __attribute__((cleanup(mk_cleanup_nl)))

struct mk_link {
	int ifindex, peer_ifindex; /* peer (IFLA_LINK) 0: none */
	int master_ifindex; /* 0: none */
	int peer_netns; /* number of the peer's namespace in this one (IFLA_LINK_NETNSID); -1: the same, or none */
	uint16_t type; /* ARPHRD_* */
	char name[16];
	char kind[16]; /* "veth", "vxlan", ... or "" */
	char alias[256]; /* what it is to somebody, in words; "": none */
	char qdisc[16]; /* kind of the root qdisc */
	struct mk_mac mac;
	uint32_t mtu_bytes;
	uint32_t flags; /* IFF_* */
	/* kind vxlan only */
	uint32_t vxlan_id;
	uint16_t vxlan_port; /* host order */
	bool vxlan_learning;
	struct mk_ip vxlan_local; /* outer source; AF_UNSPEC: none */
};

/* By name or index. -ENODEV when there is none (@err says so). */
mk_must_check int mk_nl_link_get(struct mk_nl *nl, const char *name, struct mk_link *link,
				 struct mk_error *err);
mk_must_check int mk_nl_link_get_index(struct mk_nl *nl, int ifindex, struct mk_link *link,
				       struct mk_error *err);
/* Visit every link; a visitor's negative return ends the walk and is returned. */
mk_must_check int mk_nl_each_link(struct mk_nl *nl,
				  int (*visit)(void *ctx, const struct mk_link *link), void *ctx,
				  struct mk_error *err);

struct mk_link_traffic {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
};
/* What an interface has counted. -ENODEV. */
mk_must_check int mk_nl_link_traffic(struct mk_nl *nl, int ifindex, struct mk_link_traffic *traffic,
				     struct mk_error *err);

/* ... and all of them. */
mk_must_check int mk_nl_each_link_traffic(struct mk_nl *nl,
					  int (*visit)(void *ctx, const struct mk_link *link,
						       const struct mk_link_traffic *traffic),
					  void *ctx, struct mk_error *err);

struct mk_veth {
	const char *name; /* in @nl's namespace */
	struct mk_mac mac;
	const char *peer_name; /* in peer_netns_fd's, or in @nl's where that is -1 */
	struct mk_mac peer_mac;
	int peer_netns_fd;
	uint32_t mtu_bytes;
};
/* Create the pair in one request, both ends down. -EEXIST if a name is taken. */
mk_must_check int mk_nl_veth_add(struct mk_nl *nl, const struct mk_veth *veth,
				 struct mk_error *err);

struct mk_vxlan {
	const char *name;
	uint32_t id;
	uint16_t port; /* host order */
	struct mk_ip local; /* outer source */
	int uplink_ifindex;
	struct mk_mac mac;
	uint32_t mtu_bytes;
};
/* A VXLAN device without learning, without multicast group, down. -EEXIST if the name is taken. */
mk_must_check int mk_nl_vxlan_add(struct mk_nl *nl, const struct mk_vxlan *vxlan,
				  struct mk_error *err);

/* Change what is not the zero value. @set_flags/@clear_flags: IFF_UP, IFF_NOARP. */
struct mk_link_change {
	uint32_t mtu_bytes;
	const struct mk_mac *mac;
	uint32_t set_flags, clear_flags;
	const char *alias; /* at most 255 bytes */
};
mk_must_check int mk_nl_link_change(struct mk_nl *nl, int ifindex,
				    const struct mk_link_change *change, struct mk_error *err);
/* Returns 0 also when there is no such link. */
mk_must_check int mk_nl_link_delete(struct mk_nl *nl, const char *name, struct mk_error *err);

/* Addresses. add: 0 also when it is there already. */
mk_must_check int mk_nl_addr_add(struct mk_nl *nl, int ifindex, const struct mk_cidr *addr,
				 struct mk_error *err);
mk_must_check int mk_nl_addr_delete(struct mk_nl *nl, int ifindex, const struct mk_cidr *addr,
				    struct mk_error *err);
mk_must_check int mk_nl_each_addr(struct mk_nl *nl, sa_family_t family,
				  int (*visit)(void *ctx, int ifindex, const struct mk_cidr *addr),
				  void *ctx, struct mk_error *err);

/* Routes of table main, or of the one that they name. */
struct mk_nl_route {
	struct mk_cidr dst; /* prefix 0: the default route */
	int ifindex;
	struct mk_ip gateway; /* AF_UNSPEC: none (scope link) */
	struct mk_ip source; /* preferred source; AF_UNSPEC: the kernel's choice */
	bool onlink;
	uint8_t protocol; /* RTPROT_*: MK_RTPROT marks ours */
	uint32_t mtu_bytes; /* 0: the device's */
	uint32_t table; /* 0: main */
};
#define MK_RTPROT 77 /* in /etc/iproute2/rt_protos terms: monokube */
/* Add or replace. */
mk_must_check int mk_nl_route_put(struct mk_nl *nl, const struct mk_nl_route *route,
				  struct mk_error *err);
/* Returns 0 also when there is no such route. */
mk_must_check int mk_nl_route_delete(struct mk_nl *nl, const struct mk_nl_route *route,
				     struct mk_error *err);
/* All IPv4 routes of table main. */
mk_must_check int mk_nl_each_route(struct mk_nl *nl,
				   int (*visit)(void *ctx, const struct mk_nl_route *route),
				   void *ctx, struct mk_error *err);
/* ... of @table; 0: main. */
mk_must_check int mk_nl_each_route_of(struct mk_nl *nl, uint32_t table,
				      int (*visit)(void *ctx, const struct mk_nl_route *route),
				      void *ctx, struct mk_error *err);

/* A rule (ip-rule(8)) of ours: what has the source @from goes by the routes of @table. */
struct mk_nl_rule {
	struct mk_ip from;
	uint32_t table;
};
/* 0 also when it is there already. */
mk_must_check int mk_nl_rule_add(struct mk_nl *nl, const struct mk_nl_rule *rule,
				 struct mk_error *err);
/* All rules of ours with this source; 0 also when there is none. */
mk_must_check int mk_nl_rule_delete(struct mk_nl *nl, const struct mk_ip *from,
				    struct mk_error *err);
/* The table that a rule of ours names for the source @from. -ENOENT: there is no such rule. */
mk_must_check int mk_nl_rule_get(struct mk_nl *nl, const struct mk_ip *from, uint32_t *table,
				 struct mk_error *err);

/* One way of a route, in whatever table but local: a multipath route has several. */
struct mk_nl_way {
	struct mk_cidr dst; /* prefix 0: the default route */
	uint32_t table; /* RT_TABLE_* or another number */
	uint8_t type; /* RTN_*: unicast, blackhole, ... */
	uint8_t protocol; /* RTPROT_* */
	bool several, encapsulated;
	int ifindex; /* 0: none */
	struct mk_ip source; /* preferred source; AF_UNSPEC: the kernel's choice */
};
/* All ways of all IPv4 routes (netlink_ways.c). */
mk_must_check int mk_nl_each_way(struct mk_nl *nl,
				 int (*visit)(void *ctx, const struct mk_nl_way *way), void *ctx,
				 struct mk_error *err);
/* Are there rules (ip-rule(8)) beside the kernel's own three? */
mk_must_check int mk_nl_has_rules(struct mk_nl *nl, bool *has, struct mk_error *err);

/* What the host's routing, with all its rules, says of what the host itself sends to @dest. Negative with the kernel's
 * word where there is no way: -ENETUNREACH, -EHOSTUNREACH, -EACCES (prohibit), -EINVAL (blackhole). */
mk_must_check int mk_nl_route_to(struct mk_nl *nl, const struct mk_ip *dest,
				 struct mk_nl_route *route, struct mk_error *err);

/* Permanent neighbours (ARP) and VXLAN FDB entries (AF_BRIDGE, NTF_SELF). Add or replace. */
mk_must_check int mk_nl_neigh_put(struct mk_nl *nl, int ifindex, const struct mk_ip *ip,
				  const struct mk_mac *mac, struct mk_error *err);
mk_must_check int mk_nl_neigh_delete(struct mk_nl *nl, int ifindex, const struct mk_ip *ip,
				     struct mk_error *err);
mk_must_check int mk_nl_each_neigh(struct mk_nl *nl, int ifindex,
				   int (*visit)(void *ctx, const struct mk_ip *ip,
						const struct mk_mac *mac, bool permanent),
				   void *ctx, struct mk_error *err);
mk_must_check int mk_nl_fdb_put(struct mk_nl *nl, int ifindex, const struct mk_mac *mac,
				const struct mk_ip *remote, struct mk_error *err);
mk_must_check int mk_nl_fdb_delete(struct mk_nl *nl, int ifindex, const struct mk_mac *mac,
				   const struct mk_ip *remote, struct mk_error *err);
mk_must_check int mk_nl_each_fdb(struct mk_nl *nl, int ifindex,
				 int (*visit)(void *ctx, const struct mk_mac *mac,
					      const struct mk_ip *remote),
				 void *ctx, struct mk_error *err);

/* The clsact qdisc of an interface. 0 also when there is one. */
mk_must_check int mk_nl_clsact_add(struct mk_nl *nl, int ifindex, struct mk_error *err);

/* A token bucket filter (tc-tbf(8)) as the root qdisc of an interface: a limit of what it sends. */
#define MK_NL_TBF "tbf"
struct mk_nl_tbf {
	uint64_t rate_bytes; /* a second; 0: no limit */
	uint32_t burst_bytes; /* of the bucket */
	uint32_t limit_bytes; /* that may wait */
};
/* Add or replace. -ENOENT: the kernel does not have the qdisc; @err says how to get it. */
mk_must_check int mk_nl_tbf_put(struct mk_nl *nl, int ifindex, const struct mk_nl_tbf *tbf,
				struct mk_error *err);
/* Without burst_bytes, which the kernel does not tell. -ENOENT: the root qdisc is none. */
mk_must_check int mk_nl_tbf_get(struct mk_nl *nl, int ifindex, struct mk_nl_tbf *tbf,
				struct mk_error *err);
/* An error @ret of adding a qdisc of @kind; returns it. */
int mk_nl_qdisc_failed(int ret, const char *kind, int ifindex, struct mk_error *err);

struct mk_nl_filter {
	int ifindex;
	bool egress; /* else ingress */
	uint32_t handle;
	uint16_t priority;
	int prog_fd;
	const char *name;
};
/* A BPF program in direct-action mode on a clsact hook, put there atomically in place of the filter
 * with the same handle and priority. */
mk_must_check int mk_nl_filter_put(struct mk_nl *nl, const struct mk_nl_filter *filter,
				   struct mk_error *err);

#endif

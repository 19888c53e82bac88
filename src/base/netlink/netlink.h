/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/netlink/netlink.h - the few rtnetlink requests of monokube, over libnl-route. Every
 * request is synchronous, and idempotent if its comment says so. Errors have the kernel's own text.
 *
 * A handle lives in the network namespace in which it was opened (rtnetlink(7)). */
#ifndef MK_BASE_NETLINK_NETLINK_H
#define MK_BASE_NETLINK_NETLINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/ip.h"

struct mk_nl;

/* Open in the calling thread's network namespace. NULL with @err on failure. */
struct mk_nl *mk_nl_open(struct mk_error *err);
/* Open in the namespace @netns_fd; the calling thread then returns to that of @home, its own. NULL
 * with -EEXIST if the two are the same. */
struct mk_nl *mk_nl_open_in(const struct mk_nl *home, int netns_fd, struct mk_error *err);
/* Call @run in the namespace @netns_fd. The calling thread then returns to that of @home, its own.
 * Returns the result of @run, or -EEXIST if the two namespaces are the same. */
mk_must_check int mk_nl_run_in(const struct mk_nl *home, int netns_fd,
			       int (*run)(void *ctx, struct mk_error *err), void *ctx,
			       struct mk_error *err);
void mk_nl_free(struct mk_nl *nl);
/* Return the nlmsg_pid of notifications about changes that @nl requested. */
uint32_t mk_nl_port(const struct mk_nl *nl);

static inline void mk_cleanup_nl(struct mk_nl **nl)
{
	mk_nl_free(*nl);
}
#define cleanup_nl __attribute__((cleanup(mk_cleanup_nl)))

struct mk_link_traffic {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
};

/* The part of a link that the kernel's IPv6 has. */
struct mk_link_ipv6 {
	bool exists; /* false: a kernel without IPv6, or an MTU below 1280 */
	bool disabled; /* disable_ipv6 */
	bool no_link_local; /* addr_gen_mode none */
};

struct mk_link {
	int ifindex, peer_ifindex; /* peer (IFLA_LINK) 0: none */
	int master_ifindex; /* 0: none */
	int peer_netns; /* IFLA_LINK_NETNSID; -1: the peer is in this namespace, or none */
	uint16_t type; /* ARPHRD_* */
	char name[16];
	char kind[16]; /* "veth", "vxlan", ... or "" */
	char master_kind[16]; /* "bridge", "bond", "vrf", ... or "" */
	char alias[256]; /* the link's description; "": none */
	char qdisc[16]; /* kind of the root qdisc */
	struct mk_mac mac;
	uint32_t mtu_bytes;
	uint32_t flags; /* IFF_* */
	struct mk_link_ipv6 ipv6;
	/* kind vxlan only */
	uint32_t vxlan_id;
	uint16_t vxlan_port; /* host order */
	bool vxlan_learning;
	bool vxlan_zero_checksums; /* over IPv6, sent or accepted */
	bool vxlan_dont_fragment; /* its carriers, of IPv4 */
	struct mk_ip vxlan_local; /* outer source; AF_UNSPEC: none */
	struct mk_link_traffic traffic; /* only from mk_nl_each_link_traffic() */
};

/* Is the device a VRF or in one? A VRF has routing tables of its own. */
bool mk_nl_is_of_vrf(const struct mk_link *link);

/* Get a link by name or index. -ENODEV: none (@err says so). */
mk_must_check int mk_nl_link_get(struct mk_nl *nl, const char *name, struct mk_link *link,
				 struct mk_error *err);
mk_must_check int mk_nl_link_get_index(struct mk_nl *nl, int ifindex, struct mk_link *link,
				       struct mk_error *err);
/* Visit every link; a visitor's negative return ends the walk and is returned. */
mk_must_check int mk_nl_each_link(struct mk_nl *nl,
				  int (*visit)(void *ctx, const struct mk_link *link), void *ctx,
				  struct mk_error *err);

/* Read the counters of an interface. -ENODEV: none. */
mk_must_check int mk_nl_link_traffic(struct mk_nl *nl, int ifindex, struct mk_link_traffic *traffic,
				     struct mk_error *err);

/* Visit every link with its counters. */
mk_must_check int mk_nl_each_link_traffic(struct mk_nl *nl,
					  int (*visit)(void *ctx, const struct mk_link *link),
					  void *ctx, struct mk_error *err);

struct mk_veth {
	const char *name; /* in @nl's namespace */
	struct mk_mac mac;
	const char *peer_name; /* in peer_netns_fd, or in @nl's namespace if that is -1 */
	struct mk_mac peer_mac;
	int peer_netns_fd;
	uint32_t mtu_bytes;
};
/* Create the pair in one request, both ends down. -EEXIST: a name is taken. */
mk_must_check int mk_nl_veth_add(struct mk_nl *nl, const struct mk_veth *veth,
				 struct mk_error *err);

struct mk_vxlan {
	const char *name;
	uint32_t id;
	uint16_t port; /* host order */
	struct mk_ip local; /* outer source */
	bool dont_fragment; /* its carriers, of IPv4 */
	int uplink_ifindex;
	struct mk_mac mac;
	uint32_t mtu_bytes;
};
/* Create a VXLAN device without learning and multicast group, down. -EEXIST: the name is taken. */
mk_must_check int mk_nl_vxlan_add(struct mk_nl *nl, const struct mk_vxlan *vxlan,
				  struct mk_error *err);

/* Let VXLAN device @ifindex, with VNI @id, send carriers of IPv4 with "don't fragment", or not. */
mk_must_check int mk_nl_vxlan_dont_fragment(struct mk_nl *nl, int ifindex, uint32_t id, bool is_set,
					    struct mk_error *err);

/* Create a WireGuard device, down. -EOPNOTSUPP: the kernel has no WireGuard. -EEXIST: the name is
 * taken. */
mk_must_check int mk_nl_wireguard_add(struct mk_nl *nl, const char *name, uint32_t mtu_bytes,
				      struct mk_error *err);

/* Create a bridge without spanning tree and multicast snooping, down. -EEXIST: the name is
 * taken. */
mk_must_check int mk_nl_bridge_add(struct mk_nl *nl, const char *name, const struct mk_mac *mac,
				   struct mk_error *err);

/* Changes of a link: members that are not zero. @set_flags/@clear_flags: IFF_UP, IFF_NOARP. */
struct mk_link_change {
	const char *name; /* -EBUSY before Linux 6.2 if the link is up */
	uint32_t mtu_bytes;
	int master_ifindex; /* the bridge that the link becomes a port of */
	const struct mk_mac *mac;
	uint32_t set_flags, clear_flags;
	const char *alias; /* at most 255 bytes */
	/* Set addr_gen_mode none: the kernel makes no link-local address. A request that also sets
	 * IFF_UP is too late for this. -EAFNOSUPPORT: the link has no IPv6. */
	bool no_link_local;
};
mk_must_check int mk_nl_link_change(struct mk_nl *nl, int ifindex,
				    const struct mk_link_change *change, struct mk_error *err);
/* Returns 0 also if there is no such link. */
mk_must_check int mk_nl_link_delete(struct mk_nl *nl, const char *name, struct mk_error *err);

struct mk_nl_addr {
	int ifindex;
	struct mk_cidr cidr;
	uint32_t flags; /* IFA_F_* */
	uint32_t preferred_s, valid_s; /* lifetimes, only read; UINT32_MAX: forever */
};
/* Add an address forever, with IFA_F_NODAD or IFA_F_DEPRECATED if @addr has these flags. If it
 * exists, return 0; an IPv6 address then gets the flags. */
mk_must_check int mk_nl_addr_add(struct mk_nl *nl, const struct mk_nl_addr *addr,
				 struct mk_error *err);
mk_must_check int mk_nl_addr_delete(struct mk_nl *nl, int ifindex, const struct mk_cidr *addr,
				    struct mk_error *err);
/* Visit all addresses of @family. */
mk_must_check int mk_nl_each_addr(struct mk_nl *nl, sa_family_t family,
				  int (*visit)(void *ctx, const struct mk_nl_addr *addr), void *ctx,
				  struct mk_error *err);

struct mk_nl_route {
	struct mk_cidr dst; /* prefix 0: the default route */
	int ifindex;
	struct mk_ip gateway; /* AF_UNSPEC: none (scope link), or several */
	struct mk_ip source; /* preferred source; AF_UNSPEC: the kernel's choice */
	bool onlink;
	uint32_t metric; /* 0: the kernel's default, which is read as 1024 for IPv6 */
	uint8_t protocol; /* RTPROT_*: MK_RTPROT marks ours */
	uint32_t mtu_bytes; /* 0: the device's */
	uint32_t table; /* RT_TABLE_* or another number; 0: main */
	/* only read; mk_nl_each_route() skips other types than RTN_UNICAST */
	uint8_t type; /* RTN_*: unicast, blackhole, ... */
	bool several, encapsulated; /* one of several next hops; has a tunnel's header */
};
#define MK_RTPROT	77 /* a name for /etc/iproute2/rt_protos: monokube */
#define MK_PROBE_METRIC 2 /* of routes that only probes of the link use (setting routing) */
/* Add or replace. */
mk_must_check int mk_nl_route_put(struct mk_nl *nl, const struct mk_nl_route *route,
				  struct mk_error *err);
/* Returns 0 also if there is no such route. */
mk_must_check int mk_nl_route_delete(struct mk_nl *nl, const struct mk_nl_route *route,
				     struct mk_error *err);
/* Visit all routes of @family in table main, with mk_nl_route.table 0. */
mk_must_check int mk_nl_each_route(struct mk_nl *nl, sa_family_t family,
				   int (*visit)(void *ctx, const struct mk_nl_route *route),
				   void *ctx, struct mk_error *err);
/* Visit all routes of @family in @table; 0: main. */
mk_must_check int mk_nl_each_route_of(struct mk_nl *nl, sa_family_t family, uint32_t table,
				      int (*visit)(void *ctx, const struct mk_nl_route *route),
				      void *ctx, struct mk_error *err);

/* A rule (ip-rule(8)) of monokube: packets with source @from use the routes of @table. Rules of
 * function pods have the other members, too. */
struct mk_nl_rule {
	struct mk_ip from; /* AF_UNSPEC: any source of @family */
	uint32_t table;
	uint32_t priority; /* 0: just before the kernel's rule for table main */
	sa_family_t family; /* 0: that of @from */
	const char *iif; /* the interface that the packets come from; NULL: any */
	/* IPv6: also look-ups without a source, if the routes of @table lead to @from */
	bool finds_source;
};
/* Returns 0 also if the rule exists. */
mk_must_check int mk_nl_rule_add(struct mk_nl *nl, const struct mk_nl_rule *rule,
				 struct mk_error *err);
/* Delete monokube's rules with this source. Returns 0 also if there is none. */
mk_must_check int mk_nl_rule_delete(struct mk_nl *nl, const struct mk_ip *from,
				    struct mk_error *err);
/* Get the table of monokube's rule for the source @from. -ENOENT: there is no such rule. */
mk_must_check int mk_nl_rule_get(struct mk_nl *nl, const struct mk_ip *from, uint32_t *table,
				 struct mk_error *err);

/* Visit all next hops of all routes of @family, except in table local. A multipath route has
 * several. */
mk_must_check int mk_nl_each_way(struct mk_nl *nl, sa_family_t family,
				 int (*visit)(void *ctx, const struct mk_nl_route *way), void *ctx,
				 struct mk_error *err);
/* Are there rules (ip-rule(8)) of @family other than the kernel's own? */
mk_must_check int mk_nl_has_rules(struct mk_nl *nl, sa_family_t family, bool *has,
				  struct mk_error *err);

/* Get the route of the host's own packets to @dest, by all rules of the host. If there is
 * none, return the kernel's error: -ENETUNREACH, -EHOSTUNREACH, -EACCES (prohibit),
 * -EINVAL (blackhole). */
mk_must_check int mk_nl_route_to(struct mk_nl *nl, const struct mk_ip *dest,
				 struct mk_nl_route *route, struct mk_error *err);

/* Let the kernel find the MAC address of @ip, or confirm it, as if a packet were to be sent. */
mk_must_check int mk_nl_neigh_use(struct mk_nl *nl, int ifindex, const struct mk_ip *ip,
				  struct mk_error *err);
/* Permanent neighbours and VXLAN FDB entries (AF_BRIDGE, NTF_SELF). Add or replace. */
mk_must_check int mk_nl_neigh_put(struct mk_nl *nl, int ifindex, const struct mk_ip *ip,
				  const struct mk_mac *mac, struct mk_error *err);
mk_must_check int mk_nl_neigh_delete(struct mk_nl *nl, int ifindex, const struct mk_ip *ip,
				     struct mk_error *err);
mk_must_check int mk_nl_each_neigh(struct mk_nl *nl, sa_family_t family, int ifindex,
				   int (*visit)(void *ctx, const struct mk_ip *ip,
						const struct mk_mac *mac, bool permanent),
				   void *ctx, struct mk_error *err);
struct mk_nl_fdb {
	struct mk_mac mac;
	struct mk_ip remote;
	uint16_t port; /* UDP; 0: the device's own */
	/* By which carriers leave; 0: as the main table says, whatever link the VXLAN device has */
	int by_ifindex;
};
mk_must_check int mk_nl_fdb_put(struct mk_nl *nl, int ifindex, const struct mk_nl_fdb *fdb,
				struct mk_error *err);
mk_must_check int mk_nl_fdb_delete(struct mk_nl *nl, int ifindex, const struct mk_nl_fdb *fdb,
				   struct mk_error *err);
mk_must_check int mk_nl_each_fdb(struct mk_nl *nl, int ifindex,
				 int (*visit)(void *ctx, const struct mk_nl_fdb *fdb), void *ctx,
				 struct mk_error *err);

/* Add the clsact qdisc to an interface. Returns 0 also if there is one. */
mk_must_check int mk_nl_clsact_add(struct mk_nl *nl, int ifindex, struct mk_error *err);
/* Delete it, and its filters. Returns 0 also if there is none. */
mk_must_check int mk_nl_clsact_delete(struct mk_nl *nl, int ifindex, struct mk_error *err);

/* A token bucket filter (tc-tbf(8)) as the root qdisc of an interface, which limits
 * what it sends. */
#define MK_NL_TBF "tbf"
struct mk_nl_tbf {
	uint64_t rate_bytes; /* per second; 0: no limit */
	uint32_t burst_bytes; /* size of the bucket */
	uint32_t limit_bytes; /* longest queue */
};
/* Add or replace. -ENOENT: the kernel lacks the qdisc; @err says how to get it. */
mk_must_check int mk_nl_tbf_put(struct mk_nl *nl, int ifindex, const struct mk_nl_tbf *tbf,
				struct mk_error *err);
/* Read it, without burst_bytes, which the kernel does not report. -ENOENT: the root
 * qdisc is not one. */
mk_must_check int mk_nl_tbf_get(struct mk_nl *nl, int ifindex, struct mk_nl_tbf *tbf,
				struct mk_error *err);

/* A BPF program in direct-action mode on a clsact hook. */
struct mk_nl_filter {
	int ifindex;
	bool egress; /* false: ingress */
	uint32_t handle;
	uint16_t priority;
	char name[64]; /* "": another kind of filter */
	uint32_t prog_id; /* only read */
};
/* Atomically replace the filter with the same hook, handle and priority, or add it. */
mk_must_check int mk_nl_filter_put(struct mk_nl *nl, const struct mk_nl_filter *filter, int prog_fd,
				   struct mk_error *err);
/* Read the filter with the hook, handle and priority of @filter. -ENOENT: none, or no device. */
mk_must_check int mk_nl_filter_get(struct mk_nl *nl, struct mk_nl_filter *filter,
				   struct mk_error *err);
/* Returns 0 also if there is none. */
mk_must_check int mk_nl_filter_delete(struct mk_nl *nl, const struct mk_nl_filter *filter,
				      struct mk_error *err);
/* Visit all filters of a hook, of any kind. */
mk_must_check int mk_nl_each_filter(struct mk_nl *nl, int ifindex, bool egress,
				    int (*visit)(void *ctx, const struct mk_nl_filter *filter),
				    void *ctx, struct mk_error *err);

/* What a device computes in place of its senders (ethtool(8)). */

/* Let senders finish checksums before the device gets a packet. The kernel then also segments
 * before. */
mk_must_check int mk_offload_checksums_off(const char *device, struct mk_error *err);
/* Does the device finish checksums? Returns 1, 0 or an error. */
mk_must_check int mk_offload_checksums(const char *device, struct mk_error *err);

#endif

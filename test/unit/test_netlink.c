// SPDX-License-Identifier: Apache-2.0
/* Every request of base/netlink/netlink.h against the kernel, in a separate network namespace. */
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/netlink/netlink.h"
#include "unit/unit.h"

static struct mk_nl *nl;
static struct mk_error err;

static void setup(void)
{
	ck_assert_msg(unshare(CLONE_NEWNET) == 0, "unshare: %s (needs root)", strerror(errno));
	nl = mk_nl_open(&err);
	ck_assert_msg(nl != NULL, "%s", mk_error_text(&err));
}

static void teardown(void)
{
	mk_nl_free(nl);
}

struct seen {
	int count, stop_after;
	struct mk_nl_addr addr;
	struct mk_nl_route route;
	struct mk_mac mac;
	struct mk_ip ip;
	bool permanent;
	char names[512];
};

static int see(struct seen *seen)
{
	seen->count++;
	return seen->stop_after && seen->count >= seen->stop_after ? -ECANCELED : 0;
}

static int add_veth(const char *name, const char *peer, int peer_netns_fd)
{
	const struct mk_veth veth = {
		.name = name,
		.mac = mac_of("02:00:00:00:00:01"),
		.peer_name = peer,
		.peer_mac = mac_of("02:00:00:00:00:02"),
		.peer_netns_fd = peer_netns_fd,
		.mtu_bytes = 1450,
	};

	return mk_nl_veth_add(nl, &veth, &err);
}

static int ifindex_of(const char *name)
{
	struct mk_link link;

	ck_ok(mk_nl_link_get(nl, name, &link, &err));
	return link.ifindex;
}

static int new_veth_up(void)
{
	const struct mk_link_change up = { .set_flags = IFF_UP };

	ck_ok(add_veth("v0", "v1", -1));
	ck_ok(mk_nl_link_change(nl, ifindex_of("v0"), &up, &err));
	ck_ok(mk_nl_link_change(nl, ifindex_of("v1"), &up, &err));
	return ifindex_of("v0");
}

/* ---- links ----------------------------------------------------------------------------------- */

START_TEST(test_veth)
{
	const struct mk_mac mac = mac_of("02:00:00:00:00:01"), peer = mac_of("02:00:00:00:00:02");
	struct mk_link a, b;

	ck_ok(add_veth("v0", "v1", -1));
	ck_ok(mk_nl_link_get(nl, "v0", &a, &err));
	ck_ok(mk_nl_link_get(nl, "v1", &b, &err));
	ck_assert_str_eq(a.name, "v0");
	ck_assert_str_eq(a.kind, "veth");
	ck_assert_int_eq(a.peer_ifindex, b.ifindex);
	ck_assert_int_eq(b.peer_ifindex, a.ifindex);
	ck_assert_int_eq(a.peer_netns, -1);
	ck_assert_mem_eq(&a.mac, &mac, sizeof(mac));
	ck_assert_mem_eq(&b.mac, &peer, sizeof(peer));
	ck_assert_uint_eq(a.mtu_bytes, 1450);
	ck_assert_uint_eq(b.mtu_bytes, 1450);
	ck_assert_uint_eq(a.flags & IFF_UP, 0);
	ck_ok(mk_nl_link_get_index(nl, b.ifindex, &a, &err));
	ck_assert_str_eq(a.name, "v1");
}
END_TEST

/* The kernel may also send packets on a new interface (IPv6 looks for neighbours). */
START_TEST(test_traffic)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET };
	struct mk_link_traffic before, after, peer;
	char frame[100] = { 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5 };
	cleanup_close int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	to.sll_ifindex = new_veth_up();
	ck_ok(mk_nl_link_traffic(nl, to.sll_ifindex, &before, &err));
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(sendto(fd, frame, sizeof(frame), 0, (struct sockaddr *)&to,
					sizeof(to)),
				 sizeof(frame));
	ck_ok(mk_nl_link_traffic(nl, to.sll_ifindex, &after, &err));
	ck_ok(mk_nl_link_traffic(nl, ifindex_of("v1"), &peer, &err));
	ck_assert_uint_ge(after.tx_packets, before.tx_packets + 3);
	ck_assert_uint_ge(after.tx_bytes, before.tx_bytes + 300);
	ck_assert_uint_ge(peer.rx_packets, 3);
	ck_assert_uint_ge(peer.rx_bytes, 300);
	ck_assert_int_eq(mk_nl_link_traffic(nl, 12345, &after, &err), -ENODEV);
}
END_TEST

START_TEST(test_veth_taken)
{
	ck_ok(add_veth("v0", "v1", -1));
	ck_assert_int_eq(add_veth("v0", "v2", -1), -EEXIST);
	ck_assert_ptr_nonnull(strstr(err.text, "'v0'"));
	ck_assert_int_eq(add_veth("v3", "v1", -1), -EEXIST);
}
END_TEST

START_TEST(test_veth_into_netns)
{
	cleanup_close int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	cleanup_close int other = -1;
	cleanup_nl struct mk_nl *there = NULL;
	struct mk_link link;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	other = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(setns(home, CLONE_NEWNET), 0);
	there = mk_nl_open_in(nl, other, &err);
	ck_assert_msg(there != NULL, "%s", mk_error_text(&err));

	ck_ok(add_veth("v0", "eth0", other));
	ck_assert_int_eq(mk_nl_link_get(nl, "eth0", &link, &err), -ENODEV);
	ck_ok(mk_nl_link_get(there, "eth0", &link, &err));
	ck_assert_uint_eq(link.mtu_bytes, 1450);
	/* the thread has returned: a handle opened now sees v0 */
	mk_nl_free(there);
	there = mk_nl_open(&err);
	ck_ok(mk_nl_link_get(there, "v0", &link, &err));
	ck_assert_int_ge(link.peer_netns, 0);
}
END_TEST

START_TEST(test_link_missing)
{
	struct mk_link link;

	ck_assert_int_eq(mk_nl_link_get(nl, "absent", &link, &err), -ENODEV);
	ck_assert_int_eq(err.code, ENODEV);
	ck_assert_ptr_nonnull(strstr(err.text, "absent"));
	ck_assert_int_eq(mk_nl_link_get(nl, "absent", &link, NULL), -ENODEV);
	ck_assert_int_eq(mk_nl_link_get_index(nl, 4711, &link, &err), -ENODEV);
	ck_ok(mk_nl_link_delete(nl, "absent", &err));
}
END_TEST

START_TEST(test_link_change_delete)
{
	const struct mk_mac mac = mac_of("02:00:00:00:00:09");
	const struct mk_link_change change = {
		.mtu_bytes = 1400,
		.mac = &mac,
		.set_flags = IFF_UP | IFF_NOARP,
	};
	const struct mk_link_change down = { .clear_flags = IFF_UP };
	struct mk_link link;

	ck_ok(add_veth("v0", "v1", -1));
	ck_ok(mk_nl_link_change(nl, ifindex_of("v0"), &change, &err));
	ck_ok(mk_nl_link_get(nl, "v0", &link, &err));
	ck_assert_uint_eq(link.mtu_bytes, 1400);
	ck_assert_mem_eq(&link.mac, &mac, sizeof(mac));
	ck_assert_uint_eq(link.flags & (IFF_UP | IFF_NOARP), IFF_UP | IFF_NOARP);
	ck_ok(mk_nl_link_change(nl, link.ifindex, &down, &err));
	ck_ok(mk_nl_link_get(nl, "v0", &link, &err));
	ck_assert_uint_eq(link.flags & (IFF_UP | IFF_NOARP), IFF_NOARP);
	ck_ok(mk_nl_link_delete(nl, "v0", &err));
	ck_assert_int_eq(mk_nl_link_get(nl, "v1", &link, &err), -ENODEV);
}
END_TEST

/* Is the address on interface v0, or on v1? */
static int see_link_local(void *ctx, const struct mk_nl_addr *addr)
{
	bool *on = ctx;

	on[addr->ifindex == ifindex_of("v1")] = true;
	return 0;
}

/* The kernel makes no link-local address for a device with this mode before it goes up. The
 * other end shows when the kernel has made its own. */
START_TEST(test_no_link_local)
{
	const struct mk_link_change quiet = { .no_link_local = true };
	const struct mk_link_change up = { .set_flags = IFF_UP };
	bool on[2] = { false, false };
	struct mk_link link;

	ck_ok(add_veth("v0", "v1", -1));
	ck_ok(mk_nl_link_get(nl, "v0", &link, &err));
	ck_assert(link.ipv6.exists && !link.ipv6.disabled && !link.ipv6.no_link_local);
	ck_ok(mk_nl_link_change(nl, link.ifindex, &quiet, &err));
	ck_ok(mk_nl_link_change(nl, link.ifindex, &up, &err));
	ck_ok(mk_nl_link_change(nl, ifindex_of("v1"), &up, &err));
	ck_ok(mk_nl_link_get(nl, "v0", &link, &err));
	ck_assert(link.ipv6.no_link_local);
	for (int i = 0; i < 1000 && !on[1]; i++) {
		usleep(10000);
		ck_ok(mk_nl_each_addr(nl, AF_INET6, see_link_local, on, &err));
	}
	ck_assert(on[1] && !on[0]);
}
END_TEST

START_TEST(test_kernel_text)
{
	struct mk_link_change change = { .mtu_bytes = 1000000 };

	ck_ok(add_veth("v0", "v1", -1));
	ck_assert_int_eq(mk_nl_link_change(nl, ifindex_of("v0"), &change, &err), -EINVAL);
	/* the extended ACK's text, not only strerror's */
	ck_assert_msg(strstr(err.text, "mtu greater than device maximum"), "%s", err.text);
}
END_TEST

static const char *const underlays[] = { "192.0.2.1", "2001:db8::1" };

START_TEST(test_vxlan)
{
	struct mk_vxlan vxlan = {
		.name = "mkvxlan",
		.id = 1,
		.port = 4789,
		.local = ip_of(underlays[_i]),
		.mac = mac_of("02:4d:0a:12:00:01"),
		.mtu_bytes = 1450 - (_i ? 70 : 50), /* the uplink's, less the overhead */
	};
	struct mk_link link;

	vxlan.uplink_ifindex = new_veth_up();
	ck_ok(mk_nl_vxlan_add(nl, &vxlan, &err));
	ck_ok(mk_nl_link_get(nl, "mkvxlan", &link, &err));
	ck_assert_str_eq(link.kind, "vxlan");
	ck_assert_uint_eq(link.vxlan_id, 1);
	ck_assert_uint_eq(link.vxlan_port, 4789);
	ck_assert(!link.vxlan_learning);
	ck_assert(!link.vxlan_zero_checksums);
	ck_assert(mk_ip_equal(&link.vxlan_local, &vxlan.local));
	ck_assert_uint_eq(link.mtu_bytes, vxlan.mtu_bytes);
	ck_assert_mem_eq(&link.mac, &vxlan.mac, sizeof(link.mac));
	ck_assert_int_eq(link.peer_ifindex, vxlan.uplink_ifindex);
	ck_assert_int_eq(mk_nl_vxlan_add(nl, &vxlan, &err), -EEXIST);
}
END_TEST

static int see_link(void *ctx, const struct mk_link *link)
{
	struct seen *seen = ctx;

	strncat(seen->names, link->name, sizeof(seen->names) - strlen(seen->names) - 1);
	strncat(seen->names, " ", sizeof(seen->names) - strlen(seen->names) - 1);
	return see(seen);
}

START_TEST(test_each_link)
{
	struct seen all = { 0 }, one = { .stop_after = 1 };

	ck_ok(add_veth("v0", "v1", -1));
	ck_ok(mk_nl_each_link(nl, see_link, &all, &err));
	ck_assert_ptr_nonnull(strstr(all.names, "lo "));
	ck_assert_ptr_nonnull(strstr(all.names, "v0 "));
	ck_assert_ptr_nonnull(strstr(all.names, "v1 "));
	ck_assert_int_eq(mk_nl_each_link(nl, see_link, &one, &err), -ECANCELED);
	ck_assert_int_eq(one.count, 1);
}
END_TEST

START_TEST(test_master)
{
	const struct mk_mac mac = mac_of("02:00:00:00:00:07");
	struct mk_link link;

	ck_ok(add_veth("v0", "v1", -1));
	ck_ok(mk_nl_bridge_add(nl, "br7", &mac, &err));
	ck_assert_int_eq(system("PATH=$PATH:/usr/sbin:/sbin; ip link set v0 master br7"), 0);
	ck_ok(mk_nl_link_get(nl, "v0", &link, &err));
	ck_assert_str_eq(link.master_kind, "bridge");
	ck_assert_int_eq(link.master_ifindex, (int)if_nametoindex("br7"));
	ck_ok(mk_nl_link_get(nl, "v1", &link, &err));
	ck_assert_str_eq(link.master_kind, "");
}
END_TEST

static int delete_link(void *ctx, const struct mk_link *link)
{
	int *deleted = ctx;

	if (strncmp(link->name, "a", 1) != 0)
		return 0;
	(*deleted)++;
	return mk_nl_link_delete(nl, link->name, &err);
}

/* A list longer than one receive buffer, and a visitor that uses the same handle. */
START_TEST(test_each_link_many)
{
	int deleted = 0;

	for (int i = 0; i < 60; i++) {
		char a[16], b[16];

		snprintf(a, sizeof(a), "a%d", i);
		snprintf(b, sizeof(b), "b%d", i);
		ck_ok(add_veth(a, b, -1));
	}
	ck_ok(mk_nl_each_link(nl, delete_link, &deleted, &err));
	ck_assert_int_eq(deleted, 60);
	deleted = 0;
	ck_ok(mk_nl_each_link(nl, delete_link, &deleted, &err));
	ck_assert_int_eq(deleted, 0);
}
END_TEST

/* ---- addresses, routes ----------------------------------------------------------------------- */

static int see_addr(void *ctx, const struct mk_nl_addr *addr)
{
	struct seen *seen = ctx;

	/* the kernel's own link-local address of IPv6 */
	if (addr->ifindex != ifindex_of("v0") ||
	    (addr->cidr.ip.family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->cidr.ip.v6)))
		return 0;
	seen->addr = *addr;
	return see(seen);
}

static const struct {
	const char *text;
	uint32_t flags;
	uint32_t preferred_s;
} addrs[] = {
	{ "10.244.1.2/32", 0, UINT32_MAX },
	{ "fd00:10:244:1::2/128", IFA_F_NODAD, UINT32_MAX },
	{ "fd00:10:244:1::3fe/128", IFA_F_NODAD | IFA_F_DEPRECATED, 0 },
};

START_TEST(test_addr)
{
	struct mk_nl_addr addr = { .cidr = cidr_of(addrs[_i].text), .flags = addrs[_i].flags };
	sa_family_t family = addr.cidr.ip.family;
	struct seen seen = { 0 };

	addr.ifindex = new_veth_up();
	ck_ok(mk_nl_addr_add(nl, &addr, &err));
	ck_ok(mk_nl_addr_add(nl, &addr, &err));
	ck_ok(mk_nl_each_addr(nl, family, see_addr, &seen, &err));
	ck_assert_int_eq(seen.count, 1);
	ck_assert(mk_cidr_equal(&seen.addr.cidr, &addr.cidr));
	ck_assert_uint_eq(seen.addr.flags, addrs[_i].flags | IFA_F_PERMANENT);
	ck_assert_uint_eq(seen.addr.preferred_s, addrs[_i].preferred_s);
	ck_assert_uint_eq(seen.addr.valid_s, UINT32_MAX);
	ck_ok(mk_nl_addr_delete(nl, addr.ifindex, &addr.cidr, &err));
	ck_ok(mk_nl_addr_delete(nl, addr.ifindex, &addr.cidr, &err));
	seen.count = 0;
	ck_ok(mk_nl_each_addr(nl, family, see_addr, &seen, &err));
	ck_assert_int_eq(seen.count, 0);
	addr.ifindex = 4711;
	ck_assert_int_eq(mk_nl_addr_add(nl, &addr, &err), -ENODEV);
}
END_TEST

/* An address that another process added is made deprecated. */
START_TEST(test_addr_flags)
{
	struct mk_nl_addr addr = { .cidr = cidr_of("fd4d:4b00:12::1/128") };
	struct seen seen = { 0 };

	addr.ifindex = new_veth_up();
	ck_ok(mk_nl_addr_add(nl, &addr, &err));
	addr.flags = IFA_F_NODAD | IFA_F_DEPRECATED;
	ck_ok(mk_nl_addr_add(nl, &addr, &err));
	ck_ok(mk_nl_each_addr(nl, AF_INET6, see_addr, &seen, &err));
	ck_assert_int_eq(seen.count, 1);
	ck_assert_uint_eq(seen.addr.flags & IFA_F_DEPRECATED, IFA_F_DEPRECATED);
	ck_ok(mk_nl_each_addr(nl, AF_INET, see_addr, &seen, &err));
	ck_assert_int_eq(seen.count, 1);
}
END_TEST

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct seen *seen = ctx;

	if (route->protocol != MK_RTPROT)
		return 0;
	seen->route = *route;
	return see(seen);
}

static const struct {
	const char *name, *dst, *gateway, *source;
	bool onlink;
	uint32_t mtu_bytes, table;
} routes[] = {
	{ "link scope", "10.244.1.0/24", NULL, NULL, false, 0, 0 },
	{ "preferred source", "10.244.1.0/24", NULL, "10.18.0.1", false, 0, 0 },
	{ "onlink gateway", "10.244.2.0/24", "10.18.0.2", "10.18.0.1", true, 0, 0 },
	{ "default, onlink", "0.0.0.0/0", "10.244.1.254", NULL, true, 0, 0 },
	{ "with MTU", "10.244.3.0/24", "10.18.0.3", NULL, true, 1400, 0 },
	{ "IPv6: link scope", "fd00:10:244:1::3fe/128", NULL, NULL, false, 0, 0 },
	{ "IPv6: preferred source", "fd00:10:244:1::/64", NULL, "fd4d:4b00:12::1", false, 0, 0 },
	{ "IPv6: onlink gateway", "fd00:10:244:2::/64", "fd4d:4b00:12::2", "fd4d:4b00:12::1", true,
	  0, 0 },
	{ "IPv6: default, onlink", "::/0", "fd00:10:244:1::3fe", NULL, true, 0, 0 },
	{ "IPv6: with MTU", "fd00:10:244::/48", "fd00:10:244:1::3fe", NULL, true, 1430, 0 },
	{ "IPv6: another table", "::/0", "fd00:10:244:1::3fe", NULL, true, 1500, 77 },
};

static int see_none(void *ctx, const struct mk_nl_route *route)
{
	(void)ctx;
	(void)route;
	return -EEXIST;
}

/* A new namespace does not even have the table. */
START_TEST(test_route_none)
{
	ck_ok(mk_nl_each_route(nl, AF_INET, see_none, NULL, &err));
	ck_ok(mk_nl_each_route(nl, AF_INET6, see_none, NULL, &err));
}
END_TEST

/* The addresses of the rows' preferred sources. */
static void own_addresses(int ifindex)
{
	const struct mk_nl_addr v4 = { .ifindex = ifindex, .cidr = cidr_of("10.18.0.1/32") };
	const struct mk_nl_addr v6 = { .ifindex = ifindex,
				       .cidr = cidr_of("fd4d:4b00:12::1/128"),
				       .flags = IFA_F_NODAD | IFA_F_DEPRECATED };

	ck_ok(mk_nl_addr_add(nl, &v4, &err));
	ck_ok(mk_nl_addr_add(nl, &v6, &err));
}

START_TEST(test_route)
{
	struct mk_nl_route route = {
		.dst = cidr_of(routes[_i].dst),
		.table = routes[_i].table,
		.onlink = routes[_i].onlink,
		.mtu_bytes = routes[_i].mtu_bytes,
		.protocol = MK_RTPROT,
	};
	const char *name = routes[_i].name;
	sa_family_t family = route.dst.ip.family;
	struct seen seen = { 0 };

	route.ifindex = new_veth_up();
	own_addresses(route.ifindex);
	if (routes[_i].gateway)
		route.gateway = ip_of(routes[_i].gateway);
	if (routes[_i].source)
		route.source = ip_of(routes[_i].source);
	ck_ok(mk_nl_route_put(nl, &route, &err));
	ck_ok(mk_nl_route_put(nl, &route, &err));
	ck_ok(mk_nl_each_route_of(nl, family, route.table, see_route, &seen, &err));
	ck_assert_msg(seen.count == 1, "%s: %d routes", name, seen.count);
	ck_assert_msg(mk_cidr_equal(&seen.route.dst, &route.dst), "%s", name);
	ck_assert_msg(seen.route.ifindex == route.ifindex, "%s", name);
	ck_assert_msg(mk_ip_equal(&seen.route.gateway, &route.gateway), "%s", name);
	ck_assert_msg(mk_ip_equal(&seen.route.source, &route.source), "%s", name);
	ck_assert_msg(seen.route.onlink == route.onlink, "%s", name);
	ck_assert_msg(seen.route.mtu_bytes == route.mtu_bytes, "%s", name);
	ck_ok(mk_nl_route_delete(nl, &route, &err));
	ck_ok(mk_nl_route_delete(nl, &route, &err));
	seen.count = 0;
	ck_ok(mk_nl_each_route_of(nl, family, route.table, see_route, &seen, &err));
	ck_assert_msg(seen.count == 0, "%s: still there", name);
}
END_TEST

static const struct {
	const char *dst, *gateway, *next;
} replaced[] = {
	{ "10.244.2.0/24", "10.18.0.2", "10.18.0.7" },
	{ "fd00:10:244:2::/64", "fd4d:4b00:12::2", "fd4d:4b00:12::7" },
	{ "fd00:10:244:2::/64", NULL, "fd4d:4b00:12::7" },
	{ "fd00:10:244:2::/64", "fd4d:4b00:12::2", NULL },
};

START_TEST(test_route_replace)
{
	struct mk_nl_route route = { .dst = cidr_of(replaced[_i].dst), .protocol = MK_RTPROT };
	const char *const gateways[] = { replaced[_i].gateway, replaced[_i].next };
	struct seen seen = { 0 };

	route.ifindex = new_veth_up();
	own_addresses(route.ifindex);
	for (size_t i = 0; i < MK_ARRAY_SIZE(gateways); i++) {
		route.gateway = gateways[i] ? ip_of(gateways[i]) : (struct mk_ip){ 0 };
		route.onlink = gateways[i] != NULL;
		ck_ok(mk_nl_route_put(nl, &route, &err));
	}
	ck_ok(mk_nl_each_route(nl, route.dst.ip.family, see_route, &seen, &err));
	ck_assert_int_eq(seen.count, 1);
	ck_assert(mk_ip_equal(&seen.route.gateway, &route.gateway));
}
END_TEST

/* The host's own way to an address, and the ways and rules of either family. */
START_TEST(test_route_to)
{
	struct mk_nl_route route = { .dst = cidr_of("fd00:10:244:2::/64"),
				     .gateway = ip_of("fd4d:4b00:12::2"),
				     .onlink = true,
				     .protocol = MK_RTPROT };
	const struct mk_nl_rule rule = { .from = ip_of("fd00:10:244:1::2"), .table = 77 };
	const struct mk_ip to = ip_of("fd00:10:244:2::5");
	struct mk_nl_route found;
	struct seen seen = { 0 };
	bool has;

	route.ifindex = new_veth_up();
	own_addresses(route.ifindex);
	ck_ok(mk_nl_route_put(nl, &route, &err));
	ck_ok(mk_nl_route_to(nl, &to, &found, &err));
	ck_assert_int_eq(found.ifindex, route.ifindex);
	ck_assert(mk_ip_equal(&found.gateway, &route.gateway));
	ck_ok(mk_nl_each_way(nl, AF_INET6, see_route, &seen, &err));
	ck_assert_int_eq(seen.count, 1);
	ck_ok(mk_nl_each_way(nl, AF_INET, see_route, &seen, &err));
	ck_assert_int_eq(seen.count, 1);
	ck_ok(mk_nl_has_rules(nl, AF_INET6, &has, &err));
	ck_assert(!has);
	ck_ok(mk_nl_rule_add(nl, &rule, &err));
	ck_ok(mk_nl_has_rules(nl, AF_INET6, &has, &err));
	ck_assert(has);
	ck_ok(mk_nl_has_rules(nl, AF_INET, &has, &err));
	ck_assert(!has);
}
END_TEST

/* ---- neighbours, FDB ------------------------------------------------------------------------- */

/* The kernel adds neighbours of its own, which are not permanent. */
static int see_neigh(void *ctx, const struct mk_ip *ip, const struct mk_mac *mac, bool permanent)
{
	struct seen *seen = ctx;

	if (!permanent)
		return 0;
	seen->ip = *ip;
	seen->mac = *mac;
	seen->permanent = permanent;
	return see(seen);
}

static const char *const neighbours[] = { "10.244.1.254", "fd00:10:244:1::3fe" };

START_TEST(test_neigh)
{
	struct mk_mac mac = mac_of("02:4d:0a:f4:01:fe"), next = mac_of("02:4d:0a:f4:01:ff");
	struct mk_ip ip = ip_of(neighbours[_i]);
	int ifindex = new_veth_up();
	struct seen seen = { 0 };

	ck_ok(mk_nl_neigh_put(nl, ifindex, &ip, &mac, &err));
	ck_ok(mk_nl_neigh_put(nl, ifindex, &ip, &next, &err));
	ck_ok(mk_nl_each_neigh(nl, ip.family, ifindex, see_neigh, &seen, &err));
	ck_assert_int_eq(seen.count, 1);
	ck_assert(mk_ip_equal(&seen.ip, &ip));
	ck_assert_mem_eq(&seen.mac, &next, sizeof(next));
	ck_assert(seen.permanent);
	ck_assert_int_eq(system("ip -6 neigh show | grep PERMANENT | grep -qv router"), 1 << 8);
	ck_ok(mk_nl_neigh_delete(nl, ifindex, &ip, &err));
	ck_ok(mk_nl_neigh_delete(nl, ifindex, &ip, &err));
	seen.count = 0;
	ck_ok(mk_nl_each_neigh(nl, ip.family, ifindex, see_neigh, &seen, &err));
	ck_assert_int_eq(seen.count, 0);
}
END_TEST

struct seen_fdb {
	struct mk_nl_fdb last;
	int count;
};

static int see_fdb(void *ctx, const struct mk_nl_fdb *fdb)
{
	struct seen_fdb *seen = ctx;

	seen->last = *fdb;
	seen->count++;
	return 0;
}

static struct seen_fdb fdb_of(int ifindex)
{
	struct seen_fdb seen = { 0 };

	ck_ok(mk_nl_each_fdb(nl, ifindex, see_fdb, &seen, &err));
	return seen;
}

START_TEST(test_fdb)
{
	const struct mk_vxlan vxlan = {
		.name = "mkvxlan",
		.id = 1,
		.port = 4789,
		.local = ip_of(underlays[_i]),
		.mac = mac_of("02:4d:0a:12:00:01"),
	};
	struct mk_nl_fdb entry = { mac_of("02:4d:0a:12:00:02"),
				   ip_of(_i ? "2001:db8::2" : "192.0.2.2"), 0, 0 };
	struct seen_fdb seen;
	int ifindex;

	ck_ok(mk_nl_vxlan_add(nl, &vxlan, &err));
	ifindex = ifindex_of("mkvxlan");
	ck_ok(mk_nl_fdb_put(nl, ifindex, &entry, &err));
	entry.remote = ip_of(_i ? "2001:db8::3" : "192.0.2.3");
	ck_ok(mk_nl_fdb_put(nl, ifindex, &entry, &err));
	seen = fdb_of(ifindex);
	ck_assert_int_eq(seen.count, 1);
	ck_assert(mk_ip_equal(&seen.last.remote, &entry.remote));
	ck_assert_mem_eq(&seen.last.mac, &entry.mac, sizeof(entry.mac));
	ck_assert_uint_eq(seen.last.port, 0);
	/* another port replaces the entry, and has to be named to delete it */
	entry.port = 8472;
	ck_ok(mk_nl_fdb_put(nl, ifindex, &entry, &err));
	seen = fdb_of(ifindex);
	ck_assert_int_eq(seen.count, 1);
	ck_assert_uint_eq(seen.last.port, 8472);
	ck_ok(mk_nl_fdb_delete(nl, ifindex, &entry, &err));
	ck_ok(mk_nl_fdb_delete(nl, ifindex, &entry, &err));
	ck_assert_int_eq(fdb_of(ifindex).count, 0);
	/* the kernel does not show the device's own port */
	entry.port = vxlan.port;
	ck_ok(mk_nl_fdb_put(nl, ifindex, &entry, &err));
	ck_assert_uint_eq(fdb_of(ifindex).last.port, 0);
}
END_TEST

START_TEST(test_bad_netns)
{
	cleanup_close int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cleanup_close int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	ck_assert_ptr_null(mk_nl_open_in(nl, fd, &err));
	ck_assert_int_eq(err.code, EINVAL);
	ck_assert_ptr_null(mk_nl_open_in(nl, own, &err));
	ck_assert_int_eq(err.code, EEXIST);
}
END_TEST

UNIT_SUITE("netlink")
{
	TCase *tc = unit_case(suite, "requests", setup, teardown);

	tcase_add_test(tc, test_veth);
	tcase_add_test(tc, test_traffic);
	tcase_add_test(tc, test_veth_taken);
	tcase_add_test(tc, test_veth_into_netns);
	tcase_add_test(tc, test_link_missing);
	tcase_add_test(tc, test_link_change_delete);
	tcase_add_test(tc, test_no_link_local);
	tcase_add_test(tc, test_kernel_text);
	tcase_add_loop_test(tc, test_vxlan, 0, MK_ARRAY_SIZE(underlays));
	tcase_add_test(tc, test_each_link);
	tcase_add_test(tc, test_master);
	tcase_add_test(tc, test_each_link_many);
	tcase_add_loop_test(tc, test_addr, 0, MK_ARRAY_SIZE(addrs));
	tcase_add_test(tc, test_addr_flags);
	tcase_add_test(tc, test_route_none);
	tcase_add_loop_test(tc, test_route, 0, MK_ARRAY_SIZE(routes));
	tcase_add_loop_test(tc, test_route_replace, 0, MK_ARRAY_SIZE(replaced));
	tcase_add_test(tc, test_route_to);
	tcase_add_loop_test(tc, test_neigh, 0, MK_ARRAY_SIZE(neighbours));
	tcase_add_loop_test(tc, test_fdb, 0, MK_ARRAY_SIZE(underlays));
	tcase_add_test(tc, test_bad_netns);
}

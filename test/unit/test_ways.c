// SPDX-License-Identifier: Apache-2.0
/* Which devices carry traffic out of the cluster, and must the host's routing be asked? In a
 * network namespace with the devices, routes and rules of one row. */
#include <check.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "unit/unit.h"

#define STORAGE                                                             \
	"ip link add stor0 type veth peer name far1; ip link set far1 up\n" \
	"ip addr add 10.50.0.1/24 dev stor0; ip link set stor0 up\n"

/* A second network, of IPv6. */
#define STORAGE6                                                            \
	"ip link add stor0 type veth peer name far1; ip link set far1 up\n" \
	"ip addr add 2001:db8:50::1/64 dev stor0 nodad; ip link set stor0 up\n"

struct row {
	const char *name, *commands, *named, *expected;
};

static const struct row rows[] = {
	{ "one device and a default route", "", "", "eth0 192.168.99.11" },
	{ "a second network", STORAGE, "", "eth0 192.168.99.11, stor0 10.50.0.1 side, asks" },
	{ "a second default route", STORAGE "ip route add default via 10.50.0.2 metric 500", "",
	  "eth0 192.168.99.11, stor0 10.50.0.1, asks" },
	{ "a default route of another table, without a rule",
	  "ip tuntap add tun0 mode tun; ip link set tun0 up\n"
	  "ip route add default dev tun0 table 100",
	  "", "eth0 192.168.99.11" },
	{ "a default route of another table, with a rule",
	  STORAGE "ip route add default via 10.50.0.2 table 100; ip rule add fwmark 1 lookup 100",
	  "", "eth0 192.168.99.11, stor0 10.50.0.1, asks" },
	{ "a rule alone", "ip rule add from 10.244.1.3 lookup 100", "",
	  "eth0 192.168.99.11, asks" },
	{ "a tunnel",
	  "ip tuntap add tun0 mode tun; ip addr add 10.77.0.1/24 dev tun0; ip link set tun0 up", "",
	  "eth0 192.168.99.11, tun0 10.77.0.1 tunnel side, asks" },
	{ "a route by a device without address",
	  "ip tuntap add tun0 mode tun; ip link set tun0 up; ip route add 10.78.0.0/16 dev tun0",
	  "", "eth0 192.168.99.11, tun0 192.168.99.11 tunnel side, asks" },
	{ "no default route", "ip route del default", "", "eth0 192.168.99.11, asks" },
	{ "a blackhole", "ip route add blackhole 198.51.104.0/24", "", "eth0 192.168.99.11, asks" },
	{ "two ways of one route",
	  "ip route add 198.51.100.0/24 nexthop via 192.168.99.7 nexthop via 192.168.99.8", "",
	  "eth0 192.168.99.11, asks" },
	{ "a route with a source of its own",
	  "ip addr add 192.168.99.12/24 dev eth0\n"
	  "ip route add 198.51.100.0/24 via 192.168.99.7 src 192.168.99.12",
	  "", "eth0 192.168.99.11, asks" },
	{ "a second address of the same network", "ip addr add 192.168.99.12/24 dev eth0", "",
	  "eth0 192.168.99.11" },
	{ "more routes by the one device", "ip route add 198.51.100.0/24 via 192.168.99.7", "",
	  "eth0 192.168.99.11" },
	{ "an address on the loopback device", "ip addr add 203.0.113.99/32 dev lo", "",
	  "eth0 192.168.99.11" },
	{ "what another network plugin left of the cluster's range",
	  "ip link add cni0 type bridge; ip addr add 10.244.1.1/24 dev cni0; ip link set cni0 up",
	  "", "eth0 192.168.99.11" },
	{ "our own routes",
	  "ip link add mkhost0 type veth peer name mkhost1; ip link set mkhost0 up\n"
	  "ip link set mkhost1 up; ip route add 10.96.0.1 dev mkhost0 proto 77",
	  "", "eth0 192.168.99.11" },
	{ "a pod's device to which a DHCP client gave an address",
	  "ip link add mkabcdefghijk type veth peer name far1; ip link set mkabcdefghijk up\n"
	  "ip link set far1 up; ip addr add 169.254.6.5/16 dev mkabcdefghijk",
	  "", "eth0 192.168.99.11, asks" },
	{ "the same of a function pod's port",
	  "ip link add in0 address 06:4d:01:00:00:01 type veth peer name far1\n"
	  "ip link set in0 up; ip link set far1 up; ip addr add 169.254.6.5/16 dev in0",
	  "", "eth0 192.168.99.11, asks" },
	{ "named", STORAGE, "eth0", "eth0 192.168.99.11, asks" },
	{ "a network and rules of IPv6", STORAGE6 "ip -6 rule add from 2001:db8::1 lookup 100", "",
	  "eth0 192.168.99.11" },
};

static const struct row rows6[] = {
	{ "one device and a default route", "", "", "eth0 2001:db8:99::11" },
	{ "a second network", STORAGE6, "",
	  "eth0 2001:db8:99::11, stor0 2001:db8:50::1 side, asks" },
	{ "a second default route",
	  STORAGE6 "ip -6 route add default via 2001:db8:50::2 metric 500", "",
	  "eth0 2001:db8:99::11, stor0 2001:db8:50::1, asks" },
	{ "a next hop that is link-local",
	  "ip -6 route del default; ip -6 route add default via fe80::1 dev eth0", "",
	  "eth0 2001:db8:99::11" },
	{ "a device with a link-local address alone",
	  "ip link add stor0 type veth peer name far1; ip link set far1 up; ip link set stor0 up\n"
	  "ip addr add fe80::77/64 dev stor0 nodad",
	  "", "eth0 2001:db8:99::11" },
	{ "a rule alone", "ip -6 rule add from fd00:10:244:1::3 lookup 100", "",
	  "eth0 2001:db8:99::11, asks" },
	{ "a network and rules of IPv4", STORAGE "ip rule add fwmark 1 lookup 100", "",
	  "eth0 2001:db8:99::11" },
	{ "no default route", "ip -6 route del default", "", "eth0 2001:db8:99::11, asks" },
	{ "a blackhole", "ip -6 route add blackhole 2001:db8:104::/48", "",
	  "eth0 2001:db8:99::11, asks" },
	{ "two ways of one route",
	  "ip -6 route add 2001:db8:100::/48 nexthop via 2001:db8:99::7"
	  " nexthop via 2001:db8:99::8",
	  "", "eth0 2001:db8:99::11, asks" },
	{ "a tunnel",
	  "ip tuntap add tun0 mode tun; ip addr add 2001:db8:77::1/64 dev tun0 nodad\n"
	  "ip link set tun0 up",
	  "", "eth0 2001:db8:99::11, tun0 2001:db8:77::1 tunnel side, asks" },
	{ "a second address of the same network", "ip addr add 2001:db8:99::12/64 dev eth0 nodad",
	  "", "eth0 2001:db8:99::11" },
	{ "a unique local address beside it", "ip addr add fd77::12/64 dev eth0 nodad", "",
	  "eth0 2001:db8:99::11 and fd77::12" },
	{ "what another network plugin left of the cluster's range",
	  "ip link add cni0 type bridge; ip addr add fd00:10:244:1::1/64 dev cni0 nodad\n"
	  "ip link set cni0 up",
	  "", "eth0 2001:db8:99::11" },
	{ "our own routes",
	  "ip link add mkhost0 type veth peer name mkhost1; ip link set mkhost0 up\n"
	  "ip link set mkhost1 up; ip -6 route add fd00:10:96::1 dev mkhost0 proto 77",
	  "", "eth0 2001:db8:99::11" },
	{ "named", STORAGE6, "eth0", "eth0 2001:db8:99::11, asks" },
};

static void in_shell(const char *commands)
{
	char text[2048];

	snprintf(text, sizeof(text), "set -e; PATH=$PATH:/sbin:/usr/sbin; %s", commands);
	ck_assert_msg(system(text) == 0, "failed: %s", commands);
}

static void write_down(const struct mk_own_uplinks *found, unsigned family, char *text, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < found->count; i++) {
		const struct mk_own_uplink *uplink = &found->uplink[i];
		const struct mk_own_source *source = &uplink->source[family];
		char addr[MK_IP_STRLEN], local[MK_IP_STRLEN];
		bool has_local = source->addr_local.ip.family != AF_UNSPEC;

		used += (size_t)snprintf(text + used, size - used, "%s%s %s%s%s%s%s", i ? ", " : "",
					 uplink->link.name, mk_ip_format(&source->addr.ip, addr),
					 has_local ? " and " : "",
					 has_local ? mk_ip_format(&source->addr_local.ip, local)
						   : "",
					 uplink->flags & MK_UPLINK_TUNNEL ? " tunnel" : "",
					 uplink->flags & MK_UPLINK_SIDE ? " side" : "");
	}
	if (found->ask_host[family])
		snprintf(text + used, size - used, ", asks");
}

static void find_ways(const struct row *row, struct mk_config *config, const char *node)
{
	struct mk_ip address = ip_of(node);
	struct mk_node_object object = { .addresses = &address, .address_count = 1 };
	struct host_input input = { .config = config, .object = &object };
	const bool families[] = { address.family == AF_INET, address.family == AF_INET6 };
	cleanup_free struct host_address *addresses = NULL;
	struct mk_own_uplinks found;
	struct mk_error err = { 0 };
	char text[512] = "";

	object.internal_ips[mk_family_index(address.family)] = address;
	in_shell(row->commands);
	snprintf(config->uplinks, sizeof(config->uplinks), "%s", row->named);
	input.nl = mk_nl_open(&err);
	ck_assert_msg(input.nl != NULL, "%s", mk_error_text(&err));
	ck_assert_int_eq(read_addresses(input.nl, &addresses, &input.address_count, &err), 0);
	input.addresses = addresses;
	ck_assert_msg(find_uplinks(&input, families, &found, &err) == 0, "%s: %s", row->name,
		      mk_error_text(&err));
	write_down(&found, mk_family_index(address.family), text, sizeof(text));
	ck_assert_msg(strcmp(text, row->expected) == 0, "%s: expected '%s', seen '%s'", row->name,
		      row->expected, text);
	mk_nl_free(input.nl);
}

static void new_host(void)
{
	ck_assert_msg(unshare(CLONE_NEWNET) == 0, "needs root: %s", strerror(errno));
	in_shell("ip link set lo up; ip link add eth0 type veth peer name far0\n"
		 "ip link set eth0 up; ip link set far0 up");
}

/* The kernel of the tests may have no VRF. */
START_TEST(test_vrf)
{
	const struct mk_config config = { .vxlan_iface_name = "mkvxlan", .veth_prefix = "mk" };
	struct mk_link link = { .name = "eth7", .type = ARPHRD_ETHER, .mac = { { 2 } } };
	struct mk_error err = { 0 };

	ck_assert(can_be_uplink(&config, &link));
	ck_assert_int_eq(refuse_vrf(&link, "uplinkIfaceName", &err), 0);
	snprintf(link.master_kind, sizeof(link.master_kind), "bond");
	ck_assert(can_be_uplink(&config, &link));
	snprintf(link.master_kind, sizeof(link.master_kind), "vrf");
	link.master_ifindex = 7;
	ck_assert(!can_be_uplink(&config, &link));
	ck_assert_int_eq(refuse_vrf(&link, "uplinkIfaceName", &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(mk_error_text(&err), "ip link set eth7 nomaster"));
	*link.master_kind = '\0';
	link.master_ifindex = 0;
	snprintf(link.kind, sizeof(link.kind), "vrf");
	ck_assert(!can_be_uplink(&config, &link));
	ck_assert_int_eq(refuse_vrf(&link, "InternalIP 192.0.2.1", &err), -EINVAL);
	ck_assert_str_eq(
		mk_error_text(&err),
		"device 'eth7' (InternalIP 192.0.2.1) is a VRF, and pods cannot use the routes of a "
		"VRF: use a device outside of VRFs");
}
END_TEST

START_TEST(test_ways)
{
	struct mk_config config = { .cluster = ranges_of("10.244.0.0/16"),
				    .vteps = ranges_of("10.18.0.0/16"),
				    .underlay_family = AF_INET,
				    .vxlan_iface_name = "mkvxlan",
				    .veth_prefix = "mk" };

	new_host();
	in_shell("ip addr add 192.168.99.11/24 dev eth0; ip route add default via 192.168.99.1");
	find_ways(&rows[_i], &config, "192.168.99.11");
}
END_TEST

START_TEST(test_ways_of_ipv6)
{
	struct mk_config config = { .cluster = ranges_of("fd00:10:244::/48"),
				    .vteps = ranges_of("fd4d:4b00:12::/64"),
				    .underlay_family = AF_INET6,
				    .vxlan_iface_name = "mkvxlan",
				    .veth_prefix = "mk" };

	new_host();
	in_shell("ip addr add 2001:db8:99::11/64 dev eth0 nodad\n"
		 "ip -6 route add default via 2001:db8:99::1");
	find_ways(&rows6[_i], &config, "2001:db8:99::11");
}
END_TEST

/* ---- sources --------------------------------------------------------------------------------- */

#define PERMANENT IFA_F_PERMANENT
#define PRIVACY	  IFA_F_TEMPORARY

/* Addresses of the uplink, the newest first. The Node has the addresses 2001:db8:99::11 (its
 * InternalIP) and 2001:db8:99::12. */
static const struct {
	const char *name;
	struct {
		const char *addr;
		uint32_t flags;
	} addrs[6];
	const char *addr, *addr_local;
} sources[] = {
	{ "the InternalIP",
	  { { "2001:db8:1::1/64", PERMANENT }, { "2001:db8:99::11/64", PERMANENT } },
	  "2001:db8:99::11/64",
	  NULL },
	{ "the InternalIP, though deprecated",
	  { { "2001:db8:1::1/64", PERMANENT },
	    { "2001:db8:99::11/64", PERMANENT | IFA_F_DEPRECATED } },
	  "2001:db8:99::11/64",
	  NULL },
	{ "another address of the Node",
	  { { "2001:db8:1::1/64", PERMANENT }, { "2001:db8:99::12/128", PERMANENT } },
	  "2001:db8:99::12/128",
	  NULL },
	{ "the oldest of two",
	  { { "2001:db8:1::2/64", PERMANENT }, { "2001:db8:1::1/64", PERMANENT } },
	  "2001:db8:1::1/64",
	  NULL },
	{ "a permanent one before one with a lifetime",
	  { { "2001:db8:1::2/64", PERMANENT }, { "2001:db8:1::1/64", 0 } },
	  "2001:db8:1::2/64",
	  NULL },
	{ "one with a lifetime", { { "2001:db8:1::1/64", 0 } }, "2001:db8:1::1/64", NULL },
	{ "no temporary one",
	  { { "2001:db8:1::7/64", PRIVACY }, { "2001:db8:1::1/64", 0 } },
	  "2001:db8:1::1/64",
	  NULL },
	{ "no temporary one of the Node",
	  { { "2001:db8:99::12/64", PRIVACY }, { "2001:db8:1::1/64", 0 } },
	  "2001:db8:1::1/64",
	  NULL },
	{ "no deprecated one",
	  { { "2001:db8:1::2/64", IFA_F_DEPRECATED }, { "2001:db8:1::1/64", 0 } },
	  "2001:db8:1::1/64",
	  NULL },
	{ "no tentative InternalIP",
	  { { "2001:db8:99::11/64", PERMANENT | IFA_F_TENTATIVE }, { "2001:db8:1::1/64", 0 } },
	  "2001:db8:1::1/64",
	  NULL },
	{ "none that another host has",
	  { { "2001:db8:1::2/64", PERMANENT | IFA_F_TENTATIVE | IFA_F_DADFAILED },
	    { "2001:db8:1::1/64", 0 } },
	  "2001:db8:1::1/64",
	  NULL },
	{ "no link-local one", { { "fe80::1/64", PERMANENT } }, "2001:db8:99::11/128", NULL },
	{ "a global and a unique local one",
	  { { "fd77::1/64", PERMANENT }, { "2001:db8:1::1/64", PERMANENT } },
	  "2001:db8:1::1/64",
	  "fd77::1/64" },
	{ "only a unique local one", { { "fd77::1/64", PERMANENT } }, "fd77::1/64", "fd77::1/64" },
	{ "none of IPv4", { { "192.0.2.1/24", PERMANENT } }, "2001:db8:99::11/128", NULL },
	{ "none at all", { { NULL, 0 } }, "2001:db8:99::11/128", NULL },
};

struct host {
	struct mk_config config;
	struct mk_node_object object;
	struct mk_ip node[2];
	struct host_address addresses[16];
	struct host_input input;
};

static void make_host(struct host *host)
{
	*host = (struct host){ .config = { .cluster = ranges_of("fd00:10:244::/48") },
			       .node = { ip_of("2001:db8:99::11"), ip_of("2001:db8:99::12") } };
	host->object.internal_ips[mk_family_index(AF_INET6)] = host->node[0];
	host->object.addresses = host->node;
	host->object.address_count = MK_ARRAY_SIZE(host->node);
	host->input = (struct host_input){ .config = &host->config,
					   .family = AF_INET6,
					   .object = &host->object,
					   .addresses = host->addresses };
}

static void add_address(struct host *host, const char *addr, uint32_t flags)
{
	host->addresses[host->input.address_count++] =
		(struct host_address){ .ifindex = 2, .addr = cidr_of(addr), .flags = flags };
}

static const char *format(const struct mk_cidr *cidr)
{
	static char text[MK_CIDR_STRLEN];

	return cidr->ip.family == AF_UNSPEC ? "none" : mk_cidr_format(cidr, text);
}

START_TEST(test_sources)
{
	const char *local = sources[_i].addr_local ? sources[_i].addr_local : "none";
	struct mk_own_source source;
	struct host host;

	make_host(&host);
	for (size_t i = 0; sources[_i].addrs[i].addr; i++)
		add_address(&host, sources[_i].addrs[i].addr, sources[_i].addrs[i].flags);
	source = choose_sources(&host.input, 2);
	ck_assert_msg(strcmp(format(&source.addr), sources[_i].addr) == 0, "%s: %s",
		      sources[_i].name, format(&source.addr));
	ck_assert_msg(strcmp(format(&source.addr_local), local) == 0, "%s: local %s",
		      sources[_i].name, format(&source.addr_local));
}
END_TEST

/* Ten privacy addresses come and go, and age: the choice stays. */
START_TEST(test_privacy_addresses)
{
	struct mk_own_source first = { 0 }, source;
	struct host host;

	for (int i = 0; i < 10; i++) {
		char young[MK_CIDR_STRLEN], old[MK_CIDR_STRLEN];

		make_host(&host);
		snprintf(young, sizeof(young), "2001:db8:1::%x/64", 0x100 + i);
		snprintf(old, sizeof(old), "2001:db8:1::%x/64", 0xff + i);
		add_address(&host, young, PRIVACY);
		add_address(&host, old, PRIVACY | IFA_F_DEPRECATED);
		add_address(&host, "2001:db8:1::1/64", IFA_F_MANAGETEMPADDR);
		source = choose_sources(&host.input, 2);
		if (i == 0)
			first = source;
		ck_assert(mk_cidr_equal(&source.addr, &first.addr));
	}
	ck_assert_str_eq(format(&first.addr), "2001:db8:1::1/64");
}
END_TEST

/* ---- nodes on the link ----------------------------------------------------------------------- */

static const struct {
	const char *name, *ip;
	uint32_t flags; /* of the first uplink */
	bool is_down;
	const char *routed; /* a route by a gateway; NULL: none */
	int ifindex; /* expected; 0: on no link */
} links[] = {
	{ "in the network of the first uplink", "192.0.2.7", 0, false, NULL, 2 },
	{ "in that of the second one", "198.51.100.7", 0, false, NULL, 3 },
	{ "in neither", "203.0.113.7", 0, false, NULL, 0 },
	{ "this host's own address", "192.0.2.1", 0, false, NULL, 0 },
	{ "of the other family", "2001:db8::7", 0, false, NULL, 0 },
	{ "behind a tunnel", "192.0.2.7", MK_UPLINK_TUNNEL, false, NULL, 0 },
	{ "behind a device that is down", "192.0.2.7", 0, true, NULL, 0 },
	{ "with a route by a gateway", "192.0.2.7", 0, false, "192.0.2.4/30", 0 },
	{ "with a wider route by a gateway", "192.0.2.7", 0, false, "192.0.0.0/16", 2 },
	{ "beside a route by a gateway", "192.0.2.7", 0, false, "192.0.2.8/30", 2 },
};

START_TEST(test_links)
{
	struct mk_own_uplinks uplinks = { .count = 2 };
	struct mk_network network = { .kind = MK_NET_ROUTED };
	struct mk_networks networks = { .list = &network, .count = links[_i].routed ? 1 : 0 };
	const struct links_input input = { &uplinks, &networks, AF_INET };
	struct mk_own_uplink *first = &uplinks.uplink[0], *second = &uplinks.uplink[1];
	const struct mk_own_uplink *found;
	struct mk_ip ip = ip_of(links[_i].ip);

	first->link = (struct mk_link){ .ifindex = 2, .flags = links[_i].is_down ? 0 : IFF_UP };
	first->flags = links[_i].flags;
	first->source[0].addr = cidr_of("192.0.2.1/24");
	second->link = (struct mk_link){ .ifindex = 3, .flags = IFF_UP };
	second->source[0].addr = cidr_of("198.51.100.1/24");
	if (links[_i].routed)
		network.cidr = cidr_of(links[_i].routed);
	found = link_of(&input, &ip);
	ck_assert_msg((found ? found->link.ifindex : 0) == links[_i].ifindex, "%s: by %d",
		      links[_i].name, found ? found->link.ifindex : 0);
}
END_TEST

UNIT_SUITE("ways")
{
	TCase *tc = unit_case(suite, "ways", NULL, NULL);

	tcase_add_test(tc, test_vrf);
	tcase_add_loop_test(tc, test_ways, 0, MK_ARRAY_SIZE(rows));
	tcase_add_loop_test(tc, test_ways_of_ipv6, 0, MK_ARRAY_SIZE(rows6));
	tcase_add_loop_test(tc, test_sources, 0, MK_ARRAY_SIZE(sources));
	tcase_add_test(tc, test_privacy_addresses);
	tcase_add_loop_test(tc, test_links, 0, MK_ARRAY_SIZE(links));
}

// SPDX-License-Identifier: Apache-2.0
/* Which devices carry traffic out of the cluster, and must the host's routing be asked? In a
 * network namespace with the devices, routes and rules of one row. */
#include <check.h>
#include <errno.h>
#include <net/if.h>
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

static const struct {
	const char *name, *commands, *named, *expected;
} rows[] = {
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
	{ "named", STORAGE, "eth0", "eth0 192.168.99.11, asks" },
};

static void in_shell(const char *commands)
{
	char text[2048];

	snprintf(text, sizeof(text), "set -e; PATH=$PATH:/sbin:/usr/sbin; %s", commands);
	ck_assert_msg(system(text) == 0, "failed: %s", commands);
}

static void write_down(const struct mk_own_uplinks *found, char *text, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < found->count; i++) {
		const struct mk_own_uplink *uplink = &found->uplink[i];
		char addr[MK_IP_STRLEN];

		used += (size_t)snprintf(text + used, size - used, "%s%s %s%s%s", i ? ", " : "",
					 uplink->link.name, mk_ip_format(&uplink->addr.ip, addr),
					 uplink->flags & MK_UPLINK_TUNNEL ? " tunnel" : "",
					 uplink->flags & MK_UPLINK_SIDE ? " side" : "");
	}
	if (found->ask_host)
		snprintf(text + used, size - used, ", asks");
}

START_TEST(test_ways)
{
	struct mk_ip address = cidr_of("192.168.99.11/32").ip;
	struct mk_node_object object = { .internal_ips = { address },
					 .addresses = &address,
					 .address_count = 1 };
	struct mk_config config = { .cluster_cidr = cidr_of("10.244.0.0/16"),
				    .vtep_cidr = cidr_of("10.18.0.0/16"),
				    .vxlan_iface_name = "mkvxlan" };
	struct host_input input = { .config = &config, .object = &object };
	cleanup_free struct host_address *addresses = NULL;
	struct mk_own_uplinks found;
	struct mk_error err = { 0 };
	char text[512] = "";

	ck_assert_msg(unshare(CLONE_NEWNET) == 0, "needs root: %s", strerror(errno));
	in_shell("ip link set lo up; ip link add eth0 type veth peer name far0\n"
		 "ip addr add 192.168.99.11/24 dev eth0; ip link set eth0 up; ip link set far0 up\n"
		 "ip route add default via 192.168.99.1");
	in_shell(rows[_i].commands);
	snprintf(config.uplinks, sizeof(config.uplinks), "%s", rows[_i].named);
	input.nl = mk_nl_open(&err);
	ck_assert_msg(input.nl != NULL, "%s", mk_error_text(&err));
	ck_assert_int_eq(read_addresses(input.nl, &addresses, &input.address_count, &err), 0);
	input.addresses = addresses;
	ck_assert_msg(find_uplinks(&input, &found, &err) == 0, "%s: %s", rows[_i].name,
		      mk_error_text(&err));
	write_down(&found, text, sizeof(text));
	ck_assert_msg(strcmp(text, rows[_i].expected) == 0, "%s: expected '%s', seen '%s'",
		      rows[_i].name, rows[_i].expected, text);
	mk_nl_free(input.nl);
}
END_TEST

UNIT_SUITE("ways")
{
	TCase *tc = unit_case(suite, "ways", NULL, NULL);

	tcase_add_loop_test(tc, test_ways, 0, MK_ARRAY_SIZE(rows));
}

// SPDX-License-Identifier: Apache-2.0
/* Which changes of the kernel's network reach the agent, by family. The source is part of this
 * file, for its filter. */
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/rtnl_events.c"
#include "unit/unit.h"

static const struct {
	const char *name, *command;
	uint16_t type; /* of the message */
	bool ipv4, ipv6; /* does it reach an agent of that family? */
} rows[] = {
	{ "a route of IPv4", "ip route add 198.51.100.0/24 dev eth0", RTM_NEWROUTE, true, true },
	{ "a route of IPv6", "ip -6 route add 2001:db8:9::/48 dev eth0", RTM_NEWROUTE, false,
	  true },
	{ "a removed route of IPv6", "ip -6 route del 2001:db8:7::/48", RTM_DELROUTE, false, true },
	{ "a removed route of ours", "ip -6 route del 2001:db8:8::/48", RTM_DELROUTE, false, true },
	{ "a new route of ours", "ip -6 route add 2001:db8:9::/48 dev eth0 proto 77", RTM_NEWROUTE,
	  false, false },
	{ "an address of IPv4", "ip addr add 192.0.2.9/32 dev eth0", RTM_NEWADDR, true, true },
	{ "an address of IPv6", "ip addr add 2001:db8::9/128 dev eth0 nodad", RTM_NEWADDR, false,
	  true },
	{ "a removed address of IPv6", "ip addr del 2001:db8::7/128 dev eth0", RTM_DELADDR, false,
	  true },
	{ "a rule of IPv4", "ip rule add from 192.0.2.9 lookup 9", RTM_NEWRULE, true, true },
	{ "a rule of IPv6", "ip -6 rule add from 2001:db8::9 lookup 9", RTM_NEWRULE, false, true },
};

static void in_shell(const char *command)
{
	char text[1024];

	snprintf(text, sizeof(text), "set -e; PATH=$PATH:/sbin:/usr/sbin; %s", command);
	ck_assert_msg(system(text) == 0, "failed: %s", command);
}

/* The kernel reports an IPv6 address later than it adds it. @wanted: wait longer. */
static bool arrives(int fd, uint16_t type, bool wanted)
{
	_Alignas(struct nlmsghdr) char buf[16384];
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	bool found = false;
	ssize_t size;

	while (!found && poll(&ready, 1, wanted ? 5000 : 50) == 1 &&
	       (size = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		for (const struct nlmsghdr *message = (const void *)buf; NLMSG_OK(message, size);
		     message = NLMSG_NEXT(message, size))
			found |= message->nlmsg_type == type;
	return found;
}

/* First for an agent of IPv4, then for one of IPv6. */
START_TEST(test_filter)
{
	size_t index = (size_t)_i % MK_ARRAY_SIZE(rows);
	bool ipv6 = (size_t)_i >= MK_ARRAY_SIZE(rows), wanted;
	struct sockaddr_nl local = { .nl_family = AF_NETLINK, .nl_groups = groups(ipv6) };
	cleanup_close int fd = -1;

	ck_assert_msg(unshare(CLONE_NEWNET) == 0, "needs root: %s", strerror(errno));
	in_shell("ip link set lo up; ip link add eth0 type veth peer name far0\n"
		 "ip link set eth0 addrgenmode none; ip link set far0 addrgenmode none\n"
		 "ip link set eth0 up; ip link set far0 up\n"
		 "ip addr add 2001:db8::7/128 dev eth0 nodad\n"
		 "ip -6 route add 2001:db8:7::/48 dev eth0\n"
		 "ip -6 route add 2001:db8:8::/48 dev eth0 proto 77");
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ck_assert_int_eq(only_what_matters(fd, 1, ipv6), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&local, sizeof(local)), 0);
	in_shell(rows[index].command);
	wanted = ipv6 ? rows[index].ipv6 : rows[index].ipv4;
	ck_assert_msg(arrives(fd, rows[index].type, wanted) == wanted, "%s, agent of IPv%d",
		      rows[index].name, ipv6 ? 6 : 4);
}
END_TEST

UNIT_SUITE("rtnl_filter")
{
	TCase *tc = unit_case(suite, "filter", NULL, NULL);

	tcase_add_loop_test(tc, test_filter, 0, 2 * MK_ARRAY_SIZE(rows));
}

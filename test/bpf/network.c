// SPDX-License-Identifier: Apache-2.0
#include "bpf/network.h"

#include <bpf/bpf.h>
#include <check.h>
#include <errno.h>
#include <linux/net_namespace.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpf/fixture.h"
#include "rows.h"

#define NUMBER 7

static void give_number(void)
{
	struct {
		struct nlmsghdr header;
		struct rtgenmsg family;
		char attributes[32];
	} request = { .header = { .nlmsg_len = NLMSG_SPACE(sizeof(struct rtgenmsg)),
				  .nlmsg_type = RTM_NEWNSID,
				  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK } };
	const int values[][2] = { { NETNSA_PID, getpid() }, { NETNSA_NSID, NUMBER } };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
		char rest[256];
	} answer;

	for (int i = 0; i < 2; i++) {
		struct rtattr *at = (struct rtattr *)((char *)&request + request.header.nlmsg_len);

		at->rta_type = (unsigned short)values[i][0];
		at->rta_len = RTA_LENGTH(sizeof(int));
		memcpy(RTA_DATA(at), &values[i][1], sizeof(int));
		request.header.nlmsg_len += RTA_SPACE(sizeof(int));
	}
	ck_assert_int_gt(send(fd, &request, request.header.nlmsg_len, 0), 0);
	ck_assert_int_gt(recv(fd, &answer, sizeof(answer), 0), 0);
	ck_assert_int_eq(answer.error.error, 0);
	close(fd);
}

int network_of_own(void)
{
	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	give_number();
	return NUMBER;
}

void network_shell(const char *commands)
{
	/* Addresses of IPv6 serve without duplicate address detection. The kernel does not choose
	 * deprecated ones. */
	static const char of_family[] = "ip() { case $1 in "
					"link | tuntap) command ip \"$@\";; "
					"addr) command ip -6 \"$@\" nodad;; "
					"*) command ip -6 \"$@\";; esac; };"
					"second='preferred_lft 0';";
	char mapped[4096], text[sizeof(mapped) + 512];

	family_map(commands, mapped, sizeof(mapped));
	snprintf(text, sizeof(text), "set -e; PATH=$PATH:/sbin:/usr/sbin; %s %s",
		 family_is6() ? of_family : "", mapped);
	ck_assert_msg(system(text) == 0, "failed: %s", commands);
}

void network_reaches_all(void)
{
	const char *commands = family_is6() ? "ip link set lo up && ip -6 route add ::/0 dev lo"
					    : "ip link set lo up && ip route add 0.0.0.0/0 dev lo";

	ck_assert_msg(system(commands) == 0, "failed: %s", commands);
}

void network_of_pod(const char *address, int number)
{
	const struct mk_addr addr = fixture_addr(address);
	__u32 slot = mk_pod_slot(&addr, FIXTURE_POD_SLOTS);
	struct mk_pod pod;

	ck_assert_int_eq(row_lookup(fixture_map("pods"), &slot, &pod), 0);
	pod.netns_ref = (__u16)(number + 1);
	fixture_put_pod(&pod);
}

/* Open a socket at @from, which may be another host's address. */
static int socket_at(const char *from, int type)
{
	struct sockaddr_storage own;
	socklen_t size = family_sockaddr(from, &own);
	int fd = socket(family(), type | SOCK_CLOEXEC, 0), one = 1;

	if (family_is6())
		ck_assert_int_eq(setsockopt(fd, SOL_IPV6, IPV6_TRANSPARENT, &one, sizeof(one)), 0);
	else
		ck_assert_int_eq(setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&own, size), 0);
	return fd;
}

static int connect_to(int fd, const char *to)
{
	struct sockaddr_storage peer;
	socklen_t size = family_sockaddr(to, &peer);

	return connect(fd, (const struct sockaddr *)&peer, size);
}

void network_socket(const char *from, const char *to)
{
	int fd = socket_at(from, SOCK_STREAM | SOCK_NONBLOCK);

	if (!to)
		ck_assert_int_eq(listen(fd, 1), 0);
	else if (connect_to(fd, to) < 0)
		ck_assert_int_eq(errno, EINPROGRESS);
}

void network_udp_socket(const char *from, const char *to)
{
	int fd = socket_at(from, SOCK_DGRAM);

	if (to)
		ck_assert_int_eq(connect_to(fd, to), 0);
}

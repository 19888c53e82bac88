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
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpf/fixture.h"

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

void network_reaches_all(void)
{
	static const char commands[] = "ip link set lo up && ip route add 0.0.0.0/0 dev lo";

	ck_assert_msg(system(commands) == 0, "failed: %s", commands);
}

void network_of_pod(const char *address, int number)
{
	const struct mk_addr addr = fixture_addr(address);
	__u32 slot = mk_pod_slot(&addr, FIXTURE_POD_SLOTS);
	struct mk_pod pod;

	ck_assert_int_eq(bpf_map_lookup_elem(fixture_map("pods"), &slot, &pod), 0);
	pod.netns_ref = (__u16)(number + 1);
	fixture_put_pod(&pod);
}

static struct sockaddr_in address_of(const char *text)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct mk_addr addr;

	fixture_addr_port(text, &addr, &at.sin_port);
	at.sin_addr.s_addr = addr.word[0];
	return at;
}

void network_socket(const char *from, const char *to)
{
	const struct sockaddr_in own = address_of(from), peer = address_of(to ? to : from);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	ck_assert_int_eq(setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&own, sizeof(own)), 0);
	if (!to)
		ck_assert_int_eq(listen(fd, 1), 0);
	else if (connect(fd, (const struct sockaddr *)&peer, sizeof(peer)) < 0)
		ck_assert_int_eq(errno, EINPROGRESS);
}

void network_udp_socket(const char *from, const char *to)
{
	const struct sockaddr_in own = address_of(from), peer = address_of(to ? to : from);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1;

	ck_assert_int_eq(setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)), 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&own, sizeof(own)), 0);
	if (to)
		ck_assert_int_eq(connect(fd, (const struct sockaddr *)&peer, sizeof(peer)), 0);
}

// SPDX-License-Identifier: Apache-2.0
/* Devices that taps' copies leave by. Programs send a copy at once, unlike the packet of a test run,
 * so it is read from a socket at its device. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpf/chains.h"
#include "bpf/network.h"

#define DEVICES 8

static struct {
	uint32_t ifindex;
	int fd;
} devices[DEVICES];
static int count; /* of this row: each runs in a process of its own */

static int device_of(uint32_t ifindex)
{
	for (int i = 0; i < count; i++)
		if (devices[i].ifindex == ifindex)
			return i;
	return -1;
}

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
	char command[160];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	ck_assert_msg(system(command) == 0, "failed: %s", command);
}

/* A namespace whose devices send nothing of their own. */
static void enter_network(void)
{
	network_of_own();
	run("echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6");
}

void taps_add(uint32_t ifindex)
{
	const struct sockaddr_ll at = { .sll_family = AF_PACKET,
					.sll_protocol = htons(ETH_P_ALL),
					.sll_ifindex = (int)ifindex };
	int fd;

	if (device_of(ifindex) >= 0)
		return;
	ck_assert_int_lt(count, DEVICES);
	if (!count)
		enter_network();
	run("ip link add name tap%u index %u type veth peer name end%u", ifindex, ifindex, ifindex);
	/* the peer first: then this one sends at once, not when the kernel has seen its carrier */
	run("ip link set end%u up && ip link set tap%u up", ifindex, ifindex);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	devices[count].ifindex = ifindex;
	devices[count++].fd = fd;
}

void taps_remove(uint32_t ifindex)
{
	run("ip link del tap%u", ifindex);
}

bool taps_read(uint32_t ifindex, struct frame *copy)
{
	struct sockaddr_ll from;
	socklen_t size = sizeof(from);
	int i = device_of(ifindex);
	ssize_t length;

	ck_assert_msg(i >= 0, "interface %u is no tap's", ifindex);
	do {
		length = recvfrom(devices[i].fd, copy->byte, sizeof(copy->byte), 0,
				  (struct sockaddr *)&from, &size);
	} while (length > 0 && from.sll_pkttype != PACKET_OUTGOING);
	copy->length = length > 0 ? (size_t)length : 0;
	return length > 0;
}

uint32_t taps_unread(void)
{
	struct frame copy;

	for (int i = 0; i < count; i++)
		if (taps_read(devices[i].ifindex, &copy))
			return devices[i].ifindex;
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
/* `monokube check`: does a packet of the overlay's full size reach each other node? Two pings to the
 * address that its VXLAN packets go to, a large one that may not be cut and a small one: who answers
 * the small alone is behind a device that carries less, and TCP through the overlay hangs. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "cli/check.h"
#include "cli/nodes.h"
#include "overlay/device.h"

#define PROBED_MAX 512 /* nodes */
#define ANSWER_MS  500 /* after the last question */

enum { SMALL, LARGE, SIZES };

struct probe {
	struct sockaddr_in node;
	bool answered[SIZES], refused; /* refused: by this host, which knows that it does not fit */
};

struct probing {
	int fd;
	uint16_t id;
	size_t large_bytes; /* of ICMP, header included */
	struct probe *probes;
	size_t count, waiting;
};

static uint16_t checksum(const uint8_t *data, size_t size)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < size; i++)
		sum += i % 2 ? data[i] : (uint32_t)data[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static void ask(struct probing *probing, size_t index, int size)
{
	struct probe *probe = &probing->probes[index];
	size_t bytes = size == LARGE ? probing->large_bytes : sizeof(struct icmphdr);
	uint8_t packet[65535] = { 0 };
	struct icmphdr header = { .type = ICMP_ECHO };

	header.un.echo.id = htons(probing->id);
	header.un.echo.sequence = htons((uint16_t)(index * SIZES + (size_t)size));
	memcpy(packet, &header, sizeof(header));
	header.checksum = checksum(packet, bytes);
	memcpy(packet, &header, sizeof(header));
	if (sendto(probing->fd, packet, bytes, 0, (struct sockaddr *)&probe->node,
		   sizeof(probe->node)) >= 0)
		probing->waiting++;
	else if (size == LARGE && errno == EMSGSIZE)
		probe->refused = true;
}

static void take_answer(struct probing *probing, const uint8_t *packet, size_t size)
{
	const struct iphdr *ip = (const struct iphdr *)packet;
	struct icmphdr header;
	size_t index, offset;

	if (size < sizeof(*ip) || size < (offset = ip->ihl * 4U) + sizeof(header))
		return;
	memcpy(&header, packet + offset, sizeof(header));
	index = ntohs(header.un.echo.sequence) / SIZES;
	if (header.type != ICMP_ECHOREPLY || ntohs(header.un.echo.id) != probing->id ||
	    index >= probing->count || ip->saddr != probing->probes[index].node.sin_addr.s_addr)
		return;
	probing->probes[index].answered[ntohs(header.un.echo.sequence) % SIZES] = true;
	probing->waiting -= probing->waiting > 0;
}

static void take_answers(struct probing *probing)
{
	uint64_t end_ns = mk_time_monotonic_ns() + ANSWER_MS * (MK_NS_PER_S / 1000);
	struct pollfd pollfd = { .fd = probing->fd, .events = POLLIN };
	static uint8_t packet[65535];

	while (probing->waiting && mk_time_monotonic_ns() < end_ns) {
		ssize_t size;

		if (poll(&pollfd, 1, ANSWER_MS / 10) <= 0)
			continue;
		size = recv(probing->fd, packet, sizeof(packet), MSG_DONTWAIT);
		if (size > 0)
			take_answer(probing, packet, (size_t)size);
	}
}

static int open_socket(void)
{
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	int probe = IP_PMTUDISC_PROBE; /* never cut, and not what this host believes of the path */

	if (fd >= 0 && setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void tell(struct mk_checking *checking, const struct probing *probing,
		 const struct mk_cli_node *nodes)
{
	unsigned int wrong = 0, silent = 0, bytes = (unsigned int)probing->large_bytes + 20;
	char text[MK_IP_STRLEN];

	for (size_t i = 0; i < probing->count; i++) {
		const struct probe *probe = &probing->probes[i];

		silent += !probe->answered[SMALL] && !probe->answered[LARGE];
		if (probe->answered[LARGE] || (!probe->answered[SMALL] && !probe->refused))
			continue;
		wrong++;
		mk_check_found(
			checking, "path",
			"raise the MTU of what lies between, or set `mtu` on all nodes to "
			"what the path carries less 50",
			"%s%s%s answers a small ping, but none of %u bytes, which the overlay "
			"sends",
			nodes[i].name ? nodes[i].name : "", nodes[i].name ? " at " : "",
			mk_ip_format(&nodes[i].underlay, text), bytes);
	}
	if (!wrong)
		mk_check_found(
			checking, "path", NULL,
			"%zu nodes answer a ping of %u bytes, the largest of the overlay; %u "
			"answer none",
			probing->count - silent, bytes, silent);
}

void mk_check_path(struct mk_checking *checking)
{
	cleanup_free struct mk_cli_node *nodes = NULL;
	cleanup_free struct probe *probes = NULL;
	cleanup_close int fd = open_socket();
	struct probing probing = {
		.fd = fd,
		.id = (uint16_t)getpid(),
		.large_bytes = checking->view->node.overlay_mtu_bytes + MK_VXLAN_OVERHEAD_BYTES -
			       sizeof(struct iphdr),
	};

	if (mk_cli_nodes_read(checking->view, &nodes, &probing.count, NULL) < 0 || !probing.count ||
	    fd < 0)
		return; /* check "nodes" says so */
	if (probing.count > PROBED_MAX)
		probing.count = PROBED_MAX;
	probing.probes = probes = calloc(probing.count, sizeof(*probes));
	if (!probes || probing.large_bytes > 65535 - sizeof(struct iphdr))
		return;
	for (size_t i = 0; i < probing.count; i++) {
		const struct mk_addr addr = mk_ip_to_addr(&nodes[i].underlay);

		probes[i].node.sin_family = AF_INET;
		probes[i].node.sin_addr.s_addr = addr.word[0];
		for (int size = SMALL; nodes[i].underlay.family && size < SIZES; size++)
			ask(&probing, i, size);
	}
	take_answers(&probing);
	tell(checking, &probing, nodes);
}

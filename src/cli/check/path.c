// SPDX-License-Identifier: Apache-2.0
/* `monokube check`: do packets reach each other node? Two pings go to the address that its VXLAN
 * packets go to: a large one that must not be fragmented, and a small one. A node that answers only
 * the small one is behind a device with a smaller MTU, and TCP through the overlay hangs. A third
 * ping goes through the overlay. A node that fails to answer only this one is behind a firewall
 * that drops VXLAN. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "cli/check/check.h"
#include "cli/inspect/view.h"
#include "overlay/device.h"

#define PROBED_MAX 512 /* nodes */
#define ANSWER_MS  500 /* after the last ping */

enum { SMALL, LARGE, OVERLAY, PINGS };

struct probe {
	struct sockaddr_in to[PINGS]; /* family AF_UNSPEC: not known */
	bool answered[PINGS], refused; /* refused: by this host, which knows that it does not fit */
};

struct probing {
	int fd, overlay_fd;
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

static void ask(struct probing *probing, size_t index, int ping)
{
	struct probe *probe = &probing->probes[index];
	size_t bytes = ping == LARGE ? probing->large_bytes : sizeof(struct icmphdr);
	int fd = ping == OVERLAY ? probing->overlay_fd : probing->fd;
	uint8_t packet[65535] = { 0 };
	struct icmphdr header = { .type = ICMP_ECHO };

	header.un.echo.id = htons(probing->id);
	header.un.echo.sequence = htons((uint16_t)(index * PINGS + (size_t)ping));
	memcpy(packet, &header, sizeof(header));
	header.checksum = checksum(packet, bytes);
	memcpy(packet, &header, sizeof(header));
	if (probe->to[ping].sin_family == AF_UNSPEC)
		return;
	if (sendto(fd, packet, bytes, 0, (struct sockaddr *)&probe->to[ping],
		   sizeof(probe->to[ping])) >= 0)
		probing->waiting++;
	else if (ping == LARGE && errno == EMSGSIZE)
		probe->refused = true;
}

static void take_answer(struct probing *probing, const uint8_t *packet, size_t size)
{
	const struct iphdr *ip = (const struct iphdr *)packet;
	struct icmphdr header;
	size_t index, ping, offset;

	if (size < sizeof(*ip) || size < (offset = ip->ihl * 4U) + sizeof(header))
		return;
	memcpy(&header, packet + offset, sizeof(header));
	index = ntohs(header.un.echo.sequence) / PINGS;
	ping = ntohs(header.un.echo.sequence) % PINGS;
	if (header.type != ICMP_ECHOREPLY || ntohs(header.un.echo.id) != probing->id ||
	    index >= probing->count || ip->saddr != probing->probes[index].to[ping].sin_addr.s_addr)
		return;
	probing->probes[index].answered[ping] = true;
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
	int probe = IP_PMTUDISC_PROBE; /* never fragment; ignore the cached path MTU */

	if (fd >= 0 && setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Bind to the pods' gateway address, to which the other nodes have a route through the overlay.
 * This host has no route to a node's overlay address: bind to the device instead. */
static int open_overlay_socket(const struct mk_view *view)
{
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_addr = mk_ip_from_addr(&view->node.gateway_addr).v4 };
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP), on_link = 1;
	char device[IF_NAMESIZE] = "";

	if_indextoname(view->links.set.overlay_ifindex, device);
	if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, sizeof(device)) < 0 ||
			setsockopt(fd, SOL_SOCKET, SO_DONTROUTE, &on_link, sizeof(on_link)) < 0 ||
			bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- what the answers mean ------------------------------------------------------------------- */

static const char *name_of(const struct mk_cli_node *node, char *text, size_t size)
{
	char address[MK_IP_STRLEN];

	mk_ip_format(&node->underlay, address);
	snprintf(text, size, "%s%s%s", node->name ? node->name : "", node->name ? " at " : "",
		 address);
	return text;
}

static bool by_underlay(const struct probe *probe)
{
	return probe->answered[SMALL] || probe->answered[LARGE];
}

static void tell_small_path(struct mk_checking *checking, const struct probing *probing,
			    const struct mk_cli_node *nodes)
{
	char text[300];

	for (size_t i = 0; i < probing->count; i++) {
		const struct probe *probe = &probing->probes[i];

		if (probe->answered[LARGE] || (!probe->answered[SMALL] && !probe->refused))
			continue;
		check_found(
			checking, "path",
			"raise the MTU of the network between the nodes, or set `mtu` on all nodes to the path's MTU less 50",
			"%s answers a small ping, but none of %zu bytes, which the overlay sends",
			name_of(&nodes[i], text, sizeof(text)), probing->large_bytes + 20);
	}
}

#define OVERLAY_REMEDY                                                                           \
	"let UDP pass to the overlay's port (vxlanPort, 4789) between all nodes: in the nodes' " \
	"firewalls (a reject rule counts too) and in the network between them"

static void tell_overlay(struct mk_checking *checking, const struct probing *probing,
			 const struct mk_cli_node *nodes)
{
	size_t answered = 0;
	char text[300];

	for (size_t i = 0; i < probing->count; i++) {
		answered += probing->probes[i].answered[OVERLAY];
		if (by_underlay(&probing->probes[i]) && !probing->probes[i].answered[OVERLAY])
			check_found(checking, "path", OVERLAY_REMEDY,
				    "%s answers a ping, but none through the overlay",
				    name_of(&nodes[i], text, sizeof(text)));
	}
	if (!answered)
		check_found(checking, "path", OVERLAY_REMEDY,
			    "none of %zu nodes answers a ping through the overlay", probing->count);
}

static void tell(struct mk_checking *checking, const struct probing *probing,
		 const struct mk_cli_node *nodes)
{
	unsigned int before = checking->wrong;
	size_t answered[PINGS] = { 0 };

	for (size_t i = 0; i < probing->count; i++)
		for (int ping = 0; ping < PINGS; ping++)
			answered[ping] += probing->probes[i].answered[ping];
	tell_small_path(checking, probing, nodes);
	tell_overlay(checking, probing, nodes);
	if (checking->wrong > before)
		return;
	if (answered[OVERLAY] < probing->count)
		check_note(
			checking, "path", "is the node down? `monokube nodes` lists all",
			"%zu of %zu nodes answer a ping through the overlay, the others answer no ping",
			answered[OVERLAY], probing->count);
	else
		check_found(
			checking, "path", NULL,
			"%zu of %zu nodes answer a ping through the overlay, and %zu one of %zu bytes, its largest",
			answered[OVERLAY], probing->count, answered[LARGE],
			probing->large_bytes + 20);
}

static void fill(struct probe *probe, const struct mk_cli_node *node)
{
	const in_addr_t underlay = node->underlay.family == AF_INET ? node->underlay.v4.s_addr : 0;
	const in_addr_t to[PINGS] = { [SMALL] = underlay,
				      [LARGE] = underlay,
				      [OVERLAY] = mk_ip_from_addr(&node->vtep).v4.s_addr };

	for (int ping = 0; ping < PINGS; ping++) {
		probe->to[ping].sin_family = to[ping] ? AF_INET : AF_UNSPEC;
		probe->to[ping].sin_addr.s_addr = to[ping];
	}
}

void check_path(struct mk_checking *checking)
{
	cleanup_free struct mk_cli_node *nodes = NULL;
	cleanup_free struct probe *probes = NULL;
	cleanup_close int fd = open_socket();
	cleanup_close int overlay_fd = open_overlay_socket(checking->view);
	struct probing probing = {
		.fd = fd,
		.overlay_fd = overlay_fd,
		.id = (uint16_t)getpid(),
		.large_bytes = checking->view->links.set.overlay_mtu_bytes +
			       MK_VXLAN_OVERHEAD_BYTES - sizeof(struct iphdr),
	};

	if (mk_cli_nodes_read(checking->view, &nodes, &probing.count, NULL) < 0 || !probing.count ||
	    fd < 0)
		return; /* check "nodes" reports it */
	if (probing.count > PROBED_MAX)
		probing.count = PROBED_MAX;
	probing.probes = probes = calloc(probing.count, sizeof(*probes));
	if (!probes || probing.large_bytes > 65535 - sizeof(struct iphdr))
		return;
	for (size_t i = 0; i < probing.count; i++) {
		fill(&probes[i], &nodes[i]);
		for (int ping = SMALL; ping < PINGS; ping++)
			ask(&probing, i, ping);
	}
	take_answers(&probing);
	tell(checking, &probing, nodes);
}

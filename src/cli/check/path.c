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
#include <netinet/icmp6.h>
#include <netinet/ip6.h>
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

/* The underlay may have another family than the pods. */
enum { UNDERLAY_SOCKET, OVERLAY_SOCKET, SOCKETS };

struct probe {
	struct mk_ip to[PINGS]; /* AF_UNSPEC: not known */
	bool answered[PINGS], refused; /* refused: by this host, which knows that it does not fit */
};

struct probing {
	struct pollfd sockets[SOCKETS];
	sa_family_t underlay;
	bool has_direct; /* packets to a node go without VXLAN */
	uint16_t id;
	size_t large_bytes, header_bytes; /* of ICMP with its header; of the underlay's IP header */
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

static int socket_of(int ping)
{
	return ping == OVERLAY ? OVERLAY_SOCKET : UNDERLAY_SOCKET;
}

/* The kernel computes the checksum of ICMPv6, which covers the addresses. */
static void ask(struct probing *probing, size_t index, int ping)
{
	struct probe *probe = &probing->probes[index];
	const struct mk_ip_port at = { .ip = probe->to[ping] };
	size_t bytes = ping == LARGE ? probing->large_bytes : sizeof(struct icmphdr);
	uint8_t packet[65535] = { 0 };
	struct icmphdr header = { .type = at.ip.family == AF_INET6 ? ICMP6_ECHO_REQUEST
								   : ICMP_ECHO };
	struct sockaddr_storage to;
	socklen_t to_bytes = mk_ip_port_sockaddr(&at, &to);

	header.un.echo.id = htons(probing->id);
	header.un.echo.sequence = htons((uint16_t)(index * PINGS + (size_t)ping));
	memcpy(packet, &header, sizeof(header));
	header.checksum = checksum(packet, bytes);
	memcpy(packet, &header, sizeof(header));
	if (at.ip.family == AF_UNSPEC)
		return;
	if (sendto(probing->sockets[socket_of(ping)].fd, packet, bytes, 0, (struct sockaddr *)&to,
		   to_bytes) >= 0)
		probing->waiting++;
	else if (ping == LARGE && errno == EMSGSIZE)
		probe->refused = true;
}

/* A socket of IPv6 gives no IP header. */
static void take_answer(struct probing *probing, const struct mk_ip *from, const uint8_t *packet,
			size_t size)
{
	const bool is_ipv6 = from->family == AF_INET6;
	size_t index, ping, offset = is_ipv6 || !size ? 0 : (packet[0] & 0xfU) * 4;
	struct icmphdr header;
	struct probe *probe;

	if (size < offset + sizeof(header))
		return;
	memcpy(&header, packet + offset, sizeof(header));
	index = ntohs(header.un.echo.sequence) / PINGS;
	ping = ntohs(header.un.echo.sequence) % PINGS;
	if (header.type != (is_ipv6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY) ||
	    ntohs(header.un.echo.id) != probing->id || index >= probing->count)
		return;
	probe = &probing->probes[index];
	if (probe->answered[ping] || !mk_ip_equal(from, &probe->to[ping]))
		return;
	probe->answered[ping] = true;
	probing->waiting -= probing->waiting > 0;
}

static void take_from(struct probing *probing, int fd)
{
	static uint8_t packet[65535];
	struct sockaddr_storage from = { 0 };
	socklen_t from_bytes = sizeof(from);
	ssize_t size = recvfrom(fd, packet, sizeof(packet), MSG_DONTWAIT, (struct sockaddr *)&from,
				&from_bytes);
	struct mk_ip ip = { .family = from.ss_family };

	if (size <= 0)
		return;
	if (ip.family == AF_INET6)
		ip.v6 = ((struct sockaddr_in6 *)&from)->sin6_addr;
	else
		ip.v4 = ((struct sockaddr_in *)&from)->sin_addr;
	take_answer(probing, &ip, packet, (size_t)size);
}

static void take_answers(struct probing *probing)
{
	uint64_t end_ns = mk_time_monotonic_ns() + ANSWER_MS * (MK_NS_PER_S / 1000);

	while (probing->waiting && mk_time_monotonic_ns() < end_ns) {
		if (poll(probing->sockets, SOCKETS, ANSWER_MS / 10) <= 0)
			continue;
		for (int i = 0; i < SOCKETS; i++)
			if (probing->sockets[i].revents)
				take_from(probing, probing->sockets[i].fd);
	}
}

static int open_icmp(sa_family_t family)
{
	return socket(family, SOCK_RAW | SOCK_CLOEXEC,
		      family == AF_INET6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
}

static int open_socket(sa_family_t family)
{
	const bool is_ipv6 = family == AF_INET6;
	/* never fragment; ignore the cached path MTU */
	int probe = is_ipv6 ? IPV6_PMTUDISC_PROBE : IP_PMTUDISC_PROBE;
	int fd = open_icmp(family);

	if (fd >= 0 &&
	    setsockopt(fd, is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
		       is_ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &probe, sizeof(probe)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* IPv4: this host has no route to a node's overlay address, so bind to the device. IPv6 needs a
 * route even then, so it asks the node's gateway (overlay_address()), and so does a host that
 * reaches some nodes without the device. */
static int use_device(int fd, const struct mk_view *view, bool has_direct)
{
	char device[IF_NAMESIZE] = "";
	int on_link = 1;

	if (view->family == AF_INET6 || has_direct)
		return 0;
	if_indextoname(view->links.set.overlay_ifindex, device);
	return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, sizeof(device))
		       ?: setsockopt(fd, SOL_SOCKET, SO_DONTROUTE, &on_link, sizeof(on_link));
}

/* Bind to the pods' gateway address, to which the other nodes have a route through the overlay. */
static int open_overlay_socket(const struct mk_view *view, bool has_direct)
{
	const struct mk_ip_port from = { .ip = mk_ip_from_addr(&view->node.gateway_addr) };
	struct sockaddr_storage at;
	socklen_t at_bytes = mk_ip_port_sockaddr(&from, &at);
	int fd = open_icmp(from.ip.family);

	if (fd >= 0 && (use_device(fd, view, has_direct) < 0 ||
			bind(fd, (struct sockaddr *)&at, at_bytes) < 0)) {
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
			"raise the MTU of the network between the nodes, or set `mtu` on all nodes to the path's MTU less 50 (70 over IPv6)",
			"%s answers a small ping, but none of %zu bytes, which the overlay sends",
			name_of(&nodes[i], text, sizeof(text)),
			probing->large_bytes + probing->header_bytes);
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
			"%zu of %zu nodes answer a ping through the overlay, %zu of them also one of %zu bytes, the largest",
			answered[OVERLAY], probing->count, answered[LARGE],
			probing->large_bytes + probing->header_bytes);
}

/* Returns the address of @node that is asked through the overlay. */
static struct mk_ip overlay_address(const struct mk_cli_node *node, bool has_direct)
{
	struct mk_ip mask = mk_cidr_mask(&node->pod_cidr);
	struct mk_addr mask_addr = mk_ip_to_addr(&mask);

	if (node->pod_cidr.ip.family != AF_INET6 && !has_direct)
		return mk_ip_from_addr(&node->vtep);
	return mk_cidr_nth(&node->pod_cidr, mk_pod_slots(&mask_addr) - 2);
}

static void fill(struct probe *probe, const struct mk_cli_node *node, const struct probing *probing)
{
	if (node->underlay.family == probing->underlay)
		probe->to[SMALL] = probe->to[LARGE] = node->underlay;
	probe->to[OVERLAY] = overlay_address(node, probing->has_direct);
}

static void ask_all(struct probing *probing, const struct mk_cli_node *nodes)
{
	for (size_t i = 0; i < probing->count; i++) {
		fill(&probing->probes[i], &nodes[i], probing);
		for (int ping = SMALL; ping < PINGS; ping++)
			ask(probing, i, ping);
	}
}

static bool any_direct(const struct mk_cli_node *nodes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (nodes[i].is_direct)
			return true;
	return false;
}

void check_path(struct mk_checking *checking)
{
	const struct mk_view *view = checking->view;
	const sa_family_t underlay = check_underlay(view);
	cleanup_free struct mk_cli_node *nodes = NULL;
	cleanup_free struct probe *probes = NULL;
	cleanup_close int fd = open_socket(underlay), overlay_fd = -1;
	struct probing probing = {
		.sockets = { { .fd = fd, .events = POLLIN }, { .events = POLLIN } },
		.underlay = underlay,
		.id = (uint16_t)getpid(),
		.header_bytes =
			underlay == AF_INET6 ? sizeof(struct ip6_hdr) : sizeof(struct iphdr),
	};

	probing.large_bytes = view->links.set.overlay_mtu_bytes +
			      mk_overlay_overhead_bytes(underlay, check_encrypts(checking)) -
			      probing.header_bytes;
	if (mk_cli_nodes_read(view, &nodes, &probing.count, NULL) < 0 || !probing.count || fd < 0)
		return; /* check "nodes" reports it */
	probing.has_direct = any_direct(nodes, probing.count);
	overlay_fd = open_overlay_socket(view, probing.has_direct);
	probing.sockets[OVERLAY_SOCKET].fd = overlay_fd;
	if (probing.count > PROBED_MAX)
		probing.count = PROBED_MAX;
	probing.probes = probes = calloc(probing.count, sizeof(*probes));
	if (!probes || probing.large_bytes > 65535 - probing.header_bytes)
		return;
	ask_all(&probing, nodes);
	take_answers(&probing);
	tell(checking, &probing, nodes);
}

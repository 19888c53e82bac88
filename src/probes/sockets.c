// SPDX-License-Identifier: Apache-2.0
#include "probes/sockets.h"

#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monokube/clusters.h"
#include "base/cleanup.h"
#include "base/time.h"

#define ANSWERS_MAX 16384 /* per second and family */
_Static_assert(ANSWERS_MAX >= 2 * (MK_CLUSTERS * MK_PROBES_NODES + 2 * MK_PROBES_TRIED),
	       "all answers are read, to padded probes, too");

/* Padded probes go as they are, whatever the kernel has learnt of the way. */
static int forbid_fragments(int fd, sa_family_t family)
{
	const int four = IP_PMTUDISC_PROBE, six = IPV6_PMTUDISC_PROBE;

	if (family == AF_INET6)
		return setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &six, sizeof(six));
	return setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &four, sizeof(four));
}

/* The kernel notes when an answer comes, so it may wait for the agent. */
static int open_socket(sa_family_t family)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int on = 1, room_bytes = ANSWERS_MAX * 1024;

	if (fd < 0)
		return -1;
	(void)!forbid_fragments(fd, family);
	/* the default holds some 270 answers */
	(void)!setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room_bytes, sizeof(room_bytes));
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* ---- probes ---------------------------------------------------------------------------------- */

static socklen_t address_of(const struct mk_ip *ip, struct sockaddr_storage *storage)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)storage;
	struct sockaddr_in *four = (struct sockaddr_in *)storage;

	*storage = (struct sockaddr_storage){ .ss_family = ip->family };
	if (ip->family == AF_INET6) {
		six->sin6_port = htons(MK_PROBE_PORT);
		six->sin6_addr = ip->v6;
		return sizeof(*six);
	}
	four->sin_port = htons(MK_PROBE_PORT);
	four->sin_addr = ip->v4;
	return sizeof(*four);
}

static size_t payload_of(const struct mk_probe *probe)
{
	size_t headers =
		sizeof(struct udphdr) +
		(probe->to.family == AF_INET6 ? sizeof(struct ip6_hdr) : sizeof(struct iphdr));

	if (probe->packet_bytes < headers + sizeof(struct mk_probe_packet))
		return sizeof(struct mk_probe_packet);
	return probe->packet_bytes - headers;
}

/* Room for the control message that names a device. */
union device_message {
	struct cmsghdr header;
	char four[CMSG_SPACE(sizeof(struct in_pktinfo))];
	char six[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* Let @message leave by the device @ifindex (ip(7), ipv6(7)). Unlike SO_BINDTODEVICE, this lets
 * answers come by any device. */
static void leave_by(struct msghdr *message, sa_family_t family, int ifindex,
		     union device_message *room)
{
	const struct in6_pktinfo six = { .ipi6_ifindex = (unsigned int)ifindex };
	const struct in_pktinfo four = { .ipi_ifindex = ifindex };
	bool is_six = family == AF_INET6;

	memset(room, 0, sizeof(*room));
	room->header.cmsg_level = is_six ? IPPROTO_IPV6 : IPPROTO_IP;
	room->header.cmsg_type = is_six ? IPV6_PKTINFO : IP_PKTINFO;
	room->header.cmsg_len = CMSG_LEN(is_six ? sizeof(six) : sizeof(four));
	memcpy(CMSG_DATA(&room->header), is_six ? (const void *)&six : (const void *)&four,
	       is_six ? sizeof(six) : sizeof(four));
	message->msg_control = room;
	message->msg_controllen = is_six ? sizeof(room->six) : sizeof(room->four);
}

void mk_probe_send(struct mk_probe_sockets *sockets, const struct mk_probe *probe, int ifindex)
{
	static char zeros[UINT16_MAX];
	struct mk_probe_packet packet = { .magic = htonl(MK_PROBE_MAGIC),
					  .version = MK_PROBE_VERSION,
					  .nonce = probe->nonce };
	int *fd = &sockets->fd[mk_family_index(probe->to.family)];
	struct iovec parts[] = { { &packet, sizeof(packet) },
				 { zeros, payload_of(probe) - sizeof(packet) } };
	struct sockaddr_storage to;
	struct msghdr message = { .msg_name = &to,
				  .msg_namelen = address_of(&probe->to, &to),
				  .msg_iov = parts,
				  .msg_iovlen = MK_ARRAY_SIZE(parts) };
	union device_message device;

	if (ifindex)
		leave_by(&message, probe->to.family, ifindex, &device);
	if (*fd < 0)
		*fd = open_socket(probe->to.family);
	if (*fd >= 0)
		(void)!sendmsg(*fd, &message, 0);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Returns false if the sender is none that a probe has gone to. */
static bool sender_of(const struct sockaddr_storage *from, struct mk_ip *ip)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)from;
	const struct sockaddr_in *four = (const struct sockaddr_in *)from;

	*ip = (struct mk_ip){ .family = from->ss_family };
	if (from->ss_family == AF_INET6) {
		ip->v6 = six->sin6_addr;
		return six->sin6_port == htons(MK_PROBE_PORT);
	}
	ip->v4 = four->sin_addr;
	return from->ss_family == AF_INET && four->sin_port == htons(MK_PROBE_PORT);
}

static uint64_t time_of(struct msghdr *message)
{
	struct timespec stamp;

	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
		if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SO_TIMESTAMPNS)
			continue;
		memcpy(&stamp, CMSG_DATA(at), sizeof(stamp));
		return (uint64_t)stamp.tv_sec * MK_NS_PER_S + (uint64_t)stamp.tv_nsec;
	}
	return mk_time_ns(CLOCK_REALTIME);
}

/* Returns whether there may be more. An error of an earlier probe is read, too. */
static bool read_one(int fd, mk_probe_answer_fn *fn, void *ctx)
{
	struct mk_probe_packet packet;
	struct iovec part = { &packet, sizeof(packet) };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
	struct sockaddr_storage from = { 0 };
	struct msghdr message = { .msg_name = &from,
				  .msg_namelen = sizeof(from),
				  .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(fd, &message, 0);
	struct mk_probe_answer answer;

	if (got < 0)
		return errno != EAGAIN && errno != EBADF;
	if (got != (ssize_t)sizeof(packet) || packet.magic != htonl(MK_PROBE_MAGIC) ||
	    !sender_of(&from, &answer.from))
		return true;
	answer.nonce = packet.nonce;
	answer.at_ns = time_of(&message);
	fn(ctx, &answer);
	return true;
}

void mk_probe_read(const struct mk_probe_sockets *sockets, mk_probe_answer_fn *fn, void *ctx)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		for (size_t left = ANSWERS_MAX; sockets->fd[i] >= 0 && left > 0; left--)
			if (!read_one(sockets->fd[i], fn, ctx))
				break;
}

void mk_probe_close(struct mk_probe_sockets *sockets)
{
	for (size_t i = 0; i < MK_FAMILIES; i++)
		if (sockets->fd[i] >= 0)
			close(sockets->fd[i]);
	*sockets = MK_PROBE_SOCKETS_CLOSED;
}

// SPDX-License-Identifier: Apache-2.0
/* perf/policies/queue NUMBER - accepts every packet of a netfilter queue, without a look at it: the
 * best case of network policies whose first packets are judged by a program, as
 * kube-network-policies does. It says "reading" when it has the queue, and runs until killed. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
	HEADER_BYTES = 128, /* of a packet: what kube-network-policies asks for */
	QUEUE_LENGTH = 1024,
};

struct message {
	struct nlmsghdr netlink;
	struct nfgenmsg netfilter;
	uint8_t attributes[64];
};

static void die(const char *what)
{
	fprintf(stderr, "queue: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void begin(struct message *message, uint16_t type, uint16_t queue)
{
	*message = (struct message){
		.netlink = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)),
			     .nlmsg_type = (NFNL_SUBSYS_QUEUE << 8) | type,
			     .nlmsg_flags = NLM_F_REQUEST },
		.netfilter = { .version = NFNETLINK_V0, .res_id = htons(queue) },
	};
}

static void add(struct message *message, uint16_t type, const void *value, size_t size)
{
	struct nlattr *attribute =
		(struct nlattr *)((uint8_t *)message + message->netlink.nlmsg_len);

	attribute->nla_type = type;
	attribute->nla_len = (uint16_t)(NLA_HDRLEN + size);
	memcpy((uint8_t *)attribute + NLA_HDRLEN, value, size);
	message->netlink.nlmsg_len += NLA_ALIGN(attribute->nla_len);
}

static void say(int fd, const struct message *message)
{
	if (send(fd, message, message->netlink.nlmsg_len, 0) < 0)
		die("send");
}

/* Ask for the queue, with the kernel's answer whether it is ours. */
static void bind_queue(int fd, uint16_t queue)
{
	const struct nfqnl_msg_config_cmd command = { .command = NFQNL_CFG_CMD_BIND };
	const struct nfqnl_msg_config_params params = { .copy_range = htonl(HEADER_BYTES),
							.copy_mode = NFQNL_COPY_PACKET };
	const uint32_t length = htonl(QUEUE_LENGTH), gso = htonl(NFQA_CFG_F_GSO);
	uint8_t reply[512];
	const struct nlmsghdr *header = (const void *)reply;
	const struct nlmsgerr *err = NLMSG_DATA(header);
	struct message message;

	begin(&message, NFQNL_MSG_CONFIG, queue);
	message.netlink.nlmsg_flags |= NLM_F_ACK;
	add(&message, NFQA_CFG_CMD, &command, sizeof(command));
	add(&message, NFQA_CFG_PARAMS, &params, sizeof(params));
	add(&message, NFQA_CFG_QUEUE_MAXLEN, &length, sizeof(length));
	add(&message, NFQA_CFG_FLAGS, &gso, sizeof(gso));
	add(&message, NFQA_CFG_MASK, &gso, sizeof(gso));
	say(fd, &message);
	if (recv(fd, reply, sizeof(reply), 0) < 0)
		die("recv");
	errno = header->nlmsg_type == NLMSG_ERROR ? -err->error : EPROTO;
	if (errno)
		die("bind");
}

static void accept_packet(int fd, uint16_t queue, uint32_t id)
{
	const struct nfqnl_msg_verdict_hdr verdict = { .verdict = htonl(NF_ACCEPT), .id = id };
	struct message message;

	begin(&message, NFQNL_MSG_VERDICT, queue);
	add(&message, NFQA_VERDICT_HDR, &verdict, sizeof(verdict));
	say(fd, &message);
}

/* The packet's number is in its first attribute (net/netfilter/nfnetlink_queue.c). */
static void answer(int fd, uint16_t queue, const struct nlmsghdr *header)
{
	const uint8_t *payload = NLMSG_DATA(header);
	const struct nlattr *first = (const void *)(payload + NLMSG_ALIGN(sizeof(struct nfgenmsg)));
	const struct nfqnl_msg_packet_hdr *packet =
		(const void *)((const uint8_t *)first + NLA_HDRLEN);

	if (header->nlmsg_type == ((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_PACKET) &&
	    first->nla_type == NFQA_PACKET_HDR)
		accept_packet(fd, queue, packet->packet_id);
}

int main(int argc, char **argv)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
	static _Alignas(struct nlmsghdr) uint8_t buffer[8192];
	uint16_t queue;

	if (argc != 2) {
		fprintf(stderr, "usage: queue NUMBER\n");
		return 2;
	}
	queue = (uint16_t)atoi(argv[1]);
	if (fd < 0)
		die("socket");
	bind_queue(fd, queue);
	printf("reading\n");
	fflush(stdout);
	for (;;) {
		ssize_t size = recv(fd, buffer, sizeof(buffer), 0);

		if (size < 0 && errno != ENOBUFS)
			die("recv");
		if (size >= (ssize_t)NLMSG_LENGTH(sizeof(struct nfgenmsg))) /* one message each */
			answer(fd, queue, (const void *)buffer);
	}
}

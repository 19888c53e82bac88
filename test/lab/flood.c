// SPDX-License-Identifier: Apache-2.0
/* test/lab/flood - send first packets of different forged flows, as fast as a device takes them.
 *
 *	flood DEVICE MAC KIND SOURCE/BITS DESTINATION/BITS PORT[-PORT] COUNT [FIRST]
 *
 * KIND is tcp, udp, tcp+none, tcp+ack, tcp+rst or tcp+fin. With tcp+.., a second packet follows
 * when the server has had time to answer. It has no flag, or ACK, RST or FIN, and a forged
 * acknowledgement. Addresses are of IPv4 or IPv6, as SOURCE says.
 *
 * Flow number n has source port 1024 + n % 64000; n / 64000 runs through the addresses of SOURCE,
 * then through the ports, then through the addresses of DESTINATION. MAC is that of the next hop.
 * FIRST: number of the first flow. Prints the packets per second. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SOURCE_PORTS 64000
#define BATCH	     64
#define UDP_PAYLOAD  8
#define ROUND	     8192 /* pairs: so many first packets, then their second ones */
#define ANSWER_MS    50

struct range {
	uint32_t first, count; /* addresses: host byte order; of IPv6, the last four bytes */
	struct in6_addr prefix;
};

struct flood {
	int fd;
	bool is_ipv6;
	uint8_t mac_from[6], mac_to[6];
	uint8_t proto;
	const char *second; /* flags of the second packet; NULL: none is sent */
	struct range sources, destinations, ports;
};

union l4 {
	struct tcphdr tcp;
	struct {
		struct udphdr header;
		uint8_t payload[UDP_PAYLOAD];
	} __attribute__((packed)) udp;
} __attribute__((packed));

struct frame {
	struct ether_header ether;
	union {
		struct {
			struct iphdr ip;
			union l4 l4;
		} __attribute__((packed)) v4;
		struct {
			struct ip6_hdr ip;
			union l4 l4;
		} __attribute__((packed)) v6;
	};
} __attribute__((packed));

static void die(const char *what)
{
	fprintf(stderr, "flood: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void bad(const char *what, const char *expected)
{
	fprintf(stderr, "flood: '%s': expected %s\n", what, expected);
	exit(2);
}

/* ---- one frame ------------------------------------------------------------------------------- */

static uint32_t sum_words(const void *data, size_t bytes, uint32_t sum)
{
	const uint16_t *word = data;

	for (size_t i = 0; i < bytes / 2; i++)
		sum += word[i];
	return sum;
}

static uint16_t folded(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static size_t l4_bytes(const struct flood *flood)
{
	return flood->proto == IPPROTO_TCP ? sizeof(struct tcphdr)
					   : sizeof(struct udphdr) + UDP_PAYLOAD;
}

static void make_second(const struct flood *flood, union l4 *l4)
{
	l4->tcp.seq = htonl(ntohl(l4->tcp.seq) + 1);
	l4->tcp.ack_seq = l4->tcp.seq * 0x9e3779b1u;
	l4->tcp.syn = 0;
	l4->tcp.ack = strcmp(flood->second, "none") != 0;
	l4->tcp.rst = strcmp(flood->second, "rst") == 0;
	l4->tcp.fin = strcmp(flood->second, "fin") == 0;
}

/* @sum: of the addresses. */
static void fill_l4(const struct flood *flood, union l4 *l4, uint32_t sum, uint16_t sport,
		    uint16_t dport, bool second)
{
	size_t bytes = l4_bytes(flood);

	sum += htons(flood->proto) + htons((uint16_t)bytes);
	if (flood->proto == IPPROTO_TCP) {
		l4->tcp = (struct tcphdr){
			.source = htons(sport),
			.dest = htons(dport),
			.seq = htonl(sport * 0x9e3779b1u),
			.doff = 5,
			.syn = 1,
			.window = htons(64240),
		};
		if (second)
			make_second(flood, l4);
		l4->tcp.check = folded(sum_words(l4, bytes, sum));
		return;
	}
	l4->udp.header = (struct udphdr){ .source = htons(sport),
					  .dest = htons(dport),
					  .len = htons((uint16_t)bytes) };
	memset(l4->udp.payload, 'x', UDP_PAYLOAD);
	l4->udp.header.check = folded(sum_words(l4, bytes, sum));
}

static uint32_t pick(const struct range *range, uint64_t *rest)
{
	uint32_t value = range->first + (uint32_t)(*rest % range->count);

	*rest /= range->count;
	return value;
}

static void fill_ipv4(const struct flood *flood, struct frame *frame, uint32_t source,
		      uint32_t dest, uint64_t number)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tot_len = htons((uint16_t)(sizeof(ip) + l4_bytes(flood))),
		.id = htons((uint16_t)number),
		.ttl = 64,
		.protocol = flood->proto,
		.saddr = htonl(source),
		.daddr = htonl(dest),
	};

	ip.check = folded(sum_words(&ip, sizeof(ip), 0));
	frame->ether.ether_type = htons(ETHERTYPE_IP);
	frame->v4.ip = ip;
}

static void fill_ipv6(const struct flood *flood, struct frame *frame, uint32_t source,
		      uint32_t dest)
{
	struct ip6_hdr ip = { .ip6_src = flood->sources.prefix,
			      .ip6_dst = flood->destinations.prefix };

	ip.ip6_flow = htonl(6u << 28);
	ip.ip6_plen = htons((uint16_t)l4_bytes(flood));
	ip.ip6_nxt = flood->proto;
	ip.ip6_hlim = 64;
	ip.ip6_src.s6_addr32[3] = htonl(source);
	ip.ip6_dst.s6_addr32[3] = htonl(dest);
	frame->ether.ether_type = htons(ETHERTYPE_IPV6);
	frame->v6.ip = ip;
}

static void fill(const struct flood *flood, struct frame *frame, uint64_t number, bool second)
{
	uint16_t sport = (uint16_t)(1024 + number % SOURCE_PORTS), dport;
	uint64_t rest = number / SOURCE_PORTS;
	uint32_t source = pick(&flood->sources, &rest), dest;

	memcpy(frame->ether.ether_dhost, flood->mac_to, 6);
	memcpy(frame->ether.ether_shost, flood->mac_from, 6);
	dport = (uint16_t)pick(&flood->ports, &rest);
	dest = pick(&flood->destinations, &rest);
	if (flood->is_ipv6) {
		fill_ipv6(flood, frame, source, dest);
		fill_l4(flood, &frame->v6.l4, sum_words(&frame->v6.ip.ip6_src, 32, 0), sport, dport,
			second);
		return;
	}
	fill_ipv4(flood, frame, source, dest, number);
	fill_l4(flood, &frame->v4.l4, sum_words(&frame->v4.ip.saddr, 8, 0), sport, dport, second);
}

/* ---- many ------------------------------------------------------------------------------------ */

static void send_all(const struct flood *flood, struct mmsghdr *messages, unsigned int count)
{
	for (unsigned int sent = 0; sent < count;) {
		int ret = sendmmsg(flood->fd, messages + sent, count - sent, 0);

		if (ret > 0)
			sent += (unsigned int)ret;
		else if (errno == ENOBUFS || errno == EAGAIN)
			sent++; /* the device dropped it: so it would on a wire */
		else if (errno != EINTR)
			die("cannot send");
	}
}

static void send_range(const struct flood *flood, uint64_t first, uint64_t count, bool second)
{
	static struct frame frames[BATCH];
	struct mmsghdr messages[BATCH] = { 0 };
	struct iovec parts[BATCH];
	size_t ip_bytes = flood->is_ipv6 ? sizeof(struct ip6_hdr) : sizeof(struct iphdr);
	size_t bytes = sizeof(struct ether_header) + ip_bytes + l4_bytes(flood);

	for (int i = 0; i < BATCH; i++) {
		parts[i] = (struct iovec){ &frames[i], bytes };
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	for (uint64_t done = 0; done < count;) {
		unsigned int batch = count - done < BATCH ? (unsigned int)(count - done) : BATCH;

		for (unsigned int i = 0; i < batch; i++)
			fill(flood, &frames[i], first + done + i, second);
		send_all(flood, messages, batch);
		done += batch;
	}
}

static void send_pairs(const struct flood *flood, uint64_t first, uint64_t count)
{
	const struct timespec answer = { .tv_nsec = ANSWER_MS * 1000000L };

	for (uint64_t done = 0; done < count; done += ROUND) {
		uint64_t pairs = count - done < ROUND ? count - done : ROUND;

		send_range(flood, first + done, pairs, false);
		nanosleep(&answer, NULL);
		send_range(flood, first + done, pairs, true);
	}
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The last four bytes of an IPv6 address vary, at most. */
static struct range parse_addresses(const char *text, bool is_ipv6)
{
	unsigned int size = is_ipv6 ? 128 : 32, bits = size;
	struct in6_addr address = { 0 };
	char copy[64], *slash;
	uint32_t last;

	snprintf(copy, sizeof(copy), "%s", text);
	slash = strchr(copy, '/');
	if (slash) {
		*slash = '\0';
		bits = (unsigned int)atoi(slash + 1);
	}
	if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, copy, &address) != 1 || bits > size ||
	    bits <= size - 32)
		bad(text, "an address such as 100.64.0.0/10 or 2001:db8::/106");
	last = address.s6_addr32[is_ipv6 ? 3 : 0];
	return (struct range){ ntohl(last), 1u << (size - bits), address };
}

static struct range parse_ports(const char *text)
{
	unsigned int first, last;
	int found = sscanf(text, "%u-%u", &first, &last);

	if (found == 1)
		last = first;
	if (found < 1 || first < 1 || last < first || last > 65535)
		bad(text, "a port or two such as 80-239");
	return (struct range){ .first = first, .count = last - first + 1 };
}

static void open_device(struct flood *flood, const char *device)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(flood->is_ipv6 ? ETH_P_IPV6 : ETH_P_IP),
				  .sll_ifindex = (int)if_nametoindex(device) };
	struct sockaddr_ll own = { 0 };
	socklen_t length = sizeof(own);
	int yes = 1;

	flood->fd = socket(AF_PACKET, SOCK_RAW, 0);
	if (flood->fd < 0 || to.sll_ifindex == 0 ||
	    bind(flood->fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
	    getsockname(flood->fd, (struct sockaddr *)&own, &length) < 0 ||
	    setsockopt(flood->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &yes, sizeof(yes)) < 0)
		die(device);
	memcpy(flood->mac_from, own.sll_addr, 6);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct flood flood = { 0 };
	unsigned long long count, first = 0;
	uint8_t *mac = flood.mac_to;
	double began;

	if (argc < 8 || argc > 9) {
		fprintf(stderr, "usage: flood DEVICE MAC tcp|udp SOURCE/BITS DESTINATION/BITS "
				"PORT[-PORT] COUNT [FIRST]; for tcp also tcp+none|ack|rst|fin\n");
		return 2;
	}
	if (sscanf(argv[2], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3,
		   mac + 4, mac + 5) != 6)
		bad(argv[2], "a MAC address");
	flood.proto = strcmp(argv[3], "udp") == 0 ? IPPROTO_UDP : IPPROTO_TCP;
	flood.second = strncmp(argv[3], "tcp+", 4) == 0 ? argv[3] + 4 : NULL;
	flood.is_ipv6 = strchr(argv[4], ':');
	flood.sources = parse_addresses(argv[4], flood.is_ipv6);
	flood.destinations = parse_addresses(argv[5], flood.is_ipv6);
	flood.ports = parse_ports(argv[6]);
	count = strtoull(argv[7], NULL, 10);
	first = argc > 8 ? strtoull(argv[8], NULL, 10) : 0;
	open_device(&flood, argv[1]);
	began = seconds();
	if (flood.second)
		send_pairs(&flood, first, count);
	else
		send_range(&flood, first, count, false);
	printf("%.0f a second\n", (double)count / (seconds() - began));
	return 0;
}

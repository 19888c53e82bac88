// SPDX-License-Identifier: Apache-2.0
/* perf/load.c - the traffic that iperf3 does not make: new connections, request and response, small
 * datagrams. One JSON object per measurement on standard output.
 *
 *	load serve PORT [ADDRESS]      TCP and UDP, until killed; prints "serving" when ready
 *	load connect ADDRESS PORT MS   connect, one byte there and back, the server closes; also the
 *					time of a whole connection
 *	load latency ADDRESS PORT MS   one connection, one byte there and back
 *	load datagrams ADDRESS PORT MS 64-byte UDP payloads as fast as they go; the server counts
 *
 * The first byte of a TCP connection selects the mode. 'c': the server echoes it and closes first,
 * so the TIME_WAIT is the server's and the client's ports stay free. 'e': the server echoes until
 * the client closes. 'n': the server answers with the number of datagrams so far (8 bytes, host
 * order). */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define AT_ONCE	       16 /* connections that are being opened */
#define DATAGRAM_BYTES 64
#define DATAGRAM_BATCH 32
#define TIMEOUT_S      3 /* of a single connection: a lost one is an error, not a figure */
#define SAMPLES_MAX    2000000
#define FILES_MAX      1024

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

struct address {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t length;
};

static struct address address_of(const char *host, const char *port)
{
	struct address addr = { .v4 = { .sin_family = AF_INET }, .length = sizeof(addr.v4) };
	uint16_t number = htons((uint16_t)atoi(port));

	addr.v4.sin_port = number;
	if (inet_pton(AF_INET, host, &addr.v4.sin_addr) == 1)
		return addr;
	addr = (struct address){ .v6 = { .sin6_family = AF_INET6 }, .length = sizeof(addr.v6) };
	addr.v6.sin6_port = number;
	if (inet_pton(AF_INET6, host, &addr.v6.sin6_addr) == 1)
		return addr;
	fprintf(stderr, "load: address '%s': expected an IPv4 or IPv6 address\n", host);
	exit(2);
}

static void set_option(int fd, int level, int option, int value)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)) < 0)
		die("setsockopt");
}

/* ---- server --------------------------------------------------------------------------------- */

enum { LISTENER = -1, DATAGRAMS = -2 }; /* epoll data other than connections */

static void watch(int epoll, int fd, int data)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = data };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
}

static void accept_all(int epoll, int listener)
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
		watch(epoll, fd, fd);
	}
}

static void serve_connection(int fd, uint64_t datagrams)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, 0);

	if (got < 0 && errno == EAGAIN)
		return;
	if (got == 1 && byte == 'e' && send(fd, &byte, 1, MSG_NOSIGNAL) == 1)
		return;
	if (got == 1 && byte == 'c')
		(void)!send(fd, &byte, 1, MSG_NOSIGNAL);
	if (got == 1 && byte == 'n')
		(void)!send(fd, &datagrams, sizeof(datagrams), MSG_NOSIGNAL);
	close(fd);
}

static uint64_t drain(int fd)
{
	static char buffers[DATAGRAM_BATCH][2048];
	struct mmsghdr messages[DATAGRAM_BATCH] = { 0 };
	struct iovec parts[DATAGRAM_BATCH];
	int got;

	for (int i = 0; i < DATAGRAM_BATCH; i++) {
		parts[i] = (struct iovec){ buffers[i], sizeof(buffers[i]) };
		messages[i].msg_hdr.msg_iov = &parts[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	got = recvmmsg(fd, messages, DATAGRAM_BATCH, MSG_DONTWAIT, NULL);
	return got > 0 ? (uint64_t)got : 0;
}

static int bound(int type, const struct address *addr)
{
	int fd = socket(addr->any.sa_family, type | SOCK_NONBLOCK, 0);

	if (fd < 0)
		die("socket");
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, &addr->any, addr->length) < 0)
		die("bind");
	return fd;
}

static void serve(const struct address *addr)
{
	int listener = bound(SOCK_STREAM, addr), datagrams = bound(SOCK_DGRAM, addr);
	int epoll = epoll_create1(0);
	struct epoll_event events[64];
	uint64_t count = 0;

	set_option(datagrams, SOL_SOCKET, SO_RCVBUF, 4 << 20);
	if (listen(listener, 4096) < 0 || epoll < 0)
		die("listen");
	watch(epoll, listener, LISTENER);
	watch(epoll, datagrams, DATAGRAMS);
	puts("serving");
	fflush(stdout);
	for (;;) {
		int ready = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < ready; i++) {
			if (events[i].data.fd == LISTENER)
				accept_all(epoll, listener);
			else if (events[i].data.fd == DATAGRAMS)
				count += drain(datagrams);
			else
				serve_connection(events[i].data.fd, count);
		}
	}
}

/* ---- clients -------------------------------------------------------------------------------- */

static int connected(const struct address *addr, int type)
{
	struct timeval timeout = { .tv_sec = TIMEOUT_S };
	int fd = socket(addr->any.sa_family, type, 0);

	if (fd < 0)
		die("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0)
		die("setsockopt");
	if (connect(fd, &addr->any, addr->length) < 0)
		die("connect");
	return fd;
}

static uint32_t *samples; /* nanoseconds */
static size_t samples_count;

static void sample(uint64_t ns)
{
	if (samples_count < SAMPLES_MAX)
		samples[samples_count++] = (uint32_t)ns;
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void print_samples(double per_s)
{
	qsort(samples, samples_count, sizeof(*samples), compare_u32);
	printf("{\"per_s\": %.1f, \"p50_us\": %.2f, \"p99_us\": %.2f}\n", per_s,
	       samples[samples_count / 2] / 1e3, samples[samples_count * 99 / 100] / 1e3);
}

static uint64_t begun_ns[FILES_MAX]; /* of a connection, by its descriptor */

/* Begin one of AT_ONCE parallel connections. Each connects, sends its request, and waits for its
 * byte and the end. */
static void begin(int epoll, const struct address *addr)
{
	struct epoll_event event = { .events = EPOLLOUT };
	uint64_t started_ns = now_ns();
	int fd = socket(addr->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0)
		die("socket");
	if (connect(fd, &addr->any, addr->length) < 0 && errno != EINPROGRESS)
		die("connect");
	event.data.fd = fd;
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
	begun_ns[fd % FILES_MAX] = started_ns;
}

/* Returns 1 when the connection is over. */
static int proceed(int epoll, const struct epoll_event *event)
{
	struct epoll_event next = { .events = EPOLLIN, .data.fd = event->data.fd };
	int fd = event->data.fd;
	char bytes[2];

	if (event->events & EPOLLOUT) {
		if (send(fd, "c", 1, MSG_NOSIGNAL) != 1)
			die("connect");
		if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &next) < 0)
			die("epoll_ctl");
		return 0;
	}
	switch (recv(fd, bytes, sizeof(bytes), 0)) {
	case 0:
		sample(now_ns() - begun_ns[fd % FILES_MAX]);
		close(fd);
		return 1;
	case 1:
		return 0;
	default:
		die("recv");
		return 0;
	}
}

static void measure_connects(const struct address *addr, uint64_t length_ns)
{
	uint64_t start_ns = now_ns(), count = 0;
	struct epoll_event events[AT_ONCE];
	int epoll = epoll_create1(0);

	for (int i = 0; i < AT_ONCE; i++)
		begin(epoll, addr);
	while (now_ns() - start_ns < length_ns) {
		int ready = epoll_wait(epoll, events, AT_ONCE, TIMEOUT_S * 1000);

		if (ready <= 0) {
			errno = ETIMEDOUT;
			die("connect");
		}
		for (int i = 0; i < ready; i++) {
			if (!proceed(epoll, &events[i]))
				continue;
			count++;
			begin(epoll, addr);
		}
	}
	print_samples((double)count * 1e9 / (double)(now_ns() - start_ns));
}

static void measure_latency(const struct address *addr, uint64_t length_ns)
{
	uint64_t start_ns = now_ns(), last_ns = start_ns, then_ns;
	int fd = connected(addr, SOCK_STREAM);
	char byte = 'e';

	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	while (last_ns - start_ns < length_ns) {
		if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1)
			die("request");
		then_ns = now_ns();
		sample(then_ns - last_ns);
		last_ns = then_ns;
	}
	print_samples((double)samples_count * 1e9 / (double)(last_ns - start_ns));
}

static uint64_t datagrams_of(const struct address *addr)
{
	int fd = connected(addr, SOCK_STREAM);
	uint64_t count;

	if (send(fd, "n", 1, 0) != 1 ||
	    recv(fd, &count, sizeof(count), MSG_WAITALL) != sizeof(count))
		die("count");
	close(fd);
	return count;
}

static void measure_datagrams(const struct address *addr, uint64_t length_ns)
{
	static char payload[DATAGRAM_BYTES];
	struct iovec part = { payload, sizeof(payload) };
	struct mmsghdr messages[DATAGRAM_BATCH] = { 0 };
	uint64_t before = datagrams_of(addr), start_ns, end_ns, sent = 0, received;
	int fd = connected(addr, SOCK_DGRAM), got;

	for (int i = 0; i < DATAGRAM_BATCH; i++) {
		messages[i].msg_hdr.msg_iov = &part;
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	start_ns = now_ns();
	do {
		got = sendmmsg(fd, messages, DATAGRAM_BATCH, 0);
		if (got < 0 && errno != ENOBUFS)
			die("send");
		sent += got > 0 ? (uint64_t)got : 0;
		end_ns = now_ns();
	} while (end_ns - start_ns < length_ns);
	received = datagrams_of(addr) - before;
	printf("{\"per_s\": %.1f, \"sent\": %lu, \"received\": %lu}\n",
	       (double)received * 1e9 / (double)(end_ns - start_ns), sent, received);
}

int main(int argc, char **argv)
{
	struct address addr;
	uint64_t length_ns;

	if ((argc == 3 || argc == 4) && strcmp(argv[1], "serve") == 0) {
		addr = address_of(argc == 4 ? argv[3] : "0.0.0.0", argv[2]);
		serve(&addr);
	}
	if (argc != 5) {
		fprintf(stderr, "usage: load serve PORT [ADDRESS] | "
				"load connect|latency|datagrams ADDRESS PORT MS\n");
		return 2;
	}
	addr = address_of(argv[2], argv[3]);
	length_ns = strtoull(argv[4], NULL, 10) * 1000000ULL;
	samples = malloc(SAMPLES_MAX * sizeof(*samples));
	if (!samples)
		die("malloc");
	if (strcmp(argv[1], "connect") == 0)
		measure_connects(&addr, length_ns);
	else if (strcmp(argv[1], "latency") == 0)
		measure_latency(&addr, length_ns);
	else if (strcmp(argv[1], "datagrams") == 0)
		measure_datagrams(&addr, length_ns);
	else
		return 2;
	return 0;
}

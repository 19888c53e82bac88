// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/fuzz_http.c - what a client sends to the ports of health and metrics, through
 * libmicrohttpd to the agent's handlers: the node's health, or (byte 0 of the input is odd) a
 * Service's. Byte 1 is the length of the pieces that the input arrives in. A metrics request
 * differs only in its path. The two sources are part of this file, so that connections come from a
 * socket pair and no time passes. */
#include <arpa/inet.h>
#include <fcntl.h>

#define open_listener health_open_listener
#include "agent/health_server.c"
#undef open_listener
#include "fuzz/fuzz.h"
#include "http/httpd.c"

#define HEADER_BYTES 2
#define TURNS_MAX    64 /* until a connection whose client is gone has to be over */

static struct mk_core core;
static struct agent_health health = { .core = &core };
static struct agent_health_port port = {
	.health = &health, .namespace_ = (char *)"shop", .name = (char *)"web", .local_ready = 2
};
static struct mk_httpd *httpd;
static struct mk_httpd_listener *listeners[2];

static void start(void)
{
	static const struct mk_httpd_limits limits = {
		.connections = 4, .per_listener = 4, .per_client = 4, .seconds = 10
	};
	struct mk_ip_port at = { .ip = { .family = AF_INET } };
	struct mk_error err;

	at.ip.v4.s_addr = htonl(INADDR_LOOPBACK);
	mk_log_set_level(MK_LOG_ERROR);
	fuzz_check(uv_loop_init(&core.loop) == 0);
	core.model = mk_model_new();
	snprintf(core.config.node_name, sizeof(core.config.node_name), "node1");
	httpd = mk_httpd_new(&core.loop, &limits);
	fuzz_check(core.model && httpd);
	listeners[0] = mk_httpd_listen(httpd, &at, answer_node, &health, &err);
	listeners[1] = mk_httpd_listen(httpd, &at, answer_service, &port, &err);
	fuzz_check(listeners[0] && listeners[1]);
}

/* The client's end of a new connection. */
static int dial(const struct mk_httpd_listener *listener)
{
	const struct sockaddr_in client = { .sin_family = AF_INET,
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fds[2];

	fuzz_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
	fuzz_check(MHD_add_connection(listener->daemon, fds[1], (const struct sockaddr *)&client,
				      sizeof(client)) == MHD_YES);
	return fds[0];
}

static void hear(int fd)
{
	char text[1024];
	ssize_t got = recv(fd, text, sizeof(text), MSG_DONTWAIT);

	fuzz_check(got <= 0 || (got > 12 && memcmp(text, "HTTP/1.", 7) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mk_httpd_listener *listener;
	size_t piece;
	int fd;

	if (!httpd)
		start();
	if (size < HEADER_BYTES)
		return 0;
	listener = listeners[data[0] & 1];
	piece = data[1] ? 4U * data[1] : size;
	fd = dial(listener);
	for (size_t at = HEADER_BYTES; at < size; at += piece) {
		if (send(fd, data + at, size - at < piece ? size - at : piece, MSG_NOSIGNAL) < 0)
			break; /* the server has heard enough */
		run(listener);
	}
	shutdown(fd, SHUT_WR);
	run(listener);
	hear(fd);
	close(fd);
	for (int i = 0; i < TURNS_MAX && httpd->open; i++)
		run(listener);
	fuzz_check(httpd->open == 0 && !httpd->connections);
	return 0;
}

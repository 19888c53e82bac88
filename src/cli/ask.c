// SPDX-License-Identifier: Apache-2.0
/* Asks the agent over HTTP. */
#include "cli/cli_internal.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/cleanup.h"
#include "base/file.h"

#define TIMEOUT_S	 4
#define ANSWER_BYTES_MAX (64 * 1024 * 1024)

/* A listener at all addresses answers at the loopback's. */
static struct mk_ip reachable(const struct mk_ip *ip)
{
	const struct mk_ip all = { .family = ip->family };

	if (!mk_ip_equal(ip, &all))
		return *ip;
	if (ip->family == AF_INET6)
		return (struct mk_ip){ .family = AF_INET6, .v6 = IN6ADDR_LOOPBACK_INIT };
	return (struct mk_ip){ .family = AF_INET, .v4.s_addr = htonl(INADDR_LOOPBACK) };
}

static int send_request(const struct mk_ip_port *at, const char *path)
{
	const struct timeval timeout = { .tv_sec = TIMEOUT_S };
	const struct mk_ip_port here = { reachable(&at->ip), at->port };
	struct sockaddr_storage to;
	socklen_t length = mk_ip_port_sockaddr(&here, &to);
	cleanup_close int fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char request[256];

	snprintf(request, sizeof(request),
		 "GET %s HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n", path);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    connect(fd, (struct sockaddr *)&to, length) < 0 ||
	    send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		return -errno;
	return mk_steal_fd(&fd);
}

int cli_ask(const struct mk_ip_port *at, const char *path, char **body, size_t *size,
	    struct mk_error *err)
{
	cleanup_close int fd = send_request(at, path);
	cleanup_free char *answer = NULL;
	char text[MK_IP_PORT_STRLEN];
	const char *status, *begin;
	size_t bytes;

	*body = NULL;
	mk_ip_port_format(at, text);
	if (fd < 0)
		return mk_error_errno(err, -fd, "cannot ask %s at %s", path, text);
	if (mk_fd_read(fd, text, ANSWER_BYTES_MAX, &answer, &bytes, err) < 0)
		return mk_error_wrap(err, "no answer to %s", path);
	status = strchr(answer, ' '); /* "HTTP/1.1 200 OK" */
	begin = strstr(answer, "\r\n\r\n");
	if (!status || !begin)
		return mk_error_set(err, EPROTO, "the answer to %s from %s is not HTTP", path,
				    text);
	*body = strdup(begin + 4);
	if (!*body)
		return mk_error_errno(err, ENOMEM, "cannot keep the answer to %s", path);
	*size = strlen(*body);
	return (int)strtol(status, NULL, 10);
}

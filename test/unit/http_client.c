// SPDX-License-Identifier: Apache-2.0
#include "unit/http_client.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/unit.h"

struct mk_ip_port http_free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	close(fd);
	return (struct mk_ip_port){ ip_of("127.0.0.1"), ntohs(address.sin_port) };
}

void http_turn(uv_loop_t *loop)
{
	uv_run(loop, UV_RUN_NOWAIT);
	usleep(1000);
}

int http_dial(const struct mk_ip_port *to)
{
	struct sockaddr_storage address;
	socklen_t length = mk_ip_port_sockaddr(to, &address);
	int fd = socket(to->ip.family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (struct sockaddr *)&address, length) < 0) {
		close(fd);
		return -errno;
	}
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

bool http_hear(uv_loop_t *loop, int fd, char *text, size_t size)
{
	size_t used = 0;

	for (int i = 0; i < HTTP_PATIENCE_TURNS; i++) {
		ssize_t got = recv(fd, text + used, size - 1 - used, 0);

		used += got > 0 ? (size_t)got : 0;
		text[used] = '\0';
		if (got == 0 || (got < 0 && errno != EAGAIN))
			return true;
		if (got < 0)
			http_turn(loop);
	}
	return false;
}

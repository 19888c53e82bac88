// SPDX-License-Identifier: Apache-2.0
/* One MHD daemon per listener: it has an epoll instance of its own, which the loop watches like any
 * descriptor. The library's own timeout restarts with every byte, so a client that drips keeps its
 * connection. The timeout here runs from accept(); then both directions are shut down. */
#include "http/httpd.h"

#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/log.h"
#include "base/loop.h"

#define MEMORY_BYTES 8192 /* per connection: request line and headers, and the reply's */
#define BACKLOG	     128
#define TICK_MS	     500 /* precision of the connections' end */

struct connection {
	struct mk_httpd *httpd;
	struct MHD_Connection *mhd;
	uint64_t end_ms; /* in the time of uv_now() */
	struct connection *prev, *next;
};

struct mk_httpd {
	uv_loop_t *loop;
	struct mk_httpd_limits limits;
	struct mk_httpd_listener *listeners;
	struct connection *connections; /* oldest first */
	unsigned int open;
	uv_timer_t tick;
};

struct mk_httpd_listener {
	struct mk_httpd *httpd;
	struct MHD_Daemon *daemon;
	mk_httpd_handler *handler;
	void *ctx;
	uv_poll_t poll;
	uv_timer_t again; /* for work of the library that needs no new event */
	int open_handles; /* open libuv handles */
	struct mk_httpd_listener *prev, *next;
};

/* ---- the life of a connection ---------------------------------------------------------------- */

static void on_tick(uv_timer_t *timer)
{
	struct mk_httpd *httpd = timer->data;
	struct connection *connection;

	DL_FOREACH(httpd->connections, connection) {
		const union MHD_ConnectionInfo *info;

		if (connection->end_ms > uv_now(httpd->loop))
			return;
		info = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
		if (info)
			shutdown(info->connect_fd, SHUT_RDWR);
	}
	if (!httpd->connections)
		uv_timer_stop(timer);
}

static void opened(struct mk_httpd *httpd, struct MHD_Connection *mhd, void **context)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	*context = connection;
	if (!connection)
		return; /* answer() refuses the request */
	uv_update_time(httpd->loop);
	*connection = (struct connection){ .httpd = httpd,
					   .mhd = mhd,
					   .end_ms = uv_now(httpd->loop) +
						     1000ULL * httpd->limits.seconds };
	DL_APPEND(httpd->connections, connection);
	httpd->open++;
	if (!uv_is_active((uv_handle_t *)&httpd->tick))
		uv_timer_start(&httpd->tick, on_tick, TICK_MS, TICK_MS);
}

static void closed(struct connection *connection)
{
	if (!connection)
		return;
	DL_DELETE(connection->httpd->connections, connection);
	connection->httpd->open--;
	free(connection);
}

static void on_connection(void *ctx, struct MHD_Connection *mhd, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct mk_httpd_listener *listener = ctx;

	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		opened(listener->httpd, mhd, context);
	else
		closed(*context);
}

static enum MHD_Result accept_client(void *ctx, const struct sockaddr *address, socklen_t length)
{
	const struct mk_httpd_listener *listener = ctx;

	(void)address;
	(void)length;
	return listener->httpd->open < listener->httpd->limits.connections ? MHD_YES : MHD_NO;
}

/* ---- one request ----------------------------------------------------------------------------- */

void mk_httpd_reply_header(struct mk_httpd_reply *reply, const char *name, const char *fmt, ...)
{
	va_list args;

	for (size_t i = 0; i < MK_HTTPD_HEADERS; i++) {
		if (reply->headers[i].name)
			continue;
		reply->headers[i].name = name;
		va_start(args, fmt);
		vsnprintf(reply->headers[i].value, sizeof(reply->headers[i].value), fmt, args);
		va_end(args);
		return;
	}
}

/* The response takes over @reply's body. */
static struct MHD_Response *make_response(struct mk_httpd_reply *reply)
{
	size_t bytes = reply->body ? strlen(reply->body) : 0;
	struct MHD_Response *response = MHD_create_response_from_buffer(
		bytes, reply->body, bytes ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);

	if (!response || !bytes)
		free(reply->body);
	for (size_t i = 0; response && i < MK_HTTPD_HEADERS && reply->headers[i].name; i++)
		MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
	if (response)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	return response;
}

static enum MHD_Result answer(void *ctx, struct MHD_Connection *mhd, const char *path,
			      const char *method, const char *version, const char *data,
			      size_t *data_bytes, void **request)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct mk_httpd_listener *listener = ctx;
	struct mk_httpd_reply reply = { .status = MHD_HTTP_OK };
	struct MHD_Response *response;
	enum MHD_Result ret;

	(void)method;
	(void)version;
	(void)data;
	(void)data_bytes;
	(void)request;
	if (!info || !info->socket_context)
		return MHD_NO; /* nothing would ever end this connection */
	listener->handler(listener->ctx, path, &reply);
	response = make_response(&reply);
	if (!response)
		return MHD_NO;
	ret = MHD_queue_response(mhd, reply.status, response);
	MHD_destroy_response(response);
	return ret;
}

static void log_library(void *ctx, const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));
static void log_library(void *ctx, const char *fmt, va_list args)
{
	char text[256];

	(void)ctx;
	vsnprintf(text, sizeof(text), fmt, args);
	text[strcspn(text, "\n")] = '\0';
	mk_log_debug("libmicrohttpd: %s", text);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void run(struct mk_httpd_listener *listener);

static void on_again(uv_timer_t *timer)
{
	run(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	run(poll->data);
}

static void run(struct mk_httpd_listener *listener)
{
	MHD_UNSIGNED_LONG_LONG wait_ms;

	MHD_run(listener->daemon);
	if (MHD_get_timeout(listener->daemon, &wait_ms) == MHD_YES)
		uv_timer_start(&listener->again, on_again, wait_ms, 0);
	else
		uv_timer_stop(&listener->again);
}

/* ---- listeners ------------------------------------------------------------------------------- */

static int open_socket(const struct mk_ip_port *at, struct mk_error *err)
{
	struct sockaddr_storage address;
	socklen_t length = mk_ip_port_sockaddr(at, &address);
	int fd = socket(at->ip.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char text[MK_IP_PORT_STRLEN];
	int ret;

	if (fd < 0)
		return mk_error_errno(err, errno, "cannot open a socket");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (at->ip.family == AF_INET6) /* [::] is no address of IPv4 */
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 1 }, sizeof(int));
	if (bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	ret = mk_error_errno(err, errno, "cannot listen on %s", mk_ip_port_format(at, text));
	close(fd);
	return ret;
}

static struct MHD_Daemon *start_daemon(struct mk_httpd_listener *listener, int fd)
{
	const struct mk_httpd_limits *limits = &listener->httpd->limits;

	return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, accept_client, listener,
				answer, listener, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
				MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_CONNECTION,
				on_connection, listener, MHD_OPTION_CONNECTION_LIMIT,
				limits->per_listener, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
				limits->per_client, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				(size_t)MEMORY_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, 0U,
				MHD_OPTION_END);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct mk_httpd_listener *listener = handle->data;

	if (--listener->open_handles == 0)
		free(listener);
}

/* Close only handles that libuv knows: count each one after its initialisation. */
static int watch(struct mk_httpd_listener *listener, struct mk_error *err)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(listener->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	int ret;

	listener->again.data = listener->poll.data = listener;
	ret = uv_timer_init(listener->httpd->loop, &listener->again);
	if (ret == 0) {
		listener->open_handles++;
		ret = uv_poll_init(listener->httpd->loop, &listener->poll, info->epoll_fd);
	}
	if (ret == 0) {
		listener->open_handles++;
		ret = uv_poll_start(&listener->poll, UV_READABLE, on_poll);
	}
	return ret < 0 ? mk_error_errno(err, -ret, "cannot watch a port") : 0;
}

/* Release also a listener that was opened only in part. */
static void release(struct mk_httpd_listener *listener)
{
	if (listener->open_handles > 1)
		uv_close((uv_handle_t *)&listener->poll, on_handle_closed);
	if (listener->daemon)
		MHD_stop_daemon(listener->daemon);
	if (listener->open_handles > 0)
		uv_close((uv_handle_t *)&listener->again, on_handle_closed);
	else
		free(listener);
}

static int open_listener(struct mk_httpd_listener *listener, const struct mk_ip_port *at,
			 struct mk_error *err)
{
	int fd = open_socket(at, err);

	if (fd < 0)
		return fd;
	listener->daemon = start_daemon(listener, fd);
	if (!listener->daemon) {
		close(fd);
		return mk_error_set(err, ENOMEM, "libmicrohttpd %s does not start",
				    MHD_get_version());
	}
	return watch(listener, err);
}

struct mk_httpd_listener *mk_httpd_listen(struct mk_httpd *httpd, const struct mk_ip_port *at,
					  mk_httpd_handler *handler, void *ctx,
					  struct mk_error *err)
{
	struct mk_httpd_listener *listener = mk_new(sizeof(*listener), "listener", err);

	if (!listener)
		return NULL;
	listener->httpd = httpd;
	listener->handler = handler;
	listener->ctx = ctx;
	if (open_listener(listener, at, err) < 0) {
		release(listener);
		return NULL;
	}
	DL_APPEND(httpd->listeners, listener);
	return listener;
}

void mk_httpd_close(struct mk_httpd_listener *listener)
{
	if (!listener)
		return;
	DL_DELETE(listener->httpd->listeners, listener);
	release(listener);
}

/* ---- the server ------------------------------------------------------------------------------ */

struct mk_httpd *mk_httpd_new(uv_loop_t *loop, const struct mk_httpd_limits *limits)
{
	struct mk_httpd *httpd = calloc(1, sizeof(*httpd));

	if (!httpd)
		return NULL;
	httpd->loop = loop;
	httpd->limits = *limits;
	uv_timer_init(loop, &httpd->tick); /* cannot fail */
	httpd->tick.data = httpd;
	return httpd;
}

void mk_httpd_free(struct mk_httpd *httpd)
{
	struct mk_httpd_listener *listener, *next;

	if (!httpd)
		return;
	DL_FOREACH_SAFE(httpd->listeners, listener, next)
		mk_httpd_close(listener);
	mk_timer_free(&httpd->tick);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* src/http/httpd.h - short answers over HTTP/1.1 without TLS (health checks, metrics), served by
 * libmicrohttpd on the caller's libuv loop: no thread. One request per connection, whatever its
 * method; a request's body is not read. Slow clients, large requests and many connections are
 * limited, see struct mk_httpd_limits. */
#ifndef MK_HTTPD_HTTP_H
#define MK_HTTPD_HTTP_H

#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/ip.h"

struct mk_httpd_limits {
	unsigned int connections; /* at a time, all listeners together: more are closed at once */
	unsigned int per_listener; /* at a time: more wait to be accepted */
	unsigned int per_client; /* at a time, per address and listener: more are closed at once */
	unsigned int seconds; /* from accept() to the end, whatever the client does */
};

#define MK_HTTPD_HEADERS 4

/* Filled in by a handler. Before: status 200, everything else zero. */
struct mk_httpd_reply {
	unsigned int status;
	struct {
		const char *name; /* NULL: no more; a literal */
		char value[96];
	} headers[MK_HTTPD_HEADERS];
	char *body; /* text from malloc(3), which the server frees; NULL: empty */
};

/* @path as the client wrote it, decoded, without a query. Must not close a listener. */
typedef void mk_httpd_handler(void *ctx, const char *path, struct mk_httpd_reply *reply);

/* Add a header; there is capacity for MK_HTTPD_HEADERS. */
void mk_httpd_reply_header(struct mk_httpd_reply *reply, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A server: listeners that share a limit of connections. NULL: out of memory. */
mk_must_check struct mk_httpd *mk_httpd_new(uv_loop_t *loop, const struct mk_httpd_limits *limits);

/* Close every listener. The memory is freed when @loop has run once more. @httpd may be NULL. */
void mk_httpd_free(struct mk_httpd *httpd);

/* Listen on @at (IPv4) and call @handler for each request. NULL: see @err; code EADDRINUSE
 * if the port is in use. */
mk_must_check struct mk_httpd_listener *mk_httpd_listen(struct mk_httpd *httpd,
							const struct mk_ip_port *at,
							mk_httpd_handler *handler, void *ctx,
							struct mk_error *err);

/* Close the port, which is free on return, and its connections. The handler is not called any more.
 * @listener may be NULL. */
void mk_httpd_close(struct mk_httpd_listener *listener);

#endif

// SPDX-License-Identifier: Apache-2.0
/* The HTTP server, requested over loopback by correct, broken and malicious clients. Server and
 * clients share the test's loop. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "http/httpd.h"
#include "unit/http_client.h"
#include "unit/unit.h"

static const struct mk_httpd_limits limits = {
	.connections = 6, .per_listener = 4, .per_client = 3, .seconds = 1
};

static uv_loop_t loop;
static struct mk_httpd *httpd;
static struct mk_httpd_listener *listener;
static struct mk_ip_port at;
static char asked[256]; /* path of the last request */
static struct mk_error err;

static void answer(void *ctx, const char *path, struct mk_httpd_reply *reply)
{
	snprintf(asked, sizeof(asked), "%s", path);
	ck_assert_ptr_eq(ctx, &asked);
	if (strcmp(path, "/nothing") == 0) {
		reply->status = 404;
		return;
	}
	reply->body = strdup("{\"yes\": true}");
	mk_httpd_reply_header(reply, "Content-Type", "application/json");
	mk_httpd_reply_header(reply, "X-Number", "%d", 7);
}

static void setup(void)
{
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	httpd = mk_httpd_new(&loop, &limits);
	ck_assert_ptr_nonnull(httpd);
	at = http_free_port();
	listener = mk_httpd_listen(httpd, &at, answer, asked, &err);
	ck_assert_msg(listener != NULL, "%s", mk_error_text(&err));
}

/* The loop must end: no handle is left. */
static void teardown(void)
{
	mk_httpd_free(httpd);
	ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void turn(void)
{
	http_turn(&loop);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void say(int fd, const char *text, size_t bytes)
{
	for (int i = 0; bytes > 0 && i < HTTP_PATIENCE_TURNS; i++) {
		ssize_t sent = send(fd, text, bytes, MSG_NOSIGNAL);

		if (sent < 0 && errno != EAGAIN)
			return; /* the server has closed the connection */
		text += sent > 0 ? sent : 0;
		bytes -= sent > 0 ? (size_t)sent : 0;
		turn();
	}
}

static bool is_closed(int fd)
{
	char text[16];
	ssize_t got = recv(fd, text, sizeof(text), MSG_PEEK);

	return got == 0 || (got < 0 && errno != EAGAIN);
}

static void wait_closed(int fd)
{
	for (int i = 0; i < HTTP_PATIENCE_TURNS && !is_closed(fd); i++)
		turn();
	ck_assert(is_closed(fd));
}

static bool contains(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define HOST "Host: x\r\n"

static const struct {
	const char *request, *path; /* NULL: the handler is not called */
	const char *expected[4]; /* parts of the answer */
	const char *body; /* NULL: none */
} rows[] = {
	{ "GET /a?b=c HTTP/1.1\r\n" HOST "\r\n",
	  "/a",
	  { "HTTP/1.1 200 ", "\r\nContent-Type: application/json\r\n", "\r\nX-Number: 7\r\n",
	    "\r\nConnection: close\r\n" },
	  "{\"yes\": true}" },
	{ "GET /%61/../b HTTP/1.1\r\n" HOST "\r\n",
	  "/a/../b",
	  { "HTTP/1.1 200 " },
	  "{\"yes\": true}" },
	{ "GET /nothing HTTP/1.1\r\n" HOST "\r\n",
	  "/nothing",
	  { "HTTP/1.1 404 ", "\r\nContent-Length: 0\r\n" },
	  NULL },
	{ "HEAD / HTTP/1.1\r\n" HOST "\r\n",
	  "/",
	  { "HTTP/1.1 200 ", "\r\nContent-Length: 13\r\n" },
	  NULL },
	{ "OPTIONS / HTTP/1.0\r\n\r\n", "/", { " 200 " }, "{\"yes\": true}" },
	{ "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc",
	  "/",
	  { " 200 " },
	  "{\"yes\": true}" },
	{ "GET / HTTP/1.1\r\n" HOST "\r\nGET /second HTTP/1.1\r\n" HOST "\r\n",
	  "/",
	  { " 200 " },
	  "{\"yes\": true}" },
	{ "nonsense\r\n\r\n", NULL, { "" }, NULL },
	{ "\x16\x03\x01\x02\x05\x01\x04\r\n\r\n", NULL, { "" }, NULL }, /* TLS */
};

START_TEST(test_request)
{
	const char *body;
	char text[4096];
	int fd = http_dial(&at);

	asked[0] = '\0';
	say(fd, rows[_i].request, strlen(rows[_i].request));
	ck_assert(http_hear(&loop, fd, text, sizeof(text)));
	close(fd);
	ck_assert_str_eq(asked, rows[_i].path ? rows[_i].path : "");
	for (size_t i = 0; i < MK_ARRAY_SIZE(rows[_i].expected) && rows[_i].expected[i]; i++)
		ck_assert_msg(contains(text, rows[_i].expected[i]), "no '%s' in:\n%s",
			      rows[_i].expected[i], text);
	body = strstr(text, "\r\n\r\n");
	if (rows[_i].path)
		ck_assert_str_eq(body + 4, rows[_i].body ? rows[_i].body : "");
}
END_TEST

/* The server still works. */
static void still_answers(void)
{
	int fd = http_dial(&at);
	char text[4096];

	ck_assert_int_ge(fd, 0);
	say(fd, rows[0].request, strlen(rows[0].request));
	ck_assert(http_hear(&loop, fd, text, sizeof(text)));
	close(fd);
	ck_assert_msg(contains(text, " 200 "), "%s", text);
}

/* ---- too much of something ------------------------------------------------------------------- */

#define MUCH (1024 * 1024)

START_TEST(test_big_request)
{
	static const char *const starts[] = { "POST / HTTP/1.1\r\n" HOST
					      "Content-Length: 1048576\r\n\r\n",
					      "GET / HTTP/1.1\r\n" HOST "X: ", "GET /", "" };
	cleanup_free char *much = malloc(MUCH);
	char text[4096];
	int fd = http_dial(&at);

	memset(much, 'a', MUCH);
	say(fd, starts[_i], strlen(starts[_i]));
	say(fd, much, MUCH);
	ck_assert_msg(http_hear(&loop, fd, text, sizeof(text)), "the server reads all of it");
	close(fd);
	still_answers();
}
END_TEST

/* A client that sends nothing, sends single bytes, or does not read the answer is disconnected. */
START_TEST(test_slow_client)
{
	char text[4096];
	int idle = http_dial(&at), dripping = http_dial(&at);

	for (int i = 0; i < HTTP_PATIENCE_TURNS && !is_closed(dripping); i++) {
		if (i % 100 == 0)
			send(dripping, "G", 1, MSG_NOSIGNAL);
		turn();
	}
	ck_assert(is_closed(dripping));
	ck_assert(http_hear(&loop, idle, text, sizeof(text)));
	close(idle);
	close(dripping);
	still_answers();
}
END_TEST

START_TEST(test_many_of_one_client)
{
	int fds[3], more;

	for (size_t i = 0; i < MK_ARRAY_SIZE(fds); i++) {
		fds[i] = http_dial(&at);
		turn();
	}
	more = http_dial(&at);
	for (int i = 0; i < 200 && !is_closed(more); i++)
		turn();
	ck_assert_msg(is_closed(more), "one client has more than 3 connections");
	ck_assert(!is_closed(fds[0]));
	close(more);
	for (size_t i = 0; i < MK_ARRAY_SIZE(fds); i++)
		close(fds[i]);
	for (int i = 0; i < 20; i++)
		turn();
	still_answers();
}
END_TEST

/* All listeners together accept six connections, though each may have four. */
START_TEST(test_many_of_all)
{
	struct mk_ip_port others[2] = { http_free_port(), http_free_port() };
	int fds[6], more;

	for (size_t i = 0; i < 2; i++)
		ck_assert_ptr_nonnull(mk_httpd_listen(httpd, &others[i], answer, asked, &err));
	for (size_t i = 0; i < MK_ARRAY_SIZE(fds); i++) {
		fds[i] = http_dial(i < 3 ? &others[0] : &others[1]);
		turn();
	}
	more = http_dial(&at);
	for (int i = 0; i < 200 && !is_closed(more); i++)
		turn();
	ck_assert_msg(is_closed(more), "there are more than 6 connections");
	close(more);
	for (size_t i = 0; i < MK_ARRAY_SIZE(fds); i++)
		close(fds[i]);
	for (int i = 0; i < 20; i++)
		turn();
	still_answers();
}
END_TEST

/* ---- listeners ------------------------------------------------------------------------------- */

/* [::] answers at [::1], and leaves the port of 0.0.0.0 to others. */
START_TEST(test_ipv6)
{
	struct mk_ip_port any = http_free_port(), v4 = any;

	any.ip = ip_of("::");
	v4.ip = ip_of("0.0.0.0");
	ck_assert_msg(mk_httpd_listen(httpd, &any, answer, asked, &err), "%s", mk_error_text(&err));
	ck_assert_msg(mk_httpd_listen(httpd, &v4, answer, asked, &err), "%s", mk_error_text(&err));
	at = (struct mk_ip_port){ ip_of("::1"), any.port };
	still_answers();
	at.ip = ip_of("127.0.0.1");
	still_answers();
}
END_TEST

START_TEST(test_port_in_use)
{
	char text[MK_IP_PORT_STRLEN];

	ck_assert_ptr_null(mk_httpd_listen(httpd, &at, answer, asked, &err));
	ck_assert_int_eq(err.code, EADDRINUSE);
	ck_assert_msg(contains(mk_error_text(&err), mk_ip_port_format(&at, text)), "%s",
		      mk_error_text(&err));
	still_answers();
}
END_TEST

/* Free the server with its connections; the port is free at once. */
START_TEST(test_close)
{
	int fd = http_dial(&at);

	say(fd, "GET", 3);
	mk_httpd_close(listener);
	wait_closed(fd);
	close(fd);
	ck_assert_int_eq(http_dial(&at), -ECONNREFUSED);
	listener = mk_httpd_listen(httpd, &at, answer, asked, &err);
	ck_assert_msg(listener != NULL, "%s", mk_error_text(&err));
	still_answers();
}
END_TEST

/* Teardown finds open connections, one with half a request. */
START_TEST(test_free_with_connections)
{
	int idle = http_dial(&at), half = http_dial(&at);

	say(half, "GET / HT", 8);
	turn();
	close(idle); /* and the server has not seen it yet */
	(void)half;
}
END_TEST

UNIT_SUITE("httpd")
{
	TCase *tcase = unit_case(suite, "all", setup, teardown);

	mk_log_set_level(MK_LOG_ERROR);
	tcase_add_loop_test(tcase, test_request, 0, MK_ARRAY_SIZE(rows));
	tcase_add_loop_test(tcase, test_big_request, 0, 4);
	tcase_add_test(tcase, test_slow_client);
	tcase_add_test(tcase, test_many_of_one_client);
	tcase_add_test(tcase, test_many_of_all);
	tcase_add_test(tcase, test_ipv6);
	tcase_add_test(tcase, test_port_in_use);
	tcase_add_test(tcase, test_close);
	tcase_add_test(tcase, test_free_with_connections);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/http_client.h - clients of a server on the test's own loop, over loopback. */
#ifndef MK_TEST_HTTP_CLIENT_H
#define MK_TEST_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/ip.h"

#define HTTP_PATIENCE_TURNS 10000 /* of the loop, about a millisecond each */

/* A port that nobody has, of 127.0.0.1. */
struct mk_ip_port http_free_port(void);
void http_turn(uv_loop_t *loop);
/* A connection that does not block, or -errno. */
int http_dial(const struct mk_ip_port *to);
/* What comes until the server closes, into @text; false: it does not close. */
bool http_hear(uv_loop_t *loop, int fd, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/http_client.h - HTTP clients over loopback, for a server on the test's loop. */
#ifndef MK_TEST_HTTP_CLIENT_H
#define MK_TEST_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/ip.h"

#define HTTP_PATIENCE_TURNS 10000 /* turns of the loop, about a millisecond each */

/* Return an unused port of 127.0.0.1. */
struct mk_ip_port http_free_port(void);
void http_turn(uv_loop_t *loop);
/* Return a non-blocking connection, or -errno. */
int http_dial(const struct mk_ip_port *to);
/* Read into @text until the server closes; false: it does not close. */
bool http_hear(uv_loop_t *loop, int fd, char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/http.h - requests to one API server, on the loop: libcurl's multi interface driven by
 * libuv. HTTP/2 where the server has it, so that all watches share one connection. */
#ifndef MK_KUBE_HTTP_H
#define MK_KUBE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/ip.h"
#include "kube/clock.h"
#include "kube/credentials.h"

struct mk_http;
struct mk_http_transfer;

/* How a request ended. */
struct mk_http_result {
	int status; /* of HTTP; 0: there was no answer */
	uint64_t retry_after_s; /* what the server asked for, 0: nothing */
	/* 0, or why the answer did not come or is not complete; the text names the server */
	int failure;
	struct mk_error error;
};

struct mk_http_request {
	const char *method; /* NULL: GET */
	const char *target; /* path and query, from the root of the API */
	const char *content_type, *body; /* NULL: none */
	bool compressed; /* gzip, if the server wants to */
	uint64_t silence_ms; /* the transfer fails after so long without a byte */
	uint64_t answer_ms; /* ... before the answer begins; 0: silence_ms */
	/* A part of the body of an answer with @status, or NULL. A negative return ends the
	 * transfer: done() follows, with it as failure and what the function left in @err. */
	int (*data)(void *ctx, int status, const char *data, size_t size, struct mk_error *err);
	/* Always called, once, unless the transfer is cancelled; never from within mk_http_start()
	 * or libcurl, so everything may be called from it. The transfer is gone. */
	void (*done)(void *ctx, const struct mk_http_result *result);
	void *ctx;
};

/* When a peer that vanished without a word counts as gone. Watches are idle for minutes: the kernel
 * asks after keepalive_idle_s of silence; answers that are missing, and data that nobody
 * acknowledges, end the connection after unacknowledged_ms. */
struct mk_http_limits {
	unsigned int connect_ms;
	unsigned int keepalive_idle_s, keepalive_interval_s;
	unsigned int unacknowledged_ms;
};

extern const struct mk_http_limits mk_http_limits_default;

/* @credentials and @limits stay the caller's, and have to live as long. */
mk_must_check struct mk_http *mk_http_new(uv_loop_t *loop, struct mk_credentials *credentials,
					  const struct mk_http_limits *limits,
					  struct mk_error *err);
/* Cancels what is under way. The memory goes once the loop has run its close callbacks. Not from
 * within data(). */
void mk_http_free(struct mk_http *http);

/* Everything in @request is copied. NULL: error. */
mk_must_check struct mk_http_transfer *
mk_http_start(struct mk_http *http, const struct mk_http_request *request, struct mk_error *err);

/* Neither data() nor done() is called any more. May be called from within data(). */
void mk_http_cancel(struct mk_http_transfer *transfer);

/* From now on, as silence_ms. */
void mk_http_set_silence(struct mk_http_transfer *transfer, uint64_t silence_ms);

/* The server's clock, as its last answer told. */
const struct mk_api_clock *mk_http_clock(const struct mk_http *http);

/* The address of the last answer; AF_UNSPEC: none yet, or no IPv4 address. */
struct mk_ip mk_http_server(const struct mk_http *http);

/* The status of the answer that is coming, 0: none yet. */
int mk_http_status(const struct mk_http_transfer *transfer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/http.h - requests to one API server, on the loop: libcurl's multi interface
 * driven by libuv. It uses HTTP/2 if the server has it, so that all watches share one
 * connection. */
#ifndef MK_CLUSTER_API_HTTP_H
#define MK_CLUSTER_API_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/ip.h"
#include "cluster/api/clock.h"
#include "cluster/api/credentials.h"

struct mk_http;
struct mk_http_transfer;

/* How a request ended. */
struct mk_http_result {
	int status; /* HTTP status; 0: no answer */
	uint64_t retry_after_s; /* from the server's Retry-After, 0: none */
	/* 0, or why the answer is missing or incomplete; the text names the server */
	int failure;
	struct mk_error error;
};

struct mk_http_request {
	const char *method; /* NULL: GET */
	const char *target; /* path and query, from the root of the API */
	const char *content_type, *body; /* NULL: none */
	bool compressed; /* accept gzip */
	uint64_t silence_ms; /* the transfer fails after this long without data */
	uint64_t answer_ms; /* the same before the answer begins; 0: silence_ms */
	/* Takes a part of the body of an answer with @status; may be NULL. A negative return ends
	 * the transfer: done() gets it as failure, with the text of @err. */
	int (*data)(void *ctx, int status, const char *data, size_t size, struct mk_error *err);
	/* Called exactly once, unless the transfer is cancelled; the transfer is already freed. It
	 * is never called within mk_http_start() or libcurl, so it may call everything. */
	void (*done)(void *ctx, const struct mk_http_result *result);
	void *ctx;
};

/* When a peer that vanished silently is considered dead. Watches are idle for minutes, so the
 * kernel sends keepalive probes after keepalive_idle_s of silence. Unanswered probes, and data that
 * is not acknowledged, end the connection after unacknowledged_ms. */
struct mk_http_limits {
	unsigned int connect_ms;
	unsigned int keepalive_idle_s, keepalive_interval_s;
	unsigned int unacknowledged_ms;
};

extern const struct mk_http_limits mk_http_limits_default;

/* @credentials and @limits belong to the caller and must live as long. */
mk_must_check struct mk_http *mk_http_new(uv_loop_t *loop, struct mk_credentials *credentials,
					  const struct mk_http_limits *limits,
					  struct mk_error *err);
/* Cancel all transfers and free. The memory is freed after the loop has run its close callbacks. Do
 * not call it within data(). */
void mk_http_free(struct mk_http *http);

/* Start a transfer. @request is copied. NULL: error. */
mk_must_check struct mk_http_transfer *
mk_http_start(struct mk_http *http, const struct mk_http_request *request, struct mk_error *err);

/* Cancel: neither data() nor done() follows. May be called within data(). */
void mk_http_cancel(struct mk_http_transfer *transfer);

/* Change silence_ms from now on. */
void mk_http_set_silence(struct mk_http_transfer *transfer, uint64_t silence_ms);

/* Return the server's clock according to its last answer. */
const struct mk_api_clock *mk_http_clock(const struct mk_http *http);

/* Return the address that sent the last answer; AF_UNSPEC: none yet. */
struct mk_ip mk_http_server(const struct mk_http *http);

/* Return the status of the arriving answer, 0: none yet. */
int mk_http_status(const struct mk_http_transfer *transfer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/exchange.h - one request to an API server whose whole answer is JSON of bounded
 * size: a read of an object, or a write. */
#ifndef MK_CLUSTER_API_EXCHANGE_H
#define MK_CLUSTER_API_EXCHANGE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/api/http.h"

struct mk_exchange;

struct mk_answer {
	int status; /* HTTP status; 0: no answer, or an incomplete one */
	uint64_t retry_after_s; /* 0: the server asks for no pause */
	json_object *tree; /* NULL: no JSON object, or larger than kept_bytes */
	/* Why it is not a success: the server's message in one line, or what is wrong. "": it is
	 * one, HTTP status 200 to 299. */
	char why[384];
};

struct mk_exchange_request {
	const char *method, *target; /* see struct mk_http_request */
	const char *content_type, *body; /* NULL: none */
	uint64_t silence_ms; /* the request fails after this long without data */
	size_t kept_bytes; /* of the answer; the rest is received, but not kept */
	/* Called once from the loop, unless it is cancelled; the exchange is already freed. */
	void (*done)(void *ctx, const struct mk_answer *answer);
	void *ctx;
};

/* The texts of @request are copied. @http must live longer. NULL: error. */
mk_must_check struct mk_exchange *mk_exchange_start(struct mk_http *http,
						    const struct mk_exchange_request *request,
						    struct mk_error *err);
/* Cancel; done() does not follow. @exchange may be NULL. */
void mk_exchange_cancel(struct mk_exchange *exchange);

static inline bool mk_answer_is_good(const struct mk_answer *answer)
{
	return answer->status >= 200 && answer->status < 300 && !answer->why[0];
}

/* Is it a temporary state of the server or of the way to it? Then the same request may succeed. */
static inline bool mk_answer_is_temporary(const struct mk_answer *answer)
{
	return answer->status < 200 || answer->status >= 500 || answer->status == 429;
}

#endif

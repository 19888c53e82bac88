// SPDX-License-Identifier: Apache-2.0
#include "cluster/api/exchange.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

struct mk_exchange {
	struct mk_http_transfer *transfer;
	struct mk_exchange_request request; /* its texts are not copied */
	char *text;
	size_t size;
	bool is_cut; /* it was larger than kept_bytes */
};

static int take(void *ctx, int status, const char *data, size_t size, struct mk_error *err)
{
	struct mk_exchange *exchange = ctx;
	char *bigger;

	(void)status;
	if (exchange->is_cut || size > exchange->request.kept_bytes - exchange->size) {
		exchange->is_cut = true;
		return 0;
	}
	bigger = realloc(exchange->text, exchange->size + size + 1);
	if (!bigger)
		return mk_error_errno(err, ENOMEM, "answer of %zu bytes", exchange->size + size);
	exchange->text = bigger;
	memcpy(bigger + exchange->size, data, size);
	exchange->size += size;
	bigger[exchange->size] = '\0';
	return 0;
}

/* Copy @text as one line of a log. */
static void put_line(struct mk_answer *answer, const char *text)
{
	snprintf(answer->why, sizeof(answer->why), "%s", text);
	for (char *at = answer->why; *at; at++)
		if (iscntrl((unsigned char)*at))
			*at = ' ';
}

static void describe(const struct mk_http_result *result, struct mk_answer *answer)
{
	if (result->failure < 0) {
		answer->status = 0;
		put_line(answer, result->error.text);
	} else if (result->status < 200 || result->status >= 300) {
		put_line(answer, mk_json_text(answer->tree, "message"));
		if (!answer->why[0])
			snprintf(answer->why, sizeof(answer->why), "HTTP status %d",
				 result->status);
	}
}

static void finish(void *ctx, const struct mk_http_result *result)
{
	struct mk_exchange *exchange = ctx;
	struct mk_exchange_request request = exchange->request;
	struct mk_answer answer = { .status = result->status,
				    .retry_after_s = result->retry_after_s };
	cleanup_json json_object *tree = NULL;

	if (exchange->text && !exchange->is_cut)
		tree = json_tokener_parse(exchange->text);
	if (json_object_is_type(tree, json_type_object))
		answer.tree = tree;
	free(exchange->text);
	free(exchange);
	describe(result, &answer);
	request.done(request.ctx, &answer);
}

struct mk_exchange *mk_exchange_start(struct mk_http *http,
				      const struct mk_exchange_request *request,
				      struct mk_error *err)
{
	struct mk_exchange *exchange = mk_new(sizeof(*exchange), "request", err);
	const struct mk_http_request http_request = {
		.method = request->method,
		.target = request->target,
		.content_type = request->content_type,
		.body = request->body,
		.silence_ms = request->silence_ms,
		.data = take,
		.done = finish,
		.ctx = exchange,
	};

	if (!exchange)
		return NULL;
	exchange->request = *request;
	exchange->transfer = mk_http_start(http, &http_request, err);
	if (exchange->transfer)
		return exchange;
	free(exchange);
	return NULL;
}

void mk_exchange_cancel(struct mk_exchange *exchange)
{
	if (!exchange)
		return;
	mk_http_cancel(exchange->transfer);
	free(exchange->text);
	free(exchange);
}

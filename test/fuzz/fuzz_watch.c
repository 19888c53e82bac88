// SPDX-License-Identifier: Apache-2.0
/* test/fuzz/fuzz_watch.c - what an API server answers to the requests of one reflector, down to the
 * model, compiled Services and policies. Byte 0 of the input chooses the resource, byte 1 the
 * length of the pieces that the answers arrive in. The answers follow, with the byte 0x1e between
 * them. Three digits and a blank are a status; otherwise it is 200. The reflector chooses its
 * requests itself.
 * Its source is part of this file, so that no time passes. */
#include <ctype.h>

#include "base/log.h"
#include "fuzz/compile.h"
#include "fuzz/policies.h"
#include "cluster/watch/reflector.c"

#define ANSWERS_MAX 8
#define SEPARATOR   0x1e

const size_t fuzz_header_bytes = 2;

static uv_loop_t loop;

/* ---- a client of which every request is answered from the input ------------------------------ */

static struct {
	struct mk_http_request request;
	bool open;
} asked;

struct mk_http_transfer *mk_http_start(struct mk_http *http, const struct mk_http_request *request,
				       struct mk_error *err)
{
	(void)http, (void)err;
	fuzz_check(!asked.open && request->target[0] == '/');
	asked.request = *request;
	asked.open = true;
	return (void *)&asked;
}

void mk_http_cancel(struct mk_http_transfer *transfer)
{
	(void)transfer;
	asked.open = false;
}

void mk_http_set_silence(struct mk_http_transfer *transfer, uint64_t silence_ms)
{
	(void)transfer, (void)silence_ms;
}

int mk_http_status(const struct mk_http_transfer *transfer)
{
	(void)transfer;
	return 200;
}

static int status_of(const char **text, size_t *size)
{
	const char *digit = *text;

	if (*size < 4 || !isdigit(digit[0]) || !isdigit(digit[1]) || !isdigit(digit[2]) ||
	    digit[3] != ' ')
		return 200;
	*text += 4;
	*size -= 4;
	return (digit[0] - '0') * 100 + (digit[1] - '0') * 10 + digit[2] - '0';
}

static void answer(const char *text, size_t size, size_t piece)
{
	struct mk_http_result result = { .status = status_of(&text, &size) };

	for (size_t at = 0; result.failure == 0 && at < size; at += piece)
		result.failure =
			asked.request.data(asked.request.ctx, result.status, text + at,
					   size - at < piece ? size - at : piece, &result.error);
	fuzz_check(result.failure == 0 ||
		   memchr(result.error.text, '\0', sizeof(result.error.text)) != NULL);
	asked.open = false;
	asked.request.done(asked.request.ctx, &result);
}

/* ---- where objects go ------------------------------------------------------------------------ */

static int apply_object(void *ctx, const struct mk_resource *resource, json_object *tree,
			struct mk_error *err)
{
	(void)resource;
	return mk_model_apply(ctx, tree, err);
}

static void remove_object(void *ctx, const struct mk_resource *resource, const char *namespace_,
			  const char *name)
{
	mk_model_delete(ctx, resource->model_kind, namespace_, name);
}

static void nothing(void *ctx, const struct mk_resource *resource)
{
	(void)ctx, (void)resource;
}

/* ---- one input ------------------------------------------------------------------------------- */

static void follow(struct mk_reflector *reflector, const char *text, size_t size, size_t piece)
{
	const char *end;

	for (int i = 0; i < ANSWERS_MAX && size > 0; i++) {
		size_t length;

		go_on(&reflector->timer);
		if (!asked.open)
			return;
		end = memchr(text, SEPARATOR, size);
		length = end ? (size_t)(end - text) : size;
		answer(text, length, piece);
		length += end != NULL;
		text += length;
		size -= length;
	}
}

static void start(void)
{
	if (loop.data)
		return;
	fuzz_check(uv_loop_init(&loop) == 0);
	loop.data = &loop;
	mk_log_set_level(MK_LOG_ERROR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mk_model *model = mk_model_new();
	const struct mk_reflector_sink sink = { .apply = apply_object,
						.remove = remove_object,
						.listed = nothing,
						.absent = nothing,
						.ctx = model };
	struct mk_reflector *reflector;
	struct mk_error err;

	start();
	fuzz_check(model != NULL);
	if (size > fuzz_header_bytes) {
		reflector =
			mk_reflector_start(&loop, NULL, mk_resource(data[0] % MK_RESOURCE_COUNT),
					   &mk_reflector_timing_default, &sink, &err);
		fuzz_check(reflector != NULL);
		follow(reflector, (const char *)data + fuzz_header_bytes, size - fuzz_header_bytes,
		       data[1] ? data[1] : size);
		mk_model_each(struct mk_service_object, of, model, MK_KIND_SERVICE)
			compile_service(model, of);
		compile_policies(model);
		mk_reflector_withdraw(reflector);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	mk_model_free(model);
	return 0;
}

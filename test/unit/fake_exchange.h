/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/fake_exchange.h - requests that the test answers when it likes, in place of
 * cluster/api/exchange.c, and clocks that only the test moves. The file that includes it defines
 * mk_exchange_start(), clock_gettime() and getrandom() for its whole program. */
#ifndef MK_TEST_FAKE_EXCHANGE_H
#define MK_TEST_FAKE_EXCHANGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <utlist.h>
#include <uv.h>

#include "cluster/api/exchange.h"
#include "unit/unit.h"

struct mk_exchange {
	struct mk_exchange_request request;
	char *method, *target, *body;
	uint64_t asked_ms;
	int status; /* what the test's server has done with it; 0: nothing yet */
	json_object *tree;
	struct mk_exchange *prev, *next;
};

static uv_loop_t loop;
static uint64_t now_ms = 1000000;
static uint64_t slept_ms; /* of the host: the loop's clock does not count it */
static struct mk_exchange *asked; /* requests without an answer, oldest first */
static unsigned int asked_count; /* requests since the start */
static uint64_t random_state = 1;
static bool no_memory; /* no request can start */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	uint64_t ms = now_ms + (clock == CLOCK_BOOTTIME ? slept_ms : 0);

	now->tv_sec = (time_t)(ms / 1000);
	now->tv_nsec = (long)(ms % 1000) * 1000000;
	return 0;
}

/* The same bits in each run. */
static inline uint64_t random_bits(void)
{
	random_state = random_state * 6364136223846793005 + 1442695040888963407;
	return random_state ^ random_state >> 29;
}

ssize_t getrandom(void *bytes, size_t size, unsigned int flags)
{
	(void)flags;
	for (size_t i = 0; i < size; i++)
		((unsigned char *)bytes)[i] = (unsigned char)(random_bits() >> 24);
	return (ssize_t)size;
}

struct mk_exchange *mk_exchange_start(struct mk_http *http,
				      const struct mk_exchange_request *request,
				      struct mk_error *err)
{
	struct mk_exchange *exchange;

	(void)http;
	if (no_memory) {
		mk_error_errno(err, ENOMEM, "request");
		return NULL;
	}
	exchange = calloc(1, sizeof(*exchange));
	exchange->request = *request;
	exchange->method = strdup(request->method);
	exchange->target = strdup(request->target);
	exchange->body = strdup(request->body ?: "");
	exchange->asked_ms = now_ms;
	DL_APPEND(asked, exchange);
	asked_count++;
	return exchange;
}

static inline void free_exchange(struct mk_exchange *exchange)
{
	DL_DELETE(asked, exchange);
	free(exchange->method);
	free(exchange->target);
	free(exchange->body);
	json_object_put(exchange->tree);
	free(exchange);
}

void mk_exchange_cancel(struct mk_exchange *exchange)
{
	if (exchange)
		free_exchange(exchange);
}

/* Answer @exchange; @tree may be NULL and is put. */
static inline void answer_tree(struct mk_exchange *exchange, int status, json_object *tree)
{
	struct mk_exchange_request request = exchange->request;
	struct mk_answer answer = { .status = status, .tree = tree };

	if (status < 200 || status > 299)
		snprintf(answer.why, sizeof(answer.why), "answer %d", status);
	free_exchange(exchange);
	uv_update_time(&loop);
	request.done(request.ctx, &answer);
	json_object_put(tree);
}

/* Let the loop do what is due. */
static inline void settle(void)
{
	for (int i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static inline void pass(uint64_t ms)
{
	settle();
	for (; ms > 0; ms--) {
		now_ms++;
		settle();
	}
}

/* Return the oldest request without an answer, which must be @method of @target. */
static inline struct mk_exchange *request_is(const char *method, const char *target)
{
	settle();
	ck_assert_msg(asked != NULL, "no %s %s", method, target);
	ck_assert_str_eq(asked->method, method);
	ck_assert_str_eq(asked->target, target);
	return asked;
}

/* Nothing is left on the loop. */
static inline void end_loop(void)
{
	ck_assert_int_eq(uv_run(&loop, UV_RUN_NOWAIT), 0);
	ck_assert_ptr_null(asked);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

#endif

// SPDX-License-Identifier: Apache-2.0
/* libcurl names the sockets and the time that it waits for (CURLMOPT_SOCKETFUNCTION,
 * _TIMERFUNCTION). The loop waits, and calls curl_multi_socket_action(). libcurl must not be
 * entered again while it runs: transfers that are started or cancelled meanwhile wait in a list
 * until it returns. */
#include "cluster/api/http.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <utlist.h>

#include "base/log.h"
#include "base/time.h"
#include "cluster/api/api_internal.h"
#include "cluster/api/http_internal.h"

/* One per socket that libcurl waits for. */
struct watcher {
	uv_poll_t poll;
	struct mk_http *http;
	curl_socket_t fd;
	uint64_t heard_ms; /* uv_now() when data last came */
	struct watcher *prev, *next;
};

/* ---- libuv ----------------------------------------------------------------------------------- */

static void check_finished(struct mk_http *http);
static void resume(uv_timer_t *timer);
static void fell_silent(uv_timer_t *timer);

#define NEXT_TURN_MS 1 /* a timer of 0 ms, started by a timer, would run in the same turn */
#define READ_NS	     10000000 /* libcurl may read this long in one turn */

static void handle_closed(struct mk_http *http)
{
	if (--http->handles == 0 && http->closing)
		free(http);
}

static void timer_closed(uv_handle_t *handle)
{
	handle_closed(handle->data);
}

static void watcher_closed(uv_handle_t *handle)
{
	struct watcher *watcher = handle->data;
	struct mk_http *http = watcher->http;

	free(watcher);
	handle_closed(http);
}

static void act(struct mk_http *http, curl_socket_t fd, int events)
{
	int running;

	http->turn_ns = mk_time_monotonic_ns();
	http->inside++;
	curl_multi_socket_action(http->multi, fd, events, &running);
	http->inside--;
	check_finished(http);
}

static void socket_ready(uv_poll_t *poll, int status, int events)
{
	struct watcher *watcher = poll->data;
	int curl_events = 0;

	if (status < 0)
		curl_events = CURL_CSELECT_ERR;
	watcher->heard_ms = uv_now(watcher->http->loop);
	if (events & UV_READABLE)
		curl_events |= CURL_CSELECT_IN;
	if (events & UV_WRITABLE)
		curl_events |= CURL_CSELECT_OUT;
	act(watcher->http, watcher->fd, curl_events);
}

static void time_out(uv_timer_t *timer)
{
	act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

/* ---- sockets and timer of libcurl ------------------------------------------------------------ */

static int set_timer(CURLM *multi, long wait_ms, void *ctx)
{
	struct mk_http *http = ctx;

	(void)multi;
	if (wait_ms < 0)
		uv_timer_stop(&http->timer);
	else
		uv_timer_start(&http->timer, time_out,
			       wait_ms > NEXT_TURN_MS ? (uint64_t)wait_ms : NEXT_TURN_MS, 0);
	return 0;
}

static struct watcher *watch(struct mk_http *http, curl_socket_t fd)
{
	struct watcher *watcher = calloc(1, sizeof(*watcher));

	if (!watcher)
		return NULL;
	watcher->http = http;
	watcher->fd = fd;
	if (uv_poll_init_socket(http->loop, &watcher->poll, fd) < 0) {
		free(watcher);
		return NULL;
	}
	watcher->poll.data = watcher;
	watcher->heard_ms = uv_now(http->loop);
	DL_APPEND(http->watchers, watcher);
	http->handles++;
	curl_multi_assign(http->multi, fd, watcher);
	return watcher;
}

/* libcurl closes the socket right after CURL_POLL_REMOVE, so polling must have stopped by then. */
static int set_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
	struct mk_http *http = ctx;
	struct watcher *watcher = socket_ctx;
	int events = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (!watcher)
			return 0;
		uv_poll_stop(&watcher->poll);
		DL_DELETE(http->watchers, watcher);
		curl_multi_assign(http->multi, fd, NULL);
		uv_close((uv_handle_t *)&watcher->poll, watcher_closed);
		return 0;
	}
	if (!watcher)
		watcher = watch(http, fd);
	if (!watcher)
		return -1;
	if (what & CURL_POLL_IN)
		events |= UV_READABLE;
	if (what & CURL_POLL_OUT)
		events |= UV_WRITABLE;
	return uv_poll_start(&watcher->poll, events, socket_ready) < 0 ? -1 : 0;
}

/* ---- one transfer ---------------------------------------------------------------------------- */

static void transfer_closed(uv_handle_t *handle)
{
	struct mk_http_transfer *transfer = handle->data;
	struct mk_http *http = transfer->http;

	free(transfer);
	handle_closed(http);
}

/* Call this only outside libcurl. */
static void transfer_free(struct mk_http_transfer *transfer)
{
	struct mk_http *http = transfer->http;

	curl_multi_remove_handle(http->multi, transfer->easy);
	curl_easy_cleanup(transfer->easy);
	curl_slist_free_all(transfer->headers);
	curl_slist_free_all(transfer->connect_to);
	DL_DELETE(http->transfers, transfer);
	uv_close((uv_handle_t *)&transfer->silence, transfer_closed);
}

int mk_http_status(const struct mk_http_transfer *transfer)
{
	long status = 0;

	curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
	return (int)status;
}

static void limit_silence(struct mk_http_transfer *transfer, uint64_t limit_ms)
{
	transfer->limit_ms = limit_ms;
	uv_timer_start(&transfer->silence, fell_silent, limit_ms, limit_ms);
}

void mk_http_set_silence(struct mk_http_transfer *transfer, uint64_t silence_ms)
{
	transfer->request.silence_ms = silence_ms;
	limit_silence(transfer, silence_ms);
}

/* A server that sends faster than its objects are decoded would keep libcurl reading. So after
 * READ_NS the transfer is paused, and libcurl keeps the rest for the next turn of the loop. */
static bool pause_in(struct mk_http_transfer *transfer)
{
	struct mk_http *http = transfer->http;

	if (mk_time_monotonic_ns() - http->turn_ns < READ_NS)
		return false;
	transfer->paused = true;
	if (!uv_is_active((uv_handle_t *)&http->resume))
		uv_timer_start(&http->resume, resume, NEXT_TURN_MS, 0);
	return true;
}

static struct mk_http_transfer *first_paused(struct mk_http *http)
{
	struct mk_http_transfer *transfer;

	DL_FOREACH(http->transfers, transfer)
		if (transfer->paused && transfer->stage == MK_HTTP_RUNNING)
			return transfer;
	return NULL;
}

/* Resume one transfer per turn and move it to the end of the list: each gets its share. */
static void resume(uv_timer_t *timer)
{
	struct mk_http *http = timer->data;
	struct mk_http_transfer *transfer = first_paused(http);

	if (!transfer)
		return;
	transfer->paused = false;
	DL_DELETE(http->transfers, transfer);
	DL_APPEND(http->transfers, transfer);
	http->turn_ns = mk_time_monotonic_ns();
	http->inside++;
	curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
	http->inside--;
	if (first_paused(http))
		uv_timer_start(&http->resume, resume, NEXT_TURN_MS, 0);
	check_finished(http);
}

static size_t take_body(char *data, size_t size, size_t count, void *ctx)
{
	struct mk_http_transfer *transfer = ctx;

	size *= count;
	if (transfer->stage == MK_HTTP_CANCELLED)
		return size ? 0 : 1;
	if (pause_in(transfer))
		return CURL_WRITEFUNC_PAUSE;
	uv_timer_again(&transfer->silence);
	if (transfer->request.data)
		transfer->refused =
			transfer->request.data(transfer->request.ctx, mk_http_status(transfer),
					       data, size, &transfer->error);
	if (transfer->stage == MK_HTTP_CANCELLED || transfer->refused < 0)
		return size ? 0 : 1; /* not @size: libcurl ends the transfer */
	return size;
}

/* Behind a proxy this is the proxy's address. */
static void see_server(struct mk_http_transfer *transfer)
{
	const char *text = NULL;
	struct mk_ip ip;

	curl_easy_getinfo(transfer->easy, CURLINFO_PRIMARY_IP, &text);
	if (text && mk_ip_parse(text, &ip) == 0)
		transfer->http->server = ip;
}

struct mk_ip mk_http_server(const struct mk_http *http)
{
	return http->server;
}

/* An answer may have several heads, such as 100 Continue. Every head with a Date counts. */
static size_t take_head(char *line, size_t size, size_t count, void *ctx)
{
	struct mk_http_transfer *transfer = ctx;
	struct mk_own_clock now = mk_own_clock_now();
	uint64_t took_ms = (mk_time_monotonic_ns() - transfer->began_ns) / 1000000;

	if (transfer->limit_ms != transfer->request.silence_ms)
		limit_silence(transfer, transfer->request.silence_ms);
	see_server(transfer);
	(void)api_clock_see(&transfer->http->clock, line, size * count, took_ms, &now);
	return size * count;
}

const struct mk_api_clock *mk_http_clock(const struct mk_http *http)
{
	return &http->clock;
}

static uint64_t retry_after(struct mk_http_transfer *transfer)
{
	curl_off_t seconds = 0;

	curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &seconds);
	return seconds > 0 ? (uint64_t)seconds : 0;
}

static void describe(struct mk_http_transfer *transfer, CURLcode code,
		     struct mk_http_result *result)
{
	const char *server = transfer->http->credentials->server;

	if (transfer->refused < 0) {
		result->failure = transfer->refused;
		result->error = transfer->error;
	} else if (transfer->silent) {
		result->failure =
			mk_error_set(&result->error, ETIMEDOUT, "%s: no data for %llu s", server,
				     (unsigned long long)transfer->limit_ms / 1000);
	} else if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE) {
		result->failure = mk_error_set(
			&result->error, EACCES,
			"%s: server certificate not accepted: %s; %s sets the authority and name to accept",
			server, *transfer->problem ? transfer->problem : curl_easy_strerror(code),
			transfer->http->credentials->origin);
	} else if (code != CURLE_OK) {
		result->failure = mk_error_set(&result->error, EIO, "%s: %s", server,
					       *transfer->problem ? transfer->problem
								  : curl_easy_strerror(code));
	}
}

static void finish(struct mk_http_transfer *transfer, CURLcode code)
{
	struct mk_http_result result = { .status = mk_http_status(transfer) };
	struct mk_http_request request = transfer->request;
	bool cancelled = transfer->stage == MK_HTTP_CANCELLED;

	result.retry_after_s = retry_after(transfer);
	describe(transfer, code, &result);
	transfer_free(transfer);
	if (!cancelled)
		request.done(request.ctx, &result);
}

/* A connection without data for too long may be dead without an error. With HTTP/2 the next request
 * would use it again. Shutting it down fails all its transfers, which then use a new connection. */
static void fell_silent(uv_timer_t *timer)
{
	struct mk_http_transfer *transfer = timer->data;
	struct mk_http *http = transfer->http;
	struct watcher *watcher;

	DL_FOREACH(http->watchers, watcher)
		if (uv_now(http->loop) - watcher->heard_ms >= transfer->limit_ms)
			shutdown(watcher->fd, SHUT_RDWR);
	transfer->silent = true;
	finish(transfer, CURLE_OPERATION_TIMEDOUT);
}

static struct mk_http_transfer *first_in(struct mk_http *http, enum mk_http_stage stage)
{
	struct mk_http_transfer *transfer;

	DL_FOREACH(http->transfers, transfer)
		if (transfer->stage == stage)
			return transfer;
	return NULL;
}

static void start_waiting(struct mk_http *http)
{
	struct mk_http_transfer *transfer;

	while ((transfer = first_in(http, MK_HTTP_WAITING))) {
		transfer->stage = MK_HTTP_RUNNING;
		transfer->began_ns = mk_time_monotonic_ns();
		http->inside++;
		curl_multi_add_handle(http->multi, transfer->easy);
		http->inside--;
		limit_silence(transfer, transfer->request.answer_ms ? transfer->request.answer_ms
								    : transfer->request.silence_ms);
	}
}

/* Finish transfers after libcurl has returned. done() may start or free others, so no pointer is
 * kept across the call. */
static void check_finished(struct mk_http *http)
{
	struct mk_http_transfer *transfer;
	CURLMsg *message;
	int left;

	if (http->inside)
		return;
	http->handles++; /* keep @http, which done() may free */
	while (!http->closing && (message = curl_multi_info_read(http->multi, &left))) {
		CURLcode code = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		DL_SEARCH_SCALAR(http->transfers, transfer, easy, message->easy_handle);
		if (transfer)
			finish(transfer, code);
	}
	while (!http->closing && (transfer = first_in(http, MK_HTTP_CANCELLED)))
		transfer_free(transfer);
	if (!http->closing)
		start_waiting(http);
	handle_closed(http);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* An error is only logged: the old token may still be valid. */
static void refresh(struct mk_http *http)
{
	struct mk_error err;
	int ret = credentials_refresh(http->credentials, &err);

	if (ret < 0)
		mk_log_warn("%s: %s; using the credentials read before", http->credentials->origin,
			    err.text);
	else if (ret > 0)
		mk_log_info("%s: has changed and was read again", http->credentials->origin);
}

static int set_callbacks(struct mk_http_transfer *transfer, struct mk_error *err)
{
	CURLcode code = curl_easy_setopt(transfer->easy, CURLOPT_WRITEFUNCTION, take_body);

	if (code == CURLE_OK)
		code = curl_easy_setopt(transfer->easy, CURLOPT_WRITEDATA, transfer);
	if (code == CURLE_OK)
		code = curl_easy_setopt(transfer->easy, CURLOPT_HEADERFUNCTION, take_head);
	if (code == CURLE_OK)
		code = curl_easy_setopt(transfer->easy, CURLOPT_HEADERDATA, transfer);
	return code == CURLE_OK ? 0 : mk_error_set(err, EINVAL, "libcurl refuses a callback");
}

struct mk_http_transfer *mk_http_start(struct mk_http *http, const struct mk_http_request *request,
				       struct mk_error *err)
{
	struct mk_http_transfer *transfer = calloc(1, sizeof(*transfer));

	if (transfer)
		transfer->easy = curl_easy_init();
	if (!transfer || !transfer->easy) {
		free(transfer);
		mk_error_errno(err, ENOMEM, "request");
		return NULL;
	}
	transfer->http = http;
	transfer->request = *request;
	uv_timer_init(http->loop, &transfer->silence);
	transfer->silence.data = transfer;
	http->handles++;
	DL_APPEND(http->transfers, transfer);
	refresh(http);
	if (http_set_up(transfer, request, err) < 0 || set_callbacks(transfer, err) < 0) {
		transfer_free(transfer);
		return NULL;
	}
	if (!http->inside)
		start_waiting(http);
	return transfer;
}

void mk_http_cancel(struct mk_http_transfer *transfer)
{
	if (!transfer)
		return;
	if (transfer->http->inside)
		transfer->stage = MK_HTTP_CANCELLED;
	else
		transfer_free(transfer);
}

/* ---- the client ------------------------------------------------------------------------------ */

static int set_multi(struct mk_http *http)
{
	CURLMcode code = curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, set_socket);

	if (code == CURLM_OK)
		code = curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
	if (code == CURLM_OK)
		code = curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	if (code == CURLM_OK)
		code = curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
	if (code == CURLM_OK)
		code = curl_multi_setopt(http->multi, CURLMOPT_PIPELINING,
					 (long)CURLPIPE_MULTIPLEX);
	return code == CURLM_OK ? 0 : -EINVAL;
}

struct mk_http *mk_http_new(uv_loop_t *loop, struct mk_credentials *credentials,
			    const struct mk_http_limits *limits, struct mk_error *err)
{
	struct mk_http *http;

	/* here and not in a constructor: the CNI plugin, which is this program, needs no TLS */
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		mk_error_set(err, ENOSYS, "libcurl %s cannot be initialised", LIBCURL_VERSION);
		return NULL;
	}
	http = calloc(1, sizeof(*http));
	if (!http || !(http->multi = curl_multi_init())) {
		free(http);
		mk_error_errno(err, ENOMEM, "HTTP client");
		return NULL;
	}
	http->loop = loop;
	http->credentials = credentials;
	http->limits = limits;
	uv_timer_init(loop, &http->timer);
	http->timer.data = http;
	uv_timer_init(loop, &http->resume);
	http->resume.data = http;
	http->handles = 2;
	if (set_multi(http) < 0) {
		mk_error_set(err, EINVAL, "libcurl refuses an option of its multi interface");
		mk_http_free(http);
		return NULL;
	}
	return http;
}

void mk_http_free(struct mk_http *http)
{
	if (!http || http->closing)
		return;
	while (http->transfers)
		transfer_free(http->transfers);
	http->closing = true;
	curl_multi_cleanup(http->multi);
	uv_close((uv_handle_t *)&http->timer, timer_closed);
	uv_close((uv_handle_t *)&http->resume, timer_closed);
}

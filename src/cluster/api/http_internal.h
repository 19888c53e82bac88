/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/http_internal.h - shared by http.c, which runs transfers, and http_setup.c,
 * which sets them up. */
#ifndef MK_CLUSTER_API_HTTP_INTERNAL_H
#define MK_CLUSTER_API_HTTP_INTERNAL_H

#include <curl/curl.h>

#include "cluster/api/http.h"

struct mk_http {
	uv_loop_t *loop;
	CURLM *multi;
	struct mk_credentials *credentials;
	const struct mk_http_limits *limits;
	uv_timer_t timer;
	uv_timer_t resume; /* resumes paused transfers */
	uint64_t turn_ns; /* when libcurl was entered */
	unsigned int inside; /* libcurl is running */
	struct mk_http_transfer *transfers;
	struct watcher *watchers;
	bool closing;
	struct mk_api_clock clock;
	struct mk_ip server; /* sender of the last answer */
	unsigned int handles; /* open libuv handles */
};

enum mk_http_stage { MK_HTTP_WAITING, MK_HTTP_RUNNING, MK_HTTP_CANCELLED };

struct mk_http_transfer {
	struct mk_http *http;
	struct mk_http_request request; /* its strings are not copied */
	enum mk_http_stage stage;
	CURL *easy;
	struct curl_slist *headers, *connect_to;
	char problem[CURL_ERROR_SIZE];
	uint64_t began_ns; /* CLOCK_MONOTONIC: when libcurl started it */
	uv_timer_t silence;
	uint64_t limit_ms; /* current limit of silence */
	bool paused; /* its data waits for another turn of the loop */
	bool silent; /* for too long */
	int refused; /* what data() returned */
	struct mk_error error;
	struct mk_http_transfer *prev, *next;
};

/* Set all options of @transfer->easy except those that http.c sets. */
mk_must_check int http_set_up(struct mk_http_transfer *transfer,
			      const struct mk_http_request *request, struct mk_error *err);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "cluster/api/version.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

#define ANSWER_MAX_BYTES 4096 /* usually about 500 */
#define SILENCE_MS	 10000
#define VERSION_CHARS	 64

struct mk_version {
	struct mk_http_transfer *transfer;
	void (*told)(void *ctx, const char *version, const char *why);
	void *ctx;
	size_t size;
	char answer[ANSWER_MAX_BYTES];
};

static int take(void *ctx, int status, const char *data, size_t size, struct mk_error *err)
{
	struct mk_version *version = ctx;

	(void)status;
	if (size >= sizeof(version->answer) - version->size)
		return mk_error_set(err, EPROTO, "/version: more than %d bytes", ANSWER_MAX_BYTES);
	memcpy(version->answer + version->size, data, size);
	version->size += size;
	version->answer[version->size] = '\0';
	return 0;
}

/* Is it one word, fit for a line of the log? */
static bool is_word(const char *text)
{
	if (!*text || strlen(text) >= VERSION_CHARS)
		return false;
	for (; *text; text++)
		if (!isgraph((unsigned char)*text))
			return false;
	return true;
}

static void tell(struct mk_version *version, const struct mk_http_result *result)
{
	cleanup_json json_object *tree = json_tokener_parse(version->answer);
	const char *text = mk_json_text(tree, "gitVersion");
	char why[64];

	if (result->failure < 0) {
		version->told(version->ctx, NULL, result->error.text);
	} else if (result->status != 200) {
		snprintf(why, sizeof(why), "HTTP status %d for /version", result->status);
		version->told(version->ctx, NULL, why);
	} else if (is_word(text)) {
		version->told(version->ctx, text, NULL);
	} else {
		version->told(version->ctx, NULL, "/version has no gitVersion");
	}
}

static void done(void *ctx, const struct mk_http_result *result)
{
	struct mk_version *version = ctx;

	version->transfer = NULL;
	tell(version, result);
}

struct mk_version *mk_version_ask(struct mk_http *http,
				  void (*told)(void *ctx, const char *version, const char *why),
				  void *ctx, struct mk_error *err)
{
	struct mk_version *version = calloc(1, sizeof(*version));
	struct mk_http_request request = { .target = "/version",
					   .silence_ms = SILENCE_MS,
					   .data = take,
					   .done = done,
					   .ctx = version };

	if (!version) {
		mk_error_errno(err, ENOMEM, "/version");
		return NULL;
	}
	version->told = told;
	version->ctx = ctx;
	version->transfer = mk_http_start(http, &request, err);
	if (!version->transfer)
		free(mk_steal_ptr(version));
	return version;
}

void mk_version_free(struct mk_version *version)
{
	if (!version)
		return;
	mk_http_cancel(version->transfer);
	free(version);
}

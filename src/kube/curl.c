// SPDX-License-Identifier: Apache-2.0
#include "kube/curl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

#define LIBRARY	    "libcurl.so.4"
#define MIN_VERSION 0x074d00 /* 7.77: certificates and CA from memory (CURLOPT_*_BLOB) */

static struct mk_curl curl;

static const struct {
	const char *name;
	size_t offset;
} functions[] = {
#define MK_CURL_ROW(function) { #function, offsetof(struct mk_curl, function) },
	MK_CURL_FUNCTIONS(MK_CURL_ROW)
#undef MK_CURL_ROW
};

static int find_functions(void *library, struct mk_error *err)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(functions); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function)
			return mk_error_set(err, ENOSYS, "%s has no function '%s'", LIBRARY,
					    functions[i].name);
		memcpy((char *)&curl + functions[i].offset, &function, sizeof(function));
	}
	return 0;
}

static int check_features(struct mk_error *err)
{
	const curl_version_info_data *info = curl.curl_version_info(CURLVERSION_NOW);

	if (info->version_num < MIN_VERSION)
		return mk_error_set(err, ENOSYS, "%s is version %s, expected 7.77 or later",
				    LIBRARY, info->version);
	if (!(info->features & CURL_VERSION_SSL))
		return mk_error_set(err, ENOSYS, "%s %s is built without TLS", LIBRARY,
				    info->version);
	return 0;
}

const struct mk_curl *mk_curl_load(struct mk_error *err)
{
	static bool loaded;
	void *library;

	if (loaded)
		return &curl;
	library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		mk_error_set(err, ENOSYS,
			     "following an API server takes %s, Debian package libcurl4: %s",
			     LIBRARY, dlerror());
		return NULL;
	}
	if (find_functions(library, err) < 0 || check_features(err) < 0)
		return NULL;
	if (curl.curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		mk_error_set(err, ENOSYS, "%s cannot be initialised", LIBRARY);
		return NULL;
	}
	loaded = true;
	return &curl;
}

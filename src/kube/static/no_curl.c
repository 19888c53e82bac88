// SPDX-License-Identifier: Apache-2.0
/* Instead of curl.c in build/monokube-static, which can load no library. */
#include "kube/curl.h"

const struct mk_curl *mk_curl_load(struct mk_error *err)
{
	mk_error_set(
		err, ENOSYS,
		"this is the static build, CNI plugin and command line: it cannot load libcurl, "
		"so it follows no API server; run the agent from the image");
	return NULL;
}

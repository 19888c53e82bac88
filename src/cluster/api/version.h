/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/version.h - the API server's version, requested once for the log. Nothing depends
 * on it: requests show what the server can do. */
#ifndef MK_CLUSTER_API_VERSION_H
#define MK_CLUSTER_API_VERSION_H

#include "base/error.h"
#include "cluster/api/http.h"

struct mk_version;

/* Request the version. @told is called once from the loop, with the version, such as "v1.36.0", or
 * with NULL and @why. @http must live longer. NULL: error. */
mk_must_check struct mk_version *
mk_version_ask(struct mk_http *http, void (*told)(void *ctx, const char *version, const char *why),
	       void *ctx, struct mk_error *err);

/* Free; no callback follows. @version may be NULL. */
void mk_version_free(struct mk_version *version);

#endif

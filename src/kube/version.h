/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/version.h - which version the API server says it is: asked once, for the log. Nothing is
 * decided by it; what a server can do shows when it is asked to. */
#ifndef MK_KUBE_VERSION_H
#define MK_KUBE_VERSION_H

#include "base/error.h"
#include "kube/http.h"

struct mk_version;

/* @told is called once, from the loop: with the version, such as "v1.36.0", or NULL and @why. @http
 * has to live longer. NULL: error. */
mk_must_check struct mk_version *
mk_version_ask(struct mk_http *http, void (*told)(void *ctx, const char *version, const char *why),
	       void *ctx, struct mk_error *err);

/* No callback comes after this. @version may be NULL. */
void mk_version_free(struct mk_version *version);

#endif

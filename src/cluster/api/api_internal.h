/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/api_internal.h - functions that only this folder uses. */
#ifndef MK_CLUSTER_API_API_INTERNAL_H
#define MK_CLUSTER_API_API_INTERNAL_H

#include "cluster/api/clock.h"
#include "cluster/api/credentials.h"

/* Take one header line of an answer that needed @took_ms. A line without a Date changes nothing,
 * nor does an answer that was too slow. Returns whether the line was used. */
bool api_clock_see(struct mk_api_clock *clock, const char *line, size_t size, uint64_t took_ms,
		   const struct mk_own_clock *now);

/* Read changed files again, including the kubeconfig. Returns 1 if something changed, else
 * 0. If a file cannot be read, its old content stays, the error names it, and everything
 * else is up to date. */
mk_must_check int credentials_refresh(struct mk_credentials *credentials, struct mk_error *err);

/* For the loaders: read @secret from a file, or copy it from @data. */
mk_must_check int secret_from_file(struct mk_secret *secret, const char *path,
				   struct mk_error *err);

mk_must_check int secret_from_data(struct mk_secret *secret, const void *data, size_t size,
				   struct mk_error *err);

/* Credentials from kubeconfig files. */

/* Load one file, or several with ':' between them; the first file that has a name wins. A list may
 * name missing files, but one file must exist. @context NULL: the current-context. Relative paths
 * in a file are relative to the file. */
mk_must_check int kubeconfig_load(const char *paths, const char *context,
				  struct mk_credentials *credentials, struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/request/request_internal.h - functions that only this folder uses. */
#ifndef MK_POD_REQUEST_REQUEST_INTERNAL_H
#define MK_POD_REQUEST_REQUEST_INTERNAL_H

#include "pod/request/conf.h"
#include "pod/request/reply.h"

/* Are @name and @known equal when case is ignored as in Go's encoding/json? @known is ASCII.
 * U+212A (Kelvin sign) equals K and U+017F (long s) equals S: no other characters of Unicode fold
 * to ASCII letters. */
bool cni_name_folds(const char *name, const char *known);

/* -EINVAL: an unsupported version. */
mk_must_check int cni_version_parse(const char *name, enum mk_cni_version *version);

#endif

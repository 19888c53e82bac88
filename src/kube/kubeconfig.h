/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/kubeconfig.h - credentials from kubeconfig files. */
#ifndef MK_KUBE_KUBECONFIG_H
#define MK_KUBE_KUBECONFIG_H

#include "kube/credentials.h"

/* @paths: one file, or several with ':' between them, of which the first to name a thing has it
 * (a list may name files that do not exist, one of which exists at least). @context NULL: the
 * current-context. Relative paths in a file are relative to it. */
mk_must_check int mk_kubeconfig_load(const char *paths, const char *context,
				     struct mk_credentials *credentials, struct mk_error *err);

#endif

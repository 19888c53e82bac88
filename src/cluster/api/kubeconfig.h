/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/api/kubeconfig.h - credentials from kubeconfig files. */
#ifndef MK_CLUSTER_API_KUBECONFIG_H
#define MK_CLUSTER_API_KUBECONFIG_H

#include "cluster/api/credentials.h"

/* Load one file, or several with ':' between them; the first file that has a name wins. A list may
 * name missing files, but one file must exist. @context NULL: the current-context. Relative paths
 * in a file are relative to the file. */
mk_must_check int kubeconfig_load(const char *paths, const char *context,
				  struct mk_credentials *credentials, struct mk_error *err);

#endif

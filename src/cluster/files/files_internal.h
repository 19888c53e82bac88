/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/files/files_internal.h - functions that only this folder uses. */
#ifndef MK_CLUSTER_FILES_FILES_INTERNAL_H
#define MK_CLUSTER_FILES_FILES_INTERNAL_H

#include "cluster/files/yaml_json.h"

/* As mk_yaml_parse(), for JSON. */
mk_must_check int json_parse(const char *text, size_t size, struct mk_documents *out,
			     struct mk_error *err);

#endif

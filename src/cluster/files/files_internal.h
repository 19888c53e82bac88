/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/files/files_internal.h - functions that only this folder uses. */
#ifndef MK_CLUSTER_FILES_FILES_INTERNAL_H
#define MK_CLUSTER_FILES_FILES_INTERNAL_H

#include <json-c/json.h>
#include <stddef.h>

#include "cluster/files/yaml_json.h"
#include "base/error.h"

/* As mk_yaml_parse(), for JSON. */
mk_must_check int json_parse(const char *text, size_t size, struct mk_documents *out,
			     struct mk_error *err);

/* The types of YAML scalars; private to this folder. */

/* Type a plain scalar by YAML 1.2's core schema (10.3.2): null, boolean, integer, float, else text.
 * *@tree NULL is JSON's null. -ENOMEM. */
mk_must_check int scalar_resolve(const char *text, size_t length, json_object **tree);
mk_must_check int scalar_text(const char *text, size_t length, json_object **tree);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/files/scalar.h - the types of YAML scalars; private to this folder. */
#ifndef MK_CLUSTER_FILES_SCALAR_H
#define MK_CLUSTER_FILES_SCALAR_H

#include <json-c/json.h>
#include <stddef.h>

#include "base/error.h"

/* Type a plain scalar by YAML 1.2's core schema (10.3.2): null, boolean, integer, float, else text.
 * *@tree NULL is JSON's null. -ENOMEM. */
mk_must_check int scalar_resolve(const char *text, size_t length, json_object **tree);
mk_must_check int scalar_text(const char *text, size_t length, json_object **tree);

#endif

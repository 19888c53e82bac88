/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/files/yaml_json.h - parse text into JSON trees: any number of YAML documents, or
 * consecutive JSON values. Scalars have the types of YAML 1.2's core schema, as in Kubernetes
 * manifests. Plain 80 is a number, true a boolean, ~ null; everything else and everything quoted is
 * a text.
 *
 * YAML 1.1 is not guessed: 010, yes and on are texts, and fields of another type refuse them. The
 * text may come from anyone, so depth, size and the expansion of aliases are bounded. */
#ifndef MK_CLUSTER_FILES_YAML_JSON_H
#define MK_CLUSTER_FILES_YAML_JSON_H

#include <json-c/json.h>
#include <stddef.h>

#include "base/error.h"

#define MK_TREE_DEPTH_MAX 64
#define MK_TREE_NODES_MAX 1000000 /* per text; aliases count each time */

struct mk_document {
	json_object *tree;
	size_t line; /* of its start, from 1 */
};

struct mk_documents {
	struct mk_document *items;
	size_t count;
};

/* Parse @text, skipping empty documents. Errors begin with "line L, column C: " and leave @out
 * empty. Otherwise the caller releases @out with mk_documents_release(). */
mk_must_check int mk_yaml_parse(const char *text, size_t size, struct mk_documents *out,
				struct mk_error *err);
void mk_documents_release(struct mk_documents *documents);

static inline void mk_cleanup_documents(struct mk_documents *documents)
{
	mk_documents_release(documents);
}
#define cleanup_documents __attribute__((cleanup(mk_cleanup_documents)))

#endif

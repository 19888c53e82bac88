/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/yaml_json.h - text to JSON trees: YAML with any number of documents, or JSON values in
 * a row. Scalars are typed as YAML 1.2's core schema has it and Kubernetes manifests use it: plain
 * 80 is a number, true a boolean, ~ null, everything else and everything quoted a text. Of YAML
 * 1.1 nothing is guessed: 010, yes and on are texts, and a field that wants something else says
 * so. Anybody may have written the text: depth, size and the expansion of aliases are bounded. */
#ifndef MK_KUBE_YAML_JSON_H
#define MK_KUBE_YAML_JSON_H

#include <json-c/json.h>
#include <stddef.h>

#include "base/error.h"

#define MK_TREE_DEPTH_MAX 64
#define MK_TREE_NODES_MAX 1000000 /* of one text, aliases counted each time */

struct mk_document {
	json_object *tree;
	size_t line; /* where it begins, from 1 */
};

struct mk_documents {
	struct mk_document *items;
	size_t count;
};

/* Empty documents are passed over. Errors begin with "line L, column C: ", and fill @out with
 * nothing. Else @out is the caller's: mk_documents_release(). */
mk_must_check int mk_yaml_parse(const char *text, size_t size, struct mk_documents *out,
				struct mk_error *err);
mk_must_check int mk_json_parse(const char *text, size_t size, struct mk_documents *out,
				struct mk_error *err);
void mk_documents_release(struct mk_documents *documents);

static inline void mk_cleanup_documents(struct mk_documents *documents)
{
	mk_documents_release(documents);
}
#define cleanup_documents __attribute__((cleanup(mk_cleanup_documents)))

#endif

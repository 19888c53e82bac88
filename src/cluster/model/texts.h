/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/texts.h - texts, sets of labels and lists of ports that objects share, with
 * counted references; private to this folder. */
#ifndef MK_CLUSTER_MODEL_TEXTS_H
#define MK_CLUSTER_MODEL_TEXTS_H

#include "base/index.h"
#include "cluster/model/json.h"
#include "cluster/model/policy.h"

struct mk_texts {
	struct mk_index texts, label_sets, port_lists, workloads;
};

/* Return a reference to the text @text, for text_release(). NULL: out of memory. */
mk_must_check char *text_share(struct mk_texts *texts, const char *text);
void text_release(struct mk_texts *texts, const char *text); /* @text may be NULL */
/* Return the number of texts and lists. */
size_t texts_count(const struct mk_texts *texts);

/* Read the labels of object @tree into zeroed @labels. @further: a label that counts if the object
 * has none with its key, or NULL. After an error there is nothing to release. */
mk_must_check int labels_decode(struct mk_texts *texts, const struct mk_json *tree,
				const struct mk_object_label *further, struct mk_labels *labels,
				struct mk_error *err);
/* The same of the labels in @at, such as a Service's selector. */
mk_must_check int labels_of(struct mk_texts *texts, const struct mk_json *at,
			    const struct mk_object_label *further, struct mk_labels *labels,
			    struct mk_error *err);
void labels_release(struct mk_texts *texts, struct mk_labels *labels);
bool labels_equal(const struct mk_labels *a, const struct mk_labels *b);

/* Return the shared list of @count @ports, whose names it takes over in any case. Their padding is
 * zero. NULL: there are none, or out of memory. */
mk_must_check const struct mk_named_port *
ports_share(struct mk_texts *texts, const struct mk_named_port *ports, size_t count);
void ports_release(struct mk_texts *texts, const struct mk_named_port *ports, size_t count);

/* Return the shared workload of this content, whose parts it takes over in any case. NULL: out of
 * memory. */
mk_must_check const struct mk_workload *workload_share(struct mk_texts *texts,
						       struct mk_workload *content);
void workload_release(struct mk_texts *texts, const struct mk_workload *workload);
/* Release the parts of one that is not shared. */
void workload_drop(struct mk_texts *texts, struct mk_workload *content);

/* Return the value of @key, a text of the model; NULL: there is no such label. */
const char *labels_value(const struct mk_labels *labels, const char *key);

#endif

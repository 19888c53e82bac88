/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/model_text.h - objects of the model from and to text, for rows of tests. */
#ifndef MK_TEST_MODEL_TEXT_H
#define MK_TEST_MODEL_TEXT_H

#include "cluster/model/model.h"

struct line {
	char text[2048];
	size_t used;
};

void mk_line_add(struct line *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void summarize_node(struct line *line, const struct mk_node_object *node);
void summarize_service(struct line *line, const struct mk_service_object *service);
/* The endpoints of Service @namespace_/@name, merged. */
void summarize_endpoints(struct line *line, const struct mk_model *model, const char *namespace_,
			 const char *name);

/* json-c accepts single quotes too, which saves many backslashes in the rows. */
int apply_text(struct mk_model *model, const char *text, struct mk_error *err);
void apply_good_text(struct mk_model *model, const char *text);

/* The listener's calls, one word each: "node:n x/s". hear_*() are such listeners. */
extern char heard[512];
void hear(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void hear_node(void *ctx, const char *name);
void hear_service(void *ctx, const char *namespace_, const char *name);

#endif

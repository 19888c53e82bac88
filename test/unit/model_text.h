/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/model_text.h - objects of the model as one line of text, and rows of objects. */
#ifndef MK_TEST_MODEL_TEXT_H
#define MK_TEST_MODEL_TEXT_H

#include "model/model.h"

struct line {
	char text[1024];
	size_t used;
};

void mk_line_add(struct line *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void summarize_node(struct line *line, const struct mk_node_object *node);
void summarize_service(struct line *line, const struct mk_service_object *service);
/* The endpoints of Service @namespace_/@name, merged. */
void summarize_endpoints(struct line *line, const struct mk_model *model, const char *namespace_,
			 const char *name);

/* json-c reads single quotes too, which saves the rows a lot of backslashes. */
int apply_text(struct mk_model *model, const char *text, struct mk_error *err);
void apply_good_text(struct mk_model *model, const char *text);

/* Beginnings of objects, to be completed and put in braces: node n, Service x/s and its endpoints. */
#define NODE	"'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': 'n'}"
#define SERVICE "'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 's', 'namespace': 'x'}"
#define PORT_80 "'ports': [{'port': 80}]"
#define SLICE_META \
	"'apiVersion': 'discovery.k8s.io/v1', 'kind': 'EndpointSlice', 'addressType': 'IPv4'"
#define SLICE(name)                                                        \
	SLICE_META ", 'metadata': {'name': '" name "', 'namespace': 'x', " \
		   "'labels': {'kubernetes.io/service-name': 's'}}"
#define HTTP "'ports': [{'name': 'http', 'port': 8080}]"
#define ENDPOINTS \
	"'apiVersion': 'v1', 'kind': 'Endpoints', 'metadata': {'name': 's', 'namespace': 'x'}"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/clusterset_text.h - trees of published Services from and to text, for rows of tests. */
#ifndef MK_TEST_CLUSTERSET_TEXT_H
#define MK_TEST_CLUSTERSET_TEXT_H

#include <json-c/json.h>

#include "clusterset/imports.h"
#include "clusterset/publish.h"

/* Members of objects; json-c accepts single quotes. */
#define EP(ip)	   "{'addresses': ['" ip "'], 'conditions': {'ready': true}}"
#define HTTP	   "{'name': 'http', 'protocol': 'TCP', 'port': 80}"
#define HTTP_8080  "{'name': 'http', 'protocol': 'TCP', 'port': 8080}"
#define PORTS(...) "'ports': [" #__VA_ARGS__ "]"
#define SET	   "'type': 'ClusterSetIP', 'ipFamilies': ['IPv4'], "
#define WEB	   SET "'ports': [" HTTP "]"
#define SLICES(eps)                                                                  \
	", 'slices': [{'name': 'web-1', 'addressType': 'IPv4', 'ports': [" HTTP_8080 \
	"], 'endpoints': [" eps "]}]"
#define IN(cluster, ip) \
	"{'addresses': ['" ip "'], 'cluster': '" cluster "', 'conditions': {'ready': true}}"

/* Parse @text, or end the test. The caller puts the tree. */
json_object *tree_of(const char *text);
/* The compact text of @tree with single quotes. The caller frees it. */
char *text_of_tree(json_object *tree);
/* Append to *@text, which the caller frees. */
void text_add(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A PublishedService, part 0 of 1, of Service shop/web; @spec: the further members of spec. */
json_object *published_of(const char *cluster, const char *spec);
/* .. of any names; @cluster is also the label. */
json_object *published_named(const char *cluster, const char *namespace_, const char *name,
			     const char *suffix, const char *spec);

/* .. is put into @imports, or the test ends. */
void published_apply(struct mk_imports *imports, const char *cluster, const char *spec);

/* The store of cluster west, with ranges of both families. East and north have views. */
struct mk_imports *imports_of_west(void);
void set_cluster(struct mk_imports *imports, const char *name, const char *home, const char *view,
		 const char *home6, const char *view6);

/* Everything that a merge results in, as text. The caller frees it. */
char *merged_text(struct mk_imports *imports, const char *namespace_, const char *name);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "unit/clusterset_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/unit.h"

json_object *tree_of(const char *text)
{
	json_object *tree = json_tokener_parse(text);

	ck_assert_msg(tree != NULL, "not JSON: %s", text);
	return tree;
}

char *text_of_tree(json_object *tree)
{
	char *text = strdup(json_object_to_json_string_ext(
		tree, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));

	ck_assert_ptr_nonnull(text);
	for (char *at = text; *at; at++)
		if (*at == '"')
			*at = '\'';
	return text;
}

void text_add(char **text, const char *format, ...)
{
	char *more, *whole;
	va_list args;

	va_start(args, format);
	ck_assert_int_ge(vasprintf(&more, format, args), 0);
	va_end(args);
	ck_assert_int_ge(asprintf(&whole, "%s%s", *text ? *text : "", more), 0);
	free(more);
	free(*text);
	*text = whole;
}

json_object *published_named(const char *cluster, const char *namespace_, const char *name,
			     const char *suffix, const char *spec)
{
	cleanup_free char *text = NULL;
	json_object *tree;

	text_add(&text,
		 "{'apiVersion': 'networking.monokube.io/v1alpha1', 'kind': 'PublishedService',"
		 " 'metadata': {'name': '%s.%s.%s%s', 'namespace': '%s',"
		 " 'labels': {'networking.monokube.io/cluster': '%s'}},"
		 " 'spec': {'namespace': '%s', 'name': '%s'%s%s}}",
		 cluster, namespace_, name, suffix,
		 strcmp(cluster, "west") == 0 ? "monokube-published" : "monokube-peers", cluster,
		 namespace_, name, *spec ? ", " : "", spec);
	tree = tree_of(text);
	return tree;
}

json_object *published_of(const char *cluster, const char *spec)
{
	return published_named(cluster, "shop", "web", "", spec);
}

void published_apply(struct mk_imports *imports, const char *cluster, const char *spec)
{
	json_object *tree = published_of(cluster, spec);
	struct mk_error err;

	ck_ok(mk_imports_apply(imports, tree, &err));
	json_object_put(tree);
}

void set_cluster(struct mk_imports *imports, const char *name, const char *home, const char *view,
		 const char *home6, const char *view6)
{
	struct mk_imports_cluster cluster = { .name = name };
	struct mk_error err;

	if (home)
		cluster.home[0] = cidr_of(home);
	if (view)
		cluster.view[0] = cidr_of(view);
	if (home6)
		cluster.home[1] = cidr_of(home6);
	if (view6)
		cluster.view[1] = cidr_of(view6);
	ck_ok(mk_imports_set_cluster(imports, &cluster, &err));
}

struct mk_imports *imports_of_west(void)
{
	const struct mk_imports_config config = {
		.own_cluster = "west",
		.clusterset = { cidr_of("247.254.0.0/16"), cidr_of("fd6d:6b63:7300::/112") },
	};
	struct mk_imports *imports = mk_imports_new(&config);

	ck_assert_ptr_nonnull(imports);
	set_cluster(imports, "west", "10.244.0.0/16", "10.244.0.0/16", "fd00:244::/56",
		    "fd00:244::/56");
	set_cluster(imports, "east", "10.244.0.0/16", "240.0.0.0/16", "fd00:244::/56", "fdee::/56");
	set_cluster(imports, "north", "10.244.0.0/16", "240.1.0.0/16", "fd00:244::/56",
		    "fdaa::/56");
	return imports;
}

static void add_tree(char **text, const char *what, json_object *tree)
{
	cleanup_free char *one = text_of_tree(tree);

	text_add(text, "%s %s\n", what, one);
}

char *merged_text(struct mk_imports *imports, const char *namespace_, const char *name)
{
	struct mk_merged merged;
	struct mk_error err;
	char *text = NULL;

	if (mk_imports_merge(imports, namespace_, name, &merged, &err) < 0) {
		text_add(&text, "error %s\n", mk_error_text(&err));
		mk_merged_release(&merged);
		return text;
	}
	text_add(&text, "%s\n", merged.import ? "imported" : "not imported");
	if (merged.import)
		add_tree(&text, "import", merged.import);
	if (merged.import)
		add_tree(&text, "clusters", merged.clusters);
	for (size_t i = 0; i < merged.slice_count; i++)
		add_tree(&text, "slice", merged.slices[i]);
	text_add(&text, "conflicts %s: %s\n", merged.conflict_reasons ?: "none",
		 merged.conflict_message ?: "");
	text_add(&text, "%s, %zu endpoints, %zu left out: %s%s\n",
		 merged.is_own ? "own export" : "no own export", merged.endpoint_count,
		 merged.left_out, merged.note ?: "", merged.lacks_family ? " lacks family" : "");
	mk_merged_release(&merged);
	return text;
}

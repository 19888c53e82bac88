// SPDX-License-Identifier: Apache-2.0
/* The store of published Services: parts, changes, clusters that come and go, limits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "unit/clusterset_text.h"
#include "unit/unit.h"

/* ---- parts ----------------------------------------------------------------------------------- */

static void apply_part(struct mk_imports *imports, unsigned int part, unsigned int parts,
		       const char *layout, const char *slice, const char *address)
{
	cleanup_free char *spec = NULL;
	char suffix[8] = "";
	struct mk_error err;
	json_object *tree;

	text_add(
		&spec,
		WEB
		", 'part': %u, 'parts': %u, 'layout': '%s', 'slices': [{'name': '%s', 'addressType': 'IPv4', 'endpoints': [" EP(
			"%s") "]}]",
		part, parts, layout, slice, address);
	if (part > 0)
		snprintf(suffix, sizeof(suffix), ".%u", part);
	tree = published_named("east", "shop", "web", suffix, spec);
	ck_ok(mk_imports_apply(imports, tree, &err));
	json_object_put(tree);
}

static void expect(struct mk_imports *imports, const char *want, const char *lack)
{
	cleanup_free char *text = merged_text(imports, "shop", "web");

	ck_assert_msg(strstr(text, want) != NULL, "no %s in %s", want, text);
	ck_assert_msg(!lack || !strstr(text, lack), "%s in %s", lack, text);
}

START_TEST(test_parts)
{
	struct mk_imports *imports = imports_of_west();

	apply_part(imports, 1, 2, "a", "s2", "10.244.0.2");
	expect(imports, "not imported", NULL);
	apply_part(imports, 0, 2, "a", "s1", "10.244.0.1");
	expect(imports, "2 endpoints", NULL);
	/* A part alone may change. */
	apply_part(imports, 1, 2, "a", "s2", "10.244.0.3");
	expect(imports, "240.0.0.3", "240.0.0.2");
	/* Another division counts when all parts have it. */
	apply_part(imports, 0, 2, "b", "s3", "10.244.0.4");
	expect(imports, "240.0.0.1", "240.0.0.4");
	apply_part(imports, 1, 2, "b", "s1", "10.244.0.1");
	expect(imports, "240.0.0.4", "240.0.0.3");
	/* One part less: what is left of the second one does not count. */
	apply_part(imports, 0, 1, "", "s3", "10.244.0.4");
	expect(imports, "1 endpoints", "240.0.0.1'");
	mk_imports_delete(imports, "monokube-peers", "east.shop.web.1");
	expect(imports, "1 endpoints", NULL);
	mk_imports_free(imports);
}
END_TEST

/* A lost part changes nothing; the first part that goes ends the publication. */
START_TEST(test_part_goes)
{
	struct mk_imports *imports = imports_of_west();

	apply_part(imports, 0, 2, "a", "s1", "10.244.0.1");
	apply_part(imports, 1, 2, "a", "s2", "10.244.0.2");
	mk_imports_delete(imports, "monokube-peers", "east.shop.web.1");
	expect(imports, "2 endpoints", NULL);
	apply_part(imports, 1, 2, "a", "s2", "10.244.0.2");
	mk_imports_delete(imports, "monokube-peers", "east.shop.web");
	expect(imports, "not imported", NULL);
	mk_imports_free(imports);
}
END_TEST

START_TEST(test_slice_in_two_parts)
{
	struct mk_imports *imports = imports_of_west();

	apply_part(imports, 0, 2, "a", "s1", "10.244.0.1");
	apply_part(imports, 1, 2, "a", "s1", "10.244.0.2");
	expect(imports,
	       "1 endpoints, 1 left out: EndpointSlice 's1' of cluster 'east' is left out: it is in two parts",
	       "240.0.0.2");
	mk_imports_free(imports);
}
END_TEST

/* ---- the store ------------------------------------------------------------------------------- */

static size_t waiting(struct mk_imports *imports)
{
	char namespace_[MK_IMPORTS_NAME_SIZE], name[MK_IMPORTS_NAME_SIZE];
	size_t count = 0;

	while (mk_imports_next(imports, namespace_, name))
		count++;
	return count;
}

static void apply_named(struct mk_imports *imports, const char *cluster, const char *namespace_,
			const char *name, const char *spec)
{
	json_object *tree = published_named(cluster, namespace_, name, "", spec);
	struct mk_error err;

	ck_ok(mk_imports_apply(imports, tree, &err));
	json_object_put(tree);
}

/* One change costs the work of one Service. */
START_TEST(test_which_wait)
{
	struct mk_imports *imports = imports_of_west();

	apply_named(imports, "east", "shop", "web", WEB);
	apply_named(imports, "west", "shop", "web", WEB);
	apply_named(imports, "east", "shop", "api", WEB);
	apply_named(imports, "north", "other", "web", WEB);
	ck_assert_uint_eq(waiting(imports), 3);
	ck_assert_uint_eq(waiting(imports), 0);
	apply_named(imports, "east", "shop", "web", WEB SLICES(EP("10.244.1.1")));
	ck_assert_uint_eq(waiting(imports), 1);
	mk_imports_touch(imports, "shop", NULL);
	ck_assert_uint_eq(waiting(imports), 2);
	mk_imports_touch(imports, NULL, NULL);
	ck_assert_uint_eq(waiting(imports), 3);
	mk_imports_touch(imports, "shop", "web");
	mk_imports_touch(imports, "shop", "unknown");
	ck_assert_uint_eq(waiting(imports), 2);
	set_cluster(imports, "east", "10.244.0.0/16", "240.0.0.0/16", "fd00:244::/56", "fdee::/56");
	ck_assert_uint_eq(waiting(imports), 0);
	set_cluster(imports, "east", "10.244.0.0/16", "240.2.0.0/16", "fd00:244::/56", "fdee::/56");
	ck_assert_uint_eq(waiting(imports), 2);
	mk_imports_remove_cluster(imports, "north");
	ck_assert_uint_eq(waiting(imports), 1);
	mk_imports_delete(imports, "monokube-peers", "east.shop.api");
	ck_assert_uint_eq(waiting(imports), 1);
	mk_imports_delete(imports, "monokube-peers", "east.shop.api");
	ck_assert_uint_eq(waiting(imports), 0);
	mk_imports_free(imports);
}
END_TEST

/* Another cluster sees an external address by a view of its own. This cluster uses the target. */
START_TEST(test_externals)
{
#define EXTERNAL SLICES("{'addresses': ['247.255.0.5'], 'target': '192.0.2.7'}")
	struct mk_imports *imports = imports_of_west();
	struct mk_imports_cluster east = { .name = "east" }, west = { .name = "west" };
	struct mk_error err;

	east.home[0] = west.home[0] = west.view[0] = cidr_of("10.244.0.0/16");
	east.view[0] = cidr_of("240.0.0.0/16");
	apply_named(imports, "east", "shop", "web", WEB EXTERNAL);
	expect(imports, "it is outside of its cluster's pod range", "['247.255");
	east.external_home[0] = cidr_of("247.255.0.0/20");
	ck_ok(mk_imports_set_cluster(imports, &east, &err));
	expect(imports, "1 left out", "240.9.0.5");
	east.external_view[0] = cidr_of("240.9.0.0/20");
	ck_ok(mk_imports_set_cluster(imports, &east, &err));
	expect(imports, "240.9.0.5", "192.0.2.7");
	apply_named(imports, "west", "shop", "web", WEB EXTERNAL);
	west.external_home[0] = west.external_view[0] = cidr_of("247.255.0.0/20");
	ck_ok(mk_imports_set_cluster(imports, &west, &err));
	expect(imports, "['192.0.2.7']", "'target'");
	mk_imports_free(imports);
}
END_TEST

/* With access: Pods, a peer may name pods of this cluster, and nothing else of it. */
START_TEST(test_pods_here)
{
	struct mk_imports *imports = imports_of_west();
	struct mk_imports_cluster east = { .name = "east", .opens_pods = true }, west = { 0 };
	struct mk_error err;

	west.name = "west";
	west.home[0] = west.view[0] = east.home[0] = cidr_of("10.244.0.0/16");
	west.external_home[0] = west.external_view[0] = cidr_of("247.255.0.0/20");
	east.view[0] = cidr_of("240.0.0.0/16");
	ck_ok(mk_imports_set_cluster(imports, &west, &err));
	apply_named(
		imports, "east", "shop", "web",
		WEB SLICES("{'addresses': ['10.244.1.2'], 'cluster': 'west', 'nodeName': 'n1'}"));
	expect(imports, "0 endpoints, 1 left out", "slice");
	(void)waiting(imports);
	ck_ok(mk_imports_set_cluster(imports, &east, &err));
	ck_assert_uint_eq(waiting(imports), 1);
	expect(imports, "['10.244.1.2']", "n1");
	apply_named(imports, "east", "shop", "web", WEB SLICES(IN("west", "192.168.1.1")));
	expect(imports, "it is outside of this cluster's pod range", "slice");
	apply_named(imports, "east", "shop", "web", WEB SLICES(IN("west", "247.255.0.5")));
	expect(imports, "it is outside of this cluster's pod range", "slice");
	mk_imports_free(imports);
}
END_TEST

/* A Service is merged again when a cluster comes, changes or goes that an endpoint names. */
START_TEST(test_named_clusters_come_and_go)
{
	struct mk_imports *imports = imports_of_west();

	apply_named(imports, "east", "shop", "web", WEB SLICES(IN("south", "10.244.1.2")));
	expect(imports, "0 endpoints, 1 left out", "slice");
	(void)waiting(imports);
	set_cluster(imports, "south", "10.244.0.0/16", "240.7.0.0/16", NULL, NULL);
	ck_assert_uint_eq(waiting(imports), 1);
	expect(imports, "240.7.1.2", NULL);
	set_cluster(imports, "south", "10.244.0.0/16", "240.8.0.0/16", NULL, NULL);
	ck_assert_uint_eq(waiting(imports), 1);
	expect(imports, "240.8.1.2", "240.7");
	mk_imports_remove_cluster(imports, "south");
	ck_assert_uint_eq(waiting(imports), 1);
	expect(imports, "0 endpoints, 1 left out", "240.");
	mk_imports_free(imports);
}
END_TEST

static void apply_shown(struct mk_imports *imports, const char *hub)
{
	json_object *tree = published_of("east", WEB SLICES(EP("10.244.1.2"))), *labels;
	struct mk_error err;

	labels = mk_json_member(mk_json_member(tree, "metadata"), "labels");
	if (hub)
		mk_put_text(labels, "networking.monokube.io/relayed-by", hub);
	ck_ok(mk_imports_apply(imports, tree, &err));
	json_object_put(tree);
}

/* A hub shows only what is reached by it. */
START_TEST(test_shown_by_a_hub)
{
	struct mk_imports *imports = imports_of_west();
	struct mk_imports_cluster east = { .name = "east", .via = "hub" };
	struct mk_error err;

	east.home[0] = cidr_of("10.244.0.0/16");
	east.view[0] = cidr_of("240.0.0.0/16");
	apply_shown(imports, "hub");
	expect(imports, "not imported", NULL);
	(void)waiting(imports);
	ck_ok(mk_imports_set_cluster(imports, &east, &err));
	ck_assert_uint_eq(waiting(imports), 1);
	expect(imports, "240.0.1.2", NULL);
	ck_ok(mk_imports_set_cluster(imports, &east, &err));
	ck_assert_uint_eq(waiting(imports), 0);
	apply_shown(imports, "other");
	expect(imports, "not imported", NULL);
	apply_shown(imports, NULL);
	expect(imports, "240.0.1.2", NULL);
	east.via = NULL;
	ck_ok(mk_imports_set_cluster(imports, &east, &err));
	expect(imports, "240.0.1.2", NULL);
	mk_imports_free(imports);
}
END_TEST

/* importNamespaces of the ClusterPeer. NULL: all but kube-*. */
static const struct {
	const char *namespaces;
	const char *imported; /* of "shop kube-dns" */
} choices[] = {
	{ NULL, "shop" },
	{ ",*,", "shop" },
	{ ",shop,", "shop" },
	{ ",shops,sho,", "" },
	{ ",kube-dns,", "kube-dns" },
	{ ",*,kube-dns,", "shop kube-dns" },
	{ ",*,kube-,", "shop" },
	{ ",", "" },
};

static bool is_imported(struct mk_imports *imports, const char *namespace_)
{
	cleanup_free char *text = merged_text(imports, namespace_, "web");

	return strncmp(text, "imported", strlen("imported")) == 0;
}

START_TEST(test_import_namespaces)
{
	struct mk_imports *imports = imports_of_west();
	struct mk_imports_cluster east = { .name = "east" };
	struct mk_error err;

	east.home[0] = cidr_of("10.244.0.0/16");
	east.view[0] = cidr_of("240.0.0.0/16");
	apply_named(imports, "east", "shop", "web", WEB SLICES(EP("10.244.1.2")));
	apply_named(imports, "east", "kube-dns", "web", WEB SLICES(EP("10.244.1.2")));
	for (size_t i = 0; i < MK_ARRAY_SIZE(choices); i++) {
		(void)waiting(imports);
		east.namespaces = choices[i].namespaces;
		ck_ok(mk_imports_set_cluster(imports, &east, &err));
		ck_assert_uint_eq(waiting(imports), 2);
		ck_assert_msg(is_imported(imports, "shop") == (choices[i].imported[0] == 's'),
			      "shop with '%s'", east.namespaces ?: "(none)");
		ck_assert_msg(is_imported(imports, "kube-dns") ==
				      (strstr(choices[i].imported, "kube-dns") != NULL),
			      "kube-dns with '%s'", east.namespaces ?: "(none)");
	}
	mk_imports_free(imports);
}
END_TEST

/* What this cluster itself exports counts, whatever peers may publish. */
START_TEST(test_import_namespaces_of_peers)
{
	struct mk_imports *imports = imports_of_west();
	struct mk_imports_cluster west = { .name = "west", .namespaces = "," };
	struct mk_error err;

	west.home[0] = west.view[0] = cidr_of("10.244.0.0/16");
	ck_ok(mk_imports_set_cluster(imports, &west, &err));
	apply_named(imports, "west", "shop", "web", WEB SLICES(EP("10.244.1.2")));
	ck_assert(is_imported(imports, "shop"));
	mk_imports_free(imports);
}
END_TEST

START_TEST(test_clusters_come_and_go)
{
	struct mk_imports *imports = imports_of_west();

	apply_named(imports, "south", "shop", "web", WEB SLICES(EP("10.244.1.2")));
	expect(imports, "not imported", NULL);
	set_cluster(imports, "south", "10.244.0.0/16", "240.7.0.0/16", NULL, NULL);
	expect(imports, "240.7.1.2", NULL);
	set_cluster(imports, "south", "10.244.0.0/16", "240.8.0.0/16", NULL, NULL);
	expect(imports, "240.8.1.2", "240.7.1.2");
	mk_imports_remove_cluster(imports, "south");
	expect(imports, "not imported", NULL);
	mk_imports_free(imports);
}
END_TEST

START_TEST(test_without_view)
{
	struct mk_imports *imports = imports_of_west();

	published_apply(imports, "east", WEB SLICES(EP("10.244.1.2")));
	set_cluster(imports, "east", "10.244.0.0/16", NULL, NULL, NULL);
	expect(imports, "left out: its cluster has no view of this family here", "240.");
	set_cluster(imports, "east", NULL, NULL, NULL, NULL);
	expect(imports, "left out: its cluster has no pod range of this family", "240.");
	set_cluster(imports, "east", "10.244.0.0/16", "240.0.0.0/24", NULL, NULL);
	expect(imports, "left out: the view of its cluster has another length", "240.");
	mk_imports_free(imports);
}
END_TEST

/* A writer in monokube-peers cannot delete what this cluster publishes. */
START_TEST(test_delete_of_another_namespace)
{
	struct mk_imports *imports = imports_of_west();

	published_apply(imports, "west", WEB);
	mk_imports_delete(imports, "monokube-peers", "west.shop.web");
	expect(imports, "own export", "no own");
	mk_imports_delete(imports, "monokube-published", "west.shop.web");
	expect(imports, "not imported", NULL);
	mk_imports_free(imports);
}
END_TEST

/* A slice keeps its name while others come and go. */
START_TEST(test_names_stay)
{
	struct mk_imports *imports = imports_of_west();
	cleanup_free char *text = NULL;
	char name[80];

	apply_part(imports, 0, 1, "", "s2", "10.244.0.2");
	text = merged_text(imports, "shop", "web");
	snprintf(name, sizeof(name), "%.*s", 33, strstr(text, "'name':'web-east-"));
	published_apply(
		imports, "east",
		WEB ", 'slices': [{'name': 's1', 'addressType': 'IPv4', 'endpoints': [" EP(
			"10.244.0.1") "]}, {'name': 's2', 'addressType': 'IPv4', 'endpoints': [" EP("10.244.0.2") "]}]");
	expect(imports, name, NULL);
	mk_imports_free(imports);
}
END_TEST

START_TEST(test_alpha)
{
	const struct mk_imports_config config = { .own_cluster = "west",
						  .clusterset = { cidr_of("247.254.0.0/16") },
						  .is_alpha = true };
	struct mk_imports *imports = mk_imports_new(&config);

	set_cluster(imports, "east", "10.244.0.0/16", "240.0.0.0/16", NULL, NULL);
	published_apply(
		imports, "east",
		"'internalTrafficPolicy': 'Local', 'trafficDistribution': 'PreferClose', " WEB);
	expect(imports, "multicluster.x-k8s.io/v1alpha1", "ipFamilies");
	expect(imports, "'ips':['247.254.", "internalTrafficPolicy");
	expect(imports, "'sessionAffinity':'None'", "trafficDistribution");
	mk_imports_free(imports);
}
END_TEST

START_TEST(test_lacks_family)
{
	const struct mk_imports_config config = { .own_cluster = "west",
						  .clusterset = { cidr_of("247.254.0.0/16") } };
	struct mk_imports *imports = mk_imports_new(&config);

	set_cluster(imports, "east", "10.244.0.0/16", "240.0.0.0/16", NULL, NULL);
	published_apply(imports, "east", "'ipFamilies': ['IPv6'], 'ports': [" HTTP "]");
	expect(imports, "lacks family", "'ips'");
	published_apply(imports, "east", WEB);
	expect(imports, "247.254.", "lacks family");
	mk_imports_free(imports);
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

static char *many_endpoints(void)
{
	char *spec = NULL;

	text_add(&spec, WEB ", 'slices': [{'name': 's', 'addressType': 'IPv4', 'endpoints': [");
	for (int i = 0; i < MK_PUBLISHED_PART_ENDPOINTS; i++)
		text_add(&spec, "%s{'addresses': ['10.244.%d.%d']}", i ? "," : "", i / 250,
			 i % 250);
	text_add(&spec, "]}]");
	return spec;
}

START_TEST(test_limit_of_endpoints)
{
	struct mk_imports *imports = imports_of_west();
	cleanup_free char *spec = many_endpoints();
	struct mk_error err;
	json_object *tree;
	char name[16];

	for (int i = 0; i < MK_IMPORTS_ENDPOINTS / MK_PUBLISHED_PART_ENDPOINTS; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		apply_named(imports, "east", "shop", name, spec);
	}
	apply_named(imports, "east", "shop", "s1", spec);
	tree = published_named("east", "shop", "one-more", "", WEB SLICES(EP("10.244.1.2")));
	ck_assert_int_eq(mk_imports_apply(imports, tree, &err), -E2BIG);
	ck_assert_ptr_nonnull(
		strstr(mk_error_text(&err), "cluster 'east' would have 50001 endpoints"));
	mk_imports_delete(imports, "monokube-peers", "east.shop.s1");
	ck_ok(mk_imports_apply(imports, tree, &err));
	json_object_put(tree);
	apply_named(imports, "north", "shop", "s0", spec);
	mk_imports_free(imports);
}
END_TEST

START_TEST(test_limit_of_services)
{
	struct mk_imports *imports = imports_of_west();
	struct mk_error err;
	json_object *tree;
	char name[16];

	for (int i = 0; i < MK_IMPORTS_SERVICES; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		apply_named(imports, "east", "shop", name, "");
	}
	apply_named(imports, "east", "shop", "s1", WEB);
	tree = published_named("east", "shop", "one-more", "", "");
	ck_assert_int_eq(mk_imports_apply(imports, tree, &err), -E2BIG);
	ck_assert_ptr_nonnull(
		strstr(mk_error_text(&err), "cluster 'east' would have 5001 Services"));
	mk_imports_delete(imports, "monokube-peers", "east.shop.s1");
	ck_ok(mk_imports_apply(imports, tree, &err));
	json_object_put(tree);
	mk_imports_free(imports);
}
END_TEST

START_TEST(test_too_many_endpoints_of_a_part)
{
	cleanup_free char *spec = many_endpoints();
	struct mk_imports *imports = imports_of_west();
	struct mk_error err;
	json_object *tree;

	spec[strlen(spec) - 1] = '\0';
	text_add(&spec,
		 ", {'name': 't', 'addressType': 'IPv4', 'endpoints': [" EP("10.244.9.9") "]}]");
	tree = published_of("east", spec);
	ck_assert_int_eq(mk_imports_apply(imports, tree, &err), -EINVAL);
	ck_assert_ptr_nonnull(
		strstr(mk_error_text(&err), "slices: 1001 endpoints, expected at most 1000"));
	json_object_put(tree);
	mk_imports_free(imports);
}
END_TEST

UNIT_SUITE("imports_store")
{
	TCase *store = unit_case(suite, "store", NULL, NULL);

	tcase_add_test(store, test_too_many_endpoints_of_a_part);
	tcase_add_test(store, test_parts);
	tcase_add_test(store, test_part_goes);
	tcase_add_test(store, test_slice_in_two_parts);
	tcase_add_test(store, test_which_wait);
	tcase_add_test(store, test_import_namespaces);
	tcase_add_test(store, test_import_namespaces_of_peers);
	tcase_add_test(store, test_clusters_come_and_go);
	tcase_add_test(store, test_externals);
	tcase_add_test(store, test_pods_here);
	tcase_add_test(store, test_named_clusters_come_and_go);
	tcase_add_test(store, test_shown_by_a_hub);
	tcase_add_test(store, test_without_view);
	tcase_add_test(store, test_delete_of_another_namespace);
	tcase_add_test(store, test_names_stay);
	tcase_add_test(store, test_alpha);
	tcase_add_test(store, test_lacks_family);
	tcase_add_test(store, test_limit_of_endpoints);
	tcase_add_test(store, test_limit_of_services);
}

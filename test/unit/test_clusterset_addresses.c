// SPDX-License-Identifier: Apache-2.0
/* Clusterset addresses: the hash of namespace and name or the next free one, never one in use; an
 * address that exists stays. Rows, and random sequences that are checked against what must hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "unit/clusterset_text.h"
#include "unit/unit.h"

#define HELD_MAX  4
#define RUNS	  20 /* a test each, so that none takes long */
#define SEQUENCES 100 /* of a run */
#define STEPS	  30
#define SERVICES  8

static struct mk_error err;

static struct mk_imports *imports_with(const char *range, const char *range6)
{
	struct mk_imports_config config = { .own_cluster = "west" };
	struct mk_imports *imports;

	if (range)
		config.clusterset[0] = cidr_of(range);
	if (range6)
		config.clusterset[1] = cidr_of(range6);
	imports = mk_imports_new(&config);
	ck_assert_ptr_nonnull(imports);
	set_cluster(imports, "east", "10.244.0.0/16", "240.0.0.0/16", NULL, NULL);
	return imports;
}

static void export_service(struct mk_imports *imports, const char *namespace_, const char *name,
			   const char *spec)
{
	json_object *tree = published_named("east", namespace_, name, "", spec);

	ck_ok(mk_imports_apply(imports, tree, &err));
	json_object_put(tree);
}

static int hold(struct mk_imports *imports, const char *namespace_, const char *name,
		const char *created, const char *ips)
{
	cleanup_free char *text = NULL;
	json_object *tree;
	int ret;

	text_add(
		&text,
		"{'kind': 'ServiceImport', 'metadata': {'namespace': '%s', 'name': '%s', 'creationTimestamp': '2026-01-0%sT00:00:00Z'}, 'spec': {'ips': %s}}",
		namespace_, name, created, ips);
	tree = tree_of(text);
	ret = mk_imports_hold(imports, tree, &err);
	json_object_put(tree);
	return ret;
}

/* The addresses of an import, "a,b"; "": none; or the error. */
static const char *ips_of(struct mk_imports *imports, const char *namespace_, const char *name)
{
	static char text[512];
	struct mk_merged merged;
	json_object *ips;

	if (mk_imports_merge(imports, namespace_, name, &merged, &err) < 0) {
		snprintf(text, sizeof(text), "%s", mk_error_text(&err));
		return text;
	}
	text[0] = '\0';
	json_object_object_get_ex(json_object_object_get(merged.import, "spec"), "ips", &ips);
	for (size_t i = 0; ips && i < json_object_array_length(ips); i++)
		sprintf(text + strlen(text), "%s%s", i ? "," : "",
			json_object_get_string(json_object_array_get_idx(ips, i)));
	mk_merged_release(&merged);
	return text;
}

/* Service shop/web, beside imports that exist. */
static const struct row {
	const char *name, *range, *range6; /* NULL: none; both NULL: the defaults */
	const char *spec;
	struct {
		const char *name, *created, *ips;
	} held[HELD_MAX];
	const char *expected; /* or the begin of an error */
} rows[] = {
	{ "the hash", NULL, NULL, "'ipFamilies': ['IPv4']", { { 0 } }, "247.254.205.237" },
	{ "the hash, IPv6",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv6']",
	  { { 0 } },
	  "fd6d:6b63:7300::cded" },
	{ "both",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4', 'IPv6']",
	  { { 0 } },
	  "247.254.205.237,fd6d:6b63:7300::cded" },
	{ "of any family", NULL, NULL, "", { { 0 } }, "247.254.205.237,fd6d:6b63:7300::cded" },
	{ "only IPv4 here", "247.254.0.0/16", NULL, "", { { 0 } }, "247.254.205.237" },
	{ "only IPv6 here", NULL, "fd6d:6b63:7300::/112", "", { { 0 } }, "fd6d:6b63:7300::cded" },
	{ "a family that this cluster lacks",
	  "247.254.0.0/16",
	  NULL,
	  "'ipFamilies': ['IPv6']",
	  { { 0 } },
	  "" },
	{ "headless", NULL, NULL, "'type': 'Headless'", { { 0 } }, "" },
	{ "headless, which had an address",
	  NULL,
	  NULL,
	  "'type': 'Headless'",
	  { { "web", "1", "['247.254.1.1']" } },
	  "" },
	{ "a range with host bits", "247.254.9.9/16", NULL, "", { { 0 } }, "247.254.205.237" },
	/* ---- what exists stays ---- */
	{ "its own",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "['247.254.1.1']" } },
	  "247.254.1.1" },
	{ "its own, both",
	  NULL,
	  NULL,
	  "",
	  { { "web", "1", "['fd6d:6b63:7300::1', '247.254.1.1']" } },
	  "247.254.1.1,fd6d:6b63:7300::1" },
	{ "one family is new",
	  NULL,
	  NULL,
	  "",
	  { { "web", "1", "['247.254.1.1']" } },
	  "247.254.1.1,fd6d:6b63:7300::cded" },
	{ "one family is gone",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "['247.254.1.1', 'fd6d:6b63:7300::1']" } },
	  "247.254.1.1" },
	{ "an import without address",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "[]" } },
	  "247.254.205.237" },
	{ "an import with null",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "null" } },
	  "247.254.205.237" },
	{ "an address of another range",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "['10.96.0.1']" } },
	  "247.254.205.237" },
	{ "the first address of the range",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "['247.254.0.0']" } },
	  "247.254.205.237" },
	{ "the last address of the range",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "['247.254.255.255']" } },
	  "247.254.205.237" },
	{ "the last one of IPv6",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv6']",
	  { { "web", "1", "['fd6d:6b63:7300::ffff']" } },
	  "fd6d:6b63:7300::ffff" },
	{ "leading zeros",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "['247.254.001.001']" } },
	  "247.254.1.1" },
	/* ---- what others have ---- */
	{ "the hash is in use",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "api", "1", "['247.254.205.237']" } },
	  "247.254.205.238" },
	{ ".. and the next",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "api", "1", "['247.254.205.237']" }, { "b", "1", "['247.254.205.238']" } },
	  "247.254.205.239" },
	{ ".. in IPv6",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv6']",
	  { { "api", "1", "['fd6d:6b63:7300::cded']" } },
	  "fd6d:6b63:7300::cdee" },
	{ ".. each family for itself",
	  NULL,
	  NULL,
	  "",
	  { { "api", "1", "['247.254.205.237']" } },
	  "247.254.205.238,fd6d:6b63:7300::cded" },
	{ "two imports with one address: the older keeps it",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "2", "['247.254.1.1']" }, { "api", "1", "['247.254.1.1']" } },
	  "247.254.205.237" },
	{ ".. in the other order",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "api", "1", "['247.254.1.1']" }, { "web", "2", "['247.254.1.1']" } },
	  "247.254.205.237" },
	{ ".. this one is older",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "api", "2", "['247.254.1.1']" }, { "web", "1", "['247.254.1.1']" } },
	  "247.254.1.1" },
	{ ".. in the other order",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "['247.254.1.1']" }, { "api", "2", "['247.254.1.1']" } },
	  "247.254.1.1" },
	{ ".. of equal age, by name",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "['247.254.1.1']" }, { "zz", "1", "['247.254.1.1']" } },
	  "247.254.1.1" },
	{ ".. of equal age, by name, the other",
	  NULL,
	  NULL,
	  "'ipFamilies': ['IPv4']",
	  { { "web", "1", "['247.254.1.1']" }, { "aa", "1", "['247.254.1.1']" } },
	  "247.254.205.237" },
	/* ---- small ranges ---- */
	{ "/30 has two",
	  "247.254.0.0/30",
	  NULL,
	  "",
	  { { "a", "1", "['247.254.0.1']" } },
	  "247.254.0.2" },
	{ "the search goes on at the begin",
	  "247.254.0.0/30",
	  NULL,
	  "",
	  { { "a", "1", "['247.254.0.2']" } },
	  "247.254.0.1" },
	{ "/30 is full",
	  "247.254.0.0/30",
	  NULL,
	  "",
	  { { "a", "1", "['247.254.0.1']" }, { "b", "1", "['247.254.0.2']" } },
	  "clustersetCidr 247.254.0.0/30 has no free address for 'shop/web': enlarge it, or remove exports" },
	{ ".. but it has its own",
	  "247.254.0.0/30",
	  NULL,
	  "",
	  { { "a", "1", "['247.254.0.1']" }, { "web", "1", "['247.254.0.2']" } },
	  "247.254.0.2" },
	{ "/31 has none",
	  "247.254.0.0/31",
	  NULL,
	  "",
	  { { 0 } },
	  "clustersetCidr 247.254.0.0/31 has no free address" },
	{ "/126 of IPv6 has three",
	  NULL,
	  "fd6d::/126",
	  "",
	  { { "a", "1", "['fd6d::1']" }, { "b", "1", "['fd6d::2']" } },
	  "fd6d::3" },
	{ ".. and is full",
	  NULL,
	  "fd6d::/126",
	  "",
	  { { "a", "1", "['fd6d::1']" }, { "b", "1", "['fd6d::2']" }, { "c", "1", "['fd6d::3']" } },
	  "clustersetCidr fd6d::/126 has no free address" },
};

START_TEST(test_address)
{
	const struct row *row = &rows[_i];
	bool defaults = !row->range && !row->range6;
	struct mk_imports *imports = imports_with(defaults ? "247.254.0.0/16" : row->range,
						  defaults ? "fd6d:6b63:7300::/112" : row->range6);
	const char *found;

	for (size_t i = 0; i < HELD_MAX && row->held[i].name; i++)
		ck_ok(hold(imports, "shop", row->held[i].name, row->held[i].created,
			   row->held[i].ips));
	export_service(imports, "shop", "web", row->spec);
	for (int again = 0; again < 2; again++) {
		found = ips_of(imports, "shop", "web");
		ck_assert_msg(strncmp(found, row->expected, strlen(row->expected)) == 0 &&
				      (*row->expected || !*found),
			      "%s: %s, not %s", row->name, found, row->expected);
	}
	mk_imports_free(imports);
}
END_TEST

static const struct wrong {
	const char *name, *text, *expected;
} wrong[] = {
	{ "no names", "{}", "ServiceImport: expected namespace and name" },
	{ "a name", "{'metadata': {'name': 'a.b', 'namespace': 'shop'}}",
	  "expected namespace and name" },
	{ "no list", "{'metadata': {'name': 'web', 'namespace': 'shop'}, 'spec': {'ips': 'x'}}",
	  "ServiceImport 'shop/web': ips: value \"x\", expected a list" },
	{ "no address",
	  "{'metadata': {'name': 'web', 'namespace': 'shop'}, 'spec': {'ips': ['x']}}",
	  "spec.ips: value \"x\", expected an address" },
	{ "no text", "{'metadata': {'name': 'web', 'namespace': 'shop'}, 'spec': {'ips': [7]}}",
	  "spec.ips: value 7, expected an address" },
	{ "three",
	  "{'metadata': {'name': 'web', 'namespace': 'shop'}, 'spec': {'ips': ['1.1.1.1', '1.1.1.2', '1.1.1.3']}}",
	  "ips: 3 elements, expected at most 2" },
};

START_TEST(test_wrong_import)
{
	struct mk_imports *imports = imports_with("247.254.0.0/16", NULL);
	json_object *tree = tree_of(wrong[_i].text);

	ck_assert_int_eq(mk_imports_hold(imports, tree, &err), -EINVAL);
	ck_assert_msg(strstr(mk_error_text(&err), wrong[_i].expected) != NULL, "%s: %s",
		      wrong[_i].name, mk_error_text(&err));
	json_object_put(tree);
	mk_imports_free(imports);
}
END_TEST

/* The address stays until the import is gone, and then as long as a cluster exports the Service. */
START_TEST(test_life)
{
	struct mk_imports *imports = imports_with("247.254.0.0/30", NULL);

	export_service(imports, "shop", "a", "");
	export_service(imports, "shop", "b", "");
	export_service(imports, "shop", "c", "");
	ck_assert_str_ne(ips_of(imports, "shop", "a"), "");
	ck_assert_str_ne(ips_of(imports, "shop", "b"), "");
	ck_assert_ptr_nonnull(strstr(ips_of(imports, "shop", "c"), "has no free address"));
	ck_ok(hold(imports, "shop", "a", "1", "[]"));
	mk_imports_delete(imports, "monokube-peers", "east.shop.a");
	ck_assert_str_eq(ips_of(imports, "shop", "a"), "");
	ck_assert_ptr_nonnull(strstr(ips_of(imports, "shop", "c"), "has no free address"));
	mk_imports_release(imports, "shop", "a");
	ips_of(imports, "shop", "a");
	ck_assert_ptr_null(strstr(ips_of(imports, "shop", "c"), "has no free address"));
	mk_imports_free(imports);
}
END_TEST

START_TEST(test_released_and_exported)
{
	struct mk_imports *imports = imports_with("247.254.0.0/16", NULL);

	ck_ok(hold(imports, "shop", "web", "1", "['247.254.1.1']"));
	export_service(imports, "shop", "web", "");
	ck_assert_str_eq(ips_of(imports, "shop", "web"), "247.254.1.1");
	mk_imports_release(imports, "shop", "web"); /* a user deletes the import */
	ck_assert_str_eq(ips_of(imports, "shop", "web"), "247.254.1.1");
	mk_imports_free(imports);
}
END_TEST

/* The import's address counts, if something else has changed it to a free one. */
START_TEST(test_changed_by_hand)
{
	struct mk_imports *imports = imports_with("247.254.0.0/16", NULL);

	export_service(imports, "shop", "web", "");
	ck_assert_str_eq(ips_of(imports, "shop", "web"), "247.254.205.237");
	ck_ok(hold(imports, "shop", "web", "1", "['247.254.1.1']"));
	ck_assert_str_eq(ips_of(imports, "shop", "web"), "247.254.1.1");
	export_service(imports, "shop", "api", "");
	ck_ok(hold(imports, "shop", "api", "2", "['247.254.1.1']"));
	ck_assert_str_eq(ips_of(imports, "shop", "web"), "247.254.1.1");
	ck_assert_str_ne(ips_of(imports, "shop", "api"), "247.254.1.1");
	mk_imports_free(imports);
}
END_TEST

/* ---- random sequences ------------------------------------------------------------------------ */

struct life {
	struct mk_imports *imports;
	bool exported[SERVICES], written[SERVICES];
	char object[SERVICES][64]; /* address of the written import; "": none */
	unsigned int seed;
};

static unsigned int draw(struct life *life, unsigned int below)
{
	life->seed = life->seed * 1103515245 + 12345;
	return (life->seed >> 16) % below;
}

static const char *const names[SERVICES] = { "a", "b", "c", "d", "e", "f", "g", "h" };

static void write_import(struct life *life, unsigned int i, const char *ip)
{
	char list[80];

	snprintf(list, sizeof(list), *ip ? "['%s']" : "[]", ip);
	ck_ok(hold(life->imports, "shop", names[i], "1", list));
	snprintf(life->object[i], sizeof(life->object[i]), "%s", ip);
	life->written[i] = true;
}

/* The leader is killed: the next one knows the objects only. */
static void restart(struct life *life)
{
	mk_imports_free(life->imports);
	life->imports = imports_with("247.254.0.0/28", NULL);
	for (unsigned int i = 0; i < SERVICES; i++) {
		if (life->written[i])
			write_import(life, i, life->object[i]);
		if (life->exported[i])
			export_service(life->imports, "shop", names[i], "");
	}
}

static void step(struct life *life)
{
	unsigned int i = draw(life, SERVICES), what = draw(life, 8);
	char object[32];

	snprintf(object, sizeof(object), "east.shop.%s", names[i]);
	if (what < 3) {
		export_service(life->imports, "shop", names[i], "");
		life->exported[i] = true;
	} else if (what < 5) {
		mk_imports_delete(life->imports, "monokube-peers", object);
		life->exported[i] = false;
	} else if (what == 5) {
		mk_imports_release(life->imports, "shop", names[i]);
		life->written[i] = false;
	} else if (what == 6) {
		restart(life);
	}
}

/* Merge all; the leader writes some results. */
static void check(struct life *life)
{
	struct mk_cidr range = cidr_of("247.254.0.0/28");
	char found[SERVICES][64];

	for (unsigned int i = 0; i < SERVICES; i++) {
		snprintf(found[i], sizeof(found[i]), "%s", ips_of(life->imports, "shop", names[i]));
		ck_assert_msg(life->exported[i] == (*found[i] != '\0'), "%s has '%s'", names[i],
			      found[i]);
		if (!life->exported[i])
			continue;
		struct mk_ip ip = ip_of(found[i]);

		ck_assert_msg(mk_cidr_contains(&range, &ip), "%s", found[i]);
		for (unsigned int j = 0; j < i; j++)
			ck_assert_msg(strcmp(found[i], found[j]) != 0 || !*found[i],
				      "%s and %s have %s", names[i], names[j], found[i]);
		ck_assert_msg(!life->written[i] || !*life->object[i] ||
				      strcmp(life->object[i], found[i]) == 0,
			      "%s had %s and has %s", names[i], life->object[i], found[i]);
		if (draw(life, 2))
			write_import(life, i, found[i]);
	}
}

static void live(unsigned int seed)
{
	struct life life = { .imports = imports_with("247.254.0.0/28", NULL), .seed = seed };

	for (int i = 0; i < STEPS; i++) {
		step(&life);
		check(&life);
	}
	mk_imports_free(life.imports);
}

START_TEST(test_sequences)
{
	for (unsigned int i = 1; i <= SEQUENCES; i++)
		if (unit_is_due(i))
			live((unsigned int)_i * SEQUENCES + i);
}
END_TEST

UNIT_SUITE("clusterset addresses")
{
	TCase *tcase = unit_case(suite, "addresses", NULL, NULL);

	tcase_add_loop_test(tcase, test_address, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_loop_test(tcase, test_wrong_import, 0, (int)MK_ARRAY_SIZE(wrong));
	tcase_add_test(tcase, test_life);
	tcase_add_test(tcase, test_released_and_exported);
	tcase_add_test(tcase, test_changed_by_hand);
	tcase_add_loop_test(tcase, test_sequences, 0, RUNS);
}

// SPDX-License-Identifier: Apache-2.0
/* The cluster directory: files appear, change, vanish and break; the model follows. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "unit/cluster_dir_fixture.h"
#include "unit/unit.h"

START_TEST(test_first_read)
{
	write_file("a.yaml",
		   SERVICE("a", "10.96.0.1") "---\n" SERVICE(
			   "b", "10.96.0.2") "---\n"
					     "{apiVersion: v1, kind: Pod, metadata: {name: p}}\n");
	write_file("b.yml", "apiVersion: v1\nkind: List\nitems:\n"
			    "- {apiVersion: v1, kind: Service, metadata: {name: c, namespace: x}, "
			    "spec: {clusterIP: 10.96.0.3, ports: [{port: 1}]}}\n"
			    "- {apiVersion: v1, kind: Node, metadata: {name: n}}\n");
	write_file("c.json", "{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": "
			     "{\"name\": \"d\", \"namespace\": \"x\"}, \"spec\": {\"clusterIP\": "
			     "\"10.96.0.4\", \"ports\": [{\"port\": 1}]}}");
	write_file("d.txt", SERVICE("e", "10.96.0.5"));
	write_file(".f.yaml", SERVICE("f", "10.96.0.6"));
	write_file("g.yaml", "%s", "");
	cluster_dir_start();
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	ck_assert_str_eq(vip_of("b"), "10.96.0.2");
	ck_assert_str_eq(vip_of("c"), "10.96.0.3");
	ck_assert_str_eq(vip_of("d"), "10.96.0.4");
	ck_assert_str_eq(vip_of("e"), "none");
	ck_assert_str_eq(vip_of("f"), "none");
	ck_assert_ptr_nonnull(mk_model_node(model, "n"));
	ck_assert_str_eq(listed, "");
	wait_listed("yes ");
	settle();
	ck_assert_msg(strcmp(listed, "yes ") == 0, "told once: \"%s\"", listed);
}
END_TEST

/* The examples for users must be valid. */
START_TEST(test_examples)
{
	const char *slash = strrchr(__FILE__, '/');
	const struct mk_service_object *service;

	snprintf(followed, sizeof(followed), "%.*s/../../manifests/examples",
		 (int)(slash - __FILE__), __FILE__);
	cluster_dir_start();
	wait_listed("yes ");
	service = mk_model_service(model, "shop", "web-local");
	ck_assert_ptr_nonnull(service);
	ck_assert(service->external_local && service->ports[0].node_port == 30081);
	service = mk_model_service(model, "shop", "lookup");
	ck_assert_ptr_nonnull(service);
	ck_assert(service->ports[0].port == 53 && service->ports[0].proto == IPPROTO_UDP);
}
END_TEST

START_TEST(test_empty_directory)
{
	cluster_dir_start();
	wait_listed("yes ");
}
END_TEST

START_TEST(test_write_replace_delete)
{
	cluster_dir_start();
	write_file("a.yaml", SERVICE("a", "10.96.0.1"));
	wait_for("a", "10.96.0.1");
	write_file("a.yaml", SERVICE("a", "10.96.0.2") "---\n" SERVICE("b", "10.96.0.3"));
	wait_for("a", "10.96.0.2");
	ck_assert_str_eq(vip_of("b"), "10.96.0.3");
	replace_file("a.yaml", SERVICE("b", "10.96.0.4"));
	wait_for("b", "10.96.0.4");
	wait_for("a", "none");
	remove_file("a.yaml");
	wait_for("b", "none");
}
END_TEST

START_TEST(test_names_come_and_go)
{
	char path[PATH_CHARS], other[PATH_CHARS];

	cluster_dir_start();
	write_file("a.txt", SERVICE("a", "10.96.0.1"));
	rename_file("a.txt", "a.yaml");
	wait_for("a", "10.96.0.1");
	rename_file("a.yaml", "b.yaml");
	settle();
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	ck_assert_msg(strcmp(gone, "") == 0, "a renamed file loses nothing: %s", gone);
	rename_file("b.yaml", "b.yaml~");
	wait_for("a", "none");
	path_of(path, "b.yaml~");
	path_of(other, "link.yaml");
	ck_assert_int_eq(link(path, other), 0);
	wait_for("a", "10.96.0.1");
	remove_file("link.yaml");
	wait_for("a", "none");
	ck_assert_int_eq(symlink("b.yaml~", other), 0);
	wait_for("a", "10.96.0.1");
}
END_TEST

/* A file that is being written counts when it is closed. */
START_TEST(test_half_written)
{
	char path[PATH_CHARS];
	int fd;

	cluster_dir_start();
	write_file("a.yaml", SERVICE("a", "10.96.0.1") "---\n" SERVICE("b", "10.96.0.2"));
	wait_for("b", "10.96.0.2");
	path_of(path, "a.yaml");
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	settle();
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	ck_assert_int_gt(write(fd, SERVICE("a", "10.96.0.9"), strlen(SERVICE("a", "10.96.0.9"))),
			 0);
	settle();
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	close(fd);
	wait_for("a", "10.96.0.9");
	wait_for("b", "none");
}
END_TEST

START_TEST(test_malformed_file)
{
	cluster_dir_start();
	write_file("a.yaml", SERVICE("a", "10.96.0.1"));
	wait_for("a", "10.96.0.1");
	capture_log();
	write_file("a.yaml", SERVICE("a", "10.96.0.2") "---\napiVersion: v1\n kind: Service\n");
	settle();
	EXPECT_LOGGED("error ", "/cluster/a.yaml'", "line 7, column 6", "stay in force");
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	write_file("a.yaml", SERVICE("b", "10.96.0.3"));
	wait_for("b", "10.96.0.3");
	ck_assert_str_eq(vip_of("a"), "none");
}
END_TEST

START_TEST(test_object_without_sense)
{
	cluster_dir_start();
	write_file("a.yaml", SERVICE("a", "10.96.0.1") "---\n" SERVICE(
				     "b", "10.96.0.2") "---\n" SERVICE("c", "10.96.0.3"));
	wait_for("c", "10.96.0.3");
	capture_log();
	write_file("a.yaml", SERVICE("a", "10.96.0.9") "---\n" SERVICE("b", "10.96.0"));
	wait_for("a", "10.96.0.9");
	settle();
	EXPECT_LOGGED("error ", "/cluster/a.yaml'", "object at line 6",
		      "Service x/b: spec.clusterIP", "\"10.96.0\"");
	ck_assert_msg(strcmp(vip_of("b"), "10.96.0.2") == 0, "its last good version stays");
	ck_assert_msg(strcmp(vip_of("c"), "none") == 0, "the rest of the file applies");
	write_file("a.yaml", SERVICE("a", "10.96.0.9"));
	wait_for("b", "none");
}
END_TEST

#define POLICY(selector)                                          \
	"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n" \
	"metadata: {name: p, namespace: x}\nspec: {podSelector: " selector "}\n---\n"

/* A directory always has the objects of network policies. */
START_TEST(test_policies)
{
	static const char rest[] =
		"apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\n"
		"metadata: {name: c}\nspec: {tier: Admin, priority: 1, subject: {namespaces: {}}}\n---\n"
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\n"
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: x, labels: {b: c}}\n---\n";

	write_file("a.yaml", POLICY("{}") "%s", rest);
	cluster_dir_start();
	ck_assert(!mk_cluster_dir_complete(cluster));
	wait_listed("yes ");
	ck_assert(mk_cluster_dir_complete(cluster));
	for (int kind = MK_KIND_POD; kind <= MK_KIND_CLUSTER_POLICY; kind++)
		ck_assert_uint_eq(mk_model_count(model, (enum mk_kind)kind), 1);
	write_file("a.yaml", POLICY("{matchExpressions: [{key: a, operator: Like}]}")
				     SERVICE("s", "10.96.0.1"));
	wait_for("s", "10.96.0.1");
	ck_assert_ptr_nonnull(mk_model_network_policy(model, "x", "p"));
	ck_assert_ptr_null(mk_model_pod(model, "x", "a"));
	ck_assert_ptr_null(mk_model_cluster_policy(model, "c"));
}
END_TEST

/* The object cannot be identified: no object of the file may be considered removed. */
START_TEST(test_object_without_name)
{
	cluster_dir_start();
	write_file("a.yaml", SERVICE("a", "10.96.0.1") "---\n" SERVICE("b", "10.96.0.2"));
	wait_for("b", "10.96.0.2");
	write_file(
		"a.yaml",
		SERVICE("a",
			"10.96.0.9") "---\napiVersion: v1\nkind: Service\nmetadata: {nmae: b}\n");
	wait_for("a", "10.96.0.9");
	ck_assert_str_eq(vip_of("b"), "10.96.0.2");
	write_file("a.yaml", SERVICE("a", "10.96.0.9"));
	wait_for("b", "none");
}
END_TEST

/* The file that sorts first wins, whichever came first, and hands the object over without a gap. */
START_TEST(test_object_in_two_files)
{
	cluster_dir_start();
	write_file("b.yaml", SERVICE("a", "10.96.0.2"));
	wait_for("a", "10.96.0.2");
	capture_log();
	write_file("c.yaml", SERVICE("a", "10.96.0.3"));
	settle();
	EXPECT_LOGGED("warn x/a is in two files", "'b.yaml' counts", "'c.yaml' does not");
	ck_assert_str_eq(vip_of("a"), "10.96.0.2");
	capture_log();
	write_file("a.yaml", SERVICE("a", "10.96.0.1"));
	wait_for("a", "10.96.0.1");
	EXPECT_LOGGED("'a.yaml' counts", "'b.yaml' does not");
	write_file("b.yaml", SERVICE("a", "10.96.0.4"));
	settle();
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	remove_file("a.yaml");
	wait_for("a", "10.96.0.4");
	write_file("b.yaml", SERVICE("b", "10.96.0.5"));
	wait_for("a", "10.96.0.3");
	ck_assert_msg(strcmp(gone, "") == 0, "it was gone in between: %s", gone);
	remove_file("c.yaml");
	wait_for("a", "none");
}
END_TEST

/* An invalid first claim does not displace the second. */
START_TEST(test_first_of_two_without_sense)
{
	cluster_dir_start();
	write_file("b.yaml", SERVICE("a", "10.96.0.2"));
	wait_for("a", "10.96.0.2");
	write_file("a.yaml", SERVICE("a", "x") "---\n" SERVICE("b", "10.96.0.1"));
	wait_for("b", "10.96.0.1");
	ck_assert_str_eq(vip_of("a"), "10.96.0.2");
	write_file("b.yaml", SERVICE("a", "10.96.0.3"));
	wait_for("a", "10.96.0.3");
}
END_TEST

START_TEST(test_twice_in_one_file)
{
	capture_log();
	write_file("a.yaml", SERVICE("a", "10.96.0.1") "---\n" SERVICE("a", "10.96.0.2"));
	cluster_dir_start();
	wait_listed("yes ");
	EXPECT_LOGGED("object at line 6: x/a is in this file more than once");
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
}
END_TEST

START_TEST(test_object_moves_to_another_file)
{
	write_file("a.yaml", SERVICE("a", "10.96.0.1"));
	cluster_dir_start();
	replace_file("a.yaml", SERVICE("b", "10.96.0.2")); /* both before the loop runs */
	replace_file("b.yaml", SERVICE("a", "10.96.0.1"));
	wait_for("b", "10.96.0.2");
	settle();
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	ck_assert_msg(strcmp(gone, "") == 0, "it was gone in between: %s", gone);
}
END_TEST

/* ---- the directory itself -------------------------------------------------------------------- */

START_TEST(test_no_directory)
{
	struct mk_error err = { 0 };
	char path[PATH_CHARS];

	snprintf(path, sizeof(path), "%s/nowhere", base);
	ck_assert_ptr_null(mk_cluster_dir_start(&loop, path, model, on_listed, NULL, &err));
	ck_assert_msg(strstr(err.text, path) && strstr(err.text, "mkdir"), "%s", err.text);
}
END_TEST

START_TEST(test_directory_replaced)
{
	char other[PATH_CHARS];
	uint64_t began_ms;

	snprintf(other, sizeof(other), "%s/old", base);
	write_file("a.yaml", SERVICE("a", "10.96.0.1"));
	write_file("b.yaml", SERVICE("b", "10.96.0.2"));
	cluster_dir_start();
	wait_listed("yes ");
	capture_log();
	ck_assert_int_eq(rename(followed, other), 0);
	began_ms = uv_now(&loop);
	for (int i = 0; i < 5; i++) /* let it find nothing and retry */
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_uint_ge(uv_now(&loop) - began_ms, 300); /* 50, 100, 200 ms: growing pauses */
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	ck_assert_int_eq(mkdir(followed, 0755), 0);
	write_file("a.yaml", SERVICE("a", "10.96.0.9"));
	wait_for("a", "10.96.0.9");
	EXPECT_LOGGED("is gone; its objects stay in force", "is back");
	wait_for("b", "none");
	write_file("c.yaml", SERVICE("c", "10.96.0.3"));
	wait_for("c", "10.96.0.3");
	ck_assert_msg(strstr(gone, "a ") == NULL, "it was gone in between: %s", gone);
}
END_TEST

/* The directory is a link that is switched to another one, as deployment tools do. */
START_TEST(test_link_switched)
{
	char one[PATH_CHARS], two[PATH_CHARS], link_path[PATH_CHARS];

	snprintf(one, sizeof(one), "%s/one", base);
	snprintf(two, sizeof(two), "%s/two", base);
	snprintf(link_path, sizeof(link_path), "%s/next", base);
	ck_assert_int_eq(rmdir(followed), 0);
	ck_assert_int_eq(mkdir(one, 0755), 0);
	ck_assert_int_eq(mkdir(two, 0755), 0);
	ck_assert_int_eq(symlink("two", followed), 0);
	write_file("a.yaml", SERVICE("a", "10.96.0.2"));
	ck_assert_int_eq(unlink(followed), 0);
	ck_assert_int_eq(symlink("one", followed), 0);
	write_file("a.yaml", SERVICE("a", "10.96.0.1"));
	cluster_dir_start();
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	ck_assert_int_eq(symlink("two", link_path), 0);
	ck_assert_int_eq(rename(link_path, followed), 0);
	wait_for("a", "10.96.0.2");
	write_file("a.yaml", SERVICE("a", "10.96.0.3"));
	wait_for("a", "10.96.0.3");
}
END_TEST

/* A ConfigMap volume: files are links through ..data, which is switched. */
START_TEST(test_volume_switched)
{
	char one[PATH_CHARS], two[PATH_CHARS], data[PATH_CHARS], next[PATH_CHARS], file[PATH_CHARS];

	path_of(one, "..1");
	path_of(two, "..2");
	path_of(data, "..data");
	path_of(next, "..data_tmp");
	path_of(file, "a.yaml");
	ck_assert_int_eq(mkdir(one, 0755), 0);
	ck_assert_int_eq(mkdir(two, 0755), 0);
	write_file("..1/a.yaml", SERVICE("a", "10.96.0.1"));
	write_file("..2/a.yaml", SERVICE("a", "10.96.0.2"));
	ck_assert_int_eq(symlink("..1", data), 0);
	ck_assert_int_eq(symlink("..data/a.yaml", file), 0);
	cluster_dir_start();
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	ck_assert_int_eq(symlink("..2", next), 0);
	ck_assert_int_eq(rename(next, data), 0);
	wait_for("a", "10.96.0.2");
}
END_TEST

/* ---- complete or not ------------------------------------------------------------------------- */

static const struct {
	const char *name, *text;
} broken[] = {
	{ "malformed", "a: [\n" },
	{ "no sense", SERVICE("b", "x") },
	{ "no name", "{apiVersion: v1, kind: Node}\n" },
};

START_TEST(test_broken_from_the_start)
{
	write_file("a.yaml", SERVICE("a", "10.96.0.1"));
	write_file("b.yaml", "%s", broken[_i].text);
	cluster_dir_start();
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
	wait_listed("no ");
	settle();
	ck_assert_msg(strcmp(listed, "no ") == 0, "%s: \"%s\"", broken[_i].name, listed);
	if (_i == 0)
		remove_file("b.yaml");
	else
		write_file("b.yaml", SERVICE("b", "10.96.0.2"));
	wait_listed("no yes ");
	write_file("b.yaml", "%s", broken[_i].text);
	settle();
	ck_assert_str_eq(listed, "no yes ");
}
END_TEST

START_TEST(test_not_a_file)
{
	char path[PATH_CHARS];

	path_of(path, "pipe.yaml");
	ck_assert_int_eq(mkfifo(path, 0644), 0);
	capture_log();
	write_file("a.yaml", SERVICE("a", "10.96.0.1"));
	cluster_dir_start(); /* opening the pipe would wait for a writer */
	EXPECT_LOGGED("pipe.yaml'", "not a regular file");
	ck_assert_str_eq(vip_of("a"), "10.96.0.1");
}
END_TEST

START_TEST(test_stop_with_events_waiting)
{
	cluster_dir_start();
	write_file("a.yaml", SERVICE("a", "10.96.0.1"));
	mk_cluster_dir_stop(cluster);
	cluster = NULL;
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_str_eq(vip_of("a"), "none");
	ck_assert_str_eq(listed, "");
}
END_TEST

UNIT_SUITE("cluster_dir")
{
	TCase *tc = unit_case(suite, "follow", cluster_dir_setup, cluster_dir_teardown);

	tcase_add_test(tc, test_first_read);
	tcase_add_test(tc, test_examples);
	tcase_add_test(tc, test_empty_directory);
	tcase_add_test(tc, test_write_replace_delete);
	tcase_add_test(tc, test_names_come_and_go);
	tcase_add_test(tc, test_half_written);
	tcase_add_test(tc, test_malformed_file);
	tcase_add_test(tc, test_object_without_sense);
	tcase_add_test(tc, test_policies);
	tcase_add_test(tc, test_object_without_name);
	tcase_add_test(tc, test_object_in_two_files);
	tcase_add_test(tc, test_first_of_two_without_sense);
	tcase_add_test(tc, test_twice_in_one_file);
	tcase_add_test(tc, test_object_moves_to_another_file);
	tcase_add_test(tc, test_no_directory);
	tcase_add_test(tc, test_directory_replaced);
	tcase_add_test(tc, test_link_switched);
	tcase_add_test(tc, test_volume_switched);
	tcase_add_loop_test(tc, test_broken_from_the_start, 0, MK_ARRAY_SIZE(broken));
	tcase_add_test(tc, test_not_a_file);
	tcase_add_test(tc, test_stop_with_events_waiting);
}

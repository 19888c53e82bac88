// SPDX-License-Identifier: Apache-2.0
/* manifests/POLICIES.md: its policies are read from files, compiled and written to the tables, and
 * its commands print what the page shows. A line `..` of the page stands for any lines, and text in
 * brackets at the end of a line is left out. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cluster/files/cluster_dir.h"
#include "cluster/model/model.h"
#include "datapath/pods/pod_table.h"
#include "datapath/policy/names.h"
#include "policy/policy.h"
#include "unit/cli_fixture.h"
#include "unit/datapath_fixture.h"

#define PAGE_BYTES (64 * 1024)

static struct mk_datapath *datapath;
static char cluster_dir[128];

/* ---- the cluster ----------------------------------------------------------------------------- */

static const struct {
	const char *namespace_, *name, *address, *node, *labels, *port;
} pods[] = {
	{ "shop", "web", "10.244.1.2", "node1", "app: web",
	  "{name: metrics, containerPort: 9090}" },
	{ "shop", "client", "10.244.1.3", "node1", "app: client", "" },
	{ "monitoring", "prometheus", "10.244.1.4", "node1", "app: prometheus", "" },
	{ "guests", "visitor", "10.244.1.5", "node1", "app: visitor", "" },
	{ "kube-system", "dns", "10.244.2.53", "node2", "k8s-app: kube-dns", "" },
};
#define LOCAL_PODS 4

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fx_ok(mk_file_replace(path, text, strlen(text), 0600, &fx.err));
}

static void write_objects(void)
{
	char text[8192] = "kind: Namespace\napiVersion: v1\nmetadata: {name: shop}\n---\n"
			  "kind: Namespace\napiVersion: v1\nmetadata: {name: monitoring}\n---\n"
			  "kind: Namespace\napiVersion: v1\nmetadata: {name: kube-system}\n---\n"
			  "kind: Namespace\napiVersion: v1\n"
			  "metadata: {name: guests, labels: {team: guests}}\n";

	for (size_t i = 0; i < MK_ARRAY_SIZE(pods); i++) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used,
			 "---\nkind: Pod\napiVersion: v1\n"
			 "metadata: {name: %s, namespace: %s, uid: uid-%s, labels: {%s}}\n"
			 "spec: {nodeName: %s, containers: [{name: main, ports: [%s]}]}\n"
			 "status: {phase: Running, podIP: %s, podIPs: [{ip: %s}]}\n",
			 pods[i].name, pods[i].namespace_, pods[i].name, pods[i].labels,
			 pods[i].node, pods[i].port, pods[i].address, pods[i].address);
	}
	write_file(cluster_dir, "objects.yaml", text);
}

/* The host's end of a pod, with the name that CNI ADD gives it. */
static int put_pod(size_t i)
{
	char name[16], peer[16], alias[64];
	int ifindex;

	snprintf(name, sizeof(name), "mkpod-%zu", i);
	snprintf(peer, sizeof(peer), "eth-%zu", i);
	snprintf(alias, sizeof(alias), "%s/%s", pods[i].namespace_, pods[i].name);
	ifindex = fx_veth(name, peer, (const struct mk_mac *)fx.constants.gateway_mac);
	cli_put_pod(pods[i].address, ifindex, alias);
	cli_attach_pod(ifindex);
	return ifindex;
}

static struct mk_policy_sandbox boxes[LOCAL_PODS];
static char uids[LOCAL_PODS][32];

static void put_pods(void)
{
	for (size_t i = 0; i < LOCAL_PODS; i++) {
		snprintf(uids[i], sizeof(uids[i]), "uid-%s", pods[i].name);
		boxes[i] =
			(struct mk_policy_sandbox){ .uid = uids[i],
						    .namespace_ =
							    (char *)(uintptr_t)pods[i].namespace_,
						    .name = (char *)(uintptr_t)pods[i].name,
						    .ips = { ip_of(pods[i].address) },
						    .ifindex = put_pod(i) };
	}
}

static void setup(void)
{
	fx_setup();
	datapath = cli_node();
	put_pods();
	snprintf(cluster_dir, sizeof(cluster_dir), "%s/cluster", fx.dir);
	ck_assert_int_eq(mkdir(cluster_dir, 0700), 0);
	write_objects();
}

static void teardown(void)
{
	mk_datapath_free(datapath);
	fx_teardown();
}

/* ---- from files to tables -------------------------------------------------------------------- */

static void compile(const struct mk_model *model)
{
	const struct mk_policy_view view = { .node_name = "node1" };
	struct mk_policy_sync *sync = mk_datapath_policies(datapath);
	struct mk_policies *policies = mk_policies_new(model, &view, &fx.err);
	const struct mk_policy_changes *changes;
	struct mk_policy_counts counts = { 0 };
	json_object *description;

	ck_assert_ptr_nonnull(policies);
	fx_ok(mk_policies_set_sandboxes(policies, boxes, LOCAL_PODS, &fx.err));
	fx_ok(mk_policies_compile(policies, &changes, &fx.err));
	fx_ok(mk_policies_all(policies, &changes, &fx.err));
	fx_ok(mk_policy_sync_set_sandboxes(sync, boxes, LOCAL_PODS, &fx.err));
	fx_ok(mk_policy_sync_apply(sync, changes, mk_time_monotonic_ns(), &counts, &fx.err));
	description = mk_policies_describe(policies);
	fx_ok(mk_policy_names_write(fx.state_dir, description, &fx.err));
	json_object_put(description);
	mk_policies_free(policies);
}

static void on_listed(void *ctx, bool complete)
{
	(void)ctx;
	(void)complete;
}

static void read_and_compile(void)
{
	struct mk_model *model = mk_model_new();
	struct mk_cluster_dir *dir;
	uv_loop_t loop;

	ck_assert_int_eq(uv_loop_init(&loop), 0);
	dir = mk_cluster_dir_start(&loop, cluster_dir, model, on_listed, NULL, &fx.err);
	ck_assert_msg(dir != NULL, "%s", mk_error_text(&fx.err));
	compile(model);
	mk_cluster_dir_stop(dir);
	uv_run(&loop, UV_RUN_DEFAULT);
	uv_loop_close(&loop);
	mk_model_free(model);
}

/* ---- the page -------------------------------------------------------------------------------- */

static char *read_page(void)
{
	const char *slash = strrchr(__FILE__, '/');
	char path[PATH_MAX], *text = NULL;

	snprintf(path, sizeof(path), "%.*s/../../manifests/POLICIES.md", (int)(slash - __FILE__),
		 __FILE__);
	fx_ok(mk_file_read(path, PAGE_BYTES, &text, NULL, &fx.err));
	return text;
}

/* Cut the line at *@at off, and step to the next one. NULL: there is none. */
static char *next_line(char **at)
{
	char *line = *at, *end;

	if (!line || !*line)
		return NULL;
	end = strchrnul(line, '\n');
	*at = *end ? end + 1 : end;
	*end = '\0';
	return line;
}

/* Leave out what differs from run to run: table entries, and blanks that make columns. */
static void simplify(char *line)
{
	char *bracket = strstr(line, "  ["), *to = line;

	if (bracket)
		*bracket = '\0';
	for (const char *from = line; *from; from++)
		if (*from != ' ' || from[1] != ' ')
			*to++ = *from;
	*to = '\0';
	while (to > line && to[-1] == ' ')
		*--to = '\0';
}

/* Does @text, from *@at on, have @line as its next one? After `..`, as any later one. */
static bool has_line(char **at, const char *line, bool any)
{
	for (char *found; (found = next_line(at));) {
		simplify(found);
		if (strcmp(found, line) == 0)
			return true;
		if (!any)
			return false;
	}
	return false;
}

static char *run(char *line)
{
	const char *words[12] = { NULL };
	char *rest = NULL;
	size_t count = 0;
	int status;

	for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		words[count++] = word;
	/* "# monokube trace .." */
	return cli_output_any(&status, words + 2);
}

/* Check a block: commands with what they print. Its last lines may be left out after `..`. */
static unsigned check_block(char *block)
{
	cleanup_free char *output = NULL;
	bool any = false;
	unsigned commands = 0;
	char *at = NULL;

	for (char *line; (line = next_line(&block)); any = strcmp(line, "..") == 0) {
		cleanup_free char *copy = strdup(line);

		simplify(line);
		if (strncmp(copy, "# monokube ", 11) == 0) {
			free(output);
			at = output = run(copy);
			commands++;
		} else if (strcmp(line, "..") != 0) {
			ck_assert_msg(has_line(&at, line, any), "the page has: %s; left: %.2000s",
				      line, at ? cli_one_line(at) : "");
		}
	}
	return commands;
}

START_TEST(test_page)
{
	cleanup_free char *page = read_page();
	unsigned policies = 0, commands = 0;
	char name[32];

	for (char *at = page; (at = strstr(at, "\n```"));) {
		bool is_policy = strncmp(at, "\n```yaml\n", 9) == 0;
		char *block = strchr(at + 1, '\n') + 1, *end = strstr(block, "```");

		ck_assert_ptr_nonnull(end);
		*end = '\0';
		at = end + 3;
		if (strncmp(block, "# monokube drops", 16) == 0)
			continue; /* test/lab shows single drops */
		if (!is_policy) {
			commands += check_block(block);
			continue;
		}
		snprintf(name, sizeof(name), "policy-%u.yaml", ++policies);
		write_file(cluster_dir, name, block);
		read_and_compile();
	}
	ck_assert_uint_eq(policies, 6);
	ck_assert_uint_ge(commands, 10);
}
END_TEST

UNIT_SUITE("cli_policy_page")
{
	tcase_add_test(unit_case(suite, "page", setup, teardown), test_page);
}

// SPDX-License-Identifier: Apache-2.0
/* What `monokube check` says when it compares the cluster's policies with its pods, about policies
 * that are audited or off, about what a cluster without clusterName has left, and about its DNS. */
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/check/check.h"
#include "datapath/policy/names.h"
#include "unit/unit.h"

static char base[32], cluster[64];
static struct mk_cli_options options;
static struct mk_checking checking;

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

#define NAMESPACE(name, team)                                          \
	"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " name \
	", labels: {kubernetes.io/metadata.name: " name ", team: " team "}}\n"
#define POD(namespace, name, more)                                                                          \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: " namespace ", name: " name                  \
									   ", labels: {app: " name          \
									   "}}\nspec: {nodeName: n1, " more \
									   "}\n"                            \
									   "status: {podIP: 10.244.1.2}\n"

static const char pods[] = NAMESPACE("shop", "a") NAMESPACE("idle", "b") POD(
	"shop", "web",
	"containers: [{name: c, ports: [{name: http, containerPort: 8080}, {containerPort: 9000}]}]")
	POD("shop", "dns",
	    "initContainers: [{name: i, ports: [{containerPort: 53, protocol: UDP}]}], containers: []")
		POD("shop", "plain", "containers: [{name: c}]")
			POD("shop", "host", "hostNetwork: true, containers: []");

static void setup(void)
{
	char text[128];

	snprintf(base, sizeof(base), "/tmp/mkcheck.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(base));
	snprintf(cluster, sizeof(cluster), "%s/cluster", base);
	ck_assert_int_eq(mkdir(cluster, 0700), 0);
	snprintf(text, sizeof(text), "NODE_NAME=n1\ncluster-dir=%s\nKUBECONFIG=\n", cluster);
	write_file(base, MK_SETTINGS_NAME, text);
	snprintf(options.state_dir, sizeof(options.state_dir), "%s", base);
	checking = (struct mk_checking){ .options = &options,
					 .reads_cluster = true,
					 .findings = json_object_new_array() };
	snprintf(checking.record.network_policy, sizeof(checking.record.network_policy), "enforce");
	write_file(cluster, "pods.yaml", pods);
}

static void teardown(void)
{
	char command[128];

	json_object_put(checking.findings);
	snprintf(command, sizeof(command), "rm -rf %s", base);
	ck_assert_int_eq(system(command), 0);
}

static const char *text_of(json_object *finding, const char *key)
{
	return json_object_get_string(json_object_object_get(finding, key)) ?: "";
}

static const char *said(void)
{
	static char text[4096];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < json_object_array_length(checking.findings); i++) {
		json_object *finding = json_object_array_get_idx(checking.findings, i);

		ck_assert(json_object_get_boolean(json_object_object_get(finding, "ok")));
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s\n",
					 *text_of(finding, "remedy") ? "note " : "ok ",
					 text_of(finding, "says"));
	}
	return text;
}

/* ---- compared with the pods ------------------------------------------------------------------ */

#define NETWORK(spec)                                                                        \
	"---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: " \
	"shop, name: p}\nspec: " spec "\n"
#define CLUSTER(subject, ports)                                                            \
	"---\napiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\n" \
	"metadata: {name: c}\nspec: {tier: Admin, priority: 1, subject: " subject          \
	", ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [" ports "]}]}\n"
#define WEB(ports) \
	NETWORK("{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [" ports "]}]}")
#define FORMER(kind, name)                                                \
	"---\napiVersion: policy.networking.k8s.io/v1alpha1\nkind: " kind \
	"\nmetadata: {name: " name "}\nspec: {}\n"

static const struct row {
	const char *objects, *says;
} rows[] = {
	{ "", "" },
	{ NETWORK("{podSelector: {}}"),
	  "ok 1 in the cluster; each selects pods, which declare its ports\n" },
	{ NETWORK("{podSelector: {matchLabels: {app: nobody}}}"), "note shop/p: selects no pod\n" },
	{ NETWORK("{podSelector: {matchLabels: {app: host}}}"), "note shop/p: selects no pod\n" },
	{ WEB("{port: http}, {port: 8080}, {port: 9000}, {port: 8000, endPort: 8100}, {}"),
	  "ok 1 in the cluster; each selects pods, which declare its ports\n" },
	{ WEB("{port: metrics}"),
	  "note shop/p: ingress rule 1: no selected pod calls a port TCP 'metrics'\n" },
	{ WEB("{port: http, protocol: UDP}"),
	  "note shop/p: ingress rule 1: no selected pod calls a port UDP 'http'\n" },
	{ WEB("{port: 8081}, {port: 8080, protocol: UDP}"),
	  "note shop/p: ingress rule 1: no selected pod declares port TCP 8081\n"
	  "note shop/p: ingress rule 1: no selected pod declares port UDP 8080\n" },
	{ WEB("{port: 1, endPort: 1000}"),
	  "note shop/p: ingress rule 1: no selected pod declares port TCP 1-1000\n" },
	{ NETWORK("{podSelector: {matchLabels: {app: dns}}, ingress: [{}, {ports: [{port: 53, protocol: UDP}, {port: 53}]}]}"),
	  "note shop/p: ingress rule 2: no selected pod declares port TCP 53\n" },
	{ NETWORK("{podSelector: {matchLabels: {app: plain}}, ingress: [{ports: [{port: 80}]}]}"),
	  "ok 1 in the cluster; each selects pods, which declare its ports\n" },
	{ NETWORK("{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: none}, {port: 1}]}]}"),
	  "ok 1 in the cluster; each selects pods, which declare its ports\n" },
	{ CLUSTER("{namespaces: {matchLabels: {team: b}}}",
		  "{tcp: {destinationPort: {number: 80}}}"),
	  "note ClusterNetworkPolicy c: selects no pod\n" },
	{ CLUSTER("{namespaces: {matchLabels: {team: a}}}",
		  "{tcp: {destinationPort: {number: 80}}}, {destinationNamedPort: http}"),
	  "note ClusterNetworkPolicy c: ingress rule 1: no selected pod declares port TCP 80\n" },
	{ CLUSTER("{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: dns}}}}",
		  "{destinationNamedPort: http}"),
	  "note ClusterNetworkPolicy c: ingress rule 1: no selected pod calls a port 'http'\n" },
	{ FORMER("AdminNetworkPolicy", "a") FORMER("BaselineAdminNetworkPolicy", "default"),
	  "note AdminNetworkPolicy a, BaselineAdminNetworkPolicy default: not enforced, because "
	  "monokube does not read policy.networking.k8s.io/v1alpha1\n" },
};

START_TEST(test_row)
{
	write_file(cluster, "policies.yaml", rows[_i].objects);
	check_policy_objects(&checking);
	ck_assert_str_eq(said(), rows[_i].says);
}
END_TEST

static const char one[] = NETWORK("{podSelector: {matchLabels: {app: nobody}}}");

/* `status` does not read the cluster; without policies there is nothing to compare. */
START_TEST(test_not_read)
{
	write_file(cluster, "policies.yaml", one);
	checking.reads_cluster = false;
	check_policy_objects(&checking);
	checking.reads_cluster = true;
	snprintf(checking.record.network_policy, sizeof(checking.record.network_policy), "off");
	check_policy_objects(&checking);
	ck_assert_str_eq(said(), "");
}
END_TEST

START_TEST(test_unreadable)
{
	write_file(base, MK_SETTINGS_NAME, "cluster-dir=/nonexistent\n");
	check_policy_objects(&checking);
	ck_assert_ptr_nonnull(strstr(said(), "ok not compared with the cluster's pods: cannot read "
					     "the cluster directory '/nonexistent'"));
}
END_TEST

START_TEST(test_many)
{
	char text[64 * 1024] = "";

	for (int i = 0; i < 60; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: "
			 "{namespace: idle, name: p%d}\nspec: {podSelector: {}}\n",
			 i);
	write_file(cluster, "policies.yaml", text);
	check_policy_objects(&checking);
	ck_assert_uint_eq(json_object_array_length(checking.findings), 51);
	ck_assert_ptr_nonnull(strstr(said(), "note 10 further notes\n"));
}
END_TEST

/* ---- audited, off ---------------------------------------------------------------------------- */

static void write_names(const char *text)
{
	json_object *names = json_tokener_parse(text);

	ck_assert_int_eq(mk_policy_names_write(base, names, NULL), 0);
	json_object_put(names);
}

static const struct mode {
	const char *setting, *audited, *says;
} modes[] = {
	{ "enforce", "[]", "" },
	{ "", "[]", "" },
	{ "enforce", "[\"a/b\",\"ClusterNetworkPolicy c\"]",
	  "note audited, so what they forbid passes and is reported: a/b, ClusterNetworkPolicy c\n" },
	{ "enforce", "[\"a/1\",\"a/2\",\"a/3\",\"a/4\",\"a/5\",\"a/6\",\"a/7\"]",
	  "note audited, so what they forbid passes and is reported: a/1, a/2, a/3, a/4, a/5 and 2 "
	  "others\n" },
	{ "audit", "[\"a/b\"]",
	  "note networkPolicy is audit: what policies forbid passes and is reported\n" },
	{ "off", "[\"a/b\"]",
	  "note networkPolicy is off: no policy applies to this node's pods\n" },
};

START_TEST(test_mode)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "{\"version\":1,\"sets\":{},\"policies\":3,\"audited\":%s,\"notes\":[]}",
		 modes[_i].audited);
	write_names(text);
	snprintf(checking.record.network_policy, sizeof(checking.record.network_policy), "%s",
		 modes[_i].setting);
	check_policy_mode(&checking);
	ck_assert_str_eq(said(), modes[_i].says);
}
END_TEST

/* What an agent wrote before policies were switched off says nothing. */
START_TEST(test_notes)
{
	write_names("{\"version\":1,\"sets\":{},\"notes\":[{\"policy\":\"a/b\",\"says\":\"x\","
		    "\"remedy\":\"y\"}]}");
	snprintf(checking.record.network_policy, sizeof(checking.record.network_policy), "off");
	check_policy_notes(&checking);
	ck_assert_str_eq(said(), "");
	snprintf(checking.record.network_policy, sizeof(checking.record.network_policy), "enforce");
	check_policy_notes(&checking);
	ck_assert_str_eq(said(), "note a/b: x\n");
}
END_TEST

/* ---- without clusterName --------------------------------------------------------------------- */

#define OURS "{app.kubernetes.io/managed-by: monokube.io}"
#define PUBLISHED(name, labels)                                                                \
	"---\napiVersion: networking.monokube.io/v1alpha1\nkind: PublishedCluster\nmetadata: " \
	"{namespace: monokube-published, name: " name ", labels: " labels "}\n"
#define IMPORT(name, labels)                                                              \
	"---\napiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: " \
	"{namespace: shop, name: " name ", labels: " labels "}\n"
#define LEFT(name, count)                                                                     \
	"note clusterName is not set, but cluster '" name "' is still published, with " count \
	" ServiceImports\n"

static const struct left {
	const char *objects, *name, *says;
} lefts[] = {
	{ PUBLISHED("west", OURS), "", LEFT("west", "0") },
	{ PUBLISHED("west", OURS) IMPORT("web", OURS) IMPORT("db", OURS), "", LEFT("west", "2") },
	{ IMPORT("web", OURS), "", LEFT("", "1") },
	{ PUBLISHED("west", OURS) IMPORT("web", OURS), "west", "" },
	{ PUBLISHED("west", "{}") IMPORT("web", "{app.kubernetes.io/managed-by: other}"), "", "" },
	{ PUBLISHED("east", "{app.kubernetes.io/managed-by: monokube.io, "
			    "networking.monokube.io/relayed-by: hub}"),
	  "", "" },
	{ "", "", "" },
};

START_TEST(test_left)
{
	write_file(cluster, "objects.yaml", lefts[_i].objects);
	snprintf(checking.record.cluster_name, sizeof(checking.record.cluster_name), "%s",
		 lefts[_i].name);
	check_left(&checking);
	ck_assert_str_eq(said(), lefts[_i].says);
}
END_TEST

/* `status` does not read the cluster. Other checks name a cluster that cannot be read. */
START_TEST(test_left_not_read)
{
	write_file(cluster, "objects.yaml", PUBLISHED("west", OURS));
	checking.reads_cluster = false;
	check_left(&checking);
	checking.reads_cluster = true;
	write_file(base, MK_SETTINGS_NAME, "cluster-dir=/nonexistent\n");
	check_left(&checking);
	ck_assert_str_eq(said(), "");
}
END_TEST

/* ---- the cluster's DNS ----------------------------------------------------------------------- */

#define IMPORTED                                                                            \
	"---\napiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: "   \
	"{namespace: shop, name: web, labels: " OURS "}\nspec: {type: ClusterSetIP, ips: [" \
	"247.254.0.7]}\n"
#define DNS(labels)                                                                          \
	"---\napiVersion: v1\nkind: Service\nmetadata: {namespace: kube-system, name: dns, " \
	"labels: {" labels "}}\nspec: {clusterIP: 127.0.0.1}\n"
#define KUBE_DNS DNS("k8s-app: kube-dns")
#define NAME	 "web.shop.svc.clusterset.local"

/* Answers of a DNS, behind its header and the question: none, another address, the right one. */
#define RECORD(last) "\xc0\x0c\0\1\0\1\0\0\0\5\0\4\xf7\xfe\0" last

/* The bytes of the address in a record of type TXT. */
#define OTHER_TYPE "\xc0\x0c\0\20\0\1\0\0\0\5\0\4\xf7\xfe\0\7"
#define CUT_OFF	   "\xc0\x0c\0\1\0\1\0\0\0\5\xff\xff\xf7\xfe\0\7"

static const struct name_row {
	const char *objects, *cluster, *record, *says;
	bool is_silent;
} name_rows[] = {
	{ IMPORTED KUBE_DNS, "west", RECORD("\7"),
	  "ok 127.0.0.1 answers " NAME " with 247.254.0.7\n", false },
	{ IMPORTED KUBE_DNS, "west", NULL,
	  "note 127.0.0.1 does not answer " NAME " with 247.254.0.7; the address works\n", false },
	{ IMPORTED KUBE_DNS, "west", RECORD("\x8"),
	  "note 127.0.0.1 does not answer " NAME " with 247.254.0.7; the address works\n", false },
	{ IMPORTED KUBE_DNS, "west", OTHER_TYPE,
	  "note 127.0.0.1 does not answer " NAME " with 247.254.0.7; the address works\n", false },
	{ IMPORTED KUBE_DNS, "west", CUT_OFF,
	  "note 127.0.0.1 does not answer " NAME " with 247.254.0.7; the address works\n", false },
	{ IMPORTED KUBE_DNS, "west", NULL,
	  "note 127.0.0.1 sends no answer for " NAME ", which should be 247.254.0.7\n", true },
	{ KUBE_DNS, "west", NULL, "", true },
	{ IMPORT("web", OURS) KUBE_DNS, "west", NULL, "", true },
	{ IMPORTED DNS("k8s-app: other"), "west", NULL, "", true },
	{ IMPORTED KUBE_DNS, "", NULL, "", true },
};

static int listen_as_dns(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(53),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int file = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(file, (struct sockaddr *)&at, sizeof(at)), 0);
	return file;
}

static void answer_once(int file, const struct name_row *row)
{
	unsigned char packet[512];
	struct sockaddr_in from;
	socklen_t size = sizeof(from);
	ssize_t length =
		recvfrom(file, packet, sizeof(packet) - 16, 0, (struct sockaddr *)&from, &size);

	if (length < 12)
		_exit(1);
	packet[2] |= 0x80; /* an answer */
	packet[7] = row->record ? 1 : 0;
	if (row->record) {
		memcpy(packet + length, row->record, 16);
		length += 16;
	}
	_exit(sendto(file, packet, (size_t)length, 0, (struct sockaddr *)&from, size) != length);
}

START_TEST(test_dns)
{
	const struct name_row *row = &name_rows[_i];
	pid_t child;
	int file;

	ck_assert_int_eq(unshare(CLONE_NEWNET), 0);
	ck_assert_int_eq(system("ip link set lo up"), 0);
	file = listen_as_dns();
	child = row->is_silent ? 0 : fork();
	if (!row->is_silent && child == 0)
		answer_once(file, row);
	write_file(cluster, "objects.yaml", row->objects);
	snprintf(checking.record.cluster_name, sizeof(checking.record.cluster_name), "%s",
		 row->cluster);
	check_dns(&checking);
	ck_assert_str_eq(said(), row->says);
	if (child > 0)
		ck_assert_int_eq(waitpid(child, NULL, 0), child);
	close(file);
}
END_TEST

UNIT_SUITE("check_policies")
{
	TCase *tcase = unit_case(suite, "check_policies", setup, teardown);

	tcase_add_loop_test(tcase, test_row, 0, (int)MK_ARRAY_SIZE(rows));
	tcase_add_test(tcase, test_not_read);
	tcase_add_test(tcase, test_unreadable);
	tcase_add_test(tcase, test_many);
	tcase_add_loop_test(tcase, test_mode, 0, (int)MK_ARRAY_SIZE(modes));
	tcase_add_test(tcase, test_notes);
	tcase_add_loop_test(tcase, test_left, 0, (int)MK_ARRAY_SIZE(lefts));
	tcase_add_test(tcase, test_left_not_read);
	tcase_add_loop_test(tcase, test_dns, 0, (int)MK_ARRAY_SIZE(name_rows));
}

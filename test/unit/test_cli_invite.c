// SPDX-License-Identifier: Apache-2.0
/* `monokube peer invite` and `ticket`: what they print and what they refuse. The ticket is read
 * from the Secret that an invitation becomes once the API server has filled it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cluster/files/encoding.h"
#include "cluster/files/yaml_json.h"
#include "cluster/model/model.h"
#include "cluster/model/peer.h"
#include "unit/unit.h"

#define SERVER "https://203.0.113.7:6443"

static struct mk_error err;
static char state_dir[] = "/tmp/monokube-invite.XXXXXX";
static char printed[16384], said[4096];

static void setup(void)
{
	strcpy(state_dir + strlen(state_dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(state_dir));
}

static void teardown(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/made", state_dir);
	unlink(path);
	ck_assert_int_eq(rmdir(state_dir), 0);
}

/* As if an agent ran on this machine, for the cluster @name. */
static void be_node_of(const char *name)
{
	char path[64], text[96];

	snprintf(path, sizeof(path), "%s/made", state_dir);
	snprintf(text, sizeof(text), "cluster_name=%s\n", name);
	ck_ok(mk_file_replace(path, text, strlen(text), 0600, &err));
}

static void read_back(FILE *file, int fd, int saved, char *text, size_t size)
{
	fflush(fd == STDOUT_FILENO ? stdout : stderr);
	dup2(saved, fd);
	close(saved);
	rewind(file);
	text[fread(text, 1, size - 1, file)] = '\0';
	fclose(file);
}

/* Run `monokube WORDS` with @input, and keep what it writes. Returns the exit status. */
static int run(const char *input, const char *const *words)
{
	char *argv[16] = { (char *)(uintptr_t) "monokube" };
	FILE *in = tmpfile(), *out = tmpfile(), *errors = tmpfile();
	int argc = 1, saved_out = dup(STDOUT_FILENO), saved_errors = dup(STDERR_FILENO), status;

	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
	argv[argc++] = (char *)(uintptr_t) "--state-dir";
	argv[argc++] = state_dir;
	fputs(input, in);
	fflush(in);
	lseek(fileno(in), 0, SEEK_SET);
	dup2(fileno(in), STDIN_FILENO);
	fclose(in);
	fflush(stdout);
	dup2(fileno(out), STDOUT_FILENO);
	dup2(fileno(errors), STDERR_FILENO);
	status = mk_cli_main(argc, argv);
	read_back(out, STDOUT_FILENO, saved_out, printed, sizeof(printed));
	read_back(errors, STDERR_FILENO, saved_errors, said, sizeof(said));
	return status;
}
#define RUN(input, ...) run(input, (const char *const[]){ __VA_ARGS__, NULL })

static void check_prints(const char *text)
{
	ck_assert_str_eq(said, "");
	ck_assert_str_eq(printed, text);
}

static void check_refused(int status, const char *text)
{
	ck_assert_int_eq(status, 1);
	ck_assert_str_eq(printed, "");
	ck_assert_msg(strstr(said, text), "no '%s' in: %s", text, said);
}

/* ---- base64 ---------------------------------------------------------------------------------- */

START_TEST(test_base64)
{
	static const struct {
		const char *text, *encoded;
	} rows[] = { { "", "" },
		     { "f", "Zg==" },
		     { "fo", "Zm8=" },
		     { "foo", "Zm9v" },
		     { "foob", "Zm9vYg==" },
		     { "fooba", "Zm9vYmE=" },
		     { "foobar", "Zm9vYmFy" },
		     { "\xff\xfe\xfb", "//77" } };
	unsigned char decoded[32];

	for (size_t i = 0; i < MK_ARRAY_SIZE(rows); i++) {
		cleanup_free char *encoded = mk_base64_encode(rows[i].text, strlen(rows[i].text));

		ck_assert_str_eq(encoded, rows[i].encoded);
		ck_assert_int_eq(mk_base64_decode(encoded, decoded), (int)strlen(rows[i].text));
		ck_assert_mem_eq(decoded, rows[i].text, strlen(rows[i].text));
	}
	ck_assert_int_eq(mk_base64_decode("Zm9v\n YmFy\n", decoded), 6);
	ck_assert_int_eq(mk_base64_decode("Zm9v!", decoded), -1);
	ck_assert_int_eq(mk_base64_decode("Zg==Zg", decoded), -1);
}
END_TEST

/* ---- invite ---------------------------------------------------------------------------------- */

#define ACCOUNT(name)                                    \
	"---\n"                                          \
	"apiVersion: v1\n"                               \
	"kind: ServiceAccount\n"                         \
	"metadata:\n"                                    \
	"  name: invite-" name "\n"                      \
	"  namespace: monokube-peers\n"                  \
	"  labels:\n"                                    \
	"    networking.monokube.io/cluster: " name "\n" \
	"automountServiceAccountToken: false\n"
#define BINDING(name)                                    \
	"---\n"                                          \
	"apiVersion: rbac.authorization.k8s.io/v1\n"     \
	"kind: RoleBinding\n"                            \
	"metadata:\n"                                    \
	"  name: invite-" name "\n"                      \
	"  namespace: monokube-published\n"              \
	"  labels:\n"                                    \
	"    networking.monokube.io/cluster: " name "\n" \
	"roleRef:\n"                                     \
	"  apiGroup: rbac.authorization.k8s.io\n"        \
	"  kind: Role\n"                                 \
	"  name: monokube-peer-reader\n"                 \
	"subjects:\n"                                    \
	"- kind: ServiceAccount\n"                       \
	"  name: invite-" name "\n"                      \
	"  namespace: monokube-peers\n"
#define SECRET(name, own)                                               \
	"---\n"                                                         \
	"apiVersion: v1\n"                                              \
	"kind: Secret\n"                                                \
	"metadata:\n"                                                   \
	"  name: invite-" name "\n"                                     \
	"  namespace: monokube-peers\n"                                 \
	"  labels:\n"                                                   \
	"    networking.monokube.io/cluster: " name "\n"                \
	"  annotations:\n"                                              \
	"    kubernetes.io/service-account.name: invite-" name "\n" own \
	"type: kubernetes.io/service-account-token\n"
#define BY(own) "    networking.monokube.io/invited-by: " own "\n"

START_TEST(test_invite)
{
	ck_assert_int_eq(RUN("", "peer", "invite", "west"), 0);
	check_prints(ACCOUNT("west") BINDING("west") SECRET("west", ""));
	ck_assert_int_eq(RUN("", "peer", "invite", "west", "--cluster", "east"), 0);
	check_prints(ACCOUNT("west") BINDING("west") SECRET("west", BY("east")));
	be_node_of("north");
	ck_assert_int_eq(RUN("", "peer", "invite", "west"), 0);
	check_prints(ACCOUNT("west") BINDING("west") SECRET("west", BY("north")));
	ck_assert_int_eq(RUN("", "peer", "invite", "--cluster=east", "west"), 0);
	check_prints(ACCOUNT("west") BINDING("west") SECRET("west", BY("east")));
}
END_TEST

/* Names that YAML takes for something else. */
START_TEST(test_invite_quotes)
{
	static const char *const names[] = { "on", "no", "y", "true", "null", "8", "1e3", "0x1" };

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++) {
		char wanted[96];

		ck_assert_int_eq(RUN("", "peer", "invite", names[i], "--cluster", "7"), 0);
		snprintf(wanted, sizeof(wanted), "networking.monokube.io/cluster: \"%s\"\n",
			 names[i]);
		ck_assert_msg(strstr(printed, wanted), "no '%s' in: %s", wanted, printed);
		ck_assert_ptr_nonnull(
			strstr(printed, "networking.monokube.io/invited-by: \"7\"\n"));
	}
}
END_TEST

/* A binding in the inbox of west. */
#define BOUND(name, role, account, space)            \
	"---\n"                                      \
	"apiVersion: rbac.authorization.k8s.io/v1\n" \
	"kind: RoleBinding\n"                        \
	"metadata:\n"                                \
	"  name: " name "\n"                         \
	"  namespace: monokube-inbox-west\n"         \
	"  labels:\n"                                \
	"    networking.monokube.io/cluster: west\n" \
	"roleRef:\n"                                 \
	"  apiGroup: rbac.authorization.k8s.io\n"    \
	"  kind: ClusterRole\n"                      \
	"  name: " role "\n"                         \
	"subjects:\n"                                \
	"- kind: ServiceAccount\n"                   \
	"  name: " account "\n"                      \
	"  namespace: " space "\n"
#define INBOX                                                                                      \
	"---\n"                                                                                    \
	"apiVersion: v1\n"                                                                         \
	"kind: Namespace\n"                                                                        \
	"metadata:\n"                                                                              \
	"  name: monokube-inbox-west\n"                                                            \
	"  labels:\n"                                                                              \
	"    networking.monokube.io/cluster: west\n" BOUND("invite-west", "monokube-inbox-writer", \
							   "invite-west", "monokube-peers")        \
		BOUND("monokube", "monokube-inbox-reader", "monokube",                             \
		      "kube-system") "---\n"                                                       \
				     "apiVersion: networking.monokube.io/v1alpha1\n"               \
				     "kind: ClusterPeer\n"                                         \
				     "metadata:\n"                                                 \
				     "  name: west\n"                                              \
				     "spec:\n"                                                     \
				     "  inbox: true\n"

START_TEST(test_invite_inbox)
{
	ck_assert_int_eq(RUN("", "peer", "invite", "west", "--inbox", "--cluster", "east"), 0);
	check_prints(ACCOUNT("west") BINDING("west") INBOX SECRET(
		"west", BY("east") "    networking.monokube.io/inbox: \"true\"\n"));
	ck_assert_int_eq(RUN("", "peer", "invite", "--inbox",
			     "a23456789012345678901234567890123456789012345678"),
			 0);
	check_refused(RUN("", "peer", "invite", "--inbox",
			  "a234567890123456789012345678901234567890123456789"),
		      "of 64 characters, expected at most 63: give the branch a shorter");
}
END_TEST

START_TEST(test_invite_refuses)
{
	static const char *const names[] = {
		"",    "West",
		"a.b", "a-",
		"a_b", "a b",
		"a\n", "a234567890123456789012345678901234567890123456789012345678901234"
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(names); i++)
		check_refused(RUN("", "peer", "invite", names[i]), "NAME: value '");
	check_refused(RUN("", "peer", "invite", "west", "--cluster", "E"),
		      "flag --cluster: value 'E', expected a clusterName: 1 to 63 lower case");
	check_refused(RUN("", "peer", "invite", "west", "--cluster", "west"),
		      "NAME: value 'west' is this cluster itself");
	be_node_of("west");
	check_refused(RUN("", "peer", "invite", "west"), "is this cluster itself");
	check_refused(RUN("", "peer", "invite"), "usage: monokube peer invite NAME");
	check_refused(RUN("", "peer", "invite", "a", "b"), "unexpected argument 'b'");
	ck_assert_int_eq(RUN("", "peer", "invites"), 2);
	ck_assert_str_eq(said, "monokube peer: unknown subcommand 'invites'; `monokube help peer` "
			       "lists all\n");
	ck_assert_int_eq(mk_cli_main(2, (char *[]){ (char *)(uintptr_t) "monokube",
						    (char *)(uintptr_t) "peer", NULL }),
			 2);
}
END_TEST

/* ---- ticket ---------------------------------------------------------------------------------- */

#define FILLED(annotations, data)                                                            \
	"{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": "           \
	"\"invite-west\", \"namespace\": \"monokube-peers\", \"annotations\": {" annotations \
	"}}, \"type\": \"kubernetes.io/service-account-token\", \"data\": {" data "}}"
#define BY_EAST "\"networking.monokube.io/invited-by\": \"east\""
/* "-----BEGIN CERTIFICATE-----\n", "a.b.c" */
#define CA    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="
#define TOKEN "YS5iLmM="
#define DATA  "\"ca.crt\": \"" CA "\", \"namespace\": \"bQ==\", \"token\": \"" TOKEN "\""

#define TICKET(own, servers, ca)                             \
	"---\n"                                              \
	"apiVersion: v1\n"                                   \
	"kind: Secret\n"                                     \
	"metadata:\n"                                        \
	"  name: peer-" own "\n"                             \
	"  namespace: monokube-peers\n"                      \
	"  labels:\n"                                        \
	"    networking.monokube.io/cluster: " own "\n"      \
	"type: Opaque\n"                                     \
	"data:\n"                                            \
	"  servers: " servers "\n" ca "  token: " TOKEN "\n" \
	"---\n"                                              \
	"apiVersion: networking.monokube.io/v1alpha1\n"      \
	"kind: ClusterPeer\n"                                \
	"metadata:\n"                                        \
	"  name: " own "\n"                                  \
	"spec:\n"                                            \
	"  secretName: peer-" own "\n"
#define CA_LINE "  ca.crt: " CA "\n"
#define ONE	"aHR0cHM6Ly8yMDMuMC4xMTMuNzo2NDQzCg=="
#define TWO	"aHR0cHM6Ly8yMDMuMC4xMTMuNzo2NDQzCmh0dHBzOi8vW2ZkMDA6OjFdOjY0NDMK"

START_TEST(test_ticket)
{
	ck_assert_int_eq(RUN(FILLED(BY_EAST, DATA), "peer", "ticket", "--server", SERVER), 0);
	check_prints(TICKET("east", ONE, CA_LINE));
	ck_assert_int_eq(RUN(FILLED("", DATA), "peer", "ticket", "--server", SERVER, "--server",
			     "https://[fd00::1]:6443", "--cluster", "south"),
			 0);
	check_prints(TICKET("south", TWO, CA_LINE));
	ck_assert_int_eq(RUN(FILLED(BY_EAST, "\"token\": \"" TOKEN "\""), "peer", "ticket",
			     "--server=" SERVER, "--access", "Pods", "--relay", "--accept",
			     "Transit"),
			 0);
	check_prints(TICKET("east", ONE, "") "  access: Pods\n  relay: true\n  accept: Transit\n");
	ck_assert_int_eq(RUN(FILLED(BY_EAST ", \"networking.monokube.io/inbox\": \"true\"", DATA),
			     "peer", "ticket", "--server", SERVER),
			 0);
	check_prints(TICKET("east", ONE, CA_LINE) "  publishTo: true\n");
	be_node_of("north");
	ck_assert_int_eq(RUN(FILLED("", DATA), "peer", "ticket", "--server", SERVER), 0);
	check_prints(TICKET("north", ONE, CA_LINE));
	ck_assert_int_eq(RUN(FILLED(BY_EAST, DATA), "peer", "ticket", "--server", SERVER), 0);
	check_prints(TICKET("east", ONE, CA_LINE));
}
END_TEST

static void see_peer(void *ctx, const struct mk_cluster_peer *peer)
{
	ck_assert_str_eq(peer->name, "on");
	ck_assert_str_eq(peer->secret, "peer-on");
	ck_assert_int_eq(peer->access, MK_PEER_ACCESS_EXPORTS);
	++*(int *)ctx;
}

/* An agent understands the ClusterPeer. */
static void check_model(json_object *peer)
{
	struct mk_model *model = mk_model_new();
	int count = 0;

	ck_ok(mk_model_apply(model, peer, &err));
	mk_model_each(struct mk_cluster_peer, of, model, MK_KIND_CLUSTER_PEER)
		see_peer(&count, of);
	ck_assert_int_eq(count, 1);
	mk_model_free(model);
}

/* The Secret as `invite` prints it, in YAML, with the data of the API server. */
START_TEST(test_round_trip)
{
	char secret[sizeof(printed)];
	cleanup_documents struct mk_documents documents = { 0 };

	ck_assert_int_eq(RUN("", "peer", "invite", "west", "--cluster", "on"), 0);
	snprintf(secret, sizeof(secret), "%sdata:\n  ca.crt: %s\n  token: %s\n",
		 strstr(printed, "---\napiVersion: v1\nkind: Secret"), CA, TOKEN);
	ck_assert_int_eq(RUN(secret, "peer", "ticket", "--server", SERVER), 0);
	ck_assert_str_eq(said, "");
	ck_ok(mk_yaml_parse(printed, strlen(printed), &documents, &err));
	ck_assert_uint_eq(documents.count, 2);
	ck_assert_str_eq(mk_json_metadata(documents.items[0].tree, "name"), "peer-on");
	check_model(documents.items[1].tree);
}
END_TEST

START_TEST(test_ticket_refuses_flags)
{
	static const struct {
		const char *words[5], *says;
	} rows[] = {
		{ { "peer", "ticket" }, "flag --server is missing, expected a URL by which" },
		{ { "peer", "ticket", "--server=" }, "flag --server: value '', expected a URL" },
		{ { "peer", "ticket", "--server", "http://a:6443" },
		  "flag --server: value 'http://a:6443', expected a URL such as https://" },
		{ { "peer", "ticket", "--server", "203.0.113.7" }, "value '203.0.113.7'" },
		{ { "peer", "ticket", "--server", "https://user@a" }, "value 'https://user@a'" },
		{ { "peer", "ticket", "--access=pods" },
		  "flag --access: value 'pods', expected Exports, Pods or None" },
		{ { "peer", "ticket", "--access=" }, "value '', expected Exports, Pods or None" },
		{ { "peer", "ticket", "--access=or" }, "value 'or', expected Exports" },
		{ { "peer", "ticket", "--access=Exports, Pods" }, "value 'Exports, Pods'" },
		{ { "peer", "ticket", "--access=Exports," }, "value 'Exports,'" },
		{ { "peer", "ticket", "--accept=direct" },
		  "flag --accept: value 'direct', expected Transit, Direct or None" },
		{ { "peer", "ticket", "west" }, "unexpected argument 'west'" },
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(rows); i++)
		check_refused(run(FILLED(BY_EAST, DATA), rows[i].words), rows[i].says);
}
END_TEST

START_TEST(test_ticket_refuses_input)
{
	static const struct {
		const char *input, *says;
	} rows[] = {
		{ "", "standard input is empty, expected a Secret: if kubectl failed" },
		{ " \n", "standard input is empty" },
		{ "{", "standard input: line " },
		{ "a: 1\n---\nb: 1\n", "standard input: 2 objects, expected one Secret; pipe" },
		{ "text", "kind '', expected one Secret" },
		{ "kind: ConfigMap\n", "kind 'ConfigMap', expected one Secret; pipe `kubectl" },
		{ "kind: List\nitems: []\n", "kind 'List', expected one Secret" },
		{ "kind: Secret\ntype: Opaque\nmetadata: {name: x}\n",
		  "Secret 'x': type 'Opaque', expected kubernetes.io/service-account-token" },
		{ FILLED(BY_EAST, ""),
		  "Secret 'invite-west' has no token yet: wait a second and try again. If it stays "
		  "so, `kubectl -n monokube-peers get serviceaccount invite-west`" },
		{ FILLED(BY_EAST, "\"token\": 7"), "has no token yet" },
		{ FILLED(BY_EAST, "\"token\": \"s!cret\""),
		  "Secret 'invite-west': data.token: expected base64 of a token; pipe" },
		{ FILLED(BY_EAST, "\"token\": \"YSBi\""),
		  "data.token: expected base64 of a token" },
		{ FILLED(BY_EAST, "\"token\": \"====\""),
		  "data.token: expected base64 of a token" },
		{ FILLED(BY_EAST, "\"token\": \"" TOKEN "\", \"ca.crt\": \"s!cret\""),
		  "data.ca.crt: expected base64 of certificates in PEM" },
		{ FILLED(BY_EAST, "\"token\": \"" TOKEN "\", \"ca.crt\": \"" TOKEN "\""),
		  "data.ca.crt: expected base64 of certificates in PEM" },
		{ FILLED("", DATA),
		  "the name of the inviting cluster is not known: give --cluster NAME" },
		{ FILLED("\"networking.monokube.io/invited-by\": \"E\"", DATA),
		  "name of the inviting cluster: value 'E', expected a clusterName" },
	};

	for (size_t i = 0; i < MK_ARRAY_SIZE(rows); i++) {
		check_refused(RUN(rows[i].input, "peer", "ticket", "--server", SERVER),
			      rows[i].says);
		ck_assert_msg(!strstr(said, TOKEN) && !strstr(said, "s!cret"), "%s", said);
	}
}
END_TEST

UNIT_SUITE("cli_invite")
{
	TCase *tcase = unit_case(suite, "commands", setup, teardown);

	tcase_add_test(tcase, test_base64);
	tcase_add_test(tcase, test_invite);
	tcase_add_test(tcase, test_invite_inbox);
	tcase_add_test(tcase, test_invite_quotes);
	tcase_add_test(tcase, test_invite_refuses);
	tcase_add_test(tcase, test_ticket);
	tcase_add_test(tcase, test_round_trip);
	tcase_add_test(tcase, test_ticket_refuses_flags);
	tcase_add_test(tcase, test_ticket_refuses_input);
}

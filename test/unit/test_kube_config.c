// SPDX-License-Identifier: Apache-2.0
/* Kubeconfig files and service accounts, the waits between attempts, and the known
 * objects of a list. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cluster/api/api_internal.h"
#include "cluster/api/backoff.h"
#include "cluster/api/credentials.h"
#include "cluster/watch/seen.h"
#include "unit/unit.h"

static char dir[64];
static struct mk_credentials credentials;

static const char *in_dir(const char *name)
{
	static char path[4][128];
	static unsigned int next;

	next = (next + 1) % 4;
	snprintf(path[next], sizeof(path[next]), "%s/%s", dir, name);
	return path[next];
}

static void put(const char *name, const char *text)
{
	struct mk_error err;

	ck_assert_msg(mk_file_replace(in_dir(name), text, strlen(text), 0600, &err) == 0, "%s",
		      err.text);
}

static void setup(void)
{
	strcpy(dir, "/tmp/monokube-kube.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	unsetenv("KUBECONFIG");
	unsetenv("KUBERNETES_SERVICE_HOST");
	unsetenv("KUBERNETES_SERVICE_PORT");
	put("ca.crt", "AUTHORITY");
	put("token", "TOKEN\n");
	put("x.pem", "PEM");
}

static void teardown(void)
{
	char command[96];

	mk_credentials_release(&credentials);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(command), 0);
}

/* ---- kubeconfig ------------------------------------------------------------------------------ */

#define CONTEXT                                                                        \
	"current-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\n" \
	"- {name: d, context: {cluster: l, user: u}}\n"
#define CLUSTER "clusters:\n- {name: k, cluster: {server: 'https://a:6443'}}\n"
#define USER	"users:\n- {name: u, user: {token: T}}\n"

static const struct {
	const char *name, *text;
	const char *error; /* NULL: it is good */
	const char *server, *authority, *certificate, *key, *token;
} configs[] = {
	{ "token", CONTEXT CLUSTER USER, NULL, "https://a:6443", NULL, NULL, NULL, "T" },
	{ "JSON",
	  "{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":"
	  "\"k\"}}],\"clusters\":[{\"name\":\"k\",\"cluster\":{\"server\":\"https://a/\"}}]}",
	  NULL, "https://a", NULL, NULL, NULL, NULL },
	{ "inline data",
	  CONTEXT "clusters:\n- {name: k, cluster: {server: 'https://a', "
		  "certificate-authority: ignored, certificate-authority-data: Q0E=}}\n"
		  "users:\n- {name: u, user: {client-certificate-data: Q0VSVA==, "
		  "client-key-data: S0VZ}}\n",
	  NULL, "https://a", "CA", "CERT", "KEY", NULL },
	{ "files beside it",
	  CONTEXT "clusters:\n- {name: k, cluster: {server: 'https://a', "
		  "certificate-authority: ca.crt}}\nusers:\n- {name: u, user: "
		  "{client-certificate: x.pem, client-key: ./x.pem, "
		  "tokenFile: token, token: ignored}}\n",
	  NULL, "https://a", "AUTHORITY", "PEM", "PEM", "TOKEN\n" },
	{ "no context", CLUSTER, "current-context is missing", NULL, NULL, NULL, NULL, NULL },
	{ "context not there", "current-context: c\n" CLUSTER, "there is no context 'c'", NULL,
	  NULL, NULL, NULL, NULL },
	{ "cluster not there", CONTEXT USER, "there is no cluster 'k'", NULL, NULL, NULL, NULL,
	  NULL },
	{ "user not there", CONTEXT CLUSTER, "there is no user 'u'", NULL, NULL, NULL, NULL, NULL },
	{ "no server", CONTEXT USER "clusters:\n- {name: k, cluster: {}}\n", "server: is missing",
	  NULL, NULL, NULL, NULL, NULL },
	{ "http", CONTEXT USER "clusters:\n- {name: k, cluster: {server: 'http://a'}}\n",
	  "value 'http://a', expected a URL such as https://", NULL, NULL, NULL, NULL, NULL },
	{ "a user in the URL",
	  CONTEXT USER "clusters:\n- {name: k, cluster: {server: 'https://u@a'}}\n",
	  "expected a URL", NULL, NULL, NULL, NULL, NULL },
	{ "exec", CONTEXT CLUSTER "users:\n- {name: u, user: {exec: {command: x}}}\n",
	  "exec: credential plugins are not supported", NULL, NULL, NULL, NULL, NULL },
	{ "auth-provider",
	  CONTEXT CLUSTER "users:\n- {name: u, user: {auth-provider: {name: x}}}\n",
	  "auth-provider: credential plugins are not supported", NULL, NULL, NULL, NULL, NULL },
	{ "certificate without key",
	  CONTEXT CLUSTER "users:\n- {name: u, user: {client-certificate: "
			  "x.pem}}\n",
	  "client-key: is missing", NULL, NULL, NULL, NULL, NULL },
	{ "bad base64",
	  CONTEXT USER "clusters:\n- {name: k, cluster: {server: 'https://a', "
		       "certificate-authority-data: '*'}}\n",
	  "certificate-authority-data: expected base64", NULL, NULL, NULL, NULL, NULL },
	{ "a file that is missing",
	  CONTEXT USER "clusters:\n- {name: k, cluster: {server: 'https://a', "
		       "certificate-authority: none.crt}}\n",
	  "none.crt", NULL, NULL, NULL, NULL, NULL },
	{ "insecure and an authority",
	  CONTEXT USER
	  "clusters:\n- {name: k, cluster: {server: 'https://a', insecure-skip-tls-verify: true, "
	  "certificate-authority: ca.crt}}\n",
	  "one of the two", NULL, NULL, NULL, NULL, NULL },
	{ "insecure, in words",
	  CONTEXT USER "clusters:\n- {name: k, cluster: {server: 'https://a', "
		       "insecure-skip-tls-verify: 'yes'}}\n",
	  "expected true or false", NULL, NULL, NULL, NULL, NULL },
	{ "no YAML", "{", "line ", NULL, NULL, NULL, NULL, NULL },
	{ "a list", "- a\n", "current-context is missing", NULL, NULL, NULL, NULL, NULL },
};

static void check_secret(const struct mk_secret *secret, const char *want)
{
	ck_assert_int_eq(secret->data != NULL, want != NULL);
	ck_assert(!want ||
		  (secret->size == strlen(want) && memcmp(secret->data, want, secret->size) == 0));
}

START_TEST(test_kubeconfig)
{
	struct mk_credentials_source source = { .kubeconfig = in_dir("config") };
	struct mk_error err = { 0 };
	int ret;

	put("config", configs[_i].text);
	ret = mk_credentials_load(&source, &credentials, &err);
	if (configs[_i].error) {
		ck_assert_int_lt(ret, 0);
		ck_assert_msg(strstr(err.text, configs[_i].error), "%s: %s", configs[_i].name,
			      err.text);
		ck_assert_msg(strstr(err.text, in_dir("config")), "%s: %s", configs[_i].name,
			      err.text);
		return;
	}
	ck_assert_msg(ret == 0, "%s: %s", configs[_i].name, err.text);
	ck_assert_str_eq(credentials.server, configs[_i].server);
	check_secret(&credentials.authority, configs[_i].authority);
	check_secret(&credentials.certificate, configs[_i].certificate);
	check_secret(&credentials.key, configs[_i].key);
	check_secret(&credentials.token, configs[_i].token);
}
END_TEST

START_TEST(test_other_context)
{
	struct mk_credentials_source source = { .kubeconfig = in_dir("config"), .context = "d" };
	struct mk_error err;

	put("config",
	    CONTEXT USER "clusters:\n- {name: k, cluster: {server: 'https://k'}}\n"
			 "- {name: l, cluster: {server: 'https://l', proxy-url: 'http://p',"
			 " tls-server-name: n}}\n");
	ck_assert_int_eq(mk_credentials_load(&source, &credentials, &err), 0);
	ck_assert_str_eq(credentials.server, "https://l");
	ck_assert_str_eq(credentials.proxy, "http://p");
	ck_assert_str_eq(credentials.server_name, "n");
}
END_TEST

START_TEST(test_several_files)
{
	struct mk_credentials_source source = { 0 };
	char paths[512];
	struct mk_error err;

	put("one", "users:\n- {name: u, user: {token: FIRST}}\n");
	put("two", CONTEXT CLUSTER USER);
	snprintf(paths, sizeof(paths), "%s:%s::%s", in_dir("none"), in_dir("one"), in_dir("two"));
	setenv("KUBECONFIG", paths, 1);
	ck_assert_msg(mk_credentials_load(&source, &credentials, &err) == 0, "%s", err.text);
	check_secret(&credentials.token, "FIRST");
	mk_credentials_release(&credentials);
	setenv("KUBECONFIG", "/nowhere/a:/nowhere/b", 1);
	ck_assert_int_eq(mk_credentials_load(&source, &credentials, &err), -ENOENT);
}
END_TEST

START_TEST(test_service_account)
{
	struct mk_credentials_source source = { .service_account_dir = dir };
	struct mk_error err;

	ck_assert_int_eq(mk_credentials_load(&source, &credentials, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "--api-server"));
	setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
	setenv("KUBERNETES_SERVICE_PORT", "443", 1);
	ck_assert_msg(mk_credentials_load(&source, &credentials, &err) == 0, "%s", err.text);
	ck_assert_str_eq(credentials.server, "https://[fd00::1]:443");
	mk_credentials_release(&credentials);
	source.api_server = "https://10.0.0.1:6443/";
	ck_assert_int_eq(mk_credentials_load(&source, &credentials, &err), 0);
	ck_assert_str_eq(credentials.server, "https://10.0.0.1:6443");
	check_secret(&credentials.authority, "AUTHORITY");
}
END_TEST

START_TEST(test_refresh)
{
	struct mk_credentials_source source = { .service_account_dir = dir,
						.api_server = "https://a" };
	struct mk_error err;

	ck_assert_int_eq(mk_credentials_load(&source, &credentials, &err), 0);
	ck_assert_int_eq(credentials_refresh(&credentials, &err), 0);
	put("token", "NEXT!\n"); /* of the same size */
	ck_assert_int_eq(credentials_refresh(&credentials, &err), 1);
	check_secret(&credentials.token, "NEXT!\n");
	put("token", "");
	ck_assert_int_lt(credentials_refresh(&credentials, &err), 0);
	check_secret(&credentials.token, "NEXT!\n");
	ck_assert_int_eq(unlink(in_dir("token")), 0);
	put("ca.crt", "OTHER");
	ck_assert_int_lt(credentials_refresh(&credentials, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.text, in_dir("token")));
	check_secret(&credentials.authority, "OTHER");
	put("token", "BACK");
	ck_assert_int_eq(credentials_refresh(&credentials, &err), 1);
	check_secret(&credentials.token, "BACK");
}
END_TEST

/* ---- backoff --------------------------------------------------------------------------------- */

START_TEST(test_backoff)
{
	struct mk_backoff backoff = { .min_ms = 500, .max_ms = 30000 };
	static const uint64_t most[] = { 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000 };

	for (size_t i = 0; i < MK_ARRAY_SIZE(most); i++) {
		struct mk_backoff least = backoff, middle = backoff;

		ck_assert_uint_eq(mk_backoff_next(&least, 0, 0), most[i] / 2);
		ck_assert_uint_eq(mk_backoff_next(&middle, 0, UINT64_MAX / 2), most[i] * 3 / 4);
		ck_assert_uint_eq(mk_backoff_next(&backoff, 0, UINT64_MAX), most[i]);
	}
	mk_backoff_reset(&backoff);
	ck_assert_uint_eq(mk_backoff_next(&backoff, 0, UINT64_MAX), 500);
}
END_TEST

START_TEST(test_retry_after)
{
	struct mk_backoff backoff = { .min_ms = 500, .max_ms = 30000 };

	ck_assert_uint_eq(mk_backoff_next(&backoff, 10, 0), 10000);
	ck_assert_uint_eq(mk_backoff_next(&backoff, 10, UINT64_MAX), 12000);
	ck_assert_uint_eq(mk_backoff_next(&backoff, UINT64_MAX / 500, 0), 600000);
	for (int i = 0; i < 10; i++)
		mk_backoff_next(&backoff, 0, 0);
	ck_assert_uint_eq(mk_backoff_next(&backoff, 1, 0), 15000);
}
END_TEST

/* ---- what was seen --------------------------------------------------------------------------- */

#define UID_A "9b0a4b7e-3a51-4ff3-a3b3-6c4e47686c92"
#define UID_B "00000000-3a51-4ff3-a3b3-6c4e47686c92"

static struct mk_object_head head(const char *name, const char *uid, const char *version)
{
	return (struct mk_object_head){ .name = { name, strlen(name) },
					.namespace_ = { "shop", 4 },
					.uid = { uid, strlen(uid) },
					.resource_version = { version, strlen(version) } };
}

static char forgotten[128];

static void gone(void *ctx, const char *namespace_, const char *name)
{
	(void)ctx;
	snprintf(forgotten + strlen(forgotten), sizeof(forgotten) - strlen(forgotten), "%s/%s ",
		 namespace_, name);
}

/* An object whose newest version is invalid is counted until it has another version
 * or is deleted. */
START_TEST(test_unusable)
{
	struct mk_seen *known = seen_new(true);
	struct mk_object_head a = head("a", UID_A, "7"), b = head("b", UID_B, "8");

	seen_begin(known);
	ck_assert_int_eq(seen_add(known, &a), 0);
	ck_assert_int_eq(seen_add(known, &b), 0);
	seen_set_usable(known, &a, false);
	seen_set_usable(known, &a, false);
	seen_set_usable(known, &b, false);
	ck_assert_uint_eq(seen_unusable(known), 2);
	seen_set_usable(known, &a, true);
	ck_assert_uint_eq(seen_unusable(known), 1);
	seen_set_usable(known, &a, false);
	seen_remove(known, &a);
	ck_assert_uint_eq(seen_unusable(known), 1);
	seen_begin(known);
	forgotten[0] = '\0';
	seen_sweep(known, gone, NULL);
	ck_assert_uint_eq(seen_unusable(known), 0);
	seen_free(known);
}
END_TEST

START_TEST(test_known)
{
	struct mk_seen *known = seen_new(true);
	struct mk_object_head a = head("a", UID_A, "7"), b = head("b", UID_B, "8");
	struct mk_object_head newer = head("a", UID_A, "9"), other = head("a", UID_B, "9");
	struct mk_object_head opaque = head("c", UID_A, "v1"), bad = head("d", "no-uid", "7");

	seen_begin(known);
	ck_assert_int_eq(seen_add(known, &a), 0);
	ck_assert_int_eq(seen_add(known, &a), 1);
	ck_assert_int_eq(seen_add(known, &newer), 0);
	ck_assert_int_eq(seen_add(known, &other), 0);
	ck_assert_int_eq(seen_add(known, &b), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(seen_add(known, &opaque), 0);
		ck_assert_int_eq(seen_add(known, &bad), 0);
	}
	ck_assert_uint_eq(seen_count(known), 4);
	seen_begin(known);
	ck_assert_int_eq(seen_add(known, &b), 1);
	seen_remove(known, &bad);
	seen_remove(known, &bad);
	seen_sweep(known, gone, NULL);
	ck_assert_uint_eq(strlen(forgotten), strlen("shop/a shop/c "));
	ck_assert_ptr_nonnull(strstr(forgotten, "shop/a "));
	ck_assert_ptr_nonnull(strstr(forgotten, "shop/c "));
	ck_assert_uint_eq(seen_count(known), 1);
	seen_free(known);
}
END_TEST

/* Without names, the owner of the objects asks for each of its own. */
START_TEST(test_nameless)
{
	struct mk_seen *known = seen_new(false);
	struct mk_object_head a = head("a", UID_A, "7"), b = head("b", UID_B, "8"),
			      c = head("c", UID_A, "9");
	uint64_t version;

	ck_assert_int_eq(seen_add(known, &a), 0);
	ck_assert_int_eq(seen_add(known, &b), 0);
	ck_assert_int_eq(seen_add(known, &a), 1);
	seen_begin(known);
	ck_assert_int_eq(seen_add(known, &b), 1);
	ck_assert(seen_is_gone(known, &a));
	ck_assert(!seen_is_gone(known, &b));
	ck_assert(!seen_is_gone(known, &c));
	forgotten[0] = '\0';
	seen_sweep(known, gone, NULL);
	ck_assert_str_eq(forgotten, "");
	ck_assert_uint_eq(seen_count(known), 1);
	ck_assert(!seen_find(known, &a, &version));
	ck_assert(seen_find(known, &b, &version));
	ck_assert_uint_eq(version, 8);
	seen_free(known);
}
END_TEST

UNIT_SUITE("kube_config")
{
	TCase *tcase = unit_case(suite, "kube_config", setup, teardown);

	tcase_add_loop_test(tcase, test_kubeconfig, 0, MK_ARRAY_SIZE(configs));
	tcase_add_test(tcase, test_other_context);
	tcase_add_test(tcase, test_several_files);
	tcase_add_test(tcase, test_service_account);
	tcase_add_test(tcase, test_refresh);
	tcase_add_test(tcase, test_backoff);
	tcase_add_test(tcase, test_retry_after);
	tcase_add_test(tcase, test_unusable);
	tcase_add_test(tcase, test_known);
	tcase_add_test(tcase, test_nameless);
}

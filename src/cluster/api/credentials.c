// SPDX-License-Identifier: Apache-2.0
#include "cluster/api/credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "cluster/api/api_internal.h"
#include "cluster/files/encoding.h"

#define SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
#define SECRET_MAX_BYTES    (1 << 20)

#define SERVERS_MAX 16
#define SEPARATORS  ", \t\r\n"
#define PEM	    "-----BEGIN CERTIFICATE-----"

static void wipe(void *data, size_t size)
{
	if (data)
		explicit_bzero(data, size);
}

static void wipe_text(char *text)
{
	if (text)
		wipe(text, strlen(text));
	free(text);
}

static void secret_release(struct mk_secret *secret)
{
	wipe(secret->data, secret->size);
	free(secret->data);
	free(secret->path);
	*secret = (struct mk_secret){ 0 };
}

/* Take @seen before reading. If the file is replaced meanwhile, it differs from @seen, and at worst
 * is read once more. */
static int read_secret(struct mk_secret *secret, struct mk_error *err)
{
	struct stat seen;
	char *data;
	size_t size;
	int ret;

	if (stat(secret->path, &seen) < 0)
		return mk_error_errno(err, errno, "cannot read '%s'", secret->path);
	ret = mk_file_read(secret->path, SECRET_MAX_BYTES, &data, &size, err);
	if (ret < 0)
		return ret;
	if (size == 0) {
		free(data);
		return mk_error_set(err, EINVAL, "'%s' is empty, expected a token or a certificate",
				    secret->path);
	}
	wipe(secret->data, secret->size);
	free(secret->data);
	secret->data = data;
	secret->size = size;
	secret->seen = seen;
	return 0;
}

int secret_from_file(struct mk_secret *secret, const char *path, struct mk_error *err)
{
	secret_release(secret);
	secret->path = strdup(path);
	if (!secret->path)
		return mk_error_errno(err, ENOMEM, "path '%s'", path);
	return read_secret(secret, err);
}

int secret_from_data(struct mk_secret *secret, const void *data, size_t size, struct mk_error *err)
{
	secret_release(secret);
	secret->data = malloc(size + 1);
	if (!secret->data)
		return mk_error_errno(err, ENOMEM, "%zu bytes of credentials", size);
	memcpy(secret->data, data, size);
	secret->data[size] = '\0';
	secret->size = size;
	return 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int refresh_secret(struct mk_secret *secret, struct mk_error *err)
{
	struct stat now;
	int ret;

	if (!secret->path)
		return 0;
	if (stat(secret->path, &now) < 0)
		return mk_error_errno(err, errno, "cannot read '%s'", secret->path);
	if (same_file(&now, &secret->seen))
		return 0;
	ret = read_secret(secret, err);
	return ret < 0 ? ret : 1;
}

/* The new kubeconfig may name another server or user. Open requests keep the former ones
 * until they end. */
static int refresh_kubeconfig(struct mk_credentials *credentials, struct mk_error *err)
{
	const struct mk_credentials_source source = { .kubeconfig = credentials->kubeconfig,
						      .context = credentials->context,
						      .api_server = credentials->api_server };
	struct mk_credentials fresh;
	struct stat now;
	int ret;

	if (!credentials->kubeconfig)
		return 0;
	if (stat(credentials->kubeconfig, &now) < 0)
		return mk_error_errno(err, errno, "cannot read '%s'", credentials->kubeconfig);
	if (same_file(&now, &credentials->seen))
		return 0;
	ret = mk_credentials_load(&source, &fresh, err);
	if (ret < 0) {
		mk_credentials_release(&fresh);
		return ret;
	}
	mk_credentials_release(credentials);
	*credentials = fresh;
	return 1;
}

int credentials_refresh(struct mk_credentials *credentials, struct mk_error *err)
{
	struct mk_secret *secrets[] = { &credentials->authority, &credentials->certificate,
					&credentials->key, &credentials->token };
	int changed = refresh_kubeconfig(credentials, err), failed = 0;

	if (changed < 0)
		failed = changed;
	if (changed < 0)
		changed = 0;
	for (size_t i = 0; i < MK_ARRAY_SIZE(secrets); i++) {
		int ret = refresh_secret(secrets[i], err);

		if (ret < 0)
			failed = ret;
		else
			changed |= ret;
	}
	return failed < 0 ? failed : changed;
}

void mk_credentials_release(struct mk_credentials *credentials)
{
	free(credentials->origin);
	free(credentials->server);
	free(credentials->server_name);
	free(credentials->proxy);
	secret_release(&credentials->authority);
	secret_release(&credentials->certificate);
	secret_release(&credentials->key);
	secret_release(&credentials->token);
	free(credentials->username);
	wipe_text(credentials->password);
	free(credentials->kubeconfig);
	free(credentials->context);
	free(credentials->api_server);
	*credentials = (struct mk_credentials){ 0 };
}

int mk_api_server_check(char *url, const char *what, struct mk_error *err)
{
	size_t length = strlen(url);
	const char *host = url + strlen("https://");

	if (strncmp(url, "https://", strlen("https://")) != 0 || strpbrk(url, "?#@ \t\r\n") ||
	    *host == '\0' || *host == '/' || *host == ':')
		return mk_error_set(err, EINVAL,
				    "%s: value '%s', expected a URL such as https://10.0.0.1:6443",
				    what, url);
	while (url[length - 1] == '/')
		url[--length] = '\0';
	return 0;
}

/* Use the variables that the kubelet sets in every pod. */
static int in_cluster_server(struct mk_credentials *credentials, struct mk_error *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");

	if (!host || !port || !*host || !*port)
		return mk_error_set(
			err, ENOENT,
			"no API server known: --kubeconfig, KUBECONFIG and --api-server are not given, and this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
	if (asprintf(&credentials->server, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s",
		     host, port) < 0) {
		credentials->server = NULL;
		return mk_error_errno(err, ENOMEM, "URL of the API server");
	}
	credentials->by_service = true;
	return mk_api_server_check(credentials->server,
				   "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT", err);
}

static int read_service_account(const char *dir, const char *name, struct mk_secret *secret,
				struct mk_error *err)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return secret_from_file(secret, path, err);
}

static int load_in_cluster(const struct mk_credentials_source *source,
			   struct mk_credentials *credentials, struct mk_error *err)
{
	const char *dir =
		source->service_account_dir ? source->service_account_dir : SERVICE_ACCOUNT_DIR;
	int ret = 0;

	if (!source->api_server)
		ret = in_cluster_server(credentials, err);
	if (ret == 0 && asprintf(&credentials->origin, "service account in '%s'", dir) < 0) {
		credentials->origin = NULL;
		ret = mk_error_errno(err, ENOMEM, "credentials");
	}
	ret = ret ?: read_service_account(dir, "token", &credentials->token, err);
	ret = ret ?: read_service_account(dir, "ca.crt", &credentials->authority, err);
	return ret < 0 ? mk_error_wrap(err, "service account of the pod") : 0;
}

static int override_server(const char *api_server, struct mk_credentials *credentials,
			   struct mk_error *err)
{
	char *copy = strdup(api_server);

	if (!copy)
		return mk_error_errno(err, ENOMEM, "URL of the API server");
	free(credentials->server);
	credentials->server = copy;
	return mk_api_server_check(copy, "--api-server", err);
}

static int copy_text(const char *text, char **copy, struct mk_error *err)
{
	*copy = text ? strdup(text) : NULL;
	return text && !*copy ? mk_error_errno(err, ENOMEM, "credentials") : 0;
}

/* Take the file's state before reading, so that the next check sees a change meanwhile. A list of
 * files is never read again. */
static int load_kubeconfig(const char *path, const struct mk_credentials_source *source,
			   struct mk_credentials *credentials, struct mk_error *err)
{
	int ret = copy_text(path, &credentials->kubeconfig, err);

	ret = ret ?: copy_text(source->context, &credentials->context, err);
	ret = ret ?: copy_text(source->api_server, &credentials->api_server, err);
	if (ret < 0)
		return ret;
	if (stat(path, &credentials->seen) < 0)
		free(mk_steal_ptr(credentials->kubeconfig));
	return kubeconfig_load(path, source->context, credentials, err);
}

int mk_credentials_load(const struct mk_credentials_source *source,
			struct mk_credentials *credentials, struct mk_error *err)
{
	const char *kubeconfig = source->kubeconfig;
	int ret;

	*credentials = (struct mk_credentials){ 0 };
	if (!kubeconfig || !*kubeconfig)
		kubeconfig = getenv("KUBECONFIG");
	if (kubeconfig && *kubeconfig)
		ret = load_kubeconfig(kubeconfig, source, credentials, err);
	else
		ret = load_in_cluster(source, credentials, err);
	if (ret == 0 && source->api_server && *source->api_server)
		ret = override_server(source->api_server, credentials, err);
	return ret;
}

/* ---- from a Secret --------------------------------------------------------------------------- */

/* Decode member @key of @data. Absent: *@secret stays empty. */
static int decode(json_object *data, const char *key, struct mk_secret *secret,
		  struct mk_error *err)
{
	const char *text = mk_json_text(data, key);
	unsigned char *decoded = malloc(strlen(text) + 1);
	ssize_t size = decoded ? mk_base64_decode(text, decoded) : 0;
	int ret = 0;

	if (!decoded)
		return mk_error_errno(err, ENOMEM, "data.%s", key);
	if (size < 0 || memchr(decoded, '\0', (size_t)size))
		ret = mk_error_set(err, EINVAL, "data.%s is no base64 of a text", key);
	else if (size > 0)
		ret = secret_from_data(secret, decoded, (size_t)size, err);
	explicit_bzero(decoded, strlen(text));
	free(decoded);
	return ret;
}

static int add_server(struct mk_servers *servers, const char *url, struct mk_error *err)
{
	char *copy;

	if (servers->count == SERVERS_MAX)
		return mk_error_set(err, EINVAL, "data.servers: more than %d URLs", SERVERS_MAX);
	copy = strdup(url);
	if (!copy)
		return mk_error_errno(err, ENOMEM, "data.servers");
	servers->of[servers->count++] = copy;
	return mk_api_server_check(copy, "data.servers", err);
}

static int read_servers(json_object *data, struct mk_servers *servers, struct mk_error *err)
{
	struct mk_secret text = { 0 };
	char *save = NULL;
	int ret = decode(data, "servers", &text, err);

	servers->of = calloc(SERVERS_MAX, sizeof(char *));
	if (ret == 0 && !servers->of)
		ret = mk_error_errno(err, ENOMEM, "data.servers");
	for (char *url = ret == 0 && text.data ? strtok_r(text.data, SEPARATORS, &save) : NULL;
	     url && ret == 0; url = strtok_r(NULL, SEPARATORS, &save))
		ret = add_server(servers, url, err);
	secret_release(&text);
	if (ret == 0 && servers->count == 0)
		return mk_error_set(
			err, EINVAL,
			"data.servers is missing, expected URLs such as https://10.0.0.1:6443");
	return ret;
}

/* Each fault has its own code, because it is another condition. */
static int read_trust(json_object *data, struct mk_credentials *credentials, struct mk_error *err)
{
	if (decode(data, "ca.crt", &credentials->authority, err) < 0)
		return -EKEYREJECTED;
	if (credentials->authority.data && !strstr(credentials->authority.data, PEM)) {
		mk_error_set(err, EKEYREJECTED, "data.ca.crt is no certificate in PEM");
		return -EKEYREJECTED;
	}
	if (decode(data, "token", &credentials->token, err) < 0)
		return -EACCES;
	if (!credentials->token.data || strpbrk(credentials->token.data, "\r\n")) {
		mk_error_set(err, EACCES, "data.token is missing, expected one line");
		return -EACCES;
	}
	return 0;
}

int mk_credentials_from_secret(json_object *secret, struct mk_credentials *credentials,
			       struct mk_servers *servers, struct mk_error *err)
{
	json_object *data = mk_json_member(secret, "data");
	int ret;

	*credentials = (struct mk_credentials){ 0 };
	*servers = (struct mk_servers){ 0 };
	if (asprintf(&credentials->origin, "Secret %s/%s", mk_json_metadata(secret, "namespace"),
		     mk_json_metadata(secret, "name")) < 0) {
		credentials->origin = NULL;
		return mk_error_errno(err, ENOMEM, "Secret");
	}
	ret = read_servers(data, servers, err);
	ret = ret ?: read_trust(data, credentials, err);
	return ret ?: mk_credentials_use(credentials, servers->of[0], err);
}

int mk_credentials_use(struct mk_credentials *credentials, const char *server, struct mk_error *err)
{
	char *copy = strdup(server);

	if (!copy)
		return mk_error_errno(err, ENOMEM, "URL of an API server");
	free(credentials->server);
	credentials->server = copy;
	return 0;
}

void mk_servers_release(struct mk_servers *servers)
{
	for (size_t i = 0; i < servers->count; i++)
		free(servers->of[i]);
	free(servers->of);
	*servers = (struct mk_servers){ 0 };
}

// SPDX-License-Identifier: Apache-2.0
/* A kubeconfig has three lists of named entries: a context names a cluster and a user. */

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "cluster/api/api_internal.h"
#include "cluster/files/encoding.h"
#include "cluster/files/yaml_json.h"

#define FILES_MAX	 16
#define CONFIG_MAX_BYTES (4 << 20)

struct config_file {
	char *path;
	struct mk_documents documents;
};

struct config {
	struct config_file files[FILES_MAX];
	size_t count;
	const char *paths; /* all paths, for messages */
};

/* A named entry, and the file that has it. */
struct entry {
	json_object *value;
	const struct config_file *file;
	const char *what, *name;
};

static void config_release(struct config *config)
{
	for (size_t i = 0; i < config->count; i++) {
		free(config->files[i].path);
		mk_documents_release(&config->files[i].documents);
	}
}

#define cleanup_config __attribute__((cleanup(config_release)))

static int read_file(struct config *config, const char *path, struct mk_error *err)
{
	struct config_file *file = &config->files[config->count];
	cleanup_free char *text = NULL;
	size_t size;
	int ret = mk_file_read(path, CONFIG_MAX_BYTES, &text, &size, err);

	ret = ret ?: mk_yaml_parse(text, size, &file->documents, err);
	if (text)
		explicit_bzero(text, size);
	if (ret < 0)
		return mk_error_wrap(err, "kubeconfig '%s'", path);
	config->count++;
	file->path = strdup(path);
	if (!file->path)
		return mk_error_errno(err, ENOMEM, "kubeconfig '%s'", path);
	return 0;
}

/* A single file must exist. The environment variable may have a list, of which one
 * file must exist. */
static int read_files(struct config *config, const char *paths, struct mk_error *err)
{
	cleanup_free char *copy = strdup(paths);
	bool list = strchr(paths, ':') != NULL;
	char *rest = copy, *path;
	int ret = 0;

	if (!copy)
		return mk_error_errno(err, ENOMEM, "kubeconfig '%s'", paths);
	while (ret == 0 && (path = strsep(&rest, ":"))) {
		if (!*path || (list && access(path, F_OK) < 0 && errno == ENOENT))
			continue;
		if (config->count == FILES_MAX)
			return mk_error_set(err, E2BIG, "kubeconfig '%s': more than %d files",
					    paths, FILES_MAX);
		ret = read_file(config, path, err);
	}
	if (ret == 0 && config->count == 0)
		return mk_error_set(err, ENOENT, "kubeconfig '%s': none of these files exists",
				    paths);
	return ret;
}

static json_object *root_of(const struct config_file *file)
{
	return file->documents.count ? file->documents.items[0].tree : NULL;
}

/* Return the text of a member; NULL: missing or empty. */
static const char *text_of(json_object *object, const char *key)
{
	const char *text = mk_json_text(object, key);

	return *text ? text : NULL;
}

/* Find {name: @name, @key: VALUE} in the list @list, in the first file that has it. */
static int find(const struct config *config, const char *list, const char *key, const char *name,
		struct entry *entry, struct mk_error *err)
{
	for (size_t f = 0; f < config->count; f++) {
		json_object *items = mk_json_member(root_of(&config->files[f]), list);

		for (size_t i = 0; i < mk_json_length(items); i++) {
			json_object *item = json_object_array_get_idx(items, i);
			const char *has = text_of(item, "name");

			if (!has || strcmp(has, name) != 0)
				continue;
			*entry = (struct entry){ mk_json_member(item, key), &config->files[f], key,
						 name };
			return 0;
		}
	}
	return mk_error_set(err, ENOENT, "kubeconfig '%s': there is no %s '%s'", config->paths, key,
			    name);
}

static int wrong(const struct entry *entry, const char *key, const char *why, struct mk_error *err)
{
	return mk_error_set(err, EINVAL, "kubeconfig '%s': %s '%s': %s: %s", entry->file->path,
			    entry->what, entry->name, key, why);
}

/* A NULL @text gives NULL. */
static int copy_text(const char *text, char **copy, struct mk_error *err)
{
	*copy = text ? strdup(text) : NULL;
	return text && !*copy ? mk_error_errno(err, ENOMEM, "kubeconfig") : 0;
}

/* ---- files and inline data ------------------------------------------------------------------- */

static char *resolve(const struct config_file *file, const char *path)
{
	const char *slash = strrchr(file->path, '/');
	char *resolved;

	if (*path == '/' || !slash)
		return strdup(path);
	if (asprintf(&resolved, "%.*s/%s", (int)(slash - file->path), file->path, path) < 0)
		return NULL;
	return resolved;
}

static int secret_from_base64(const struct entry *entry, const char *key, const char *text,
			      struct mk_secret *secret, struct mk_error *err)
{
	unsigned char *decoded = malloc(strlen(text) + 1);
	ssize_t size = decoded ? mk_base64_decode(text, decoded) : 0;
	int ret = 0;

	if (!decoded)
		ret = mk_error_errno(err, ENOMEM, "kubeconfig");
	else if (size <= 0)
		ret = wrong(entry, key, "expected base64", err);
	else
		ret = secret_from_data(secret, decoded, (size_t)size, err);
	if (decoded)
		explicit_bzero(decoded, strlen(text));
	free(decoded);
	return ret;
}

static int secret_from_path(const struct entry *entry, const char *key, const char *path,
			    struct mk_secret *secret, struct mk_error *err)
{
	cleanup_free char *resolved = resolve(entry->file, path);
	int ret;

	if (!resolved)
		return mk_error_errno(err, ENOMEM, "kubeconfig");
	ret = secret_from_file(secret, resolved, err);
	if (ret < 0)
		mk_error_wrap(err, "kubeconfig '%s': %s '%s': %s", entry->file->path, entry->what,
			      entry->name, key);
	return ret;
}

/* @key-data, base64, takes precedence over @key, a path, as in kubectl. */
static int pem_of(const struct entry *entry, const char *key, struct mk_secret *secret,
		  struct mk_error *err)
{
	char data_key[64];
	const char *data, *path = text_of(entry->value, key);

	snprintf(data_key, sizeof(data_key), "%s-data", key);
	data = text_of(entry->value, data_key);
	if (data)
		return secret_from_base64(entry, data_key, data, secret, err);
	return path ? secret_from_path(entry, key, path, secret, err) : 0;
}

/* ---- cluster and user ------------------------------------------------------------------------ */

static int read_cluster(const struct entry *entry, struct mk_credentials *credentials,
			struct mk_error *err)
{
	json_object *insecure = mk_json_member(entry->value, "insecure-skip-tls-verify");
	int ret;

	if (insecure && !json_object_is_type(insecure, json_type_boolean))
		return wrong(entry, "insecure-skip-tls-verify", "expected true or false", err);
	credentials->insecure = json_object_get_boolean(insecure);
	ret = copy_text(text_of(entry->value, "server"), &credentials->server, err);
	if (ret == 0 && !credentials->server)
		ret = wrong(entry, "server", "is missing, expected a URL", err);
	ret = ret ?: mk_api_server_check(credentials->server, "server", err);
	if (ret < 0)
		return mk_error_wrap(err, "%s", credentials->origin);
	ret = copy_text(text_of(entry->value, "tls-server-name"), &credentials->server_name, err);
	ret = ret ?: copy_text(text_of(entry->value, "proxy-url"), &credentials->proxy, err);
	ret = ret ?: pem_of(entry, "certificate-authority", &credentials->authority, err);
	if (ret == 0 && credentials->insecure && credentials->authority.data)
		ret = wrong(entry, "insecure-skip-tls-verify",
			    "true together with a certificate-authority: expected one of the two",
			    err);
	return ret;
}

/* Plugins are programs for people who log in; nodes do not have them. */
static int refuse_plugins(const struct entry *entry, struct mk_error *err)
{
	static const char *const refused[] = { "exec", "auth-provider" };

	for (size_t i = 0; i < MK_ARRAY_SIZE(refused); i++)
		if (mk_json_member(entry->value, refused[i]))
			return mk_error_set(
				err, EOPNOTSUPP,
				"kubeconfig '%s': user '%s': %s: credential plugins are not supported; use a client certificate, token or tokenFile",
				entry->file->path, entry->name, refused[i]);
	return 0;
}

/* tokenFile takes precedence over token, as in client-go. */
static int read_token(const struct entry *entry, struct mk_secret *token, struct mk_error *err)
{
	const char *path = text_of(entry->value, "tokenFile");
	const char *text = text_of(entry->value, "token");

	if (path)
		return secret_from_path(entry, "tokenFile", path, token, err);
	return text ? secret_from_data(token, text, strlen(text), err) : 0;
}

static int read_user(const struct entry *entry, struct mk_credentials *credentials,
		     struct mk_error *err)
{
	int ret = refuse_plugins(entry, err);

	ret = ret ?: pem_of(entry, "client-certificate", &credentials->certificate, err);
	ret = ret ?: pem_of(entry, "client-key", &credentials->key, err);
	if (ret == 0 && !credentials->certificate.data != !credentials->key.data)
		ret = wrong(entry, credentials->key.data ? "client-certificate" : "client-key",
			    "is missing: certificate and key belong together", err);
	ret = ret ?: read_token(entry, &credentials->token, err);
	ret = ret ?: copy_text(text_of(entry->value, "username"), &credentials->username, err);
	return ret ?: copy_text(text_of(entry->value, "password"), &credentials->password, err);
}

static const char *current_context(const struct config *config)
{
	const char *name = NULL;

	for (size_t i = 0; i < config->count && !name; i++)
		name = text_of(root_of(&config->files[i]), "current-context");
	return name;
}

static int read_context(const struct config *config, const char *name,
			struct mk_credentials *credentials, struct mk_error *err)
{
	struct entry context, cluster, user;
	const char *cluster_name, *user_name;
	int ret = find(config, "contexts", "context", name, &context, err);

	if (ret < 0)
		return ret;
	cluster_name = text_of(context.value, "cluster");
	user_name = text_of(context.value, "user");
	if (!cluster_name)
		return wrong(&context, "cluster", "is missing", err);
	if (asprintf(&credentials->origin, "kubeconfig '%s', context '%s'", context.file->path,
		     name) < 0) {
		credentials->origin = NULL;
		return mk_error_errno(err, ENOMEM, "kubeconfig");
	}
	ret = find(config, "clusters", "cluster", cluster_name, &cluster, err);
	ret = ret ?: read_cluster(&cluster, credentials, err);
	if (ret == 0 && user_name)
		ret = find(config, "users", "user", user_name, &user, err);
	if (ret == 0 && user_name)
		ret = read_user(&user, credentials, err);
	return ret;
}

int kubeconfig_load(const char *paths, const char *context, struct mk_credentials *credentials,
		    struct mk_error *err)
{
	cleanup_config struct config config = { .paths = paths };
	int ret = read_files(&config, paths, err);

	if (ret < 0)
		return ret;
	if (!context || !*context)
		context = current_context(&config);
	if (!context)
		return mk_error_set(err, EINVAL, "kubeconfig '%s': current-context is missing",
				    paths);
	return read_context(&config, context, credentials, err);
}

// SPDX-License-Identifier: Apache-2.0
/* Read objects of the cluster once, from where the agent reads them. From an API server each list
 * is read as the agent reads it, and its watch is not begun. */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/file.h"
#include "base/state_file.h"
#include "cli/check/check.h"
#include "cluster/files/yaml_json.h"
#include "cluster/source.h"
#include "cluster/watch/reflector.h"

#define FILE_MAX_BYTES (64U * 1024 * 1024)
#define SILENCE_MS     5000 /* the server does not answer */

struct reading {
	void (*see)(void *ctx, json_object *tree);
	void *ctx;
	uv_loop_t loop;
	uv_timer_t look;
	struct mk_credentials credentials;
	struct mk_http *http;
	const struct mk_resource *resources;
	size_t count;
	bool done[CHECK_LISTS_MAX];
	size_t left; /* of the lists */
	size_t came, came_before; /* objects and ends of lists; at the last look */
	struct mk_reflector *reflectors[CHECK_LISTS_MAX];
};

/* ---- a directory ----------------------------------------------------------------------------- */

static bool is_of(json_object *tree, const struct mk_resource *resource)
{
	const char *version = mk_json_text(tree, "apiVersion"),
		   *older = resource->older_api_version;

	return strcmp(mk_json_text(tree, "kind"), resource->kind) == 0 &&
	       (strcmp(version, resource->api_version) == 0 ||
		(older && strcmp(version, older) == 0));
}

static void see_object(const struct reading *reading, json_object *tree)
{
	for (size_t i = 0; i < reading->count; i++)
		if (is_of(tree, &reading->resources[i]))
			reading->see(reading->ctx, tree);
}

static void see_document(const struct reading *reading, json_object *tree)
{
	json_object *items = mk_json_member(tree, "items");

	if (!json_object_is_type(items, json_type_array))
		see_object(reading, tree);
	for (size_t i = 0; i < mk_json_length(items); i++)
		see_object(reading, json_object_array_get_idx(items, i));
}

/* The agent reports files that it cannot read. */
static void read_file(const struct reading *reading, const char *folder, const char *name)
{
	cleanup_documents struct mk_documents documents = { 0 };
	cleanup_free char *text = NULL;
	const char *dot = strrchr(name, '.');
	char path[2 * PATH_MAX];
	size_t size;

	if (!dot ||
	    (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0 && strcmp(dot, ".json") != 0))
		return;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (mk_file_read(path, FILE_MAX_BYTES, &text, &size, NULL) < 0 ||
	    mk_yaml_parse(text, size, &documents, NULL) < 0)
		return;
	for (size_t i = 0; i < documents.count; i++)
		see_document(reading, documents.items[i].tree);
}

static int read_directory(const struct reading *reading, const char *path, struct mk_error *err)
{
	cleanup_closedir DIR *dir = opendir(path);

	if (!dir)
		return mk_error_errno(err, errno, "cannot read the cluster directory '%s'", path);
	for (struct dirent *entry; (entry = readdir(dir));)
		read_file(reading, path, entry->d_name);
	return 0;
}

/* ---- an API server --------------------------------------------------------------------------- */

static int on_object(void *ctx, const struct mk_resource *resource, json_object *tree,
		     struct mk_error *err)
{
	struct reading *reading = ctx;

	(void)resource;
	(void)err;
	reading->came++;
	reading->see(reading->ctx, tree);
	return 0;
}

static void on_gone(void *ctx, const struct mk_resource *resource, const char *namespace_,
		    const char *name)
{
	(void)ctx;
	(void)resource;
	(void)namespace_;
	(void)name;
}

/* The list is complete, or the server has none. */
static void on_done(void *ctx, const struct mk_resource *resource)
{
	struct reading *reading = ctx;
	bool *done = &reading->done[resource - reading->resources];

	reading->came++;
	reading->left -= !*done;
	*done = true;
	if (!reading->left)
		uv_stop(&reading->loop);
}

static void on_look(uv_timer_t *timer)
{
	struct reading *reading = timer->data;

	if (reading->came == reading->came_before)
		uv_stop(&reading->loop);
	reading->came_before = reading->came;
}

static int run(struct reading *reading, struct mk_error *err)
{
	const struct mk_reflector_sink sink = { .apply = on_object,
						.remove = on_gone,
						.listed = on_done,
						.absent = on_done,
						.ctx = reading };

	reading->http =
		mk_http_new(&reading->loop, &reading->credentials, &mk_http_limits_default, err);
	for (size_t i = 0; reading->http && i < reading->count; i++) {
		reading->reflectors[i] =
			mk_reflector_start(&reading->loop, reading->http, &reading->resources[i],
					   &mk_reflector_timing_default, &sink, err);
		if (!reading->reflectors[i])
			return -ENOMEM;
	}
	if (!reading->http)
		return -EINVAL;
	reading->left = reading->count;
	uv_timer_start(&reading->look, on_look, SILENCE_MS, SILENCE_MS);
	uv_run(&reading->loop, UV_RUN_DEFAULT);
	if (reading->left)
		return mk_error_set(
			err, ETIMEDOUT,
			"'%s' has sent nothing for %d s: check the network to it, and its log",
			reading->credentials.server, SILENCE_MS / 1000);
	return 0;
}

static void end(struct reading *reading)
{
	for (size_t i = 0; i < reading->count; i++)
		mk_reflector_stop(reading->reflectors[i]);
	if (reading->http)
		mk_http_free(reading->http);
	uv_close((uv_handle_t *)&reading->look, NULL);
	uv_run(&reading->loop, UV_RUN_DEFAULT);
	uv_loop_close(&reading->loop);
}

static int read_server(struct reading *reading, const struct mk_credentials_source *source,
		       struct mk_error *err)
{
	int ret = mk_credentials_load(source, &reading->credentials, err);

	if (ret == 0 && uv_loop_init(&reading->loop) == 0) {
		uv_timer_init(&reading->loop, &reading->look);
		reading->look.data = reading;
		ret = run(reading, err);
		end(reading);
	}
	mk_credentials_release(&reading->credentials);
	return ret;
}

/* ---- which of both --------------------------------------------------------------------------- */

struct source {
	char directory[PATH_MAX], kubeconfig[PATH_MAX], api_server[PATH_MAX];
};

static void take_line(struct source *source, const char *line)
{
	const struct {
		const char *key;
		char *value;
	} settings[] = { { "cluster-dir=", source->directory },
			 { "KUBECONFIG=", source->kubeconfig },
			 { "apiServer=", source->api_server } };

	for (size_t i = 0; i < MK_ARRAY_SIZE(settings); i++)
		if (strncmp(line, settings[i].key, strlen(settings[i].key)) == 0)
			snprintf(settings[i].value, PATH_MAX, "%s", line + strlen(settings[i].key));
}

static int find_source(const char *state_dir, struct source *source, struct mk_error *err)
{
	cleanup_free char *text = NULL;
	char *rest = NULL;
	int ret = mk_state_file_read(state_dir, MK_SETTINGS_NAME, &text, err);

	*source = (struct source){ 0 };
	if (ret == 0)
		return mk_error_set(err, ENOENT, "no agent has run here");
	if (ret < 0)
		return ret;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		take_line(source, line);
	return 0;
}

int check_read_objects(const struct mk_cli_options *options, const struct mk_resource *resources,
		       size_t count, void (*see)(void *ctx, json_object *tree), void *ctx,
		       struct mk_error *err)
{
	struct reading reading = { .see = see, .ctx = ctx, .resources = resources, .count = count };
	struct source source;
	int ret = find_source(options->state_dir, &source, err);
	const struct mk_credentials_source credentials = {
		.kubeconfig = *source.kubeconfig ? source.kubeconfig : NULL,
		.api_server = *source.api_server ? source.api_server : NULL,
		.service_account_dir = MK_SERVICE_ACCOUNT_DIR,
	};

	if (ret < 0)
		return ret;
	return *source.directory ? read_directory(&reading, source.directory, err)
				 : read_server(&reading, &credentials, err);
}

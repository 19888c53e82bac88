// SPDX-License-Identifier: Apache-2.0
#include "base/state_file.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"

#define MAX_BYTES (64 * 1024 * 1024)

int mk_state_path(const char *state_dir, const char *name, char path[PATH_MAX],
		  struct mk_error *err)
{
	if (snprintf(path, PATH_MAX, "%s/%s", state_dir, name) >= PATH_MAX)
		return mk_error_errno(err, ENAMETOOLONG, "state directory '%s'", state_dir);
	return 0;
}

int mk_state_file_begin(struct mk_state_file *file, const char *state_dir, const char *name,
			struct mk_error *err)
{
	int ret = mk_state_path(state_dir, name, file->path, err);

	if (ret < 0)
		return ret;
	file->out = open_memstream(&file->text, &file->size);
	if (!file->out)
		return mk_error_errno(err, ENOMEM, "cannot write '%s'", file->path);
	return 0;
}

int mk_state_file_write(struct mk_state_file *file, struct mk_error *err)
{
	int closed = fclose(file->out);
	cleanup_free char *text = file->text, *now = NULL;

	if (closed != 0)
		return mk_error_errno(err, ENOMEM, "cannot write '%s'", file->path);
	if (mk_file_read(file->path, MAX_BYTES, &now, NULL, NULL) == 0 && strcmp(now, text) == 0)
		return 0;
	return mk_file_replace(file->path, text, file->size, 0600, err);
}

int mk_state_file_read(const char *state_dir, const char *name, char **text, struct mk_error *err)
{
	char path[PATH_MAX];
	int lines = 1, ret = mk_state_path(state_dir, name, path, err);

	if (ret < 0)
		return ret;
	ret = mk_file_read(path, MAX_BYTES, text, NULL, err);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	for (const char *at = *text; *at; at++)
		lines += *at == '\n';
	return lines;
}

int mk_state_tree_write(const char *state_dir, const char *name, json_object *tree,
			struct mk_error *err)
{
	const char *text = mk_json_line(tree);
	struct mk_state_file file;
	int ret;

	if (!text)
		return mk_error_errno(err, ENOMEM, "cannot write file '%s'", name);
	ret = mk_state_file_begin(&file, state_dir, name, err);
	if (ret < 0)
		return ret;
	fprintf(file.out, "%s\n", text);
	return mk_state_file_write(&file, err);
}

int mk_state_tree_read(const char *state_dir, const char *name, int version, json_object **tree,
		       struct mk_error *err)
{
	cleanup_free char *text = NULL;
	int ret = mk_state_file_read(state_dir, name, &text, err);

	*tree = NULL;
	if (ret <= 0)
		return ret;
	*tree = json_tokener_parse(text);
	if (mk_json_number(*tree, "version") == version)
		return 0;
	json_object_put(*tree);
	*tree = NULL;
	return mk_error_set(
		err, EPROTO,
		"file '%s' in '%s' is not of version %d: use the binary of the agent that wrote it",
		name, state_dir, version);
}

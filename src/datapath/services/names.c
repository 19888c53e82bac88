// SPDX-License-Identifier: Apache-2.0
#include "datapath/services/names.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "datapath/services/services_internal.h"

#define MAX_BYTES (64 * 1024 * 1024)

static int names_path(char *path, const char *state_dir, const char *suffix, struct mk_error *err)
{
	if (snprintf(path, PATH_MAX, "%s/" MK_NAMES_FILE "%s", state_dir, suffix) >= PATH_MAX)
		return mk_error_set(err, ENAMETOOLONG, "state directory '%s'", state_dir);
	return 0;
}

/* ---- written by the agent ------------------------------------------------------------------- */

static void write_line(void *ctx, uint32_t service_id, const char *name)
{
	fprintf(ctx, "%u %s\n", service_id, name);
}

static int write_file(const char *path, const struct mk_service_sync *sync, struct mk_error *err)
{
	cleanup_close int fd = mk_file_create(path, O_WRONLY | O_TRUNC, 0600, err);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	bool failed;

	if (!file)
		return fd < 0 ? fd : mk_error_errno(err, errno, "cannot write '%s'", path);
	mk_steal_fd(&fd);
	service_sync_each_id(sync, write_line, file);
	failed = ferror(file);
	if (fclose(file) != 0 || failed)
		return mk_error_errno(err, errno ? errno : EIO, "cannot write '%s'", path);
	return 0;
}

int mk_names_write(const char *state_dir, const struct mk_service_sync *sync, struct mk_error *err)
{
	char path[PATH_MAX], temporary[PATH_MAX];
	int ret = names_path(path, state_dir, "", err);

	if (ret == 0)
		ret = names_path(temporary, state_dir, ".new", err);
	if (ret == 0)
		ret = write_file(temporary, sync, err);
	if (ret == 0 && rename(temporary, path) < 0)
		ret = mk_error_errno(err, errno, "cannot replace '%s'", path);
	return ret;
}

/* ---- read ------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
	const struct mk_service_name *x = a, *y = b;

	return (x->service_id > y->service_id) - (x->service_id < y->service_id);
}

static void take_line(struct mk_service_names *names, char *line)
{
	char *end;
	unsigned long id = strtoul(line, &end, 10);

	if (end == line || *end != ' ' || end[1] == '\0' || id == 0 || id > UINT32_MAX)
		return;
	names->list[names->count++] =
		(struct mk_service_name){ .service_id = (uint32_t)id, .name = end + 1 };
}

int mk_names_read(const char *state_dir, struct mk_service_names *names, struct mk_error *err)
{
	char path[PATH_MAX], *rest = NULL;
	size_t lines = 0;
	int ret = names_path(path, state_dir, "", err);

	*names = (struct mk_service_names){ 0 };
	if (ret == 0)
		ret = mk_file_read_lines(path, MAX_BYTES, &names->text, &lines, err);
	if (ret < 0 || lines == 0)
		return ret;
	names->list = calloc(lines, sizeof(*names->list));
	if (!names->list)
		return mk_error_errno(err, ENOMEM, "cannot read '%s'", path);
	for (char *line = strtok_r(names->text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		take_line(names, line);
	qsort(names->list, names->count, sizeof(*names->list), compare);
	return 0;
}

void mk_names_release(struct mk_service_names *names)
{
	free(names->list);
	free(names->text);
	*names = (struct mk_service_names){ 0 };
}

const char *mk_names_find(const struct mk_service_names *names, uint32_t service_id)
{
	const struct mk_service_name key = { .service_id = service_id };
	const struct mk_service_name *found =
		names->count ? bsearch(&key, names->list, names->count, sizeof(key), compare)
			     : NULL;

	return found ? found->name : NULL;
}

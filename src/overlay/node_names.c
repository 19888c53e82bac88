// SPDX-License-Identifier: Apache-2.0
#include "overlay/node_names.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"

#define MAX_BYTES (4 * 1024 * 1024)

static int names_path(char *path, const char *state_dir, struct mk_error *err)
{
	if (snprintf(path, PATH_MAX, "%s/" MK_NODE_NAMES_FILE, state_dir) >= PATH_MAX)
		return mk_error_set(err, ENAMETOOLONG, "state directory '%s'", state_dir);
	return 0;
}

/* Returns NULL if out of memory. */
static char *names_text(const struct mk_overlay_view *view, const struct mk_overlay_plan *plan,
			size_t *size)
{
	char *text = NULL, cidr[MK_CIDR_STRLEN];
	FILE *stream = open_memstream(&text, size);

	if (!stream)
		return NULL;
	fprintf(stream, "%s %s\n", mk_cidr_format(&view->own_pod_cidr, cidr), view->own_node);
	for (size_t i = 0; i < plan->peer_count; i++)
		fprintf(stream, "%s %s\n", mk_cidr_format(&plan->peers[i].pod_cidr, cidr),
			plan->peers[i].node);
	if (fclose(stream) != 0)
		free(mk_steal_ptr(text));
	return text;
}

int mk_node_names_write(const char *state_dir, const struct mk_overlay_view *view,
			const struct mk_overlay_plan *plan, struct mk_error *err)
{
	cleanup_free char *text = NULL, *now = NULL;
	char path[PATH_MAX];
	size_t size = 0;
	int ret = names_path(path, state_dir, err);

	if (ret < 0)
		return ret;
	text = names_text(view, plan, &size);
	if (!text)
		return mk_error_errno(err, ENOMEM, "cannot write '%s'", path);
	if (mk_file_read(path, MAX_BYTES, &now, NULL, NULL) == 0 && strcmp(now, text) == 0)
		return 0;
	return mk_file_replace(path, text, size, 0600, err);
}

/* ---- read ------------------------------------------------------------------------------------ */

static void take_line(struct mk_node_names *names, char *line)
{
	struct mk_node_name *name = &names->list[names->count];
	char *blank = strchr(line, ' ');

	if (!blank || blank[1] == '\0')
		return;
	*blank = '\0';
	name->name = blank + 1;
	names->count += mk_cidr_parse(line, &name->pod_cidr) == 0;
}

int mk_node_names_read(const char *state_dir, struct mk_node_names *names, struct mk_error *err)
{
	char path[PATH_MAX], *rest = NULL;
	size_t lines = 0;
	int ret = names_path(path, state_dir, err);

	*names = (struct mk_node_names){ 0 };
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
	return 0;
}

void mk_node_names_release(struct mk_node_names *names)
{
	free(names->list);
	free(names->text);
	*names = (struct mk_node_names){ 0 };
}

const char *mk_node_names_find(const struct mk_node_names *names, const struct mk_ip *ip)
{
	for (size_t i = 0; i < names->count; i++)
		if (mk_cidr_contains(&names->list[i].pod_cidr, ip))
			return names->list[i].name;
	return NULL;
}

// SPDX-License-Identifier: Apache-2.0
#include "datapath/services/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/state_file.h"
#include "datapath/services/services_internal.h"

/* ---- written by the agent ------------------------------------------------------------------- */

static void write_line(void *ctx, uint32_t service_id, const char *name)
{
	fprintf(ctx, "%u %s\n", service_id, name);
}

static const char *file_of(sa_family_t family)
{
	return family == AF_INET6 ? MK_NAMES_FILE_IPV6 : MK_NAMES_FILE;
}

int mk_names_write(const char *state_dir, sa_family_t family, const struct mk_service_sync *sync,
		   struct mk_error *err)
{
	struct mk_state_file file;
	int ret = mk_state_file_begin(&file, state_dir, file_of(family), err);

	if (ret < 0)
		return ret;
	service_sync_each_id(sync, write_line, file.out);
	return mk_state_file_write(&file, err);
}

/* ---- read ------------------------------------------------------------------------------------ */

static void take_line(struct mk_service_names *names, char *line)
{
	char *end;
	unsigned long id = strtoul(line, &end, 10);

	if (end == line || *end != ' ' || end[1] == '\0' || id == 0 || id > UINT32_MAX)
		return;
	names->list[names->count++] =
		(struct mk_service_name){ .service_id = (uint32_t)id, .name = end + 1 };
}

int mk_names_read(const char *state_dir, sa_family_t family, struct mk_service_names *names,
		  struct mk_error *err)
{
	char *rest = NULL;
	int lines;

	*names = (struct mk_service_names){ 0 };
	lines = mk_state_file_read(state_dir, file_of(family), &names->text, err);
	if (lines <= 0)
		return lines;
	names->list = calloc((size_t)lines, sizeof(*names->list));
	if (!names->list)
		return mk_error_errno(err, ENOMEM, "cannot read the names of Services");
	for (char *line = strtok_r(names->text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		take_line(names, line);
	qsort(names->list, names->count, sizeof(*names->list), mk_compare_ids);
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
	const struct mk_service_name *found =
		mk_find(&service_id, names->list, names->count, mk_compare_ids);

	return found ? found->name : NULL;
}

// SPDX-License-Identifier: Apache-2.0
#include "overlay/node_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/state_file.h"

static void put_line(FILE *out, const struct mk_cidr *pod_cidr, const char *node)
{
	char cidr[MK_CIDR_STRLEN];

	fprintf(out, "%s %s\n", mk_cidr_format(pod_cidr, cidr), node);
}

int mk_node_names_write(const char *state_dir, const char *own_node,
			const struct mk_node_names_input *families, size_t count,
			struct mk_error *err)
{
	struct mk_state_file file;
	int ret = mk_state_file_begin(&file, state_dir, MK_NODE_NAMES_FILE, err);

	if (ret < 0)
		return ret;
	for (size_t i = 0; i < count; i++)
		put_line(file.out, &families[i].own_pod_cidr, own_node);
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < families[i].plan->peer_count; j++)
			put_line(file.out, &families[i].plan->peers[j].pod_cidr,
				 families[i].plan->peers[j].node);
	return mk_state_file_write(&file, err);
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
	char *rest = NULL;
	int lines;

	*names = (struct mk_node_names){ 0 };
	lines = mk_state_file_read(state_dir, MK_NODE_NAMES_FILE, &names->text, err);
	if (lines <= 0)
		return lines;
	names->list = calloc((size_t)lines, sizeof(*names->list));
	if (!names->list)
		return mk_error_errno(err, ENOMEM, "cannot read the names of nodes");
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

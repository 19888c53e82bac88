// SPDX-License-Identifier: Apache-2.0
#include "overlay/node_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/state_file.h"

#define LEFT_OUT "left-out "

static void write_plan(FILE *out, const struct mk_overlay_view *view,
		       const struct mk_overlay_plan *plan)
{
	char cidr[MK_CIDR_STRLEN], key[MK_WG_KEY_STRLEN];

	fprintf(out, "%s %s\n",
		mk_cidr_format(&view->own_pod_cidrs[mk_family_index(view->family)], cidr),
		view->own_node);
	for (size_t i = 0; i < plan->peer_count; i++) {
		const struct mk_overlay_peer *peer = &plan->peers[i];

		fprintf(out, "%s %s", mk_cidr_format(&peer->pod_cidr, cidr), peer->node);
		if (peer->wireguard.port)
			fprintf(out, " %s:%u", mk_wg_key_format(peer->wireguard.key, key),
				peer->wireguard.port);
		fputc('\n', out);
	}
	for (size_t i = 0; i < plan->left_out_count; i++)
		if (plan->left_out[i].wrong)
			fprintf(out, LEFT_OUT "%s %s\n", plan->left_out[i].node,
				plan->left_out[i].reason);
}

/* Lines of a family that the node does not run any more are not written again. */
static void write_others(FILE *out, const struct mk_overlay_view *view,
			 const struct mk_node_names *names)
{
	sa_family_t other = view->family == AF_INET6 ? AF_INET : AF_INET6;
	char cidr[MK_CIDR_STRLEN];

	if (view->cluster_cidrs[mk_family_index(other)].ip.family == AF_UNSPEC)
		return;
	for (size_t i = 0; i < names->count; i++)
		if (names->list[i].pod_cidr.ip.family == other)
			fprintf(out, "%s %s%s%s\n", mk_cidr_format(&names->list[i].pod_cidr, cidr),
				names->list[i].name, names->list[i].wireguard ? " " : "",
				names->list[i].wireguard ?: "");
	for (size_t i = 0; i < names->left_out_count; i++)
		if (names->left_out[i].family == other)
			fprintf(out, LEFT_OUT "%s %s\n", names->left_out[i].name,
				names->left_out[i].reason);
}

int mk_node_names_write(const char *state_dir, const struct mk_overlay_view *view,
			const struct mk_overlay_plan *plan, struct mk_error *err)
{
	struct mk_state_file file;
	struct mk_node_names names;
	int ret = mk_node_names_read(state_dir, &names, err);

	ret = ret ?: mk_state_file_begin(&file, state_dir, MK_NODE_NAMES_FILE, err);
	if (ret == 0) {
		if (view->family == AF_INET6)
			write_others(file.out, view, &names);
		write_plan(file.out, view, plan);
		if (view->family == AF_INET)
			write_others(file.out, view, &names);
		ret = mk_state_file_write(&file, err);
	}
	mk_node_names_release(&names);
	return ret;
}

/* ---- read ------------------------------------------------------------------------------------ */

/* It belongs to the family of the line before. */
static void take_left_out(struct mk_node_names *names, char *line)
{
	char *blank = strchr(line, ' ');

	if (!blank || names->count == 0)
		return;
	*blank = '\0';
	names->left_out[names->left_out_count++] = (struct mk_node_left_out){
		.family = names->list[names->count - 1].pod_cidr.ip.family,
		.name = line,
		.reason = blank + 1,
	};
}

static void take_line(struct mk_node_names *names, char *line)
{
	struct mk_node_name *name = &names->list[names->count];
	char *blank = strchr(line, ' ');

	if (!blank || blank[1] == '\0')
		return;
	if (strncmp(line, LEFT_OUT, strlen(LEFT_OUT)) == 0) {
		take_left_out(names, blank + 1);
		return;
	}
	*blank = '\0';
	name->name = blank + 1;
	blank = strchr(name->name, ' ');
	if (blank) {
		*blank = '\0';
		name->wireguard = blank + 1;
	}
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
	names->left_out = calloc((size_t)lines, sizeof(*names->left_out));
	if (!names->list || !names->left_out)
		return mk_error_errno(err, ENOMEM, "cannot read the names of nodes");
	for (char *line = strtok_r(names->text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		take_line(names, line);
	return 0;
}

void mk_node_names_release(struct mk_node_names *names)
{
	free(names->list);
	free(names->left_out);
	free(names->text);
	*names = (struct mk_node_names){ 0 };
}

const char *mk_node_names_wireguard(const struct mk_node_names *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++)
		if (names->list[i].wireguard && strcmp(names->list[i].name, name) == 0)
			return names->list[i].wireguard;
	return NULL;
}

static int compare_keys(const void *left, const void *right)
{
	const struct mk_node_name *a = left, *b = right;

	return strncmp(a->wireguard, b->wireguard, MK_WG_KEY_STRLEN - 1)
		       ?: strcmp(a->name, b->name);
}

static bool are_twins(const struct mk_node_name *a, const struct mk_node_name *b)
{
	return strncmp(a->wireguard, b->wireguard, MK_WG_KEY_STRLEN - 1) == 0 &&
	       strcmp(a->name, b->name) != 0;
}

int mk_node_names_each_twins(const struct mk_node_names *names, const char *own,
			     mk_node_names_twins_fn *see, void *ctx, struct mk_error *err)
{
	struct mk_node_name *sorted = calloc(names->count + 1, sizeof(*sorted));
	size_t count = 0;

	if (!sorted)
		return mk_error_errno(err, ENOMEM, "cannot compare the keys of nodes");
	for (size_t i = 0; i < names->count; i++) {
		sorted[count] = names->list[i];
		if (strcmp(names->list[i].name, names->list[0].name) == 0)
			sorted[count].wireguard = own;
		count += sorted[count].wireguard != NULL;
	}
	qsort(sorted, count, sizeof(*sorted), compare_keys);
	for (size_t i = 1; i < count; i++)
		if (are_twins(&sorted[i - 1], &sorted[i]))
			see(ctx, sorted[i - 1].name, sorted[i].name);
	free(sorted);
	return 0;
}

int mk_node_names_keep_keys(const char *state_dir, struct mk_overlay_plan *plan,
			    struct mk_error *err)
{
	struct mk_node_names names;
	int ret = mk_node_names_read(state_dir, &names, err);

	for (size_t i = 0; ret == 0 && i < plan->peer_count; i++) {
		struct mk_overlay_peer *peer = &plan->peers[i];
		const char *text =
			peer->wireguard.port ? NULL : mk_node_names_wireguard(&names, peer->node);

		if (text)
			(void)mk_wg_public_parse(text, &peer->wireguard);
	}
	mk_node_names_release(&names);
	return ret;
}

const char *mk_node_names_find(const struct mk_node_names *names, const struct mk_ip *ip)
{
	for (size_t i = 0; i < names->count; i++)
		if (mk_cidr_contains(&names->list[i].pod_cidr, ip))
			return names->list[i].name;
	return NULL;
}

// SPDX-License-Identifier: Apache-2.0
/* The part of this node's object that the next run needs before the API server answers. It is
 * stored as a Kubernetes Node and read by the same model. */
#include <json-c/json.h>
#include <stdio.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/state_file.h"
#include "host/record.h"

static void put_pod_cidrs(FILE *out, const struct mk_node_object *object)
{
	const char *separator = "";
	char text[MK_CIDR_STRLEN];

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		if (object->pod_cidrs[i].ip.family == AF_UNSPEC)
			continue;
		fprintf(out, "%s\"%s\"", separator, mk_cidr_format(&object->pod_cidrs[i], text));
		separator = ", ";
	}
}

/* The model keeps the type only of each family's first InternalIP; the others are written as
 * ExternalIP. */
static void put_addresses(FILE *out, const struct mk_node_object *object)
{
	const char *separator = "";
	char text[MK_IP_STRLEN];

	for (size_t i = 0; i < object->address_count; i++) {
		const struct mk_ip *ip = &object->addresses[i];

		fprintf(out, "%s{\"type\": \"%s\", \"address\": \"%s\"}", separator,
			mk_ips_contain(object->internal_ips, MK_FAMILIES, ip) ? "InternalIP"
									      : "ExternalIP",
			mk_ip_format(ip, text));
		separator = ", ";
	}
}

int remember_node(struct mk_own_node *node, struct mk_error *err)
{
	const struct mk_config *config = &node->core->config;
	const struct mk_node_object *object = mk_model_node(node->core->model, config->node_name);
	struct mk_error why = { 0 };
	struct mk_state_file file;

	(void)err;
	if (mk_state_file_begin(&file, config->state_dir, MK_NODE_OBJECT_NAME, &why) < 0)
		goto failed;
	fprintf(file.out,
		"{\"apiVersion\": \"v1\", \"kind\": \"Node\",\n \"metadata\": {\"name\": \"%s\"",
		object->name);
	if (object->control_plane)
		fprintf(file.out,
			", \"labels\": {\"node-role.kubernetes.io/control-plane\": \"\"}");
	fprintf(file.out, "},\n \"spec\": {\"podCIDRs\": [");
	put_pod_cidrs(file.out, object);
	fprintf(file.out, "]},\n \"status\": {\"addresses\": [");
	put_addresses(file.out, object);
	fprintf(file.out, "]}}\n");
	if (mk_state_file_write(&file, &why) == 0)
		return 0;
failed:
	mk_log_error("cannot store this node's object for the next start: %s", mk_error_text(&why));
	return 0;
}

static struct mk_model *read_node(const char *text, struct mk_error *err)
{
	struct mk_model *model = mk_model_new();
	json_object *tree = json_tokener_parse(text);
	int ret = -EINVAL;

	if (!model || !tree)
		(void)mk_error_set(err, EINVAL, "it is no JSON");
	else
		ret = mk_model_apply(model, tree, err);
	json_object_put(tree);
	if (ret < 0)
		mk_model_free(mk_steal_ptr(model));
	return model;
}

/* Without the file the agent waits for the first list. */
void mk_own_node_recall(struct mk_own_node *node)
{
	const char *state_dir = node->core->config.state_dir;
	cleanup_free char *text = NULL;
	struct mk_error err = { 0 };

	if (mk_state_file_read(state_dir, MK_NODE_OBJECT_NAME, &text, &err) <= 0)
		return;
	node->remembered = read_node(text, &err);
	if (!node->remembered)
		mk_log_warn("'%s/" MK_NODE_OBJECT_NAME "' is not used: %s", state_dir,
			    mk_error_text(&err));
	else
		node->core->unsure |= MK_UNSURE_NODE;
}

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

/* The model keeps the type only of the first InternalIP; the others are written as ExternalIP. */
static void put_addresses(FILE *out, const struct mk_node_object *object)
{
	char text[MK_IP_STRLEN];

	fprintf(out, "{\"type\": \"InternalIP\", \"address\": \"%s\"}",
		mk_ip_format(&object->internal_ip, text));
	for (size_t i = 0; i < object->address_count; i++)
		if (!mk_ip_equal(&object->addresses[i], &object->internal_ip))
			fprintf(out, ", {\"type\": \"ExternalIP\", \"address\": \"%s\"}",
				mk_ip_format(&object->addresses[i], text));
}

int remember_node(struct mk_own_node *node, struct mk_error *err)
{
	const struct mk_config *config = &node->core->config;
	const struct mk_node_object *object = mk_model_node(node->core->model, config->node_name);
	struct mk_error why = { 0 };
	struct mk_state_file file;
	char cidr[MK_CIDR_STRLEN];

	(void)err;
	if (mk_state_file_begin(&file, config->state_dir, MK_NODE_OBJECT_NAME, &why) < 0)
		goto failed;
	fprintf(file.out,
		"{\"apiVersion\": \"v1\", \"kind\": \"Node\",\n \"metadata\": {\"name\": \"%s\"",
		object->name);
	if (object->control_plane)
		fprintf(file.out,
			", \"labels\": {\"node-role.kubernetes.io/control-plane\": \"\"}");
	fprintf(file.out, "},\n \"spec\": {\"podCIDR\": \"%s\"},\n \"status\": {\"addresses\": [",
		mk_cidr_format(&object->pod_cidr, cidr));
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

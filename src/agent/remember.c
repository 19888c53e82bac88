// SPDX-License-Identifier: Apache-2.0
/* The part of this node's object that the next run needs before the API server answers. It is
 * stored as a Kubernetes Node and read by the same model. */
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "host/record.h"

#define FILE_MAX_BYTES 65536

static int path_of(const struct mk_agent *agent, char path[PATH_MAX])
{
	int size = snprintf(path, PATH_MAX, "%s/" MK_NODE_OBJECT_NAME, agent->config.state_dir);

	return size < PATH_MAX ? 0 : -ENAMETOOLONG;
}

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

static char *text_of(const struct mk_node_object *object)
{
	char cidr[MK_CIDR_STRLEN], *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fprintf(out,
		"{\"apiVersion\": \"v1\", \"kind\": \"Node\",\n \"metadata\": {\"name\": \"%s\"",
		object->name);
	if (object->control_plane)
		fprintf(out, ", \"labels\": {\"node-role.kubernetes.io/control-plane\": \"\"}");
	fprintf(out, "},\n \"spec\": {\"podCIDR\": \"%s\"},\n \"status\": {\"addresses\": [",
		mk_cidr_format(&object->pod_cidr, cidr));
	put_addresses(out, object);
	fprintf(out, "]}}\n");
	if (fclose(out) != 0)
		free(mk_steal_ptr(text));
	return text;
}

void agent_remember_node(struct mk_agent *agent, const struct mk_node_object *object)
{
	char *text = object ? text_of(object) : NULL;
	struct mk_error err = { 0 };
	char path[PATH_MAX];

	if (!text || (agent->remembered_text && strcmp(text, agent->remembered_text) == 0)) {
		free(text);
		return;
	}
	free(agent->remembered_text);
	agent->remembered_text = text;
	if (path_of(agent, path) < 0 || mk_file_replace(path, text, strlen(text), 0600, &err) < 0)
		mk_log_error("cannot store this node's object for the next start: %s",
			     mk_error_text(&err));
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
void agent_recall_node(struct mk_agent *agent)
{
	struct mk_error err = { 0 };
	char path[PATH_MAX];
	int ret = path_of(agent, path);

	if (ret == 0)
		ret = mk_file_read(path, FILE_MAX_BYTES, &agent->remembered_text, NULL, &err);
	if (ret < 0)
		return;
	agent->remembered = read_node(agent->remembered_text, &err);
	if (!agent->remembered)
		mk_log_warn("'%s' is not used: %s", path, mk_error_text(&err));
	else
		agent->node_dirty = true;
}

// SPDX-License-Identifier: Apache-2.0
/* The inbox of a branch whose API server cannot be reached: a namespace of the inviting cluster, in
 * which the branch's token may write, and the agents may read. */
#include "base/json.h"
#include "cli/peer/peer.h"

int inbox_name_check(const char *name, struct mk_error *err)
{
	char space[NAME_BYTES];

	inbox_namespace(name, space);
	if (mk_is_dns_label(space))
		return 0;
	return mk_error_set(
		err, EINVAL,
		"cluster '%s': its inbox would be namespace '%s' of %zu characters, expected at most 63: give the branch a shorter clusterName",
		name, space, strlen(space));
}

void inbox_namespace(const char *name, char space[NAME_BYTES])
{
	snprintf(space, NAME_BYTES, MK_INBOX_PREFIX "%s", name);
}

static json_object *new_namespace(const char *name, const char *space)
{
	json_object *object = json_object_new_object(), *metadata = json_object_new_object(),
		    *labels = json_object_new_object();

	mk_put_text(object, "apiVersion", "v1");
	mk_put_text(object, "kind", "Namespace");
	mk_put_text(metadata, "name", space);
	mk_put_text(labels, MK_CLUSTER_LABEL, name);
	json_object_object_add(metadata, "labels", labels);
	json_object_object_add(object, "metadata", metadata);
	return object;
}

json_object *inbox_object(const char *name, size_t index)
{
	char space[NAME_BYTES], invite[NAME_BYTES];
	struct invite_binding binding = { .cluster = name,
					  .namespace_ = space,
					  .name = invite,
					  .role_kind = "ClusterRole",
					  .role = "monokube-inbox-writer",
					  .account = invite,
					  .account_namespace = MK_PEERS_NAMESPACE };

	inbox_namespace(name, space);
	snprintf(invite, sizeof(invite), INVITE_PREFIX "%s", name);
	if (index == 0)
		return new_namespace(name, space);
	if (index == 1)
		return invite_bind(&binding);
	binding.name = binding.account = "monokube";
	binding.account_namespace = "kube-system";
	binding.role = "monokube-inbox-reader";
	return invite_bind(&binding);
}

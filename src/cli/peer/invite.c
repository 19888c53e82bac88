// SPDX-License-Identifier: Apache-2.0
/* `monokube peer invite`: what lets another cluster read what this one publishes. It needs neither
 * an agent nor a server. */
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/peer/peer.h"
#include "host/record.h"

#define RBAC_GROUP "rbac.authorization.k8s.io"

int cluster_name_check(const char *what, const char *name, struct mk_error *err)
{
	if (mk_is_dns_label(name))
		return 0;
	return mk_error_set(
		err, EINVAL,
		"%s: value '%s', expected a clusterName: 1 to 63 lower case letters, digits and '-', which begin and end with no '-'",
		what, name);
}

/* ---- objects --------------------------------------------------------------------------------- */

static json_object *add_object(json_object *to, const char *key)
{
	json_object *object = json_object_new_object();

	json_object_object_add(to, key, object);
	return object;
}

/* The object @name in @namespace_, of cluster @cluster. */
static json_object *new_object(const char *version, const char *kind, const char *namespace_,
			       const char *name, const char *cluster)
{
	json_object *object = json_object_new_object(), *metadata, *labels;

	mk_put_text(object, "apiVersion", version);
	mk_put_text(object, "kind", kind);
	metadata = add_object(object, "metadata");
	mk_put_text(metadata, "name", name);
	mk_put_text(metadata, "namespace", namespace_);
	labels = add_object(metadata, "labels");
	mk_put_text(labels, MK_CLUSTER_LABEL, cluster);
	return object;
}

/* The object invite-NAME in monokube-peers. */
static json_object *new_invite(const char *kind, const char *name)
{
	char invite[NAME_BYTES];

	snprintf(invite, sizeof(invite), INVITE_PREFIX "%s", name);
	return new_object("v1", kind, MK_PEERS_NAMESPACE, invite, name);
}

json_object *invite_account(const char *name)
{
	json_object *object = new_invite("ServiceAccount", name);

	mk_put_flag(object, "automountServiceAccountToken", false);
	return object;
}

json_object *invite_bind(const struct invite_binding *binding)
{
	json_object *object = new_object(RBAC_GROUP "/v1", "RoleBinding", binding->namespace_,
					 binding->name, binding->cluster);
	json_object *role = add_object(object, "roleRef"), *subjects = json_object_new_array(),
		    *subject = json_object_new_object();

	mk_put_text(role, "apiGroup", RBAC_GROUP);
	mk_put_text(role, "kind", binding->role_kind);
	mk_put_text(role, "name", binding->role);
	mk_put_text(subject, "kind", "ServiceAccount");
	mk_put_text(subject, "name", binding->account);
	mk_put_text(subject, "namespace", binding->account_namespace);
	json_object_array_add(subjects, subject);
	json_object_object_add(object, "subjects", subjects);
	return object;
}

json_object *invite_reader(const char *name)
{
	char invite[NAME_BYTES];
	const struct invite_binding binding = { .cluster = name,
						.namespace_ = PUBLISHED_NAMESPACE,
						.name = invite,
						.role_kind = "Role",
						.role = READER_ROLE,
						.account = invite,
						.account_namespace = MK_PEERS_NAMESPACE };

	snprintf(invite, sizeof(invite), INVITE_PREFIX "%s", name);
	return invite_bind(&binding);
}

json_object *invite_secret(const char *name, const char *own, bool has_inbox)
{
	json_object *object = new_invite("Secret", name), *annotations;

	annotations = add_object(mk_json_member(object, "metadata"), "annotations");
	mk_put_text(annotations, "kubernetes.io/service-account.name",
		    mk_json_metadata(object, "name"));
	if (own)
		mk_put_text(annotations, INVITED_BY, own);
	if (has_inbox)
		mk_put_text(annotations, INVITED_WITH_INBOX, "true");
	mk_put_text(object, "type", TOKEN_TYPE);
	return object;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_and_put(json_object *object)
{
	yaml_print(stdout, object);
	json_object_put(object);
}

static void print_inbox(const char *name)
{
	const struct peer_ticket peer = { .cluster = name, .has_inbox = true };

	for (size_t i = 0; i < INBOX_OBJECTS; i++)
		print_and_put(inbox_object(name, i));
	print_and_put(ticket_peer(&peer));
}

/* Without a name of this cluster, `ticket` needs its --cluster. */
static int invite(const struct mk_cli_options *options, struct mk_error *err)
{
	const char *name = options->words[0], *own = options->cluster;
	struct mk_record record;
	int ret = cluster_name_check("NAME", name, err);

	ret = ret ?: mk_record_read(options->state_dir, &record, err);
	if (ret == 0 && own)
		ret = cluster_name_check("flag --cluster", own, err);
	if (ret == 0 && options->inbox)
		ret = inbox_name_check(name, err);
	if (ret < 0)
		return ret;
	if (!own && *record.cluster_name)
		own = record.cluster_name;
	if (own && strcmp(own, name) == 0)
		return mk_error_set(
			err, EINVAL,
			"NAME: value '%s' is this cluster itself, expected the clusterName of another one",
			name);
	print_and_put(invite_account(name));
	print_and_put(invite_reader(name));
	if (options->inbox)
		print_inbox(name);
	print_and_put(invite_secret(name, own, options->inbox));
	return 0;
}

int mk_cli_peer_invite(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret == 0)
		ret = invite(&options, &err);
	return ret < 0 ? mk_cli_fail(argv[0], &err) : 0;
}

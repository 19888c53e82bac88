// SPDX-License-Identifier: Apache-2.0
/* `monokube peer ticket`: from the Secret of an invitation to the objects for the invited cluster.
 * No message has a part of the Secret's data. */
#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/peer/peer.h"
#include "cluster/api/credentials.h"
#include "cluster/files/encoding.h"
#include "cluster/files/yaml_json.h"
#include "host/record.h"

#define INPUT_BYTES_MAX (1 << 20)
#define PIPE		"pipe `kubectl -n " MK_PEERS_NAMESPACE " get secret " INVITE_PREFIX "NAME -o json` in"

/* ---- the Secret of an invitation ------------------------------------------------------------- */

static bool is_token(const unsigned char *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (!isgraph(data[i]))
			return false;
	return size > 0;
}

static bool is_pem(const unsigned char *data, size_t size)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----";

	return memmem(data, size, begin, strlen(begin)) != NULL;
}

/* Check that @text is base64 of what @is accepts. */
static int check_data(const char *secret, const char *key, const char *text,
		      bool (*is)(const unsigned char *data, size_t size), const char *expected,
		      struct mk_error *err)
{
	unsigned char *data = malloc(strlen(text) + 1);
	ssize_t size = data ? mk_base64_decode(text, data) : 0;
	bool is_good = data && size >= 0 && is(data, (size_t)size);

	if (data)
		explicit_bzero(data, strlen(text) + 1);
	free(data);
	if (is_good)
		return 0;
	return mk_error_set(err, EINVAL, "Secret '%s': data.%s: expected base64 of %s; " PIPE,
			    secret, key, expected);
}

static int check_kind(json_object *secret, struct mk_error *err)
{
	const char *kind = mk_json_text(secret, "kind"), *type = mk_json_text(secret, "type");
	const char *name = mk_json_metadata(secret, "name");

	if (strcmp(kind, "Secret") != 0)
		return mk_error_set(err, EINVAL,
				    "standard input: kind '%s', expected one Secret; " PIPE, kind);
	if (strcmp(type, TOKEN_TYPE) != 0)
		return mk_error_set(err, EINVAL,
				    "Secret '%s': type '%s', expected " TOKEN_TYPE "; " PIPE, name,
				    type);
	return 0;
}

int ticket_read(json_object *secret, struct peer_ticket *ticket, struct mk_error *err)
{
	json_object *data = mk_json_member(secret, "data");
	json_object *metadata = mk_json_member(secret, "metadata");
	const char *authority = mk_json_text(data, "ca.crt"), *token = mk_json_text(data, "token");
	json_object *annotations = mk_json_member(metadata, "annotations");
	const char *own = mk_json_text(annotations, INVITED_BY);
	const char *name = mk_json_text(metadata, "name");
	int ret = check_kind(secret, err);

	if (ret < 0)
		return ret;
	if (!*token)
		return mk_error_set(
			err, EAGAIN,
			"Secret '%s' has no token yet: wait a second and try again. If it stays so, `kubectl -n " MK_PEERS_NAMESPACE
			" get serviceaccount %s` shows whether its ServiceAccount exists",
			name, name);
	ret = check_data(name, "token", token, is_token, "a token", err);
	if (ret == 0 && *authority)
		ret = check_data(name, "ca.crt", authority, is_pem, "certificates in PEM", err);
	ticket->token = token;
	ticket->publishes = strcmp(mk_json_text(annotations, INVITED_WITH_INBOX), "true") == 0;
	ticket->authority = *authority ? authority : NULL;
	if (!ticket->cluster && *own)
		ticket->cluster = own;
	return ret;
}

/* ---- objects --------------------------------------------------------------------------------- */

static json_object *new_object(const char *version, const char *kind, const char *name,
			       const char *namespace_)
{
	json_object *object = json_object_new_object(), *metadata = json_object_new_object();

	mk_put_text(object, "apiVersion", version);
	mk_put_text(object, "kind", kind);
	mk_put_text(metadata, "name", name);
	if (namespace_)
		mk_put_text(metadata, "namespace", namespace_);
	json_object_object_add(object, "metadata", metadata);
	return object;
}

/* One URL a line, as base64. */
static void add_servers(json_object *data, const struct peer_ticket *ticket)
{
	cleanup_free char *text = NULL, *encoded = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	for (size_t i = 0; i < ticket->server_count; i++)
		fprintf(out, "%s\n", ticket->servers[i]);
	fclose(out);
	encoded = mk_base64_encode(text, size);
	if (encoded)
		mk_put_text(data, "servers", encoded);
}

json_object *ticket_secret(const struct peer_ticket *ticket)
{
	char name[NAME_BYTES];
	json_object *object, *labels = json_object_new_object(), *data = json_object_new_object();

	snprintf(name, sizeof(name), TICKET_PREFIX "%s", ticket->cluster);
	object = new_object("v1", "Secret", name, MK_PEERS_NAMESPACE);
	mk_put_text(labels, MK_CLUSTER_LABEL, ticket->cluster);
	json_object_object_add(mk_json_member(object, "metadata"), "labels", labels);
	mk_put_text(object, "type", "Opaque");
	add_servers(data, ticket);
	if (ticket->authority)
		mk_put_text(data, "ca.crt", ticket->authority);
	if (ticket->token)
		mk_put_text(data, "token", ticket->token);
	json_object_object_add(object, "data", data);
	return object;
}

json_object *ticket_peer(const struct peer_ticket *ticket)
{
	json_object *object =
		new_object("networking.monokube.io/v1alpha1", "ClusterPeer", ticket->cluster, NULL);
	json_object *spec = json_object_new_object();
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), TICKET_PREFIX "%s", ticket->cluster);
	if (ticket->has_inbox)
		mk_put_flag(spec, "inbox", true);
	else
		mk_put_text(spec, "secretName", name);
	if (ticket->publishes)
		mk_put_flag(spec, "publishTo", true);
	if (ticket->access)
		mk_put_text(spec, "access", ticket->access);
	if (ticket->relay)
		mk_put_flag(spec, "relay", true);
	if (ticket->accept)
		mk_put_text(spec, "accept", ticket->accept);
	json_object_object_add(object, "spec", spec);
	return object;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int parse_input(char *text, size_t size, struct mk_documents *documents,
		       struct mk_error *err)
{
	int ret = mk_yaml_parse(text, size, documents, err);

	if (ret < 0)
		return mk_error_wrap(err, "standard input");
	if (documents->count == 0)
		return mk_error_set(
			err, ENODATA,
			"standard input is empty, expected a Secret: if kubectl failed, its message is above; otherwise " PIPE);
	if (documents->count > 1)
		return mk_error_set(err, EINVAL,
				    "standard input: %zu objects, expected one Secret; " PIPE,
				    documents->count);
	return 0;
}

static int read_input(struct mk_documents *documents, struct mk_error *err)
{
	char *text = NULL;
	size_t size;
	int ret;

	if (isatty(STDIN_FILENO))
		return mk_error_set(err, ENODATA,
				    "standard input is a terminal, expected a Secret; " PIPE);
	ret = mk_fd_read(STDIN_FILENO, "standard input", INPUT_BYTES_MAX, &text, &size, err);
	if (ret < 0)
		return ret;
	ret = parse_input(text, size, documents, err);
	explicit_bzero(text, size);
	free(text);
	return ret;
}

static int check_servers(const struct mk_cli_options *options, struct mk_error *err)
{
	int ret = 0;

	if (options->server_count == 0)
		return mk_error_set(
			err, EINVAL,
			"flag --server is missing, expected a URL by which the invited cluster reaches this API server, such as https://203.0.113.7:6443");
	for (size_t i = 0; ret == 0 && i < options->server_count; i++) {
		cleanup_free char *copy = strdup(options->servers[i]);

		ret = copy ? mk_api_server_check(copy, "flag --server", err)
			   : mk_error_errno(err, ENOMEM, "URL");
	}
	return ret;
}

/* The name of this cluster: of the flag, of the Secret, or else of this node. */
static int find_own(const struct mk_record *record, struct peer_ticket *ticket,
		    struct mk_error *err)
{
	if (!ticket->cluster && *record->cluster_name)
		ticket->cluster = record->cluster_name;
	if (ticket->cluster)
		return cluster_name_check("name of the inviting cluster", ticket->cluster, err);
	return mk_error_set(
		err, ENOENT,
		"the name of the inviting cluster is not known: give --cluster NAME, which `kubectl -n kube-system get configmap monokube-cfg -o jsonpath={.data.clusterName}` prints there");
}

static int print_ticket(const struct mk_cli_options *options, json_object *secret,
			struct mk_error *err)
{
	struct peer_ticket ticket = { .cluster = options->cluster,
				      .servers = options->servers,
				      .server_count = options->server_count,
				      .access = options->access,
				      .accept = options->accept,
				      .relay = options->relay };
	struct mk_record record;
	json_object *object;
	int ret = ticket_read(secret, &ticket, err);

	ret = ret ?: mk_record_read(options->state_dir, &record, err);
	ret = ret ?: find_own(&record, &ticket, err);
	if (ret < 0)
		return ret;
	object = ticket_secret(&ticket);
	yaml_print(stdout, object);
	json_object_put(object);
	object = ticket_peer(&ticket);
	yaml_print(stdout, object);
	json_object_put(object);
	return 0;
}

int mk_cli_peer_ticket(int argc, char **argv)
{
	cleanup_documents struct mk_documents documents = { 0 };
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	ret = ret ?: check_servers(&options, &err);
	ret = ret ?: read_input(&documents, &err);
	ret = ret ?: print_ticket(&options, documents.items[0].tree, &err);
	return ret < 0 ? mk_cli_fail(argv[0], &err) : 0;
}

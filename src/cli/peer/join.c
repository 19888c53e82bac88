// SPDX-License-Identifier: Apache-2.0
/* `monokube peer join`, `rotate` and `leave`: invitations and tickets of two clusters, through two
 * contexts of a kubeconfig. What is wrong with either cluster is found before the first write. */
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/time.h"
#include "cli/cli.h"
#include "cli/peer/peer.h"
#include "cli/peer/remote.h"
#include "cluster/files/encoding.h"

#define LOOK_NS (200 * 1000000L) /* between two looks for a token */

struct side {
	struct remote remote;
	char cluster[64]; /* clusterName */
	const char *servers[MK_CLI_SERVERS]; /* of --server, for this context */
	size_t server_count;
	json_object *invitation; /* the Secret that it gives the other side, with the token */
};

struct joining {
	const struct mk_cli_options *options;
	struct side sides[2];
	const struct side *hub; /* has the inbox of the other one; NULL: each reads the other */
	struct mk_error *err;
};

static struct side *other_of(struct joining *joining, const struct side *side)
{
	return &joining->sides[side == joining->sides];
}

/* Does this cluster write into an inbox? Then the other one needs no token of it. */
static bool uses_inbox(const struct joining *joining, const struct side *side)
{
	return joining->hub && joining->hub != side;
}

/* ---- two clusters ---------------------------------------------------------------------------- */

static int take_server(struct joining *joining, const char *value)
{
	for (size_t i = 0; i < 2; i++) {
		struct side *side = &joining->sides[i];
		size_t length = strlen(side->remote.context);
		cleanup_free char *url = NULL;

		if (strncmp(value, side->remote.context, length) != 0 || value[length] != '=')
			continue;
		side->servers[side->server_count++] = value + length + 1;
		url = strdup(value + length + 1);
		return url ? mk_api_server_check(url, "flag --server", joining->err)
			   : mk_error_errno(joining->err, ENOMEM, "URL");
	}
	return mk_error_set(joining->err, EINVAL,
			    "flag --server: value '%s', expected %s=URL or %s=URL", value,
			    joining->sides[0].remote.context, joining->sides[1].remote.context);
}

/* The name that the agents of this cluster have, from the ConfigMap. */
static int read_name(struct side *side, struct mk_error *err)
{
	static const struct remote_place place = { "v1", "ConfigMap", "kube-system",
						   "monokube-cfg" };
	cleanup_json json_object *tree = NULL;
	const char *name;
	int ret = remote_get(&side->remote, &place, &tree, err);

	if (ret < 0)
		return ret;
	if (ret == 0)
		return mk_error_set(
			err, ENOENT,
			"context '%s': there is no ConfigMap 'kube-system/monokube-cfg': install monokube first",
			side->remote.context);
	name = mk_json_text(mk_json_member(tree, "data"), "clusterName");
	if (!*name)
		return mk_error_set(
			err, ENOENT,
			"context '%s': the cluster has no name: set clusterName in ConfigMap 'kube-system/monokube-cfg', and restart the agents",
			side->remote.context);
	snprintf(side->cluster, sizeof(side->cluster), "%s", name);
	ret = cluster_name_check("clusterName", name, err);
	return ret < 0 ? mk_error_wrap(err, "context '%s'", side->remote.context) : 0;
}

/* The Role is part of the manifest that the other objects need, too. */
static int check_role(struct side *side, struct mk_error *err)
{
	static const struct remote_place place = { "rbac.authorization.k8s.io/v1", "Role",
						   PUBLISHED_NAMESPACE, READER_ROLE };
	json_object *tree = NULL;
	int ret = remote_get(&side->remote, &place, &tree, err);

	json_object_put(tree);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	return mk_error_set(err, ENOENT,
			    "context '%s': there is no Role '" PUBLISHED_NAMESPACE "/" READER_ROLE
			    "': kubectl --context %s apply -f manifests/multicluster.yaml",
			    side->remote.context, side->remote.context);
}

/* Both clusters may have joined with an inbox before. */
static int find_inbox(struct joining *joining)
{
	int ret = 0;

	for (size_t i = 0; ret >= 0 && i < 2 && !joining->hub; i++) {
		struct side *side = &joining->sides[i];
		const struct remote_place place = { "networking.monokube.io/v1alpha1",
						    "ClusterPeer", NULL,
						    other_of(joining, side)->cluster };
		cleanup_json json_object *tree = NULL;
		json_object *spec;

		ret = remote_get(&side->remote, &place, &tree, joining->err);
		spec = tree ? mk_json_member(tree, "spec") : NULL;
		if (json_object_get_boolean(mk_json_member(spec, "inbox")))
			joining->hub = side;
	}
	if (ret < 0 || !joining->hub)
		return ret < 0 ? ret : 0;
	return inbox_name_check(joining->sides[joining->hub == joining->sides].cluster,
				joining->err);
}

static int open_both(struct joining *joining)
{
	const struct mk_cli_options *options = joining->options;
	struct side *sides = joining->sides;
	int ret = 0;

	for (size_t i = 0; i < 2; i++)
		sides[i].remote.context = options->words[i];
	if (options->cluster)
		return mk_error_set(joining->err, EINVAL,
				    "flag --cluster goes with one context: leave out that of '%s'",
				    options->cluster);
	if (strcmp(options->words[0], options->words[1]) == 0)
		return mk_error_set(joining->err, EINVAL,
				    "context '%s' is given twice, expected those of two clusters",
				    options->words[0]);
	for (size_t i = 0; ret == 0 && i < options->server_count; i++)
		ret = take_server(joining, options->servers[i]);
	for (size_t i = 0; ret == 0 && i < 2; i++)
		ret = remote_open(&sides[i].remote, options->kubeconfig, options->words[i],
				  joining->err);
	for (size_t i = 0; ret == 0 && i < 2; i++)
		ret = read_name(&sides[i], joining->err);
	if (ret == 0 && strcmp(sides[0].cluster, sides[1].cluster) == 0)
		return mk_error_set(
			joining->err, EINVAL,
			"contexts '%s' and '%s': both clusters have the name '%s': give each cluster a clusterName of its own",
			options->words[0], options->words[1], sides[0].cluster);
	joining->hub = options->inbox ? sides : NULL;
	return ret ?: find_inbox(joining);
}

/* The other cluster is lost, and --cluster gives its name. */
static int open_one(struct joining *joining)
{
	const struct mk_cli_options *options = joining->options;
	struct side *side = &joining->sides[0], *lost = &joining->sides[1];
	int ret;

	if (!options->cluster)
		return mk_error_set(
			joining->err, EINVAL,
			"one context: give that of the other cluster, too, or --cluster with its clusterName if it is lost");
	ret = cluster_name_check("flag --cluster", options->cluster, joining->err);
	if (ret < 0)
		return ret;
	snprintf(lost->cluster, sizeof(lost->cluster), "%s", options->cluster);
	side->remote.context = options->words[0];
	ret = remote_open(&side->remote, options->kubeconfig, options->words[0], joining->err);
	ret = ret ?: read_name(side, joining->err);
	if (ret == 0 && strcmp(side->cluster, lost->cluster) == 0)
		ret = mk_error_set(joining->err, EINVAL,
				   "flag --cluster: '%s' is the cluster of context '%s' itself",
				   options->cluster, options->words[0]);
	return ret;
}

static void close_both(struct joining *joining)
{
	for (size_t i = 0; i < 2; i++) {
		json_object_put(joining->sides[i].invitation);
		remote_close(&joining->sides[i].remote);
	}
}

/* ---- writing --------------------------------------------------------------------------------- */

static void say(const struct side *side, const struct remote_place *place, const char *what)
{
	printf("%s: %s %s%s%s %s\n", side->cluster, place->kind, place->namespace_ ?: "",
	       place->namespace_ ? "/" : "", place->name, what);
}

/* Fields of @live that @tree does not name stay as they are, in member @of of both. */
static void keep(json_object *tree, json_object *live, const char *of, const char *key)
{
	json_object *to = mk_json_member(tree, of);
	json_object *value = mk_json_member(mk_json_member(live, of), key);

	if (value && !mk_json_member(to, key))
		json_object_object_add(to, key, json_object_get(value));
}

/* Without --server, the servers and the CA of a former ticket stay. */
static void keep_former(const struct side *from, json_object *tree, json_object *live)
{
	static const char *const fields[] = { "access", "relay", "accept" };

	for (size_t i = 0; i < MK_ARRAY_SIZE(fields); i++)
		keep(tree, live, "spec", fields[i]);
	if (from->server_count || !*mk_json_text(mk_json_member(live, "data"), "servers"))
		return;
	json_object_object_del(mk_json_member(tree, "data"), "servers");
	json_object_object_del(mk_json_member(tree, "data"), "ca.crt");
	keep(tree, live, "data", "servers");
	keep(tree, live, "data", "ca.crt");
}

/* Write @tree, which is taken, at @side. @from: the cluster whose ticket it is part of; NULL: it is
 * part of an invitation. */
static int put(struct joining *joining, struct side *side, const struct side *from,
	       json_object *tree)
{
	static const char *const changes[] = { [REMOTE_UNCHANGED] = "unchanged",
					       [REMOTE_CREATED] = "created",
					       [REMOTE_CHANGED] = "changed" };
	const struct remote_place place = remote_place_of(tree);
	cleanup_json json_object *taken = tree, *live = NULL;
	int ret = remote_get(&side->remote, &place, &live, joining->err);

	if (ret < 0)
		return ret;
	if (live && from)
		keep_former(from, taken, live);
	ret = remote_apply(&side->remote, taken, live, joining->err);
	if (ret < 0)
		return ret;
	say(side, &place, changes[ret]);
	return 0;
}

/* ---- invitations ----------------------------------------------------------------------------- */

static int invite(struct joining *joining, struct side *side)
{
	const char *name = other_of(joining, side)->cluster;
	bool has_inbox = joining->hub == side;
	int ret = put(joining, side, NULL, invite_account(name));

	ret = ret ?: put(joining, side, NULL, invite_reader(name));
	for (size_t i = 0; ret == 0 && has_inbox && i < INBOX_OBJECTS; i++)
		ret = put(joining, side, NULL, inbox_object(name, i));
	return ret ?: put(joining, side, NULL, invite_secret(name, side->cluster, has_inbox));
}

/* Wait until the API server has filled the Secret. */
static int wait_for_token(struct joining *joining, struct side *side)
{
	cleanup_json json_object *wanted =
		invite_secret(other_of(joining, side)->cluster, side->cluster, false);
	const struct remote_place place = remote_place_of(wanted);
	uint64_t end = mk_time_monotonic_ns() + joining->options->timeout * MK_NS_PER_S;

	for (;;) {
		struct peer_ticket ticket = { 0 };
		int ret;

		json_object_put(mk_steal_ptr(side->invitation));
		ret = remote_get(&side->remote, &place, &side->invitation, joining->err);
		if (ret < 0)
			return ret;
		ret = ret ? ticket_read(side->invitation, &ticket, joining->err) : -EAGAIN;
		if (ret != -EAGAIN)
			return ret;
		if (mk_time_monotonic_ns() > end)
			break;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
	return mk_error_set(
		joining->err, ETIMEDOUT,
		"context '%s': Secret '%s/%s' has no token after %u s: check that kube-controller-manager runs there, and join again",
		side->remote.context, place.namespace_, place.name, joining->options->timeout);
}

/* ---- tickets --------------------------------------------------------------------------------- */

static bool is_loopback(const char *url)
{
	const char *host = url + strlen("https://");

	return strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0 ||
	       (strncmp(host, "localhost", 9) == 0 && strchr(":/", host[9]));
}

/* The fields of the ClusterPeer. */
static void fill_peer(const struct joining *joining, const struct side *from,
		      struct peer_ticket *ticket)
{
	const struct mk_cli_options *options = joining->options;

	ticket->cluster = from->cluster;
	ticket->access = options->access;
	ticket->relay = options->relay && from == &joining->sides[1];
	ticket->accept = options->relay && from == &joining->sides[0] ? "Transit" : NULL;
	ticket->publishes = joining->hub == from;
	ticket->has_inbox = uses_inbox(joining, from);
}

/* The kubeconfig's URL and CA, or --server with the CA of the invitation. */
static void fill_ticket(const struct joining *joining, const struct side *from,
			struct peer_ticket *ticket, const char **server, char **authority)
{
	const struct mk_credentials *credentials = &from->remote.credentials;

	*server = credentials->server;
	fill_peer(joining, from, ticket);
	ticket->servers = from->server_count ? from->servers : server;
	ticket->server_count = from->server_count ?: 1;
	if (from->server_count || credentials->insecure)
		return;
	if (credentials->authority.data)
		*authority =
			mk_base64_encode(credentials->authority.data, credentials->authority.size);
	ticket->authority = *authority;
}

/* What the other side cannot use, of the way by which this machine reaches the server. */
static void warn(const struct side *from, const char *server)
{
	const struct mk_credentials *credentials = &from->remote.credentials;
	const char *why = is_loopback(server)	     ? "is a loopback address"
			  : credentials->server_name ? "needs the context's tls-server-name"
			  : credentials->proxy	     ? "needs the context's proxy-url"
						     : NULL;

	if (why && !from->server_count)
		fprintf(stderr,
			"monokube peer join: context '%s': server '%s' %s, so other clusters do not reach it; give a URL that they reach: --server %s=URL\n",
			from->remote.context, server, why, from->remote.context);
}

/* Give the ticket of @from to the other side. @with_peer: also its ClusterPeer. */
static int give(struct joining *joining, const struct side *from, bool with_peer)
{
	struct side *to = other_of(joining, from);
	cleanup_free char *authority = NULL;
	struct peer_ticket ticket = { 0 };
	const char *server;
	int ret = ticket_read(from->invitation, &ticket, joining->err);

	if (ret < 0)
		return mk_error_wrap(joining->err, "context '%s'", from->remote.context);
	if (!from->server_count && !from->remote.credentials.insecure)
		ticket.authority = NULL;
	fill_ticket(joining, from, &ticket, &server, &authority);
	ret = put(joining, to, from, ticket_secret(&ticket));
	return ret == 0 && with_peer ? put(joining, to, from, ticket_peer(&ticket)) : ret;
}

/* Give the other side the ClusterPeer of @from, whose inbox it reads. */
static int give_inbox(struct joining *joining, const struct side *from)
{
	struct peer_ticket ticket = { 0 };

	fill_peer(joining, from, &ticket);
	return put(joining, other_of(joining, from), from, ticket_peer(&ticket));
}

/* ---- join ------------------------------------------------------------------------------------ */

static void print_and_put(json_object *tree)
{
	yaml_print(stdout, tree);
	json_object_put(tree);
}

static void print_invitation(const struct joining *joining, const struct side *side,
			     const char *name)
{
	bool has_inbox = joining->hub == side;

	print_and_put(invite_account(name));
	print_and_put(invite_reader(name));
	for (size_t i = 0; has_inbox && i < INBOX_OBJECTS; i++)
		print_and_put(inbox_object(name, i));
	print_and_put(invite_secret(name, side->cluster, has_inbox));
}

static void print_side(struct joining *joining, const struct side *side)
{
	const struct side *from = other_of(joining, side);
	cleanup_free char *authority = NULL;
	struct peer_ticket ticket = { 0 };
	const char *server;

	fill_ticket(joining, from, &ticket, &server, &authority);
	printf("# cluster %s, context %s\n", side->cluster, side->remote.context);
	if (!uses_inbox(joining, side))
		print_invitation(joining, side, from->cluster);
	if (uses_inbox(joining, from)) {
		print_and_put(ticket_peer(&ticket));
		return;
	}
	printf("# data.token%s: of Secret " INVITE_PREFIX
	       "%s of cluster %s, which does not exist yet\n",
	       ticket.authority ? "" : ", data.ca.crt", side->cluster, from->cluster);
	print_and_put(ticket_secret(&ticket));
	print_and_put(ticket_peer(&ticket));
}

static int join(struct joining *joining)
{
	struct side *sides = joining->sides;
	int ret = 0;

	for (size_t i = 0; i < 2; i++)
		if (!uses_inbox(joining, &sides[i]))
			warn(&sides[i], sides[i].remote.credentials.server);
	if (joining->options->dry_run) {
		for (size_t i = 0; i < 2; i++)
			print_side(joining, &sides[i]);
		return 0;
	}
	for (size_t i = 0; ret == 0 && i < 2; i++)
		ret = check_role(&sides[i], joining->err);
	for (size_t i = 0; ret == 0 && i < 2; i++)
		if (!uses_inbox(joining, &sides[i]))
			ret = invite(joining, &sides[i]);
	for (size_t i = 0; ret == 0 && i < 2; i++)
		if (!uses_inbox(joining, &sides[i]))
			ret = wait_for_token(joining, &sides[i]);
	for (size_t i = 0; ret == 0 && i < 2; i++)
		ret = uses_inbox(joining, &sides[i]) ? give_inbox(joining, &sides[i])
						     : give(joining, &sides[i], true);
	return ret;
}

/* ---- rotate ---------------------------------------------------------------------------------- */

/* A token depends on the Secret's name and on the UID of its ServiceAccount. Another Secret of the
 * same ServiceAccount would get the same token. */
static int renew(struct joining *joining, struct side *side)
{
	const char *other = other_of(joining, side)->cluster;
	json_object *account = invite_account(other);
	json_object *secret = invite_secret(other, side->cluster, joining->hub == side);
	const struct remote_place places[] = { remote_place_of(secret), remote_place_of(account) };
	int ret = remote_delete(&side->remote, &places[0], joining->err);

	if (ret == 0)
		ret = mk_error_set(
			joining->err, ENOENT,
			"context '%s': there is no Secret '%s/%s': `monokube peer join` makes it",
			side->remote.context, places[0].namespace_, places[0].name);
	if (ret > 0)
		ret = remote_delete(&side->remote, &places[1], joining->err);
	if (ret >= 0)
		ret = put(joining, side, NULL, json_object_get(account));
	ret = ret ?: put(joining, side, NULL, json_object_get(secret));
	json_object_put(account);
	json_object_put(secret);
	return ret;
}

static int rotate(struct joining *joining)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < 2; i++) {
		struct side *side = &joining->sides[i];

		if (uses_inbox(joining, side))
			continue;
		ret = renew(joining, side);
		ret = ret ?: wait_for_token(joining, side);
		ret = ret ?: give(joining, side, false);
	}
	return ret;
}

/* ---- leave ----------------------------------------------------------------------------------- */

/* With the namespace go the bindings and all that lies there. */
static int leave_inbox(struct joining *joining, struct side *side)
{
	char space[NAME_BYTES];
	const struct remote_place place = { "v1", "Namespace", NULL, space };
	bool is_dry = joining->options->dry_run;
	json_object *tree = NULL;
	int ret;

	inbox_namespace(other_of(joining, side)->cluster, space);
	ret = remote_get(&side->remote, &place, &tree, joining->err);
	json_object_put(tree);
	if (ret <= 0)
		return ret;
	ret = is_dry ? 0 : remote_delete(&side->remote, &place, joining->err);
	if (ret < 0)
		return ret;
	say(side, &place, is_dry ? "would be deleted" : "deleted");
	return 0;
}

static int leave_one(struct joining *joining, struct side *side)
{
	const char *other = other_of(joining, side)->cluster;
	char invite[NAME_BYTES], ticket[NAME_BYTES];
	const struct remote_place places[] = {
		{ "networking.monokube.io/v1alpha1", "ClusterPeer", NULL, other },
		{ "v1", "Secret", MK_PEERS_NAMESPACE, ticket },
		{ "rbac.authorization.k8s.io/v1", "RoleBinding", PUBLISHED_NAMESPACE, invite },
		{ "v1", "Secret", MK_PEERS_NAMESPACE, invite },
		{ "v1", "ServiceAccount", MK_PEERS_NAMESPACE, invite },
	};

	snprintf(invite, sizeof(invite), INVITE_PREFIX "%s", other);
	snprintf(ticket, sizeof(ticket), TICKET_PREFIX "%s", other);
	for (size_t i = 0; i < MK_ARRAY_SIZE(places); i++) {
		int ret = 1;

		if (!joining->options->dry_run)
			ret = remote_delete(&side->remote, &places[i], joining->err);
		if (ret < 0)
			return ret;
		say(side, &places[i],
		    joining->options->dry_run ? "would be deleted"
		    : ret		      ? "deleted"
					      : "is not there");
	}
	return 0;
}

/* A cluster that writes into an inbox comes first: it may still delete what lies there. The inbox
 * goes before the token, so the agent there sees that it is empty. */
static int leave(struct joining *joining)
{
	size_t first = joining->hub == joining->sides, count = joining->options->word_count;
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++) {
		struct side *side = &joining->sides[(first + i) % 2];

		ret = leave_inbox(joining, side);
		ret = ret ?: leave_one(joining, side);
	}
	return ret;
}

/* ---- commands -------------------------------------------------------------------------------- */

static int run(int argc, char **argv, int (*act)(struct joining *joining))
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	struct joining joining = { .options = &options, .err = &err };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	if (ret > 0)
		return 0;
	if (ret == 0) {
		ret = options.word_count == 1 ? open_one(&joining) : open_both(&joining);
		ret = ret ?: act(&joining);
		close_both(&joining);
	}
	return ret < 0 ? mk_cli_fail(argv[0], &err) : 0;
}

int mk_cli_peer_join(int argc, char **argv)
{
	return run(argc, argv, join);
}

int mk_cli_peer_leave(int argc, char **argv)
{
	return run(argc, argv, leave);
}

int mk_cli_peer_rotate(int argc, char **argv)
{
	return run(argc, argv, rotate);
}

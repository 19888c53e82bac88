// SPDX-License-Identifier: Apache-2.0
/* The connection to a peer's API server: its Secret, one HTTP client, three reflectors, and three
 * more of the inbox that is written there. */
#include "cluster/peer_api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "cluster/api/backoff.h"
#include "cluster/api/credentials.h"
#include "cluster/api/exchange.h"
#include "cluster/inbox.h"
#include "cluster/lead_internal.h"

#define SECRET_MS	300000 /* read it again, in case that nothing else says that it changed */
#define SECRET_AGAIN_MS 10000 /* not more often after failures */
#define ROTATE_MIN_MS	40 /* to the next server */
#define ROTATE_MAX_MS	30000
#define UNREACHABLE_MS	3000 /* a shorter interruption is no news */
#define ABSENT_MS	60000
#define SILENCE_MS	10000
#define SECRET_BYTES	(2 * 1024 * 1024)

#define GROUP "/apis/networking.monokube.io/v1alpha1/namespaces/"
/* Kinds of what is read, and of what is written behind them. */
#define ALL_KINDS (2 * MK_PEER_API_KINDS)
#define ITS_REMEDY \
	"the token needs Role monokube-peer-reader there: apply multicluster.yaml and the RoleBinding at the peer"

#define INBOX_REMEDY                                                                                \
	"the agents lack the namespace of the inbox, or its roles: apply here what `monokube peer " \
	"invite NAME --inbox` prints for this peer"
#define WRITE_REMEDY                                                                             \
	"the token needs ClusterRole monokube-inbox-writer in the inbox of this cluster there: " \
	"apply multicluster.yaml and what `monokube peer invite NAME --inbox` prints at the peer"

/* What is known of the server by the requests for one kind. */
struct health {
	enum mk_peer_api_reason reason;
	uint64_t failing_since_ms; /* 0: the last request was answered */
	bool answered; /* by the server in use */
	char message[512];
};

struct mk_peer_api {
	struct mk_lead *lead;
	char *peer, *secret; /* secret NULL: the own server is read, as server_name says */
	char read_namespace[96], inbox_namespace[96]; /* the latter "": nothing is written */
	char server_name[160];
	struct mk_peer_api_listener listener;
	uv_timer_t timer, rotation;
	struct mk_exchange *reading; /* of the Secret */
	uint64_t read_ms; /* when it was read last; 0: never */
	char version[160]; /* of the Secret in use; "": none */
	struct health of_secret; /* its reason is STARTING while nothing is wrong */
	struct mk_credentials credentials;
	struct mk_servers servers;
	size_t server; /* in use */
	uint64_t since_ms; /* it is in use */
	struct mk_backoff backoff; /* between servers */
	struct mk_http *http; /* NULL: no Secret that can be used */
	struct mk_resource resources[ALL_KINDS];
	char names[ALL_KINDS][160], paths[ALL_KINDS][192];
	struct mk_reflector *reflectors[ALL_KINDS];
	struct health health[ALL_KINDS];
	struct inbox *inbox; /* NULL: nothing is written, or nothing can be */
	size_t objects_max;
	bool was_connected, withdraws, serves_too_much;
};

static void read_secret(uv_timer_t *timer);

/* ---- state ----------------------------------------------------------------------------------- */

static const struct health *worst(const struct mk_peer_api *api)
{
	const struct health *found = &api->of_secret;

	for (size_t kind = 0; kind < ALL_KINDS; kind++)
		if (api->http && api->health[kind].reason > found->reason)
			found = &api->health[kind];
	return found;
}

struct mk_peer_api_state mk_peer_api_state(const struct mk_peer_api *api)
{
	const struct health *health = worst(api);
	struct mk_peer_api_state state = { health->reason, health->message, 0 };
	struct mk_reflector_stats stats;

	for (size_t kind = 0; api->was_connected && kind < ALL_KINDS; kind++) {
		if (!api->reflectors[kind])
			continue;
		mk_reflector_stats(api->reflectors[kind], &stats);
		if (stats.contact_unix_ms > state.contact_unix_ms)
			state.contact_unix_ms = stats.contact_unix_ms;
	}
	return state;
}

/* The text stays while the reason does, because texts of retries differ in details. */
__attribute__((format(printf, 4, 5))) static void set_health(struct mk_peer_api *api,
							     struct health *health,
							     enum mk_peer_api_reason reason,
							     const char *format, ...)
{
	enum mk_peer_api_reason before = worst(api)->reason;
	va_list args;

	if (health->reason == reason)
		return;
	health->reason = reason;
	va_start(args, format);
	vsnprintf(health->message, sizeof(health->message), format, args);
	va_end(args);
	for (char *at = health->message; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = ' ';
	if (worst(api)->reason != before && !api->withdraws)
		api->listener.state(api->listener.ctx);
}

/* ---- the Secret ------------------------------------------------------------------------------ */

static void read_secret_after(struct mk_peer_api *api, uint64_t wait_ms)
{
	uint64_t now_ms = uv_now(api->lead->kube->loop);
	uint64_t soonest_ms = api->read_ms ? api->read_ms + SECRET_AGAIN_MS : 0;

	if (api->reading || !api->secret)
		return;
	if (now_ms + wait_ms < soonest_ms)
		wait_ms = soonest_ms - now_ms;
	if (!uv_is_active((uv_handle_t *)&api->timer) || uv_timer_get_due_in(&api->timer) > wait_ms)
		uv_timer_start(&api->timer, read_secret, wait_ms, 0);
}

static void hang_up(struct mk_peer_api *api)
{
	for (size_t kind = 0; kind < ALL_KINDS; kind++)
		mk_reflector_stop(mk_steal_ptr(api->reflectors[kind]));
	uv_timer_stop(&api->rotation);
	inbox_free(mk_steal_ptr(api->inbox));
	if (api->http && api->secret)
		mk_http_free(api->http);
	api->http = NULL;
}

static void disconnect(struct mk_peer_api *api)
{
	hang_up(api);
	memset(api->health, 0, sizeof(api->health));
	mk_backoff_reset(&api->backoff);
	mk_credentials_release(&api->credentials);
	mk_servers_release(&api->servers);
	api->server = 0;
	api->version[0] = '\0';
	api->was_connected = false;
}

static int connect_to(struct mk_peer_api *api, struct mk_error *err);

static void begin_again(struct mk_peer_api *api)
{
	if (!api->withdraws)
		api->listener.begins(api->listener.ctx);
}

static void use_secret(struct mk_peer_api *api, json_object *secret)
{
	char version[sizeof(api->version)];
	struct mk_error err;
	int ret;

	snprintf(version, sizeof(version), "%s/%s", mk_json_metadata(secret, "uid"),
		 mk_json_metadata(secret, "resourceVersion"));
	if (strcmp(version, api->version) == 0)
		return;
	disconnect(api);
	begin_again(api);
	ret = mk_credentials_from_secret(secret, &api->credentials, &api->servers, &err);
	ret = ret ?: connect_to(api, &err);
	if (ret == 0) {
		strcpy(api->version, version);
		set_health(api, &api->of_secret, MK_PEER_API_STARTING,
			   "the server has not answered yet");
		return;
	}
	disconnect(api);
	set_health(api, &api->of_secret, MK_PEER_API_STARTING, "%s", "");
	set_health(api, &api->of_secret,
		   ret == -EKEYREJECTED ? MK_PEER_API_BAD_CERTIFICATE
		   : ret == -EACCES	? MK_PEER_API_UNAUTHORIZED
					: MK_PEER_API_UNREACHABLE,
		   "Secret " MK_PEERS_NAMESPACE "/%s: %s; change the Secret", api->secret,
		   mk_error_text(&err));
}

static void lack_secret(struct mk_peer_api *api, const struct mk_answer *answer)
{
	if (answer->status == 404) {
		disconnect(api);
		begin_again(api);
		set_health(api, &api->of_secret, MK_PEER_API_UNAUTHORIZED,
			   "there is no Secret " MK_PEERS_NAMESPACE
			   "/%s: create it, or remove spec.secretName; copies stay",
			   api->secret);
	} else if (!api->http) {
		set_health(api, &api->of_secret,
			   answer->status == 403 ? MK_PEER_API_UNAUTHORIZED
						 : MK_PEER_API_UNREACHABLE,
			   "Secret " MK_PEERS_NAMESPACE
			   "/%s: not read from the own API server: %s (HTTP status %d); %s",
			   api->secret, answer->why, answer->status,
			   answer->status == 403 ? LEAD_REMEDY : "it tries again");
	}
}

static void secret_read(void *ctx, const struct mk_answer *answer)
{
	struct mk_peer_api *api = ctx;
	bool is_good = mk_answer_is_good(answer) && answer->tree;

	api->reading = NULL;
	if (is_good)
		use_secret(api, answer->tree);
	else
		lack_secret(api, answer);
	read_secret_after(api, is_good && api->http ? SECRET_MS : SECRET_AGAIN_MS);
}

static void read_secret(uv_timer_t *timer)
{
	struct mk_peer_api *api = timer->data;
	cleanup_free char *target = NULL;
	struct mk_exchange_request request = { .method = "GET",
					       .silence_ms = SILENCE_MS,
					       .kept_bytes = SECRET_BYTES,
					       .done = secret_read,
					       .ctx = api };
	struct mk_error err;

	if (asprintf(&target, "/api/v1/namespaces/" MK_PEERS_NAMESPACE "/secrets/%s", api->secret) <
	    0)
		target = NULL;
	request.target = target;
	api->read_ms = uv_now(api->lead->kube->loop);
	if (target)
		api->reading = mk_exchange_start(api->lead->kube->http, &request, &err);
	if (!api->reading)
		read_secret_after(api, SECRET_AGAIN_MS);
}

void mk_peer_api_refresh(struct mk_peer_api *api)
{
	read_secret_after(api, 0);
}

/* ---- the server ------------------------------------------------------------------------------ */

static bool serves(const struct mk_peer_api *api)
{
	for (size_t kind = 0; kind < ALL_KINDS; kind++)
		if (api->health[kind].answered && !api->health[kind].failing_since_ms)
			return true;
	return false;
}

/* All requests begin again, at the next server. So each answer is one of the server in use. */
static void next_server(uv_timer_t *timer)
{
	struct mk_peer_api *api = timer->data;
	struct mk_error err;
	int ret = 0;

	if (serves(api) && !api->serves_too_much)
		return;
	api->serves_too_much = false;
	hang_up(api);
	begin_again(api);
	if (api->secret) {
		api->server = (api->server + 1) % api->servers.count;
		ret = mk_credentials_use(&api->credentials, api->servers.of[api->server], &err);
	}
	ret = ret ?: connect_to(api, &err);
	if (ret < 0)
		mk_log_error("peer %s: %s", api->peer, err.text);
}

static void rotate(struct mk_peer_api *api)
{
	if (api->servers.count <= 1 || uv_is_active((uv_handle_t *)&api->rotation))
		return;
	if (uv_now(api->lead->kube->loop) - api->since_ms > ROTATE_MAX_MS)
		mk_backoff_reset(&api->backoff);
	uv_timer_start(&api->rotation, next_server,
		       mk_backoff_next(&api->backoff, 0, mk_backoff_random()), 0);
}

static size_t index_of(const struct mk_peer_api *api, const struct mk_resource *resource)
{
	return (size_t)(resource - api->resources);
}

static bool is_of_inbox(size_t index)
{
	return index >= MK_PEER_API_KINDS;
}

static enum mk_peer_api_kind kind_at(size_t index)
{
	return (enum mk_peer_api_kind)(index % MK_PEER_API_KINDS);
}

static const char *server_of(const struct mk_peer_api *api)
{
	return api->secret ? api->credentials.server : api->server_name;
}

static void answers(struct mk_peer_api *api, struct health *health)
{
	health->failing_since_ms = 0;
	health->answered = true;
	api->was_connected = true;
	set_health(api, health, MK_PEER_API_CONNECTED, "%s is read", server_of(api));
}

static void does_not_answer(struct mk_peer_api *api, struct health *health, const char *text)
{
	uint64_t now_ms = uv_now(api->lead->kube->loop);

	rotate(api);
	health->failing_since_ms = health->failing_since_ms ?: now_ms;
	if (api->was_connected && now_ms - health->failing_since_ms < UNREACHABLE_MS)
		return;
	if (!api->secret)
		set_health(api, health, MK_PEER_API_UNREACHABLE,
			   "%s: %s; copies stay; it tries again", server_of(api), text);
	else
		set_health(
			api, health, MK_PEER_API_UNREACHABLE,
			"%s: %s; copies stay; it tries again: check data.servers of Secret " MK_PEERS_NAMESPACE
			"/%s and the way there",
			api->credentials.server, text, api->secret);
}

/* Nothing of these objects stays in memory. All lists begin again later. */
static void pause_reading(uv_timer_t *timer)
{
	struct mk_peer_api *api = timer->data;

	for (size_t kind = 0; kind < ALL_KINDS; kind++)
		mk_reflector_stop(mk_steal_ptr(api->reflectors[kind]));
	begin_again(api);
	uv_timer_start(timer, next_server, api->lead->kube->timing.backoff_max_ms, 0);
}

static void serves_too_much(struct mk_peer_api *api, struct health *health, const char *text)
{
	set_health(
		api, health, MK_PEER_API_UNREACHABLE,
		"%s: %.200s; copies stay; it tries again: raise spec.limits of the ClusterPeer, or let the peer publish less",
		server_of(api), text);
	api->serves_too_much = true;
	uv_timer_start(&api->rotation, pause_reading, 0, 0);
}

static void on_failure(struct mk_peer_api *api, struct health *health,
		       const struct mk_http_result *result, const char *text)
{
	if (result->failure == -EACCES) {
		rotate(api);
		read_secret_after(api, 0);
		set_health(api, health, MK_PEER_API_BAD_CERTIFICATE, "%s; copies stay", text);
	} else if (result->status == 401 || result->status == 403) {
		read_secret_after(api, 0);
		set_health(api, health, MK_PEER_API_UNAUTHORIZED, "%s: %.200s; copies stay; %s",
			   server_of(api), text,
			   result->status == 403 ? api->resources[health - api->health].remedy
						 : "write a valid token into the Secret");
	} else if (result->failure == -E2BIG) {
		serves_too_much(api, health, text);
	} else if (result->status == 404) {
		answers(api, health);
	} else if (result->status < 200 || result->status >= 500 || result->failure < 0) {
		does_not_answer(api, health, text);
	}
}

static void on_answered(void *ctx, const struct mk_resource *resource,
			const struct mk_http_result *result, const char *text)
{
	struct mk_peer_api *api = ctx;
	struct health *health = &api->health[index_of(api, resource)];

	if (result)
		on_failure(api, health, result, text);
	else
		answers(api, health);
}

/* ---- objects --------------------------------------------------------------------------------- */

static void see(struct mk_peer_api *api, size_t index, const char *name, json_object *tree)
{
	if (!is_of_inbox(index))
		api->listener.object(api->listener.ctx, kind_at(index), name, tree);
	else if (inbox_see(api->inbox, kind_at(index), name, tree) && !api->withdraws)
		api->listener.inbox(api->listener.ctx, false);
}

static int apply(void *ctx, const struct mk_resource *resource, json_object *tree,
		 struct mk_error *err)
{
	(void)err;
	see(ctx, index_of(ctx, resource), mk_json_metadata(tree, "name"), tree);
	return 0;
}

static void remove_object(void *ctx, const struct mk_resource *resource, const char *namespace_,
			  const char *name)
{
	(void)namespace_;
	see(ctx, index_of(ctx, resource), name, NULL);
}

static void on_listed(void *ctx, const struct mk_resource *resource)
{
	struct mk_peer_api *api = ctx;
	size_t index = index_of(api, resource);

	answers(api, &api->health[index]);
	if (!is_of_inbox(index))
		api->listener.listed(api->listener.ctx, kind_at(index));
}

/* A kind that the server lacks stays unread. */
static void on_absent(void *ctx, const struct mk_resource *resource)
{
	(void)ctx;
	(void)resource;
}

/* ---- to connect ------------------------------------------------------------------------------ */

/* Describe what is followed as number @index. */
static void describe_one(struct mk_peer_api *api, size_t index)
{
	static const char *const kinds[] = { [MK_PEER_API_CLUSTERS] = "PublishedCluster",
					     [MK_PEER_API_NODES] = "PublishedNode",
					     [MK_PEER_API_SERVICES] = "PublishedService" };
	static const char *const plurals[] = { [MK_PEER_API_CLUSTERS] = "publishedclusters",
					       [MK_PEER_API_NODES] = "publishednodes",
					       [MK_PEER_API_SERVICES] = "publishedservices" };
	static const char *const unused[] = { "metadata.managedFields", NULL };
	const char *kind = kinds[kind_at(index)], *plural = plurals[kind_at(index)];
	bool is_inbox = is_of_inbox(index);

	snprintf(api->names[index], sizeof(api->names[index]), "%ss %s peer %s", kind,
		 is_inbox      ? "in the inbox at"
		 : api->secret ? "at"
			       : "in the inbox of",
		 api->peer);
	snprintf(api->paths[index], sizeof(api->paths[index]), GROUP "%s/%s",
		 is_inbox ? api->inbox_namespace : api->read_namespace, plural);
	api->resources[index] = (struct mk_resource){
		.name = api->names[index],
		.api_version = "networking.monokube.io/v1alpha1",
		.kind = kind,
		.path = api->paths[index],
		.remedy = is_inbox	? WRITE_REMEDY
			  : api->secret ? ITS_REMEDY
					: INBOX_REMEDY,
		.optional = true,
		.objects_max = api->objects_max,
		.model_kind = MK_KIND_COUNT,
		.unused = unused,
	};
}

static int follow_all(struct mk_peer_api *api, size_t first, size_t count, struct mk_error *err)
{
	const struct mk_reflector_sink sink = { .apply = apply,
						.remove = remove_object,
						.listed = on_listed,
						.absent = on_absent,
						.answered = on_answered,
						.ctx = api };
	struct mk_kube *kube = api->lead->kube;
	struct mk_reflector_timing timing = kube->timing;

	if (timing.absent_ms > ABSENT_MS)
		timing.absent_ms = ABSENT_MS;
	for (size_t index = first; index < first + count; index++) {
		api->health[index].answered = false;
		api->reflectors[index] = mk_reflector_start(
			kube->loop, api->http, &api->resources[index], &timing, &sink, err);
		if (!api->reflectors[index])
			return -ENOMEM;
	}
	return 0;
}

static int open_inbox(struct mk_peer_api *api, struct mk_error *err)
{
	const struct inbox_place place = { api->peer, api->inbox_namespace };

	if (!*api->inbox_namespace)
		return 0;
	api->inbox = inbox_new(api->lead, api->http, &place, err);
	if (!api->inbox || follow_all(api, MK_PEER_API_KINDS, MK_PEER_API_KINDS, err) < 0)
		return -ENOMEM;
	if (api->withdraws)
		inbox_sweep(api->inbox, NULL, NULL);
	else
		api->listener.inbox(api->listener.ctx, true);
	return 0;
}

static int connect_to(struct mk_peer_api *api, struct mk_error *err)
{
	struct mk_kube *kube = api->lead->kube;
	int ret = 0;

	api->since_ms = uv_now(kube->loop);
	api->http = api->secret ? mk_http_new(kube->loop, &api->credentials, kube->limits, err)
				: kube->http;
	if (!api->http)
		return -err->code;
	if (!api->withdraws)
		ret = follow_all(api, 0, MK_PEER_API_KINDS, err);
	ret = ret ?: open_inbox(api, err);
	if (ret == 0)
		mk_log_info("peer %s: following %s%s", api->peer,
			    api->secret ? "its API server at " : "", server_of(api));
	return ret;
}

static void read_own(uv_timer_t *timer)
{
	struct mk_peer_api *api = timer->data;
	struct mk_error err;

	if (connect_to(api, &err) == 0)
		return;
	mk_log_error("peer %s: %s", api->peer, err.text);
	disconnect(api);
	uv_timer_start(&api->timer, read_own, SECRET_AGAIN_MS, 0);
}

/* ---- the inbox at the peer ------------------------------------------------------------------- */

int mk_peer_api_put(struct mk_peer_api *api, json_object *tree, struct mk_error *err)
{
	return api->inbox ? inbox_put(api->inbox, tree, err) : 0;
}

void mk_peer_api_sweep(struct mk_peer_api *api, mk_peer_api_wanted_fn *is_wanted, void *ctx)
{
	if (api->inbox)
		inbox_sweep(api->inbox, is_wanted, ctx);
}

void mk_peer_api_withdraw(struct mk_peer_api *api)
{
	api->withdraws = true;
	for (size_t kind = 0; kind < MK_PEER_API_KINDS; kind++)
		mk_reflector_stop(mk_steal_ptr(api->reflectors[kind]));
	if (api->inbox)
		inbox_sweep(api->inbox, NULL, NULL);
}

bool mk_peer_api_is_withdrawn(const struct mk_peer_api *api)
{
	for (size_t index = MK_PEER_API_KINDS; index < ALL_KINDS; index++)
		if (!api->reflectors[index] || !mk_reflector_has_listed(api->reflectors[index]))
			return false;
	return inbox_is_empty(api->inbox);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void name_all(struct mk_peer_api *api, const struct mk_peer_api_options *options)
{
	snprintf(api->read_namespace, sizeof(api->read_namespace), "%s%s",
		 options->secret ? MK_PUBLISHED_NAMESPACE : MK_INBOX_PREFIX,
		 options->secret ? "" : options->peer);
	if (options->own)
		snprintf(api->inbox_namespace, sizeof(api->inbox_namespace), MK_INBOX_PREFIX "%s",
			 options->own);
	snprintf(api->server_name, sizeof(api->server_name), "namespace %s of this cluster",
		 api->read_namespace);
	snprintf(api->of_secret.message, sizeof(api->of_secret.message),
		 "the server has not answered yet");
	for (size_t index = 0; index < ALL_KINDS; index++)
		describe_one(api, index);
}

struct mk_peer_api *mk_peer_api_start(struct mk_lead *lead,
				      const struct mk_peer_api_options *options,
				      const struct mk_peer_api_listener *listener,
				      struct mk_error *err)
{
	struct mk_peer_api *api = calloc(1, sizeof(*api));

	if (api) {
		api->peer = strdup(options->peer);
		api->secret = options->secret ? strdup(options->secret) : NULL;
	}
	if (!api || !api->peer || (options->secret && !api->secret)) {
		if (api)
			free(api->peer);
		free(api);
		mk_error_errno(err, ENOMEM, "API server of peer %s", options->peer);
		return NULL;
	}
	api->lead = lead;
	api->listener = *listener;
	api->objects_max = options->objects_max;
	api->backoff = (struct mk_backoff){ ROTATE_MIN_MS, ROTATE_MAX_MS, 0 };
	name_all(api, options);
	uv_timer_init(lead->kube->loop, &api->timer);
	uv_timer_init(lead->kube->loop, &api->rotation);
	api->timer.data = api->rotation.data = api;
	uv_timer_start(&api->timer, api->secret ? read_secret : read_own, 0, 0);
	return api;
}

static void closed(uv_handle_t *timer)
{
	struct mk_peer_api *api = timer->data;

	free(api->peer);
	free(api->secret);
	free(api);
}

static void rotation_closed(uv_handle_t *timer)
{
	struct mk_peer_api *api = timer->data;

	uv_close((uv_handle_t *)&api->timer, closed);
}

void mk_peer_api_stop(struct mk_peer_api *api)
{
	if (!api)
		return;
	mk_exchange_cancel(mk_steal_ptr(api->reading));
	disconnect(api);
	uv_timer_stop(&api->timer);
	uv_close((uv_handle_t *)&api->rotation, rotation_closed);
}

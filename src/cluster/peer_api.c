// SPDX-License-Identifier: Apache-2.0
/* The connection to a peer's API server: its Secret, one HTTP client, and three reflectors. */
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
#include "cluster/lead_internal.h"

#define SECRET_MS	300000 /* read it again, in case that nothing else says that it changed */
#define SECRET_AGAIN_MS 10000 /* not more often after failures */
#define ROTATE_MIN_MS	40 /* to the next server */
#define ROTATE_MAX_MS	30000
#define UNREACHABLE_MS	3000 /* a shorter interruption is no news */
#define ABSENT_MS	60000
#define SILENCE_MS	10000
#define SECRET_BYTES	(2 * 1024 * 1024)

#define PUBLISHED "/apis/networking.monokube.io/v1alpha1/namespaces/monokube-published/"
#define ITS_REMEDY \
	"the token needs Role monokube-peer-reader there: apply multicluster.yaml and the RoleBinding at the peer"

/* What is known of the server by the requests for one kind. */
struct health {
	enum mk_peer_api_reason reason;
	uint64_t failing_since_ms; /* 0: the last request was answered */
	bool answered; /* by the server in use */
	char message[512];
};

struct mk_peer_api {
	struct mk_lead *lead;
	char *peer, *secret;
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
	struct mk_resource resources[MK_PEER_API_KINDS];
	char names[MK_PEER_API_KINDS][96];
	struct mk_reflector *reflectors[MK_PEER_API_KINDS];
	struct health health[MK_PEER_API_KINDS];
	bool was_connected;
};

static void read_secret(uv_timer_t *timer);

/* ---- state ----------------------------------------------------------------------------------- */

static const struct health *worst(const struct mk_peer_api *api)
{
	const struct health *found = &api->of_secret;

	for (size_t kind = 0; kind < MK_PEER_API_KINDS; kind++)
		if (api->http && api->health[kind].reason > found->reason)
			found = &api->health[kind];
	return found;
}

struct mk_peer_api_state mk_peer_api_state(const struct mk_peer_api *api)
{
	const struct health *health = worst(api);
	struct mk_peer_api_state state = { health->reason, health->message, 0 };
	struct mk_reflector_stats stats;

	for (size_t kind = 0; api->was_connected && kind < MK_PEER_API_KINDS; kind++) {
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
	if (worst(api)->reason != before)
		api->listener.state(api->listener.ctx);
}

/* ---- the Secret ------------------------------------------------------------------------------ */

static void read_secret_after(struct mk_peer_api *api, uint64_t wait_ms)
{
	uint64_t now_ms = uv_now(api->lead->kube->loop);
	uint64_t soonest_ms = api->read_ms ? api->read_ms + SECRET_AGAIN_MS : 0;

	if (api->reading)
		return;
	if (now_ms + wait_ms < soonest_ms)
		wait_ms = soonest_ms - now_ms;
	if (!uv_is_active((uv_handle_t *)&api->timer) || uv_timer_get_due_in(&api->timer) > wait_ms)
		uv_timer_start(&api->timer, read_secret, wait_ms, 0);
}

static void hang_up(struct mk_peer_api *api)
{
	for (size_t kind = 0; kind < MK_PEER_API_KINDS; kind++)
		mk_reflector_stop(mk_steal_ptr(api->reflectors[kind]));
	uv_timer_stop(&api->rotation);
	if (api->http)
		mk_http_free(mk_steal_ptr(api->http));
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
	api->listener.begins(api->listener.ctx);
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
		api->listener.begins(api->listener.ctx);
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
	for (size_t kind = 0; kind < MK_PEER_API_KINDS; kind++)
		if (api->health[kind].answered && !api->health[kind].failing_since_ms)
			return true;
	return false;
}

/* All requests begin again, at the next server. So each answer is one of the server in use. */
static void next_server(uv_timer_t *timer)
{
	struct mk_peer_api *api = timer->data;
	struct mk_error err;
	int ret;

	if (serves(api))
		return;
	hang_up(api);
	api->listener.begins(api->listener.ctx);
	api->server = (api->server + 1) % api->servers.count;
	ret = mk_credentials_use(&api->credentials, api->servers.of[api->server], &err);
	ret = ret ?: connect_to(api, &err);
	if (ret < 0)
		mk_log_error("peer %s: %s", api->peer, err.text);
}

static void rotate(struct mk_peer_api *api)
{
	if (api->servers.count == 1 || uv_is_active((uv_handle_t *)&api->rotation))
		return;
	if (uv_now(api->lead->kube->loop) - api->since_ms > ROTATE_MAX_MS)
		mk_backoff_reset(&api->backoff);
	uv_timer_start(&api->rotation, next_server,
		       mk_backoff_next(&api->backoff, 0, mk_backoff_random()), 0);
}

static enum mk_peer_api_kind kind_of(const struct mk_peer_api *api,
				     const struct mk_resource *resource)
{
	return (enum mk_peer_api_kind)(resource - api->resources);
}

static void answers(struct mk_peer_api *api, struct health *health)
{
	health->failing_since_ms = 0;
	health->answered = true;
	api->was_connected = true;
	set_health(api, health, MK_PEER_API_CONNECTED, "%s is read", api->credentials.server);
}

static void does_not_answer(struct mk_peer_api *api, struct health *health, const char *text)
{
	uint64_t now_ms = uv_now(api->lead->kube->loop);

	rotate(api);
	health->failing_since_ms = health->failing_since_ms ?: now_ms;
	if (!api->was_connected || now_ms - health->failing_since_ms >= UNREACHABLE_MS)
		set_health(
			api, health, MK_PEER_API_UNREACHABLE,
			"%s: %s; copies stay; it tries again: check data.servers of Secret " MK_PEERS_NAMESPACE
			"/%s and the way there",
			api->credentials.server, text, api->secret);
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
			   api->credentials.server, text,
			   result->status == 403 ? ITS_REMEDY
						 : "write a valid token into the Secret");
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
	struct health *health = &api->health[kind_of(api, resource)];

	if (result)
		on_failure(api, health, result, text);
	else
		answers(api, health);
}

/* ---- objects --------------------------------------------------------------------------------- */

static int apply(void *ctx, const struct mk_resource *resource, json_object *tree,
		 struct mk_error *err)
{
	struct mk_peer_api *api = ctx;

	(void)err;
	api->listener.object(api->listener.ctx, kind_of(api, resource),
			     mk_json_metadata(tree, "name"), tree);
	return 0;
}

static void remove_object(void *ctx, const struct mk_resource *resource, const char *namespace_,
			  const char *name)
{
	struct mk_peer_api *api = ctx;

	(void)namespace_;
	api->listener.object(api->listener.ctx, kind_of(api, resource), name, NULL);
}

static void on_listed(void *ctx, const struct mk_resource *resource)
{
	struct mk_peer_api *api = ctx;

	answers(api, &api->health[kind_of(api, resource)]);
	api->listener.listed(api->listener.ctx, kind_of(api, resource));
}

/* A kind that the server lacks stays unread. */
static void on_absent(void *ctx, const struct mk_resource *resource)
{
	(void)ctx;
	(void)resource;
}

/* ---- to connect ------------------------------------------------------------------------------ */

static void describe(struct mk_peer_api *api)
{
	static const char *const unused[] = { "metadata.managedFields", NULL };
	static const struct {
		const char *kind, *path;
	} kinds[] = {
		[MK_PEER_API_CLUSTERS] = { "PublishedCluster", PUBLISHED "publishedclusters" },
		[MK_PEER_API_NODES] = { "PublishedNode", PUBLISHED "publishednodes" },
		[MK_PEER_API_SERVICES] = { "PublishedService", PUBLISHED "publishedservices" },
	};

	for (size_t kind = 0; kind < MK_PEER_API_KINDS; kind++) {
		snprintf(api->names[kind], sizeof(api->names[kind]), "%ss at peer %s",
			 kinds[kind].kind, api->peer);
		api->resources[kind] = (struct mk_resource){
			.name = api->names[kind],
			.api_version = "networking.monokube.io/v1alpha1",
			.kind = kinds[kind].kind,
			.path = kinds[kind].path,
			.remedy = ITS_REMEDY,
			.optional = true,
			.model_kind = MK_KIND_COUNT,
			.unused = unused,
		};
	}
}

static int connect_to(struct mk_peer_api *api, struct mk_error *err)
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
	api->since_ms = uv_now(kube->loop);
	api->http = mk_http_new(kube->loop, &api->credentials, kube->limits, err);
	if (!api->http)
		return -err->code;
	for (size_t kind = 0; kind < MK_PEER_API_KINDS; kind++) {
		api->health[kind].answered = false;
		api->reflectors[kind] = mk_reflector_start(
			kube->loop, api->http, &api->resources[kind], &timing, &sink, err);
		if (!api->reflectors[kind])
			return -ENOMEM;
	}
	mk_log_info("peer %s: following its API server at %s", api->peer, api->credentials.server);
	return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct mk_peer_api *mk_peer_api_start(struct mk_lead *lead, const char *peer, const char *secret,
				      const struct mk_peer_api_listener *listener,
				      struct mk_error *err)
{
	struct mk_peer_api *api = calloc(1, sizeof(*api));

	if (api) {
		api->peer = strdup(peer);
		api->secret = strdup(secret);
	}
	if (!api || !api->peer || !api->secret) {
		if (api) {
			free(api->peer);
			free(api->secret);
		}
		free(api);
		mk_error_errno(err, ENOMEM, "API server of peer %s", peer);
		return NULL;
	}
	api->lead = lead;
	api->listener = *listener;
	api->backoff = (struct mk_backoff){ ROTATE_MIN_MS, ROTATE_MAX_MS, 0 };
	snprintf(api->of_secret.message, sizeof(api->of_secret.message),
		 "the server has not answered yet");
	describe(api);
	uv_timer_init(lead->kube->loop, &api->timer);
	uv_timer_init(lead->kube->loop, &api->rotation);
	api->timer.data = api->rotation.data = api;
	uv_timer_start(&api->timer, read_secret, 0, 0);
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

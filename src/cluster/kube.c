// SPDX-License-Identifier: Apache-2.0
#include "cluster/kube_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/api/exchange.h"
#include "cluster/api/http.h"
#include "cluster/lead_internal.h"

/* ---- from the reflectors --------------------------------------------------------------------- */

#define VERSION_SILENCE_MS 10000
#define VERSION_BYTES	   4096 /* usually about 500 */
#define VERSION_CHARS	   64

static void look_later(struct mk_kube *kube);

/* Those of network policies come later. */
static bool is_always_followed(int id)
{
	return id < MK_RESOURCE_NETWORK_POLICIES && id != MK_RESOURCE_ENDPOINTS;
}

static bool is_own_node(const struct mk_kube *kube, const struct mk_resource *resource,
			const char *name)
{
	return kube->report && resource->model_kind == MK_KIND_NODE &&
	       strcmp(name, kube->node_name) == 0;
}

static bool has_function_label(json_object *tree)
{
	json_object *labels = mk_json_member(mk_json_member(tree, "metadata"), "labels");

	return labels && json_object_object_get_ex(labels, MK_FUNCTION_LABEL, NULL);
}

/* Does another list of Pods have a later version of this one? A function pod comes only from the
 * list of function pods, until it has lost the label. */
static bool is_outdated(const struct mk_kube *kube, const struct mk_resource *resource,
			json_object *tree)
{
	const char *namespace_ = mk_json_metadata(tree, "namespace"),
		   *name = mk_json_metadata(tree, "name");
	uint64_t version = strtoull(mk_json_metadata(tree, "resourceVersion"), NULL, 10),
		 its_version;

	if (kube_is_function_pod(kube, resource, namespace_, name) && has_function_label(tree))
		return true;
	return kube_other_has_pod(kube, resource, namespace_, name, &its_version) &&
	       its_version > version;
}

static int apply(void *ctx, const struct mk_resource *resource, json_object *tree,
		 struct mk_error *err)
{
	struct mk_kube *kube = ctx;
	int ret;

	if (kube->lead)
		lead_saw(kube->lead, resource, mk_json_metadata(tree, "namespace"),
			 mk_json_metadata(tree, "name"), tree);
	if (is_own_node(kube, resource, mk_json_metadata(tree, "name")))
		mk_report_node(kube->report, tree);
	if (is_outdated(kube, resource, tree))
		return 0;
	ret = mk_model_apply(kube->model, tree, err);
	if (resource->model_kind == MK_KIND_CHAIN)
		kube_chain_seen(kube, tree, ret == -EINVAL ? mk_error_text(err) : NULL);
	return ret;
}

static void remove_object(void *ctx, const struct mk_resource *resource, const char *namespace_,
			  const char *name)
{
	struct mk_kube *kube = ctx;
	uint64_t version;

	if (kube->lead)
		lead_saw(kube->lead, resource, namespace_, name, NULL);
	if (resource->model_kind == MK_KIND_CHAIN)
		kube_chain_gone(kube, namespace_, name);
	if (!kube_other_has_pod(kube, resource, namespace_, name, &version))
		mk_model_delete(kube->model, resource->model_kind, namespace_, name);
}

static void each_pod(void *ctx, const struct mk_resource *resource,
		     void (*visit)(void *of, const char *namespace_, const char *name), void *of)
{
	const struct mk_kube *kube = ctx;
	const struct mk_pod_object *pod = mk_model_next(kube->model, MK_KIND_POD, NULL), *next;

	(void)resource;
	for (; pod; pod = next) {
		next = mk_model_next(kube->model, MK_KIND_POD, pod);
		visit(of, pod->of->namespace_, pod->name);
	}
}

static void on_listed(void *ctx, const struct mk_resource *resource)
{
	struct mk_kube *kube = ctx;

	kube->settled[resource - kube->resources] = true;
	look_later(kube);
}

/* A server without EndpointSlices is older than any maintained version. It has Endpoints. */
static void on_absent(void *ctx, const struct mk_resource *resource)
{
	struct mk_kube *kube = ctx;
	enum mk_resource_id id = (enum mk_resource_id)(resource - kube->resources);
	struct mk_error err;

	if (id == MK_RESOURCE_ENDPOINT_SLICES) {
		if (kube->reflectors[MK_RESOURCE_ENDPOINTS])
			return;
		kube->settled[id] = true;
		kube->settled[MK_RESOURCE_ENDPOINTS] = false;
		if (kube_follow(kube, MK_RESOURCE_ENDPOINTS, &err) < 0)
			mk_log_error("no endpoints of Services: %s", err.text);
	} else if (resource->optional) {
		kube->settled[id] = true;
		look_later(kube);
	}
}

int kube_follow(struct mk_kube *kube, enum mk_resource_id id, struct mk_error *err)
{
	bool has_pods = kube->resources[id].model_kind == MK_KIND_POD;
	const struct mk_reflector_sink sink = { .apply = apply,
						.remove = remove_object,
						.listed = on_listed,
						.absent = on_absent,
						.each = has_pods ? each_pod : NULL,
						.ctx = kube };

	kube->reflectors[id] = mk_reflector_start(kube->loop, kube->http, &kube->resources[id],
						  &kube->timing, &sink, err);
	return kube->reflectors[id] ? 0 : -ENOMEM;
}

/* ---- outside libcurl ------------------------------------------------------------------------- */

/* The server has been upgraded: slices are complete, so Endpoints are not needed. */
static void drop_endpoints(struct mk_kube *kube)
{
	mk_log_info("the API server has EndpointSlices now: Endpoints are no longer read");
	mk_reflector_withdraw(mk_steal_ptr(kube->reflectors[MK_RESOURCE_ENDPOINTS]));
	kube->settled[MK_RESOURCE_ENDPOINTS] = true;
}

static bool is_read(const struct mk_kube *kube, enum mk_resource_id id)
{
	return kube->reflectors[id] && mk_reflector_has_listed(kube->reflectors[id]);
}

/* Is it one word, fit for a line of the log? */
static bool is_word(const char *text)
{
	if (!*text || strlen(text) >= VERSION_CHARS)
		return false;
	for (; *text; text++)
		if (!isgraph((unsigned char)*text))
			return false;
	return true;
}

static void say_version(const struct mk_kube *kube, const char *version, const char *why)
{
	bool streams = mk_reflector_has_streamed(kube->reflectors[MK_RESOURCE_SERVICES]);

	mk_log_info("API server version=%s lists=%s endpoints=%s ServiceCIDRs=%s%s%s%s",
		    version ? version : "unknown", streams ? "streaming" : "paged",
		    is_read(kube, MK_RESOURCE_ENDPOINT_SLICES) ? "EndpointSlices" : "Endpoints",
		    is_read(kube, MK_RESOURCE_SERVICE_CIDRS) ? "yes" : "no", why ? " why='" : "",
		    why ? why : "", why ? "'" : "");
}

/* Nothing depends on the version: requests show what the server can do. */
static void on_version(void *ctx, const struct mk_answer *answer)
{
	const char *version = mk_json_text(answer->tree, "gitVersion");
	struct mk_kube *kube = ctx;
	char why[64];

	kube->version = NULL;
	snprintf(why, sizeof(why), "HTTP status %d for /version", answer->status);
	if (answer->status != 200)
		say_version(kube, NULL, answer->status ? why : answer->why);
	else if (is_word(version))
		say_version(kube, version, NULL);
	else
		say_version(kube, NULL, "/version has no gitVersion");
}

/* Log what the server has, which is known only after its answers. */
static void say_what_was_found(struct mk_kube *kube)
{
	const struct mk_exchange_request request = { .method = "GET",
						     .target = "/version",
						     .silence_ms = VERSION_SILENCE_MS,
						     .kept_bytes = VERSION_BYTES,
						     .done = on_version,
						     .ctx = kube };
	struct mk_error err;

	kube->version = mk_exchange_start(kube->http, &request, &err);
	if (!kube->version)
		say_version(kube, NULL, err.text);
}

static void look(uv_timer_t *timer)
{
	struct mk_kube *kube = timer->data;

	if (kube->reflectors[MK_RESOURCE_ENDPOINTS] &&
	    mk_reflector_has_listed(kube->reflectors[MK_RESOURCE_ENDPOINT_SLICES]))
		drop_endpoints(kube);
	for (int id = 0; id < MK_RESOURCE_NETWORK_POLICIES; id++)
		if (!kube->settled[id])
			return;
	if (kube_policies_news(kube) || !kube->told)
		kube->listed(kube->ctx, true);
	if (!kube->told)
		say_what_was_found(kube);
	kube->told = true;
}

static void look_later(struct mk_kube *kube)
{
	uv_timer_start(&kube->later, look, 0, 0);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int load(struct mk_kube *kube, const struct mk_kube_options *options, struct mk_error *err)
{
	int ret = mk_credentials_load(&options->source, &kube->credentials, err);

	if (ret < 0)
		return ret;
	kube->node_name = strdup(options->node_name ? options->node_name : "");
	if (!kube->node_name || asprintf(&kube->own_pods, "spec.nodeName=%s", kube->node_name) < 0)
		return mk_error_errno(err, ENOMEM, "API client");
	for (int id = 0; id < MK_RESOURCE_COUNT; id++)
		kube->resources[id] = *mk_resource((enum mk_resource_id)id);
	kube->resources[MK_RESOURCE_OWN_PODS].field_selector = kube->own_pods;
	kube->limits = options->limits ? options->limits : &mk_http_limits_default;
	kube->http = mk_http_new(kube->loop, &kube->credentials, kube->limits, err);
	if (!kube->http)
		return -err->code;
	if (!options->node_name)
		return 0;
	kube->report = mk_report_new(kube->loop, kube->http, options->node_name,
				     options->event_again_ms, err);
	kube->chains = kube->report ? kube_chains_new(kube, err) : NULL;
	kube->lead = kube->chains ? lead_new(kube, options->lease, err) : NULL;
	return kube->lead ? 0 : -err->code;
}

static int follow_all(struct mk_kube *kube, struct mk_error *err)
{
	int ret = 0;

	for (int id = 0; id < MK_RESOURCE_COUNT && ret == 0; id++)
		if (is_always_followed(id))
			ret = kube_follow(kube, (enum mk_resource_id)id, err);
	kube->settled[MK_RESOURCE_ENDPOINTS] = true;
	return ret;
}

struct mk_kube *kube_start(uv_loop_t *loop, const struct mk_kube_options *options,
			   struct mk_model *model, mk_listed_fn *listed, void *ctx,
			   struct mk_error *err)
{
	struct mk_kube *kube = mk_new(sizeof(*kube), "API client", err);
	struct mk_error own; /* the code is needed even if the caller does not want the text */

	err = err ? err : &own;
	if (!kube)
		return NULL;
	kube->loop = loop;
	kube->model = model;
	kube->listed = listed;
	kube->ctx = ctx;
	kube->timing = options->timing ? *options->timing : mk_reflector_timing_default;
	uv_timer_init(loop, &kube->later);
	kube->later.data = kube;
	if (load(kube, options, err) < 0 || follow_all(kube, err) < 0) {
		kube_stop(kube);
		return NULL;
	}
	mk_log_info(
		"following the API server at %s (%s%s%s)", kube->credentials.server,
		kube->credentials.origin,
		kube->credentials.insecure ? "; its certificate is NOT verified" : "",
		kube->credentials.by_service
			? "; this is the address of a Service: if neither kube-proxy nor monokube runs yet, set apiServer to an address that nodes reach"
			: "");
	return kube;
}

void kube_stop(struct mk_kube *kube)
{
	if (!kube)
		return;
	for (int id = 0; id < MK_RESOURCE_COUNT; id++)
		mk_reflector_stop(kube->reflectors[id]);
	lead_free(kube->lead);
	kube_chains_free(kube->chains);
	mk_report_free(kube->report);
	mk_exchange_cancel(kube->version);
	mk_http_free(kube->http);
	mk_credentials_release(&kube->credentials);
	free(kube->node_name);
	free(kube->own_pods);
	mk_timer_free(&kube->later);
}

void kube_ready(struct mk_kube *kube)
{
	if (kube->report)
		mk_report_ready(kube->report);
}

void kube_wireguard(struct mk_kube *kube, const char *text)
{
	if (kube->report)
		mk_report_wireguard(kube->report, text);
}

void kube_event(struct mk_kube *kube, bool warning, const char *reason, const char *message)
{
	if (kube->report)
		mk_report_event(kube->report, NULL, warning, reason, message);
}

struct mk_lead *kube_lead(struct mk_kube *kube)
{
	return kube->lead;
}

struct mk_ip kube_server(const struct mk_kube *kube)
{
	return mk_http_server(kube->http);
}

const struct mk_api_clock *kube_clock(const struct mk_kube *kube)
{
	return mk_http_clock(kube->http);
}

void kube_stats(const struct mk_kube *kube, struct mk_reflector_stats stats[MK_RESOURCE_COUNT])
{
	for (int id = 0; id < MK_RESOURCE_COUNT; id++) {
		stats[id] = (struct mk_reflector_stats){ 0 };
		if (kube->reflectors[id])
			mk_reflector_stats(kube->reflectors[id], &stats[id]);
	}
}

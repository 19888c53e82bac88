// SPDX-License-Identifier: Apache-2.0
#include "cluster/api/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "cluster/api/backoff.h"
#include "cluster/api/exchange.h"

#define COLLECTION "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
#define KEPT_BYTES (64 * 1024)
#define NAME_CHARS 256

const struct mk_lease_timing mk_lease_timing_default = {
	.duration_s = 15, .renew_ms = 5000, .write_ms = 10000, .refused_ms = 60000
};

/* The Lease as last seen. */
struct state {
	bool exists;
	char version[NAME_CHARS], holder[NAME_CHARS], acquired[NAME_CHARS];
	int64_t duration_s, transitions;
	uint64_t since_ms; /* when @version was seen first */
};

struct mk_lease {
	uv_loop_t *loop;
	struct mk_http *http;
	struct mk_lease_options options;
	struct mk_lease_timing timing;
	uv_timer_t timer; /* the next request */
	uv_timer_t expiry; /* the end of what it holds */
	unsigned int handles;
	struct mk_exchange *exchange;
	bool wanted, reads, releases; /* the latter two: what the request is for */
	uint64_t asked_ms; /* when it was started */
	struct state seen;
	uint64_t until_ms; /* it holds the Lease until then; 0: it does not */
	bool told; /* what changed() has been called with */
	struct mk_backoff backoff;
	char said[512]; /* the problem that is logged; "": none */
};

/* The time since boot, with the time that the host has slept. */
static uint64_t now_ms(void)
{
	return mk_time_ns(CLOCK_BOOTTIME) / 1000000;
}

bool mk_lease_holds(const struct mk_lease *lease)
{
	return lease->until_ms > now_ms();
}

static void ask(uv_timer_t *timer);
static void expire(uv_timer_t *timer);

static void ask_after(struct mk_lease *lease, uint64_t wait_ms)
{
	uv_timer_start(&lease->timer, ask, wait_ms, 0);
}

/* Candidates do not look at the same time: up to a fifth earlier. */
static void look_again(struct mk_lease *lease)
{
	uint64_t renew_ms = lease->timing.renew_ms;

	ask_after(lease, renew_ms - mk_backoff_random() % (renew_ms / 5 + 1));
}

static void tell(struct mk_lease *lease)
{
	bool holds = mk_lease_holds(lease);

	if (holds == lease->told)
		return;
	lease->told = holds;
	mk_log_info("Lease %s/%s: %s %s", lease->options.namespace_, lease->options.name,
		    lease->options.holder, holds ? "leads" : "no longer leads");
	lease->options.changed(lease->options.ctx, holds);
}

/* If the host slept, the old term has ended before its timer: changed() hears of that first. */
static void hold_until(struct mk_lease *lease, uint64_t until_ms)
{
	uint64_t now = now_ms();

	tell(lease);
	lease->until_ms = until_ms;
	if (until_ms > now)
		uv_timer_start(&lease->expiry, expire, until_ms - now, 0);
	else
		uv_timer_stop(&lease->expiry);
	tell(lease);
}

static void expire(uv_timer_t *timer)
{
	struct mk_lease *lease = timer->data;

	hold_until(lease, lease->until_ms);
}

/* ---- the object ------------------------------------------------------------------------------ */

/* A text that does not fit counts as another holder's, so the Lease is not free. */
static void copy_text(char to[NAME_CHARS], json_object *of, const char *key)
{
	json_object *value = mk_json_member(of, key);

	snprintf(to, NAME_CHARS, "%s", value ? json_object_get_string(value) : "");
}

static void see(struct mk_lease *lease, json_object *tree)
{
	json_object *metadata = mk_json_member(tree, "metadata"),
		    *spec = mk_json_member(tree, "spec");
	struct state *seen = &lease->seen;
	char version[NAME_CHARS];

	copy_text(version, metadata, "resourceVersion");
	if (!seen->exists || strcmp(version, seen->version) != 0)
		seen->since_ms = now_ms();
	snprintf(seen->version, sizeof(seen->version), "%s", version);
	seen->exists = true;
	copy_text(seen->holder, spec, "holderIdentity");
	copy_text(seen->acquired, spec, "acquireTime");
	seen->duration_s = json_object_get_int64(mk_json_member(spec, "leaseDurationSeconds"));
	seen->transitions = json_object_get_int64(mk_json_member(spec, "leaseTransitions"));
}

static bool is_own(const struct mk_lease *lease)
{
	return strcmp(lease->seen.holder, lease->options.holder) == 0;
}

bool mk_lease_is_releasing(const struct mk_lease *lease)
{
	return !lease->wanted && (lease->exchange || is_own(lease));
}

/* A duration that makes no sense counts as this process's own. */
static bool is_free(const struct mk_lease *lease)
{
	const struct state *seen = &lease->seen;
	int64_t own_s = lease->timing.duration_s;
	int64_t duration_s =
		seen->duration_s > 0 && seen->duration_s <= 3600 ? seen->duration_s : own_s;

	return !seen->exists || !*seen->holder || is_own(lease) ||
	       now_ms() >= seen->since_ms + (uint64_t)duration_s * 1000;
}

/* The type MicroTime requires six digits. */
static void format_now(char text[MK_TIME_STRLEN])
{
	int64_t now_us = mk_time_now_unix_ns() / 1000;
	time_t now_s = now_us / 1000000;
	struct tm utc;
	size_t used;

	gmtime_r(&now_s, &utc);
	used = strftime(text, MK_TIME_STRLEN, "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + used, MK_TIME_STRLEN - used, ".%06ldZ", (long)(now_us % 1000000));
}

static json_object *spec_of(const struct mk_lease *lease)
{
	json_object *spec = json_object_new_object();
	const struct state *seen = &lease->seen;
	bool keeps = is_own(lease) && *seen->acquired;
	char now[MK_TIME_STRLEN];

	format_now(now);
	mk_put_text(spec, "holderIdentity", lease->releases ? "" : lease->options.holder);
	mk_put_number(spec, "leaseDurationSeconds",
		      lease->releases ? 1 : (int)lease->timing.duration_s);
	mk_put_text(spec, "acquireTime", keeps ? seen->acquired : now);
	mk_put_text(spec, "renewTime", now);
	json_object_object_add(spec, "leaseTransitions",
			       json_object_new_int64(seen->transitions +
						     (seen->exists && !is_own(lease) ? 1 : 0)));
	return spec;
}

static json_object *body_of(const struct mk_lease *lease)
{
	json_object *body = json_object_new_object(), *metadata = json_object_new_object();

	mk_put_text(body, "apiVersion", "coordination.k8s.io/v1");
	mk_put_text(body, "kind", "Lease");
	mk_put_text(metadata, "name", lease->options.name);
	mk_put_text(metadata, "namespace", lease->options.namespace_);
	if (lease->seen.exists)
		mk_put_text(metadata, "resourceVersion", lease->seen.version);
	json_object_object_add(body, "metadata", metadata);
	json_object_object_add(body, "spec", spec_of(lease));
	return body;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void say(struct mk_lease *lease, const struct mk_answer *answer)
{
	char text[sizeof(lease->said)];

	snprintf(text, sizeof(text), "%s (HTTP status %d)", answer->why, answer->status);
	if (strcmp(text, lease->said) == 0)
		return;
	snprintf(lease->said, sizeof(lease->said), "%s", text);
	mk_log_warn("Lease %s/%s: not %s: %s; without it this node does not lead; %s",
		    lease->options.namespace_, lease->options.name,
		    lease->reads ? "read" : "written", text,
		    mk_answer_is_temporary(answer) ? "it tries again" : lease->options.remedy);
}

static void take_lease(struct mk_lease *lease, json_object *tree)
{
	*lease->said = '\0';
	mk_backoff_reset(&lease->backoff);
	see(lease, tree);
	if (!lease->wanted) {
		hold_until(lease, 0);
		ask_after(lease, 0);
	} else if (!lease->reads) {
		hold_until(lease, is_own(lease) ? lease->asked_ms + lease->timing.write_ms : 0);
		ask_after(lease, lease->timing.renew_ms);
	} else if (is_free(lease)) {
		ask_after(lease, 0);
	} else {
		hold_until(lease, 0);
		look_again(lease);
	}
}

/* Another process has written, created or deleted it: read it again. */
static void read_again(struct mk_lease *lease, bool exists)
{
	if (exists && lease->seen.exists)
		*lease->seen.version = '\0';
	else
		lease->seen = (struct state){ 0 };
	ask_after(lease, 0);
}

static void fail(struct mk_lease *lease, const struct mk_answer *answer)
{
	uint64_t wait_ms =
		mk_backoff_next(&lease->backoff, answer->retry_after_s, mk_backoff_random());

	say(lease, answer);
	ask_after(lease, mk_answer_is_temporary(answer) ? wait_ms : lease->timing.refused_ms);
}

static void answered(void *ctx, const struct mk_answer *answer)
{
	struct mk_lease *lease = ctx;

	lease->exchange = NULL;
	if (lease->releases) {
		lease->seen = (struct state){ 0 };
		if (lease->wanted)
			ask_after(lease, 0);
	} else if (mk_answer_is_good(answer) && mk_json_member(answer->tree, "metadata")) {
		take_lease(lease, answer->tree);
	} else if (answer->status == 409 ||
		   (answer->status == 404 && !lease->reads && lease->seen.exists)) {
		read_again(lease, answer->status == 409);
	} else if (answer->status == 404 && lease->reads) {
		lease->seen = (struct state){ 0 };
		lease->seen.since_ms = now_ms();
		ask_after(lease, 0);
	} else {
		fail(lease, answer);
	}
	lease->releases = false;
}

/* ---- requests -------------------------------------------------------------------------------- */

static int start(struct mk_lease *lease, const char *method, const char *body, struct mk_error *err)
{
	cleanup_free char *target = NULL;
	bool is_new = strcmp(method, "POST") == 0;
	struct mk_exchange_request request = { .method = method,
					       .content_type = body ? "application/json" : NULL,
					       .body = body,
					       .silence_ms = lease->timing.renew_ms,
					       .kept_bytes = KEPT_BYTES,
					       .done = answered,
					       .ctx = lease };

	if (asprintf(&target, COLLECTION "%s%s", lease->options.namespace_, is_new ? "" : "/",
		     is_new ? "" : lease->options.name) < 0)
		return mk_error_errno(err, ENOMEM, "request of a Lease");
	request.target = target;
	lease->asked_ms = now_ms();
	lease->exchange = mk_exchange_start(lease->http, &request, err);
	return lease->exchange ? 0 : -err->code;
}

/* A Lease whose version is known can be written if it is free or its own; otherwise it is read. */
static void ask(uv_timer_t *timer)
{
	struct mk_lease *lease = timer->data;
	struct state *seen = &lease->seen;
	cleanup_json json_object *body = NULL;
	const char *method = "GET";
	struct mk_error err;

	if (lease->exchange || !(lease->wanted || is_own(lease)))
		return;
	lease->releases = !lease->wanted && *seen->version;
	lease->reads = seen->exists ? !*seen->version || !is_free(lease) : !seen->since_ms;
	if (!lease->reads) {
		method = seen->exists ? "PUT" : "POST";
		body = body_of(lease);
	}
	if (start(lease, method, body ? json_object_to_json_string(body) : NULL, &err) < 0)
		ask_after(lease, lease->timing.renew_ms);
}

void mk_lease_want(struct mk_lease *lease, bool wanted)
{
	if (wanted == lease->wanted)
		return;
	lease->wanted = wanted;
	*lease->said = '\0';
	if (!wanted)
		hold_until(lease, 0);
	ask_after(lease, 0);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct mk_lease *mk_lease_new(uv_loop_t *loop, struct mk_http *http,
			      const struct mk_lease_options *options, struct mk_error *err)
{
	struct mk_lease *lease = mk_new(sizeof(*lease), "Lease", err);

	if (!lease)
		return NULL;
	lease->loop = loop;
	lease->http = http;
	lease->options = *options;
	lease->timing = options->timing ? *options->timing : mk_lease_timing_default;
	lease->backoff = (struct mk_backoff){ .min_ms = lease->timing.renew_ms / 5 + 1,
					      .max_ms = lease->timing.renew_ms };
	uv_timer_init(loop, &lease->timer);
	uv_timer_init(loop, &lease->expiry);
	lease->timer.data = lease->expiry.data = lease;
	lease->handles = 2;
	return lease;
}

static void closed(uv_handle_t *timer)
{
	struct mk_lease *lease = timer->data;

	if (--lease->handles == 0)
		free(lease);
}

void mk_lease_free(struct mk_lease *lease)
{
	if (!lease)
		return;
	mk_exchange_cancel(lease->exchange);
	uv_close((uv_handle_t *)&lease->timer, closed);
	uv_close((uv_handle_t *)&lease->expiry, closed);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/kube.h - follow an API server: its Nodes, Services, EndpointSlices and
 * ServiceCIDRs into the model, and
 * what this node has to say about itself back. The counterpart of cluster_dir.h. */
#ifndef MK_KUBE_KUBE_H
#define MK_KUBE_KUBE_H

#include <stdbool.h>
#include <uv.h>

#include "base/ip.h"
#include "kube/clock.h"
#include "kube/cluster_dir.h"
#include "kube/credentials.h"
#include "kube/reflector.h"
#include "model/model.h"

struct mk_kube;

struct mk_kube_options {
	struct mk_credentials_source source;
	const char *node_name; /* NULL: report nothing */
	const struct mk_reflector_timing *timing; /* NULL: the default */
	const struct mk_http_limits *limits; /* NULL: the default */
	uint64_t event_again_ms; /* until an Event may be counted up; 0: a minute */
};

/* Reads credentials (which is what can fail here, and libcurl missing), and begins. @listed is called
 * from the loop, once, with @complete true, when everything has been read for the first time;
 * before that, what the model lacks may still exist. The server away, now or later, leaves the
 * model as it is and is logged; what differs afterwards is applied when it is back. @model and
 * @options->limits stay the caller's, and have to live as long. Not to be stopped from within @listed
 * or the model's listener. */
mk_must_check struct mk_kube *mk_kube_start(uv_loop_t *loop, const struct mk_kube_options *options,
					    struct mk_model *model, mk_listed_fn *listed, void *ctx,
					    struct mk_error *err);

/* No callback comes after this. The memory goes once the loop has run its close callbacks. @kube may
 * be NULL. */
void mk_kube_stop(struct mk_kube *kube);

/* The datapath is ready: the Node's condition NetworkUnavailable is False, from now on. */
void mk_kube_ready(struct mk_kube *kube);

/* Of each resource (enum mk_resource_id), those that are not followed marked so. */
void mk_kube_stats(const struct mk_kube *kube, struct mk_reflector_stats stats[MK_RESOURCE_COUNT]);

/* The server's clock, as its last answer told. */
const struct mk_api_clock *mk_kube_clock(const struct mk_kube *kube);

/* The address that the server last answered from; AF_UNSPEC: none yet, or no IPv4 address. */
struct mk_ip mk_kube_server(const struct mk_kube *kube);

/* An Event on the Node: see mk_report_event(). */
void mk_kube_event(struct mk_kube *kube, bool warning, const char *reason, const char *message);

#endif

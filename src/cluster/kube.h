/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/kube.h - follow an API server: put its Nodes, Services, EndpointSlices and
 * ServiceCIDRs into the model, and report this node's condition and Events. The objects of
 * network policies and of other clusters are followed while they are wanted. The counterpart of
 * cluster_dir.h. */
#ifndef MK_CLUSTER_KUBE_H
#define MK_CLUSTER_KUBE_H

#include <stdbool.h>
#include <uv.h>

#include "base/ip.h"
#include "cluster/api/clock.h"
#include "cluster/api/credentials.h"
#include "cluster/api/lease.h"
#include "cluster/files/cluster_dir.h"
#include "cluster/lead.h"
#include "cluster/model/model.h"
#include "cluster/source.h"
#include "cluster/watch/reflector.h"

struct mk_kube;

struct mk_kube_options {
	struct mk_credentials_source source;
	const char *node_name; /* NULL: report nothing */
	const struct mk_reflector_timing *timing; /* NULL: the default */
	const struct mk_http_limits *limits; /* NULL: the default */
	uint64_t event_again_ms; /* shortest time between two counts of an Event; 0: a minute */
	const struct mk_lease_timing *lease; /* NULL: the default */
};

/* Load the credentials, which may fail, and start. @listed is called from the loop, with
 * @complete true, after everything has been read for the first time, and again for what became
 * wanted later. Until then, what the model
 * lacks may still exist.
 *
 * While the server is unreachable, the model stays unchanged and the log says so; later the
 * difference is applied. @model and @options->limits belong to the caller and must live as long. Do
 * not stop it within @listed or the model's listener. */
mk_must_check struct mk_kube *kube_start(uv_loop_t *loop, const struct mk_kube_options *options,
					 struct mk_model *model, mk_listed_fn *listed, void *ctx,
					 struct mk_error *err);

/* Stop; no callback follows. The memory is freed after the loop has run its close callbacks.
 * @kube may be NULL. */
void kube_stop(struct mk_kube *kube);

/* See mk_source_want(), mk_source_listed(). */
void kube_want(struct mk_kube *kube, enum mk_source_part part, unsigned int wanted);
bool kube_listed(const struct mk_kube *kube, enum mk_source_part part);

/* The datapath is ready: keep the Node's condition NetworkUnavailable False from now on. */
void kube_ready(struct mk_kube *kube);
void kube_wireguard(struct mk_kube *kube, const char *text);

/* Read the figures of each resource (enum mk_resource_id); @followed says whether
 * it is followed. */
void kube_stats(const struct mk_kube *kube, struct mk_reflector_stats stats[MK_RESOURCE_COUNT]);

/* Return the server's clock according to its last answer. */
const struct mk_api_clock *kube_clock(const struct mk_kube *kube);

/* Return the address that sent the last answer; AF_UNSPEC: none yet. */
struct mk_ip kube_server(const struct mk_kube *kube);

/* See mk_source_lead(). NULL: no node_name. */
struct mk_lead *kube_lead(struct mk_kube *kube);

/* See mk_source_chain_status(). */
void kube_chain_status(struct mk_kube *kube, const struct mk_chain_status *status);

/* Report an Event on the Node: see mk_report_event(). */
void kube_event(struct mk_kube *kube, bool warning, const char *reason, const char *message);

#endif

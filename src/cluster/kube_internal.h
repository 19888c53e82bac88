/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/kube_internal.h - shared by kube.c, which follows what is always followed,
 * kube_policies.c, which follows what network policies, service function chains and other clusters
 * need, kube_chains.c, which writes the status of chains, and lead.c, which leads. */
#ifndef MK_CLUSTER_KUBE_INTERNAL_H
#define MK_CLUSTER_KUBE_INTERNAL_H

#include "cluster/api/report.h"
#include "cluster/kube.h"

struct kube_chains;
struct mk_lead;

struct mk_kube {
	uv_loop_t *loop;
	struct mk_model *model;
	struct mk_credentials credentials;
	struct mk_http *http;
	struct mk_reflector_timing timing;
	const struct mk_http_limits *limits;
	struct mk_resource resources[MK_RESOURCE_COUNT]; /* with the name of this node */
	struct mk_reflector *reflectors[MK_RESOURCE_COUNT];
	bool settled[MK_RESOURCE_COUNT]; /* listed, or known to be absent */
	char *node_name, *own_pods; /* the latter: a field selector */
	struct mk_report *report; /* NULL: nothing is reported */
	struct kube_chains *chains; /* NULL as @report */
	struct mk_lead *lead; /* NULL as @report */
	struct mk_exchange *version; /* the request for it, once, for the log */
	mk_listed_fn *listed;
	void *ctx;
	bool told; /* listed() was called */
	unsigned int wanted[MK_SOURCE_PARTS];
	bool told_part[MK_SOURCE_PARTS];
	uv_timer_t later; /* runs what must not run within libcurl */
};

mk_must_check int kube_follow(struct mk_kube *kube, enum mk_resource_id id, struct mk_error *err);

/* Is @resource one of those that have Pods, and does another one have this Pod? *@version: the
 * latest version there. */
bool kube_other_has_pod(const struct mk_kube *kube, const struct mk_resource *resource,
			const char *namespace_, const char *name, uint64_t *version);
/* Do the function pods have this Pod of @resource, another one? They are read with more members. */
bool kube_is_function_pod(const struct mk_kube *kube, const struct mk_resource *resource,
			  const char *namespace_, const char *name);
/* Has more been read of what policies, chains and other clusters need than was reported? */
bool kube_policies_news(struct mk_kube *kube);

/* Return how many Ready Nodes come before this one in the order of @key; UINT_MAX: this Node is not
 * Ready. */
unsigned int kube_rank(const struct mk_kube *kube, const char *key);

struct kube_chains *kube_chains_new(struct mk_kube *kube, struct mk_error *err); /* NULL: error */
void kube_chains_free(struct kube_chains *chains); /* after a close callback of the loop */
/* The server's current object. @refused: why the model has not taken it, or NULL. */
void kube_chain_seen(struct mk_kube *kube, json_object *tree, const char *refused);
void kube_chain_gone(struct mk_kube *kube, const char *namespace_, const char *name);

#endif

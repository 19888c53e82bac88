/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/source.h - where the cluster's objects come from and where this node's reports go: a
 * cluster directory or an API server. The agent does not ask which. */
#ifndef MK_CLUSTER_SOURCE_H
#define MK_CLUSTER_SOURCE_H

#include <limits.h>
#include <stdbool.h>
#include <uv.h>

#include "cluster/api/clock.h"
#include "cluster/files/cluster_dir.h"
#include "cluster/lead.h"
#include "cluster/model/model.h"
#include "cluster/watch/reflector.h"
#include "config/config.h"

#define MK_SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

/* Describe the source that @config names, in words. Without any: an error that names the possible
 * ones. Checks only whether @account_dir has a service account. */
struct mk_source_text {
	char text[2 * PATH_MAX + 64];
};
mk_must_check int mk_source_choose(const struct mk_config *config, const char *account_dir,
				   struct mk_source_text *text, struct mk_error *err);

struct mk_source;

/* Follow the source in @config, on @loop, into @model, both the caller's. @listed: as for
 * mk_cluster_dir_start(). */
mk_must_check struct mk_source *mk_source_start(uv_loop_t *loop, const struct mk_config *config,
						struct mk_model *model, mk_listed_fn *listed,
						void *ctx, struct mk_error *err);

/* No callback comes after this; do not call it from within one. @source may be NULL. */
void mk_source_stop(struct mk_source *source);

/* Parts of the cluster that are followed only while they are wanted. */
enum mk_source_part {
	MK_SOURCE_POLICIES, /* NetworkPolicies, ClusterNetworkPolicies and ServiceFunctionChains */
	MK_SOURCE_PODS, /* and Namespaces: as enum mk_source_pods says */
	MK_SOURCE_FUNCTIONS, /* function pods of all nodes */
	MK_SOURCE_PEERS, /* ClusterPeers and what these have published */
	MK_SOURCE_PARTS,
};
enum mk_source_pods {
	MK_SOURCE_NO_PODS,
	MK_SOURCE_OWN_PODS, /* of this node */
	MK_SOURCE_ALL_PODS, /* also all that have an address and are not finished */
};

/* Follow @part, @wanted: bool or enum mk_source_pods. 0: follow it no longer, its objects vanish
 * from the model. Nothing is followed before the first call. Do not call it within the model's
 * listener. When all that is wanted has been read, @listed of mk_source_start() is called again,
 * once. A directory always has all objects. */
void mk_source_want(struct mk_source *source, enum mk_source_part part, unsigned int wanted);

/* Has all that is wanted of @part been read? false: the server refuses it, or the list is not
 * complete yet. A cluster without the resource ClusterNetworkPolicies, ServiceFunctionChains,
 * ClusterPeers, PublishedClusters or PublishedNodes has none of them. */
bool mk_source_listed(const struct mk_source *source, enum mk_source_part part);

/* This node's network works: pods may come. */
void mk_source_ready(struct mk_source *source);
/* Let other nodes and the leader of this cluster know the node's WireGuard: KEY:PORT
 * (MK_WIREGUARD_ANNOTATION). */
void mk_source_wireguard(struct mk_source *source, const char *text);

/* Returns false for a directory, which has no requests to count. */
bool mk_source_stats(const struct mk_source *source,
		     struct mk_reflector_stats stats[MK_RESOURCE_COUNT]);

/* Returns NULL for a directory, which has no clock. */
const struct mk_api_clock *mk_source_clock(const struct mk_source *source);

/* Report what an operator must know about this node. @reason is one word in CamelCase. */
void mk_source_warn(struct mk_source *source, const char *reason, const char *message);

/* Say what the status of a chain should be. This node writes it if it is its turn. */
void mk_source_chain_status(struct mk_source *source, const struct mk_chain_status *status);

/* Return what the leader needs of the API server; NULL for a directory, which has no leader. */
struct mk_lead *mk_source_lead(struct mk_source *source);

/* Get the address that the API server last answered from; false: unknown, or a directory. */
bool mk_source_server(const struct mk_source *source, struct mk_ip *ip);

#endif

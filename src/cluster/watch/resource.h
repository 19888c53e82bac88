/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/watch/resource.h - the table of resources read from the API server, and their
 * requests. */
#ifndef MK_CLUSTER_WATCH_RESOURCE_H
#define MK_CLUSTER_WATCH_RESOURCE_H

#include <stdbool.h>

#include "cluster/model/model.h"

enum mk_resource_id {
	MK_RESOURCE_NODES,
	MK_RESOURCE_SERVICES,
	MK_RESOURCE_SERVICE_CIDRS,
	MK_RESOURCE_ENDPOINT_SLICES,
	MK_RESOURCE_ENDPOINTS, /* only while the server has no EndpointSlices */
	/* Those of network policies, which are followed while they are wanted. */
	MK_RESOURCE_NETWORK_POLICIES,
	MK_RESOURCE_CLUSTER_POLICIES,
	MK_RESOURCE_CHAINS, /* ServiceFunctionChains, which are followed with policies */
	MK_RESOURCE_NAMESPACES,
	MK_RESOURCE_OWN_PODS, /* of this node */
	MK_RESOURCE_PODS, /* of the cluster, with an address of their own, not finished */
	MK_RESOURCE_FUNCTION_PODS, /* of the cluster, only with the label of a function */
	/* Those of other clusters, which are followed while they are wanted. */
	MK_RESOURCE_CLUSTER_PEERS,
	MK_RESOURCE_PUBLISHED_CLUSTERS,
	MK_RESOURCE_PUBLISHED_NODES,
	MK_RESOURCE_EXTERNALS, /* own PublishedServices with external addresses */
	MK_RESOURCE_SERVICE_IMPORTS,
	MK_RESOURCE_SERVICE_EXPORTS,
	MK_RESOURCE_COUNT
};

struct mk_resource {
	const char *name; /* for messages */
	const char *api_version, *kind;
	const char *path; /* of the collection, in all namespaces or in the one that counts */
	const char *older_path; /* of an older version, if the server lacks @path; NULL: none */
	const char *older_api_version; /* .. which it then serves */
	const char *label_selector; /* NULL: all */
	const char *field_selector; /* NULL: all */
	const char *older_field_selector; /* for a server that does not know all those fields */
	const char *remedy; /* if the server refuses access, which is not as if it lacked it */
	size_t objects_max; /* a server that serves more is not read; 0: it is */
	enum mk_kind model_kind;
	bool optional; /* the server may lack or refuse it */
	bool custom; /* it comes with a CRD, and goes with it */
	bool replaceable; /* a server that lacks it has a substitute */
	const char *const *unused, *const *kept; /* see decoder_new() */
};

const struct mk_resource *mk_resource(enum mk_resource_id id);

/* How to request a collection. */
enum mk_query_mode {
	MK_QUERY_LIST, /* one page */
	MK_QUERY_WATCH, /* from @resource_version on */
	MK_QUERY_STREAM, /* all objects as events, a bookmark, then a watch */
};

struct mk_query {
	enum mk_query_mode mode;
	bool older; /* of older_path */
	unsigned int limit; /* LIST: objects per page; 0: all */
	const char *continue_; /* LIST: NULL for the first page */
	const char *resource_version; /* WATCH */
	const char *field_selector; /* NULL: all */
	unsigned int timeout_s; /* WATCH, STREAM: the server ends it after this */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusterset/publish.h - what this cluster publishes of an exported Service: PublishedServices,
 * which the other clusters read; and the objects that those publish, which this one reads. Pure:
 * JSON trees in and out. Equal input gives equal text. */
#ifndef MK_CLUSTERSET_PUBLISH_H
#define MK_CLUSTERSET_PUBLISH_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/ip.h"
#include "cluster/model/peer.h"
#include "clusters/externals.h"
#include "clusterset/imports.h"

#define MK_PUBLISHED_PART_ENDPOINTS 1000 /* at most, of one PublishedService */
#define MK_PUBLISHED_PARTS	    50 /* at most, of one Service */

struct mk_publish_own {
	const char *cluster; /* clusterName */
	struct mk_cidr home[MK_FAMILIES]; /* clusterCidr; AF_UNSPEC: no pods of this family */
	/* Endpoints that are no pods have addresses of these. NULL: they are left out. */
	struct mk_externals *externals;
	/* Whose views may be endpoints: these are published with cluster and home address. */
	const struct mk_imports_cluster *peers;
	size_t peer_count;
	/* Ranges of addresses that mean other endpoints: peerPools, clustersetCidr, externalCidr */
	struct mk_cidr virtual[3 * MK_FAMILIES];
	int64_t now_s; /* of a clock that does not go backwards */
};

enum mk_export_verdict {
	MK_EXPORT_VALID,
	MK_EXPORT_NO_SERVICE, /* there is no Service of its name */
	MK_EXPORT_INVALID_TYPE, /* the Service is an ExternalName */
	MK_EXPORT_FAILED, /* @note says which part of the Service makes no sense */
};

struct mk_publication {
	/* PublishedServices of MK_PUBLISHED_NAMESPACE, part 0 first; none unless
	 * MK_EXPORT_VALID. */
	json_object **parts;
	size_t part_count;
	enum mk_export_verdict verdict;
	size_t endpoint_count;
	size_t left_out; /* endpoints that peers cannot reach, and slices of no sense */
	bool depends_on_peers; /* an endpoint is no pod of this cluster */
	char *note; /* names the first one that is left out, and why; NULL: none */
};

/* Compute what is published of @service_export. @service: the Service of its name, NULL: none.
 * @slices: all EndpointSlices of the Service, in any order. The trees only have to live for the
 * call. A wrong Service is a verdict, not an error; the only error is -ENOMEM. The caller releases
 * @result, also after an error. */
mk_must_check int mk_publish(const struct mk_publish_own *own, json_object *service_export,
			     json_object *service, json_object *const *slices, size_t slice_count,
			     struct mk_publication *result, struct mk_error *err);
void mk_publication_release(struct mk_publication *result);

enum mk_published_kind {
	MK_PUBLISHED_CLUSTER,
	MK_PUBLISHED_NODE,
	MK_PUBLISHED_SERVICE,
	MK_PUBLISHED_KINDS
};

/* An object that another cluster publishes. */
struct mk_published {
	const char *cluster; /* by its label; belongs to the tree that was read */
	json_object *spec; /* only the members that this version knows */
	size_t endpoint_count; /* of a Service */
	bool is_further; /* a part of a Service, but not part 0 */
};

/* Read @tree, whose name is @name, as untrusted input. *@published is zeros; the caller releases
 * it, also after an error: -EINVAL, -ENOMEM. */
mk_must_check int mk_published_read(enum mk_published_kind kind, const char *name,
				    json_object *tree, struct mk_published *published,
				    struct mk_error *err);
void mk_published_release(struct mk_published *published);
const char *mk_published_kind_name(enum mk_published_kind kind); /* "PublishedService" */

#endif

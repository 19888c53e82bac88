/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/model.h - the cluster's objects, typed. Sources (a cluster directory, the API
 * server) pass decoded JSON trees. The model keeps only used members, indexes them, and reports
 * changes to its listener. Replacing an object by an equal one reports nothing.
 *
 * The model owns the objects: pointers are valid until the next apply, delete or free. */
#ifndef MK_CLUSTER_MODEL_MODEL_H
#define MK_CLUSTER_MODEL_MODEL_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"
#include "cluster/model/chain.h"
#include "cluster/model/peer.h"
#include "cluster/model/policy.h"

#define MK_OBJECT_NAME_SIZE 254 /* an RFC 1123 subdomain and a NUL */

/* A ServiceImport `web` is the Service `web.clusterset` of the model. A Service's own name has no
 * dot. */
#define MK_CLUSTERSET_SUFFIX ".clusterset"

enum mk_kind {
	MK_KIND_NODE,
	MK_KIND_SERVICE,
	MK_KIND_ENDPOINT_SLICE, /* discovery.k8s.io/v1 */
	MK_KIND_ENDPOINTS, /* v1; used for a Service only while it has no EndpointSlice */
	MK_KIND_SERVICE_CIDR, /* networking.k8s.io/v1 */
	MK_KIND_POD,
	MK_KIND_NAMESPACE,
	MK_KIND_NETWORK_POLICY, /* networking.k8s.io/v1 */
	MK_KIND_CLUSTER_POLICY, /* policy.networking.k8s.io/v1beta1 or v1alpha2 */
	MK_KIND_CHAIN, /* networking.monokube.io/v1alpha1 ServiceFunctionChain */
	MK_KIND_CLUSTER_PEER, /* networking.monokube.io/v1alpha1, as the next three */
	MK_KIND_PUBLISHED_CLUSTER,
	MK_KIND_PUBLISHED_NODE,
	MK_KIND_PUBLISHED_SERVICE,
	MK_KIND_SERVICE_IMPORT, /* multicluster.x-k8s.io/v1beta1, as the next one; or v1alpha1 */
	MK_KIND_SERVICE_EXPORT,
	MK_KIND_COUNT
};

struct mk_node_object {
	char *name;
	/* by mk_family_index(); family AF_UNSPEC: none (yet) */
	struct mk_cidr pod_cidrs[MK_FAMILIES]; /* the first of podCIDRs, or else podCIDR */
	struct mk_ip internal_ips[MK_FAMILIES]; /* the first InternalIP */
	struct mk_ip *addresses; /* every InternalIP and ExternalIP, sorted */
	size_t address_count;
	struct mk_labels labels;
	char *zone; /* topology.kubernetes.io/zone, NULL: none */
	bool ready; /* decides which of two Nodes keeps one InternalIP, and nothing else */
	int64_t created_unix_s; /* creationTimestamp; 0: none */
	bool control_plane; /* node-role.kubernetes.io/control-plane label */
	bool border; /* networking.monokube.io/border: "true" */
	bool leaving; /* being deleted, or about to be by the cluster autoscaler */
	struct mk_wg_public wireguard; /* MK_WIREGUARD_ANNOTATION */
	char *passed_over; /* unusable addresses, with reasons; NULL: none */
};

struct mk_service_port {
	char *name; /* "" for a single unnamed port */
	uint8_t proto; /* IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP */
	uint16_t port; /* host order */
	uint16_t node_port; /* 0: none */
	uint16_t target_port; /* of the selected pods, host order; 0: it has @target_name */
	const char *target_name; /* of the pods' named port, a text of the model; NULL: a number */
};

enum mk_service_type { MK_SERVICE_CLUSTER_IP, MK_SERVICE_NODE_PORT, MK_SERVICE_LOAD_BALANCER };

struct mk_service_object {
	char *namespace_, *name;
	enum mk_service_type type;
	/* by mk_family_index(); AF_UNSPEC: none (headless, ExternalName, other family only) */
	struct mk_ip cluster_ips[MK_FAMILIES];
	/* of both families, sorted, no duplicates: mk_ips_of_family() */
	struct mk_ip *external_ips;
	size_t external_ip_count;
	struct mk_ip *load_balancer_ips; /* ipMode VIP only */
	size_t load_balancer_ip_count;
	struct mk_cidr *source_ranges; /* loadBalancerSourceRanges; none of a family: all */
	size_t source_range_count;
	struct mk_service_port *ports;
	size_t port_count;
	struct mk_labels selector; /* of its pods; none: it selects no pod */
	/* Of an import: clusters whose endpoints are preferred, the best first; texts of the model.
	 * The others come after these. */
	char **preferred;
	size_t preferred_count;
	bool external_local; /* externalTrafficPolicy: Local */
	bool internal_local; /* internalTrafficPolicy: Local */
	bool client_ip_affinity;
	uint32_t affinity_timeout_s;
	uint16_t health_check_port; /* healthCheckNodePort; 0: none, or unused by type or policy */
	bool excluded; /* excluded by a label: another proxy's, or headless */
	bool imported; /* it is a ServiceImport, and @name ends with MK_CLUSTERSET_SUFFIX */
	bool external_name; /* type ExternalName, without addresses: an export of it is not valid */
	char *passed_over; /* unusable addresses, with reasons; NULL: none */
};

/* Topology hints: the zones and nodes of an endpoint's intended clients. None: no hint. */
struct mk_hints {
	unsigned int references, zone_count, node_count;
	char *cluster; /* of an import: where the endpoint is; NULL: unknown */
	char *names[]; /* the zones, then the nodes; each part sorted */
};

/* An address of an EndpointSlice or Endpoints object, with one of its ports. A cluster has hundreds
 * of thousands: equal names are stored once, see intern() in endpoints.c. */
struct mk_endpoint {
	struct mk_ip ip;
	uint16_t port;
	uint8_t proto;
	bool ready : 1, serving : 1, terminating : 1;
	char *port_name;
	char *node_name; /* NULL: unknown, so remote */
	struct mk_hints *hints; /* not NULL */
};
_Static_assert(sizeof(struct mk_endpoint) == 48, "most of the model's memory");

struct mk_service_cidr {
	char name[MK_OBJECT_NAME_SIZE];
	struct mk_cidr cidr; /* network address */
};

#define MK_CLUSTERSET_RANGE "clustersetCidr"

struct mk_model;

/* This cluster as a member of its clusterset. */
struct mk_clusterset {
	const char *cluster_name; /* of this cluster; must outlive the model */
	struct mk_cidr ranges[MK_FAMILIES]; /* of ServiceImports' addresses; AF_UNSPEC: none */
};

struct mk_model_listener {
	/* Node @name appeared, changed or vanished. A change of only its condition Ready is not
	 * reported: a node that is NotReady keeps its routes. */
	void (*node_changed)(void *ctx, const char *name);
	/* The Service, or an EndpointSlice or Endpoints object of it, changed or vanished. */
	void (*service_changed)(void *ctx, const char *namespace_, const char *name);
	/* Called after service_changed() if an EndpointSlice was the cause. For a new or changed
	 * slice, @unix_ns is the time to which its controller reacted
	 * (endpoints.kubernetes.io/last-change-trigger-time). For a deleted slice it is 0, because
	 * the slice says when it last changed, not when it was deleted. Then earlier times reported
	 * for its Service are no longer worth measuring
	 * (EndpointsChangeTracker.EndpointSliceUpdate()). */
	void (*endpoints_triggered)(void *ctx, const char *namespace_, const char *name,
				    int64_t unix_ns);
	/* The result of mk_model_service_cidrs() changed. */
	void (*service_cidrs_changed)(void *ctx);
	/* One of the objects of policy.h appeared, changed or vanished. @pod stays in its place as
	 * long as it exists; one that has just vanished has its last content. @former: its content
	 * before; NULL: it is new. */
	void (*pod_changed)(void *ctx, const struct mk_pod_object *pod,
			    const struct mk_pod_object *former);
	void (*namespace_changed)(void *ctx, const char *name);
	void (*network_policy_changed)(void *ctx, const char *namespace_, const char *name);
	void (*cluster_policy_changed)(void *ctx, const char *name);
	/* One of the objects of chain.h appeared, changed or vanished. pod_changed() is called for
	 * a function pod, too. */
	void (*chain_changed)(void *ctx, const char *namespace_, const char *name);
	void (*function_pod_changed)(void *ctx, const char *namespace_, const char *name);
	/* One of the objects of peer.h appeared, changed or vanished. */
	void (*peers_changed)(void *ctx);
	/* Called before peers_changed(): one of these in MK_PEERS_NAMESPACE vanished, the other one
	 * is NULL. Its content is valid until this returns. */
	void (*published_gone)(void *ctx, const struct mk_published_cluster *cluster,
			       const struct mk_published_node *node);
	/* A ServiceExport appeared, changed or vanished. For a ServiceImport service_changed() is
	 * called. */
	void (*export_changed)(void *ctx, const char *namespace_, const char *name);
	/* A PublishedService appeared, changed or vanished. */
	void (*externals_changed)(void *ctx);
	void *ctx;
};

mk_must_check struct mk_model *mk_model_new(void); /* NULL: out of memory */
void mk_model_free(struct mk_model *model);
void mk_model_set_listener(struct mk_model *model, const struct mk_model_listener *listener);
/* Keep the UIDs of Pods only for this node's and for function pods, which saves memory. @name must
 * outlive the model. */
void mk_model_set_node(struct mk_model *model, const char *name);
/* Use ServiceImports and ServiceExports. An address outside of @clusterset->ranges is skipped, and
 * an endpoint of another cluster is on no node of this one. Call it before the first object.
 * Without it the model uses neither kind. */
void mk_model_set_clusterset(struct mk_model *model, const struct mk_clusterset *clusterset);

/* Insert or replace the object in @tree, which the caller keeps. Returns 1 without effect for a
 * kind that the model does not use. An invalid object is an error that names kind, namespace/name,
 * field and value, and leaves the model unchanged. If only some addresses or ports are invalid,
 * they are skipped, as by kube-proxy, and logged when they are new. */
mk_must_check int mk_model_apply(struct mk_model *model, json_object *tree, struct mk_error *err);

/* Remove an object; a missing object is no error. @namespace_ is "" for kinds
 * without namespaces. */
void mk_model_delete(struct mk_model *model, enum mk_kind kind, const char *namespace_,
		     const char *name);

/* Identify a tree by kind, namespace and name. Returns 1 if the model does not use the kind.
 * The namespace is "default" if a namespaced object has none, "" for other kinds. The strings
 * belong to @tree. */
mk_must_check int mk_model_identify(json_object *tree, enum mk_kind *kind, const char **namespace_,
				    const char **name, struct mk_error *err);

const struct mk_node_object *mk_model_node(const struct mk_model *model, const char *name);
const struct mk_service_object *mk_model_service(const struct mk_model *model,
						 const char *namespace_, const char *name);
/* Get the endpoints of a Service of @family (AF_UNSPEC: both), merged over its slices and sorted by
 * address and port. If two slices have the same address and port, the one that is not terminating
 * wins. *@endpoints is an array of pointers; the caller frees only the array. */
mk_must_check int mk_model_endpoints(const struct mk_model *model, const char *namespace_,
				     const char *name, sa_family_t family,
				     const struct mk_endpoint ***endpoints, size_t *count);

/* Get the ranges of @family (AF_UNSPEC: both) of ServiceCIDR objects, and of the clusterset, named
 * MK_CLUSTERSET_RANGE; the caller frees *@cidrs. */
mk_must_check int mk_model_service_cidrs(const struct mk_model *model, sa_family_t family,
					 struct mk_service_cidr **cidrs, size_t *count);

/* Return the number of objects, and of endpoints (an address with a port) in EndpointSlices of
 * @family. */
size_t mk_model_count(const struct mk_model *model, enum mk_kind kind);
size_t mk_model_endpoint_count(const struct mk_model *model, sa_family_t family);
/* Return the number of endpoints of ServiceImports among these, both families together. */
size_t mk_model_imported_endpoint_count(const struct mk_model *model);
/* Return the number of endpoints' addresses that are skipped: not usable, or not of the slice's
 * addressType. */
size_t mk_model_skipped_count(const struct mk_model *model);

/* Is @ip an address of any node? */
bool mk_model_has_node_address(const struct mk_model *model, const struct mk_ip *ip);

/* Visit all objects of @kind, whose type is @type, in no particular order; PublishedNodes and
 * PublishedServices only in MK_PEERS_NAMESPACE and MK_PUBLISHED_NAMESPACE, with Services also
 * those of ServiceImports. The model must not change meanwhile. */
#define mk_model_each(type, object, model, kind) \
	for (const type *object = NULL; (object = mk_model_next(model, kind, object));)
/* Return the object after @object; NULL: the first one. */
const void *mk_model_next(const struct mk_model *model, enum mk_kind kind, const void *object);

#endif

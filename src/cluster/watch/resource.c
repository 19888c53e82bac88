// SPDX-License-Identifier: Apache-2.0
#include "cluster/watch/resource.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/watch/reflector_internal.h"

/* Label selector for Services, slices and Endpoints. The server keeps back those that another
 * proxy serves, and those of headless Services, which have no address to balance. kube-proxy
 * uses the same. */
#define FOR_SERVICE_PROXIES \
	"!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"

/* One annotation is read, MK_WIREGUARD_ANNOTATION. */
static const char *const unused_of_nodes[] = { "metadata.managedFields", "status.images",
					       "status.capacity",	 "status.allocatable",
					       "status.nodeInfo",	 "status.volumesInUse",
					       "status.volumesAttached", NULL };
static const char *const unused_of_services[] = { "metadata.managedFields", "metadata.annotations",
						  "metadata.ownerReferences", "status.conditions",
						  NULL };
/* Annotations are kept: one is read, the time of the endpoints' last change. */
static const char *const unused_of_slices[] = { "metadata.managedFields",
						"metadata.ownerReferences", "endpoints.targetRef",
						NULL };
static const char *const unused_of_endpoints[] = { "metadata.managedFields", "metadata.annotations",
						   "subsets.addresses.targetRef",
						   "subsets.notReadyAddresses.targetRef", NULL };
static const char *const unused_of_cidrs[] = { "metadata.managedFields", "metadata.annotations",
					       NULL };

/* One annotation is read, MK_POLICY_MODE_ANNOTATION. */
static const char *const unused_of_policies[] = { "metadata.managedFields", "metadata.labels",
						  "status", NULL };
/* The status is compared with the one that it should be. */
static const char *const unused_of_chains[] = { "metadata.managedFields", "metadata.annotations",
						"metadata.labels", NULL };
/* Agents read the view from the status. */
static const char *const unused_of_peers[] = { "metadata.managedFields",
					       "metadata.annotations",
					       "metadata.labels",
					       "status.conditions",
					       "status.nodes",
					       "status.mtu",
					       "status.reachableNodes",
					       "status.rttMicros",
					       "status.remotePodCidr",
					       "status.remoteExternalCidr",
					       NULL };
static const char *const unused_of_published[] = { "metadata.managedFields", "metadata.annotations",
						   "status", NULL };
/* Annotations say which clusters are preferred. */
static const char *const unused_of_imports[] = { "metadata.managedFields",
						 "metadata.ownerReferences", "status", NULL };
static const char *const unused_of_exports[] = {
	"metadata.managedFields", "metadata.annotations", "metadata.labels", "spec", "status", NULL
};
static const char *const kept_of_namespaces[] = {
	"apiVersion",	     "kind",	"metadata.resourceVersion",
	"metadata.continue", "items",	"code",
	"message",	     "details", "metadata.name",
	"metadata.labels",   NULL
};
/* What is read of every Pod. The first two lines are those of lists and of errors. */
#define KEPT_OF_PODS                                                                            \
	"apiVersion", "kind", "metadata.resourceVersion", "metadata.continue", "items", "code", \
		"message", "details", "metadata.name", "metadata.namespace", "metadata.uid",    \
		"metadata.labels", "metadata.annotations.kubernetes.io/config.hash",            \
		"metadata.creationTimestamp", "metadata.deletionTimestamp", "spec.nodeName",    \
		"spec.hostNetwork", "spec.containers.ports", "spec.initContainers.ports",       \
		"spec.initContainers.restartPolicy", "status.phase", "status.podIP",            \
		"status.podIPs", "status.startTime"
static const char *const kept_of_pods[] = { KEPT_OF_PODS, NULL };
static const char *const kept_of_function_pods[] = {
	KEPT_OF_PODS,
	"metadata.annotations." MK_FUNCTION_PORTS_ANNOTATION,
	"metadata.annotations." MK_FUNCTION_WEIGHT_ANNOTATION,
	"metadata.annotations." MK_MULTUS_ANNOTATION,
	"status.conditions.type",
	"status.conditions.status",
	NULL
};

/* A server before 1.28 does not know the first term. */
#define RUNNING "status.podIP!=,status.phase!=Succeeded,status.phase!=Failed"
#define REMEDY	"apply monokube's manifest again, its ClusterRole allows it"

#define OF_MCS	 "/apis/multicluster.x-k8s.io/"
#define OF_PEERS "/apis/networking.monokube.io/v1alpha1/namespaces/" MK_PEERS_NAMESPACE "/"
#define OF_OWN	 "/apis/networking.monokube.io/v1alpha1/namespaces/" MK_PUBLISHED_NAMESPACE "/"

static const struct mk_resource resources[MK_RESOURCE_COUNT] = {
	[MK_RESOURCE_NODES] = {
		.name = "Nodes",
		.api_version = "v1",
		.kind = "Node",
		.path = "/api/v1/nodes",
		.model_kind = MK_KIND_NODE,
		.unused = unused_of_nodes,
	},
	[MK_RESOURCE_SERVICES] = {
		.name = "Services",
		.api_version = "v1",
		.kind = "Service",
		.path = "/api/v1/services",
		.label_selector = FOR_SERVICE_PROXIES,
		.model_kind = MK_KIND_SERVICE,
		.unused = unused_of_services,
	},
	[MK_RESOURCE_SERVICE_CIDRS] = {
		.name = "ServiceCIDRs",
		.api_version = "networking.k8s.io/v1",
		.kind = "ServiceCIDR",
		.path = "/apis/networking.k8s.io/v1/servicecidrs",
		.model_kind = MK_KIND_SERVICE_CIDR,
		.optional = true,
		.unused = unused_of_cidrs,
	},
	[MK_RESOURCE_ENDPOINT_SLICES] = {
		.name = "EndpointSlices",
		.api_version = "discovery.k8s.io/v1",
		.kind = "EndpointSlice",
		.path = "/apis/discovery.k8s.io/v1/endpointslices",
		.label_selector = FOR_SERVICE_PROXIES,
		.model_kind = MK_KIND_ENDPOINT_SLICE,
		.replaceable = true,
		.unused = unused_of_slices,
	},
	[MK_RESOURCE_ENDPOINTS] = {
		.name = "Endpoints",
		.api_version = "v1",
		.kind = "Endpoints",
		.path = "/api/v1/endpoints",
		.label_selector = FOR_SERVICE_PROXIES,
		.model_kind = MK_KIND_ENDPOINTS,
		.unused = unused_of_endpoints,
	},
	[MK_RESOURCE_NETWORK_POLICIES] = {
		.name = "NetworkPolicies",
		.api_version = "networking.k8s.io/v1",
		.kind = "NetworkPolicy",
		.path = "/apis/networking.k8s.io/v1/networkpolicies",
		.remedy = REMEDY,
		.model_kind = MK_KIND_NETWORK_POLICY,
		.unused = unused_of_policies,
	},
	[MK_RESOURCE_CLUSTER_POLICIES] = {
		.name = "ClusterNetworkPolicies",
		.api_version = "policy.networking.k8s.io/v1beta1",
		.kind = "ClusterNetworkPolicy",
		.path = "/apis/policy.networking.k8s.io/v1beta1/clusternetworkpolicies",
		.older_path = "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies",
		.older_api_version = "policy.networking.k8s.io/v1alpha2",
		.remedy = REMEDY,
		.model_kind = MK_KIND_CLUSTER_POLICY,
		.optional = true,
		.custom = true,
		.unused = unused_of_policies,
	},
	/* Without remedy, because policies must not wait if the ClusterRole of an earlier version
	 * lacks it. */
	[MK_RESOURCE_CHAINS] = {
		.name = "ServiceFunctionChains",
		.api_version = "networking.monokube.io/v1alpha1",
		.kind = "ServiceFunctionChain",
		.path = "/apis/networking.monokube.io/v1alpha1/servicefunctionchains",
		.model_kind = MK_KIND_CHAIN,
		.optional = true,
		.custom = true,
		.unused = unused_of_chains,
	},
	[MK_RESOURCE_NAMESPACES] = {
		.name = "Namespaces",
		.api_version = "v1",
		.kind = "Namespace",
		.path = "/api/v1/namespaces",
		.remedy = REMEDY,
		.model_kind = MK_KIND_NAMESPACE,
		.kept = kept_of_namespaces,
	},
	[MK_RESOURCE_OWN_PODS] = {
		.name = "Pods of this node",
		.api_version = "v1",
		.kind = "Pod",
		.path = "/api/v1/pods",
		.remedy = REMEDY,
		.model_kind = MK_KIND_POD,
		.kept = kept_of_pods,
	},
	[MK_RESOURCE_PODS] = {
		.name = "Pods",
		.api_version = "v1",
		.kind = "Pod",
		.path = "/api/v1/pods",
		.field_selector = "spec.hostNetwork=false," RUNNING,
		.older_field_selector = RUNNING,
		.remedy = REMEDY,
		.model_kind = MK_KIND_POD,
		.kept = kept_of_pods,
	},
	[MK_RESOURCE_FUNCTION_PODS] = {
		.name = "function pods",
		.api_version = "v1",
		.kind = "Pod",
		.path = "/api/v1/pods",
		.label_selector = MK_FUNCTION_LABEL,
		.remedy = REMEDY,
		.model_kind = MK_KIND_POD,
		.kept = kept_of_function_pods,
	},
	[MK_RESOURCE_CLUSTER_PEERS] = {
		.name = "ClusterPeers",
		.api_version = "networking.monokube.io/v1alpha1",
		.kind = "ClusterPeer",
		.path = "/apis/networking.monokube.io/v1alpha1/clusterpeers",
		.model_kind = MK_KIND_CLUSTER_PEER,
		.optional = true,
		.custom = true,
		.unused = unused_of_peers,
	},
	[MK_RESOURCE_PUBLISHED_CLUSTERS] = {
		.name = "PublishedClusters",
		.api_version = "networking.monokube.io/v1alpha1",
		.kind = "PublishedCluster",
		.path = OF_PEERS "publishedclusters",
		.model_kind = MK_KIND_PUBLISHED_CLUSTER,
		.optional = true,
		.custom = true,
		.unused = unused_of_published,
	},
	[MK_RESOURCE_PUBLISHED_NODES] = {
		.name = "PublishedNodes",
		.api_version = "networking.monokube.io/v1alpha1",
		.kind = "PublishedNode",
		.path = OF_PEERS "publishednodes",
		.model_kind = MK_KIND_PUBLISHED_NODE,
		.optional = true,
		.custom = true,
		.unused = unused_of_published,
	},
	[MK_RESOURCE_EXTERNALS] = {
		.name = "PublishedServices with external addresses",
		.api_version = "networking.monokube.io/v1alpha1",
		.kind = "PublishedService",
		.path = OF_OWN "publishedservices",
		.label_selector = MK_EXTERNAL_LABEL,
		.model_kind = MK_KIND_PUBLISHED_SERVICE,
		.optional = true,
		.custom = true,
		.unused = unused_of_published,
	},
	[MK_RESOURCE_SERVICE_IMPORTS] = {
		.name = "ServiceImports",
		.api_version = "multicluster.x-k8s.io/v1beta1",
		.kind = "ServiceImport",
		.path = OF_MCS "v1beta1/serviceimports",
		.older_path = OF_MCS "v1alpha1/serviceimports",
		.older_api_version = "multicluster.x-k8s.io/v1alpha1",
		.label_selector = FOR_SERVICE_PROXIES,
		.model_kind = MK_KIND_SERVICE_IMPORT,
		.optional = true,
		.custom = true,
		.unused = unused_of_imports,
	},
	[MK_RESOURCE_SERVICE_EXPORTS] = {
		.name = "ServiceExports",
		.api_version = "multicluster.x-k8s.io/v1beta1",
		.kind = "ServiceExport",
		.path = OF_MCS "v1beta1/serviceexports",
		.older_path = OF_MCS "v1alpha1/serviceexports",
		.older_api_version = "multicluster.x-k8s.io/v1alpha1",
		.model_kind = MK_KIND_SERVICE_EXPORT,
		.optional = true,
		.custom = true,
		.unused = unused_of_exports,
	},
};

const struct mk_resource *mk_resource(enum mk_resource_id id)
{
	return &resources[id];
}

/* Percent-encode everything except RFC 3986's unreserved characters. */
static void put_encoded(FILE *out, const char *text)
{
	static const char plain[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

	for (; *text; text++) {
		if (strchr(plain, *text))
			fputc(*text, out);
		else
			fprintf(out, "%%%02X", (unsigned char)*text);
	}
}

static void put_parameter(FILE *out, char *separator, const char *key, const char *value)
{
	fprintf(out, "%c%s=", *separator, key);
	put_encoded(out, value);
	*separator = '&';
}

static void put_number(FILE *out, char *separator, const char *key, unsigned int value)
{
	fprintf(out, "%c%s=%u", *separator, key, value);
	*separator = '&';
}

static void put_query(FILE *out, const struct mk_resource *resource, const struct mk_query *query)
{
	char separator = '?';

	if (query->mode != MK_QUERY_LIST) {
		put_parameter(out, &separator, "watch", "1");
		put_parameter(out, &separator, "allowWatchBookmarks", "true");
		put_number(out, &separator, "timeoutSeconds", query->timeout_s);
	}
	if (query->mode == MK_QUERY_STREAM) {
		put_parameter(out, &separator, "sendInitialEvents", "true");
		put_parameter(out, &separator, "resourceVersionMatch", "NotOlderThan");
	}
	if (query->mode == MK_QUERY_WATCH)
		put_parameter(out, &separator, "resourceVersion", query->resource_version);
	if (query->mode == MK_QUERY_LIST && query->limit)
		put_number(out, &separator, "limit", query->limit);
	if (query->mode == MK_QUERY_LIST && query->continue_)
		put_parameter(out, &separator, "continue", query->continue_);
	if (resource->label_selector)
		put_parameter(out, &separator, "labelSelector", resource->label_selector);
	if (query->field_selector)
		put_parameter(out, &separator, "fieldSelector", query->field_selector);
}

char *resource_target(const struct mk_resource *resource, const struct mk_query *query)
{
	size_t size = 0;
	char *target = NULL;
	FILE *out = open_memstream(&target, &size);

	if (!out)
		return NULL;
	fputs(query->older ? resource->older_path : resource->path, out);
	put_query(out, resource, query);
	if (fclose(out) != 0) {
		free(target);
		return NULL;
	}
	return target;
}

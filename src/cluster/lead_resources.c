// SPDX-License-Identifier: Apache-2.0
/* What the leader follows, as whole objects. Every agent follows ClusterPeers, ServiceExports and
 * ServiceImports, too, but keeps only a few of their members. No kind is `custom`: after its CRD
 * is deleted, the objects that the leader knew still count. If a server lacks or refuses a kind,
 * the leader removes nothing that depends on it. */
#include "cluster/lead_internal.h"
#include "cluster/model/peer.h"

#define GROUP "/apis/networking.monokube.io/v1alpha1/"
#define OWN   GROUP "namespaces/monokube-published/"
#define PEERS GROUP "namespaces/" MK_PEERS_NAMESPACE "/"
#define API   "networking.monokube.io/v1alpha1"
#define MCS   "/apis/multicluster.x-k8s.io/"

#define OURS	    "endpointslice.kubernetes.io/managed-by=monokube.io"
#define OF_NO_PROXY "service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name"

static const char *const unused[] = { "metadata.managedFields", NULL };
static const char *const kept_of_names[] = {
	"apiVersion",	     "kind",	     "metadata.resourceVersion",
	"metadata.continue", "items",	     "code",
	"message",	     "details",	     "metadata.name",
	"metadata.uid",	     "status.phase", NULL
};

#define WHERE(name_, version, kind_, path_)                                                    \
	.name = name_ " for the leader", .api_version = version, .kind = kind_, .path = path_, \
	.remedy = LEAD_REMEDY, .optional = true, .model_kind = MK_KIND_COUNT

static const struct mk_resource resources[MK_LEAD_KINDS] = {
	[MK_LEAD_PEERS] = { WHERE("ClusterPeers", API, "ClusterPeer", GROUP "clusterpeers"),
			    .unused = unused },
	[MK_LEAD_EXPORTS] = { WHERE("ServiceExports", "multicluster.x-k8s.io/v1beta1",
				    "ServiceExport", MCS "v1beta1/serviceexports"),
			      .older_path = MCS "v1alpha1/serviceexports",
			      .older_api_version = "multicluster.x-k8s.io/v1alpha1",
			      .unused = unused },
	[MK_LEAD_IMPORTS] = { WHERE("ServiceImports", "multicluster.x-k8s.io/v1beta1",
				    "ServiceImport", MCS "v1beta1/serviceimports"),
			      .older_path = MCS "v1alpha1/serviceimports",
			      .older_api_version = "multicluster.x-k8s.io/v1alpha1",
			      .unused = unused },
	[MK_LEAD_SLICES] = { WHERE("EndpointSlices of imports", "discovery.k8s.io/v1",
				   "EndpointSlice", "/apis/discovery.k8s.io/v1/endpointslices"),
			     .label_selector = OURS, .unused = unused },
	[MK_LEAD_PUBLISHED] = { WHERE("PublishedServices of peers", API, "PublishedService",
				      PEERS "publishedservices"),
				.unused = unused },
	[MK_LEAD_PEER_CLUSTERS] = { WHERE("PublishedClusters of peers", API, "PublishedCluster",
					  PEERS "publishedclusters"),
				    .unused = unused },
	[MK_LEAD_PEER_NODES] = { WHERE("PublishedNodes of peers", API, "PublishedNode",
				       PEERS "publishednodes"),
				 .unused = unused },
	[MK_LEAD_OWN_CLUSTERS] = { WHERE("own PublishedClusters", API, "PublishedCluster",
					 OWN "publishedclusters"),
				   .unused = unused },
	[MK_LEAD_OWN_NODES] = { WHERE("own PublishedNodes", API, "PublishedNode",
				      OWN "publishednodes"),
				.unused = unused },
	[MK_LEAD_OWN_SERVICES] = { WHERE("own PublishedServices", API, "PublishedService",
					 OWN "publishedservices"),
				   .unused = unused },
	[MK_LEAD_NAMESPACES] = { WHERE("Namespaces", "v1", "Namespace", "/api/v1/namespaces"),
				 .kept = kept_of_names },
};

/* Other agents do not read them. The leader only needs to know which Service has changed. */
static const struct mk_resource headless = {
	WHERE("EndpointSlices of headless Services", "discovery.k8s.io/v1", "EndpointSlice",
	      "/apis/discovery.k8s.io/v1/endpointslices"),
	.label_selector = OF_NO_PROXY,
	.unused = unused,
};

const struct mk_resource *lead_resource(enum mk_lead_kind kind)
{
	return &resources[kind];
}

const struct mk_resource *lead_headless(void)
{
	return &headless;
}

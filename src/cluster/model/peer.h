/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/peer.h - the objects behind other clusters, of networking.monokube.io/v1alpha1:
 * ClusterPeers, and what these have published, PublishedClusters and PublishedNodes. Also what this
 * cluster publishes, PublishedServices, and ServiceExports of multicluster.x-k8s.io. Their fields
 * are in manifests/CLUSTERS.md. An object that makes no sense is refused as a whole, so its last
 * good version stays in force. */
#ifndef MK_CLUSTER_MODEL_PEER_H
#define MK_CLUSTER_MODEL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ip.h"
#include "base/netlink/wireguard.h"

#define MK_PEERS_NAMESPACE     "monokube-peers" /* of what peers have published */
#define MK_PUBLISHED_NAMESPACE "monokube-published" /* of what this cluster publishes */
#define MK_CLUSTER_LABEL       "networking.monokube.io/cluster" /* on the same: whose it is */
/* On the same, if a hub has shown it: the hub's name. */
#define MK_RELAYED_BY_LABEL "networking.monokube.io/relayed-by"

/* Annotations of a ServiceImport: clusters whose endpoints are preferred. The second one is the
 * default that the oldest export gives; the leader writes only that one. */
#define MK_PREFER_ANNOTATION	      "networking.monokube.io/prefer"
#define MK_EXPORTED_PREFER_ANNOTATION "networking.monokube.io/exported-prefer"

/* Of a ClusterPeer: views, as "a,b", that `monokube peer remap` wants the peer to leave. The leader
 * then takes others, and gives these to no peer. */
#define MK_LEAVE_ANNOTATION "networking.monokube.io/leave-view"

/* On Nodes, written by the node's agent: the public key and the UDP port of its WireGuard, as
 * KEY:PORT. */
#define MK_WIREGUARD_ANNOTATION "networking.monokube.io/wireguard"

/* On PublishedServices that have external addresses. */
#define MK_EXTERNAL_LABEL "networking.monokube.io/external"

/* On EndpointSlices: the ServiceImport whose endpoints they have, and their cluster. */
#define MK_IMPORT_LABEL	       "multicluster.kubernetes.io/service-name"
#define MK_IMPORT_SOURCE_LABEL "multicluster.kubernetes.io/source-cluster"
/* On all objects that the leader writes. It removes only objects that have it. */
#define MK_MANAGED_BY_LABEL "app.kubernetes.io/managed-by"
#define MK_MANAGED_BY	    "monokube.io"
/* On copies in MK_PEERS_NAMESPACE: the ClusterPeer at whose API server the leader has read them. */
#define MK_READ_FROM_LABEL "networking.monokube.io/read-from"

/* A branch whose API server the hub cannot reach writes what it publishes into this namespace of
 * the hub, with the branch's clusterName behind it. */
#define MK_INBOX_PREFIX "monokube-inbox-"

/* Of spec.limits: what one peer may publish. */
#define MK_PEER_LIMIT_SERVICES	5000
#define MK_PEER_LIMIT_ENDPOINTS 50000
#define MK_PEER_LIMIT_NODES	5000

/* What a peer may open here. */
enum mk_peer_access {
	MK_PEER_ACCESS_EXPORTS, /* endpoints of exported Services, at their ports */
	MK_PEER_ACCESS_PODS,
	MK_PEER_ACCESS_NONE,
};

/* How packets get to a peer that is reached by a hub. */
enum mk_peer_path {
	MK_PEER_PATH_AS_HUB_SAYS, /* Auto if the hub's ClusterPeer has accept: Direct, else Hub */
	MK_PEER_PATH_HUB,
	MK_PEER_PATH_AUTO, /* directly to each node that answers probes */
	MK_PEER_PATH_DIRECT,
};

/* What counts of a peer whose API server the leader reads. */
struct mk_peer_limits {
	uint16_t services, endpoints, nodes;
};

/* Views of a peer's external addresses. */
struct mk_peer_externals {
	struct mk_cidr views[MK_FAMILIES]; /* of spec.externalCidr or else status.externalCidr */
	bool assigned[MK_FAMILIES]; /* the view is of status.externalCidr */
};

/* Texts belong to the model. Arrays are by mk_family_index(); AF_UNSPEC: none. */
struct mk_cluster_peer {
	const char *name; /* the peer's clusterName, a DNS label */
	const char *via; /* NULL: by its own nodes */
	int64_t created_unix_s; /* creationTimestamp; 0: none */
	struct mk_cidr views[MK_FAMILIES]; /* networks, of spec.podCidr or else status.podCidr */
	bool assigned[MK_FAMILIES]; /* the view is of status.podCidr */
	bool lacks_status : 1; /* the leader has written none, or it is lost */
	bool same_view : 1; /* podCidr: Same; no views then */
	enum mk_peer_access access : 8;
	enum mk_peer_path path : 8;
	bool relayed; /* relay: true */
	bool introduces : 1; /* accept: Transit or Direct */
	bool introduces_direct : 1; /* accept: Direct */
	bool encrypts : 1; /* encryption: WireGuard */
	bool has_inbox : 1; /* inbox: true; the peer writes into a namespace of this cluster */
	bool publishes_to : 1; /* publishTo: true; this cluster writes into such one of the peer */
	uint16_t mtu_bytes; /* 0: the overlay's */
	struct mk_peer_limits limits;
	struct mk_peer_externals *externals; /* NULL: no view of external addresses */
	/* importNamespaces, ",a,b,": whose Services count here; NULL: as ",*,". "*" stands for all
	 * namespaces but kube-*. */
	const char *import_namespaces;
	/* Secret of MK_PEERS_NAMESPACE: how the leader reads the peer's API server. NULL: it does
	 * not, and objects are carried by hand. */
	const char *secret;
};

struct mk_published_cluster {
	const char *name; /* of the cluster */
	const char *relayed_by; /* the hub that has shown it; NULL: none */
	uint32_t number; /* 0: computed from the name */
	struct mk_cidr pod_cidrs[MK_FAMILIES]; /* networks; at least one */
	bool speaks_wire; /* wireVersions has MK_CLUSTER_WIRE */
	struct mk_cidr *external_cidrs; /* networks, MK_FAMILIES of them; NULL: none */
};

/* How packets get to a node. */
struct mk_published_carrier {
	struct mk_ip addresses[MK_FAMILIES]; /* the first of each; at least one */
	uint16_t port; /* UDP, of its overlay; 0: as this cluster's */
	struct mk_wg_public wireguard; /* with a port of 0 it has none */
};

struct mk_published_node {
	const char *cluster, *node; /* names */
	struct mk_cidr pod_cidrs[MK_FAMILIES];
	struct mk_published_carrier *carrier;
	bool is_relayed; /* a hub has shown it */
};

/* An external address, and the endpoint that peers reach by it, which is no pod. */
struct mk_external {
	struct mk_ip ip, target; /* of one family */
	uint16_t port;
	uint8_t proto; /* IPPROTO_TCP, UDP or SCTP */
};

/* A PublishedService; only its external addresses are kept. */
struct mk_published_service {
	const char *cluster; /* whose it is */
	struct mk_external *externals;
	size_t external_count;
};

/* The Service of this name may be used by other clusters, if it exists and is no ExternalName. */
struct mk_service_export {
	const char *namespace_, *name;
	int64_t created_unix_s; /* creationTimestamp; 0: none */
};

struct mk_model;

/* Does what a hub has shown of a cluster count? Only while the ClusterPeer of that cluster, @peer,
 * is reached by this hub. What no hub has shown (NULL) always counts. */
bool mk_published_counts(const char *relayed_by, const struct mk_cluster_peer *peer);

/* Return the PublishedCluster @name of MK_PEERS_NAMESPACE; NULL: there is none. */
const struct mk_published_cluster *mk_model_published_cluster(const struct mk_model *model,
							      const char *name);

/* The ClusterPeer @name had these views. They count if its status is lost, until it is written
 * again; no listener is called. False: nothing has changed. */
bool mk_model_restore_views(struct mk_model *model, const char *name,
			    const struct mk_cidr pods[MK_FAMILIES],
			    const struct mk_cidr externals[MK_FAMILIES]);

/* NULL: there is none. */
const struct mk_service_export *mk_model_service_export(const struct mk_model *model,
							const char *namespace_, const char *name);

#endif

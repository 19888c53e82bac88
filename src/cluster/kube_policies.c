// SPDX-License-Identifier: Apache-2.0
/* Follow what network policies, service function chains and other clusters need, while it is
 * wanted: all policies and chains, Namespaces, the Pods of this node, the Pods of the cluster,
 * those of functions, ClusterPeers, what these have published, ServiceImports and ServiceExports.
 * A Pod may be in all three lists; the one with its later version counts. But of a function pod
 * only the third list has all that matters. */
#include "base/cleanup.h"
#include "base/log.h"
#include "cluster/kube_internal.h"

static void set_wanted(struct mk_kube *kube, enum mk_resource_id id, bool wanted)
{
	struct mk_error err;

	if (wanted == (kube->reflectors[id] != NULL))
		return;
	kube->settled[id] = false;
	if (!wanted)
		mk_reflector_withdraw(mk_steal_ptr(kube->reflectors[id]));
	else if (kube_follow(kube, id, &err) < 0)
		mk_log_error("%s: not read: %s", kube->resources[id].name, err.text);
}

void kube_want_policies(struct mk_kube *kube, bool wanted)
{
	kube->want_policies = wanted;
	set_wanted(kube, MK_RESOURCE_NETWORK_POLICIES, wanted);
	set_wanted(kube, MK_RESOURCE_CLUSTER_POLICIES, wanted);
	set_wanted(kube, MK_RESOURCE_CHAINS, wanted);
	kube->told_policies &= kube_policies_listed(kube);
}

void kube_want_pods(struct mk_kube *kube, enum mk_source_pods pods)
{
	kube->want_pods = pods;
	set_wanted(kube, MK_RESOURCE_NAMESPACES, pods != MK_SOURCE_NO_PODS);
	set_wanted(kube, MK_RESOURCE_OWN_PODS, pods != MK_SOURCE_NO_PODS);
	set_wanted(kube, MK_RESOURCE_PODS, pods == MK_SOURCE_ALL_PODS);
	kube->told_pods &= kube_pods_listed(kube);
}

void kube_want_functions(struct mk_kube *kube, bool wanted)
{
	kube->want_functions = wanted;
	set_wanted(kube, MK_RESOURCE_FUNCTION_PODS, wanted);
	kube->told_functions &= kube_functions_listed(kube);
}

void kube_want_peers(struct mk_kube *kube, bool wanted)
{
	kube->want_peers = wanted;
	set_wanted(kube, MK_RESOURCE_CLUSTER_PEERS, wanted);
	set_wanted(kube, MK_RESOURCE_PUBLISHED_CLUSTERS, wanted);
	set_wanted(kube, MK_RESOURCE_PUBLISHED_NODES, wanted);
	set_wanted(kube, MK_RESOURCE_EXTERNALS, wanted);
	set_wanted(kube, MK_RESOURCE_SERVICE_IMPORTS, wanted);
	set_wanted(kube, MK_RESOURCE_SERVICE_EXPORTS, wanted);
	kube->told_peers &= kube_peers_listed(kube);
}

bool kube_policies_listed(const struct mk_kube *kube)
{
	return !kube->want_policies ||
	       (kube->settled[MK_RESOURCE_NETWORK_POLICIES] &&
		kube->settled[MK_RESOURCE_CLUSTER_POLICIES] && kube->settled[MK_RESOURCE_CHAINS]);
}

bool kube_pods_listed(const struct mk_kube *kube)
{
	bool own = kube->settled[MK_RESOURCE_NAMESPACES] && kube->settled[MK_RESOURCE_OWN_PODS];

	if (kube->want_pods == MK_SOURCE_NO_PODS)
		return true;
	return own && (kube->want_pods == MK_SOURCE_OWN_PODS || kube->settled[MK_RESOURCE_PODS]);
}

bool kube_functions_listed(const struct mk_kube *kube)
{
	return !kube->want_functions || kube->settled[MK_RESOURCE_FUNCTION_PODS];
}

bool kube_peers_listed(const struct mk_kube *kube)
{
	return !kube->want_peers || (kube->settled[MK_RESOURCE_CLUSTER_PEERS] &&
				     kube->settled[MK_RESOURCE_PUBLISHED_CLUSTERS] &&
				     kube->settled[MK_RESOURCE_PUBLISHED_NODES] &&
				     kube->settled[MK_RESOURCE_EXTERNALS] &&
				     kube->settled[MK_RESOURCE_SERVICE_IMPORTS] &&
				     kube->settled[MK_RESOURCE_SERVICE_EXPORTS]);
}

bool kube_policies_news(struct mk_kube *kube)
{
	bool functions = kube->want_functions && kube_functions_listed(kube);
	bool policies = kube->want_policies && kube_policies_listed(kube);
	bool pods = kube->want_pods != MK_SOURCE_NO_PODS && kube_pods_listed(kube);
	bool peers = kube->want_peers && kube_peers_listed(kube);
	bool news = (policies && !kube->told_policies) || (pods && !kube->told_pods) ||
		    (functions && !kube->told_functions) || (peers && !kube->told_peers);

	kube->told_policies = policies;
	kube->told_pods = pods;
	kube->told_functions = functions;
	kube->told_peers = peers;
	return news;
}

static bool list_has_pod(const struct mk_kube *kube, enum mk_resource_id id,
			 const struct mk_resource *except, const char *namespace_, const char *name,
			 uint64_t *version)
{
	return kube->reflectors[id] && &kube->resources[id] != except &&
	       mk_reflector_has(kube->reflectors[id], namespace_, name, version);
}

bool kube_other_has_pod(const struct mk_kube *kube, const struct mk_resource *resource,
			const char *namespace_, const char *name, uint64_t *version)
{
	static const enum mk_resource_id lists[] = { MK_RESOURCE_OWN_PODS, MK_RESOURCE_PODS,
						     MK_RESOURCE_FUNCTION_PODS };
	bool found = false;
	uint64_t there;

	*version = 0;
	if (resource->model_kind != MK_KIND_POD)
		return false;
	for (size_t i = 0; i < MK_ARRAY_SIZE(lists); i++) {
		if (!list_has_pod(kube, lists[i], resource, namespace_, name, &there))
			continue;
		found = true;
		if (there > *version)
			*version = there;
	}
	return found;
}

bool kube_is_function_pod(const struct mk_kube *kube, const struct mk_resource *resource,
			  const char *namespace_, const char *name)
{
	uint64_t version;

	return resource->model_kind == MK_KIND_POD &&
	       list_has_pod(kube, MK_RESOURCE_FUNCTION_PODS, resource, namespace_, name, &version);
}

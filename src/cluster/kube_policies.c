// SPDX-License-Identifier: Apache-2.0
/* Follow what network policies need, while it is wanted: all policies, Namespaces, the Pods of this
 * node, and the Pods of the cluster. A Pod of this node is in both lists of Pods; the one with its
 * later version counts. */
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

bool kube_policies_listed(const struct mk_kube *kube)
{
	return !kube->want_policies || (kube->settled[MK_RESOURCE_NETWORK_POLICIES] &&
					kube->settled[MK_RESOURCE_CLUSTER_POLICIES]);
}

bool kube_pods_listed(const struct mk_kube *kube)
{
	bool own = kube->settled[MK_RESOURCE_NAMESPACES] && kube->settled[MK_RESOURCE_OWN_PODS];

	if (kube->want_pods == MK_SOURCE_NO_PODS)
		return true;
	return own && (kube->want_pods == MK_SOURCE_OWN_PODS || kube->settled[MK_RESOURCE_PODS]);
}

bool kube_policies_news(struct mk_kube *kube)
{
	bool policies = kube->want_policies && kube_policies_listed(kube);
	bool pods = kube->want_pods != MK_SOURCE_NO_PODS && kube_pods_listed(kube);
	bool news = (policies && !kube->told_policies) || (pods && !kube->told_pods);

	kube->told_policies = policies;
	kube->told_pods = pods;
	return news;
}

bool kube_other_has_pod(const struct mk_kube *kube, const struct mk_resource *resource,
			const char *namespace_, const char *name, uint64_t *version)
{
	bool own = resource == &kube->resources[MK_RESOURCE_OWN_PODS];
	const struct mk_reflector *other =
		kube->reflectors[own ? MK_RESOURCE_PODS : MK_RESOURCE_OWN_PODS];

	return resource->model_kind == MK_KIND_POD && other &&
	       mk_reflector_has(other, namespace_, name, version);
}

// SPDX-License-Identifier: Apache-2.0
/* Follow what network policies, service function chains and other clusters need, while it is
 * wanted: all policies and chains, Namespaces, the Pods of this node, the Pods of the cluster,
 * those of functions, ClusterPeers, what these have published, ServiceImports and ServiceExports.
 * A Pod may be in all three lists; the one with its later version counts. But of a function pod
 * only the third list has all that matters. */
#include "base/cleanup.h"
#include "base/log.h"
#include "cluster/kube_internal.h"

static const struct {
	enum mk_resource_id id;
	enum mk_source_part part;
	unsigned int from; /* wanted if at least this much of @part is */
} needs[] = {
	{ MK_RESOURCE_NETWORK_POLICIES, MK_SOURCE_POLICIES, true },
	{ MK_RESOURCE_CLUSTER_POLICIES, MK_SOURCE_POLICIES, true },
	{ MK_RESOURCE_CHAINS, MK_SOURCE_POLICIES, true },
	{ MK_RESOURCE_NAMESPACES, MK_SOURCE_PODS, MK_SOURCE_OWN_PODS },
	{ MK_RESOURCE_OWN_PODS, MK_SOURCE_PODS, MK_SOURCE_OWN_PODS },
	{ MK_RESOURCE_PODS, MK_SOURCE_PODS, MK_SOURCE_ALL_PODS },
	{ MK_RESOURCE_FUNCTION_PODS, MK_SOURCE_FUNCTIONS, true },
	{ MK_RESOURCE_CLUSTER_PEERS, MK_SOURCE_PEERS, true },
	{ MK_RESOURCE_PUBLISHED_CLUSTERS, MK_SOURCE_PEERS, true },
	{ MK_RESOURCE_PUBLISHED_NODES, MK_SOURCE_PEERS, true },
	{ MK_RESOURCE_EXTERNALS, MK_SOURCE_PEERS, true },
	{ MK_RESOURCE_SERVICE_IMPORTS, MK_SOURCE_PEERS, true },
	{ MK_RESOURCE_SERVICE_EXPORTS, MK_SOURCE_PEERS, true },
};

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

void kube_want(struct mk_kube *kube, enum mk_source_part part, unsigned int wanted)
{
	kube->wanted[part] = wanted;
	for (size_t i = 0; i < MK_ARRAY_SIZE(needs); i++)
		if (needs[i].part == part)
			set_wanted(kube, needs[i].id, wanted >= needs[i].from);
	kube->told_part[part] &= kube_listed(kube, part);
}

bool kube_listed(const struct mk_kube *kube, enum mk_source_part part)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(needs); i++)
		if (needs[i].part == part && kube->wanted[part] >= needs[i].from &&
		    !kube->settled[needs[i].id])
			return false;
	return true;
}

bool kube_policies_news(struct mk_kube *kube)
{
	bool news = false;

	for (enum mk_source_part part = 0; part < MK_SOURCE_PARTS; part++) {
		bool listed = kube->wanted[part] && kube_listed(kube, part);

		news |= listed && !kube->told_part[part];
		kube->told_part[part] = listed;
	}
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

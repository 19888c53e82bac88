// SPDX-License-Identifier: Apache-2.0
/* Identify a tree by apiVersion, kind and metadata. */
#include <stdio.h>
#include <string.h>

#include "cluster/model/object.h"

#define NAME_MAX_CHARS 253

#define OF_MONOKUBE "networking.monokube.io", "v1alpha1", NULL
#define OF_MCS	    "multicluster.x-k8s.io", "v1beta1", "v1alpha1"

static const struct {
	const char *name, *group, *version;
	const char *older_version; /* as good; NULL: none */
	bool namespaced;
} kinds[MK_KIND_COUNT] = {
	[MK_KIND_NODE] = { "Node", "", "v1", NULL, false },
	[MK_KIND_SERVICE] = { "Service", "", "v1", NULL, true },
	[MK_KIND_ENDPOINT_SLICE] = { "EndpointSlice", "discovery.k8s.io", "v1", NULL, true },
	[MK_KIND_ENDPOINTS] = { "Endpoints", "", "v1", NULL, true },
	[MK_KIND_SERVICE_CIDR] = { "ServiceCIDR", "networking.k8s.io", "v1", NULL, false },
	[MK_KIND_POD] = { "Pod", "", "v1", NULL, true },
	[MK_KIND_NAMESPACE] = { "Namespace", "", "v1", NULL, false },
	[MK_KIND_NETWORK_POLICY] = { "NetworkPolicy", "networking.k8s.io", "v1", NULL, true },
	[MK_KIND_CLUSTER_POLICY] = { "ClusterNetworkPolicy", "policy.networking.k8s.io", "v1beta1",
				     "v1alpha2", false },
	[MK_KIND_CHAIN] = { "ServiceFunctionChain", OF_MONOKUBE, true },
	[MK_KIND_CLUSTER_PEER] = { "ClusterPeer", OF_MONOKUBE, false },
	[MK_KIND_PUBLISHED_CLUSTER] = { "PublishedCluster", OF_MONOKUBE, true },
	[MK_KIND_PUBLISHED_NODE] = { "PublishedNode", OF_MONOKUBE, true },
	[MK_KIND_PUBLISHED_SERVICE] = { "PublishedService", OF_MONOKUBE, true },
	[MK_KIND_SERVICE_IMPORT] = { "ServiceImport", OF_MCS, true },
	[MK_KIND_SERVICE_EXPORT] = { "ServiceExport", OF_MCS, true },
};

int left_out_by_label(const struct mk_json *tree, bool *left_out, struct mk_error *err)
{
	const char *proxy, *headless = NULL;
	int ret = tree_label(tree, "service.kubernetes.io/service-proxy-name", &proxy, err);

	ret = ret ?: tree_label(tree, "service.kubernetes.io/headless", &headless, err);
	*left_out = ret == 0 && (proxy || headless);
	return ret;
}

const char *kind_name(enum mk_kind kind)
{
	return kinds[kind].name;
}

static bool group_is(const char *api_version, const char *group)
{
	const char *slash = strchr(api_version, '/');
	size_t length = slash ? (size_t)(slash - api_version) : 0;

	return strlen(group) == length && strncmp(api_version, group, length) == 0;
}

/* The same kind in another group is a different kind: there is more than one `Service`. */
static int find_kind(const struct mk_json *root, enum mk_kind *kind, struct mk_error *err)
{
	struct mk_json api, name;
	char expected[64];
	int ret = tree_member(root, "apiVersion", json_type_string, &api, err);

	ret = ret ?: tree_member(root, "kind", json_type_string, &name, err);
	if (ret < 0)
		return ret;
	if (!api.value)
		return tree_wrong(&api, "a group and version such as v1", err);
	if (!name.value)
		return tree_wrong(&name, "the kind of the object", err);
	for (size_t i = 0; i < MK_KIND_COUNT; i++) {
		const char *slash = strchr(mk_json_string(&api), '/'), *version;

		if (strcmp(mk_json_string(&name), kinds[i].name) != 0 ||
		    !group_is(mk_json_string(&api), kinds[i].group))
			continue;
		*kind = (enum mk_kind)i;
		version = slash ? slash + 1 : mk_json_string(&api);
		if (strcmp(version, kinds[i].version) == 0 ||
		    (kinds[i].older_version && strcmp(version, kinds[i].older_version) == 0))
			return 0;
		snprintf(expected, sizeof(expected), "%s%s%s", kinds[i].group, slash ? "/" : "",
			 kinds[i].version);
		return tree_wrong(&api, expected, err);
	}
	return 1;
}

/* Names become keys and parts of messages, so accept only what Kubernetes allows. */
bool is_object_name(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length <= NAME_MAX_CHARS &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == length;
}

static int read_name(const struct mk_json *metadata, const char *key, const char *fallback,
		     const char **name, struct mk_error *err)
{
	struct mk_json at;
	int ret = tree_member(metadata, key, json_type_string, &at, err);

	if (ret < 0)
		return ret;
	*name = at.value ? mk_json_string(&at) : NULL;
	if ((!*name || !**name) && fallback)
		*name = fallback;
	if (!*name || !is_object_name(*name))
		return tree_wrong(&at, "lower case letters, digits, '-' and '.'", err);
	return 0;
}

int mk_model_identify(json_object *tree, enum mk_kind *kind, const char **namespace_,
		      const char **name, struct mk_error *err)
{
	struct mk_json root = { .value = tree }, metadata;
	int ret;

	*namespace_ = *name = "";
	if (!json_object_is_type(tree, json_type_object))
		return mk_error_set(err, EINVAL,
				    "not an object: expected apiVersion, kind, metadata");
	ret = find_kind(&root, kind, err);
	if (ret != 0)
		return ret;
	ret = tree_member(&root, "metadata", json_type_object, &metadata, err);
	ret = ret ?: read_name(&metadata, "name", NULL, name, err);
	if (ret == 0 && kinds[*kind].namespaced)
		ret = read_name(&metadata, "namespace", "default", namespace_, err);
	if (ret < 0)
		mk_error_wrap(err, "%s", kinds[*kind].name);
	return ret;
}

// SPDX-License-Identifier: Apache-2.0
/* The model's tables of the objects of policy.h, chain.h and peer.h. */
#include <stdlib.h>
#include <string.h>

#include "cluster/model/model_internal.h"

struct policy_entry {
	struct mk_index_link link;
	uint32_t object_bytes;
	union policy_object object; /* only @object_bytes of it; then key_of() or a pod's name */
};

static const struct {
	policy_decode_fn *decode;
	policy_equal_fn *equal;
	policy_release_fn *release;
	uint32_t bytes;
} kinds[MK_KIND_COUNT] = {
	[MK_KIND_POD] = { pod_decode, pod_equal, pod_release,
			  offsetof(struct mk_pod_object, name) },
	[MK_KIND_NAMESPACE] = { namespace_decode, namespace_equal, namespace_release,
				sizeof(struct mk_namespace_object) },
	[MK_KIND_NETWORK_POLICY] = { network_policy_decode, network_policy_equal,
				     network_policy_release, sizeof(struct mk_network_policy) },
	[MK_KIND_CLUSTER_POLICY] = { cluster_policy_decode, cluster_policy_equal,
				     cluster_policy_release, sizeof(struct mk_cluster_policy) },
	[MK_KIND_CHAIN] = { chain_decode, chain_equal, chain_release, sizeof(struct mk_chain) },
	[MK_KIND_CLUSTER_PEER] = { cluster_peer_decode, cluster_peer_equal, cluster_peer_release,
				   sizeof(struct mk_cluster_peer) },
	[MK_KIND_PUBLISHED_CLUSTER] = { published_cluster_decode, published_cluster_equal,
					published_cluster_release,
					sizeof(struct mk_published_cluster) },
	[MK_KIND_PUBLISHED_NODE] = { published_node_decode, published_node_equal,
				     published_node_release, sizeof(struct mk_published_node) },
	[MK_KIND_PUBLISHED_SERVICE] = { published_service_decode, published_service_equal,
					published_service_release,
					sizeof(struct mk_published_service) },
	[MK_KIND_SERVICE_EXPORT] = { service_export_decode, service_export_equal,
				     service_export_release, sizeof(struct mk_service_export) },
};

/* Objects of other namespaces are not visited; NULL: all are. */
static const char *const only_in[MK_KIND_COUNT] = {
	[MK_KIND_PUBLISHED_NODE] = MK_PEERS_NAMESPACE,
	[MK_KIND_PUBLISHED_SERVICE] = MK_PUBLISHED_NAMESPACE,
};

bool model_is_policy_object(enum mk_kind kind)
{
	return kinds[kind].decode;
}

size_t model_policy_object_count(const struct mk_model *model, enum mk_kind kind)
{
	return model->policy_objects[kind].count;
}

static size_t make_key(char key[MK_MODEL_KEY_CHARS], const char *namespace_, const char *name)
{
	size_t first = strlen(namespace_) + 1, second = strlen(name) + 1;

	if (first + second > MK_MODEL_KEY_CHARS)
		return 0; /* no object has such a name */
	memcpy(key, namespace_, first);
	memcpy(key + first, name, second);
	return first + second;
}

static struct policy_entry *entry_of(struct mk_index_link *link)
{
	return link ? mk_index_entry(link, struct policy_entry, link) : NULL;
}

/* Return namespace and name, each with a NUL; of a pod only the name. */
static char *key_of(const struct policy_entry *entry)
{
	return (char *)&entry->object + entry->object_bytes;
}

static const char *namespace_of(enum mk_kind kind, const struct policy_entry *entry)
{
	return kind == MK_KIND_POD ? entry->object.pod.of->namespace_ : key_of(entry);
}

static const char *name_of(enum mk_kind kind, const struct policy_entry *entry)
{
	return kind == MK_KIND_POD ? key_of(entry) : key_of(entry) + strlen(key_of(entry)) + 1;
}

static bool has_names(enum mk_kind kind, const struct policy_entry *entry, const char *namespace_,
		      const char *name)
{
	return strcmp(namespace_of(kind, entry), namespace_) == 0 &&
	       strcmp(name_of(kind, entry), name) == 0;
}

/* Visit all objects of a kind: after NULL the first one. */
static struct policy_entry *after(const struct mk_model *model, enum mk_kind kind,
				  const struct policy_entry *entry)
{
	return entry_of(mk_index_after(&model->policy_objects[kind], entry ? &entry->link : NULL));
}

static struct policy_entry *find(const struct mk_model *model, enum mk_kind kind,
				 const char *namespace_, const char *name)
{
	char key[MK_MODEL_KEY_CHARS];
	uint32_t hash = mk_index_hash(key, make_key(key, namespace_, name));
	struct mk_index_link *link = mk_index_find(&model->policy_objects[kind], hash);

	while (link && !has_names(kind, entry_of(link), namespace_, name))
		link = mk_index_find_next(link);
	return entry_of(link);
}

static struct policy_entry *add(struct mk_model *model, const struct mk_object_id *id)
{
	char key[MK_MODEL_KEY_CHARS];
	size_t bytes = make_key(key, id->namespace_, id->name);
	size_t skipped = id->kind == MK_KIND_POD ? strlen(id->namespace_) + 1 : 0;
	struct policy_entry *entry = calloc(1, offsetof(struct policy_entry, object) +
						       kinds[id->kind].bytes + bytes - skipped);

	if (!entry)
		return NULL;
	entry->object_bytes = kinds[id->kind].bytes;
	memcpy(key_of(entry), key + skipped, bytes - skipped);
	if (mk_index_add(&model->policy_objects[id->kind], &entry->link,
			 mk_index_hash(key, bytes)) == 0)
		return entry;
	free(entry);
	return NULL;
}

/* The names of an object are those of its entry. A pod has its own. */
static void set_names(enum mk_kind kind, struct policy_entry *entry)
{
	char *namespace_ = key_of(entry), *name = namespace_ + strlen(namespace_) + 1;
	union policy_object *object = &entry->object;

	if (kind == MK_KIND_NAMESPACE) {
		object->namespace_.name = name;
	} else if (kind == MK_KIND_NETWORK_POLICY) {
		object->network_policy.namespace_ = namespace_;
		object->network_policy.name = name;
	} else if (kind == MK_KIND_CHAIN) {
		object->chain.namespace_ = namespace_;
		object->chain.name = name;
	} else if (kind == MK_KIND_SERVICE_EXPORT) {
		object->service_export.namespace_ = namespace_;
		object->service_export.name = name;
	} else if (kind == MK_KIND_CLUSTER_PEER) {
		object->cluster_peer.name = name;
	} else if (kind == MK_KIND_PUBLISHED_CLUSTER) {
		object->published_cluster.name = name;
	} else if (kind == MK_KIND_CLUSTER_POLICY) {
		object->cluster_policy.name = name;
	}
}

static const char *passed_over(enum mk_kind kind, const union policy_object *object)
{
	if (kind == MK_KIND_NETWORK_POLICY)
		return object->network_policy.passed_over;
	return kind == MK_KIND_CLUSTER_POLICY ? object->cluster_policy.passed_over : NULL;
}

static bool is_of_peers(enum mk_kind kind)
{
	return kind == MK_KIND_CLUSTER_PEER || kind == MK_KIND_PUBLISHED_CLUSTER ||
	       kind == MK_KIND_PUBLISHED_NODE;
}

/* @former: the content before; NULL: the object is new. */
static void tell(const struct mk_model *model, enum mk_kind kind, const struct policy_entry *entry,
		 const union policy_object *former)
{
	const char *namespace_ = namespace_of(kind, entry), *name = name_of(kind, entry);
	const struct mk_model_listener *to = &model->listener;

	if (kind == MK_KIND_POD && to->pod_changed)
		to->pod_changed(to->ctx, &entry->object.pod, former ? &former->pod : NULL);
	else if (kind == MK_KIND_NAMESPACE && to->namespace_changed)
		to->namespace_changed(to->ctx, name);
	else if (kind == MK_KIND_NETWORK_POLICY && to->network_policy_changed)
		to->network_policy_changed(to->ctx, namespace_, name);
	else if (kind == MK_KIND_CLUSTER_POLICY && to->cluster_policy_changed)
		to->cluster_policy_changed(to->ctx, name);
	else if (kind == MK_KIND_CHAIN && to->chain_changed)
		to->chain_changed(to->ctx, namespace_, name);
	else if (is_of_peers(kind) && to->peers_changed)
		to->peers_changed(to->ctx);
	else if (kind == MK_KIND_SERVICE_EXPORT && to->export_changed)
		to->export_changed(to->ctx, namespace_, name);
	else if (kind == MK_KIND_PUBLISHED_SERVICE && to->externals_changed)
		to->externals_changed(to->ctx);
}

static void tell_gone(const struct mk_model *model, enum mk_kind kind,
		      const struct policy_entry *entry)
{
	const struct mk_model_listener *to = &model->listener;

	if (!to->published_gone || strcmp(key_of(entry), MK_PEERS_NAMESPACE) != 0)
		return;
	if (kind == MK_KIND_PUBLISHED_CLUSTER)
		to->published_gone(to->ctx, &entry->object.published_cluster, NULL);
	else if (kind == MK_KIND_PUBLISHED_NODE)
		to->published_gone(to->ctx, NULL, &entry->object.published_node);
}

/* ---- function pods --------------------------------------------------------------------------- */

/* A Pod with the label of a function is also in a list of its own, because there are few. */
struct function_pod {
	UT_hash_handle hh;
	const struct policy_entry *entry; /* the key */
};

static struct function_pod *find_function(const struct mk_model *model,
					  const struct policy_entry *entry)
{
	struct function_pod *found;

	HASH_FIND_PTR(model->function_pods, &entry, found);
	return found;
}

static void forget_function(struct mk_model *model, struct function_pod *function)
{
	HASH_DEL(model->function_pods, function);
	free(function);
}

static void tell_function(const struct mk_model *model, const struct policy_entry *entry)
{
	if (model->listener.function_pod_changed)
		model->listener.function_pod_changed(model->listener.ctx,
						     namespace_of(MK_KIND_POD, entry),
						     entry->object.pod.name);
}

/* The Pod @entry is new or changed. */
static int note_function(struct mk_model *model, const struct policy_entry *entry)
{
	struct function_pod *function = find_function(model, entry);
	bool was = function, is = pod_function(&entry->object.pod);

	if (is && !function) {
		function = calloc(1, sizeof(*function));
		if (!function)
			return -ENOMEM;
		function->entry = entry;
		HASH_ADD_PTR(model->function_pods, entry, function);
	} else if (!is && function) {
		forget_function(model, function);
	}
	if (was || is)
		tell_function(model, entry);
	return 0;
}

/* The Pod @entry is about to go. */
static void drop_function(struct mk_model *model, const struct policy_entry *entry)
{
	struct function_pod *function = find_function(model, entry);

	if (!function)
		return;
	forget_function(model, function);
	tell_function(model, entry);
}

/* ---- changes --------------------------------------------------------------------------------- */

static int replace(struct mk_model *model, const struct mk_object_id *id,
		   struct policy_entry *entry, const union policy_object *object, bool is_new,
		   struct mk_error *err)
{
	union policy_object old;
	bool changed;
	int ret = 0;

	memcpy(&old, &entry->object, entry->object_bytes);
	changed = is_new || !kinds[id->kind].equal(&old, object);
	memcpy(&entry->object, object, entry->object_bytes);
	if (id->kind != MK_KIND_POD)
		set_names(id->kind, entry);
	model_log_passed_over(id, passed_over(id->kind, &old), passed_over(id->kind, object));
	if (changed)
		tell(model, id->kind, entry, is_new ? NULL : &old);
	if (changed && id->kind == MK_KIND_POD)
		ret = note_function(model, entry);
	kinds[id->kind].release(&model->texts, &old);
	return ret < 0 ? mk_error_errno(err, ENOMEM, "function pod") : 0;
}

/* UID and node matter only of pods of this node and of function pods. */
static void drop_bound(struct mk_model *model, struct mk_pod_object *pod)
{
	const char *node = mk_pod_node(pod);

	if (model->node_name && !pod_function(pod) &&
	    !(node && strcmp(node, model->node_name) == 0))
		pod_unbind(&model->texts, pod);
}

int model_apply_policy_object(struct mk_model *model, const struct mk_json *tree,
			      const struct mk_object_id *id, struct mk_error *err)
{
	struct policy_entry *entry = find(model, id->kind, id->namespace_, id->name);
	union policy_object object;
	bool is_new = !entry;
	int ret;

	memset(&object, 0, sizeof(object));
	ret = kinds[id->kind].decode(&model->texts, tree, id, &object, err);
	if (ret == 0 && id->kind == MK_KIND_POD)
		drop_bound(model, &object.pod);
	if (ret == 0 && !is_new && id->kind == MK_KIND_CLUSTER_PEER)
		cluster_peer_keep(&entry->object, &object);
	if (ret == 0 && is_new) {
		entry = add(model, id);
		if (!entry)
			ret = mk_error_errno(err, ENOMEM, "new object");
	}
	if (ret < 0) {
		kinds[id->kind].release(&model->texts, &object);
		return ret;
	}
	return replace(model, id, entry, &object, is_new, err);
}

void model_delete_policy_object(struct mk_model *model, enum mk_kind kind, const char *namespace_,
				const char *name)
{
	struct policy_entry *entry = find(model, kind, namespace_, name);

	if (!entry)
		return;
	mk_index_remove(&model->policy_objects[kind], &entry->link);
	tell_gone(model, kind, entry);
	tell(model, kind, entry, &entry->object);
	if (kind == MK_KIND_POD)
		drop_function(model, entry);
	kinds[kind].release(&model->texts, &entry->object);
	free(entry);
}

static void free_kind(struct mk_model *model, enum mk_kind kind)
{
	struct policy_entry *entry = after(model, kind, NULL), *next;

	for (; entry; entry = next) {
		next = after(model, kind, entry);
		kinds[kind].release(&model->texts, &entry->object);
		free(entry);
	}
	mk_index_release(&model->policy_objects[kind]);
}

void model_free_policy_objects(struct mk_model *model)
{
	struct function_pod *function, *next;

	HASH_ITER(hh, model->function_pods, function, next)
		forget_function(model, function);
	for (enum mk_kind kind = 0; kind < MK_KIND_COUNT; kind++)
		free_kind(model, kind);
}

/* ---- reading --------------------------------------------------------------------------------- */

const struct mk_pod_object *mk_model_pod(const struct mk_model *model, const char *namespace_,
					 const char *name)
{
	struct policy_entry *entry = find(model, MK_KIND_POD, namespace_, name);

	return entry ? &entry->object.pod : NULL;
}

const struct mk_namespace_object *mk_model_namespace(const struct mk_model *model, const char *name)
{
	struct policy_entry *entry = find(model, MK_KIND_NAMESPACE, "", name);

	return entry ? &entry->object.namespace_ : NULL;
}

const struct mk_network_policy *mk_model_network_policy(const struct mk_model *model,
							const char *namespace_, const char *name)
{
	struct policy_entry *entry = find(model, MK_KIND_NETWORK_POLICY, namespace_, name);

	return entry ? &entry->object.network_policy : NULL;
}

const struct mk_cluster_policy *mk_model_cluster_policy(const struct mk_model *model,
							const char *name)
{
	struct policy_entry *entry = find(model, MK_KIND_CLUSTER_POLICY, "", name);

	return entry ? &entry->object.cluster_policy : NULL;
}

const void *model_next_policy_object(const struct mk_model *model, enum mk_kind kind,
				     const void *object)
{
	const struct policy_entry *entry = NULL;

	if (object)
		entry = (const void *)((const char *)object -
				       offsetof(struct policy_entry, object));
	do
		entry = after(model, kind, entry);
	while (entry && only_in[kind] && strcmp(key_of(entry), only_in[kind]) != 0);
	return entry ? &entry->object : NULL;
}

bool mk_model_restore_views(struct mk_model *model, const char *name,
			    const struct mk_cidr pods[MK_FAMILIES],
			    const struct mk_cidr externals[MK_FAMILIES])
{
	struct policy_entry *entry = find(model, MK_KIND_CLUSTER_PEER, "", name);

	return entry && cluster_peer_restore(&entry->object.cluster_peer, pods, externals);
}

const struct mk_published_cluster *mk_model_published_cluster(const struct mk_model *model,
							      const char *name)
{
	struct policy_entry *entry =
		find(model, MK_KIND_PUBLISHED_CLUSTER, MK_PEERS_NAMESPACE, name);

	return entry ? &entry->object.published_cluster : NULL;
}

const struct mk_service_export *mk_model_service_export(const struct mk_model *model,
							const char *namespace_, const char *name)
{
	struct policy_entry *entry = find(model, MK_KIND_SERVICE_EXPORT, namespace_, name);

	return entry ? &entry->object.service_export : NULL;
}

static struct mk_function_pod view_function(const struct mk_pod_object *pod)
{
	bool wrong = pod->weight == MK_FUNCTION_WEIGHT_WRONG;

	return (struct mk_function_pod){
		.namespace_ = pod->of->namespace_,
		.name = pod->name,
		.function = pod_function(pod),
		.uid = *pod->bound->object_uid ? pod->bound->object_uid : NULL,
		.node_name = mk_pod_node(pod),
		.ips = { mk_pod_ip(pod, 0), mk_pod_ip(pod, 1) },
		.ready = pod->ready,
		.deleting = pod->terminating,
		.finished = pod->finished,
		.host_network = pod->host_network,
		.asks_for_ports = pod->asks_for_ports,
		.is_tap = pod->is_tap,
		.is_end = pod->is_end,
		.weight = wrong ? MK_FUNCTION_WEIGHT : pod->weight,
		.weight_is_wrong = wrong,
	};
}

size_t mk_model_function_pods(const struct mk_model *model)
{
	return HASH_COUNT(model->function_pods);
}

void mk_model_each_function_pod(const struct mk_model *model,
				void (*visit)(void *ctx, const struct mk_function_pod *pod),
				void *ctx)
{
	struct function_pod *function, *next;

	HASH_ITER(hh, model->function_pods, function, next) {
		const struct mk_function_pod pod = view_function(&function->entry->object.pod);

		visit(ctx, &pod);
	}
}

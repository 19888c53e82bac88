// SPDX-License-Identifier: Apache-2.0
/* test/policy/cluster.c - a cluster of two nodes, and what its agents see of changes. */
#include "policy/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cluster/model/model.h"

static void must(int ret, const struct mk_error *err)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s\n", mk_error_text(err));
	abort();
}

/* ---- JSON ------------------------------------------------------------------------------------ */

json_object *at_path(json_object *object, const char *path)
{
	char part[64];

	for (const char *end = path; object && *path; path = *end ? end + 1 : end) {
		end = strchrnul(path, '.');
		snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
		if (!json_object_object_get_ex(object, part, &object))
			return NULL;
	}
	return object;
}

const char *text_at(json_object *object, const char *path)
{
	json_object *found = at_path(object, path);

	return found ? json_object_get_string(found) : NULL;
}

static struct mk_ip ip_of(const char *text)
{
	struct mk_ip ip = { 0 };

	if (mk_ip_parse(text, &ip) < 0)
		abort();
	return ip;
}

static void name_of(json_object *object, char *name)
{
	const char *namespace_ = text_at(object, "metadata.namespace");

	snprintf(name, KEY_CHARS, "%s%s%s", namespace_ ? namespace_ : "", namespace_ ? "/" : "",
		 text_at(object, "metadata.name"));
}

static void key_of(json_object *object, char *key)
{
	char name[KEY_CHARS - 80];

	name_of(object, name);
	snprintf(key, KEY_CHARS, "%s %s", text_at(object, "kind"), name);
}

json_object *cluster_object(const struct cluster *cluster, const char *kind, const char *name)
{
	char key[KEY_CHARS];

	snprintf(key, sizeof(key), "%s %s", kind, name);
	return json_object_object_get(cluster->objects, key);
}

/* Rule 42. */
static const char *uid_of(json_object *pod)
{
	json_object *annotations = at_path(pod, "metadata.annotations"), *hash;

	if (annotations &&
	    json_object_object_get_ex(annotations, "kubernetes.io/config.hash", &hash))
		return json_object_get_string(hash);
	return text_at(pod, "metadata.uid");
}

int node_index(const char *name)
{
	return name[1] - '1';
}

/* ---- facts ----------------------------------------------------------------------------------- */

static int family_number(const struct mk_ip *ip)
{
	return ip->family == AF_INET ? 4 : 6;
}

bool node_address(const struct cluster *cluster, const char *node, int family, struct mk_ip *ip)
{
	json_object *addresses = at_path(cluster_object(cluster, "Node", node), "status.addresses");

	for (size_t i = 0; addresses && i < json_object_array_length(addresses); i++) {
		json_object *entry = json_object_array_get_idx(addresses, i);

		if (strcmp(text_at(entry, "type"), "InternalIP") != 0)
			continue;
		*ip = ip_of(text_at(entry, "address"));
		if (family_number(ip) == family)
			return true;
	}
	return false;
}

bool audits_all(const struct cluster *cluster)
{
	json_object *audit = at_path(cluster->facts, "audit");

	return audit && json_object_get_boolean(audit);
}

bool is_overlay_address(const struct cluster *cluster, const struct mk_ip *ip)
{
	json_object *overlay = at_path(cluster->facts, "overlay");

	json_object_object_foreach(overlay, address, node)
	{
		struct mk_ip its = ip_of(address);

		(void)node;
		if (mk_ip_equal(&its, ip))
			return true;
	}
	return false;
}

bool overlay_address(const struct cluster *cluster, const char *node, int family, struct mk_ip *ip)
{
	json_object *overlay = at_path(cluster->facts, "overlay");

	json_object_object_foreach(overlay, address, owner)
	{
		*ip = ip_of(address);
		if (strcmp(json_object_get_string(owner), node) == 0 && family_number(ip) == family)
			return true;
	}
	return node_address(cluster, node, family, ip);
}

bool in_pod_ranges(const struct cluster *cluster, const struct mk_ip *ip)
{
	json_object *ranges = at_path(cluster->facts, "podRanges");

	for (size_t i = 0; i < json_object_array_length(ranges); i++) {
		const char *text = json_object_get_string(json_object_array_get_idx(ranges, i));
		struct mk_cidr range;

		if (mk_cidr_parse(text, &range) == 0 && mk_cidr_contains(&range, ip))
			return true;
	}
	return false;
}

/* ---- sandboxes ------------------------------------------------------------------------------- */

/* The object of the pod @name that has @uid. */
static json_object *known_pod(const struct cluster *cluster, const char *name, const char *uid)
{
	json_object *pod = name ? cluster_object(cluster, "Pod", name) : NULL;

	if (pod && strcmp(uid_of(pod), uid) == 0)
		return pod;
	pod = json_object_object_get(cluster->gone, uid);
	return pod && name && strcmp(text_at(pod, "boxName"), name) == 0 ? pod : NULL;
}

static struct box *add_box(struct cluster *cluster, const char *node, const char *pod,
			   const char *uid, json_object *object)
{
	struct box *box = &cluster->boxes[cluster->box_count++];

	if (cluster->box_count > BOXES_MAX)
		abort();
	*box = (struct box){ .node = node_index(node), .pod = pod, .uid = uid, .object = object };
	return box;
}

static void add_given_boxes(struct cluster *cluster)
{
	json_object *boxes = at_path(cluster->facts, "sandboxes");

	for (size_t i = 0; boxes && i < json_object_array_length(boxes); i++) {
		json_object *entry = json_object_array_get_idx(boxes, i),
			    *addresses = at_path(entry, "addresses"), *pending;
		const char *pod = text_at(entry, "pod"), *uid = text_at(entry, "uid");
		struct box *box = add_box(cluster, text_at(entry, "node"), pod, uid ? uid : pod,
					  known_pod(cluster, pod, uid ? uid : pod));

		for (size_t j = 0; j < json_object_array_length(addresses); j++)
			box->addresses[box->address_count++] = ip_of(
				json_object_get_string(json_object_array_get_idx(addresses, j)));
		if (json_object_object_get_ex(entry, "pending", &pending))
			box->pending = json_object_get_boolean(pending) && !audits_all(cluster);
	}
}

static bool has_box(const struct cluster *cluster, size_t given, const char *node, const char *uid,
		    const struct mk_ip *ip)
{
	for (size_t i = 0; i < given; i++) {
		const struct box *box = &cluster->boxes[i];

		if (strcmp(box->uid, uid) == 0)
			return true;
		for (size_t j = 0; j < box->address_count; j++)
			if (box->node == node_index(node) && mk_ip_equal(&box->addresses[j], ip))
				return true;
	}
	return false;
}

/* A sandbox follows from a Pod that has a node and an address and has not ended. */
static void add_box_of(struct cluster *cluster, size_t given, json_object *pod, const char *name)
{
	json_object *ips = at_path(pod, "status.podIPs"), *host = at_path(pod, "spec.hostNetwork");
	const char *node = text_at(pod, "spec.nodeName"), *phase = text_at(pod, "status.phase");
	struct box *box;
	struct mk_ip first;

	if (!node || !ips || json_object_array_length(ips) == 0 ||
	    (host && json_object_get_boolean(host)))
		return;
	if (phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0))
		return;
	first = ip_of(text_at(json_object_array_get_idx(ips, 0), "ip"));
	if (has_box(cluster, given, node, uid_of(pod), &first))
		return;
	box = add_box(cluster, node, name, uid_of(pod), pod);
	for (size_t i = 0; i < json_object_array_length(ips); i++)
		box->addresses[box->address_count++] =
			ip_of(text_at(json_object_array_get_idx(ips, i), "ip"));
}

/* Pods that are gone come first, as in the reference: box_at() finds the first one. */
static void find_boxes(struct cluster *cluster)
{
	size_t given;

	cluster->box_count = 0;
	add_given_boxes(cluster);
	given = cluster->box_count;
	json_object_object_foreach(cluster->gone, uid,
				   pod) if (known_pod(cluster, text_at(pod, "boxName"), uid) == pod)
		add_box_of(cluster, given, pod, text_at(pod, "boxName"));
	json_object_object_foreach(cluster->objects, key, object) if (strncmp(key, "Pod ", 4) == 0)
		add_box_of(cluster, given, object, key + 4);
}

const struct box *box_named(const struct cluster *cluster, const char *name)
{
	for (size_t i = cluster->box_count; i-- > 0;) {
		const struct box *box = &cluster->boxes[i];

		if ((box->pod && strcmp(box->pod, name) == 0) || strcmp(box->uid, name) == 0)
			return box;
	}
	return NULL;
}

const struct box *box_at(const struct cluster *cluster, const struct mk_ip *ip)
{
	for (size_t i = 0; i < cluster->box_count; i++)
		for (size_t j = 0; j < cluster->boxes[i].address_count; j++)
			if (mk_ip_equal(&cluster->boxes[i].addresses[j], ip))
				return &cluster->boxes[i];
	return NULL;
}

void cluster_sandboxes(const struct cluster *cluster, int node, struct sandbox_list *list)
{
	*list = (struct sandbox_list){ 0 };
	for (size_t i = 0; i < cluster->box_count; i++) {
		const struct box *box = &cluster->boxes[i];
		struct mk_policy_sandbox *to = &list->all[list->count];
		char *name = list->names[list->count];

		if (box->node != node ||
		    (cluster->removed && strcmp(box->uid, cluster->removed) == 0))
			continue;
		for (size_t j = 0; j < box->address_count; j++)
			to->ips[mk_family_index(box->addresses[j].family)] = box->addresses[j];
		if (box->pod) {
			snprintf(name, sizeof(list->names[0]), "%s", box->pod);
			to->namespace_ = name;
			to->name = strchr(name, '/');
			*to->name++ = '\0';
			to->uid = strchr(box->uid, '/') ? NULL : (char *)box->uid;
		}
		list->pending[list->count++] = box->pending;
	}
}

static void tell_sandboxes(struct cluster *cluster, int node)
{
	struct sandbox_list list;
	struct mk_error err;

	cluster_sandboxes(cluster, node, &list);
	must(mk_policies_set_sandboxes(cluster->compilers[node], list.all, list.count, &err), &err);
}

/* ---- compiling ------------------------------------------------------------------------------- */

static void mark(struct cluster *cluster, enum mk_kind kind, const char *namespace_,
		 const char *name)
{
	for (int i = 0; i < NODES; i++)
		mk_policies_mark(cluster->compilers[i], kind, namespace_, name);
}

static void pod_changed(void *ctx, const struct mk_pod_object *pod,
			const struct mk_pod_object *former)
{
	struct cluster *cluster = ctx;

	for (int i = 0; i < NODES; i++)
		mk_policies_pod_changed(cluster->compilers[i], pod, former);
}

static void namespace_changed(void *ctx, const char *name)
{
	mark(ctx, MK_KIND_NAMESPACE, "", name);
}

static void network_policy_changed(void *ctx, const char *namespace_, const char *name)
{
	mark(ctx, MK_KIND_NETWORK_POLICY, namespace_, name);
}

static void cluster_policy_changed(void *ctx, const char *name)
{
	mark(ctx, MK_KIND_CLUSTER_POLICY, "", name);
}

static void node_changed(void *ctx, const char *name)
{
	mark(ctx, MK_KIND_NODE, "", name);
}

static void describe(struct cluster *cluster, int node)
{
	json_object_put(cluster->sets[node]);
	cluster->sets[node] = mk_policies_describe(cluster->compilers[node]);
}

json_object *described_rule(const struct cluster *cluster, int node, uint64_t set, uint16_t number)
{
	json_object *sets = json_object_object_get(cluster->sets[node], "sets");
	char name[17];

	snprintf(name, sizeof(name), "%016llx", (unsigned long long)set);
	return json_object_array_get_idx(json_object_object_get(json_object_object_get(sets, name),
								"rules"),
					 (size_t)number - 1);
}

void (*cluster_write_tables)(const struct cluster *cluster, int node,
			     const struct mk_policy_changes *changes);

static void refresh(struct cluster *cluster)
{
	const struct mk_policy_changes *changes;
	struct mk_error err;

	find_boxes(cluster);
	for (int i = 0; i < NODES; i++) {
		tell_sandboxes(cluster, i);
		must(mk_policies_compile(cluster->compilers[i], &changes, &err), &err);
		policy_rows_apply(&cluster->rows[i], changes);
		describe(cluster, i);
		if (cluster_write_tables)
			cluster_write_tables(cluster, i, changes);
		mk_policies_release(cluster->compilers[i]);
	}
}

/* ---- changes --------------------------------------------------------------------------------- */

static void put(struct cluster *cluster, json_object *object)
{
	char key[KEY_CHARS], name[KEY_CHARS];
	struct mk_error err;
	int ret = mk_model_apply(cluster->model, object, &err);

	if (ret < 0 || (ret > 0 && strcmp(text_at(object, "kind"), "ClusterNetworkPolicy") == 0))
		return;
	key_of(object, key);
	name_of(object, name);
	json_object_object_add(cluster->objects, key, json_object_get(object));
}

static enum mk_kind kind_named(const char *name)
{
	return strcmp(name, "Pod") == 0		    ? MK_KIND_POD
	       : strcmp(name, "NetworkPolicy") == 0 ? MK_KIND_NETWORK_POLICY
	       : strcmp(name, "Namespace") == 0	    ? MK_KIND_NAMESPACE
						    : MK_KIND_CLUSTER_POLICY;
}

/* Rule 43: the sandbox of a Pod that is gone lives until the CNI plugin's DEL. */
static void delete_object(struct cluster *cluster, const char *kind, const char *name)
{
	json_object *object = cluster_object(cluster, kind, name);
	const char *slash = strchr(name, '/');
	char namespace_[KEY_CHARS] = "", key[KEY_CHARS];

	if (!object)
		return;
	if (slash)
		snprintf(namespace_, sizeof(namespace_), "%.*s", (int)(slash - name), name);
	if (strcmp(kind, "Pod") == 0) {
		json_object_object_add(object, "boxName", json_object_new_string(name));
		json_object_object_add(cluster->gone, uid_of(object), json_object_get(object));
	}
	mk_model_delete(cluster->model, kind_named(kind), namespace_, slash ? slash + 1 : name);
	snprintf(key, sizeof(key), "%s %s", kind, name);
	json_object_object_del(cluster->objects, key);
}

static void vanish(struct cluster *cluster, const char *kind)
{
	char names[64][KEY_CHARS];
	size_t count = 0, chars = strlen(kind);

	json_object_object_foreach(cluster->objects, key, object)
	{
		(void)object;
		if (strncmp(key, kind, chars) == 0 && key[chars] == ' ' && count < 64)
			snprintf(names[count++], KEY_CHARS, "%s", key + chars + 1);
	}
	for (size_t i = 0; i < count; i++)
		delete_object(cluster, kind, names[i]);
}

static void see(struct cluster *cluster, json_object *event)
{
	json_object *of;

	if (json_object_object_get_ex(event, "put", &of))
		put(cluster, of);
	else if (json_object_object_get_ex(event, "delete", &of))
		delete_object(cluster, json_object_get_string(json_object_array_get_idx(of, 0)),
			      json_object_get_string(json_object_array_get_idx(of, 1)));
	else if (json_object_object_get_ex(event, "vanished", &of))
		vanish(cluster, json_object_get_string(of));
}

static void wake(struct cluster *cluster)
{
	cluster->dead = false;
	for (size_t i = 0; i < json_object_array_length(cluster->waiting); i++)
		see(cluster, json_object_array_get_idx(cluster->waiting, i));
	json_object_put(cluster->waiting);
	cluster->waiting = json_object_new_array();
}

/* A sandbox that is among the facts is there again at once, without memory. */
static void remove_sandbox(struct cluster *cluster, const char *uid)
{
	cluster->removed = uid;
	refresh(cluster);
	cluster->removed = NULL;
	json_object_object_del(cluster->gone, uid);
}

void cluster_change(struct cluster *cluster, json_object *event)
{
	const char *agent = text_at(event, "agent"), *removed = text_at(event, "DEL");

	if (agent && strcmp(agent, "dead") == 0)
		cluster->dead = true;
	else if (agent)
		wake(cluster);
	else if (removed)
		remove_sandbox(cluster, removed);
	else if (cluster->dead)
		json_object_array_add(cluster->waiting, json_object_get(event));
	else
		see(cluster, event);
	refresh(cluster);
}

/* ---- begin, end ------------------------------------------------------------------------------ */

/* The address from which a node sends what it masquerades into the overlay. */
struct mk_ip virtual_pod_address(int node, sa_family_t family)
{
	char text[MK_IP_STRLEN];

	snprintf(text, sizeof(text), family == AF_INET ? "10.244.%d.1" : "fd44::%d:1", node + 1);
	return ip_of(text);
}

static void tell_nodes(struct cluster *cluster)
{
	struct mk_policy_node_address nodes[16] = { 0 };
	json_object *overlay = at_path(cluster->facts, "overlay");
	struct mk_error err;
	size_t count = 0;

	json_object_object_foreach(overlay, address, node)
	{
		struct mk_policy_node_address *to = &nodes[count];
		const char *name = json_object_get_string(node);

		to->ip = ip_of(address);
		if (!node_address(cluster, name, family_number(&to->ip), &to->counts_as))
			to->counts_as = (struct mk_ip){ 0 };
		to[1] = (struct mk_policy_node_address){
			virtual_pod_address(node_index(name), to->ip.family), to->counts_as
		};
		count += 2;
	}
	for (int i = 0; i < NODES; i++)
		must(mk_policies_set_nodes(cluster->compilers[i], nodes, count, &err), &err);
}

void cluster_begin(struct cluster *cluster, json_object *line)
{
	const struct mk_model_listener listener = {
		.node_changed = node_changed,
		.pod_changed = pod_changed,
		.namespace_changed = namespace_changed,
		.network_policy_changed = network_policy_changed,
		.cluster_policy_changed = cluster_policy_changed,
		.ctx = cluster,
	};
	json_object *objects = at_path(line, "objects");
	struct mk_error err;

	*cluster = (struct cluster){ .objects = json_object_new_object(),
				     .gone = json_object_new_object(),
				     .facts = json_object_get(at_path(line, "facts")),
				     .waiting = json_object_new_array(),
				     .model = mk_model_new() };
	for (int i = 0; i < NODES; i++) {
		struct mk_policy_view view = { .node_name = i == 0 ? "n1" : "n2",
					       .hash_key = { 1, 2, 3 },
					       .audit = audits_all(cluster) };

		cluster->compilers[i] = mk_policies_new(cluster->model, &view, &err);
	}
	mk_model_set_listener(cluster->model, &listener);
	for (size_t i = 0; i < json_object_array_length(objects); i++)
		put(cluster, json_object_array_get_idx(objects, i));
	tell_nodes(cluster);
	refresh(cluster);
}

void cluster_end(struct cluster *cluster)
{
	if (!cluster->model)
		return;
	for (int i = 0; i < NODES; i++) {
		mk_policies_free(cluster->compilers[i]);
		policy_rows_release(&cluster->rows[i]);
		json_object_put(cluster->sets[i]);
	}
	mk_model_free(cluster->model);
	json_object_put(cluster->objects);
	json_object_put(cluster->gone);
	json_object_put(cluster->facts);
	json_object_put(cluster->waiting);
	*cluster = (struct cluster){ 0 };
}

// SPDX-License-Identifier: Apache-2.0
/* Pods and Namespaces: what policies need of them. */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cluster/model/policy_object.h"

#define ANNOTATION_STATIC "kubernetes.io/config.hash"
#define LABEL_NAME	  "kubernetes.io/metadata.name"
#define NS_PER_S	  1000000000

/* ---- ports ----------------------------------------------------------------------------------- */

struct port_list {
	struct mk_named_port *of;
	size_t count;
};

static int add_port(struct mk_texts *texts, const struct mk_json *item, struct port_list *ports,
		    struct mk_error *err)
{
	struct mk_named_port *more;
	const char *name;
	int64_t number = 0;
	uint8_t proto;
	int ret = tree_text(item, "name", &name, err);

	ret = ret ?: tree_protocol(item, &proto, err);
	ret = ret ?: tree_number(item, "containerPort", 1, UINT16_MAX, &number, err);
	if (ret < 0 || !name || !*name || !number)
		return ret;
	if (ports->count == UINT16_MAX)
		return tree_wrong(item, "at most 65535 ports of a pod", err);
	more = reallocarray(ports->of, ports->count + 1, sizeof(*more));
	if (more)
		ports->of = more;
	name = more ? text_share(texts, name) : NULL;
	if (!name)
		return mk_error_errno(err, ENOMEM, "port of a pod");
	more = &more[ports->count++];
	memset(more, 0, sizeof(*more));
	more->name = name;
	more->proto = proto;
	more->port = (uint16_t)number;
	return 0;
}

static int decode_container(struct mk_texts *texts, const struct mk_json *container,
			    struct port_list *ports, struct mk_error *err)
{
	struct mk_json list, item;
	int ret = tree_member(container, "ports", json_type_array, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: add_port(texts, &item, ports, err);
	}
	return ret;
}

/* Init containers that restart run beside the others; other init containers do not (rule 9). */
static int decode_containers(struct mk_texts *texts, const struct mk_json *spec, const char *key,
			     bool init, struct port_list *ports, struct mk_error *err)
{
	struct mk_json list, item;
	const char *restart = NULL;
	int ret = tree_member(spec, key, json_type_array, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		if (init)
			ret = ret ?: tree_text(&item, "restartPolicy", &restart, err);
		if (ret == 0 && (!init || (restart && strcmp(restart, "Always") == 0)))
			ret = decode_container(texts, &item, ports, err);
	}
	return ret;
}

static int compare_ports(const void *a, const void *b)
{
	const struct mk_named_port *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	if (order == 0)
		order = (int)left->proto - right->proto;
	return order ? order : (int)left->port - right->port;
}

static void sort_ports(struct mk_texts *texts, struct port_list *ports)
{
	size_t kept = 0;

	if (ports->count == 0)
		return;
	qsort(ports->of, ports->count, sizeof(*ports->of), compare_ports);
	for (size_t i = 0; i < ports->count; i++) {
		if (kept > 0 && compare_ports(&ports->of[i], &ports->of[kept - 1]) == 0)
			text_release(texts, ports->of[i].name);
		else
			ports->of[kept++] = ports->of[i];
	}
	ports->count = kept;
}

static int decode_ports(struct mk_texts *texts, const struct mk_json *spec, struct mk_workload *of,
			struct mk_error *err)
{
	struct port_list ports = { 0 };
	int ret = decode_containers(texts, spec, "containers", false, &ports, err);

	ret = ret ?: decode_containers(texts, spec, "initContainers", true, &ports, err);
	sort_ports(texts, &ports);
	of->ports = ports_share(texts, ports.of, ports.count);
	of->port_count = of->ports ? (uint32_t)ports.count : 0;
	free(ports.of);
	if (ret == 0 && of->port_count != ports.count)
		ret = mk_error_errno(err, ENOMEM, "ports of a pod");
	return ret;
}

static int decode_workload(struct mk_texts *texts, const struct mk_json *tree,
			   const struct mk_json *spec, const char *namespace_,
			   struct mk_pod_object *pod, struct mk_error *err)
{
	struct mk_workload of = { .namespace_ = text_share(texts, namespace_) };
	int ret = labels_decode(texts, tree, NULL, &of.labels, err);

	ret = ret ?: decode_ports(texts, spec, &of, err);
	if (ret < 0) {
		workload_drop(texts, &of);
		return ret;
	}
	pod->of = of.namespace_ ? workload_share(texts, &of) : NULL;
	return pod->of ? 0 : mk_error_errno(err, ENOMEM, "workload of a pod");
}

/* ---- the pod --------------------------------------------------------------------------------- */

static int decode_times(const struct mk_json *metadata, const struct mk_json *status,
			struct mk_pod_object *pod, struct mk_error *err)
{
	const char *text, *deleted;
	int64_t unix_ns = 0;
	int ret = tree_text(metadata, "deletionTimestamp", &deleted, err);

	ret = ret ?: tree_text(status, "startTime", &text, err);
	if (ret == 0 && (!text || !*text))
		ret = tree_text(metadata, "creationTimestamp", &text, err);
	if (ret < 0)
		return ret;
	pod->terminating = deleted && *deleted;
	if (text && mk_time_parse(text, &unix_ns) == 0 && unix_ns > 0)
		pod->started_unix_s = (uint32_t)(unix_ns / NS_PER_S);
	return 0;
}

/* A static pod has another UID in the API than at its node. */
static int decode_uids(const struct mk_json *metadata, const char **uid, const char **object_uid,
		       struct mk_error *err)
{
	struct mk_json annotations;
	int ret = tree_member(metadata, "annotations", json_type_object, &annotations, err);

	ret = ret ?: tree_text(&annotations, ANNOTATION_STATIC, uid, err);
	ret = ret ?: tree_text(metadata, "uid", object_uid, err);
	if (ret < 0)
		return ret;
	*object_uid = *object_uid ?: "";
	if (!*uid || !**uid)
		*uid = *object_uid;
	return 0;
}

static struct mk_pod_bound *bound_new(const char *uid, const char *object_uid)
{
	size_t length = strlen(uid) + 1;
	struct mk_pod_bound *bound = calloc(1, sizeof(*bound) + length + strlen(object_uid) + 1);

	if (!bound)
		return NULL;
	strcpy(bound->uid, uid);
	bound->object_uid = strcpy(bound->uid + length, object_uid);
	return bound;
}

static int decode_bound(struct mk_texts *texts, const struct mk_json *metadata,
			const struct mk_json *spec, struct mk_pod_object *pod, struct mk_error *err)
{
	const char *uid = NULL, *object_uid = NULL, *node = NULL;
	int ret = decode_uids(metadata, &uid, &object_uid, err);

	ret = ret ?: tree_text(spec, "nodeName", &node, err);
	if (ret < 0)
		return ret;
	pod->bound = bound_new(uid, object_uid);
	if (!pod->bound)
		return mk_error_errno(err, ENOMEM, "UID of a pod");
	if (!node || !*node)
		return 0;
	pod->bound->node_name = text_share(texts, node);
	return pod->bound->node_name ? 0 : mk_error_errno(err, ENOMEM, "node of a pod");
}

void pod_unbind(struct mk_texts *texts, struct mk_pod_object *pod)
{
	text_release(texts, mk_pod_node(pod));
	free(pod->bound);
	pod->bound = NULL;
}

static int add_ip(const struct mk_json *parent, const char *key, struct mk_pod_object *pod,
		  struct mk_error *err)
{
	struct mk_json at;
	struct mk_ip ip;
	int ret = tree_member(parent, key, json_type_string, &at, err);

	if (ret < 0 || !at.value || !*mk_json_string(&at))
		return ret;
	ret = tree_ip(&at, &ip, err);
	if (ret < 0)
		return ret;
	if (mk_pod_ip(pod, mk_family_index(ip.family)).family != AF_UNSPEC)
		return 0;
	if (ip.family == AF_INET)
		pod->ip4 = ip.v4;
	else
		pod->ip6 = ip.v6;
	return 0;
}

static int decode_ips(const struct mk_json *status, struct mk_pod_object *pod, struct mk_error *err)
{
	struct mk_json list, item;
	int ret = tree_member(status, "podIPs", json_type_array, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: add_ip(&item, "ip", pod, err);
	}
	if (ret == 0 && tree_length(&list) == 0)
		ret = add_ip(status, "podIP", pod, err);
	return ret;
}

/* ---- replicas of functions ------------------------------------------------------------------- */

const char *pod_function(const struct mk_pod_object *pod)
{
	const struct mk_labels *labels = &pod->of->labels;

	for (size_t i = 0; i < labels->count; i++)
		if (strcmp(labels->of[i].key, MK_FUNCTION_LABEL) == 0)
			return labels->of[i].value;
	return NULL;
}

static int decode_ready(const struct mk_json *status, struct mk_pod_object *pod,
			struct mk_error *err)
{
	struct mk_json list, item;
	const char *type = NULL, *state = NULL;
	int ret = tree_member(status, "conditions", json_type_array, &list, err);

	for (size_t i = 0; ret == 0 && i < tree_length(&list); i++) {
		ret = tree_item(&list, i, json_type_object, &item, err);
		ret = ret ?: tree_text(&item, "type", &type, err);
		ret = ret ?: tree_text(&item, "status", &state, err);
		if (ret == 0 && type && strcmp(type, "Ready") == 0)
			pod->ready = state && strcmp(state, "True") == 0;
	}
	return ret;
}

/* A wrong weight must not keep the Pod's other changes back. */
static int decode_annotations(const struct mk_json *metadata, struct mk_pod_object *pod,
			      struct mk_error *err)
{
	const char *ports, *multus, *weight;
	struct mk_json annotations;
	unsigned long number;
	int ret = tree_member(metadata, "annotations", json_type_object, &annotations, err);

	ret = ret ?: tree_text(&annotations, MK_FUNCTION_PORTS_ANNOTATION, &ports, err);
	ret = ret ?: tree_text(&annotations, MK_MULTUS_ANNOTATION, &multus, err);
	ret = ret ?: tree_text(&annotations, MK_FUNCTION_WEIGHT_ANNOTATION, &weight, err);
	if (ret < 0)
		return ret;
	pod->asks_for_ports = (ports && *ports) || (multus && *multus);
	pod->is_tap = ports && strcmp(ports, MK_FUNCTION_PORTS_TAP) == 0;
	pod->is_end = ports && strcmp(ports, MK_FUNCTION_PORTS_END) == 0;
	pod->weight = MK_FUNCTION_WEIGHT;
	if (!weight)
		return 0;
	number = strspn(weight, "0123456789") == strlen(weight) && *weight
			 ? strtoul(weight, NULL, 10)
			 : MK_FUNCTION_WEIGHT_WRONG;
	pod->weight = number <= MK_FUNCTION_WEIGHT_MAX ? (uint8_t)number : MK_FUNCTION_WEIGHT_WRONG;
	return 0;
}

/* Only of function pods: the readiness of other Pods must not look like a change. */
static int decode_function(const struct mk_json *metadata, const struct mk_json *status,
			   struct mk_pod_object *pod, struct mk_error *err)
{
	if (!pod_function(pod))
		return 0;
	return decode_ready(status, pod, err) ?: decode_annotations(metadata, pod, err);
}

int pod_decode(struct mk_texts *texts, const struct mk_json *tree, const struct mk_object_id *id,
	       union policy_object *object, struct mk_error *err)
{
	struct mk_pod_object *pod = &object->pod;
	struct mk_json metadata, spec, status;
	bool host_network = false;
	const char *phase = NULL;
	int ret = tree_member(tree, "metadata", json_type_object, &metadata, err);

	ret = ret ?: tree_member(tree, "spec", json_type_object, &spec, err);
	ret = ret ?: tree_member(tree, "status", json_type_object, &status, err);
	ret = ret ?: decode_workload(texts, tree, &spec, id->namespace_, pod, err);
	ret = ret ?: decode_bound(texts, &metadata, &spec, pod, err);
	ret = ret ?: decode_times(&metadata, &status, pod, err);
	ret = ret ?: tree_bool(&spec, "hostNetwork", &host_network, err);
	pod->host_network = host_network;
	ret = ret ?: decode_ips(&status, pod, err);
	ret = ret ?: decode_function(&metadata, &status, pod, err);
	ret = ret ?: tree_text(&status, "phase", &phase, err);
	pod->finished = phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0);
	return ret;
}

static bool is_bound_alike(const struct mk_pod_object *a, const struct mk_pod_object *b)
{
	if (!a->bound || !b->bound)
		return !a->bound && !b->bound;
	return strcmp(a->bound->uid, b->bound->uid) == 0 &&
	       strcmp(a->bound->object_uid, b->bound->object_uid) == 0 &&
	       a->bound->node_name == b->bound->node_name;
}

bool pod_equal(const union policy_object *a, const union policy_object *b)
{
	const struct mk_pod_object *left = &a->pod, *right = &b->pod;

	return left->of == right->of && is_bound_alike(left, right) &&
	       left->ip4.s_addr == right->ip4.s_addr &&
	       memcmp(&left->ip6, &right->ip6, sizeof(left->ip6)) == 0 &&
	       left->started_unix_s == right->started_unix_s &&
	       left->host_network == right->host_network && left->finished == right->finished &&
	       left->terminating == right->terminating && left->ready == right->ready &&
	       left->asks_for_ports == right->asks_for_ports && left->is_tap == right->is_tap &&
	       left->is_end == right->is_end && left->weight == right->weight;
}

void pod_release(struct mk_texts *texts, union policy_object *object)
{
	struct mk_pod_object *pod = &object->pod;

	workload_release(texts, pod->of);
	pod_unbind(texts, pod);
}

/* ---- namespaces ------------------------------------------------------------------------------ */

/* A cluster's Namespaces have a label with their name; a file may lack it. */
int namespace_decode(struct mk_texts *texts, const struct mk_json *tree,
		     const struct mk_object_id *id, union policy_object *object,
		     struct mk_error *err)
{
	const struct mk_object_label name = { LABEL_NAME, id->name };

	return labels_decode(texts, tree, &name, &object->namespace_.labels, err);
}

bool namespace_equal(const union policy_object *a, const union policy_object *b)
{
	return labels_equal(&a->namespace_.labels, &b->namespace_.labels);
}

void namespace_release(struct mk_texts *texts, union policy_object *object)
{
	labels_release(texts, &object->namespace_.labels);
}

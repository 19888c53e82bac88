// SPDX-License-Identifier: Apache-2.0
/* Compare the cluster's policies with its pods: policies that select no pod, ports that no selected
 * pod declares, objects of an API that monokube does not read. These may be intended: notes. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/check/check.h"
#include "cluster/model/model.h"
#include "cluster/watch/resource.h"

#define NOTES_MAX    50
#define GROUP	     "policy.networking.k8s.io/"
#define FORMER_NAMES 5

struct container_port {
	uint8_t proto;
	uint16_t number;
};

/* The ports that a Pod declares, also those without a name, which the model does not have. */
struct pod_ports {
	UT_hash_handle hh;
	struct container_port *of;
	size_t count;
	char key[2 * MK_OBJECT_NAME_SIZE];
};

struct objects {
	struct mk_checking *checking;
	struct mk_model *model;
	struct pod_ports *ports;
	const struct mk_pod_object **pods; /* by namespace */
	size_t pod_count;
	const struct mk_pod_object **selected; /* by the policy that is looked at */
	size_t selected_count;
	char policy[2 * MK_OBJECT_NAME_SIZE]; /* ... and its name */
	unsigned int notes, former;
	char former_names[512];
};

/* ---- reading --------------------------------------------------------------------------------- */

static void add_port(struct pod_ports *ports, json_object *port)
{
	const char *protocol = mk_json_text(port, "protocol");
	struct container_port *added = mk_append(ports->of, ports->count);

	if (!added)
		return;
	*added = (struct container_port){
		.proto = strcmp(protocol, "UDP") == 0	 ? IPPROTO_UDP
			 : strcmp(protocol, "SCTP") == 0 ? IPPROTO_SCTP
							 : IPPROTO_TCP,
		.number = (uint16_t)json_object_get_int(mk_json_member(port, "containerPort")),
	};
}

static void add_containers(struct pod_ports *ports, json_object *containers)
{
	for (size_t i = 0; i < mk_json_length(containers); i++) {
		json_object *list =
			mk_json_member(json_object_array_get_idx(containers, i), "ports");

		for (size_t j = 0; j < mk_json_length(list); j++)
			add_port(ports, json_object_array_get_idx(list, j));
	}
}

static struct pod_ports *ports_of(const struct objects *objects, const char *namespace_,
				  const char *name)
{
	char key[2 * MK_OBJECT_NAME_SIZE];
	struct pod_ports *ports;

	snprintf(key, sizeof(key), "%s/%s", namespace_, name);
	HASH_FIND_STR(objects->ports, key, ports);
	return ports;
}

static void see_pod(struct objects *objects, json_object *tree)
{
	json_object *metadata = mk_json_member(tree, "metadata"),
		    *spec = mk_json_member(tree, "spec");
	const char *name = mk_json_text(metadata, "name"),
		   *namespace_ = mk_json_text(metadata, "namespace");
	struct pod_ports *ports;

	namespace_ = *namespace_ ? namespace_ : "default";
	if (ports_of(objects, namespace_, name))
		return;
	ports = calloc(1, sizeof(*ports));
	if (!ports)
		return;
	snprintf(ports->key, sizeof(ports->key), "%s/%s", namespace_, name);
	add_containers(ports, mk_json_member(spec, "containers"));
	add_containers(ports, mk_json_member(spec, "initContainers"));
	HASH_ADD_STR(objects->ports, key, ports);
}

static void see_former(struct objects *objects, json_object *tree)
{
	size_t used = strlen(objects->former_names);

	if (objects->former++ < FORMER_NAMES)
		snprintf(objects->former_names + used, sizeof(objects->former_names) - used,
			 "%s%s %s", used ? ", " : "", mk_json_text(tree, "kind"),
			 mk_json_text(mk_json_member(tree, "metadata"), "name"));
}

/* The agent has logged and counted objects that the model refuses. */
static void see(void *ctx, json_object *tree)
{
	struct objects *objects = ctx;

	if (strcmp(mk_json_text(tree, "apiVersion"), GROUP "v1alpha1") == 0)
		see_former(objects, tree);
	else if (mk_model_apply(objects->model, tree, NULL) == 0 &&
		 strcmp(mk_json_text(tree, "kind"), "Pod") == 0)
		see_pod(objects, tree);
}

/* ---- notes ----------------------------------------------------------------------------------- */

#define note(objects, remedy, ...)                                                        \
	do {                                                                              \
		if ((objects)->notes++ < NOTES_MAX)                                       \
			check_note((objects)->checking, "policies", remedy, __VA_ARGS__); \
	} while (0)

static void note_former(struct objects *objects)
{
	if (objects->former)
		note(objects, "write them again as ClusterNetworkPolicies, and remove them",
		     "%s%s: not enforced, because monokube does not read " GROUP "v1alpha1",
		     objects->former_names, objects->former > FORMER_NAMES ? " and others" : "");
}

/* ---- ports ----------------------------------------------------------------------------------- */

static bool has_name(const struct objects *objects, const struct mk_policy_port_object *port)
{
	for (size_t i = 0; i < objects->selected_count; i++) {
		const struct mk_workload *of = objects->selected[i]->of;

		for (size_t j = 0; j < of->port_count; j++)
			if (strcmp(of->ports[j].name, port->name) == 0 &&
			    (port->proto == MK_PROTO_ANY || port->proto == of->ports[j].proto))
				return true;
	}
	return false;
}

/* Pods that declare nothing say nothing about their ports. */
static bool has_number(const struct objects *objects, const struct mk_policy_port_object *port)
{
	bool some = false;

	for (size_t i = 0; i < objects->selected_count; i++) {
		const struct mk_pod_object *pod = objects->selected[i];
		const struct pod_ports *ports = ports_of(objects, pod->of->namespace_, pod->name);

		for (size_t j = 0; ports && j < ports->count; j++) {
			some = true;
			if (ports->of[j].proto == port->proto &&
			    ports->of[j].number >= port->first && ports->of[j].number <= port->last)
				return true;
		}
	}
	return !some;
}

static const char *protocol_of(const struct mk_policy_port_object *port)
{
	return port->proto == IPPROTO_UDP    ? "UDP "
	       : port->proto == IPPROTO_SCTP ? "SCTP "
	       : port->proto == IPPROTO_TCP  ? "TCP "
					     : "";
}

static void compare_port(struct objects *objects, size_t rule,
			 const struct mk_policy_port_object *port)
{
	char last[8] = "";

	if (!port->valid || (!port->name && port->first <= 1 && port->last == UINT16_MAX))
		return;
	if (port->name && !has_name(objects, port))
		note(objects,
		     "declare the name in a container, or use the number: the entry matches nothing",
		     "%s: ingress rule %zu: no selected pod calls a port %s'%s'", objects->policy,
		     rule + 1, protocol_of(port), port->name);
	if (port->name || has_number(objects, port))
		return;
	if (port->last != port->first)
		snprintf(last, sizeof(last), "-%u", port->last);
	note(objects, "nothing, if a pod listens there: a number matches without a declaration",
	     "%s: ingress rule %zu: no selected pod declares port %s%u%s", objects->policy,
	     rule + 1, protocol_of(port), port->first, last);
}

/* The ports of egress rules are those of peers. */
static void compare_ports(struct objects *objects, const struct mk_policy_rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		for (size_t j = 0; j < rules->of[i].port_count; j++)
			compare_port(objects, i, &rules->of[i].ports[j]);
}

/* ---- policies -------------------------------------------------------------------------------- */

static int by_namespace(const void *a, const void *b)
{
	const struct mk_pod_object *const *left = a, *const *right = b;

	return strcmp((*left)->of->namespace_, (*right)->of->namespace_);
}

static size_t first_of(const struct objects *objects, const char *namespace_)
{
	size_t low = 0, high = objects->pod_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(objects->pods[middle]->of->namespace_, namespace_) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void judge(struct objects *objects, const struct mk_policy_rules *ingress)
{
	if (!objects->selected_count)
		note(objects, "correct its selectors, unless its pods are yet to come",
		     "%s: selects no pod", objects->policy);
	else
		compare_ports(objects, ingress);
}

static void see_network_policy(struct objects *objects, const struct mk_network_policy *policy)
{
	objects->selected_count = 0;
	for (size_t i = first_of(objects, policy->namespace_);
	     i < objects->pod_count &&
	     strcmp(objects->pods[i]->of->namespace_, policy->namespace_) == 0;
	     i++)
		if (mk_selector_matches(&policy->pods, &objects->pods[i]->of->labels))
			objects->selected[objects->selected_count++] = objects->pods[i];
	snprintf(objects->policy, sizeof(objects->policy), "%s/%s", policy->namespace_,
		 policy->name);
	judge(objects, &policy->rules[MK_POLICY_INGRESS]);
}

static void see_cluster_policy(struct objects *objects, const struct mk_cluster_policy *policy)
{
	objects->selected_count = 0;
	for (size_t i = 0; i < objects->pod_count; i++) {
		const struct mk_pod_object *pod = objects->pods[i];
		const struct mk_namespace_object *in =
			mk_model_namespace(objects->model, pod->of->namespace_);

		if (in && mk_selector_matches(&policy->namespaces, &in->labels) &&
		    mk_selector_matches(&policy->pods, &pod->of->labels))
			objects->selected[objects->selected_count++] = pod;
	}
	snprintf(objects->policy, sizeof(objects->policy), "ClusterNetworkPolicy %s", policy->name);
	judge(objects, &policy->rules[MK_POLICY_INGRESS]);
}

static void judge_all(struct objects *objects)
{
	size_t count = mk_model_count(objects->model, MK_KIND_POD);

	objects->pods = calloc(count + 1, sizeof(*objects->pods));
	objects->selected = calloc(count + 1, sizeof(*objects->selected));
	if (!objects->pods || !objects->selected)
		return;
	mk_model_each(struct mk_pod_object, pod, objects->model, MK_KIND_POD)
		if (!pod->host_network && !pod->finished)
			objects->pods[objects->pod_count++] = pod;
	qsort(objects->pods, objects->pod_count, sizeof(*objects->pods), by_namespace);
	mk_model_each(struct mk_network_policy, policy, objects->model, MK_KIND_NETWORK_POLICY)
		see_network_policy(objects, policy);
	mk_model_each(struct mk_cluster_policy, policy, objects->model, MK_KIND_CLUSTER_POLICY)
		see_cluster_policy(objects, policy);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const char *const kept_of_former[] = { "apiVersion",
					      "kind",
					      "metadata.resourceVersion",
					      "metadata.continue",
					      "items",
					      "code",
					      "message",
					      "details",
					      "metadata.name",
					      NULL };

#define FORMER(of, path_of)                                                                       \
	{                                                                                         \
		.name = of, .api_version = GROUP "v1alpha1", .kind = of,                          \
		.path = "/apis/" GROUP "v1alpha1/" path_of, .model_kind = MK_KIND_CLUSTER_POLICY, \
		.optional = true, .custom = true, .kept = kept_of_former                          \
	}

static size_t policies_in(const struct objects *objects)
{
	return mk_model_count(objects->model, MK_KIND_NETWORK_POLICY) +
	       mk_model_count(objects->model, MK_KIND_CLUSTER_POLICY);
}

/* Pods are asked for only if there are policies. */
static int read_all(struct objects *objects, struct mk_error *err)
{
	const struct mk_resource policies[] = {
		*mk_resource(MK_RESOURCE_NETWORK_POLICIES),
		*mk_resource(MK_RESOURCE_CLUSTER_POLICIES),
		FORMER("AdminNetworkPolicy", "adminnetworkpolicies"),
		FORMER("BaselineAdminNetworkPolicy", "baselineadminnetworkpolicies"),
	};
	const struct mk_resource others[] = { *mk_resource(MK_RESOURCE_NAMESPACES),
					      *mk_resource(MK_RESOURCE_PODS) };
	const struct mk_cli_options *options = objects->checking->options;
	int ret = check_read_objects(options, policies, MK_ARRAY_SIZE(policies), see, objects, err);

	if (ret < 0 || !policies_in(objects))
		return ret;
	return check_read_objects(options, others, MK_ARRAY_SIZE(others), see, objects, err);
}

static void release(struct objects *objects)
{
	struct pod_ports *ports, *next;

	HASH_ITER(hh, objects->ports, ports, next) {
		HASH_DEL(objects->ports, ports);
		free(ports->of);
		free(ports);
	}
	free(objects->pods);
	free(objects->selected);
	mk_model_free(objects->model);
}
#define cleanup_objects __attribute__((cleanup(release)))

void check_policy_objects(struct mk_checking *checking)
{
	cleanup_objects struct objects objects = { .checking = checking, .model = mk_model_new() };
	struct mk_error err = { 0 };
	int ret;

	if (!checking->reads_cluster || check_policies_are_off(checking) || !objects.model)
		return;
	mk_log_set_level(MK_LOG_ERROR); /* the agent has logged the rest */
	ret = read_all(&objects, &err);
	mk_log_set_level(MK_LOG_INFO);
	if (ret < 0) {
		check_found(checking, "policies", NULL, "not compared with the cluster's pods: %s",
			    mk_error_text(&err));
		return;
	}
	note_former(&objects);
	judge_all(&objects);
	if (objects.notes > NOTES_MAX)
		check_note(checking, "policies", "correct those above first", "%u further notes",
			   objects.notes - NOTES_MAX);
	else if (!objects.notes && policies_in(&objects))
		check_found(checking, "policies", NULL,
			    "%zu in the cluster; each selects pods, which declare its ports",
			    policies_in(&objects));
}

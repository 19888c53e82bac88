/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/request/conf.h - the input from a runtime: the environment and the network configuration.
 * Pure: no access to the system. */
#ifndef MK_POD_REQUEST_CONF_H
#define MK_POD_REQUEST_CONF_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdbool.h>

#include "base/ip.h"
#include "config/addresses.h"
#include "pod/request/reply.h"

/* The validated environment. */
struct mk_cni_args {
	const char *container_id; /* CNI_CONTAINERID */
	const char *ifname; /* CNI_IFNAME */
	const char *netns; /* CNI_NETNS; "" if neither needed nor set */
};

enum mk_cni_need {
	MK_CNI_NEED_CONTAINER = 1 << 0, /* CNI_CONTAINERID and CNI_IFNAME */
	MK_CNI_NEED_NETNS = 1 << 1,
};

/* Write the pod's "namespace/name" into @name (MK_CNI_POD_NAME_BYTES) and return @name. It comes
 * from @cni_args, which Kubernetes' runtimes set; "" if they do not contain it. */
#define MK_CNI_POD_NAME_BYTES 256 /* the most that an interface's alias can hold */
const char *mk_cni_pod_name(const char *cni_args, char *name);

/* The Pod that a container belongs to, as Kubernetes' runtimes give it; all empty: none. Old
 * runtimes give no UID. */
#define MK_CNI_POD_NAME_PART_BYTES 254 /* of each; the longest name of Kubernetes has 253 */
struct mk_cni_pod {
	char namespace_[MK_CNI_POD_NAME_PART_BYTES];
	char name[MK_CNI_POD_NAME_PART_BYTES];
	char uid[MK_CNI_POD_NAME_PART_BYTES];
};
/* Read it from @cni_args. Names that Kubernetes cannot have count as none. */
void mk_cni_pod_read(struct mk_cni_pod *pod, const char *cni_args);

/* Read the variables that a verb with @needs (enum mk_cni_need) uses. */
mk_must_check int mk_cni_args_read(struct mk_cni_args *args, unsigned int needs,
				   struct mk_cni_failure *failure);

/* The ranges of a family, and the node's addresses. */
struct mk_cni_network {
	struct mk_addresses addresses;
	struct mk_cidr cluster_cidr;
};

/* The strings and JSON objects belong to @root. */
struct mk_cni_conf {
	json_object *root;
	enum mk_cni_version version;
	const char *veth_prefix, *state_dir, *bpf_dir;
	/* set only by mk_cni_conf_read_network() */
	struct mk_cni_network networks[MK_FAMILIES]; /* the primary family first */
	size_t network_count;
	sa_family_t underlay; /* of the overlay's outer header */
	uint32_t mtu_bytes; /* towards other nodes */
	bool is_direct; /* .. which is the uplink's, without the overlay */
	json_object *dns; /* NULL: none */
};

void mk_cni_conf_release(struct mk_cni_conf *conf);
#define cleanup_cni_conf __attribute__((cleanup(mk_cni_conf_release)))

/* Decode @text (@size bytes and a NUL): the JSON, the version, and the directories and prefix
 * that a removing verb needs. These have defaults, so that DEL works with a configuration
 * that ADD refuses. */
mk_must_check int mk_cni_conf_parse(struct mk_cni_conf *conf, const char *text, size_t size,
				    struct mk_cni_failure *failure);
/* Read the rest, for verbs that use a pod's network: address ranges, MTU, dns. */
mk_must_check int mk_cni_conf_read_network(struct mk_cni_conf *conf,
					   struct mk_cni_failure *failure);

/* Fail if the runtime requests a certain address: `IP` or `MAC` in @cni_args, `ips` or `mac` in
 * runtimeConfig. Otherwise it would go unnoticed that the pod has another address than requested.
 * If podman is asked for an address, it also omits the port mappings. */
mk_must_check int mk_cni_conf_no_address_wanted(const struct mk_cni_conf *conf,
						const char *cni_args,
						struct mk_cni_failure *failure);

/* Return prevResult, NULL if there is none. */
json_object *mk_cni_conf_prev_result(const struct mk_cni_conf *conf);
/* Read the list cni.dev/valid-attachments. *@list is an array of objects with both strings, or NULL
 * if the list is empty. */
mk_must_check int mk_cni_conf_attachments(const struct mk_cni_conf *conf, json_object **list,
					  struct mk_cni_failure *failure);

/* Members of the JSON objects that a runtime writes. Runtimes write capability arguments from Go
 * structures without tags: containerd sends `HostPort` where the CNI conventions say `hostPort`.
 * Plugins in Go accept both, because encoding/json ignores case. */

/* Find member @name of @object: the one with exactly this name, else the last one whose name folds
 * to it. Returns false with *@value NULL if there is none, or @object is not an object. */
bool mk_cni_member(json_object *object, const char *name, json_object **value);

/* Return string member @name of @object; NULL: missing, or not a string. */
const char *mk_cni_string(json_object *object, const char *name);

#endif

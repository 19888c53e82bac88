/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/conf.h - what a runtime hands over: the environment and the network configuration.
 * Pure: nothing of the system is touched. */
#ifndef MK_CNI_CONF_H
#define MK_CNI_CONF_H

#include <json-c/json.h>
#include <stddef.h>

#include "base/ip.h"
#include "cni/member.h"
#include "cni/reply.h"
#include "config/addresses.h"

/* The environment, checked. */
struct mk_cni_args {
	const char *container_id; /* CNI_CONTAINERID */
	const char *ifname; /* CNI_IFNAME */
	const char *netns; /* CNI_NETNS; "" where not needed and not given */
};

enum mk_cni_need {
	MK_CNI_NEED_CONTAINER = 1 << 0, /* CNI_CONTAINERID and CNI_IFNAME */
	MK_CNI_NEED_NETNS = 1 << 1,
};

/* "namespace/name" of the pod, from the CNI_ARGS that Kubernetes' runtimes set, into @name of
 * MK_CNI_POD_NAME_BYTES, "" where they do not say; returns @name. */
#define MK_CNI_POD_NAME_BYTES 256 /* what an interface's alias may have */
const char *mk_cni_pod_name(const char *cni_args, char *name);

/* Read the variables that a verb with @needs (enum mk_cni_need) uses. */
mk_must_check int mk_cni_args_read(struct mk_cni_args *args, unsigned int needs,
				   struct mk_cni_failure *failure);

/* The strings and JSON objects belong to @root. */
struct mk_cni_conf {
	json_object *root;
	enum mk_cni_version version;
	const char *veth_prefix, *state_dir, *bpf_dir;
	/* filled by mk_cni_conf_read_network() alone */
	struct mk_addresses addresses;
	struct mk_cidr cluster_cidr;
	uint32_t mtu_bytes; /* of the overlay */
	json_object *dns; /* NULL: none */
};

void mk_cni_conf_release(struct mk_cni_conf *conf);
#define cleanup_cni_conf __attribute__((cleanup(mk_cni_conf_release)))

/* Decode @text (@size bytes and a NUL): JSON, version, and the places a verb needs that only takes away (defaults where
 * not given, so that DEL works with a configuration that ADD would refuse). */
mk_must_check int mk_cni_conf_parse(struct mk_cni_conf *conf, const char *text, size_t size,
				    struct mk_cni_failure *failure);
/* The rest, for verbs that know a pod's network: address ranges, MTU, dns. */
mk_must_check int mk_cni_conf_read_network(struct mk_cni_conf *conf,
					   struct mk_cni_failure *failure);

/* Fails if the runtime asks for an address of its own choice: `IP` or `MAC` in @cni_args, `ips` or
 * `mac` in runtimeConfig. A pod with another address than its user wrote down would go unnoticed.
 * podman, asked for one, also leaves out the port mappings. */
mk_must_check int mk_cni_conf_no_address_wanted(const struct mk_cni_conf *conf,
						const char *cni_args,
						struct mk_cni_failure *failure);

/* prevResult, NULL if there is none. */
json_object *mk_cni_conf_prev_result(const struct mk_cni_conf *conf);
/* The list cni.dev/valid-attachments: an array of objects with both strings, or NULL if empty. */
mk_must_check int mk_cni_conf_attachments(const struct mk_cni_conf *conf, json_object **list,
					  struct mk_cni_failure *failure);

#endif

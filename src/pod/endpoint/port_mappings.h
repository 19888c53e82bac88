/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/port_mappings.h - the capability portMappings: ports of the node that lead to
 * the pod. */
#ifndef MK_POD_ENDPOINT_PORT_MAPPINGS_H
#define MK_POD_ENDPOINT_PORT_MAPPINGS_H

#include "datapath/pods/host_ports.h"
#include "pod/endpoint/endpoint.h"
#include "pod/request/conf.h"

/* Each `to` has a port, but no address and device yet: ADD learns them last. */
struct mk_cni_port_mappings {
	struct mk_host_port_entry *list;
	size_t count;
};

/* Decode runtimeConfig.portMappings; a missing list is empty. Skips entries with hostPort 0, and
 * those whose hostIP is not of a family of the pod, which it logs. An entry without hostIP is for
 * every address of each of its families. Pure. */
mk_must_check int mk_cni_port_mappings_read(struct mk_cni_port_mappings *mappings,
					    const struct mk_cni_conf *conf,
					    struct mk_cni_failure *failure);
void mk_cni_port_mappings_release(struct mk_cni_port_mappings *mappings);
#define cleanup_port_mappings __attribute__((cleanup(mk_cni_port_mappings_release)))

/* Format as text for the pod's address file: "0.0.0.0:8080/tcp=80 ..", or "" if there are none. The
 * caller frees it. NULL: out of memory. */
char *mk_cni_port_mappings_format(const struct mk_cni_port_mappings *mappings);

/* Drop the mappings that already lead to another interface of the same container. A runtime that
 * gives a container two interfaces sends its mappings with both (podman); the first keeps them. */
mk_must_check int mk_cni_port_mappings_leave_own(struct mk_cni_node *node,
						 const struct mk_cni_args *args,
						 struct mk_cni_port_mappings *mappings,
						 struct mk_error *err);
/* Map the ports to the pod with @ips whose veth's host end is @ifindex. Fails if another live pod
 * has one of them. */
mk_must_check int mk_cni_port_mappings_claim(struct mk_cni_node *node,
					     const struct mk_cni_args *args,
					     struct mk_cni_port_mappings *mappings,
					     const struct mk_ip ips[MK_FAMILIES], int ifindex,
					     struct mk_cni_failure *failure);

/* Open the table, once per @node. Returns 1, or 0 if there is no table: the datapath is not loaded,
 * or it was loaded by an older version. */
mk_must_check int mk_cni_host_ports(struct mk_cni_node *node, struct mk_host_ports **ports,
				    struct mk_error *err);

#endif

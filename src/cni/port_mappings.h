/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/port_mappings.h - the capability portMappings: ports of the node that the runtime wants to
 * lead to the pod. */
#ifndef MK_CNI_PORT_MAPPINGS_H
#define MK_CNI_PORT_MAPPINGS_H

#include "cni/conf.h"
#include "cni/endpoint.h"
#include "datapath/host_ports.h"

/* What each leads to lacks the pod's address and device: ADD knows them last. */
struct mk_cni_port_mappings {
	struct mk_host_port_entry *list;
	size_t count;
};

/* Decode runtimeConfig.portMappings; none is none. Entries with hostPort 0 are passed over, those
 * with an IPv6 hostIP too, which is logged. Pure. */
mk_must_check int mk_cni_port_mappings_read(struct mk_cni_port_mappings *mappings,
					    const struct mk_cni_conf *conf,
					    struct mk_cni_failure *failure);
void mk_cni_port_mappings_release(struct mk_cni_port_mappings *mappings);
#define cleanup_port_mappings __attribute__((cleanup(mk_cni_port_mappings_release)))

/* As text, for the pod's address file: "0.0.0.0:8080/tcp=80 ..", "" for none; the caller frees it. NULL: no
 * memory. */
char *mk_cni_port_mappings_format(const struct mk_cni_port_mappings *mappings);
/* ... and back. -EINVAL: that is none. */
mk_must_check int mk_cni_port_mappings_parse(struct mk_cni_port_mappings *mappings,
					     const char *text, struct mk_error *err);

/* Take those out that lead to another interface of the same container already: a runtime that gives
 * a container two interfaces sends its mappings with both (podman), and the first keeps them. */
mk_must_check int mk_cni_port_mappings_leave_own(struct mk_cni_node *node,
						 const struct mk_cni_args *args,
						 struct mk_cni_port_mappings *mappings,
						 struct mk_error *err);
/* Let them lead to the pod @ip whose veth's host end is @ifindex. Fails if another pod that is alive
 * has one of them. */
mk_must_check int mk_cni_port_mappings_claim(struct mk_cni_node *node,
					     const struct mk_cni_args *args,
					     struct mk_cni_port_mappings *mappings,
					     const struct mk_ip *ip, int ifindex,
					     struct mk_cni_failure *failure);
/* Remove those that lead to the pod @ip (NULL: not known) or its device @ifindex (0: not known). */
mk_must_check int mk_cni_port_mappings_remove(struct mk_cni_node *node, const struct mk_ip *ip,
					      int ifindex, struct mk_error *err);
/* Remove those whose pod is gone. */
mk_must_check int mk_cni_port_mappings_sweep(struct mk_cni_node *node, struct mk_error *err);

/* Is the pod there that an entry leads to? 1, 0 or an error. Its device has to be, and @pod, what map pods has of
 * the address, to say so too; NULL: nothing, which somebody removed, as DEL removes host ports before the
 * device, and what is in the map later. */
mk_must_check int mk_cni_host_port_is_alive(struct mk_nl *nl, const struct mk_pod *pod,
					    const struct mk_host_port *to, struct mk_error *err);

/* Open the table once per node. Returns 1, or 0 with none there: the datapath is not loaded, or by a
 * version without it. */
mk_must_check int mk_cni_host_ports(struct mk_cni_node *node, struct mk_host_ports **ports,
				    struct mk_error *err);

#endif

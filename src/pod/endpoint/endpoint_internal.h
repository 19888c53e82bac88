/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/endpoint_internal.h - functions that only this folder uses. */
#ifndef MK_POD_ENDPOINT_ENDPOINT_INTERNAL_H
#define MK_POD_ENDPOINT_ENDPOINT_INTERNAL_H

#include "pod/endpoint/endpoint.h"
#include "pod/endpoint/port_mappings.h"

/* Could @name be the result of mk_cni_host_name() with this prefix? */
bool cni_is_host_name(const char *prefix, const char *name);

/* Parse that text. -EINVAL: invalid text. */
mk_must_check int cni_port_mappings_parse(struct mk_cni_port_mappings *mappings, const char *text,
					  struct mk_error *err);

/* Let the entry lead to the pod's address of its family. Returns false if the pod has none. */
bool cni_port_mapping_lead(struct mk_host_port_entry *entry, const struct mk_ip ips[MK_FAMILIES],
			   int ifindex);

/* Remove the host ports of the pod @ip (NULL: unknown) or of its device @ifindex (0: unknown). */
mk_must_check int cni_port_mappings_remove(struct mk_cni_node *node, const struct mk_ip *ip,
					   int ifindex, struct mk_error *err);

/* Remove host ports whose pod is gone. */
mk_must_check int cni_port_mappings_sweep(struct mk_cni_node *node, struct mk_error *err);

/* Does the pod that @to leads to exist? Returns 1, 0 or an error. Its device must exist, and @pod,
 * the address's entry in map pods, must name that device. If @pod is NULL, the map has no entry,
 * and the device is sufficient. DEL is not the cause, because it removes host ports first. */
mk_must_check int cni_host_port_is_alive(struct mk_nl *nl, const struct mk_pod *pod,
					 const struct mk_host_port *to, struct mk_error *err);

#endif

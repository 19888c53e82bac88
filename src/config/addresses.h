/* SPDX-License-Identifier: Apache-2.0 */
/* src/config/addresses.h - the addresses of a node, computed from its pod CIDR and never
 * negotiated: every node computes those of all others. Pure. */
#ifndef MK_CONFIG_ADDRESSES_H
#define MK_CONFIG_ADDRESSES_H

#include "base/error.h"
#include "base/ip.h"

/* For pod CIDR 10.244.1.0/24, cluster CIDR 10.244.0.0/16, VTEP CIDR 10.18.0.0/16: */
struct mk_addresses {
	struct mk_cidr pod_cidr; /* 10.244.1.0/24 */
	struct mk_ip virtual_pod; /* 10.244.1.1 */
	struct mk_ip first_pod, last_pod; /* 10.244.1.2 to 10.244.1.253 */
	struct mk_ip gateway; /* 10.244.1.254 */
	struct mk_mac gateway_mac;
	struct mk_ip vtep; /* 10.18.0.1 */
	struct mk_mac vtep_mac;
};

/* Compute the addresses. The VTEP address ends with the bits of the pod CIDR between the cluster's
 * prefix and its own. Errors: a pod CIDR outside the cluster CIDR or too small for a pod (prefix
 * over /29); a VTEP CIDR too small for the node's bits. */
mk_must_check int mk_addresses_compute(const struct mk_cidr *cluster_cidr,
				       const struct mk_cidr *vtep_cidr,
				       const struct mk_cidr *pod_cidr, struct mk_addresses *out,
				       struct mk_error *err);

#endif

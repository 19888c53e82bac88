/* SPDX-License-Identifier: Apache-2.0 */
/* src/config/addresses.h - the addresses of a node, computed from its pod CIDR and never
 * negotiated: every node computes those of all others. Pure. */
#ifndef MK_CONFIG_ADDRESSES_H
#define MK_CONFIG_ADDRESSES_H

#include <stdbool.h>

#include "base/error.h"
#include "base/ip.h"

/* For pod CIDR 10.244.1.0/24, cluster CIDR 10.244.0.0/16, VTEP CIDR 10.18.0.0/16. A node uses the
 * first 1,024 addresses of an IPv6 pod CIDR: of fd00:10:244:1::/64, pods have ::2 to ::3fd, and the
 * gateway has ::3fe. */
struct mk_addresses {
	struct mk_cidr pod_cidr; /* 10.244.1.0/24 */
	struct mk_ip virtual_pod; /* 10.244.1.1 */
	struct mk_ip first_pod, last_pod; /* 10.244.1.2 to 10.244.1.253 */
	uint32_t pod_count; /* 252 */
	struct mk_ip gateway; /* 10.244.1.254 */
	struct mk_mac gateway_mac;
	struct mk_ip vtep; /* 10.18.0.1 */
	struct mk_mac vtep_mac;
};

/* Compute the addresses of the ranges' family. The VTEP address ends with the bits of the pod CIDR
 * between the cluster's prefix and its own: the node's bits. Errors: ranges of two families; a pod
 * CIDR outside the cluster CIDR, or with a prefix outside /1 to /29 (IPv6: /16 to /125); more than
 * 32 node's bits, or none for IPv6; a VTEP CIDR too small for them. */
mk_must_check int mk_addresses_compute(const struct mk_cidr *cluster_cidr,
				       const struct mk_cidr *vtep_cidr,
				       const struct mk_cidr *pod_cidr, struct mk_addresses *out,
				       struct mk_error *err);

/* Give a node's second family the MAC addresses of the primary one: a device has one. */
void mk_addresses_share_macs(struct mk_addresses *second, const struct mk_addresses *primary);

/* A setting that can decide by itself. */
enum mk_choice { MK_AUTO, MK_TRUE, MK_FALSE };

/* Is IPv6 traffic that leaves the cluster from @pod_cidr masqueraded? Pods with public addresses
 * need no NAT, and those with private ones have no internet without it. @reason: why, static. */
bool mk_masquerade_ipv6(enum mk_choice setting, const struct mk_cidr *pod_cidr,
			const char **reason);

#endif

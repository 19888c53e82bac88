// SPDX-License-Identifier: Apache-2.0
#include "config/addresses.h"

#include <arpa/inet.h>

#include "monokube/abi.h"

/* Network, virtual pod, one pod, gateway and broadcast need five addresses, so at least eight. */
#define POD_CIDR_PREFIX_MAX_BITS 29

static int check(const struct mk_cidr *cluster_cidr, const struct mk_cidr *vtep_cidr,
		 const struct mk_cidr *pod_cidr, struct mk_error *err)
{
	unsigned node_bits = (unsigned)pod_cidr->prefix_bits - cluster_cidr->prefix_bits;
	char cluster[MK_CIDR_STRLEN], vtep[MK_CIDR_STRLEN], pod[MK_CIDR_STRLEN];

	mk_cidr_format(cluster_cidr, cluster);
	mk_cidr_format(vtep_cidr, vtep);
	mk_cidr_format(pod_cidr, pod);
	if (pod_cidr->ip.family != AF_INET || cluster_cidr->ip.family != AF_INET ||
	    vtep_cidr->ip.family != AF_INET)
		return mk_error_set(
			err, EAFNOSUPPORT,
			"pod CIDR '%s', cluster CIDR '%s', VTEP CIDR '%s': expected IPv4", pod,
			cluster, vtep);
	if (!mk_cidr_covers(cluster_cidr, pod_cidr))
		return mk_error_set(
			err, EINVAL,
			"pod CIDR '%s' is not inside the cluster CIDR '%s': set clusterCidr to the range the cluster gives its nodes",
			pod, cluster);
	if (pod_cidr->prefix_bits == 0)
		return mk_error_set(err, EINVAL, "pod CIDR '%s' is the whole address space", pod);
	if (pod_cidr->prefix_bits > POD_CIDR_PREFIX_MAX_BITS)
		return mk_error_set(
			err, EINVAL,
			"pod CIDR '%s' is too small for a pod: expected a prefix of at most %d",
			pod, POD_CIDR_PREFIX_MAX_BITS);
	if (node_bits > 32u - vtep_cidr->prefix_bits)
		return mk_error_set(
			err, EINVAL,
			"VTEP CIDR '%s' is too small: the %u bits of pod CIDR '%s' that identify the node need a prefix of at most %u",
			vtep, node_bits, pod, 32 - node_bits);
	return 0;
}

/* The first and the last node of a cluster get the first and the last address of the VTEP CIDR.
 * This is correct: VTEP addresses are /32, so none is a network or broadcast address. */
static struct mk_ip vtep_of(const struct mk_cidr *cluster_cidr, const struct mk_cidr *vtep_cidr,
			    const struct mk_cidr *pod_cidr)
{
	struct mk_cidr cluster = mk_cidr_network(cluster_cidr);
	struct mk_cidr pod = mk_cidr_network(pod_cidr);
	uint32_t offset = ntohl(pod.ip.v4.s_addr) - ntohl(cluster.ip.v4.s_addr);

	return mk_cidr_nth(vtep_cidr, offset >> (32 - pod_cidr->prefix_bits));
}

/* Every pod needs its own slot in map pods. */
static uint32_t last_pod(uint32_t size)
{
	return size - 3 < MK_POD_SLOTS_MAX ? size - 3 : MK_POD_SLOTS_MAX - 1;
}

int mk_addresses_compute(const struct mk_cidr *cluster_cidr, const struct mk_cidr *vtep_cidr,
			 const struct mk_cidr *pod_cidr, struct mk_addresses *out,
			 struct mk_error *err)
{
	int ret = check(cluster_cidr, vtep_cidr, pod_cidr, err);
	uint32_t size;

	if (ret < 0)
		return ret;
	size = mk_cidr_size(pod_cidr);
	*out = (struct mk_addresses){
		.pod_cidr = mk_cidr_network(pod_cidr),
		.virtual_pod = mk_cidr_nth(pod_cidr, 1),
		.first_pod = mk_cidr_nth(pod_cidr, 2),
		.last_pod = mk_cidr_nth(pod_cidr, last_pod(size)),
		.gateway = mk_cidr_nth(pod_cidr, size - 2),
		.vtep = vtep_of(cluster_cidr, vtep_cidr, pod_cidr),
	};
	out->gateway_mac = mk_mac_of_ip(&out->gateway);
	out->vtep_mac = mk_mac_of_ip(&out->vtep);
	return 0;
}

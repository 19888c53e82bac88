// SPDX-License-Identifier: Apache-2.0
#include "config/addresses.h"

#include "monokube/abi.h"

/* An IPv6 node uses as many of its addresses; an IPv4 node uses all. */
#define IPV6_SLOTS    1024
#define NODE_BITS_MAX 32

/* Network, virtual pod, one pod, gateway and broadcast need five addresses, so at least eight. */
static const struct limits {
	unsigned prefix_min, prefix_max, node_bits_min;
} ipv4_limits = { 1, 29, 0 }, ipv6_limits = { 16, 125, 1 };

static int check_families(const struct mk_cidr *cluster_cidr, const struct mk_cidr *vtep_cidr,
			  const struct mk_cidr *pod_cidr, struct mk_error *err)
{
	char cluster[MK_CIDR_STRLEN], vtep[MK_CIDR_STRLEN], pod[MK_CIDR_STRLEN];
	sa_family_t family = pod_cidr->ip.family;

	if (cluster_cidr->ip.family == family && vtep_cidr->ip.family == family)
		return 0;
	return mk_error_set(
		err, EAFNOSUPPORT,
		"pod CIDR '%s', cluster CIDR '%s', VTEP CIDR '%s': expected ranges of one family",
		mk_cidr_format(pod_cidr, pod), mk_cidr_format(cluster_cidr, cluster),
		mk_cidr_format(vtep_cidr, vtep));
}

/* @pod_cidr is inside @cluster_cidr. */
static int check_prefixes(const struct mk_cidr *cluster_cidr, const struct mk_cidr *pod_cidr,
			  struct mk_error *err)
{
	const struct limits *limits = pod_cidr->ip.family == AF_INET ? &ipv4_limits : &ipv6_limits;
	unsigned prefix = pod_cidr->prefix_bits, node_bits = prefix - cluster_cidr->prefix_bits;
	char cluster[MK_CIDR_STRLEN], pod[MK_CIDR_STRLEN];

	mk_cidr_format(cluster_cidr, cluster);
	mk_cidr_format(pod_cidr, pod);
	if (prefix < limits->prefix_min || prefix > limits->prefix_max)
		return mk_error_set(err, EINVAL,
				    "pod CIDR '%s' is too %s: expected a prefix from %u to %u", pod,
				    prefix < limits->prefix_min ? "large" : "small for a pod",
				    limits->prefix_min, limits->prefix_max);
	if (node_bits < limits->node_bits_min || node_bits > NODE_BITS_MAX)
		return mk_error_set(
			err, EINVAL,
			"%u bits of pod CIDR '%s' identify the node in cluster CIDR '%s': expected from %u to %u",
			node_bits, pod, cluster, limits->node_bits_min, NODE_BITS_MAX);
	return 0;
}

static int check(const struct mk_cidr *cluster_cidr, const struct mk_cidr *vtep_cidr,
		 const struct mk_cidr *pod_cidr, struct mk_error *err)
{
	unsigned node_bits = (unsigned)pod_cidr->prefix_bits - cluster_cidr->prefix_bits;
	unsigned bits = mk_ip_bits(pod_cidr->ip.family);
	char range[MK_CIDR_STRLEN], pod[MK_CIDR_STRLEN];
	int ret = check_families(cluster_cidr, vtep_cidr, pod_cidr, err);

	mk_cidr_format(pod_cidr, pod);
	if (ret == 0 && !mk_cidr_covers(cluster_cidr, pod_cidr))
		return mk_error_set(
			err, EINVAL,
			"pod CIDR '%s' is not inside the cluster CIDR '%s': set clusterCidr to the range the cluster gives its nodes",
			pod, mk_cidr_format(cluster_cidr, range));
	ret = ret ?: check_prefixes(cluster_cidr, pod_cidr, err);
	if (ret == 0 && vtep_cidr->prefix_bits + node_bits > bits)
		return mk_error_set(
			err, EINVAL,
			"VTEP CIDR '%s' is too small: the %u bits of pod CIDR '%s' that identify the node need a prefix of at most %u",
			mk_cidr_format(vtep_cidr, range), node_bits, pod, bits - node_bits);
	return ret;
}

/* Return the number of the node: the bits of its pod CIDR after the cluster's prefix. */
static uint32_t node_number(const struct mk_cidr *cluster_cidr, const struct mk_cidr *pod_cidr)
{
	const uint8_t *bytes = (const uint8_t *)&pod_cidr->ip.v6;
	uint32_t number = 0;

	for (unsigned bit = cluster_cidr->prefix_bits; bit < pod_cidr->prefix_bits; bit++)
		number = number << 1 | (bytes[bit / 8] >> (7 - bit % 8) & 1);
	return number;
}

/* Return how many addresses of its pod CIDR a node uses. */
static uint32_t slots_of(const struct mk_cidr *pod_cidr)
{
	uint32_t size = mk_cidr_size(pod_cidr);

	return pod_cidr->ip.family == AF_INET6 && size > IPV6_SLOTS ? IPV6_SLOTS : size;
}

/* Every pod needs its own slot in map pods. */
static uint32_t last_pod(uint32_t slots)
{
	return slots - 3 < MK_POD_SLOTS_MAX_IPV4 ? slots - 3 : MK_POD_SLOTS_MAX_IPV4 - 1;
}

/* The first and the last node of a cluster get the first and the last address of the VTEP CIDR.
 * This is correct: VTEP addresses have no network, so none is a network or broadcast address. */
int mk_addresses_compute(const struct mk_cidr *cluster_cidr, const struct mk_cidr *vtep_cidr,
			 const struct mk_cidr *pod_cidr, struct mk_addresses *out,
			 struct mk_error *err)
{
	int ret = check(cluster_cidr, vtep_cidr, pod_cidr, err);
	uint32_t slots;

	if (ret < 0)
		return ret;
	slots = slots_of(pod_cidr);
	*out = (struct mk_addresses){
		.pod_cidr = mk_cidr_network(pod_cidr),
		.virtual_pod = mk_cidr_nth(pod_cidr, 1),
		.first_pod = mk_cidr_nth(pod_cidr, 2),
		.last_pod = mk_cidr_nth(pod_cidr, last_pod(slots)),
		.gateway = mk_cidr_nth(pod_cidr, slots - 2),
		.vtep = mk_cidr_nth(vtep_cidr, node_number(cluster_cidr, pod_cidr)),
	};
	out->pod_count = last_pod(slots) - 1;
	out->gateway_mac = mk_mac_of_ip(&out->gateway);
	out->vtep_mac = mk_mac_of_ip(&out->vtep);
	return 0;
}

void mk_addresses_share_macs(struct mk_addresses *second, const struct mk_addresses *primary)
{
	second->gateway_mac = primary->gateway_mac;
	second->vtep_mac = primary->vtep_mac;
}

/* Is @range global unicast (RFC 4291), and not for documentation (RFC 3849, RFC 9637)? */
static bool is_public(const struct mk_cidr *range)
{
	static const struct mk_cidr global = { { AF_INET6, .v6.s6_addr = { 0x20 } }, 3 };
	static const struct mk_cidr documentation[] = {
		{ { AF_INET6, .v6.s6_addr = { 0x20, 0x01, 0x0d, 0xb8 } }, 32 },
		{ { AF_INET6, .v6.s6_addr = { 0x3f, 0xff } }, 20 },
	};

	return mk_cidr_covers(&global, range) && !mk_cidr_covers(&documentation[0], range) &&
	       !mk_cidr_covers(&documentation[1], range);
}

bool mk_masquerade_ipv6(enum mk_choice setting, const struct mk_cidr *pod_cidr, const char **reason)
{
	if (setting != MK_AUTO) {
		*reason = setting == MK_TRUE ? "masqueradeIPv6 is true" : "masqueradeIPv6 is false";
		return setting == MK_TRUE;
	}
	if (is_public(pod_cidr)) {
		*reason = "masqueradeIPv6 is auto, and the pod CIDR is public";
		return false;
	}
	*reason = "masqueradeIPv6 is auto, and the pod CIDR is not public";
	return true;
}

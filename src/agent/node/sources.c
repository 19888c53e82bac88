// SPDX-License-Identifier: Apache-2.0
/* Which address of an uplink its masqueraded packets have as their source. */
#include <arpa/inet.h>
#include <linux/if_addr.h>

#include "agent/node/node_internal.h"

static bool is_internal(const struct mk_node_object *object, const struct mk_ip *ip)
{
	return mk_ips_contain(object->internal_ips, MK_FAMILIES, ip);
}

static unsigned int suits_ipv4(const struct mk_node_object *object, const struct mk_ip *ip)
{
	if (is_internal(object, ip))
		return 4;
	if (mk_ips_contain(object->addresses, object->address_count, ip))
		return 3;
	return ntohl(ip->v4.s_addr) >> 16 == 0xa9fe ? 1 : 2; /* 169.254/16: link-local */
}

/* A temporary (privacy) address changes within hours, and sessions would end with it. An address
 * with a lifetime is as good as a permanent one while advertisements or DHCPv6 renew it: it becomes
 * deprecated otherwise. */
static unsigned int suits_ipv6(const struct mk_node_object *object,
			       const struct host_address *address)
{
	const struct in6_addr *ip = &address->addr.ip.v6;

	if (IN6_IS_ADDR_LINKLOCAL(ip) || IN6_IS_ADDR_MULTICAST(ip) || IN6_IS_ADDR_LOOPBACK(ip) ||
	    address->flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED))
		return 0;
	if (is_internal(object, &address->addr.ip))
		return 4;
	if (address->flags & (IFA_F_TEMPORARY | IFA_F_DEPRECATED))
		return 0;
	if (mk_ips_contain(object->addresses, object->address_count, &address->addr.ip))
		return 3;
	return address->flags & IFA_F_PERMANENT ? 2 : 1;
}

/* Is @ip a unique local address (fc00::/7)? */
static bool is_unique_local(const struct mk_ip *ip)
{
	return ip->family == AF_INET6 && (ip->v6.s6_addr[0] & 0xfe) == 0xfc;
}

/* The best address of @uplink that is, or is not, unique local. Family AF_UNSPEC: none. The kernel
 * lists the oldest IPv4 address first, and the oldest IPv6 address last. */
static struct mk_cidr best(const struct host_input *host, int ifindex, sa_family_t family,
			   bool unique_local)
{
	struct mk_cidr chosen = { 0 };
	unsigned int best = 0;

	for (size_t i = 0; i < host->address_count; i++) {
		const struct host_address *address = &host->addresses[i];
		unsigned int rank;

		if (address->ifindex != ifindex || address->addr.ip.family != family ||
		    is_unique_local(&address->addr.ip) != unique_local)
			continue;
		rank = family == AF_INET ? suits_ipv4(host->object, &address->addr.ip)
					 : suits_ipv6(host->object, address);
		if (rank == 0 || rank < best || (rank == best && family == AF_INET))
			continue;
		chosen = address->addr;
		best = rank;
	}
	return chosen;
}

/* An uplink without a suitable address sends from the Node's, as the host does. */
struct mk_own_source choose_sources(const struct host_input *host, int ifindex)
{
	const struct mk_cidr node = { host->object->internal_ips[mk_family_index(host->family)],
				      (uint8_t)mk_ip_bits(host->family) };
	struct mk_own_source source = {
		.addr = best(host, ifindex, host->family, false),
		.addr_local = best(host, ifindex, host->family, true),
	};

	if (source.addr.ip.family == AF_UNSPEC)
		source.addr = source.addr_local;
	if (source.addr.ip.family == AF_UNSPEC)
		source.addr = node;
	return source;
}

bool keeps_source(const struct mk_own_family *own)
{
	const char *reason;

	return own->family->family == AF_INET6 &&
	       !mk_masquerade_ipv6(own->family->core->config.masquerade_ipv6,
				   &own->addresses.pod_cidr, &reason);
}

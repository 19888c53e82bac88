// SPDX-License-Identifier: Apache-2.0
/* The host's ways out: its devices with addresses and routes, in any table, and whether the host's
 * routing has to be asked for each packet. */
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "agent/node/node_internal.h"
#include "base/cleanup.h"

struct reading {
	const struct host_input *host;
	struct ways *ways;
};

/* Returns NULL if the array is full or there is no device. */
static struct way *way_of(struct ways *ways, int ifindex)
{
	for (size_t i = 0; i < ways->count; i++)
		if (ways->way[i].ifindex == ifindex)
			return &ways->way[i];
	if (ifindex <= 0)
		return NULL;
	if (ways->count == MK_ARRAY_SIZE(ways->way)) {
		ways->odd = true; /* some devices are ignored */
		return NULL;
	}
	ways->way[ways->count] = (struct way){ .ifindex = ifindex };
	return &ways->way[ways->count++];
}

/* Is @ip in the ranges of pods or overlay? An earlier network plugin may have left such
 * addresses. */
static bool is_of_cluster(const struct reading *reading, const struct mk_ip *ip)
{
	const struct mk_config *config = reading->host->config;

	return mk_cidr_contains(mk_config_cluster(config, ip->family), ip) ||
	       mk_cidr_contains(mk_config_vteps(config, ip->family), ip);
}

/* Each device has such a network of IPv6, and multicast: neither leads out. */
static bool is_link_local(const struct mk_ip *ip)
{
	return ip->family == AF_INET6 &&
	       (IN6_IS_ADDR_LINKLOCAL(&ip->v6) || IN6_IS_ADDR_MULTICAST(&ip->v6));
}

/* Pods leave by the ways of their family. */
static sa_family_t family_of(const struct reading *reading)
{
	return reading->host->family;
}

static void see_address(struct reading *reading, const struct host_address *address)
{
	const struct mk_node_object *object = reading->host->object;
	struct way *way;

	if (address->addr.ip.family != family_of(reading) || is_link_local(&address->addr.ip) ||
	    mk_wireguard_has_address(&address->addr.ip) ||
	    is_of_cluster(reading, &address->addr.ip))
		return;
	way = way_of(reading->ways, address->ifindex);
	if (way && mk_ips_contain(object->addresses, object->address_count, &address->addr.ip))
		way->main = true;
}

static void see_source(struct way *way, const struct mk_ip *source)
{
	if (source->family == AF_UNSPEC)
		return;
	if (way->source.family != AF_UNSPEC && !mk_ip_equal(&way->source, source))
		way->several_sources = true;
	way->source = *source;
}

/* Without rules the kernel uses only the tables main and default. */
static bool is_asked(const struct reading *reading, const struct mk_nl_route *way)
{
	return reading->ways->has_rules || way->table == RT_TABLE_MAIN ||
	       way->table == RT_TABLE_DEFAULT;
}

static int see_way(void *ctx, const struct mk_nl_route *seen)
{
	struct reading *reading = ctx;
	bool is_default = seen->dst.prefix_bits == 0;
	struct way *way;

	if (seen->protocol == MK_RTPROT || !is_asked(reading, seen) ||
	    (!is_default &&
	     (is_of_cluster(reading, &seen->dst.ip) || is_link_local(&seen->dst.ip))))
		return 0;
	if (seen->type != RTN_UNICAST || seen->several || seen->encapsulated)
		reading->ways->odd = true;
	if (seen->type != RTN_UNICAST)
		return 0;
	way = way_of(reading->ways, seen->ifindex);
	if (!way)
		return 0;
	way->main |= is_default;
	way->has_default |= is_default;
	see_source(way, &seen->source);
	return 0;
}

/* Devices with a Node address or a default route come first, in a stable order. */
static int compare(const void *a, const void *b)
{
	const struct way *x = a, *y = b;

	if (x->main != y->main)
		return x->main ? -1 : 1;
	return (x->ifindex > y->ifindex) - (x->ifindex < y->ifindex);
}

int read_ways(const struct host_input *input, struct ways *ways, struct mk_error *err)
{
	struct reading reading = { input, ways };
	int ret;

	*ways = (struct ways){ 0 };
	ret = mk_nl_has_rules(input->nl, family_of(&reading), &ways->has_rules, err);
	for (size_t i = 0; i < input->address_count; i++)
		see_address(&reading, &input->addresses[i]);
	if (ret == 0)
		ret = mk_nl_each_way(input->nl, family_of(&reading), see_way, &reading, err);
	qsort(ways->way, ways->count, sizeof(ways->way[0]), compare);
	return ret;
}

/* The loopback device has addresses as well, but is no way out. */
bool must_ask_host(const struct ways *ways, int ifindex, const struct mk_ip *addr)
{
	bool has_default = false;

	if (ways->has_rules || ways->odd)
		return true;
	for (size_t i = 0; i < ways->count; i++) {
		const struct way *way = &ways->way[i];

		if (way->ifindex == MK_LOOPBACK_IFINDEX && way->source.family == AF_UNSPEC)
			continue;
		if (way->ifindex != ifindex || way->several_sources ||
		    (way->source.family != AF_UNSPEC && !mk_ip_equal(&way->source, addr)))
			return true;
		has_default |= way->has_default;
	}
	return !has_default;
}

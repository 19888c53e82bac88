// SPDX-License-Identifier: Apache-2.0
/* Mode End: the pod has an address on its port, and routes that use it. All pods of an end have the
 * same address. Nothing resolves it: the port's only neighbour is permanent. */
#include <linux/if_addr.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "pod/endpoint/function_internal.h"

#define ADDRESS "networking.monokube.io/function-address"
#define ROUTES	"networking.monokube.io/function-routes"

static const char invalid[] = "invalid ports of a function pod";

/* ---- what a configuration says --------------------------------------------------------------- */

/* One of the two lists. */
struct end_list {
	struct mk_cni_end *end;
	const char *where; /* its name in messages */
	int (*read)(const struct end_list *list, const char *item, struct mk_cni_failure *failure);
};

static int bad_item(const struct end_list *list, const char *item, const char *expected,
		    struct mk_cni_failure *failure)
{
	return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, invalid, "%s has '%.64s': expected %s",
			    list->where, item, expected);
}

static bool is_special(const struct mk_ip *ip)
{
	const uint32_t v4 = ntohl(ip->v4.s_addr);

	if (ip->family == AF_INET)
		return v4 == INADDR_ANY || v4 == INADDR_BROADCAST || v4 >> 24 == IN_LOOPBACKNET ||
		       v4 >> 16 == 0xa9fe || IN_MULTICAST(v4);
	return IN6_IS_ADDR_UNSPECIFIED(&ip->v6) || IN6_IS_ADDR_LOOPBACK(&ip->v6) ||
	       IN6_IS_ADDR_LINKLOCAL(&ip->v6) || IN6_IS_ADDR_MULTICAST(&ip->v6) ||
	       IN6_IS_ADDR_V4MAPPED(&ip->v6);
}

/* 10.9.0.0/24 is a range, but 10.9.0.0/31 an address (RFC 3021). */
static bool is_range(const struct mk_cidr *cidr)
{
	const struct mk_cidr range = mk_cidr_network(cidr);

	return cidr->prefix_bits + 1u < mk_ip_bits(cidr->ip.family) && mk_cidr_equal(&range, cidr);
}

static int read_address(const struct end_list *list, const char *item,
			struct mk_cni_failure *failure)
{
	struct mk_cidr cidr, *own;

	if (mk_cidr_parse(item, &cidr) < 0 || is_special(&cidr.ip) || is_range(&cidr))
		return bad_item(list, item, "a host's address with its prefix, as 10.9.0.1/24",
				failure);
	own = &list->end->addresses[mk_family_index(cidr.ip.family)];
	if (own->ip.family != AF_UNSPEC)
		return bad_item(list, item, "one address of each family", failure);
	*own = cidr;
	return 0;
}

static int read_route(const struct end_list *list, const char *item, struct mk_cni_failure *failure)
{
	struct mk_cni_end *end = list->end;
	struct mk_cidr cidr;

	if (mk_cidr_parse(item, &cidr) < 0)
		return bad_item(list, item, "a range, as 10.9.1.0/24", failure);
	if (end->addresses[mk_family_index(cidr.ip.family)].ip.family == AF_UNSPEC)
		return bad_item(list, item, "a range of a family that the end has an address of",
				failure);
	if (end->route_count == MK_CNI_END_ROUTES)
		return bad_item(list, item, "at most 32 ranges", failure);
	end->routes[end->route_count++] = mk_cidr_network(&cidr);
	return 0;
}
_Static_assert(MK_CNI_END_ROUTES == 32, "the message says it");

/* No valid item is longer than MK_CIDR_STRLEN, so one that was cut is none. */
static int read_text(const struct end_list *list, const char *text, struct mk_cni_failure *failure)
{
	char item[MK_CIDR_STRLEN + 1];
	size_t length;

	for (const char *at = text;; at += length + 1) {
		length = strcspn(at, ",");
		snprintf(item, sizeof(item), "%.*s", (int)length, at);
		if (list->read(list, item, failure) < 0)
			return -1;
		if (!at[length])
			return 0;
	}
}

static int read_array(const struct end_list *list, json_object *array,
		      struct mk_cni_failure *failure)
{
	const size_t count = mk_json_length(array);

	if (!count)
		return bad_item(list, json_object_get_string(array), "a list of strings", failure);
	for (size_t i = 0; i < count; i++) {
		json_object *item = json_object_array_get_idx(array, i);

		if (!json_object_is_type(item, json_type_string))
			return bad_item(list, json_object_get_string(item), "strings", failure);
		if (list->read(list, json_object_get_string(item), failure) < 0)
			return -1;
	}
	return 0;
}

/* Mode End requires @address. Other modes refuse both lists. */
static int judge(const struct mk_cni_function *function, const struct end_list *address,
		 const struct end_list *routes, bool has_address, bool has_routes,
		 struct mk_cni_failure *failure)
{
	const bool is_end = function->mode == MK_PORT_END;

	if (is_end && !has_address)
		return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, invalid,
				    "mode End needs %s: an address with its prefix, as 10.9.0.1/24",
				    address->where);
	if (!is_end && (has_address || has_routes))
		return mk_cni_failf(failure, MK_CNI_INVALID_CONFIG, invalid,
				    "%s is set without mode End: set both, or remove it",
				    has_address ? address->where : routes->where);
	return 0;
}

int end_read_annotations(struct mk_cni_function *function, json_object *annotations,
			 struct mk_cni_failure *failure)
{
	const struct end_list address = { &function->end, "annotation " ADDRESS, read_address };
	const struct end_list routes = { &function->end, "annotation " ROUTES, read_route };
	const char *own = function_text(annotations, ADDRESS);
	const char *ranges = function_text(annotations, ROUTES);

	if (judge(function, &address, &routes, own, ranges, failure) < 0)
		return -1;
	if (own && read_text(&address, own, failure) < 0)
		return -1;
	return ranges ? read_text(&routes, ranges, failure) : 0;
}

int end_read_members(struct mk_cni_function *function, json_object *object,
		     struct mk_cni_failure *failure)
{
	const struct end_list address = { &function->end, "function.address", read_address };
	const struct end_list routes = { &function->end, "function.routes", read_route };
	json_object *own, *ranges;
	const bool has_own = json_object_object_get_ex(object, "address", &own);
	const bool has_ranges = json_object_object_get_ex(object, "routes", &ranges);

	if (judge(function, &address, &routes, has_own, has_ranges, failure) < 0)
		return -1;
	if (has_own && read_array(&address, own, failure) < 0)
		return -1;
	return has_ranges ? read_array(&routes, ranges, failure) : 0;
}

/* ---- what the pod gets ----------------------------------------------------------------------- */

bool end_has_family(const struct port_making *port, sa_family_t family)
{
	return port->end->addresses[mk_family_index(family)].ip.family == family;
}

struct mk_nl_addr end_address(const struct port_making *port, sa_family_t family)
{
	return (struct mk_nl_addr){
		.ifindex = port->pod_ifindex,
		.cidr = { .ip = port->end->addresses[mk_family_index(family)].ip,
			  .prefix_bits = (uint8_t)mk_ip_bits(family) },
		.flags = family == AF_INET6 ? IFA_F_NODAD : 0,
	};
}

/* 169.254.77.2, fe80::4d02 */
struct mk_ip end_next_hop(sa_family_t family)
{
	if (family == AF_INET)
		return (struct mk_ip){ .family = AF_INET, .v4.s_addr = htonl(0xa9fe4d02u) };
	return (struct mk_ip){ .family = AF_INET6,
			       .v6.s6_addr = { 0xfe, 0x80, [14] = 0x4d, [15] = 2 } };
}

static void add_route(const struct port_making *port, const struct mk_cidr *dst,
		      struct mk_nl_route *route)
{
	*route = (struct mk_nl_route){
		.dst = *dst,
		.ifindex = port->pod_ifindex,
		.gateway = end_next_hop(dst->ip.family),
		.onlink = true,
		.protocol = MK_RTPROT,
	};
}

size_t end_routes(const struct port_making *port, sa_family_t family,
		  struct mk_nl_route routes[END_ROUTES])
{
	const struct mk_cni_end *end = port->end;
	const struct mk_cidr *own = &end->addresses[mk_family_index(family)];
	const struct mk_cidr range = mk_cidr_network(own);
	size_t count = 0;

	if (own->ip.family == family && own->prefix_bits < mk_ip_bits(family))
		add_route(port, &range, &routes[count++]);
	for (size_t i = 0; i < end->route_count; i++)
		if (end->routes[i].ip.family == family)
			add_route(port, &end->routes[i], &routes[count++]);
	return count;
}

static int set_family(const struct port_making *port, sa_family_t family, struct mk_error *err)
{
	const struct mk_nl_addr own = end_address(port, family);
	const struct mk_ip next_hop = end_next_hop(family);
	const struct mk_mac mac = mk_port_mac(port->mode, port->side, true);
	struct mk_nl *nl = port->site->pod_nl;
	struct mk_nl_route routes[END_ROUTES];
	const size_t count = end_routes(port, family, routes);
	int ret = mk_nl_addr_add(nl, &own, err);

	ret = ret ?: mk_nl_neigh_put(nl, port->pod_ifindex, &next_hop, &mac, err);
	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = mk_nl_route_put(nl, &routes[i], err);
	return ret;
}

int end_set(const struct port_making *port, struct mk_error *err)
{
	const struct mk_link_change up = { .set_flags = IFF_UP };
	const bool has_ipv4 = end_has_family(port, AF_INET);
	const bool has_ipv6 = end_has_family(port, AF_INET6);
	int ret = has_ipv6 ? port_prepare_ipv6(port, err) : 0;

	ret = ret ?: mk_nl_link_change(port->site->pod_nl, port->pod_ifindex, &up, err);
	if (ret == 0 && has_ipv4)
		ret = set_family(port, AF_INET, err);
	if (ret == 0 && has_ipv6)
		ret = set_family(port, AF_INET6, err);
	return ret;
}

/* ---- what is in its way ---------------------------------------------------------------------- */

struct route_search {
	struct mk_nl_route wanted[END_ROUTES];
	size_t count;
	struct mk_nl_route found; /* ifindex 0: none */
};

static int see_route(void *ctx, const struct mk_nl_route *route)
{
	struct route_search *search = ctx;

	for (size_t i = 0; i < search->count; i++)
		if (mk_cidr_equal(&search->wanted[i].dst, &route->dst))
			search->found = *route;
	return 0;
}

static int route_is_taken(const struct port_making *port, const struct mk_nl_route *route,
			  struct mk_cni_failure *failure)
{
	struct mk_link link = { .name = "?" };
	char text[MK_CIDR_STRLEN];

	if (mk_nl_link_get_index(port->site->pod_nl, route->ifindex, &link, NULL) < 0)
		link.name[0] = '?';
	return mk_cni_failf(
		failure, MK_CNI_INVALID_CONFIG, invalid,
		"the pod has a route to %s by its interface '%s' already: address and routes of its end must name other ranges",
		mk_cidr_format(&route->dst, text), link.name);
}

static int routes_fit(const struct port_making *port, sa_family_t family,
		      struct mk_cni_failure *failure)
{
	struct route_search search = { 0 };

	search.count = end_routes(port, family, search.wanted);
	if (mk_nl_each_route(port->site->pod_nl, family, see_route, &search, &failure->cause) < 0)
		return mk_cni_fail(failure, MK_CNI_SETUP_FAILED,
				   "cannot read the routes of a function pod");
	return search.found.ifindex ? route_is_taken(port, &search.found, failure) : 0;
}

/* The port exists: the error is that of the pair. */
static bool exists(const struct port_making *port)
{
	struct mk_link link;

	return mk_nl_link_get(port->site->pod_nl, port->name, &link, NULL) == 0 ||
	       mk_nl_link_get(port->site->node->nl, port->host_name, &link, NULL) == 0;
}

int end_fits(const struct port_making *port, struct mk_cni_failure *failure)
{
	static const sa_family_t families[] = { AF_INET, AF_INET6 };
	char text[MK_CIDR_STRLEN];

	for (size_t i = 0; i < MK_FAMILIES; i++) {
		const struct mk_cidr *own = &port->end->addresses[i];

		if (own->ip.family == AF_UNSPEC)
			continue;
		if (!port_has_family(port, families[i]))
			return mk_cni_failf(
				failure, MK_CNI_INVALID_CONFIG, invalid,
				"the pod has no address of %s, so its end cannot have %s: remove that",
				mk_family_name(families[i]), mk_cidr_format(own, text));
		if (!exists(port) && routes_fit(port, families[i], failure) < 0)
			return -1;
	}
	return 0;
}

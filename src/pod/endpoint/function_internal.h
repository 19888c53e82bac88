/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/function_internal.h - function_*.c among themselves. */
#ifndef MK_POD_ENDPOINT_FUNCTION_INTERNAL_H
#define MK_POD_ENDPOINT_FUNCTION_INTERNAL_H

#include "pod/endpoint/function.h"

#define MK_PORT_BRIDGE "chain" /* of mode Bridged, in the pod */

/* Remove the ports of an endpoint. Returns 0 also if there are none. */
mk_must_check int cni_ports_remove(const struct mk_cni_node *node, const char *container_id,
				   const char *ifname, struct mk_error *err);
/* Return string member @name of @object, else NULL. Names are compared exactly, unlike those of a
 * runtime's own members. */
const char *function_text(json_object *object, const char *name);
/* The name of a port in messages. */
const char *port_title(enum mk_port_mode mode, enum mk_port_side side);

/* One port while it is made. */
struct port_making {
	const struct mk_cni_port_site *site;
	enum mk_port_mode mode;
	enum mk_port_side side;
	const char *name; /* in the pod */
	const struct mk_cni_end *end;
	char host_name[IFNAMSIZ];
	int host_ifindex, pod_ifindex;
};

/* Begin with the port @side of @function. Returns false if it has none. */
bool port_begin(struct port_making *port, const struct mk_cni_port_site *site,
		const struct mk_cni_function *function, size_t side);
uint32_t port_mtu_bytes(const struct port_making *port);
/* Has the pod an address of @family? */
bool port_has_family(const struct port_making *port, sa_family_t family);
/* Write a setting in the pod's namespace. Returns 0 also if the kernel does not have it. */
mk_must_check int port_sysctl(const struct port_making *port, const char *path, const char *value,
			      struct mk_error *err);
/* Before the device is up: it has IPv6, and no link-local address of the kernel. */
mk_must_check int port_prepare_ipv6(const struct port_making *port, struct mk_error *err);
/* Mode Routed: addresses, neighbours, routes, rules and settings of this port, its device up. */
mk_must_check int port_route(const struct port_making *port, struct mk_error *err);

/* ---- mode End (function_end.c) --------------------------------------------------------------- */

/* Read the annotations of the port. Pure. */
mk_must_check int end_read_annotations(struct mk_cni_function *function, json_object *annotations,
				       struct mk_cni_failure *failure);
/* Read members `address` and `routes` of a definition. Pure. */
mk_must_check int end_read_members(struct mk_cni_function *function, json_object *object,
				   struct mk_cni_failure *failure);
/* Before the port exists: fail if the pod lacks the family of an address, or has a route. */
mk_must_check int end_fits(const struct port_making *port, struct mk_cni_failure *failure);
bool end_has_family(const struct port_making *port, sa_family_t family);
/* The address on the port, with the length of a host: the kernel makes no route of its prefix. */
struct mk_nl_addr end_address(const struct port_making *port, sa_family_t family);
/* The next hop of all routes. Its neighbour entry is permanent, so nothing asks for it. */
struct mk_ip end_next_hop(sa_family_t family);
/* Write the routes of @family. Returns their number. */
#define END_ROUTES (MK_CNI_END_ROUTES + 1)
size_t end_routes(const struct port_making *port, sa_family_t family,
		  struct mk_nl_route routes[END_ROUTES]);
/* Addresses, neighbours and routes of the port, its device up. */
mk_must_check int end_set(const struct port_making *port, struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/function.h - the ports of function pods (service function chains). A function
 * pod has two ports beside its interface: `inside`, towards the pods whose traffic a chain takes,
 * and `outside`. A tap has only `inside`. A pod of an end has one port, and addresses on it. A port
 * is a veth pair with the program `sfc_port` on the host's end.
 *
 * The devices are the only record of a port. The name of a host's end says whose port it is and
 * which side it has, and its MAC address says the mode. So DEL, GC and repair read no file. */
#ifndef MK_POD_ENDPOINT_FUNCTION_H
#define MK_POD_ENDPOINT_FUNCTION_H

#include <net/if.h>
#include <stdbool.h>

#include "base/netlink/netlink.h"
#include "datapath/pods/port.h"
#include "pod/endpoint/endpoint.h"
#include "pod/request/conf.h"

/* Mode End: the addresses of the port, and which ranges are reached by it. */
#define MK_CNI_END_ROUTES 32
struct mk_cni_end {
	struct mk_cidr addresses[MK_FAMILIES]; /* by mk_family_index(); AF_UNSPEC: none */
	struct mk_cidr routes[MK_CNI_END_ROUTES]; /* beside the ranges of the addresses */
	size_t route_count;
};

/* The ports that a configuration asks for. */
struct mk_cni_function {
	enum mk_port_mode mode; /* MK_PORT_NONE: no ports */
	/* in the pod; "": not this port. Modes Tap and End have only MK_PORT_INSIDE. */
	char names[MK_PORT_SIDES][IFNAMSIZ];
	struct mk_cni_end end; /* mode End */
	bool is_alone; /* the configuration makes only this port, and no address (Multus) */
};

/* Read them: from the Pod's annotations, which the runtime sends as capability
 * io.kubernetes.cri.pod-annotations, or from member `function` of a configuration that Multus runs
 * for one port. @ifname: CNI_IFNAME. Pure. */
mk_must_check int mk_cni_function_read(struct mk_cni_function *function,
				       const struct mk_cni_conf *conf, const char *ifname,
				       struct mk_cni_failure *failure);

/* Where ports are made. */
struct mk_cni_port_site {
	const struct mk_cni_node *node;
	const struct mk_cni_conf *conf;
	struct mk_nl *pod_nl; /* in the pod's namespace @netns_fd */
	int netns_fd;
	const char *container_id, *ifname; /* of the pod's first interface */
	const char *pod_name; /* "NAMESPACE/NAME", or "" */
	const struct mk_ip *ips; /* the pod's, MK_FAMILIES; AF_UNSPEC: none */
};

/* Make the ports, the host's ends last. A name or a route that is taken, or ports that exist
 * already, are the error MK_CNI_INVALID_CONFIG. A failure leaves ports for
 * mk_cni_endpoint_remove(). */
mk_must_check int mk_cni_ports_make(const struct mk_cni_port_site *site,
				    const struct mk_cni_function *function,
				    struct mk_cni_failure *failure);
/* Add the ports to @result. */
void mk_cni_ports_tell(const struct mk_cni_port_site *site, const struct mk_cni_function *function,
		       struct mk_cni_result *result);
/* Call @find with the text of everything that is missing or wrong. */
mk_must_check int mk_cni_ports_check(const struct mk_cni_port_site *site,
				     const struct mk_cni_function *function,
				     void (*find)(void *ctx, const char *text), void *ctx,
				     struct mk_error *err);
/* Remove one port. Returns 0 also if it does not exist. */
mk_must_check int mk_cni_port_remove(const struct mk_cni_node *node, const char *container_id,
				     const char *ifname, enum mk_port_side side,
				     struct mk_error *err);
/* The same for the port with this host's end. Chains stop using it before it goes. */
mk_must_check int mk_cni_port_delete(const struct mk_cni_node *node, const struct mk_link *link,
				     struct mk_error *err);
/* Is this port's host end (mk_port_of()) one of this endpoint, whatever its prefix? */
bool mk_cni_is_port_of(const struct mk_link *link, const char *container_id, const char *ifname);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/sfc/ports.h - which ports the function pods of this node have, from the devices and the
 * address files. */
#ifndef MK_AGENT_SFC_PORTS_H
#define MK_AGENT_SFC_PORTS_H

#include "agent/core/core.h"
#include "cluster/model/chain.h"

/* A sandbox with ports. */
struct sandbox_ports {
	char *namespace_, *name; /* of the Pod; "": the runtime gave none */
	struct mk_ip ips[MK_FAMILIES]; /* AF_UNSPEC: none */
	uint32_t ifindex[MK_SFC_SIDES]; /* host's ends; 0: none */
	uint8_t mode; /* enum mk_port_mode */
};

struct node_ports {
	struct sandbox_ports *list;
	size_t count;
};

/* Read them into @ports, which the caller releases. No address file is read if there is no port. */
mk_must_check int node_ports_read(const struct mk_core *core, struct node_ports *ports,
				  struct mk_error *err);
void node_ports_release(struct node_ports *ports);
/* Return the ports of the sandbox that has the Pod's address. NULL: none. */
const struct sandbox_ports *node_ports_of(const struct node_ports *ports,
					  const struct mk_function_pod *pod);

#endif

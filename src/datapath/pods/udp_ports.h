/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/udp_ports.h - map `udp_ports`. The agent and the CNI mode add ports to its only
 * entry, under a lock. */
#ifndef MK_DATAPATH_PODS_UDP_PORTS_H
#define MK_DATAPATH_PODS_UDP_PORTS_H

#include "monokube/abi.h"
#include "base/error.h"

/* Add @ports to the map. Returns 1 if the map was written, 0 if it had them already. */
mk_must_check int mk_udp_ports_add(const char *bpf_dir, const char *state_dir,
				   const struct mk_port_set *ports, struct mk_error *err);

#endif

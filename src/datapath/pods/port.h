/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pods/port.h - the ports of function pods: what a device says about itself. */
#ifndef MK_DATAPATH_PODS_PORT_H
#define MK_DATAPATH_PODS_PORT_H

#include <stdbool.h>

#include "base/netlink/netlink.h"
#include "monokube/sfc.h"

enum mk_port_side { MK_PORT_INSIDE, MK_PORT_OUTSIDE, MK_PORT_SIDES };

/* MAC addresses of ports: 06:4d:MODE:SIDE:0:END. They are the same for all pods, so that replicas
 * do not differ. No frame that passes a function has one as source or destination, but in mode
 * Routed. */
struct mk_mac mk_port_mac(enum mk_port_mode mode, enum mk_port_side side, bool is_host_end);

/* Do the devices of a port have the overlay's MTU? Otherwise they have the largest. */
bool mk_port_has_overlay_mtu(enum mk_port_mode mode);

/* Is the device the host's end of a port? Then *@mode and *@side (NULL: not wanted) say which. */
bool mk_port_of(const struct mk_link *link, enum mk_port_mode *mode, enum mk_port_side *side);

/* The port's device @ifindex is about to be removed, or is new: let no chain use it, in any family.
 * Its pod then counts as lost. It works without an agent. The tables are found by their pins below
 * @bpf_dir; a missing one is no error. */
mk_must_check int mk_port_forget(const char *bpf_dir, int ifindex, struct mk_error *err);

#endif

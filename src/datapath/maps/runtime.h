/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/runtime.h - maps `runtime` and `udp_ports`: one entry each. The agent,
 * `monokube monitor`, `monokube drops --follow` and the CNI mode change their own fields, under a
 * lock. */
#ifndef MK_DATAPATH_MAPS_RUNTIME_H
#define MK_DATAPATH_MAPS_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "monokube/abi.h"

struct mk_runtime_change {
	bool set_host_backends, host_backends;
	bool set_frontends_gone, frontends_gone;
	bool set_report_drops, report_drops;
	bool set_monitored, monitored;
	bool set_host_ports, host_ports;
	bool set_peers_known, peers_known;
	bool set_ranges_shared, ranges_shared;
	/* widens the current range; localhost_port_max 0 clears it */
	bool set_localhost_ports;
	uint16_t localhost_port_min, localhost_port_max;
};

/* Returns 1 if the map was written, 0 if it had these values already. */
mk_must_check int mk_runtime_change(const char *bpf_dir, const char *state_dir,
				    const struct mk_runtime_change *change, struct mk_error *err);

/* Add @ports to the only entry of map `udp_ports`, under a lock, as the agent and the CNI mode do.
 * Returns 1 if the map was written, 0 if it had them already. */
mk_must_check int mk_udp_ports_add(const char *bpf_dir, const char *state_dir,
				   const struct mk_port_set *ports, struct mk_error *err);

#endif

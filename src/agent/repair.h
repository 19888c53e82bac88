/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/repair.h - what somebody else took away or changed and the agent put back, counted by
 * kind since the start. Each repair is a line of the log that says what was missing. */
#ifndef MK_AGENT_REPAIR_H
#define MK_AGENT_REPAIR_H

#include <stdint.h>

enum mk_repair {
	MK_REPAIR_HOOK, /* a program on a device, with its qdisc */
	MK_REPAIR_CHAIN, /* a tail call's target */
	MK_REPAIR_PIN, /* a table's or program's name in the BPF directory */
	MK_REPAIR_DEVICE, /* VXLAN device, host veth pair: made anew or put right */
	MK_REPAIR_ROUTE,
	MK_REPAIR_NEIGHBOUR, /* neighbour and FDB entries */
	MK_REPAIR_SYSCTL,
	MK_REPAIR_FILE, /* CNI configuration and plugin */
	MK_REPAIR_TABLE, /* entries of maps */
	MK_REPAIR_POD, /* a pod's entry of map pods */
	MK_REPAIR_DROP_REPORTS, /* switched on for a reader that is gone */
	MK_REPAIRS
};

/* As metrics spell it. */
const char *mk_repair_name(enum mk_repair repair);

struct mk_repairs {
	uint64_t count[MK_REPAIRS];
};

#endif

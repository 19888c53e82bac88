/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/report/repairs.h - repairs of what others took away or changed, counted by kind since
 * the start. Each repair logs a line that says what was missing. */
#ifndef MK_AGENT_REPORT_REPAIRS_H
#define MK_AGENT_REPORT_REPAIRS_H

#include <stdint.h>

enum mk_repair {
	MK_REPAIR_HOOK, /* a program on a device, with its qdisc */
	MK_REPAIR_CHAIN, /* a tail call's target */
	MK_REPAIR_PIN, /* a table's or program's name in the BPF directory */
	MK_REPAIR_DEVICE, /* VXLAN device, host veth pair: created again or corrected */
	MK_REPAIR_ROUTE,
	MK_REPAIR_NEIGHBOUR, /* neighbour and FDB entries */
	MK_REPAIR_SYSCTL,
	MK_REPAIR_FILE, /* CNI configuration and plugin */
	MK_REPAIR_TABLE, /* entries of maps */
	MK_REPAIR_POD, /* a pod's entry of map pods */
	MK_REPAIR_DROP_REPORTS, /* left switched on by a reader that is gone */
	MK_REPAIRS
};

struct mk_repairs {
	uint64_t count[MK_REPAIRS];
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/rtnl_events.h - follow changes of interfaces, addresses, routes and filters. */
#ifndef MK_AGENT_RTNL_EVENTS_H
#define MK_AGENT_RTNL_EVENTS_H

#include "agent/node/own_node.h"
#include "agent/pods.h"

/* Devices whose programs have to be looked at soon: a filter or qdisc was changed. */
#define MK_CHANGED_DEVICES 32

struct agent_hooks {
	bool all; /* more devices than fit, or an unknown one */
	int changed[MK_CHANGED_DEVICES];
	size_t count;
};

/* Look soon at the hooks of a device; 0: at all hooks. */
void agent_hooks_changed(struct agent_hooks *hooks, struct mk_core *core, int ifindex);
/* Restore the programs on these devices. Returns the number of repairs. */
mk_must_check int agent_hooks_reconcile(struct agent_hooks *hooks, struct mk_core *core,
					struct mk_error *err);

struct agent_rtnl {
	struct mk_core *core;
	const struct mk_own_node *node;
	struct agent_hooks *hooks;
	struct agent_pods *pods;
	uv_poll_t poll;
	bool started;
};

mk_must_check int agent_rtnl_start(struct agent_rtnl *rtnl, struct mk_error *err);
void agent_rtnl_stop(struct agent_rtnl *rtnl);

#endif

// SPDX-License-Identifier: Apache-2.0
/* Put back what others take away from the agent. Notifications (rtnl_events.c) report most of it at
 * once; these looks need none. Each tick looks at one kind of thing, so each kind is looked at
 * every TICK_MS * number of kinds. A look takes at most some hundred microseconds if nothing is
 * wrong. */
#include "agent/report/repairs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "datapath/monitor/drops.h"
#include "host/sysctl.h"
#include "pod/endpoint/restore.h"

#define SOON_MS	       10 /* after a notification: several come together */
#define TICK_MS	       500
#define HOOKS_AT_ONCE  8 /* pods' hooks per look; the other hooks follow in later looks */
#define ENTRIES	       256 /* table entries per look */
#define PEERS_PER_LOOK 64 /* larger clusters are looked at less often: a look reads all entries */
#define QUIET_WAITS    3 /* pods hold a lock for a moment: so many looks wait without a line */
#define IDLE_LOOKS     10 /* skipped after a look that could restore none of the missing entries */

/* Log a failing repair once, until it works again or fails for another reason. */
static struct agent_failing *failing_of(struct mk_agent *agent, const char *what)
{
	for (size_t i = 0; i < MK_FAILING_MAX; i++)
		if (!agent->failing[i].what || strcmp(agent->failing[i].what, what) == 0)
			return &agent->failing[i];
	return &agent->failing[0];
}

static void say_failing(struct agent_failing *failing, const char *what, const char *text)
{
	if (failing->what && strncmp(failing->text, text, sizeof(failing->text) - 1) == 0)
		return;
	mk_log_error("cannot check or repair %s: %s", what, text);
	failing->what = what;
	snprintf(failing->text, sizeof(failing->text), "%s", text);
}

/* @ret: number of repairs, or an error, which is logged with @what, a literal. */
static void account(struct mk_agent *agent, enum mk_repair repair, int ret, const char *what,
		    const struct mk_error *err)
{
	struct agent_failing *failing = failing_of(agent, what);

	failing->waits = ret == -EWOULDBLOCK ? failing->waits + 1 : 0;
	if (failing->waits && failing->waits <= QUIET_WAITS) {
		failing->what = what;
		return;
	}
	if (ret < 0) {
		say_failing(failing, what, mk_error_text(err));
		return;
	}
	agent->repairs.count[repair] += (uint64_t)ret;
	if (!failing->text[0])
		return;
	mk_log_info("%s: checked and repaired again", what);
	failing->text[0] = '\0';
}

/* ---- looks ----------------------------------------------------------------------------------- */

static bool is_attached(const struct mk_agent *agent)
{
	return agent->datapath && mk_datapath_state(agent->datapath) >= MK_DATAPATH_ATTACHED;
}

static void look_at_hooks(struct mk_agent *agent)
{
	size_t pods = agent->hooks_dirty ? SIZE_MAX : HOOKS_AT_ONCE;
	struct mk_error err = { 0 };

	agent->hooks_dirty = false;
	if (is_attached(agent))
		account(agent, MK_REPAIR_HOOK,
			mk_datapath_repair_hooks(agent->datapath, pods, &err), "the hooks", &err);
}

static void look_at_changed_devices(struct mk_agent *agent)
{
	size_t count = agent->changed_device_count;
	struct mk_error err = { 0 };

	agent->changed_device_count = 0;
	if (is_attached(agent))
		account(agent, MK_REPAIR_HOOK,
			mk_datapath_repair_hooks_of(agent->datapath, agent->changed_devices, count,
						    &err),
			"the hooks", &err);
}

static void look_at_programs(struct mk_agent *agent)
{
	struct mk_error err = { 0 };

	if (!is_attached(agent))
		return;
	account(agent, MK_REPAIR_CHAIN, mk_datapath_repair_chain(agent->datapath, &err),
		"the chain of programs", &err);
	account(agent, MK_REPAIR_PIN, mk_datapath_repair_pins(agent->datapath, &err), "the pins",
		&err);
}

/* The overlay compares in its own step; agent_overlay_repaired() counts. */
static void look_at_overlay(struct mk_agent *agent)
{
	unsigned int pause = (unsigned int)(agent->plan.peer_count / PEERS_PER_LOOK);

	if (!agent->listed || !is_attached(agent) || agent->overlay_looks++ < pause)
		return;
	agent->overlay_looks = 0;
	mk_overlay_refresh(agent->overlay);
	agent->overlay_dirty = true;
	agent_schedule(agent, 0);
}

static void look_at_sysctls(struct mk_agent *agent)
{
	struct mk_error err = { 0 };

	if (agent->sysctls_done)
		account(agent, MK_REPAIR_SYSCTL, agent_apply_sysctls(agent, true, &err),
			"kernel settings", &err);
}

static void look_at_files(struct mk_agent *agent)
{
	int ret = agent_check_files(agent);

	account(agent, MK_REPAIR_FILE, ret, "the CNI files", NULL);
	if (ret > 0)
		agent_schedule(agent, 0);
}

/* The agent keeps no copy of a Service's entries: compile the Service again. */
static void service_lost(void *ctx, const char *key)
{
	agent_service_again(ctx, key);
}

static void look_at_runtime(struct mk_agent *agent)
{
	struct mk_error err = { 0 };
	int ret = agent_sync_runtime(agent, &err);

	if (ret > 0)
		mk_log_warn(
			"a setting of the programs was missing and is back map=runtime host_backends=%d frontends_gone=%d",
			agent->host_backends.told > 0, agent->frontends_gone.told > 0);
	account(agent, MK_REPAIR_TABLE, ret, "map 'runtime'", &err);
}

static void look_at_udp_ports(struct mk_agent *agent)
{
	struct mk_error err = { 0 };
	int ret = agent->udp_ports_told ? agent_sync_udp_ports(agent, &err) : 0;

	if (ret > 0)
		mk_log_warn("a setting of the programs was missing and is back map=udp_ports");
	account(agent, MK_REPAIR_TABLE, ret, "map 'udp_ports'", &err);
}

/* Only after the lists is it known what the tables have to hold. */
static void look_at_tables(struct mk_agent *agent)
{
	struct mk_error err = { 0 };

	if (!agent->listed || !is_attached(agent))
		return;
	account(agent, MK_REPAIR_TABLE, mk_datapath_repair_links(agent->datapath, &err),
		"maps 'links' and 'uplinks'", &err);
	account(agent, MK_REPAIR_TABLE, mk_datapath_repair_routes(agent->datapath, ENTRIES, &err),
		"map 'routes'", &err);
	account(agent, MK_REPAIR_TABLE,
		mk_service_sync_audit(mk_datapath_services(agent->datapath), ENTRIES, service_lost,
				      agent, &err),
		"the Services' tables", &err);
	look_at_runtime(agent);
	look_at_udp_ports(agent);
	agent_look_for_sessions(agent);
	if (agent->dirty)
		agent_schedule(agent, 0);
}

static void look_at_host_ports(struct mk_agent *agent)
{
	struct mk_error err = { 0 };

	account(agent, MK_REPAIR_TABLE,
		mk_cni_restore_host_ports(agent->config.state_dir, agent->config.bpf_dir,
					  &agent->host_ports_known, &err),
		"map 'host_ports'", &err);
}

/* Host ports need the entry of their pod, so look at them again after entries are restored. */
static void look_at_pod_entries(struct mk_agent *agent)
{
	struct mk_error err = { 0 };
	bool in_vain;
	int ret;

	if (agent->pod_pause-- > 0)
		return;
	ret = mk_cni_restore(agent->config.state_dir, agent->config.bpf_dir,
			     agent->config.veth_prefix, &in_vain, &err);
	account(agent, MK_REPAIR_POD, ret, "pods' entries", &err);
	agent->pod_pause = in_vain ? IDLE_LOOKS : 0;
	if (ret <= 0)
		return;
	agent_hooks_soon(agent);
	agent->host_ports_known = SIZE_MAX;
}

static void look_at_pods(struct mk_agent *agent)
{
	if (!is_attached(agent))
		return;
	agent_look_for_lost_pods(agent);
	look_at_pod_entries(agent);
	look_at_host_ports(agent);
}

/* ---- the round ------------------------------------------------------------------------------- */

static void (*const looks[])(struct mk_agent *agent) = {
	look_at_hooks, look_at_overlay, look_at_tables,	  look_at_sysctls,
	look_at_files, look_at_pods,	look_at_programs,
};

/* The round goes on, however many notifications come. */
static void on_tick(uv_timer_t *timer)
{
	struct mk_agent *agent = timer->data;
	uint64_t now_ms = uv_now(&agent->loop);

	if (agent->hooks_dirty)
		look_at_hooks(agent);
	else if (agent->changed_device_count)
		look_at_changed_devices(agent);
	if (now_ms + SOON_MS < agent->looked_ms + TICK_MS)
		return;
	agent->looked_ms = now_ms;
	mk_loop_part("repair");
	looks[agent->look++ % MK_ARRAY_SIZE(looks)](agent);
	mk_loop_part(NULL);
}

static void tick_soon(struct mk_agent *agent)
{
	if (uv_timer_get_due_in(&agent->repair_timer) > SOON_MS)
		uv_timer_start(&agent->repair_timer, on_tick, SOON_MS, TICK_MS);
}

void agent_hooks_soon(struct mk_agent *agent)
{
	agent->hooks_dirty = true;
	agent->changed_device_count = 0;
	tick_soon(agent);
}

/* Each starting pod reports its device, which is looked up in map pods. A filter of several devices
 * (a shared block) names none: look at all hooks. */
void agent_hook_soon(struct mk_agent *agent, int ifindex)
{
	if (ifindex <= 0 || agent->changed_device_count == MK_CHANGED_DEVICES)
		agent_hooks_soon(agent);
	if (agent->hooks_dirty)
		return;
	for (size_t i = 0; i < agent->changed_device_count; i++)
		if (agent->changed_devices[i] == ifindex)
			return;
	agent->changed_devices[agent->changed_device_count++] = ifindex;
	tick_soon(agent);
}

void agent_overlay_repaired(struct mk_agent *agent)
{
	const struct mk_overlay_repairs *repairs = mk_overlay_repairs(agent->overlay);

	agent->repairs.count[MK_REPAIR_ROUTE] = repairs->routes;
	agent->repairs.count[MK_REPAIR_NEIGHBOUR] = repairs->neighbours;
}

int agent_repair_start(struct mk_agent *agent, struct mk_error *err)
{
	int ret = uv_timer_init(&agent->loop, &agent->repair_timer);

	if (ret < 0)
		return mk_error_errno(err, -ret, "cannot start a timer");
	agent->repair_timer.data = agent;
	agent->host_ports_known = SIZE_MAX;
	agent->pods_unsure = true;
	uv_timer_start(&agent->repair_timer, on_tick, TICK_MS, TICK_MS);
	return 0;
}

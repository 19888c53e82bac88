// SPDX-License-Identifier: Apache-2.0
/* One turn of work: every step in order, then sleep until something changes, or until the next
 * attempt after an error. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/time.h"
#include "base/loop.h"
#include "host/agent_state.h"

#define BACKOFF_FIRST_MS 100
#define BACKOFF_LAST_MS	 30000
#define NEXT_TURN_MS	 1 /* a timer of 0 ms would run again in this turn */
#define LOCK_RETRY_MS	 50
#define LOCK_QUIET_TRIES 10 /* a shorter wait is not worth a line */

/* ---- saying things once ---------------------------------------------------------------------- */

static bool is_news(struct mk_agent *agent, const char *text)
{
	if (agent->said && strcmp(agent->said, text) == 0)
		return false;
	free(agent->said);
	agent->said = strdup(text);
	return true;
}

int agent_wait_for(struct mk_agent *agent, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (is_news(agent, text))
		mk_log_warn("waiting for %s", text);
	return MK_WAIT;
}

void agent_write_state(struct mk_agent *agent, const char *text)
{
	struct mk_error err = { 0 };

	if (agent->state && strcmp(agent->state, text) == 0)
		return;
	free(agent->state);
	agent->state = strdup(text);
	if (mk_agent_state_write(agent->config.state_dir, text, &err) < 0)
		mk_log_error("cannot store the agent's state: %s", mk_error_text(&err));
}

/* agent->said is what the agent waits for or failed at; NULL: neither. */
static void write_state(struct mk_agent *agent)
{
	char text[600];

	if (!agent->said && agent->ready) {
		agent_write_state(agent, MK_AGENT_READY);
	} else if (agent->said) {
		snprintf(text, sizeof(text), "%s%s", agent->failed ? "" : "waits for ",
			 agent->said);
		agent_write_state(agent, text);
	}
}

static const char *const warning_reasons[MK_WARNINGS] = {
	[MK_WARN_NODE] = "NetworkMisconfigured",
	[MK_WARN_SERVICE_CIDR] = "ServiceCIDRLeftOut",
	[MK_WARN_NODES_LEFT_OUT] = "NodesLeftOut",
	[MK_WARN_TABLE_FULL] = "NetworkTableFull",
	[MK_WARN_NETWORKS] = "NetworkRangesOverlap",
	[MK_WARN_POD_CIDR] = "PodCIDRChanged",
	[MK_WARN_HEALTH_PORT] = "FailedToStartServiceHealthcheck",
};

bool agent_warn(struct mk_agent *agent, enum mk_warning warning, const char *text)
{
	char **last = &agent->warned[warning];

	if (*last && strcmp(*last, text) == 0)
		return false;
	free(*last);
	*last = strdup(text);
	mk_source_warn(agent->source, warning_reasons[warning], text);
	return true;
}

void agent_warn_over(struct mk_agent *agent, enum mk_warning warning)
{
	free(agent->warned[warning]);
	agent->warned[warning] = NULL;
}

static bool is_full(const struct mk_error *err)
{
	return err->code == ENOSPC || err->code == E2BIG;
}

static void say_error(struct mk_agent *agent, const struct mk_error *err)
{
	if (is_news(agent, mk_error_text(err)))
		mk_log_error("%s; trying again", mk_error_text(err));
	if (is_full(err))
		(void)agent_warn(agent, MK_WARN_TABLE_FULL, mk_error_text(err));
}

static void say_fine(struct mk_agent *agent)
{
	if (agent->said && agent->failed)
		mk_log_info("the previous error is over");
	agent->failed = false;
	agent_warn_over(agent, MK_WARN_TABLE_FULL);
	free(agent->said);
	agent->said = NULL;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int step_attach(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_datapath_links links;

	if (mk_datapath_state(agent->datapath) >= MK_DATAPATH_ATTACHED)
		return 0;
	mk_loop_part("attach");
	agent_links(&agent->node, &links);
	return mk_datapath_attach(agent->datapath, &links, err);
}

static int step_plugin(struct mk_agent *agent, struct mk_error *err)
{
	mk_loop_part("plugin");
	return agent_step_plugin(agent, err);
}

/* Devices and addresses are data: running programs go on with changed ones. */
static int step_links(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_datapath_links links;
	int ret;

	if (mk_datapath_state(agent->datapath) < MK_DATAPATH_ATTACHED)
		return 0;
	mk_loop_part("links");
	agent_links(&agent->node, &links);
	ret = mk_datapath_change_links(agent->datapath, &links, err);
	return ret < 0 ? ret : 0;
}

static int step_overlay(struct mk_agent *agent, struct mk_error *err)
{
	int ret;

	if (!agent->overlay_dirty)
		return 0;
	mk_loop_part("overlay");
	ret = mk_overlay_sync(agent->overlay, agent->complete, &agent->writes, err);
	agent_overlay_repaired(agent);
	if (ret == 0)
		agent->overlay_dirty = false;
	return ret;
}

static int step_prune(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_service_counts counts = { 0 };
	int ret;

	if (agent->pruned || !agent->complete)
		return 0;
	mk_loop_part("prune");
	ret = mk_datapath_prune(agent->datapath, mk_time_monotonic_ns(),
				mk_time_monotonic_ns() + MK_TURN_NS, &counts, err);
	agent->writes += counts.put + counts.deleted;
	if (ret < 0)
		return ret;
	if (counts.deleted)
		mk_log_info("entries of Services that are gone removed entries=%u", counts.deleted);
	if (ret > 0)
		return MK_AGAIN;
	agent->pruned = true;
	agent_sweep_now(agent); /* backends may have gone while no agent ran */
	return 0;
}

static int step_conf(struct mk_agent *agent, struct mk_error *err)
{
	mk_loop_part("configuration");
	return agent_step_conf(agent, err);
}

static void say_mtu_reason(const struct mk_agent *agent, char *text, size_t size)
{
	const struct mk_link *uplink = &agent->node.uplinks.uplink[0].link;

	if (agent->config.mtu_bytes)
		snprintf(text, size, "configured");
	else
		snprintf(text, size, "%s's %u less %d for VXLAN", uplink->name, uplink->mtu_bytes,
			 MK_VXLAN_OVERHEAD_BYTES);
}

/* Interpreted programs work as well, but several times slower. */
static const char *jit_state(const struct mk_agent *agent)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/net/core/bpf_jit_enable", agent->config.proc_sys_dir);
	if (mk_file_read(path, 16, &text, NULL, NULL) < 0)
		return "unknown";
	return *text == '0' ? "off" : "on";
}

/* Log what was found and what follows from it. */
static void say_ready(struct mk_agent *agent)
{
	const struct mk_service_sync *sync = mk_datapath_services(agent->datapath);
	char pods[MK_CIDR_STRLEN], vtep[MK_IP_STRLEN], address[MK_IP_STRLEN], why[64];

	if (agent->ready)
		return;
	agent->ready = true;
	agent->after_lists_ns = mk_time_monotonic_ns() - agent->listed_ns;
	mk_source_ready(agent->source);
	say_mtu_reason(agent, why, sizeof(why));
	mk_log_info(
		"ready node=%s address=%s pods=%s vtep=%s uplink=%s mtu=%u mtuFrom=\"%s\" jit=%s peers=%zu services=%zu frontends=%zu writes=%u afterListsMs=%lu cpuMs=%lu",
		agent->config.node_name, mk_ip_format(&agent->node.internal_ip, address),
		mk_cidr_format(&agent->node.addresses.pod_cidr, pods),
		mk_ip_format(&agent->node.addresses.vtep, vtep),
		agent->node.uplinks.uplink[0].link.name, agent->node.mtu_bytes, why,
		jit_state(agent), agent->plan.peer_count, mk_service_sync_service_count(sync),
		mk_service_sync_frontend_count(sync), agent->writes,
		agent->after_lists_ns / 1000000,
		(mk_time_ns(CLOCK_PROCESS_CPUTIME_ID) - agent->listed_cpu_ns) / 1000000);
}

/* After an error of the node's own step a loaded datapath goes on serving, and Services are still
 * followed. A Service that finds a table full delays nothing else. */
static int run_steps(struct mk_agent *agent, struct mk_error *err)
{
	struct mk_error node_error = { 0 }, plugin_error = { 0 }, full = { 0 };
	int node = agent_step_node(agent, &node_error);
	int ret = 0, plugin = 0;

	if (!agent->datapath) {
		*err = node_error;
		return node;
	}
	if (node == 0)
		ret = step_links(agent, err);
	if (ret == 0 && mk_datapath_moved(agent->datapath))
		ret = step_attach(agent, err);
	if (ret == 0) {
		mk_loop_part("Services");
		ret = agent_step_services(agent, err);
		agent_latency_written(agent);
	}
	if (ret == MK_AGAIN)
		return ret;
	if (ret < 0 && is_full(err)) {
		full = *err;
		ret = 0;
	}
	if (ret == 0)
		ret = step_attach(agent, err);
	if (ret == 0)
		plugin = step_plugin(agent, &plugin_error);
	if (ret == 0)
		ret = step_overlay(agent, err);
	if (ret == 0)
		ret = step_prune(agent, err);
	if (ret == 0)
		agent_health_updated(agent);
	if (ret == 0 && plugin < 0) {
		*err = plugin_error;
		return plugin;
	}
	if (ret == 0)
		ret = step_conf(agent, err);
	if (ret == 0 && node == 0)
		say_ready(agent);
	if (ret == 0 && (node < 0 || full.code)) {
		*err = node < 0 ? node_error : full;
		ret = -err->code;
	}
	return ret;
}

/* The holder usually keeps a lock for milliseconds: no reason for growing pauses. */
static void wait_for_lock(struct mk_agent *agent, const struct mk_error *err)
{
	if (agent->lock_waits++ >= LOCK_QUIET_TRIES)
		(void)agent_wait_for(agent, "a lock: %s", mk_error_text(err));
	agent_schedule(agent, LOCK_RETRY_MS);
}

static void retry_later(struct mk_agent *agent)
{
	agent->backoff_ms = agent->backoff_ms ? agent->backoff_ms * 2 : BACKOFF_FIRST_MS;
	if (agent->backoff_ms > BACKOFF_LAST_MS)
		agent->backoff_ms = BACKOFF_LAST_MS;
	agent_schedule(agent, agent->backoff_ms);
}

/* The answer that brought changes also has a new Date. */
static void see_clock(struct mk_agent *agent)
{
	const struct mk_api_clock *clock = mk_source_clock(agent->source);

	if (clock && clock->earliest_ms != agent->clock_seen_ms)
		agent_see_clock(agent);
}

/* The API server may be away for hours: take care of what the last run left meanwhile. */
static void work_early(struct mk_agent *agent)
{
	struct mk_error err = { 0 };
	int ret;

	if (!agent->remembered || !agent->node_dirty || agent->load.state == MK_LOAD_RUNS)
		return;
	mk_loop_part("node");
	ret = agent_step_node_early(agent, &err);
	if (ret == 0)
		ret = step_attach(agent, &err);
	mk_loop_part(NULL);
	if (ret == -EWOULDBLOCK) {
		wait_for_lock(agent, &err);
		return;
	}
	if (ret == MK_WAIT && agent->load.state == MK_LOAD_RUNS)
		return; /* the end of the load calls this again */
	agent->node_dirty = false;
	agent->lock_waits = 0;
	if (ret < 0)
		mk_log_info("the last run's devices and programs wait for the first list: %s",
			    mk_error_text(&err));
	else if (ret == 0)
		mk_log_debug("the last run's devices, hooks and sessions are looked after");
}

void agent_work(struct mk_agent *agent)
{
	uint64_t began_ns = mk_time_monotonic_ns();
	struct mk_error err = { 0 };
	int ret;

	if (!agent->listed) {
		work_early(agent); /* the first list comes whole: begin with all of it */
		return;
	}
	see_clock(agent);
	mk_loop_part("node");
	ret = run_steps(agent, &err);
	mk_loop_part(NULL);
	mk_histogram_observe(&agent->stats.work, (double)(mk_time_monotonic_ns() - began_ns) / 1e9);
	if (ret == MK_AGAIN) {
		agent_schedule(agent, NEXT_TURN_MS);
		return;
	}
	if (ret == -EWOULDBLOCK) {
		wait_for_lock(agent, &err);
		write_state(agent);
		return;
	}
	if (ret < 0) {
		agent->failed = true;
		agent->stats.work_failures++;
		agent->overlay_dirty = true;
		say_error(agent, &err);
		write_state(agent);
		retry_later(agent);
		return;
	}
	agent->backoff_ms = agent->lock_waits = 0;
	if (ret != MK_WAIT && !agent->node_waits)
		say_fine(agent);
	write_state(agent);
}

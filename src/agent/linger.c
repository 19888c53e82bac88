// SPDX-License-Identifier: Apache-2.0
/* Flows outlive what opened them: a deleted Service, an address or port that it released, a policy,
 * an endpoint. What such flows need is kept as long as the sweep finds them:
 *
 *	frontends_gone	programs look up the session of a connection whose frontend is gone
 *	localhost_port	programs look at what the host sends to loopback, to a port in the range
 *	host_backends	programs look at replies of the host's own network when they leave
 *	VIP routes	the host, and hosts that it forwards for, still send to the datapath
 *
 * The programs' settings outlive the agent. A new agent does not know which flows need them, so it
 * releases nothing before its own sweep has looked. */
#include <stdlib.h>

#include "agent/agent_internal.h"
#include "base/log.h"

/* The route to an address that no Service has any more. */
struct agent_vip {
	struct mk_addr addr;
	struct mk_linger linger;
	UT_hash_handle hh;
};

void agent_settings_forget(struct mk_agent *agent)
{
	agent->host_backends = agent->frontends_gone = (struct agent_setting){ .told = -1 };
	agent->localhost_ports = (struct agent_localhost_ports){ .told = false };
	agent->udp_ports_told = 0;
}

/* ---- settings of the programs ---------------------------------------------------------------- */

int agent_sync_runtime(const struct mk_agent *agent, struct mk_error *err)
{
	const struct mk_runtime_change change = {
		.set_host_backends = agent->host_backends.told >= 0,
		.host_backends = agent->host_backends.told > 0,
		.set_frontends_gone = agent->frontends_gone.told >= 0,
		.frontends_gone = agent->frontends_gone.told > 0,
		.set_localhost_ports = agent->localhost_ports.told,
		.localhost_port_min = agent->localhost_ports.min,
		.localhost_port_max = agent->localhost_ports.max,
		.set_ranges_shared = true,
		.ranges_shared = agent->ranges_shared,
	};

	return mk_datapath_sync_runtime(agent->datapath, &change, err);
}

static int tell(struct mk_agent *agent, struct agent_setting *setting, int value,
		struct mk_error *err)
{
	int before = setting->told, ret;

	if (before == value)
		return 0;
	setting->told = value;
	ret = agent_sync_runtime(agent, err);
	if (ret < 0)
		setting->told = before;
	else
		agent->writes += (unsigned int)ret;
	return ret < 0 ? ret : 0;
}

static bool wants_host_backends(const struct mk_agent *agent)
{
	return mk_service_sync_host_backends(mk_datapath_services(agent->datapath));
}

int agent_tell_host_backends(struct mk_agent *agent, struct mk_error *err)
{
	if (!wants_host_backends(agent))
		return 0; /* a flow may still need it */
	mk_linger_set(&agent->host_backends.linger);
	return tell(agent, &agent->host_backends, 1, err);
}

/* Do not clear the range while a connection may outlive its NodePort. */
int agent_tell_localhost_ports(struct mk_agent *agent, struct mk_error *err)
{
	const struct agent_localhost_ports before = agent->localhost_ports;
	struct agent_localhost_ports now = { .told = true };
	int ret;

	mk_service_sync_localhost_ports(mk_datapath_services(agent->datapath), &now.min, &now.max);
	if (now.max == 0 && agent->frontends_gone.told)
		return 0;
	if (before.told && before.min == now.min && before.max == now.max)
		return 0;
	agent->localhost_ports = now;
	ret = agent_sync_runtime(agent, err);
	if (ret < 0)
		agent->localhost_ports = before;
	else
		agent->writes += (unsigned int)ret;
	return ret < 0 ? ret : 0;
}

int agent_sync_udp_ports(const struct mk_agent *agent, struct mk_error *err)
{
	uint32_t serial;
	const struct mk_port_set *ports =
		mk_service_sync_udp_ports(mk_datapath_services(agent->datapath), &serial);

	return serial ? mk_datapath_add_udp_ports(agent->datapath, ports, err) : 0;
}

int agent_tell_udp_ports(struct mk_agent *agent, struct mk_error *err)
{
	uint32_t serial;
	int ret;

	(void)mk_service_sync_udp_ports(mk_datapath_services(agent->datapath), &serial);
	if (serial == agent->udp_ports_told)
		return 0;
	ret = agent_sync_udp_ports(agent, err);
	if (ret < 0)
		return ret;
	agent->writes += (unsigned int)ret;
	agent->udp_ports_told = serial;
	return 0;
}

int agent_losing(void *ctx, struct mk_error *err)
{
	struct mk_agent *agent = ctx;

	mk_linger_set(&agent->frontends_gone.linger);
	return tell(agent, &agent->frontends_gone, 1, err);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static struct agent_vip *lingering(const struct mk_agent *agent, const struct mk_addr *addr)
{
	struct agent_vip *vip;

	HASH_FIND(hh, agent->lingering, addr, sizeof(*addr), vip);
	return vip;
}

void agent_vip_lingers(struct mk_agent *agent, const struct mk_ip *ip)
{
	struct mk_addr addr = mk_ip_to_addr(ip);
	struct agent_vip *vip = lingering(agent, &addr);

	if (vip) { /* one reference to the route is kept already */
		mk_overlay_vip_put(agent->overlay, ip);
		mk_linger_set(&vip->linger);
		return;
	}
	vip = calloc(1, sizeof(*vip));
	if (!vip) {
		mk_overlay_vip_put(agent->overlay, ip);
		return;
	}
	vip->addr = addr;
	mk_linger_set(&vip->linger);
	HASH_ADD(hh, agent->lingering, addr, sizeof(vip->addr), vip);
}

/* Keep a route of an earlier agent. That agent knew of flows; this one does not before its own
 * sweep has looked. */
void agent_vip_was_left(void *ctx, const struct mk_ip *ip)
{
	struct mk_agent *agent = ctx;
	struct mk_error err = { 0 };

	if (mk_overlay_vip_get(agent->overlay, ip, &err) < 0)
		mk_log_error("cannot keep a Service address's route: %s", mk_error_text(&err));
	else
		agent_vip_lingers(agent, ip);
}

static void let_go(struct mk_agent *agent, struct agent_vip *vip)
{
	struct mk_ip ip = mk_ip_from_addr(&vip->addr);

	mk_overlay_vip_put(agent->overlay, &ip);
	HASH_DEL(agent->lingering, vip);
	free(vip);
	agent->overlay_dirty = true;
	agent_schedule(agent, 0);
}

void agent_lingering_free(struct mk_agent *agent)
{
	struct agent_vip *vip, *next;

	HASH_ITER(hh, agent->lingering, vip, next) {
		HASH_DEL(agent->lingering, vip);
		free(vip);
	}
}

/* A node's own address has a route of its own, which monokube did not create. */
static bool is_node_address(const struct mk_agent *agent, const struct mk_ip *ip)
{
	return mk_ips_contain(agent->node.local, agent->node.local_count, ip) ||
	       mk_model_has_node_address(agent->model, ip);
}

/* An earlier agent may have kept the route, and another process removed it since. */
static void needs_route(struct mk_agent *agent, const struct mk_tuple *key)
{
	struct agent_vip *vip = lingering(agent, &key->daddr);
	struct mk_ip ip = mk_ip_from_addr(&key->daddr);

	if (vip) {
		vip->linger.seen = true;
		return;
	}
	if (is_node_address(agent, &ip))
		return;
	agent_vip_was_left(agent, &ip);
	agent->overlay_dirty = true;
	agent_schedule(agent, 0);
}

/* ---- callbacks of the sweep ------------------------------------------------------------------ */

bool agent_asks_for_flows(const struct mk_agent *agent)
{
	return agent->host_backends.told || agent->frontends_gone.told || agent->lingering;
}

/* Pods' flows need none of this: each of their packets is looked up in the sessions first. */
void agent_flow_stays(struct mk_agent *agent, const struct mk_tuple *key,
		      const struct mk_session *session)
{
	const struct mk_service_sync *sync = mk_datapath_services(agent->datapath);
	struct mk_ip client = mk_ip_from_addr(&key->saddr);

	if (!agent_asks_for_flows(agent) || mk_cidr_contains(&agent->config.cluster_cidr, &client))
		return;
	if (mk_service_sync_session_of_host(sync, key, session))
		agent->host_backends.linger.seen = true;
	if (!mk_service_sync_session_outlives(sync, key, session))
		return;
	agent->frontends_gone.linger.seen = true;
	needs_route(agent, key);
}

static void end_setting(struct mk_agent *agent, struct agent_setting *setting, bool wanted)
{
	bool over = mk_linger_over(&setting->linger, wanted);
	struct mk_error err = { 0 };
	int ret = 0;

	if (over || wanted)
		ret = tell(agent, setting, wanted, &err);
	if (ret < 0)
		mk_log_error("cannot write the settings that flows need to map 'runtime': %s",
			     mk_error_text(&err));
}

void agent_pass_ended(struct mk_agent *agent)
{
	struct agent_vip *vip, *next;
	struct mk_error err = { 0 };

	end_setting(agent, &agent->frontends_gone, false);
	if (agent_tell_localhost_ports(agent, &err) < 0)
		mk_log_error("cannot write the range of NodePorts to map 'runtime': %s",
			     mk_error_text(&err));
	end_setting(agent, &agent->host_backends, wants_host_backends(agent));
	HASH_ITER(hh, agent->lingering, vip, next)
		if (mk_linger_over(&vip->linger, false))
			let_go(agent, vip);
}

bool agent_pass_decides(const struct mk_agent *agent)
{
	const struct agent_vip *vip;

	if ((agent->frontends_gone.told && agent->frontends_gone.linger.quiet == 1) ||
	    (agent->host_backends.told && agent->host_backends.linger.quiet == 1))
		return true;
	for (vip = agent->lingering; vip; vip = vip->hh.next)
		if (vip->linger.quiet == 1)
			return true;
	return false;
}

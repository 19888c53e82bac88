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
#include <string.h>
#include <uthash.h>

#include "agent/linger.h"
#include "base/log.h"

/* The route to an address that no Service has any more. */
struct agent_vip {
	struct mk_addr addr;
	struct mk_linger linger;
	UT_hash_handle hh;
};

void agent_linger_forget(struct agent_linger *linger)
{
	linger->told = (struct mk_runtime_change){ 0 };
	linger->host_backends = linger->frontends_gone = (struct mk_linger){ 0 };
	linger->udp_ports_told = 0;
}

/* ---- settings of the programs ---------------------------------------------------------------- */

static int tell(struct agent_linger *linger, const struct mk_runtime_change *wanted,
		struct mk_error *err)
{
	int ret;

	if (memcmp(wanted, &linger->told, sizeof(*wanted)) == 0)
		return 0;
	ret = mk_datapath_sync_runtime(linger->family->datapath, wanted, err);
	if (ret < 0)
		return ret;
	linger->told = *wanted;
	linger->family->core->writes += (unsigned int)ret;
	return 0;
}

static int tell_host_backends(struct agent_linger *linger, bool value, struct mk_error *err)
{
	struct mk_runtime_change wanted = linger->told;

	wanted.set_host_backends = true;
	wanted.host_backends = value;
	return tell(linger, &wanted, err);
}

static int tell_frontends_gone(struct agent_linger *linger, bool value, struct mk_error *err)
{
	struct mk_runtime_change wanted = linger->told;

	wanted.set_frontends_gone = true;
	wanted.frontends_gone = value;
	return tell(linger, &wanted, err);
}

/* May it be in force, for all that is known? */
static bool has_host_backends(const struct agent_linger *linger)
{
	return !linger->told.set_host_backends || linger->told.host_backends;
}

static bool has_frontends_gone(const struct agent_linger *linger)
{
	return !linger->told.set_frontends_gone || linger->told.frontends_gone;
}

static bool wants_host_backends(const struct agent_linger *linger)
{
	return mk_service_sync_host_backends(mk_datapath_services(linger->family->datapath));
}

/* Do not clear the range while a connection may outlive its NodePort. */
static int tell_localhost_ports(struct agent_linger *linger, struct mk_error *err)
{
	struct mk_runtime_change wanted = linger->told;

	wanted.set_localhost_ports = true;
	mk_service_sync_localhost_ports(mk_datapath_services(linger->family->datapath),
					&wanted.localhost_port_min, &wanted.localhost_port_max);
	if (wanted.localhost_port_max == 0 && has_frontends_gone(linger))
		return 0;
	return tell(linger, &wanted, err);
}

/* @again: another process may have removed ports from the map. Returns 1 if it had not all. */
static int tell_udp_ports(struct agent_linger *linger, bool again, struct mk_error *err)
{
	struct mk_datapath *datapath = linger->family->datapath;
	uint32_t serial;
	const struct mk_port_set *ports =
		mk_service_sync_udp_ports(mk_datapath_services(datapath), &serial);
	int ret;

	if (serial == 0 || (!again && serial == linger->udp_ports_told))
		return 0;
	ret = mk_datapath_add_udp_ports(datapath, ports, err);
	if (ret >= 0)
		linger->udp_ports_told = serial;
	return ret;
}

int agent_linger_tell_services(struct agent_linger *linger, struct mk_error *err)
{
	int ret = tell_localhost_ports(linger, err);

	if (ret == 0)
		ret = tell_udp_ports(linger, false, err);
	if (ret < 0)
		return ret;
	linger->family->core->writes += (unsigned int)ret;
	if (!wants_host_backends(linger))
		return 0; /* a flow may still need the setting */
	mk_linger_set(&linger->host_backends);
	return tell_host_backends(linger, true, err);
}

int agent_linger_tell_node(struct agent_linger *linger, struct mk_error *err)
{
	struct mk_runtime_change wanted = linger->told;

	wanted.set_ranges_shared = true;
	wanted.ranges_shared = linger->own->node->ranges_shared;
	return tell(linger, &wanted, err);
}

int agent_linger_reconcile_runtime(const struct agent_linger *linger, struct mk_error *err)
{
	int ret = mk_datapath_sync_runtime(linger->family->datapath, &linger->told, err);

	if (ret > 0)
		mk_log_warn(
			"a setting of the programs was missing and is back map=runtime host_backends=%d frontends_gone=%d",
			linger->told.host_backends, linger->told.frontends_gone);
	return ret;
}

int agent_linger_reconcile_udp_ports(struct agent_linger *linger, struct mk_error *err)
{
	int ret = linger->udp_ports_told ? tell_udp_ports(linger, true, err) : 0;

	if (ret > 0)
		mk_log_warn("a setting of the programs was missing and is back map=udp_ports");
	return ret;
}

int agent_linger_losing(void *ctx, struct mk_error *err)
{
	struct agent_linger *linger = ctx;

	mk_linger_set(&linger->frontends_gone);
	return tell_frontends_gone(linger, true, err);
}

/* ---- routes ---------------------------------------------------------------------------------- */

static struct agent_vip *find_vip(const struct agent_linger *linger, const struct mk_addr *addr)
{
	struct agent_vip *vip;

	HASH_FIND(hh, linger->vips, addr, sizeof(*addr), vip);
	return vip;
}

void agent_linger_take_vip(struct agent_linger *linger, const struct mk_ip *ip)
{
	struct mk_addr addr = mk_ip_to_addr(ip);
	struct agent_vip *vip = find_vip(linger, &addr);

	if (vip) { /* one reference to the route is kept already */
		mk_overlay_vip_put(linger->family->core->overlay, ip);
		mk_linger_set(&vip->linger);
		return;
	}
	vip = calloc(1, sizeof(*vip));
	if (!vip) {
		mk_overlay_vip_put(linger->family->core->overlay, ip);
		return;
	}
	vip->addr = addr;
	mk_linger_set(&vip->linger);
	HASH_ADD(hh, linger->vips, addr, sizeof(vip->addr), vip);
}

/* Keep a route of an earlier agent. That agent knew of flows; this one does not before its own
 * sweep has looked. */
void agent_linger_vip_was_left(void *ctx, const struct mk_ip *ip)
{
	struct agent_linger *linger = ctx;
	struct mk_error err = { 0 };

	if (mk_overlay_vip_get(linger->family->core->overlay, ip, &err) < 0)
		mk_log_error("cannot keep a Service address's route: %s", mk_error_text(&err));
	else
		agent_linger_take_vip(linger, ip);
}

static void let_go(struct agent_linger *linger, struct agent_vip *vip)
{
	struct mk_ip ip = mk_ip_from_addr(&vip->addr);

	mk_overlay_vip_put(linger->family->core->overlay, &ip);
	HASH_DEL(linger->vips, vip);
	free(vip);
	mk_core_mark(linger->family->core, MK_UNSURE_OVERLAY, 0);
}

void agent_linger_free(struct agent_linger *linger)
{
	struct agent_vip *vip, *next;

	HASH_ITER(hh, linger->vips, vip, next) {
		HASH_DEL(linger->vips, vip);
		free(vip);
	}
}

/* A node's own address has a route of its own, which monokube did not create. */
static bool is_node_address(const struct agent_linger *linger, const struct mk_ip *ip)
{
	return mk_ips_contain(linger->own->local, linger->own->local_count, ip) ||
	       mk_model_has_node_address(linger->family->core->model, ip);
}

/* An earlier agent may have kept the route, and another process removed it since. */
static void needs_route(struct agent_linger *linger, const struct mk_tuple *key)
{
	struct agent_vip *vip = find_vip(linger, &key->daddr);
	struct mk_ip ip = mk_ip_from_addr(&key->daddr);

	if (vip) {
		vip->linger.seen = true;
		return;
	}
	if (is_node_address(linger, &ip))
		return;
	agent_linger_vip_was_left(linger, &ip);
	mk_core_mark(linger->family->core, MK_UNSURE_OVERLAY, 0);
}

/* ---- callbacks of the sweep ------------------------------------------------------------------ */

bool agent_linger_asks(const struct agent_linger *linger)
{
	return has_host_backends(linger) || has_frontends_gone(linger) || linger->vips;
}

/* Pods' flows need none of this: each of their packets is looked up in the sessions first. */
void agent_linger_see_flow(struct agent_linger *linger, const struct mk_tuple *key,
			   const struct mk_session *session)
{
	const struct mk_service_sync *sync = mk_datapath_services(linger->family->datapath);
	struct mk_ip client = mk_ip_from_addr(&key->saddr);

	if (!agent_linger_asks(linger) ||
	    mk_cidr_contains(mk_config_cluster(&linger->family->core->config,
					       linger->family->family),
			     &client))
		return;
	if (mk_service_sync_session_of_host(sync, key, session))
		linger->host_backends.seen = true;
	if (!mk_service_sync_session_outlives(sync, key, session))
		return;
	linger->frontends_gone.seen = true;
	needs_route(linger, key);
}

static void end_setting(struct agent_linger *linger, struct mk_linger *needed, bool wanted,
			int (*tell_it)(struct agent_linger *linger, bool value,
				       struct mk_error *err))
{
	bool over = mk_linger_over(needed, wanted);
	struct mk_error err = { 0 };

	if ((over || wanted) && tell_it(linger, wanted, &err) < 0)
		mk_log_error("cannot write the settings that flows need to map 'runtime': %s",
			     mk_error_text(&err));
}

void agent_linger_pass_ended(struct agent_linger *linger)
{
	struct agent_vip *vip, *next;
	struct mk_error err = { 0 };

	end_setting(linger, &linger->frontends_gone, false, tell_frontends_gone);
	if (tell_localhost_ports(linger, &err) < 0)
		mk_log_error("cannot write the range of NodePorts to map 'runtime': %s",
			     mk_error_text(&err));
	end_setting(linger, &linger->host_backends, wants_host_backends(linger),
		    tell_host_backends);
	HASH_ITER(hh, linger->vips, vip, next)
		if (mk_linger_over(&vip->linger, false))
			let_go(linger, vip);
}

bool agent_linger_decides(const struct agent_linger *linger)
{
	const struct agent_vip *vip;

	if ((has_frontends_gone(linger) && linger->frontends_gone.quiet == 1) ||
	    (has_host_backends(linger) && linger->host_backends.quiet == 1))
		return true;
	for (vip = linger->vips; vip; vip = vip->hh.next)
		if (vip->linger.quiet == 1)
			return true;
	return false;
}

// SPDX-License-Identifier: Apache-2.0
/* Services: which are dirty, and for each the steps from the model to tables and routes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "agent/agent_internal.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"

/* ---- records --------------------------------------------------------------------------------- */

static struct agent_service *find(struct mk_agent *agent, const char *key)
{
	struct agent_service *service;

	HASH_FIND_STR(agent->services, key, service);
	return service;
}

static void forget(struct mk_agent *agent, struct agent_service *service)
{
	HASH_DEL(agent->services, service);
	free(service->key);
	free(service->namespace_);
	free(service->name);
	free(service->vips);
	free(service);
}

static struct agent_service *create(struct mk_agent *agent, const char *namespace_,
				    const char *name)
{
	struct agent_service *service = calloc(1, sizeof(*service));

	if (!service)
		return NULL;
	if (asprintf(&service->key, "%s/%s", namespace_, name) < 0)
		service->key = NULL;
	service->namespace_ = strdup(namespace_);
	service->name = strdup(name);
	if (!service->key || !service->namespace_ || !service->name) {
		free(service->key);
		free(service->namespace_);
		free(service->name);
		free(service);
		return NULL;
	}
	HASH_ADD_KEYPTR(hh, agent->services, service->key, strlen(service->key), service);
	return service;
}

static void mark(struct mk_agent *agent, struct agent_service *service)
{
	service->tried = 0;
	agent->round.gone_done = false;
	if (service->dirty)
		return;
	service->dirty = true;
	DL_APPEND(agent->dirty, service);
}

static void done(struct mk_agent *agent, struct agent_service *service)
{
	if (!service->dirty)
		return;
	service->dirty = false;
	DL_DELETE(agent->dirty, service);
}

void agent_service_dirty(struct mk_agent *agent, const char *namespace_, const char *name)
{
	struct agent_service *service = NULL;
	char key[512];

	if (snprintf(key, sizeof(key), "%s/%s", namespace_, name) < (int)sizeof(key))
		service = find(agent, key);
	if (!service)
		service = create(agent, namespace_, name);
	if (service)
		mark(agent, service);
	else
		mk_log_error("out of memory, a change is lost service=%s/%s", namespace_, name);
}

void agent_service_again(struct mk_agent *agent, const char *key)
{
	struct agent_service *service = find(agent, key);

	if (service)
		mark(agent, service);
}

void agent_all_services_dirty(struct mk_agent *agent)
{
	struct agent_service *service, *next;

	HASH_ITER(hh, agent->services, service, next)
		mark(agent, service);
}

bool agent_service_is_dirty(struct mk_agent *agent, const char *key)
{
	const struct agent_service *service = agent->dirty ? find(agent, key) : NULL;

	return service && service->dirty;
}

static void mark_external(void *ctx, const struct mk_service_object *service)
{
	if (service->external_ip_count || service->load_balancer_ip_count)
		agent_service_dirty(ctx, service->namespace_, service->name);
}

/* Nodes' addresses changed: check Services with external addresses again. A Service gets ports of a
 * node's address, never the whole address. */
static void recheck_vips(struct mk_agent *agent)
{
	if (agent->vips_dirty)
		mk_model_each_service(agent->model, mark_external, agent);
	agent->vips_dirty = false;
}

void agent_services_free(struct mk_agent *agent)
{
	struct agent_service *service, *next;

	HASH_ITER(hh, agent->services, service, next)
		forget(agent, service);
}

/* ---- addresses with routes ------------------------------------------------------------------- */

/* A Service's own addresses are those of its frontends without a port; a node's address never
 * is. */
static int collect_vips(const struct mk_compiled_service *compiled, struct mk_ip **vips,
			size_t *count, struct mk_error *err)
{
	size_t room = 1, used = 0;
	struct mk_ip *list;

	for (size_t i = 0; i < compiled->set_count; i++)
		room += compiled->sets[i].frontend_count;
	list = calloc(room, sizeof(*list));
	if (!list)
		return mk_error_errno(err, ENOMEM, "Service '%s/%s'", compiled->namespace_,
				      compiled->name);
	for (size_t i = 0; i < compiled->set_count; i++)
		for (size_t j = 0; j < compiled->sets[i].frontend_count; j++)
			if (compiled->sets[i].frontends[j].port == 0)
				list[used++] = compiled->sets[i].frontends[j].ip;
	mk_ips_sort(list, &used);
	*vips = list;
	*count = used;
	return 0;
}

static void give_up_vip(struct mk_agent *agent, const struct mk_ip *vip, const struct mk_ip *kept,
			size_t count)
{
	if (count && bsearch(vip, kept, count, sizeof(*kept), mk_ip_compare))
		mk_overlay_vip_put(agent->overlay, vip);
	else
		agent_vip_lingers(agent, vip);
}

/* Add the new references first: an address in both lists keeps its route. */
static int replace_vips(struct mk_agent *agent, struct agent_service *service,
			const struct mk_compiled_service *compiled, struct mk_error *err)
{
	struct mk_ip *vips = NULL;
	size_t count = 0;
	int ret = collect_vips(compiled, &vips, &count, err);

	if (ret < 0)
		return ret;
	for (size_t i = 0; i < count; i++) {
		ret = mk_overlay_vip_get(agent->overlay, &vips[i], err);
		if (ret < 0) {
			while (i-- > 0)
				mk_overlay_vip_put(agent->overlay, &vips[i]);
			free(vips);
			return ret;
		}
	}
	for (size_t i = 0; i < service->vip_count; i++)
		give_up_vip(agent, &service->vips[i], vips, count);
	if (!mk_ips_equal(service->vips, service->vip_count, vips, count))
		agent->overlay_dirty = true;
	free(service->vips);
	service->vips = vips;
	service->vip_count = count;
	return 0;
}

/* ---- one Service ----------------------------------------------------------------------------- */

static int apply_compiled(struct mk_agent *agent, struct agent_service *service,
			  const struct mk_compiled_service *compiled, struct mk_error *err)
{
	struct mk_service_sync *sync = mk_datapath_services(agent->datapath);
	struct mk_service_counts counts = { 0 };
	int ret = mk_service_sync_apply(sync, compiled, mk_time_monotonic_ns(), &counts, err);

	agent->writes += counts.put + counts.deleted;
	if (counts.put || counts.deleted)
		mk_log_debug("Service applied service=%s put=%u deleted=%u", service->key,
			     counts.put, counts.deleted);
	if (counts.cut)
		agent_sweep_now(agent);
	return ret < 0 ? ret : replace_vips(agent, service, compiled, err);
}

uint16_t agent_odd_node_port(const struct mk_config *config,
			     const struct mk_service_object *service)
{
	for (size_t i = 0; service && i < service->port_count; i++) {
		uint16_t port = service->ports[i].node_port;

		if (port && (port < config->node_port_min || port > config->node_port_max))
			return port;
	}
	return 0;
}

/* Log a NodePort outside the range, once per Service and port. It is served nevertheless: the API
 * server chose it. */
static void say_odd_node_port(const struct mk_agent *agent, struct agent_service *service)
{
	uint16_t port = agent_odd_node_port(
		&agent->config, mk_model_service(agent->model, service->namespace_, service->name));

	if (port && port != service->odd_node_port)
		mk_log_warn(
			"Service '%s' has NodePort %u outside nodePortRange '%u-%u': it is served, but the host's own connections may use that port; set nodePortRange to the API server's --service-node-port-range",
			service->key, port, agent->config.node_port_min,
			agent->config.node_port_max);
	service->odd_node_port = port;
}

static int apply(struct mk_agent *agent, struct agent_service *service, struct mk_error *err)
{
	struct mk_service_view view = {
		.node_name = agent->config.node_name,
		.zone = agent->node.zone,
		.node_addresses = agent->node.service_ips,
		.node_address_count = agent->node.service_ip_count,
		.local_weight = agent->config.local_endpoint_weight,
		.maglev_slots = agent->config.maglev_slots,
		.masquerade_all = agent->config.masquerade_all,
		.localhost_node_ports = agent_localhost_node_ports(&agent->config),
	};
	struct mk_compiled_service compiled;
	int ret = mk_service_compile(agent->model, &view, service->namespace_, service->name,
				     &compiled, err);

	if (ret < 0)
		return mk_error_wrap(err, "Service '%s'", service->key);
	say_odd_node_port(agent, service);
	ret = apply_compiled(agent, service, &compiled, err);
	if (ret == 0)
		agent_health_service(agent, service->key, &compiled);
	mk_compiled_service_release(&compiled);
	return ret;
}

static bool exists(const struct mk_agent *agent, const struct agent_service *service)
{
	return mk_model_service(agent->model, service->namespace_, service->name) != NULL;
}

/* Log endpoints without a Service: it never existed, or its name is misspelled. A deleted Service
 * may leave its endpoints behind for a moment, which is not logged. */
static void tell_orphans(const struct mk_agent *agent, const struct agent_service *service)
{
	cleanup_free const struct mk_endpoint **endpoints = NULL;
	size_t count = 0;

	if (service->was_there || !agent->complete)
		return;
	if (mk_model_endpoints(agent->model, service->namespace_, service->name, &endpoints,
			       &count) == 0 &&
	    count > 0)
		mk_log_info(
			"ignored: endpoints of a Service that does not exist service=%s endpoints=%zu",
			service->key, count);
}

/* A Service that fails stays dirty and does not delay the others. */
static void apply_one(struct mk_agent *agent, struct agent_service *service)
{
	struct agent_round *round = &agent->round;
	bool existing = exists(agent, service);
	struct mk_error why = { 0 };
	int ret = apply(agent, service, &why);

	if (ret < 0) {
		service->tried = round->number;
		if (round->status == 0) {
			round->status = ret;
			round->err = why;
		}
		return;
	}
	done(agent, service);
	service->was_there |= existing;
	if (existing)
		return;
	tell_orphans(agent, service);
	forget(agent, service);
}

/* Apply all dirty Services that are (not) in the model. Returns MK_AGAIN if the turn's time is
 * over. */
static int apply_dirty(struct mk_agent *agent, bool existing, uint64_t until_ns)
{
	struct agent_service *service, *next;

	DL_FOREACH_SAFE(agent->dirty, service, next)
	{
		if (service->tried == agent->round.number || exists(agent, service) != existing)
			continue;
		apply_one(agent, service);
		if (mk_time_monotonic_ns() >= until_ns)
			return MK_AGAIN;
	}
	return 0;
}

/* Mark Services that lost a frontend to another Service, which has now released it. */
static bool mark_retries(struct mk_agent *agent)
{
	struct mk_service_sync *sync = mk_datapath_services(agent->datapath);
	char *namespace_, *name;
	bool some = false;

	while (mk_service_sync_take_retry(sync, &namespace_, &name)) {
		agent_service_dirty(agent, namespace_, name);
		free(namespace_);
		free(name);
		some = true;
	}
	return some;
}

/* Apply removed Services first: another Service may want what they held. */
static int apply_for_a_turn(struct mk_agent *agent)
{
	uint64_t until_ns = mk_time_monotonic_ns() + MK_TURN_NS;
	struct agent_round *round = &agent->round;
	int ret;

	do {
		ret = round->gone_done ? 0 : apply_dirty(agent, false, until_ns);
		if (ret == 0)
			round->gone_done = true;
		if (ret == 0)
			ret = apply_dirty(agent, true, until_ns);
	} while (ret == 0 && mark_retries(agent) && round->status == 0);
	return ret;
}

static int tell_programs(struct mk_agent *agent, bool failed, struct mk_error *err)
{
	struct mk_error unsaid = { 0 };
	/* write the other Services' settings although one failed, whose error is kept */
	int ret = agent_tell_localhost_ports(agent, failed ? &unsaid : err);

	if (ret == 0)
		ret = agent_tell_udp_ports(agent, failed ? &unsaid : err);
	if (ret == 0)
		ret = agent_tell_host_backends(agent, failed ? &unsaid : err);
	agent->round.untold = ret < 0;
	return ret;
}

int agent_step_services(struct mk_agent *agent, struct mk_error *err)
{
	struct agent_round *round = &agent->round;
	int status, ret;

	recheck_vips(agent);
	if (!agent->dirty && !round->untold)
		return 0;
	if (round->number == 0)
		round->number = 1;
	round->untold = true;
	if (apply_for_a_turn(agent) == MK_AGAIN)
		return MK_AGAIN;
	status = round->status;
	if (status < 0)
		*err = round->err;
	round->number++;
	round->status = 0;
	agent_names_soon(agent);
	ret = tell_programs(agent, status < 0, err);
	return status < 0 ? status : ret;
}

// SPDX-License-Identifier: Apache-2.0
#include "agent/service_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"
#include "datapath/services/names.h"

/* ---- records --------------------------------------------------------------------------------- */

static struct agent_service *find(const struct agent_services *services, const char *key)
{
	struct agent_service *service;

	HASH_FIND_STR(services->all, key, service);
	return service;
}

static void forget(struct agent_services *services, struct agent_service *service)
{
	HASH_DEL(services->all, service);
	free(service->vips);
	free(service);
}

static struct agent_service *create(struct agent_services *services, const char *namespace_,
				    const char *name)
{
	size_t bytes = strlen(namespace_) + strlen(name) + 2;
	struct agent_service *service = calloc(1, sizeof(*service) + 2 * bytes);

	if (!service)
		return NULL;
	service->namespace_ = service->key + bytes;
	service->name = service->namespace_ + strlen(namespace_) + 1;
	snprintf(service->key, bytes, "%s/%s", namespace_, name);
	memcpy(service->namespace_, service->key, bytes);
	service->name[-1] = '\0';
	HASH_ADD_STR(services->all, key, service);
	return service;
}

static void mark(struct agent_services *services, struct agent_service *service)
{
	service->tried = 0;
	services->round.gone_done = false;
	if (service->dirty)
		return;
	service->dirty = true;
	DL_APPEND(services->dirty, service);
}

void agent_service_dirty(struct agent_services *services, const char *namespace_, const char *name)
{
	struct agent_service *service = NULL;
	char key[512];

	if (snprintf(key, sizeof(key), "%s/%s", namespace_, name) < (int)sizeof(key))
		service = find(services, key);
	if (!service)
		service = create(services, namespace_, name);
	if (service)
		mark(services, service);
	else
		mk_log_error("out of memory, a change is lost service=%s/%s", namespace_, name);
}

/* Mark the Service "namespace/name" dirty, if it is known. @ctx is a struct agent_services. */
static void agent_service_again(void *ctx, const char *key)
{
	struct agent_services *services = ctx;
	struct agent_service *service = find(services, key);

	if (service)
		mark(services, service);
}

static void mark_all(struct agent_services *services)
{
	struct agent_service *service, *next;

	HASH_ITER(hh, services->all, service, next)
		mark(services, service);
}

bool agent_service_is_dirty(const struct agent_services *services, const char *key)
{
	const struct agent_service *service = services->dirty ? find(services, key) : NULL;

	return service && service->dirty;
}

/* Nodes' addresses changed: check Services with external addresses again. A Service gets ports of a
 * node's address, never the whole address. */
static void recheck_vips(struct agent_services *services)
{
	if (!services->vips_dirty)
		return;
	services->vips_dirty = false;
	mk_model_each(struct mk_service_object, of, services->core->model, MK_KIND_SERVICE)
		if (of->external_ip_count || of->load_balancer_ip_count)
			agent_service_dirty(services, of->namespace_, of->name);
}

void agent_services_free(struct agent_services *services)
{
	struct agent_service *service, *next;

	HASH_ITER(hh, services->all, service, next)
		forget(services, service);
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
		for (size_t j = 0; j < compiled->sets[i].frontend_count; j++)
			room += compiled->sets[i].frontends[j].port == 0;
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

static void give_up_vip(struct agent_services *services, const struct mk_ip *vip,
			const struct mk_ip *kept, size_t count)
{
	if (mk_find(vip, kept, count, mk_ip_compare))
		mk_overlay_vip_put(services->core->overlay, vip);
	else
		agent_linger_take_vip(services->linger, vip);
}

/* Add the new references first: an address in both lists keeps its route. */
static int replace_vips(struct agent_services *services, struct agent_service *service,
			const struct mk_compiled_service *compiled, struct mk_error *err)
{
	struct mk_ip *vips = NULL;
	size_t count = 0;
	int ret = collect_vips(compiled, &vips, &count, err);

	if (ret < 0)
		return ret;
	for (size_t i = 0; i < count; i++) {
		ret = mk_overlay_vip_get(services->core->overlay, &vips[i], err);
		if (ret < 0) {
			while (i-- > 0)
				mk_overlay_vip_put(services->core->overlay, &vips[i]);
			free(vips);
			return ret;
		}
	}
	for (size_t i = 0; i < service->vip_count; i++)
		give_up_vip(services, &service->vips[i], vips, count);
	if (!mk_ips_equal(service->vips, service->vip_count, vips, count))
		services->core->unsure |= MK_UNSURE_OVERLAY;
	free(service->vips);
	service->vips = vips;
	service->vip_count = count;
	return 0;
}

/* ---- one Service ----------------------------------------------------------------------------- */

static int apply_compiled(struct agent_services *services, struct agent_service *service,
			  const struct mk_compiled_service *compiled, struct mk_error *err)
{
	struct mk_service_sync *sync = mk_datapath_services(services->family->datapath);
	struct mk_service_counts counts = { 0 };
	int ret = mk_service_sync_apply(sync, compiled, mk_time_monotonic_ns(), &counts, err);

	services->core->writes += counts.put + counts.deleted;
	if (counts.put || counts.deleted)
		mk_log_debug("Service applied service=%s put=%u deleted=%u", service->key,
			     counts.put, counts.deleted);
	if (counts.cut)
		agent_sessions_sweep_now(services->sessions);
	return ret < 0 ? ret : replace_vips(services, service, compiled, err);
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
static void say_odd_node_port(const struct agent_services *services, struct agent_service *service)
{
	uint16_t port = agent_odd_node_port(&services->core->config,
					    mk_model_service(services->core->model,
							     service->namespace_, service->name));

	if (port && port != service->odd_node_port)
		mk_log_warn(
			"Service '%s' has NodePort %u outside nodePortRange '%u-%u': it is served, but the host's own connections may use that port; set nodePortRange to the API server's --service-node-port-range",
			service->key, port, services->core->config.node_port_min,
			services->core->config.node_port_max);
	service->odd_node_port = port;
}

static int apply(struct agent_services *services, struct agent_service *service,
		 struct mk_error *err)
{
	struct mk_service_view view = mk_own_family_view(services->own);
	struct mk_compiled_service compiled;
	int ret = mk_service_compile(services->core->model, &view, service->namespace_,
				     service->name, &compiled, err);

	if (ret < 0)
		return mk_error_wrap(err, "Service '%s'", service->key);
	if (services->says)
		say_odd_node_port(services, service);
	ret = apply_compiled(services, service, &compiled, err);
	if (ret == 0)
		agent_health_service(services->health, services->family->family, service->key,
				     &compiled);
	mk_compiled_service_release(&compiled);
	return ret;
}

static bool exists(const struct agent_services *services, const struct agent_service *service)
{
	return mk_model_service(services->core->model, service->namespace_, service->name) != NULL;
}

/* Log endpoints without a Service: it never existed, or its name is misspelled. A deleted Service
 * may leave its endpoints behind for a moment, which is not logged. */
static void tell_orphans(const struct agent_services *services, const struct agent_service *service)
{
	cleanup_free const struct mk_endpoint **endpoints = NULL;
	size_t count = 0;

	if (service->was_there || !services->core->complete || !services->says)
		return;
	if (mk_model_endpoints(services->core->model, service->namespace_, service->name, AF_UNSPEC,
			       &endpoints, &count) == 0 &&
	    count > 0)
		mk_log_info(
			"ignored: endpoints of a Service that does not exist service=%s endpoints=%zu",
			service->key, count);
}

/* A Service that fails stays dirty and does not delay the others. */
static void apply_one(struct agent_services *services, struct agent_service *service)
{
	struct agent_round *round = &services->round;
	bool existing = exists(services, service);
	struct mk_error why = { 0 };
	int ret = apply(services, service, &why);

	if (ret < 0) {
		service->tried = round->number;
		if (round->status == 0) {
			round->status = ret;
			round->err = why;
		}
		return;
	}
	service->dirty = false;
	DL_DELETE(services->dirty, service);
	service->was_there |= existing;
	if (existing)
		return;
	tell_orphans(services, service);
	forget(services, service);
}

/* Apply all dirty Services that are (not) in the model. Returns MK_AGAIN if the turn's time is
 * over. */
static int apply_dirty(struct agent_services *services, bool existing, uint64_t until_ns)
{
	struct agent_service *service, *next;

	DL_FOREACH_SAFE(services->dirty, service, next) {
		if (service->tried == services->round.number ||
		    exists(services, service) != existing)
			continue;
		apply_one(services, service);
		if (mk_time_monotonic_ns() >= until_ns)
			return MK_AGAIN;
	}
	return 0;
}

/* Mark Services that lost a frontend to another Service, which has now released it. */
static bool mark_retries(struct agent_services *services)
{
	struct mk_service_sync *sync = mk_datapath_services(services->family->datapath);
	char *namespace_, *name;
	bool some = false;

	while (mk_service_sync_take_retry(sync, &namespace_, &name)) {
		agent_service_dirty(services, namespace_, name);
		free(namespace_);
		free(name);
		some = true;
	}
	return some;
}

/* Apply removed Services first: another Service may want what they held. */
static int apply_for_a_turn(struct agent_services *services)
{
	uint64_t until_ns = mk_time_monotonic_ns() + MK_TURN_NS;
	struct agent_round *round = &services->round;
	int ret;

	do {
		ret = round->gone_done ? 0 : apply_dirty(services, false, until_ns);
		if (ret == 0)
			round->gone_done = true;
		if (ret == 0)
			ret = apply_dirty(services, true, until_ns);
	} while (ret == 0 && mark_retries(services) && round->status == 0);
	return ret;
}

/* Write the other Services' settings although one failed, whose error is kept. */
static int tell_programs(struct agent_services *services, bool failed, struct mk_error *err)
{
	struct mk_error unsaid = { 0 };
	int ret = agent_linger_tell_services(services->linger, failed ? &unsaid : err);

	services->round.untold = ret < 0;
	return ret;
}

/* A new datapath knows of no Service, and a node that changed sees all of them differently. */
static void see_changes(struct agent_services *services)
{
	if (services->loads != services->family->loads) {
		agent_linger_forget(services->linger);
		mk_service_sync_on_loss(mk_datapath_services(services->family->datapath),
					agent_linger_losing, services->linger);
		services->names_serial = services->names_wanted = 0;
		mark_all(services);
	} else if (services->view_changes != services->own->node->view_changes) {
		mark_all(services);
	}
	services->loads = services->family->loads;
	services->view_changes = services->own->node->view_changes;
	recheck_vips(services);
}

int agent_services_reconcile(struct agent_services *services, struct mk_error *err)
{
	struct agent_round *round = &services->round;
	int status, ret;

	see_changes(services);
	ret = agent_linger_tell_node(services->linger, err);
	if (ret < 0 || (!services->dirty && !round->untold))
		return ret;
	if (round->number == 0)
		round->number = 1;
	round->untold = true;
	if (apply_for_a_turn(services) == MK_AGAIN)
		return MK_AGAIN;
	status = round->status;
	if (status < 0)
		*err = round->err;
	round->number++;
	round->status = 0;
	services->names_wanted =
		mk_service_sync_names_serial(mk_datapath_services(services->family->datapath));
	ret = tell_programs(services, status < 0, err);
	return status < 0 ? status : ret;
}

int agent_services_reconcile_tables(struct agent_services *services, size_t budget,
				    struct mk_error *err)
{
	int ret = mk_service_sync_reconcile(mk_datapath_services(services->family->datapath),
					    budget, agent_service_again, services, err);

	if (services->dirty)
		mk_core_schedule(services->core, 0);
	return ret;
}

/* Runs later than the turn that learned of the Services: many come together. */
int agent_services_reconcile_names(struct agent_services *services, struct mk_error *err)
{
	const struct mk_service_sync *sync = mk_datapath_services(services->family->datapath);
	if (services->names_wanted == services->names_serial)
		return 0;
	services->names_serial = services->names_wanted = mk_service_sync_names_serial(sync);
	return mk_names_write(services->core->config.state_dir, services->family->family, sync,
			      err);
}

/* ---- metrics --------------------------------------------------------------------------------- */

void agent_services_read(const struct agent_services *services, struct mk_metrics *metrics,
			 struct mk_metrics_family *family)
{
	const struct agent_service *service;
	const struct mk_service_sync *sync;
	uint64_t waiting;

	DL_COUNT(services->dirty, service, waiting);
	if (waiting > metrics->services_waiting) /* most wait in both families */
		metrics->services_waiting = waiting;
	if (!services->family->datapath)
		return;
	sync = mk_datapath_services(services->family->datapath);
	if (mk_service_sync_service_count(sync) > metrics->services)
		metrics->services = mk_service_sync_service_count(sync);
	family->frontends = mk_service_sync_frontend_count(sync);
	family->backends = mk_service_sync_backend_count(sync);
}

int agent_services_read_traffic(const struct agent_services *services,
				struct agent_service_traffic *traffic, struct mk_error *err)
{
	const struct mk_datapath *datapath = services->family->datapath;

	*traffic = (struct agent_service_traffic){ .services = services };
	if (!datapath)
		return 0;
	return mk_counters_read(mk_datapath_counters(datapath), &traffic->totals, &traffic->count,
				err);
}

static struct mk_service_totals *totals_of(const struct agent_service_traffic *traffic,
					   const char *key)
{
	const struct mk_datapath *datapath = traffic->services->family->datapath;
	uint32_t id = datapath ? mk_service_sync_id(mk_datapath_services(datapath), key) : 0;

	return (struct mk_service_totals *)mk_counters_find(traffic->totals, traffic->count, id);
}

int agent_services_list(const struct agent_service_traffic traffic[MK_FAMILIES],
			struct mk_metrics *metrics, struct mk_error *err)
{
	size_t room = HASH_COUNT(traffic[0].services->all) + HASH_COUNT(traffic[1].services->all);
	const struct agent_service *service;

	metrics->per_service = calloc(room + 1, sizeof(*metrics->per_service));
	if (!metrics->per_service)
		return mk_error_errno(err, ENOMEM, "metrics of Services");
	for (size_t i = 0; i < MK_FAMILIES; i++)
		for (service = traffic[i].services->all; service; service = service->hh.next) {
			const struct mk_service_totals *found =
				totals_of(&traffic[i], service->key);
			struct mk_service_totals *before =
				i ? totals_of(&traffic[0], service->key) : NULL;

			if (found && before)
				mk_counters_add(before, found);
			else if (found)
				metrics->per_service[metrics->per_service_count++] =
					(struct mk_metrics_service){ service->namespace_,
								     service->name, found };
		}
	return 0;
}

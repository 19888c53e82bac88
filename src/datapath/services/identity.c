// SPDX-License-Identifier: Apache-2.0
/* Identities that a Service and its ports keep over all changes and restarts of the agent:
 * service_id, source ranges, and affinity of each port. Those that an earlier agent assigned are
 * read from the frontends. */
#include <arpa/inet.h>
#include <string.h>

#include "datapath/services/services_internal.h"

struct mk_frontend_key sync_key(const struct mk_wanted_frontend *frontend)
{
	return (struct mk_frontend_key){
		.addr = mk_ip_to_addr(&frontend->ip),
		.port = htons(frontend->port),
		.proto = frontend->proto,
		.scope = frontend->scope,
	};
}

/* ---- service_id --------------------------------------------------------------------------- */

/* Return the service_id in the Service's frontends that an earlier agent wrote, or 0. */
static uint32_t former_account(const struct apply *apply,
			       const struct mk_compiled_service *compiled)
{
	for (size_t i = 0; apply->sync->recovered && i < compiled->set_count; i++)
		for (size_t j = 0; j < compiled->sets[i].frontend_count; j++) {
			struct mk_frontend_key key = sync_key(&compiled->sets[i].frontends[j]);
			struct frontend *frontend = sync_frontend(apply->sync, &key);

			/* skip port 0: Services may share an address */
			if (frontend && !frontend->owner && key.port != 0 &&
			    sync_take_id(apply->sync, frontend->value.service_id))
				return frontend->value.service_id;
		}
	return 0;
}

void sync_give_id(const struct apply *apply, const struct mk_compiled_service *compiled)
{
	struct service *service = apply->service;

	if (service->service_id || compiled->set_count == 0)
		return;
	service->service_id = former_account(apply, compiled);
	if (service->service_id == 0)
		service->service_id = sync_new_id(apply->sync);
	apply->sync->names_serial++;
}

/* ---- source ranges ------------------------------------------------------------------------- */

/* Return the ranges that an earlier agent wrote for the Service, or NULL. */
static struct ranges *former_ranges(const struct apply *apply,
				    const struct mk_compiled_service *compiled)
{
	for (size_t i = 0; i < compiled->set_count; i++)
		for (size_t j = 0; j < compiled->sets[i].frontend_count; j++) {
			struct mk_frontend_key key = sync_key(&compiled->sets[i].frontends[j]);
			struct frontend *frontend = sync_frontend(apply->sync, &key);

			if (frontend && !frontend->owner && frontend->value.ranges_id)
				return sync_ranges_take(apply->sync, frontend->value.ranges_id);
		}
	return NULL;
}

int sync_give_ranges(const struct apply *apply, const struct mk_compiled_service *compiled)
{
	struct service *service = apply->service;
	struct ranges *ranges = NULL;
	int ret;

	if (!service->ranges && apply->sync->recovered_ranges)
		service->ranges = former_ranges(apply, compiled);
	if (sync_ranges_are(service->ranges, compiled->ranges, compiled->range_count))
		return 0;
	if (compiled->range_count > 0) {
		ret = sync_ranges_write(apply->sync, compiled->ranges, compiled->range_count,
					&ranges, apply->counts, apply->err);
		if (ret < 0) { /* incomplete and not used yet: may be removed at once */
			sync_ranges_retire(apply->sync, ranges, 0);
			return ret;
		}
	}
	if (service->ranges)
		LL_APPEND(service->retiring_ranges, service->ranges);
	service->ranges = ranges;
	return 0;
}

/* ---- affinity -------------------------------------------------------------------------------- */

bool sync_same_port(const struct mk_backend_set *a, const struct mk_backend_set *b)
{
	return a->port_name && b->port_name && strcmp(a->port_name, b->port_name) == 0;
}

/* Has this apply assigned @affinity_id to another port already? Then that port's NodePorts name
 * it. */
static bool is_given(const struct apply *apply, uint32_t affinity_id)
{
	const struct set *set;

	DL_FOREACH(apply->service->sets, set)
		if (set->used_in == apply->sync->serial && set->affinity_id == affinity_id)
			return true;
	return false;
}

static bool may_take_affinity(const struct apply *apply, const struct frontend *frontend)
{
	uint32_t id = frontend->value.affinity_id;

	if (frontend->key.port == 0 || id == 0)
		return false;
	if (frontend->owner)
		return frontend->owner == apply->service && !is_given(apply, id);
	return sync_take_id(apply->sync, id);
}

/* Return the affinity id in the frontends of @compiled's port, or 0. */
static uint32_t former_affinity(const struct apply *apply, const struct mk_backend_set *compiled,
				size_t count)
{
	for (size_t i = 0; i < count && (i == 0 || sync_same_port(&compiled[0], &compiled[i])); i++)
		for (size_t j = 0; j < compiled[i].frontend_count; j++) {
			struct mk_frontend_key key = sync_key(&compiled[i].frontends[j]);
			const struct frontend *frontend = sync_frontend(apply->sync, &key);

			if (frontend && may_take_affinity(apply, frontend))
				return frontend->value.affinity_id;
		}
	return 0;
}

uint32_t sync_port_affinity(const struct apply *apply, const struct mk_backend_set *compiled,
			    size_t count)
{
	uint32_t id;

	if (apply->affinity_timeout_s == 0)
		return 0;
	id = former_affinity(apply, compiled, count);
	return id ? id : sync_new_id(apply->sync);
}

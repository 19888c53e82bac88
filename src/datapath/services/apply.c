// SPDX-License-Identifier: Apache-2.0
/* Apply one compiled Service to the tables. Each record in memory is changed right after its map
 * entry, so that an apply that failed halfway can be repeated. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "datapath/services/services_internal.h"

static bool is_free_for(const struct apply *apply, const struct frontend *frontend)
{
	return !frontend || !frontend->owner || frontend->owner == apply->service;
}

/* May the Service take the frontend? A Service's own address takes precedence over another
 * Service's node port, whichever came first. */
static bool may_take(const struct apply *apply, const struct frontend *frontend, bool node_port)
{
	return is_free_for(apply, frontend) || (frontend->node_port && !node_port);
}

/* ---- ids of sets -------------------------------------------------------------------------- */

/* Return the set that @compiled had before: the set that its frontends name, unless another part of
 * this apply or another Service uses it. */
static struct set *former_set(const struct apply *apply, const struct mk_backend_set *compiled)
{
	for (size_t i = 0; i < compiled->frontend_count; i++) {
		struct mk_frontend_key key = sync_key(&compiled->frontends[i]);
		struct frontend *frontend = sync_frontend(apply->sync, &key);
		struct set *set;

		/* skip port 0: such an address may come from any set of the Service */
		if (!frontend || key.port == 0 || !is_free_for(apply, frontend))
			continue;
		set = sync_set(apply->sync, frontend->value.set_id);
		if (set && set->used_in != apply->sync->serial &&
		    (!set->owner || set->owner == apply->service))
			return set;
	}
	return NULL;
}

static struct set *new_set(const struct apply *apply)
{
	struct set *set = sync_set_new(apply->sync, sync_new_id(apply->sync), 0);

	if (set)
		set->known = true;
	else
		(void)mk_error_errno(apply->err, ENOMEM, "Service '%s'", apply->service->name);
	return set;
}

static bool has_frontend(const struct apply *apply, const struct mk_backend_set *compiled)
{
	for (size_t i = 0; i < compiled->frontend_count; i++) {
		struct mk_frontend_key key = sync_key(&compiled->frontends[i]);

		if (may_take(apply, sync_frontend(apply->sync, &key),
			     compiled->frontends[i].node_port))
			return true;
	}
	return false;
}

/* ---- backends ------------------------------------------------------------------------------ */

static struct mk_backend backend_value(const struct mk_service_backend *backend)
{
	return (struct mk_backend){
		.addr = mk_ip_to_addr(&backend->ip),
		.port = htons(backend->port),
	};
}

/* Read the backends that an earlier agent wrote. If one is missing, the set counts as empty. */
static int read_backends(const struct apply *apply, struct set *set)
{
	const struct mk_table *table = &apply->sync->tables.backends;
	struct mk_backend_key key = { .set_id = set->id, .generation = set->generation };

	set->backends = calloc(set->count ? set->count : 1, sizeof(*set->backends));
	if (!set->backends)
		return mk_error_errno(apply->err, ENOMEM, "Service '%s'", apply->service->name);
	for (; key.index < set->count; key.index++) {
		int ret = mk_table_get(table, &key, &set->backends[key.index], apply->err);

		if (ret < 0 && ret != -ENOENT)
			return ret;
		if (ret < 0)
			set->count = 0;
	}
	set->known = true;
	return 0;
}

static bool same_backends(const struct set *set, const struct mk_backend_set *compiled)
{
	if (set->count != compiled->backend_count)
		return false;
	for (size_t i = 0; i < set->count; i++) {
		struct mk_backend wanted = backend_value(&compiled->backends[i]);

		if (memcmp(&set->backends[i], &wanted, sizeof(wanted)) != 0)
			return false;
	}
	return true;
}

/* Does the set lose its affinity? Its entries in affinity_backends go with their generation. */
static bool loses_affinity(const struct apply *apply, const struct set *set)
{
	return !apply->affinity_id && (set->affinity_id || set->has_members);
}

/* Write the next generation, under keys that no frontend names yet. */
static int write_generation(const struct apply *apply, struct set *set,
			    const struct mk_backend_set *compiled)
{
	cleanup_free struct mk_backend *backends =
		calloc(compiled->backend_count ? compiled->backend_count : 1, sizeof(*backends));
	struct mk_backend_key key = { .set_id = set->id, .generation = set->generation + 1 };
	int ret;

	if (!backends)
		return mk_error_errno(apply->err, ENOMEM, "Service '%s'", apply->service->name);
	for (; key.index < compiled->backend_count; key.index++) {
		backends[key.index] = backend_value(&compiled->backends[key.index]);
		ret = mk_table_put(&apply->sync->tables.backends, &key, &backends[key.index],
				   apply->err);
		if (ret < 0)
			return ret;
		apply->counts->put++;
	}
	ret = sync_retire(&apply->service->retiring, set, apply->err);
	if (ret < 0)
		return ret;
	free(set->backends);
	set->backends = mk_steal_ptr(backends);
	set->count = compiled->backend_count;
	set->generation++;
	set->has_maglev = false;
	set->has_members = false;
	return 0;
}

/* Write the Maglev table. A table that is no longer wanted stays as long as its generation:
 * programs may be reading it. */
static int write_maglev(const struct apply *apply, struct set *set,
			const struct mk_backend_set *compiled)
{
	struct mk_maglev_key key = { .set_id = set->id, .generation = set->generation };
	const struct mk_table *table = &apply->sync->tables.maglev;
	cleanup_free void *now = NULL;
	int ret;

	if (!compiled->maglev || set->has_maglev)
		return 0;
	if (compiled->maglev_bytes != table->value_size)
		return mk_error_set(
			apply->err, EINVAL,
			"Maglev table of %zu bytes for map '%s' of %u: the node and its Services were given different table sizes",
			compiled->maglev_bytes, table->name, table->value_size);
	now = malloc(table->value_size);
	if (!now)
		return mk_error_errno(apply->err, ENOMEM, "Maglev table");
	if (mk_table_get(table, &key, now, NULL) < 0 ||
	    memcmp(now, compiled->maglev, table->value_size) != 0) {
		ret = mk_table_put(table, &key, compiled->maglev, apply->err);
		if (ret < 0)
			return ret;
		apply->counts->put++;
	}
	set->has_maglev = true;
	return 0;
}

/* ---- frontends ------------------------------------------------------------------------------ */

/* Take the frontend from its owner, whose claim on it is recorded. */
static int take_from_owner(const struct apply *apply, struct frontend *frontend)
{
	int ret = sync_claim(apply->sync, frontend->owner, &frontend->key, apply->service,
			     apply->err);

	if (ret < 0)
		return ret;
	DL_DELETE(frontend->owner->frontends, frontend);
	frontend->owner = NULL;
	return 0;
}

static int put_frontend(const struct apply *apply, const struct mk_frontend_key *key,
			const struct mk_frontend *value, bool node_port)
{
	struct mk_service_sync *sync = apply->sync;
	struct frontend *frontend = sync_frontend(sync, key);
	int ret = 0;

	if (!may_take(apply, frontend, node_port))
		return sync_claim(sync, apply->service, key, frontend->owner, apply->err);
	if (!is_free_for(apply, frontend))
		ret = take_from_owner(apply, frontend);
	if (ret < 0)
		return ret;
	if (!frontend || memcmp(&frontend->value, value, sizeof(*value)) != 0) {
		ret = mk_table_put(&sync->tables.frontends, key, value, apply->err);
		if (ret < 0)
			return ret;
		apply->counts->put++;
	}
	if (!frontend)
		frontend = sync_frontend_new(sync, key);
	if (!frontend)
		return mk_error_errno(apply->err, ENOMEM, "Service '%s'", apply->service->name);
	frontend->value = *value;
	frontend->node_port = node_port;
	frontend->wanted_in = sync->serial;
	if (!frontend->owner) {
		frontend->owner = apply->service;
		DL_APPEND(apply->service->frontends, frontend);
	}
	return 0;
}

static int publish(const struct apply *apply, struct set *set,
		   const struct mk_backend_set *compiled)
{
	struct mk_frontend value = {
		.set_id = set->id,
		.generation = set->generation,
		.backend_count = (__u16)compiled->backend_count,
		.local_count = (__u16)compiled->local_count,
		.local_weight = compiled->local_weight,
		.service_id = apply->service->service_id,
		.affinity_id = apply->affinity_id,
		.affinity_timeout_s = apply->affinity_timeout_s,
	};
	const struct ranges *ranges = apply->service->ranges;

	for (size_t i = 0; i < compiled->frontend_count; i++) {
		struct mk_frontend_key key = sync_key(&compiled->frontends[i]);
		int ret;

		value.flags = compiled->frontends[i].flags;
		value.ranges_id = ranges && compiled->frontends[i].filtered ? ranges->id : 0;
		ret = put_frontend(apply, &key, &value, compiled->frontends[i].node_port);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static bool keeps_client(const struct mk_backend_set *compiled)
{
	for (size_t i = 0; i < compiled->frontend_count; i++)
		if (compiled->frontends[i].scope == MK_SCOPE_EXTERNAL &&
		    !(compiled->frontends[i].flags & MK_FRONTEND_MASQUERADE))
			return true;
	return false;
}

/* ---- all steps ------------------------------------------------------------------------------- */

static int check_counts(const struct apply *apply, const struct mk_backend_set *compiled)
{
	if (compiled->backend_count <= UINT16_MAX)
		return 0;
	return mk_error_set(apply->err, E2BIG,
			    "Service '%s' port '%s' has %zu endpoints, the tables take %u",
			    apply->service->name, compiled->port_name ? compiled->port_name : "",
			    compiled->backend_count, UINT16_MAX);
}

static int apply_set(const struct apply *apply, const struct mk_backend_set *compiled)
{
	struct set *set;
	int ret = check_counts(apply, compiled);

	if (ret < 0)
		return ret;
	if (!has_frontend(apply,
			  compiled)) /* other Services hold all: record claims, write nothing */
		return publish(apply, &(struct set){ 0 }, compiled);
	set = former_set(apply, compiled);
	if (!set)
		set = new_set(apply);
	if (!set)
		return -ENOMEM;
	sync_set_own(set, apply->service);
	set->used_in = apply->sync->serial;
	if (!set->known)
		ret = read_backends(apply, set);
	if (ret == 0 && (!same_backends(set, compiled) || loses_affinity(apply, set)))
		ret = write_generation(apply, set, compiled);
	if (ret == 0) /* after the generation with the former id is retired */
		set->affinity_id = apply->affinity_id;
	ret = ret ?: write_maglev(apply, set, compiled);
	if (ret == 0 && set->affinity_id)
		ret = sync_members_write(apply->sync, set, apply->counts, apply->err);
	ret = ret ?: publish(apply, set, compiled);
	if (ret < 0)
		return ret;
	set->local_count = compiled->local_count;
	set->keeps_client = keeps_client(compiled);
	sync_set_count_host_backend(apply->sync, set);
	return 0;
}

/* Remove the Service's frontends and sets that this apply did not use. */
static int remove_rest(const struct apply *apply)
{
	struct mk_service_sync *sync = apply->sync;
	struct frontend *frontend, *next_frontend;
	struct set *set, *next_set;
	int ret;

	DL_FOREACH_SAFE(apply->service->frontends, frontend, next_frontend) {
		if (frontend->wanted_in == sync->serial)
			continue;
		ret = sync_frontend_delete(sync, frontend, apply->counts, apply->err);
		if (ret < 0)
			return ret;
	}
	DL_FOREACH_SAFE(apply->service->sets, set, next_set) {
		if (set->used_in == sync->serial)
			continue;
		ret = sync_retire(&apply->service->retiring, set, apply->err);
		if (ret < 0)
			return ret;
		sync_set_forget(sync, set);
	}
	return 0;
}

static void add_udp_port(struct mk_service_sync *sync, uint16_t port)
{
	if (sync->udp_ports.words[port / 32] >> (port % 32) & 1)
		return;
	mk_port_set_add(&sync->udp_ports, port);
	sync->udp_ports_serial++;
}

/* Replace the list of backends that may keep live flows, and note if one was removed. */
static int replace_live(const struct apply *apply, const struct mk_compiled_service *compiled)
{
	struct service *service = apply->service;
	size_t size = compiled->live_count * sizeof(*compiled->live);
	struct mk_live_backend *copy = size ? malloc(size) : NULL;

	if (size && !copy)
		return mk_error_errno(apply->err, ENOMEM, "Service '%s'", service->name);
	for (size_t i = 0; i < service->live_count && !apply->counts->cut; i++)
		if (!sync_is_live(compiled->live, compiled->live_count, &service->live[i]))
			apply->counts->cut = true;
	if (size)
		memcpy(copy, compiled->live, size);
	for (size_t i = 0; i < compiled->live_count; i++)
		add_udp_port(apply->sync, compiled->live[i].port);
	free(service->live);
	service->live = copy;
	service->live_count = compiled->live_count;
	return 0;
}

static void start_retirement(struct mk_service_sync *sync, struct service *service, uint64_t now_ns)
{
	sync_retirement_begins(sync, &service->retiring, now_ns);
	sync_ranges_retire(sync, service->retiring_ranges, now_ns);
	service->retiring_ranges = NULL;
}

static struct service *find_service(struct mk_service_sync *sync,
				    const struct mk_compiled_service *compiled,
				    struct mk_error *err)
{
	struct service *service;
	char *name;

	if (asprintf(&name, "%s/%s", compiled->namespace_, compiled->name) < 0) {
		(void)mk_error_errno(err, ENOMEM, "Service '%s'", compiled->name);
		return NULL;
	}
	HASH_FIND_STR(sync->services, name, service);
	if (service) {
		free(name);
		return service;
	}
	service = calloc(1, sizeof(*service));
	if (!service) {
		free(name);
		(void)mk_error_errno(err, ENOMEM, "Service '%s'", compiled->name);
		return NULL;
	}
	service->name = name;
	HASH_ADD_KEYPTR(hh, sync->services, name, strlen(name), service);
	return service;
}

static int apply_all(struct apply *apply, const struct mk_compiled_service *compiled)
{
	int ret;

	sync_give_id(apply, compiled);
	ret = sync_give_ranges(apply, compiled);
	if (ret < 0)
		return ret;
	apply->affinity_timeout_s = compiled->affinity_timeout_s;
	for (size_t i = 0; i < compiled->set_count; i++) {
		if (i == 0 || !sync_same_port(&compiled->sets[i - 1], &compiled->sets[i]))
			apply->affinity_id = sync_port_affinity(apply, &compiled->sets[i],
								compiled->set_count - i);
		ret = apply_set(apply, &compiled->sets[i]);
		if (ret < 0)
			return ret;
	}
	ret = remove_rest(apply);
	return ret < 0 ? ret : replace_live(apply, compiled);
}

int mk_service_sync_apply(struct mk_service_sync *sync, const struct mk_compiled_service *compiled,
			  uint64_t now_ns, struct mk_service_counts *counts, struct mk_error *err)
{
	struct apply apply = { .sync = sync, .counts = counts, .err = err };
	int ret;

	apply.service = find_service(sync, compiled, err);
	if (!apply.service)
		return -ENOMEM;
	sync->serial++;
	sync_claims_mark(sync, apply.service);
	ret = apply_all(&apply, compiled);
	if (ret < 0)
		return mk_error_wrap(err, "Service '%s'", apply.service->name);
	sync_claims_drop_stale(sync);
	start_retirement(sync, apply.service, now_ns);
	if (compiled->set_count == 0)
		sync_service_forget(sync, apply.service);
	return 0;
}

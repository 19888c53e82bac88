// SPDX-License-Identifier: Apache-2.0
#include "datapath/services/services.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/services/services_internal.h"

struct frontend *sync_frontend(struct mk_service_sync *sync, const struct mk_frontend_key *key)
{
	struct frontend *frontend;

	HASH_FIND(hh, sync->frontends, key, sizeof(*key), frontend);
	return frontend;
}

struct set *sync_set(const struct mk_service_sync *sync, uint32_t id)
{
	struct set *set;

	HASH_FIND(hh, sync->sets, &id, sizeof(id), set);
	return set;
}

/* Widen the range. It never shrinks until the last such frontend is removed, so no list has to be
 * searched. */
static void add_localhost_port(struct mk_service_sync *sync, uint16_t port)
{
	if (sync->localhost_count == 0 || port < sync->localhost_port_min)
		sync->localhost_port_min = port;
	if (sync->localhost_count == 0 || port > sync->localhost_port_max)
		sync->localhost_port_max = port;
	sync->localhost_count++;
}

void mk_service_sync_localhost_ports(const struct mk_service_sync *sync, uint16_t *min,
				     uint16_t *max)
{
	*min = sync->localhost_count ? sync->localhost_port_min : 0;
	*max = sync->localhost_count ? sync->localhost_port_max : 0;
}

const struct mk_port_set *mk_service_sync_udp_ports(const struct mk_service_sync *sync,
						    uint32_t *serial)
{
	*serial = sync->udp_ports_serial;
	return &sync->udp_ports;
}

struct frontend *sync_frontend_new(struct mk_service_sync *sync, const struct mk_frontend_key *key)
{
	struct frontend *frontend = calloc(1, sizeof(*frontend));

	if (!frontend)
		return NULL;
	frontend->key = *key;
	HASH_ADD(hh, sync->frontends, key, sizeof(frontend->key), frontend);
	if (mk_addr_is_loopback(&key->addr))
		add_localhost_port(sync, ntohs(key->port));
	return frontend;
}

struct set *sync_set_new(struct mk_service_sync *sync, uint32_t id, uint32_t generation)
{
	struct set *set = calloc(1, sizeof(*set));

	if (!set)
		return NULL;
	set->id = id;
	set->generation = generation;
	HASH_ADD(hh, sync->sets, id, sizeof(set->id), set);
	return set;
}

static void sync_frontend_forget(struct mk_service_sync *sync, struct frontend *frontend)
{
	if (frontend->owner)
		DL_DELETE(frontend->owner->frontends, frontend);
	if (sync->due_frontend == frontend)
		sync->due_frontend = frontend->hh.next;
	if (mk_addr_is_loopback(&frontend->key.addr))
		sync->localhost_count--;
	HASH_DEL(sync->frontends, frontend);
	free(frontend);
}

void sync_set_own(struct set *set, struct service *owner)
{
	if (set->owner == owner)
		return;
	if (set->owner)
		DL_DELETE(set->owner->sets, set);
	if (owner)
		DL_APPEND(owner->sets, set);
	set->owner = owner;
}

void sync_set_forget(struct mk_service_sync *sync, struct set *set)
{
	sync_set_own(set, NULL);
	if (set->host_backend)
		sync->host_backend_sets--;
	if (sync->due_set == set)
		sync->due_set = set->hh.next;
	HASH_DEL(sync->sets, set);
	free(set->backends);
	free(set);
}

void sync_service_forget(struct mk_service_sync *sync, struct service *service)
{
	struct frontend *frontend, *next;
	struct retired *retired, *later;

	DL_FOREACH_SAFE(service->frontends, frontend, next) {
		DL_DELETE(service->frontends, frontend);
		frontend->owner = NULL;
	}
	while (service->sets)
		sync_set_own(service->sets, NULL);
	LL_FOREACH_SAFE(service->retiring, retired, later)
		free(retired);
	sync_ranges_free(service->ranges);
	sync_ranges_free_list(service->retiring_ranges);
	HASH_DEL(sync->services, service);
	sync->names_serial++;
	free(service->live);
	free(service->name);
	free(service);
}

int sync_frontend_delete(struct mk_service_sync *sync, struct frontend *frontend,
			 struct mk_service_counts *counts, struct mk_error *err)
{
	struct claim *claim;
	int ret = sync_lose(sync, &frontend->key, counts, err);

	ret = ret ?: mk_table_delete(&sync->tables.frontends, &frontend->key, err);
	if (ret < 0)
		return ret;
	counts->deleted += (unsigned int)ret;
	LL_FOREACH(sync->claims, claim)
		if (memcmp(&claim->key, &frontend->key, sizeof(claim->key)) == 0)
			claim->free = true;
	sync_frontend_forget(sync, frontend);
	return 0;
}

/* ---- claims: a frontend that two Services want ------------------------------------------ */

static void log_claim(const struct service *service, const struct mk_frontend_key *key,
		      const struct service *holder)
{
	struct mk_ip ip = mk_ip_from_addr(&key->addr);
	char text[MK_IP_STRLEN];

	/* port 0: Services with different ports may share an address */
	mk_log(key->port == 0 ? MK_LOG_DEBUG : MK_LOG_WARN,
	       "two Services want the same address, only one gets it address=%s port=%u proto=%u service=%s refused=%s",
	       mk_ip_format(&ip, text), ntohs(key->port), key->proto, holder->name, service->name);
}

/* Is the conflict logged already? A port is claimed once per scope, but logged only once. */
static bool is_told(const struct mk_service_sync *sync, const struct service *service,
		    const struct mk_frontend_key *key)
{
	const struct claim *claim;

	LL_FOREACH(sync->claims, claim)
		if (mk_addr_eq(&claim->key.addr, &key->addr) && claim->key.port == key->port &&
		    claim->key.proto == key->proto && strcmp(claim->loser, service->name) == 0)
			return true;
	return false;
}

int sync_claim(struct mk_service_sync *sync, const struct service *service,
	       const struct mk_frontend_key *key, const struct service *holder,
	       struct mk_error *err)
{
	bool told = is_told(sync, service, key);
	struct claim *claim;

	LL_FOREACH(sync->claims, claim) {
		if (memcmp(&claim->key, key, sizeof(*key)) == 0 &&
		    strcmp(claim->loser, service->name) == 0) {
			claim->stale = false;
			return 0;
		}
	}
	claim = calloc(1, sizeof(*claim));
	if (!claim || !(claim->loser = strdup(service->name))) {
		free(claim);
		return mk_error_errno(err, ENOMEM, "Service '%s'", service->name);
	}
	claim->key = *key;
	LL_PREPEND(sync->claims, claim);
	if (!told)
		log_claim(service, key, holder);
	return 0;
}

void sync_claims_mark(struct mk_service_sync *sync, const struct service *service)
{
	struct claim *claim;

	LL_FOREACH(sync->claims, claim)
		if (strcmp(claim->loser, service->name) == 0)
			claim->stale = true;
}

static void claim_free(struct mk_service_sync *sync, struct claim *claim)
{
	LL_DELETE(sync->claims, claim);
	free(claim->loser);
	free(claim);
}

void sync_claims_drop_stale(struct mk_service_sync *sync)
{
	struct claim *claim, *next;

	LL_FOREACH_SAFE(sync->claims, claim, next)
		if (claim->stale)
			claim_free(sync, claim);
}

int mk_service_sync_take_retry(struct mk_service_sync *sync, char **namespace_, char **name)
{
	struct claim *claim;
	char *slash;

	LL_FOREACH(sync->claims, claim)
		if (claim->free)
			break;
	if (!claim)
		return 0;
	slash = strchr(claim->loser, '/');
	*namespace_ = slash ? strndup(claim->loser, (size_t)(slash - claim->loser)) : strdup("");
	*name = strdup(slash ? slash + 1 : claim->loser);
	claim_free(sync, claim);
	if (*namespace_ && *name)
		return 1;
	free(*namespace_);
	free(*name);
	return 0;
}

/* ---- life cycle ------------------------------------------------------------------------- */

static int recover_one(void *ctx, const void *key, const void *value_, struct mk_error *err)
{
	const struct mk_frontend *value = value_;
	struct mk_service_sync *sync = ctx;
	struct frontend *frontend = sync_frontend(sync, key);
	struct set *set = sync_set(sync, value->set_id);

	if (!frontend)
		frontend = sync_frontend_new(sync, key);
	if (!set)
		set = sync_set_new(sync, value->set_id, value->generation);
	if (!frontend || !set)
		return mk_error_errno(err, ENOMEM, "cannot read map 'frontends'");
	frontend->value = *value;
	/* frontends of one set disagree only after a crash between two publications */
	if ((int32_t)(value->generation - set->generation) >= 0) {
		set->generation = value->generation;
		set->count = value->backend_count;
		set->local_count = value->local_count;
		set->affinity_id = value->affinity_id;
	}
	mk_service_sync_reserve_ids(sync, value->set_id);
	mk_service_sync_reserve_ids(sync, value->ranges_id);
	if (sync_recover_id(sync, value->service_id) < 0 ||
	    sync_recover_id(sync, value->affinity_id) < 0)
		return mk_error_errno(err, ENOMEM, "cannot read map 'frontends'");
	return 0;
}

static int recover(struct mk_service_sync *sync, struct mk_error *err)
{
	int ret = mk_table_each(&sync->tables.frontends, recover_one, sync, err);

	if (ret < 0)
		return ret;
	sync_recovered_sort(sync);
	ret = sync_backends_recover(sync, err);
	return ret < 0 ? ret : sync_ranges_recover(sync, err);
}

struct mk_service_sync *mk_service_sync_new(const struct mk_service_tables *tables,
					    struct mk_error *err)
{
	struct mk_service_sync *sync = calloc(1, sizeof(*sync));

	if (!sync) {
		(void)mk_error_errno(err, ENOMEM, "cannot read the tables of Services");
		return NULL;
	}
	sync->tables = *tables;
	sync->tables.frontends.put_flags = BPF_F_LOCK;
	if (recover(sync, err) < 0) {
		mk_service_sync_free(sync);
		return NULL;
	}
	return sync;
}

void mk_service_sync_free(struct mk_service_sync *sync)
{
	struct frontend *frontend, *next_frontend;
	struct service *service, *next_service;
	struct set *set, *next_set;
	struct retired *retired, *next_retired;
	struct ranges *ranges, *next_ranges;

	if (!sync)
		return;
	HASH_ITER(hh, sync->services, service, next_service)
		sync_service_forget(sync, service);
	HASH_ITER(hh, sync->frontends, frontend, next_frontend)
		sync_frontend_forget(sync, frontend);
	HASH_ITER(hh, sync->sets, set, next_set)
		sync_set_forget(sync, set);
	HASH_ITER(hh, sync->retired, retired, next_retired) {
		HASH_DEL(sync->retired, retired);
		free(retired);
	}
	HASH_ITER(hh, sync->recovered_ranges, ranges, next_ranges) {
		HASH_DEL(sync->recovered_ranges, ranges);
		sync_ranges_free(ranges);
	}
	sync_ranges_free_list(sync->retired_ranges);
	while (sync->claims)
		claim_free(sync, sync->claims);
	sync_recovered_forget(sync);
	sync_left_over_free(sync);
	free(sync->local);
	free(sync);
}

/* ---- queries ---------------------------------------------------------------------------- */

bool sync_is_local(const struct mk_service_sync *sync, const struct mk_addr *addr)
{
	for (size_t i = 0; i < sync->local_count; i++) {
		struct mk_addr local = mk_ip_to_addr(&sync->local[i]);

		if (mk_addr_eq(&local, addr))
			return true;
	}
	return false;
}

void sync_set_count_host_backend(struct mk_service_sync *sync, struct set *set)
{
	bool now = false;

	for (size_t i = 0; set->keeps_client && set->known && !now && i < set->local_count; i++)
		now = sync_is_local(sync, &set->backends[i].addr);
	if (now && !set->host_backend)
		sync->host_backend_sets++;
	else if (!now && set->host_backend)
		sync->host_backend_sets--;
	set->host_backend = now;
}

int mk_service_sync_set_local(struct mk_service_sync *sync, const struct mk_ip *ips, size_t count,
			      struct mk_error *err)
{
	struct mk_ip *copy = calloc(count ? count : 1, sizeof(*copy));
	struct set *set, *next;

	if (!copy)
		return mk_error_errno(err, ENOMEM, "cannot keep the node's addresses");
	if (count)
		memcpy(copy, ips, count * sizeof(*copy));
	free(sync->local);
	sync->local = copy;
	sync->local_count = count;
	HASH_ITER(hh, sync->sets, set, next)
		sync_set_count_host_backend(sync, set);
	return 0;
}

bool mk_service_sync_host_backends(const struct mk_service_sync *sync)
{
	return sync->host_backend_sets > 0;
}

static int compare_live(const void *a, const void *b)
{
	const struct mk_live_backend *x = a, *y = b;
	int order = mk_ip_compare(&x->ip, &y->ip);

	if (order == 0)
		order = (int)x->port - (int)y->port;
	return order ? order : (int)x->proto - (int)y->proto;
}

bool sync_is_live(const struct mk_live_backend *live, size_t count,
		  const struct mk_live_backend *backend)
{
	return mk_find(backend, live, count, compare_live);
}

size_t mk_service_sync_service_count(const struct mk_service_sync *sync)
{
	return HASH_COUNT(sync->services);
}

size_t mk_service_sync_frontend_count(const struct mk_service_sync *sync)
{
	return HASH_COUNT(sync->frontends);
}

size_t mk_service_sync_backend_count(const struct mk_service_sync *sync)
{
	size_t count = 0;

	for (const struct set *set = sync->sets; set; set = set->hh.next)
		count += set->count;
	return count;
}

uint32_t mk_service_sync_id(const struct mk_service_sync *sync, const char *name)
{
	const struct service *service;

	HASH_FIND_STR(sync->services, name, service);
	return service ? service->service_id : 0;
}

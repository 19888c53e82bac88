// SPDX-License-Identifier: Apache-2.0
/* Synchronize the small tables: routes, runtime settings and half-open quota. Also the end of the
 * first synchronization. */
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "datapath/datapath_internal.h"
#include "datapath/maps/runtime.h"
#include "datapath/sessions/half_open_quota.h"

struct route {
	struct mk_route_key key;
	struct mk_route value;
	bool wanted; /* used during a synchronization */
	UT_hash_handle hh;
};

size_t datapath_route_count(const struct mk_datapath *datapath)
{
	return HASH_COUNT(datapath->route_entries);
}

static struct route *route_find(const struct mk_datapath *datapath, const struct mk_route_key *key)
{
	struct route *route;

	HASH_FIND(hh, datapath->route_entries, key, sizeof(*key), route);
	return route;
}

static int route_remember(struct mk_datapath *datapath, const struct mk_route_key *key,
			  const struct mk_route *value, bool wanted, struct mk_error *err)
{
	struct route *route = route_find(datapath, key);

	if (!route) {
		route = calloc(1, sizeof(*route));
		if (!route)
			return mk_error_errno(err, ENOMEM, "cannot keep map 'routes'");
		route->key = *key;
		HASH_ADD(hh, datapath->route_entries, key, sizeof(route->key), route);
	}
	route->value = *value;
	route->wanted = wanted;
	return 0;
}

int datapath_recover_routes(struct mk_datapath *datapath, struct mk_error *err)
{
	cleanup_free void *keys = NULL;
	size_t count;
	int ret = mk_table_keys(&datapath->routes, &keys, &count, err);

	for (size_t i = 0; ret == 0 && i < count; i++) {
		const struct mk_route_key *key = (struct mk_route_key *)keys + i;
		struct mk_route value;

		ret = mk_table_get(&datapath->routes, key, &value, err);
		ret = ret ?: route_remember(datapath, key, &value, false, err);
	}
	return ret;
}

void datapath_forget_routes(struct mk_datapath *datapath)
{
	struct route *route, *next;

	HASH_ITER(hh, datapath->route_entries, route, next) {
		HASH_DEL(datapath->route_entries, route);
		free(route);
	}
}

static int put_route(struct mk_datapath *datapath, const struct mk_route_entry *entry,
		     unsigned int *changes, struct mk_error *err)
{
	struct mk_route_key key = {
		.prefix_bits = entry->dst.prefix_bits,
		.addr = mk_ip_to_addr(&entry->dst.ip),
	};
	struct route *route = route_find(datapath, &key);
	int ret;

	if (!route || memcmp(&route->value, &entry->route, sizeof(route->value)) != 0) {
		ret = mk_table_put(&datapath->routes, &key, &entry->route, err);
		if (ret < 0)
			return ret;
		(*changes)++;
	}
	return route_remember(datapath, &key, &entry->route, true, err);
}

static int remove_unwanted(struct mk_datapath *datapath, unsigned int *changes,
			   struct mk_error *err)
{
	struct route *route, *next;

	HASH_ITER(hh, datapath->route_entries, route, next) {
		int ret;

		if (route->wanted)
			continue;
		ret = mk_table_delete(&datapath->routes, &route->key, err);
		if (ret < 0)
			return ret;
		*changes += (unsigned int)ret;
		HASH_DEL(datapath->route_entries, route);
		free(route);
	}
	return 0;
}

/* Update map `node_routes` from map `routes`. Returns the number of changed entries. */
static int put_node_routes(const struct mk_datapath *datapath, struct mk_error *err)
{
	cleanup_free struct mk_route_entry *entries =
		calloc(HASH_COUNT(datapath->route_entries) + 1, sizeof(*entries));
	cleanup_free struct mk_route *slots = calloc(MK_NODE_ROUTES, sizeof(*slots));
	const sa_family_t family = mk_table_family(&datapath->routes);
	struct route *route, *next;
	size_t count = 0;

	if (!entries || !slots)
		return mk_error_errno(err, ENOMEM, "cannot list the nodes' routes");
	HASH_ITER(hh, datapath->route_entries, route, next) {
		entries[count].dst =
			(struct mk_cidr){ .ip = mk_ip_of_family(&route->key.addr, family),
					  .prefix_bits = (uint8_t)route->key.prefix_bits };
		entries[count++].route = route->value;
	}
	node_routes_make(&datapath->node, entries, count, slots);
	return node_routes_put(&datapath->node_routes, slots, err);
}

int mk_datapath_sync_routes(struct mk_datapath *datapath, const struct mk_route_entry *wanted,
			    size_t count, bool complete, unsigned int *changes,
			    struct mk_error *err)
{
	struct route *route, *next;
	int ret = 0;

	if (datapath->state < MK_DATAPATH_LOADED)
		return datapath_expect(datapath, MK_DATAPATH_LOADED, "routes", err);
	HASH_ITER(hh, datapath->route_entries, route, next)
		route->wanted = false;
	for (size_t i = 0; i < count; i++) {
		ret = put_route(datapath, &wanted[i], changes, err);
		if (ret < 0)
			return ret;
	}
	if (complete)
		ret = remove_unwanted(datapath, changes, err);
	ret = ret ?: put_node_routes(datapath, err);
	if (ret < 0)
		return ret;
	*changes += (unsigned int)ret;
	return 0;
}

/* Restore one entry. If it is missing, the look-up finds a shorter prefix, whose value differs or
 * is right as well. */
static int repair_route(const struct mk_datapath *datapath, const struct route *route,
			struct mk_error *err)
{
	struct mk_route now;
	int ret = mk_table_get(&datapath->routes, &route->key, &now, err);

	if (ret == 0 && memcmp(&now, &route->value, sizeof(now)) == 0)
		return 0;
	if (ret < 0 && ret != -ENOENT)
		return ret;
	ret = mk_table_put(&datapath->routes, &route->key, &route->value, err);
	return ret < 0 ? ret : 1;
}

int mk_datapath_repair_routes(struct mk_datapath *datapath, size_t budget, struct mk_error *err)
{
	size_t at = 0, from = datapath->routes_looked_at;
	struct route *route, *next;
	int ret, repaired = 0;

	HASH_ITER(hh, datapath->route_entries, route, next) {
		if (at++ < from)
			continue;
		if (at > from + budget)
			break;
		ret = repair_route(datapath, route, err);
		if (ret < 0)
			return ret;
		repaired += ret;
	}
	datapath->routes_looked_at = at > from + budget ? at - 1 : 0;
	if (datapath->routes_looked_at == 0) {
		ret = put_node_routes(datapath, err);
		if (ret < 0)
			return ret;
		repaired += ret;
	}
	if (repaired)
		mk_log_warn("entries were missing and are back map=routes entries=%d", repaired);
	if (datapath->routes_looked_at > 0)
		return repaired;
	ret = datapath_repair_peers(datapath, err);
	return ret < 0 ? ret : repaired + ret;
}

int mk_datapath_sync_runtime(const struct mk_datapath *datapath,
			     const struct mk_runtime_change *change, struct mk_error *err)
{
	return mk_runtime_change(datapath->bpf_dir, datapath->state_dir, change, err);
}

int mk_datapath_add_udp_ports(const struct mk_datapath *datapath, const struct mk_port_set *ports,
			      struct mk_error *err)
{
	return mk_udp_ports_add(datapath->bpf_dir, datapath->state_dir, ports, err);
}

int mk_datapath_prune(struct mk_datapath *datapath, uint64_t now_ns, uint64_t until_ns,
		      struct mk_service_counts *counts, struct mk_error *err)
{
	int ret;

	if (datapath->state < MK_DATAPATH_ATTACHED)
		return datapath_expect(datapath, MK_DATAPATH_ATTACHED, "pruning", err);
	ret = mk_service_sync_prune(datapath->services, now_ns, until_ns, counts, err);
	if (ret == 0)
		datapath->state = MK_DATAPATH_SYNCED;
	return ret;
}

int mk_datapath_set_half_open_quota(const struct mk_datapath *datapath,
				    const struct mk_session_counts *counts, struct mk_error *err)
{
	return mk_half_open_quota_write(&datapath->half_open_quota, &datapath->sessions[0], counts,
					err);
}

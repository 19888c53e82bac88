/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/services/services_internal.h - the records behind services.h, shared by its files:
 * services.c (life cycle, claims, queries), ids.c (ids), ranges.c (source ranges), affinity.c
 * (backends that may keep clients), flows.c (sessions), identity.c (what persists over changes),
 * apply.c (one Service), backends.c (recovery of backends), prune.c (removal of unused entries),
 * reconcile.c (repair). */
#ifndef MK_DATAPATH_SERVICES_SERVICES_INTERNAL_H
#define MK_DATAPATH_SERVICES_SERVICES_INTERNAL_H

#include <uthash.h>
#include <utlist.h>

#include "datapath/services/services.h"

struct service;

/* An entry of map `frontends`, as the map holds it. */
struct frontend {
	struct mk_frontend_key key;
	struct mk_frontend value;
	struct service *owner; /* NULL: an earlier agent's, not used by a Service yet */
	uint32_t wanted_in; /* serial of the last apply that wanted it */
	bool node_port;
	struct frontend *prev, *next; /* of the owner */
	UT_hash_handle hh;
};

/* The current generation of a backend set, as the maps hold it. */
struct set {
	uint32_t id, generation;
	struct mk_backend *backends; /* may be NULL while `known` is false: still to be read */
	size_t count, local_count;
	bool known; /* backends have been read or written */
	uint32_t found; /* entries found of an earlier agent's backends */
	bool has_maglev; /* false also while unknown */
	bool keeps_client; /* an external frontend without masquerade */
	bool host_backend; /* counted in sync->host_backend_sets */
	bool has_members; /* they are in affinity_backends; false also while unknown */
	uint32_t affinity_id; /* of its port; 0: none */
	struct service *owner;
	uint32_t used_in; /* serial of the last apply that used it */
	struct set *prev, *next; /* of the owner */
	UT_hash_handle hh;
};

/* A generation that no frontend names any more. */
struct retired {
	uint32_t id, generation; /* together the key */
	uint32_t count;
	bool has_members;
	uint64_t since_ns;
	struct retired *next; /* before retirement begins */
	UT_hash_handle hh; /* after that: there are thousands if a whole cluster changed */
};

/* Source ranges as the map holds them, under one id. */
struct ranges {
	uint32_t id;
	struct mk_cidr *list; /* sorted */
	size_t count;
	uint64_t since_ns; /* time of the retirement */
	struct ranges *next;
	UT_hash_handle hh; /* recovered ones only */
};

struct service {
	char *name; /* "namespace/name" */
	uint32_t service_id; /* 0: not yet applied */
	struct frontend *frontends;
	struct set *sets;
	struct mk_live_backend *live; /* sorted by ip, port, proto */
	size_t live_count;
	struct ranges *ranges; /* NULL: none */
	/* to be retired once the apply has succeeded */
	struct retired *retiring;
	struct ranges *retiring_ranges;
	UT_hash_handle hh;
};

/* @loser wants @key, which another Service holds. */
struct claim {
	struct mk_frontend_key key;
	char *loser; /* "namespace/name" */
	bool stale, free; /* used during an apply; the frontend is free now */
	struct claim *next;
};

/* An id that an earlier agent assigned. Only the first Service that has it in a frontend may take
 * it. */
struct recovered_id {
	uint32_t id; /* first, for mk_compare_ids() */
	bool taken;
};

/* Progress of a prune. */
struct pruning {
	enum {
		MK_PRUNE_FRONTENDS,
		MK_PRUNE_SETS,
		MK_PRUNE_BACKENDS,
		MK_PRUNE_MAGLEV,
		MK_PRUNE_MEMBERS,
		MK_PRUNE_REST,
		MK_PRUNE_DONE
	} stage;
};

/* Entries of map service_backends that belonged to no set when it was read. */
struct left_over {
	struct mk_backend_key *keys;
	size_t count;
};

struct mk_service_sync {
	struct mk_service_tables tables;
	struct frontend *frontends; /* by key */
	struct set *sets; /* by id */
	struct service *services; /* by name */
	struct claim *claims;
	struct retired *retired; /* by key, oldest first */
	struct ranges *retired_ranges; /* oldest first */
	struct ranges *recovered_ranges; /* by id: not used by a Service yet */
	uint32_t last_id, serial; /* all ids come from one counter */
	uint32_t names_serial; /* changes with the Services that have a service_id */
	struct recovered_id *recovered; /* sorted; NULL after the prune */
	size_t recovered_count;
	struct pruning pruning;
	struct left_over left_over;
	struct mk_ip *local;
	size_t local_count;
	size_t host_backend_sets;
	size_t localhost_count; /* frontends at the loopback address */
	uint16_t localhost_port_min, localhost_port_max; /* range since there were none */
	struct mk_port_set udp_ports; /* of all UDP backends so far */
	uint32_t udp_ports_serial; /* changes with them */
	int (*losing)(void *ctx, struct mk_error *err); /* NULL: not called */
	void *losing_ctx;
	struct frontend *due_frontend; /* the next ones to be checked */
	struct set *due_set;
};

/* One Service being applied. */
struct apply {
	struct mk_service_sync *sync;
	struct service *service;
	uint32_t affinity_id; /* of the current port */
	uint32_t affinity_timeout_s;
	struct mk_service_counts *counts;
	struct mk_error *err;
};

struct frontend *sync_frontend(struct mk_service_sync *sync, const struct mk_frontend_key *key);
struct set *sync_set(const struct mk_service_sync *sync, uint32_t id);
struct frontend *sync_frontend_new(struct mk_service_sync *sync, const struct mk_frontend_key *key);
struct set *sync_set_new(struct mk_service_sync *sync, uint32_t id, uint32_t generation);
/* Return an unused id. */
uint32_t sync_new_id(struct mk_service_sync *sync);
/* Register @id, found in a table. Returns -ENOMEM or 0. After the last one call
 * sync_recovered_sort(). */
mk_must_check int sync_recover_id(struct mk_service_sync *sync, uint32_t id);
void sync_recovered_sort(struct mk_service_sync *sync);
void sync_recovered_forget(struct mk_service_sync *sync);
/* Take @id if an earlier agent assigned it and no Service has taken it yet. Returns true if
 * taken. */
bool sync_take_id(struct mk_service_sync *sync, uint32_t id);
void sync_set_own(struct set *set, struct service *owner);
void sync_set_forget(struct mk_service_sync *sync, struct set *set);
void sync_service_forget(struct mk_service_sync *sync, struct service *service);
/* Remove the entry from the map, and mark claims on it as free. */
mk_must_check int sync_frontend_delete(struct mk_service_sync *sync, struct frontend *frontend,
				       struct mk_service_counts *counts, struct mk_error *err);
/* Is @backend in the sorted list @live? */
bool sync_is_live(const struct mk_live_backend *live, size_t count,
		  const struct mk_live_backend *backend);
/* Is @addr the host's own? */
bool sync_is_local(const struct mk_service_sync *sync, const struct mk_addr *addr);
/* Call after @set->backends or ->keeps_client changed. */
void sync_set_count_host_backend(struct mk_service_sync *sync, struct set *set);

/* Record that @service wants @key, which @holder has. */
mk_must_check int sync_claim(struct mk_service_sync *sync, const struct service *service,
			     const struct mk_frontend_key *key, const struct service *holder,
			     struct mk_error *err);
void sync_claims_mark(struct mk_service_sync *sync, const struct service *service);
void sync_claims_drop_stale(struct mk_service_sync *sync);

/* Put @set's current generation on the list @head. */
mk_must_check int sync_retire(struct retired **head, const struct set *set, struct mk_error *err);

/* Start the retirement of the generations on list @head, and empty the list. */
void sync_retirement_begins(struct mk_service_sync *sync, struct retired **head, uint64_t now_ns);

/* Return a generation that is retired but not yet removed, or NULL. */
const struct retired *sync_retired(const struct mk_service_sync *sync, uint32_t id,
				   uint32_t generation);
/* Remove an entry if it exists, and count it. */
mk_must_check int sync_delete(const struct mk_table *table, const void *key,
			      struct mk_service_counts *counts, struct mk_error *err);

/* ---- identity.c */

struct mk_frontend_key sync_key(const struct mk_wanted_frontend *frontend);
/* Give the Service a service_id, which it keeps whatever happens to its ports and backends. */
void sync_give_id(const struct apply *apply, const struct mk_compiled_service *compiled);
/* Write the Service's source ranges. Call before writing a frontend that names them. */
mk_must_check int sync_give_ranges(const struct apply *apply,
				   const struct mk_compiled_service *compiled);
bool sync_same_port(const struct mk_backend_set *a, const struct mk_backend_set *b);
/* Return the affinity id of the port whose sets begin at @compiled (at most @count); 0: no
 * affinity. If affinity is switched off and on again, the port gets a new id, so earlier clients
 * are forgotten. */
uint32_t sync_port_affinity(const struct apply *apply, const struct mk_backend_set *compiled,
			    size_t count);

/* ---- flows.c */

/* Handle the flows that frontend @key has opened, before it is removed. */
mk_must_check int sync_lose(struct mk_service_sync *sync, const struct mk_frontend_key *key,
			    struct mk_service_counts *counts, struct mk_error *err);

/* ---- affinity.c */

/* Write the entries of @set's current generation that map affinity_backends lacks. */
mk_must_check int sync_members_write(struct mk_service_sync *sync, struct set *set,
				     struct mk_service_counts *counts, struct mk_error *err);
/* Remove one backend of a generation with entries in affinity_backends. */
mk_must_check int sync_member_remove(struct mk_service_sync *sync, const struct mk_backend_key *key,
				     struct mk_service_counts *counts, struct mk_error *err);
/* Remove entries of affinity_backends that belong to no generation with such entries. */
mk_must_check int sync_members_prune(struct mk_service_sync *sync, struct mk_service_counts *counts,
				     struct mk_error *err);

/* ---- backends.c */

mk_must_check int sync_backends_recover(struct mk_service_sync *sync, struct mk_error *err);
/* Remove some of the unused backends. Returns 1 until none is left. */
mk_must_check int sync_backends_prune(struct mk_service_sync *sync,
				      struct mk_service_counts *counts, struct mk_error *err);
void sync_left_over_free(struct mk_service_sync *sync);

/* ---- ranges.c */

mk_must_check int sync_ranges_recover(struct mk_service_sync *sync, struct mk_error *err);
/* Take the ranges that an earlier agent wrote under @id; the caller owns them. NULL: none, or taken
 * already. */
struct ranges *sync_ranges_take(struct mk_service_sync *sync, uint32_t id);
/* Does @ranges (NULL: none) hold @list? */
bool sync_ranges_are(const struct ranges *ranges, const struct mk_cidr *list, size_t count);
/* Write @list under a new id. The caller owns *@ranges, even after an error unless it is NULL. */
mk_must_check int sync_ranges_write(struct mk_service_sync *sync, const struct mk_cidr *list,
				    size_t count, struct ranges **ranges,
				    struct mk_service_counts *counts, struct mk_error *err);
/* Write the ranges that the map lacks. */
mk_must_check int sync_ranges_restore(struct mk_service_sync *sync, const struct ranges *ranges,
				      struct mk_service_counts *counts, struct mk_error *err);
/* Take over the list @head and retire it. sync_ranges_collect() removes ranges after
 * MK_RETIRE_NS. */
void sync_ranges_retire(struct mk_service_sync *sync, struct ranges *head, uint64_t now_ns);
mk_must_check int sync_ranges_collect(struct mk_service_sync *sync, uint64_t now_ns,
				      struct mk_service_counts *counts, struct mk_error *err);
/* Retire the ranges that no Service has taken. */
void sync_ranges_prune(struct mk_service_sync *sync, uint64_t now_ns);
void sync_ranges_free(struct ranges *ranges);
void sync_ranges_free_list(struct ranges *head);

/* Call @see for every Service with a service_id. */
void service_sync_each_id(const struct mk_service_sync *sync,
			  void (*see)(void *ctx, uint32_t service_id, const char *name), void *ctx);

#endif

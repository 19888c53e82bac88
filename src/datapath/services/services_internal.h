/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/services/services_internal.h - the records behind services.h, shared by its files:
 * services.c (life, claims, questions), ids.c (numbers), ranges.c (source ranges),
 * affinity.c (who keeps clients), flows.c (sessions), identity.c (what lasts), apply.c (one
 * Service), backends.c (an earlier agent's backends), prune.c (what is left over), audit.c (what somebody has removed). */
#ifndef MK_DATAPATH_SERVICES_SERVICES_INTERNAL_H
#define MK_DATAPATH_SERVICES_SERVICES_INTERNAL_H

#include <uthash.h>
#include <utlist.h>

#include "datapath/services/services.h"

struct service;

/* An entry of map `services`, as the map holds it. */
struct frontend {
	struct mk_service_key key;
	struct mk_service value;
	struct service *owner; /* NULL: left by an earlier agent, not asked for yet */
	uint32_t wanted_in; /* serial of the last apply that wanted it */
	bool node_port;
	struct frontend *prev, *next; /* of the owner */
	UT_hash_handle hh;
};

/* The current generation of a backend set, as the maps hold it. */
struct set {
	uint32_t id, generation;
	struct mk_backend *backends; /* NULL with known == false: still to be read */
	size_t count, local_count;
	bool known; /* backends were read or written by us */
	uint32_t found; /* of an earlier agent's backends, so many entries */
	bool has_maglev; /* false also while it is not known */
	bool keeps_client; /* an external frontend without masquerade */
	bool host_backend; /* counted in sync->host_backend_sets */
	bool has_members; /* affinity_backends holds them; false also while it is not known */
	uint32_t affinity_id; /* of its port; 0: none */
	struct service *owner;
	uint32_t used_in; /* serial of the last apply that used it */
	struct set *prev, *next; /* of the owner */
	UT_hash_handle hh;
};

/* A generation nobody is told about any more. */
struct retired {
	uint32_t id, generation; /* together the key */
	uint32_t count;
	bool has_members;
	uint64_t since_ns;
	struct retired *next; /* of those whose retirement has not begun */
	UT_hash_handle hh; /* of those whose has: thousands, where a whole cluster changed */
};

/* Source ranges as the map holds them, under one id. */
struct ranges {
	uint32_t id;
	struct mk_cidr *list; /* sorted */
	size_t count;
	uint64_t since_ns; /* retired: since when */
	struct ranges *next;
	UT_hash_handle hh; /* recovered ones only */
};

struct service {
	char *name; /* "namespace/name" */
	uint32_t account_id; /* 0: not yet applied */
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
	struct mk_service_key key;
	char *loser; /* "namespace/name" */
	bool stale, free; /* scratch of an apply; the frontend is free now */
	struct claim *next;
};

/* An id that an earlier agent gave: to be taken by whoever shows it first, and by nobody else. */
struct recovered_id {
	uint32_t id;
	bool taken;
};

/* What was found to be left over so far. */
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
	size_t count, room;
};

struct mk_service_sync {
	struct mk_service_tables tables;
	struct frontend *frontends; /* by key */
	struct set *sets; /* by id */
	struct service *services; /* by name */
	struct claim *claims;
	struct retired *retired; /* by key, oldest first */
	struct ranges *retired_ranges; /* oldest first */
	struct ranges *recovered_ranges; /* by id: not yet asked for */
	uint32_t last_id, serial; /* all ids come from one counter */
	uint32_t accounts_serial; /* changes with the Services that have an account */
	struct recovered_id *recovered; /* sorted; NULL after the prune */
	size_t recovered_count, recovered_room;
	struct pruning pruning;
	struct left_over left_over;
	struct mk_ip *local;
	size_t local_count;
	size_t host_backend_sets;
	size_t localhost_count; /* frontends at the loopback address */
	uint16_t localhost_port_min,
		localhost_port_max; /* where they have been since there were none */
	struct mk_port_set udp_ports; /* of all backends of UDP there have been */
	uint32_t udp_ports_serial; /* changes with them */
	int (*losing)(void *ctx, struct mk_error *err); /* NULL: nobody asks */
	void *losing_ctx;
	struct frontend *audited_frontend; /* the next ones to be looked at */
	struct set *audited_set;
};

/* One Service being applied. */
struct apply {
	struct mk_service_sync *sync;
	struct service *service;
	uint32_t affinity_id; /* of the port at hand */
	uint32_t affinity_timeout_s;
	struct mk_service_counts *counts;
	struct mk_error *err;
};

struct frontend *sync_frontend(struct mk_service_sync *sync, const struct mk_service_key *key);
struct set *sync_set(const struct mk_service_sync *sync, uint32_t id);
struct frontend *sync_frontend_new(struct mk_service_sync *sync, const struct mk_service_key *key);
struct set *sync_set_new(struct mk_service_sync *sync, uint32_t id, uint32_t generation);
/* An id that nothing has. */
uint32_t sync_new_id(struct mk_service_sync *sync);
/* @id stands in a table. Returns -ENOMEM, or 0; after all of them: sort. */
mk_must_check int sync_recover_id(struct mk_service_sync *sync, uint32_t id);
void sync_recovered_sort(struct mk_service_sync *sync);
void sync_recovered_forget(struct mk_service_sync *sync);
/* Did an earlier agent give @id, and has nobody taken it since? Then it is the caller's. */
bool sync_take_id(struct mk_service_sync *sync, uint32_t id);
void sync_frontend_forget(struct mk_service_sync *sync, struct frontend *frontend);
void sync_set_own(struct set *set, struct service *owner);
void sync_set_forget(struct mk_service_sync *sync, struct set *set);
void sync_service_forget(struct mk_service_sync *sync, struct service *service);
/* Remove the entry from the map; whoever waits for it is told. */
mk_must_check int sync_frontend_delete(struct mk_service_sync *sync, struct frontend *frontend,
				       struct mk_service_counts *counts, struct mk_error *err);
/* Is it in the sorted list @live? */
bool sync_is_live(const struct mk_live_backend *live, size_t count,
		  const struct mk_live_backend *backend);
/* Is @addr the host's own? */
bool sync_is_local(const struct mk_service_sync *sync, const struct mk_addr *addr);
/* After @set->backends or ->keeps_client changed. */
void sync_set_count_host_backend(struct mk_service_sync *sync, struct set *set);

/* @service wants @key, which @holder has. */
mk_must_check int sync_claim(struct mk_service_sync *sync, const struct service *service,
			     const struct mk_service_key *key, const struct service *holder,
			     struct mk_error *err);
void sync_claims_mark(struct mk_service_sync *sync, const struct service *service);
void sync_claims_drop_stale(struct mk_service_sync *sync);

/* Put @set's current generation on the list @head. */
mk_must_check int sync_retire(struct retired **head, const struct set *set, struct mk_error *err);

/* It has begun for those on the list @head, which is empty then. */
void sync_retirement_begins(struct mk_service_sync *sync, struct retired **head, uint64_t now_ns);

/* A generation that is retired but not yet removed; NULL: it is not among those. */
const struct retired *sync_retired(const struct mk_service_sync *sync, uint32_t id,
				   uint32_t generation);
/* Remove an entry, if it is there, and count it. */
mk_must_check int sync_delete(const struct mk_table *table, const void *key,
			      struct mk_service_counts *counts, struct mk_error *err);

/* ---- identity.c */

struct mk_service_key sync_key(const struct mk_frontend *frontend);
/* Once per Service, whatever becomes of its ports and backends. */
void sync_give_account(const struct apply *apply, const struct mk_compiled_service *compiled);
/* Before a frontend is written that names them. */
mk_must_check int sync_give_ranges(const struct apply *apply,
				   const struct mk_compiled_service *compiled);
bool sync_same_port(const struct mk_backend_set *a, const struct mk_backend_set *b);
/* The affinity of the port whose sets stand at @compiled, the first of at most @count; 0: none.
 * Switched off and on again it is another, so what clients had before is forgotten. */
uint32_t sync_port_affinity(const struct apply *apply, const struct mk_backend_set *compiled,
			    size_t count);

/* ---- flows.c */

/* @key is about to go: what becomes of the flows that it opened? */
mk_must_check int sync_lose(struct mk_service_sync *sync, const struct mk_service_key *key,
			    struct mk_service_counts *counts, struct mk_error *err);

/* ---- affinity.c */

/* Write what map affinity_backends lacks of @set's current generation. */
mk_must_check int sync_members_write(struct mk_service_sync *sync, struct set *set,
				     struct mk_service_counts *counts, struct mk_error *err);
/* Remove one backend of a generation that had them. */
mk_must_check int sync_member_remove(struct mk_service_sync *sync, const struct mk_backend_key *key,
				     struct mk_service_counts *counts, struct mk_error *err);
/* Remove what is in no generation that has them. */
mk_must_check int sync_members_prune(struct mk_service_sync *sync, struct mk_service_counts *counts,
				     struct mk_error *err);

/* ---- backends.c */

mk_must_check int sync_backends_recover(struct mk_service_sync *sync, struct mk_error *err);
/* Some of those that are left over: returns 1 until none is. */
mk_must_check int sync_backends_prune(struct mk_service_sync *sync,
				      struct mk_service_counts *counts, struct mk_error *err);
void sync_left_over_free(struct mk_service_sync *sync);

/* ---- ranges.c */

mk_must_check int sync_ranges_recover(struct mk_service_sync *sync, struct mk_error *err);
/* What an earlier agent wrote under @id, the caller's now; NULL: nothing, or it is taken. */
struct ranges *sync_ranges_take(struct mk_service_sync *sync, uint32_t id);
/* Does @ranges (NULL: none) hold @list? */
bool sync_ranges_are(const struct ranges *ranges, const struct mk_cidr *list, size_t count);
/* Write @list under a new id. *@ranges is the caller's, after an error too unless it is NULL. */
mk_must_check int sync_ranges_write(struct mk_service_sync *sync, const struct mk_cidr *list,
				    size_t count, struct ranges **ranges,
				    struct mk_service_counts *counts, struct mk_error *err);
/* Write those of @ranges that the map lacks. */
mk_must_check int sync_ranges_restore(struct mk_service_sync *sync, const struct ranges *ranges,
				      struct mk_service_counts *counts, struct mk_error *err);
/* The list @head, taken over, is to be removed in a while; the next one removes what is due. */
void sync_ranges_retire(struct mk_service_sync *sync, struct ranges *head, uint64_t now_ns);
mk_must_check int sync_ranges_collect(struct mk_service_sync *sync, uint64_t now_ns,
				      struct mk_service_counts *counts, struct mk_error *err);
/* Retire what nobody has taken. */
void sync_ranges_prune(struct mk_service_sync *sync, uint64_t now_ns);
void sync_ranges_free(struct ranges *ranges);
void sync_ranges_free_list(struct ranges *head);

/* Call @see for every Service that has an account. */
void service_sync_each_account(const struct mk_service_sync *sync,
			       void (*see)(void *ctx, uint32_t account_id, const char *name),
			       void *ctx);

#endif

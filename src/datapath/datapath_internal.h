/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/datapath_internal.h - the object behind datapath.h, shared by load.c, attach.c and
 * sync_routes.c. */
#ifndef MK_DATAPATH_DATAPATH_INTERNAL_H
#define MK_DATAPATH_DATAPATH_INTERNAL_H

#include <limits.h>

#include "base/netlink/netlink.h"
#include "datapath/datapath.h"
#include "datapath/maps/object.h"

struct route;

/* Entries that move from one table to another of the same name. */
struct mk_migration {
	char name[32];
	int old_fd; /* owned; the new table's is the object's */
	/* what the new table has is newer: programs use it already, or another table came first */
	bool only_add;
};
#define MK_MIGRATIONS 64

struct mk_datapath {
	enum mk_datapath_state state;
	char bpf_dir[PATH_MAX], state_dir[PATH_MAX];
	struct mk_node node;
	struct mk_session_sizes session_sizes;
	uint32_t affinity_entries; /* 0: as built */
	bool keep_sizes; /* tables stay as large as they are */
	bool adopts; /* what is pinned, or nothing */
	struct mk_object *object;
	struct mk_nl *nl;
	struct mk_datapath_links links;
	int gate_fd; /* of MK_LOCK_GATE, while attaching waits for its lock; else -1 */
	uint64_t gate_until_ns;
	/* file descriptors are the object's */
	struct mk_table pods, routes, node_routes, peers, affinity, affinity_new,
		sessions[MK_SESSION_TABLES], room, link_table, uplink_table;
	struct mk_service_tables service_tables;
	struct mk_counter_tables counters;
	struct mk_service_sync *services;
	struct mk_migration migrations[MK_MIGRATIONS];
	size_t migration_count;
	bool reused; /* programs, chain and tables are the pinned ones */
	bool published; /* the new tables have their names: programs may use them */
	size_t pods_looked_at, routes_looked_at; /* by repairs */
	struct route *route_entries; /* map routes as it is, by key */
	struct mk_peer_entry *peer_entries; /* what map peers was brought to last */
	size_t peer_count;
};

mk_must_check int datapath_expect(const struct mk_datapath *datapath, enum mk_datapath_state state,
				  const char *step, struct mk_error *err);

struct bpf_map;
/* load.c: can @pinned, at @path, take the place of @map (0), be copied into it (1), or neither? */
mk_must_check int layout_check(const struct bpf_map *map, const struct mk_table *pinned,
			       const char *path, struct mk_error *err);

/* reuse.c: are the pinned programs those that load would make? Returns 1 if so, and they are
 * the object's from now on; 0 if not; an error leaves an object that cannot be loaded any more. */
mk_must_check int datapath_reuse(struct mk_datapath *datapath, struct mk_error *err);
/* What map abi says about the programs of this load. */
void datapath_describe(const struct mk_datapath *datapath, struct mk_abi *abi);

/* migrate.c: note down that @name's entries move from @old_fd (taken over on success). */
mk_must_check int migration_add(struct mk_datapath *datapath, const char *name, int old_fd,
				bool only_add, struct mk_error *err);
bool migration_of(const struct mk_datapath *datapath, const char *name);
/* Copy what the new tables lack. Called before the new programs run, and @again just before and
 * after they take over. */
mk_must_check int migrations_copy(const struct mk_datapath *datapath, bool again,
				  struct mk_error *err);
void migrations_release(struct mk_datapath *datapath);

/* publish.c: pins change owners while the agent may be killed at any instant.
 * Pin chain, programs and moved tables beside those in use; */
mk_must_check int pins_prepare(const struct mk_datapath *datapath, struct mk_error *err);
/* give them the names, keeping the tables before under others; */
mk_must_check int pins_publish(struct mk_datapath *datapath, struct mk_error *err);
/* tables that an agent kept which was killed before its last copy: copied from, too; */
mk_must_check int pins_resume(struct mk_datapath *datapath, struct mk_error *err);
/* nobody uses what was before any more. */
void pins_tidy(struct mk_datapath *datapath);

/* Read map routes. */
mk_must_check int datapath_recover_routes(struct mk_datapath *datapath, struct mk_error *err);
void datapath_forget_routes(struct mk_datapath *datapath);
/* sync_peers.c: put back what is missing of what was last brought to map peers. Returns how many. */
mk_must_check int datapath_repair_peers(struct mk_datapath *datapath, struct mk_error *err);
size_t datapath_route_count(const struct mk_datapath *datapath);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/datapath_internal.h - the object behind datapath.h, private to this
 * folder. */
#ifndef MK_DATAPATH_DATAPATH_INTERNAL_H
#define MK_DATAPATH_DATAPATH_INTERNAL_H

#include <limits.h>

#include "base/netlink/netlink.h"
#include "datapath/datapath.h"
#include "datapath/maps/object.h"
#include "datapath/maps/table.h"

struct route;

/* Entries that move from one table to another of the same name. */
struct mk_migration {
	char name[32];
	int old_fd; /* owned; the object owns the new table's */
	/* keep existing entries of the new table: they are newer, written by programs or by an
	 * earlier copy */
	bool only_add;
};
#define MK_MIGRATIONS 96

struct mk_datapath {
	enum mk_datapath_state state;
	char bpf_dir[PATH_MAX], state_dir[PATH_MAX];
	char other_dir[PATH_MAX]; /* of the other family's pins, which may not exist; "": none */
	struct mk_node node;
	struct mk_session_sizes session_sizes;
	uint32_t affinity_entries; /* 0: the default */
	bool keep_sizes; /* keep the sizes of the pinned tables */
	bool adopts; /* use the pinned programs or fail, without loading */
	struct mk_object *object;
	struct mk_nl *nl;
	struct mk_datapath_links links;
	bool waits_at_gate; /* attach found its lock held */
	/* the object owns the file descriptors */
	struct mk_table pods, routes, node_routes, peers, far_peers, link_nodes, affinity,
		affinity_new, sessions[MK_SESSION_TABLES], half_open_quota, link_table,
		uplink_table;
	struct mk_service_tables service_tables;
	struct mk_counter_tables counters;
	struct mk_service_sync *services;
	struct mk_policy_tables policy_tables;
	struct mk_policy_sync *policies;
	struct mk_sfc_tables sfc_tables;
	struct mk_sfc_sync *sfc;
	struct mk_clusters_tables cluster_tables;
	struct mk_clusters_sync *clusters;
	struct mk_migration migrations[MK_MIGRATIONS];
	size_t migration_count;
	bool reused; /* programs, chain and tables are the pinned ones */
	bool published; /* the new tables are pinned by their names: programs may use them */
	size_t pods_looked_at, routes_looked_at; /* position of the repairs */
	bool has_ports; /* a device may be a function pod's port */
	struct route *route_entries; /* contents of map `routes`, by key */
	struct mk_peer_entry *peer_entries; /* last synchronized contents of both maps of peers */
	size_t peer_count;
};

static inline sa_family_t datapath_family(const struct mk_datapath *datapath)
{
	return mk_node_family(&datapath->node);
}

/* Are this datapath's programs behind IPv4's? Then these have the hooks (map `other_family`). */
static inline bool datapath_is_behind(const struct mk_datapath *datapath)
{
	return datapath->node.has_other_family && datapath_family(datapath) == AF_INET6;
}

mk_must_check int datapath_expect(const struct mk_datapath *datapath, enum mk_datapath_state state,
				  const char *step, struct mk_error *err);

struct bpf_map;
/* load.c: can @pinned (at @path) be used as @map? Returns 0 if it can, 1 if its entries can be
 * copied, otherwise an error. */
mk_must_check int layout_check(const struct bpf_map *map, const struct mk_table *pinned,
			       const char *path, struct mk_error *err);

/* reuse.c: use the pinned programs if load would make the same. Returns 1 if so (the object owns
 * them now), 0 if not. After an error the object cannot be loaded any more. */
mk_must_check int datapath_reuse(struct mk_datapath *datapath, struct mk_error *err);
/* Fill @abi with the contents of map `abi` for the programs of this load. */
void datapath_describe(const struct mk_datapath *datapath, struct mk_abi *abi);

/* migrate.c: register that the entries of table @name move from @old_fd, which it owns on
 * success. */
mk_must_check int migration_add(struct mk_datapath *datapath, const char *name, int old_fd,
				bool only_add, struct mk_error *err);
bool migration_of(const struct mk_datapath *datapath, const char *name);
/* Copy missing entries to the new tables. Called before the new programs run, and with @again just
 * before and after they replace the old ones. */
mk_must_check int migrations_copy(const struct mk_datapath *datapath, bool again,
				  struct mk_error *err);
void migrations_release(struct mk_datapath *datapath);

/* publish.c: replace pins so that the agent may be killed at any instant. Pin chain, programs and
 * moved tables under temporary names; */
mk_must_check int pins_prepare(const struct mk_datapath *datapath, struct mk_error *err);
/* rename them to the final names, and keep the previous tables under other names; */
mk_must_check int pins_publish(struct mk_datapath *datapath, struct mk_error *err);
/* copy also from tables that a killed agent had kept for its last copy; */
mk_must_check int pins_resume(struct mk_datapath *datapath, struct mk_error *err);
/* remove the previous pins, which are no longer in use. */
void pins_tidy(struct mk_datapath *datapath);

/* Read map `routes`. */
mk_must_check int datapath_recover_routes(struct mk_datapath *datapath, struct mk_error *err);
void datapath_forget_routes(struct mk_datapath *datapath);
/* sync_peers.c: restore entries of the last synchronization that are missing in the maps of peers.
 * Returns their number. */
mk_must_check int datapath_repair_peers(struct mk_datapath *datapath, struct mk_error *err);
size_t datapath_route_count(const struct mk_datapath *datapath);

/* Map `node_routes`: the entries of map `routes` that can be looked up by node number. */

/* Compute the contents of map `node_routes` from @entries of map `routes` into @slots
 * (MK_NODE_ROUTES). Pure. */
void node_routes_make(const struct mk_node *node, const struct mk_route_entry *entries,
		      size_t count, struct mk_route *slots);

/* Write the entries that differ from @slots. Returns their number. */
mk_must_check int node_routes_put(const struct mk_table *table, const struct mk_route *slots,
				  struct mk_error *err);

/* attach.c: let the plugin's calls pass that wait behind attach. */
void attach_open_gate(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/datapath_internal.h - the object behind datapath.h, shared by load.c, attach.c and
 * sync_routes.c. */
#ifndef MK_DATAPATH_DATAPATH_INTERNAL_H
#define MK_DATAPATH_DATAPATH_INTERNAL_H

#include <limits.h>

#include "base/netlink.h"
#include "datapath/datapath.h"
#include "datapath/object.h"

struct route;

/* A pinned table that is smaller or larger than this version's: its entries move over, or, where
 * they are computed from others (map maglev), are computed anew. */
struct mk_migration {
	char name[32];
	int old_fd; /* owned; the new table's is the object's */
};
#define MK_MIGRATIONS 16

struct mk_datapath {
	enum mk_datapath_state state;
	char bpf_dir[PATH_MAX], state_dir[PATH_MAX];
	struct mk_node node;
	struct mk_session_sizes session_sizes;
	bool keep_sizes; /* tables stay as large as they are */
	struct mk_object *object;
	struct mk_nl *nl;
	struct mk_datapath_links links;
	/* file descriptors are the object's */
	struct mk_table pods, routes, affinity, sessions[MK_SESSION_TABLES];
	struct mk_service_tables service_tables;
	struct mk_counter_tables counters;
	struct mk_service_sync *services;
	struct mk_migration migrations[MK_MIGRATIONS];
	size_t migration_count;
	size_t pods_looked_at, routes_looked_at; /* by repairs */
	struct route *route_entries; /* map routes as it is, by key */
};

mk_must_check int mk_datapath_expect(const struct mk_datapath *datapath,
				     enum mk_datapath_state state, const char *step,
				     struct mk_error *err);

/* migrate.c: note down that @name moves from @old_fd (taken over on success). */
mk_must_check int mk_migration_add(struct mk_datapath *datapath, const char *name, int old_fd,
				   struct mk_error *err);
bool mk_migration_of(const struct mk_datapath *datapath, const char *name);
/* Copy what the new tables lack. Called before the new programs run, and again after. */
mk_must_check int mk_migrations_copy(const struct mk_datapath *datapath, bool again,
				     struct mk_error *err);
void mk_migrations_release(struct mk_datapath *datapath);

/* Read map routes. */
mk_must_check int mk_datapath_recover_routes(struct mk_datapath *datapath, struct mk_error *err);
void mk_datapath_forget_routes(struct mk_datapath *datapath);
size_t mk_datapath_route_count(const struct mk_datapath *datapath);

#endif

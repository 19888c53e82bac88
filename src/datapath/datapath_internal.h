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

struct mk_datapath {
	enum mk_datapath_state state;
	char bpf_dir[PATH_MAX], state_dir[PATH_MAX];
	struct mk_node node;
	struct mk_object *object;
	struct mk_nl *nl;
	struct mk_datapath_links links;
	/* file descriptors are the object's */
	struct mk_table pods, routes, sessions[MK_SESSION_TABLES];
	struct mk_service_tables service_tables;
	struct mk_service_sync *services;
	struct route *route_entries; /* map routes as it is, by key */
};

mk_must_check int mk_datapath_expect(const struct mk_datapath *datapath,
				     enum mk_datapath_state state, const char *step,
				     struct mk_error *err);

/* Read map routes. */
mk_must_check int mk_datapath_recover_routes(struct mk_datapath *datapath, struct mk_error *err);
void mk_datapath_forget_routes(struct mk_datapath *datapath);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* test/policy/node_internal.h - shared by node.c (what a node is) and walk.c (packets). */
#ifndef MK_TEST_POLICY_NODE_INTERNAL_H
#define MK_TEST_POLICY_NODE_INTERNAL_H

#include "datapath/maps/object.h"
#include "datapath/policy/tables.h"
#include "policy/node.h"

/* One family of one node. */
struct datapath {
	int node;
	sa_family_t family;
	struct mk_object *object;
	struct mk_policy_tables tables;
	struct mk_policy_sync *sync; /* NULL: no world */
	struct mk_table pods;
	__u32 slots[BOXES_MAX]; /* of pods */
	size_t slot_count;
	uint64_t drops[MK_HOOK_COUNT][MK_DROP_COUNT]; /* as last read */
};

struct datapath *datapath_of(int node, sa_family_t family);
struct mk_ip node_vtep(const struct datapath *datapath);
struct mk_ip node_gateway(const struct datapath *datapath);
int node_map(const struct datapath *datapath, const char *name);
struct mk_table node_table(const struct datapath *datapath, const char *name);
void node_put(const struct datapath *datapath, const char *name, const void *key,
	      const void *value);
void node_must(int ret, const struct mk_error *err);

#endif

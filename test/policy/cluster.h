/* SPDX-License-Identifier: Apache-2.0 */
/* test/policy/cluster.h - a cluster as JSON lines describe it: its objects in a model, the compilers
 * of its two nodes, and the rows that these have reported. */
#ifndef MK_TEST_POLICY_CLUSTER_H
#define MK_TEST_POLICY_CLUSTER_H

#include <json-c/json.h>

#include "policy/policy.h"
#include "unit/policy_rows.h"

#define NODES	      2
#define BOXES_MAX     64
#define BOX_ADDRESSES 2
#define KEY_CHARS     600

/* A sandbox. Texts belong to the objects and facts. */
struct box {
	int node; /* index */
	const char *pod; /* "namespace/name"; NULL: a container of no Pod */
	const char *uid;
	json_object *object; /* the Pod as last known, or NULL */
	struct mk_ip addresses[BOX_ADDRESSES];
	size_t address_count;
	bool pending;
};

struct cluster {
	json_object *objects; /* by "Kind namespace/name" or "Kind name" */
	json_object *gone; /* by UID: Pods whose sandboxes live on */
	json_object *facts;
	json_object *waiting; /* events that a dead agent has not seen */
	bool dead;
	const char *removed; /* UID of a sandbox that is just removed */
	struct box boxes[BOXES_MAX];
	size_t box_count;
	struct mk_model *model;
	struct mk_policies *compilers[NODES];
	struct policy_rows rows[NODES];
	json_object *sets[NODES]; /* descriptions, by name */
};

/* The sandboxes of a node, as its agent knows them. */
struct sandbox_list {
	struct mk_policy_sandbox all[BOXES_MAX];
	char names[BOXES_MAX][KEY_CHARS];
	bool pending[BOXES_MAX];
	size_t count;
};
void cluster_sandboxes(const struct cluster *cluster, int node, struct sandbox_list *list);
/* If not NULL: called with what each compile has changed. */
extern void (*cluster_write_tables)(const struct cluster *cluster, int node,
				    const struct mk_policy_changes *changes);

/* The members of @line: facts and objects. */
void cluster_begin(struct cluster *cluster, json_object *line);
void cluster_change(struct cluster *cluster, json_object *event);
void cluster_end(struct cluster *cluster);

json_object *cluster_object(const struct cluster *cluster, const char *kind, const char *name);
int node_index(const char *name); /* "n1": 0 */
/* Members on a path such as "spec.nodeName"; NULL: none. */
json_object *at_path(json_object *object, const char *path);
const char *text_at(json_object *object, const char *path);
/* The last box with this name or UID. */
const struct box *box_named(const struct cluster *cluster, const char *name);
const struct box *box_at(const struct cluster *cluster, const struct mk_ip *ip);
/* The first InternalIP of @family. False: none. */
bool node_address(const struct cluster *cluster, const char *node, int family, struct mk_ip *ip);
bool is_overlay_address(const struct cluster *cluster, const struct mk_ip *ip);
/* The overlay's address of @node, or else its own. */
bool overlay_address(const struct cluster *cluster, const char *node, int family, struct mk_ip *ip);
struct mk_ip virtual_pod_address(int node, sa_family_t family);
bool audits_all(const struct cluster *cluster); /* networkPolicy: audit */
bool in_pod_ranges(const struct cluster *cluster, const struct mk_ip *ip);
/* The rule @number of @set on @node, described; NULL: none. */
json_object *described_rule(const struct cluster *cluster, int node, uint64_t set, uint16_t number);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/model/model_internal.h - the tables of the model; private to model.c,
 * endpoint_sets.c and policy_objects.c. */
#ifndef MK_CLUSTER_MODEL_MODEL_INTERNAL_H
#define MK_CLUSTER_MODEL_MODEL_INTERNAL_H

#include <uthash.h>

#include "base/index.h"
#include "cluster/model/model.h"
#include "cluster/model/object.h"
#include "cluster/model/policy_object.h"

/* "namespace/name" of two names that mk_model_identify() has accepted */
#define MK_MODEL_KEY_CHARS (2 * 253 + 2)

struct node_entry {
	struct mk_node_object node; /* first, for mk_model_next() */
	UT_hash_handle hh;
};

struct service_entry {
	struct mk_service_object service; /* first, for mk_model_next() */
	UT_hash_handle hh;
	char key[];
};

/* An EndpointSlice or an Endpoints object. */
struct set_entry {
	UT_hash_handle hh;
	struct mk_endpoint_set set;
	struct set_entry *next, *prev; /* slices of the same Service */
	char key[];
};

/* The slices of one Service; exists while there is one. */
struct slice_list {
	UT_hash_handle hh;
	struct set_entry *slices;
	char key[];
};

struct service_cidr_entry {
	UT_hash_handle hh;
	struct mk_cidr cidrs[MK_FAMILIES]; /* family AF_UNSPEC: none */
	char name[];
};

struct mk_model {
	struct node_entry *nodes;
	struct service_entry *services;
	struct set_entry *slices, *endpoints;
	struct slice_list *slices_of;
	struct service_cidr_entry *service_cidrs;
	struct mk_index
		policy_objects[MK_KIND_COUNT]; /* of the kinds of policy.h, chain.h and peer.h */
	struct function_pod *function_pods; /* Pods among these */
	const char *node_name; /* NULL: all Pods keep their UID */
	struct mk_clusterset clusterset; /* without name: imports and exports are not used */
	size_t import_count; /* of @services */
	struct mk_texts texts;
	size_t endpoint_counts[MK_FAMILIES]; /* in slices */
	size_t imported_endpoints; /* of these, in slices of imports */
	size_t skipped; /* addresses in slices and Endpoints objects */
	struct mk_model_listener listener;
};

/* Write the key into @key (MK_MODEL_KEY_CHARS). */
void model_make_key(char *key, const char *namespace_, const char *name);
/* Make a zeroed entry with @key at @key_offset, for free(). NULL: out of memory. */
void *model_entry_new(size_t key_offset, const char *key);
/* Log @now, the skipped parts of object @id, if it differs from @old. */
void model_log_passed_over(const struct mk_object_id *id, const char *old, const char *now);
/* Report a changed Service to the listener; @name may be NULL: nothing to report. */
void model_tell_service(const struct mk_model *model, const char *namespace_, const char *name);

mk_must_check int model_apply_set(struct mk_model *model, const struct mk_json *tree,
				  const struct mk_object_id *id, struct mk_error *err);
void model_delete_set(struct mk_model *model, enum mk_kind kind, const char *namespace_,
		      const char *name);

/* Is @kind one of policy.h, chain.h or peer.h? The functions below are for these kinds only. */
bool model_is_policy_object(enum mk_kind kind);
mk_must_check int model_apply_policy_object(struct mk_model *model, const struct mk_json *tree,
					    const struct mk_object_id *id, struct mk_error *err);
void model_delete_policy_object(struct mk_model *model, enum mk_kind kind, const char *namespace_,
				const char *name);
const void *model_next_policy_object(const struct mk_model *model, enum mk_kind kind,
				     const void *object);
size_t model_policy_object_count(const struct mk_model *model, enum mk_kind kind);
void model_free_policy_objects(struct mk_model *model);

#endif

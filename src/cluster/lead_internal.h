/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/lead_internal.h - shared by lead.c, which knows when this node leads and what the
 * server has, lead_write.c, which finds the places of what is written, lead_read.c, which reads
 * Services, and lead_left.c, which asks whether there is something to remove. */
#ifndef MK_CLUSTER_LEAD_INTERNAL_H
#define MK_CLUSTER_LEAD_INTERNAL_H

#include <uthash.h>
#include <uv.h>

#include "cluster/api/lease.h"
#include "cluster/api/objects.h"
#include "cluster/kube_internal.h"
#include "cluster/lead.h"

#define LEAD_REMEDY "apply multicluster.yaml again, its roles allow it"

struct lead_left;
struct lead_object;
struct lead_reads;

struct mk_lead {
	struct mk_kube *kube;
	struct mk_lead_listener listener; /* NULLs: none yet */
	struct mk_lease *lease;
	struct mk_objects *objects;
	struct lead_reads *reads;
	struct lead_left *left;
	uv_timer_t timer; /* until this node's rank is computed again */
	enum mk_lead_wish wish;
	struct mk_reflector *reflectors[MK_LEAD_KINDS]; /* while it leads */
	struct mk_reflector
		*headless; /* slices of headless Services, which only the leader needs */
	bool listed[MK_LEAD_KINDS], lacks[MK_LEAD_KINDS];
	struct lead_object *of[MK_LEAD_KINDS]; /* by NAMESPACE/NAME */
};

struct lead_object {
	struct mk_lead_object is; /* first, for mk_lead_next() */
	char *key, *namespace_, *name, *uid, *service, *cluster, *relayed_by, *spec;
	UT_hash_handle hh;
};

struct mk_lead *lead_new(struct mk_kube *kube, const struct mk_lease_timing *timing,
			 struct mk_error *err); /* NULL: error */
void lead_free(struct mk_lead *lead); /* after a close callback of the loop */
/* A version of a Service or EndpointSlice has come, or it is gone. */
void lead_saw(struct mk_lead *lead, const struct mk_resource *resource, const char *namespace_,
	      const char *name, json_object *tree);

/* Compute again whether this node is a candidate. */
void lead_look(struct mk_lead *lead);

/* lead_resources.c */
const struct mk_resource *lead_resource(enum mk_lead_kind kind);
const struct mk_resource *lead_headless(void);

/* lead_write.c: let the queue compare @tree (NULL: gone) with what was written. */
void lead_written_is(struct mk_lead *lead, const struct lead_object *object, json_object *tree);
const struct mk_objects_options *lead_queue_options(struct mk_lead *lead,
						    struct mk_objects_options *options);

/* lead_read.c */
struct lead_reads *lead_reads_new(struct mk_lead *lead, struct mk_error *err); /* NULL: error */
void lead_reads_clear(struct lead_reads *reads);
void lead_reads_free(struct lead_reads *reads); /* after a close callback of the loop */
/* The Service is exported no longer. */
void lead_reads_forget(struct lead_reads *reads, const char *namespace_, const char *name);

/* lead_left.c */
struct lead_left *lead_left_new(struct mk_lead *lead, struct mk_error *err); /* NULL: error */
void lead_left_free(struct lead_left *left); /* after a close callback of the loop */
/* Ask until the server says that nothing is left; false: the answer is forgotten. */
void lead_left_want(struct lead_left *left, bool wanted);
bool lead_left_is_there(const struct lead_left *left);

#endif

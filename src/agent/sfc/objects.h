/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/sfc/objects.h - the objects of the model that src/sfc compiles. */
#ifndef MK_AGENT_SFC_OBJECTS_H
#define MK_AGENT_SFC_OBJECTS_H

#include "agent/sfc/nodes.h"
#include "agent/sfc/ports.h"
#include "sfc/sfc.h"

/* @.._of: the model's own, by the same index. */
struct sfc_objects {
	struct mk_sfc_chain_object *chains;
	const struct mk_chain **chains_of; /* in the order of precedence */
	struct sfc_conflict {
		const struct mk_chain *with; /* NULL: none */
		const char *function; /* that both have */
	} * conflicts; /* by the same index: a chain that precedes keeps this one out of force */
	size_t chain_count;
	struct mk_sfc_pod_object *pods;
	struct mk_function_pod *pods_of;
	size_t pod_count;
	char *names; /* storage of UIDs that are missing */
};

/* Get them, with the @ports of this node's function pods, and the @macs of the others' nodes. */
mk_must_check int objects_get(struct sfc_objects *objects, const struct mk_core *core,
			      const struct node_ports *ports, const struct node_macs *macs,
			      struct mk_error *err);
void objects_release(struct sfc_objects *objects);

/* The mode that a function or its pod names; MK_PORT_NONE: any one with two ports. */
enum mk_port_mode objects_mode(bool is_tap, bool is_end);

/* status.c: what keeps a chain from taking flows, */
struct sfc_problem {
	const char *reason; /* of condition Accepted */
	char what[2 * MK_OBJECT_NAME_SIZE + 160];
	const char *remedy;
};
/* of the chain with this index. Returns false if there is nothing. */
bool objects_problem(const struct sfc_objects *objects, size_t index, const struct mk_model *model,
		     struct sfc_problem *problem);
/* and of a pod in state MK_SFC_POD_OTHER_MODE. */
struct sfc_mismatch {
	const char *state; /* for `monokube chains` */
	const char *why; /* with the remedy */
};
const struct sfc_mismatch *objects_mismatch(const struct sfc_objects *objects,
					    const struct mk_sfc_pod_object *pod);
/* Say what the status of each chain should be, as all agents do. @say must not change the
 * model. */
mk_must_check int objects_status(const struct sfc_objects *objects, const struct mk_model *model,
				 void (*say)(void *ctx, const struct mk_chain_status *status),
				 void *ctx, struct mk_error *err);

/* tell.c: write file `chains.json` in @state_dir for the command line, */
mk_must_check int objects_write(const struct sfc_objects *objects, const struct mk_model *model,
				const struct mk_sfc *sfc, const char *state_dir,
				struct mk_error *err);
/* and log what an operator must know, once per text. */
struct sfc_said {
	char *state, *lacks; /* as last logged; the owner frees them */
};
void objects_say(const struct sfc_objects *objects, struct sfc_said *said);

#endif

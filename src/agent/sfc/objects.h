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

/* tell.c: say what the status of each chain should be, as all agents do. @say must not change the
 * model. */
mk_must_check int objects_status(const struct sfc_objects *objects, const struct mk_model *model,
				 void (*say)(void *ctx, const struct mk_chain_status *status),
				 void *ctx, struct mk_error *err);

/* Write file `chains.json` in @state_dir for the command line, */
mk_must_check int objects_write(const struct sfc_objects *objects, const struct mk_model *model,
				const struct mk_sfc *sfc, const char *state_dir,
				struct mk_error *err);
/* and log what an operator must know, once per text. */
struct sfc_said {
	char *state, *lacks; /* as last logged; the owner frees them */
};
void objects_say(const struct sfc_objects *objects, struct sfc_said *said);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/sfc/sfc_internal.h - the files of this folder among themselves. */
#ifndef MK_AGENT_SFC_SFC_INTERNAL_H
#define MK_AGENT_SFC_SFC_INTERNAL_H

#include "agent/sfc/ports.h"
#include "agent/sfc/sfc.h"

/* The objects of the model that src/sfc compiles. @of: the model's own, by the same index. */
struct sfc_objects {
	struct mk_sfc_chain_object *chains;
	const struct mk_chain **chains_of; /* the first to be served come first */
	size_t chain_count;
	struct mk_sfc_pod_object *pods;
	struct mk_function_pod *pods_of;
	size_t pod_count;
	char *names; /* storage of UIDs that are missing */
};

/* Get them from the model, with the ports of this node's function pods. */
mk_must_check int objects_get(struct sfc_objects *objects, const struct mk_node_sfc *sfc,
			      struct mk_error *err);
void objects_release(struct sfc_objects *objects);

/* tell.c: write file `chains.json` in the state directory for the command line, */
mk_must_check int objects_write(const struct mk_node_sfc *sfc, const struct sfc_objects *objects,
				struct mk_error *err);
/* and log what an operator must know. */
void objects_say(struct mk_node_sfc *sfc, const struct sfc_objects *objects);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/clusters/objects.h - the model's objects as input of src/clusters, and what to say of
 * the result; private to this folder. */
#ifndef MK_AGENT_CLUSTERS_OBJECTS_H
#define MK_AGENT_CLUSTERS_OBJECTS_H

#include "agent/clusters/node_clusters.h"
#include "agent/core/core.h"
#include "agent/node/own_node.h"
#include "clusters/clusters.h"

struct probes_known;

/* Compute the rows of the family of @own; mk_clusters_rows_release() in any case. */
mk_must_check int clusters_objects_compile(const struct mk_clusters_objects *objects,
					   const struct mk_own_family *own,
					   const struct probes_known *known,
					   struct mk_clusters_rows *rows, struct mk_error *err);

bool clusters_is_usable(const struct clusters_result *result, size_t peer);
uint32_t clusters_number(const struct clusters_result *result, size_t peer);
/* The largest packet to the peer; 0: it has no rows. */
uint16_t clusters_mtu(const struct clusters_result *result, size_t peer);
size_t clusters_nodes_used(const struct clusters_result *result, size_t peer);

/* Write MK_CLUSTER_NAMES_FILE for the command line. */
mk_must_check int clusters_write(const struct clusters_result *result,
				 const struct mk_config *config, struct mk_error *err);
/* Remove it. */
mk_must_check int clusters_unwrite(const char *state_dir, struct mk_error *err);

/* As last logged. */
struct clusters_said {
	char *state, *lacks;
};
/* Return the reasons of peers whose views this node cannot have, empty: none; the caller frees it.
 * NULL: out of memory. */
char *clusters_overlaps(const struct clusters_result *result);
void clusters_log(const struct clusters_result *result, struct clusters_said *said);

#endif

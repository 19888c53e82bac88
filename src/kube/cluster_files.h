/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/cluster_files.h - which file says which object; private to src/kube.
 *
 * Files are marked when something happened to them, and read by the next sync; what is marked
 * together is applied together, so that an object which moves from one file to another is never
 * gone in between. */
#ifndef MK_KUBE_CLUSTER_FILES_H
#define MK_KUBE_CLUSTER_FILES_H

#include <stdbool.h>

#include "base/error.h"
#include "model/model.h"

struct mk_cluster_files;

/* Of directory @path, into @model. NULL: out of memory. */
mk_must_check struct mk_cluster_files *mk_cluster_files_new(const char *path,
							    struct mk_model *model);
/* The objects stay in the model. */
void mk_cluster_files_free(struct mk_cluster_files *files);

/* File @name appeared, changed or vanished. Names that are not ours are passed over. */
void mk_cluster_files_mark(struct mk_cluster_files *files, const char *name);
/* Mark all that are there or were. */
mk_must_check int mk_cluster_files_mark_all(struct mk_cluster_files *files, struct mk_error *err);
/* Read what is marked and apply the difference. */
void mk_cluster_files_sync(struct mk_cluster_files *files);

/* Did every file and every object in them make sense when it was last read? */
bool mk_cluster_files_complete(const struct mk_cluster_files *files);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/files/cluster_files.h - which file has which object; private to this folder.
 *
 * Changed files are marked, and the next sync reads them. Files that were marked together are
 * applied together, so that an object that moves to another file never disappears in between. */
#ifndef MK_CLUSTER_FILES_CLUSTER_FILES_H
#define MK_CLUSTER_FILES_CLUSTER_FILES_H

#include <stdbool.h>

#include "base/error.h"
#include "cluster/model/model.h"

struct mk_cluster_files;

/* Follow the files of directory @path and fill @model. NULL: out of memory. */
mk_must_check struct mk_cluster_files *cluster_files_new(const char *path, struct mk_model *model);
/* Free; the objects stay in the model. */
void cluster_files_free(struct mk_cluster_files *files);

/* File @name appeared, changed or vanished. Names without a known ending are ignored. */
void cluster_files_mark(struct mk_cluster_files *files, const char *name);
/* Mark all files that exist or existed. */
mk_must_check int cluster_files_mark_all(struct mk_cluster_files *files, struct mk_error *err);
/* Read the marked files and apply the difference. */
void cluster_files_sync(struct mk_cluster_files *files);

/* Were every file and every object valid when last read? */
bool cluster_files_complete(const struct mk_cluster_files *files);

#endif

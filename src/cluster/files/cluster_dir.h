/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/files/cluster_dir.h - Kubernetes objects from files: follow a directory of *.yaml,
 * *.yml and *.json with inotify, and fill the model. No API server is needed.
 *
 * A file holds any number of objects; a `kind: List` is split into its items. Only the changes of a
 * file are applied. If a file cannot be read or parsed, the log gives line and reason, and its
 * objects stay unchanged. An invalid object also stays unchanged, while the rest of its file is
 * applied. If two files have the same object, the file whose name sorts first wins, and the log
 * names both.
 *
 * Replace files by rename, or write them in one go: their content counts when the writer closes
 * them. */
#ifndef MK_CLUSTER_FILES_CLUSTER_DIR_H
#define MK_CLUSTER_FILES_CLUSTER_DIR_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "cluster/model/model.h"

struct mk_cluster_dir;

/* Called from the loop, once after all files have been read for the first time. @complete says
 * whether all files and objects were valid. If not, it is called once more when all are, with
 * @complete true. Until then remove nothing: what the model lacks may still exist. */
typedef void mk_listed_fn(void *ctx, bool complete);

/* Watch @path and keep @model equal to the files; @model is filled when this returns. If the
 * directory vanishes later, the model stays unchanged until it is back. */
mk_must_check struct mk_cluster_dir *mk_cluster_dir_start(uv_loop_t *loop, const char *path,
							  struct mk_model *model,
							  mk_listed_fn *listed, void *ctx,
							  struct mk_error *err);

/* Were all files and all objects valid, once? */
bool mk_cluster_dir_complete(const struct mk_cluster_dir *dir);

/* Stop; no callback follows. The memory is freed after the loop has run its close callbacks.
 * @dir may be NULL. */
void mk_cluster_dir_stop(struct mk_cluster_dir *dir);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/cluster_dir.h - Kubernetes objects as files: a directory of *.yaml, *.yml and *.json,
 * followed with inotify, into the model. No API server needed.
 *
 * A file holds any number of objects; `kind: List` is taken apart. What changed in a file is
 * applied, and nothing else. A file that cannot be read or parsed is named in the log with line
 * and reason, and its objects stay as they were; so does an object that makes no sense, while the
 * rest of its file applies. An object in two files: the file whose name sorts first has it, and
 * the log names both. Files should be replaced by rename or written in one go: what is in them
 * when the writer closes them counts. */
#ifndef MK_KUBE_CLUSTER_DIR_H
#define MK_KUBE_CLUSTER_DIR_H

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "model/model.h"

struct mk_cluster_dir;

/* Called from the loop: once when all files have been read for the first time, @complete telling
 * whether every one of them and every object made sense; if not, once more with @complete true
 * when all do. Before that, what the model lacks may still exist: remove nothing. */
typedef void mk_listed_fn(void *ctx, bool complete);

/* Watch @path, fill @model (which is filled when this returns) and keep it equal to the files. A
 * directory that vanishes later leaves the model as it is, until it is there again. */
mk_must_check struct mk_cluster_dir *mk_cluster_dir_start(uv_loop_t *loop, const char *path,
							  struct mk_model *model,
							  mk_listed_fn *listed, void *ctx,
							  struct mk_error *err);

/* No callback comes after this. The memory goes once the loop has run its close callbacks. @dir
 * may be NULL. */
void mk_cluster_dir_stop(struct mk_cluster_dir *dir);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/state_file.h - text files in the agent's state directory. The agent writes them, its
 * next start and the command line read them. */
#ifndef MK_BASE_STATE_FILE_H
#define MK_BASE_STATE_FILE_H

#include <limits.h>
#include <stdio.h>

#include "base/error.h"
#include "base/json.h"

/* Put the path of file @name in @state_dir into @path. */
mk_must_check int mk_state_path(const char *state_dir, const char *name, char path[PATH_MAX],
				struct mk_error *err);

/* A file that is being written: print its content to `out`. */
struct mk_state_file {
	FILE *out;
	char *text; /* owned */
	size_t size;
	char path[PATH_MAX];
};
/* After success, call mk_state_file_write(). */
mk_must_check int mk_state_file_begin(struct mk_state_file *file, const char *state_dir,
				      const char *name, struct mk_error *err);
/* Replace the file as mk_file_replace() does, unless it has this content. Releases @file. */
mk_must_check int mk_state_file_write(struct mk_state_file *file, struct mk_error *err);

/* Read the file; the caller frees *@text. Returns an upper bound of its lines. 0: there is no such
 * file, and *@text stays unchanged. */
mk_must_check int mk_state_file_read(const char *state_dir, const char *name, char **text,
				     struct mk_error *err);

/* The same with a tree, which has a member "version". The caller keeps @tree to be written, and
 * puts *@tree that was read; NULL: there is no such file. -EPROTO: it is not of @version. */
mk_must_check int mk_state_tree_write(const char *state_dir, const char *name, json_object *tree,
				      struct mk_error *err);
mk_must_check int mk_state_tree_read(const char *state_dir, const char *name, int version,
				     json_object **tree, struct mk_error *err);

#endif

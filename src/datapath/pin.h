/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/pin.h - where the datapath lives between two runs: pins below the BPF directory,
 * and the lock that keeps the CNI mode and an agent that swaps programs apart. */
#ifndef MK_DATAPATH_PIN_H
#define MK_DATAPATH_PIN_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

/* <bpf_dir>/maps/<name> and <bpf_dir>/progs/<name> */
#define MK_PIN_MAPS  "maps"
#define MK_PIN_PROGS "progs"

/* Into @path of PATH_MAX bytes. */
mk_must_check int mk_pin_path(char *path, const char *bpf_dir, const char *kind, const char *name,
			      struct mk_error *err);

/* A file descriptor of what is pinned there. -ENOENT where nothing is, or no bpffs. */
mk_must_check int mk_pin_open(const char *bpf_dir, const char *kind, const char *name,
			      struct mk_error *err);

/* Make @bpf_dir with its two folders, on a bpffs: one is mounted on the parent directory if that
 * is none yet. */
mk_must_check int mk_pin_prepare(const char *bpf_dir, struct mk_error *err);

/* Lock @state_dir/datapath.lock, shared or exclusive; waits. Returns the file descriptor:
 * closing it unlocks. */
mk_must_check int mk_datapath_lock(const char *state_dir, bool exclusive, struct mk_error *err);

#endif

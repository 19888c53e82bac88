/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/pin.h - where the datapath lives between two runs: pins below the BPF directory,
 * and the lock that keeps the CNI mode and an agent that swaps programs apart. */
#ifndef MK_DATAPATH_MAPS_PIN_H
#define MK_DATAPATH_MAPS_PIN_H

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

/* Lock the file @name in @state_dir, both made if missing, by flock(2) @operation (LOCK_SH, LOCK_EX,
 * LOCK_NB). Returns the file descriptor: closing it unlocks. -EWOULDBLOCK, -ETIMEDOUT: held by
 * another, whom the error names (base/lock.h). */
mk_must_check int mk_state_lock(const char *state_dir, const char *name, int operation,
				struct mk_error *err);

/* Lock MK_LOCK_DATAPATH shared, behind whoever waits for all of it. */
mk_must_check int mk_datapath_lock_shared(const char *state_dir, struct mk_error *err);

#define MK_LOCK_GATE	   "gate.lock" /* exclusive: is about to take MK_LOCK_DATAPATH */
#define MK_LOCK_DATAPATH   "datapath.lock" /* shared: attaches a pod; exclusive: swaps programs */
#define MK_LOCK_RUNTIME	   "runtime.lock" /* exclusive: changes map `runtime` */
#define MK_LOCK_HOST_PORTS "host_ports.lock" /* exclusive: changes map `host_ports` */
#define MK_LOCK_DROPS	   "drops.lock" /* exclusive: reads the ring buffers */

#endif

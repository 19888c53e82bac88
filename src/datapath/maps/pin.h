/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/pin.h - the datapath's pins below the BPF directory, which outlive the process,
 * and the locks. The datapath's lock keeps the CNI mode out while an agent replaces programs. */
#ifndef MK_DATAPATH_MAPS_PIN_H
#define MK_DATAPATH_MAPS_PIN_H

#include <limits.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/error.h"
#include "monokube/abi.h"

/* The datapath of a family has a directory: IPv4's is the BPF directory, IPv6's is <bpf_dir>/ipv6.
 * Pins are <dir>/maps/<name> and <dir>/progs/<name>. Functions of src/datapath take @dir. */
#define MK_PIN_MAPS  "maps"
#define MK_PIN_PROGS "progs"

/* Write the directory of @family into @dir of PATH_MAX bytes; */
mk_must_check int mk_pin_dir(char *dir, const char *bpf_dir, sa_family_t family,
			     struct mk_error *err);
/* that of the first family with pinned tables: IPv4, unless only IPv6 has some. */
mk_must_check int mk_pin_first_dir(char *dir, const char *bpf_dir, struct mk_error *err);
/* Write to @other the directory of the family other than @family, which has @dir. Returns false if
 * @dir says nothing of the other family. */
bool mk_pin_other_dir(char *other, const char *dir, sa_family_t family);
/* Are tables of @family pinned? */
bool mk_pin_has(const char *bpf_dir, sa_family_t family);

/* Write the pin's path into @path of PATH_MAX bytes. */
mk_must_check int mk_pin_path(char *path, const char *dir, const char *kind, const char *name,
			      struct mk_error *err);

/* Open the pin and return a file descriptor. -ENOENT: no such pin, or no bpffs. */
mk_must_check int mk_pin_open(const char *dir, const char *kind, const char *name,
			      struct mk_error *err);

/* Create @dir with its two folders on a bpffs. Mount a bpffs on the parent of the BPF directory if
 * it is not one yet. */
mk_must_check int mk_pin_prepare(const char *dir, struct mk_error *err);

/* Lock the file @name in @state_dir with flock(2) @operation (LOCK_SH, LOCK_EX, LOCK_NB). File and
 * folder are created if missing. Returns the file descriptor; closing it unlocks. -EWOULDBLOCK,
 * -ETIMEDOUT: another process holds the lock, and the error names it (base/lock.h). */
mk_must_check int mk_state_lock(const char *state_dir, const char *name, int operation,
				struct mk_error *err);

/* Lock MK_LOCK_DATAPATH shared, after every process that waits for the exclusive lock. */
mk_must_check int mk_datapath_lock_shared(const char *state_dir, struct mk_error *err);

#define MK_LOCK_GATE	   "gate.lock" /* exclusive: while waiting for MK_LOCK_DATAPATH */
#define MK_LOCK_DATAPATH   "datapath.lock" /* shared: attaches a pod; exclusive: swaps programs */
#define MK_LOCK_RUNTIME	   "runtime.lock" /* exclusive: changes map `runtime` */
#define MK_LOCK_HOST_PORTS "host_ports.lock" /* exclusive: changes map `host_ports` */
#define MK_LOCK_DROPS	   "drops.lock" /* exclusive: reads the ring buffers */

/* Which version made the pinned tables (map `abi`). */

/* May this version take over the pins below @bpf_dir? 0: yes, or nothing is pinned. -EPROTO: a
 * later version made them; @err names both versions and the remedy. */
mk_must_check int mk_abi_check(const char *bpf_dir, struct mk_error *err);

/* Read map `abi` below @bpf_dir into *@abi. -ENOENT: the map does not exist. */
mk_must_check int mk_abi_read(const char *bpf_dir, struct mk_abi *abi, struct mk_error *err);
/* Write @abi into map `abi` (@fd). */
mk_must_check int mk_abi_write(int fd, const struct mk_abi *abi, struct mk_error *err);

#endif

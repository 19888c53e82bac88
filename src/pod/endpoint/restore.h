/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/endpoint/restore.h - restore entries of maps pods and host_ports that have been removed.
 * The agent calls this. */
#ifndef MK_POD_ENDPOINT_RESTORE_H
#define MK_POD_ENDPOINT_RESTORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Restore the entry of every allocated address whose pod has the host's end of its veth pair. Cheap
 * if nothing is missing: no address file is read. While an ADD or DEL is running, do nothing.
 *
 * Set *@in_vain if entries are missing but none could be restored. Either the device is missing
 * too, which the reaper handles, or another pod has the slot in map pods, which the log says.
 * Returns the number of entries restored, and logs each. */
mk_must_check int mk_cni_restore(const char *state_dir, const char *bpf_dir,
				 const char *veth_prefix, bool *in_vain, struct mk_error *err);

/* Restore the entries in map host_ports of every pod that has a device, from its address file. Then
 * tell the programs whether the map has entries. While an ADD or DEL is running, do nothing.
 *
 * Cheap if nothing is missing. Address files are read only if there are fewer entries than *@known
 * (SIZE_MAX at first), or if the programs' flag contradicts the map. Returns the number of entries
 * restored, and logs them by pod. */
mk_must_check int mk_cni_restore_host_ports(const char *state_dir, const char *bpf_dir,
					    size_t *known, struct mk_error *err);

#endif

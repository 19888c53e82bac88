/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/restore.h - what somebody has removed of pods: entries of maps pods and host_ports. For the
 * agent. */
#ifndef MK_CNI_RESTORE_H
#define MK_CNI_RESTORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Put back the entry of every allocated address whose pod has the host's end of its veth pair. Cheap
 * where nothing is missing: no address file is read. While an ADD or DEL is under way nothing is done.
 * *@in_vain: addresses without an entry have no device either, which is the reaper's business, or their slot
 * in map pods is another pod's, which the log says. Returns how many, and logs each. */
mk_must_check int mk_cni_restore(const char *state_dir, const char *bpf_dir,
				 const char *veth_prefix, bool *in_vain, struct mk_error *err);

/* Put back the entries of map host_ports of every pod whose device is there, as its address file names
 * them, and tell the programs that there are some. Cheap where nothing is missing: no address file is
 * read unless there are fewer entries than *@known (SIZE_MAX at first), or the programs are told
 * otherwise than the map says. While an ADD or DEL is under way nothing is done. Returns how many
 * were put back, and logs them by pod. */
mk_must_check int mk_cni_restore_host_ports(const char *state_dir, const char *bpf_dir,
					    size_t *known, struct mk_error *err);

#endif

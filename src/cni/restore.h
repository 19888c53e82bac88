/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/restore.h - entries of map pods that somebody has removed. For the agent. */
#ifndef MK_CNI_RESTORE_H
#define MK_CNI_RESTORE_H

#include <stdbool.h>

#include "base/error.h"

/* Put back the entry of every allocated address whose pod has the host's end of its veth pair. Cheap
 * where nothing is missing: no address file is read. While an ADD or DEL is under way nothing is done.
 * *@in_vain: addresses without an entry have no device either, which is the reaper's business. Returns
 * how many, and logs each. */
mk_must_check int mk_cni_restore(const char *state_dir, const char *bpf_dir,
				 const char *veth_prefix, bool *in_vain, struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/remove.h - take the datapath away: `monokube cleanup`. Works on whatever is left
 * of it, with or without an agent's memory. */
#ifndef MK_DATAPATH_REMOVE_H
#define MK_DATAPATH_REMOVE_H

#include "base/error.h"
#include "base/netlink/netlink.h"

struct mk_removed {
	unsigned int filters, pins;
};

/* Remove our filters from every interface, then all pins below @bpf_dir. Adds to @removed. */
mk_must_check int mk_datapath_remove(struct mk_nl *nl, const char *bpf_dir,
				     struct mk_removed *removed, struct mk_error *err);

#endif

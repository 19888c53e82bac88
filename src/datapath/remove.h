/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/remove.h - remove the datapath (`monokube cleanup`). Needs no state of an agent, and
 * works on an incomplete datapath. */
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

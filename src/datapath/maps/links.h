/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/links.h - maps `links` and `uplinks`: the node's devices and addresses as the programs know them. They
 * change while programs run, and no program is loaded for it. */
#ifndef MK_DATAPATH_MAPS_LINKS_H
#define MK_DATAPATH_MAPS_LINKS_H

#include <stddef.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "datapath/maps/table.h"

struct mk_datapath_links {
	struct mk_link_set set;
	struct mk_uplink uplinks[MK_UPLINKS_MAX]; /* the first carries the overlay */
	size_t uplink_count;
};

/* Put what the tables lack. A packet finds the device that it is to leave by: uplinks come before the set that
 * names them, and go after it (mk_links_prune()). Each returns how many entries changed. */
mk_must_check int mk_links_put(const struct mk_table *links, const struct mk_table *uplinks,
			       const struct mk_datapath_links *wanted, struct mk_error *err);
mk_must_check int mk_links_prune(const struct mk_table *uplinks,
				 const struct mk_datapath_links *wanted, struct mk_error *err);

/* What the pinned tables say: for who looks at a datapath that another process has made. */
mk_must_check int mk_links_read(const char *bpf_dir, struct mk_datapath_links *links,
				struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/links.h - maps `links` and `uplinks`: the node's devices and addresses for the
 * programs. They change at run time, without loading programs again. */
#ifndef MK_DATAPATH_MAPS_LINKS_H
#define MK_DATAPATH_MAPS_LINKS_H

#include <stddef.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"
#include "datapath/maps/table.h"

struct mk_datapath_links {
	struct mk_link_set set;
	uint32_t sfc_ifindex; /* VXLAN device of chains; 0: none */
	uint32_t cluster_ifindex; /* VXLAN device to other clusters; 0: none */
	uint32_t wg_ifindex; /* WireGuard device to other clusters; 0: none */
	uint32_t wg_peer_ifindex; /* VXLAN device on it; 0: none */
	struct mk_uplink uplinks[MK_UPLINKS_MAX]; /* the overlay uses the first */
	size_t uplink_count;
};

/* Write the entries that differ. A packet must find the uplink that the set names. So uplinks are
 * added before the set is written, and removed after it (mk_links_prune()). Each function returns
 * the number of changed entries. */
mk_must_check int mk_links_put(const struct mk_table *links, const struct mk_table *uplinks,
			       const struct mk_datapath_links *wanted, struct mk_error *err);
mk_must_check int mk_links_prune(const struct mk_table *uplinks,
				 const struct mk_datapath_links *wanted, struct mk_error *err);

/* Read the pinned tables, for processes that read a datapath which another process loaded. */
mk_must_check int mk_links_read(const char *bpf_dir, struct mk_datapath_links *links,
				struct mk_error *err);

#endif

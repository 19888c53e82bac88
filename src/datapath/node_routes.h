/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/node_routes.h - map `node_routes`: the entries of map `routes` that can be looked up
 * by node number. */
#ifndef MK_DATAPATH_NODE_ROUTES_H
#define MK_DATAPATH_NODE_ROUTES_H

#include "datapath/datapath.h"
#include "datapath/maps/table.h"

/* Compute the contents of map `node_routes` from @entries of map `routes` into @slots
 * (MK_NODE_ROUTES). Pure. */
void node_routes_make(const struct mk_node *node, const struct mk_route_entry *entries,
		      size_t count, struct mk_route *slots);

/* Write the entries that differ from @slots. Returns their number. */
mk_must_check int node_routes_put(const struct mk_table *table, const struct mk_route *slots,
				  struct mk_error *err);

#endif

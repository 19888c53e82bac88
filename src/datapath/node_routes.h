/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/node_routes.h - map node_routes: of map routes what is found by a node's number. */
#ifndef MK_DATAPATH_NODE_ROUTES_H
#define MK_DATAPATH_NODE_ROUTES_H

#include "datapath/datapath.h"
#include "datapath/maps/table.h"

/* What map node_routes has to hold for @entries of map routes, into @slots, MK_NODE_ROUTES of them. Pure. */
void node_routes_make(const struct mk_node *node, const struct mk_route_entry *entries,
		      size_t count, struct mk_route *slots);

/* Bring the map to @slots, entry by entry. Returns how many it changed. */
mk_must_check int node_routes_put(const struct mk_table *table, const struct mk_route *slots,
				  struct mk_error *err);

#endif

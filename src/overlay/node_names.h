/* SPDX-License-Identifier: Apache-2.0 */
/* src/overlay/node_names.h - which Node has which pod range: the tables hold only addresses. The
 * agent keeps a file in its state directory, one line `POD-CIDR NAME` per Node and family: IPv4's
 * lines first, and the own Node first in each family. The WireGuard key and port of another Node
 * follow as KEY:PORT. After the lines of a family come the Nodes that the overlay leaves out until
 * an operator corrects them: `left-out NAME REASON`. Subcommands that show nodes read it, also
 * while no agent runs. */
#ifndef MK_OVERLAY_NODE_NAMES_H
#define MK_OVERLAY_NODE_NAMES_H

#include "overlay/plan.h"

#define MK_NODE_NAMES_FILE "nodes.names"

/* Replace the lines of view->family, if they differ. */
mk_must_check int mk_node_names_write(const char *state_dir, const struct mk_overlay_view *view,
				      const struct mk_overlay_plan *plan, struct mk_error *err);

/* Give nodes of @plan that publish no key the one that they published last, as the file has it: a
 * node that was sent encrypted packets is never sent others. A node that is gone is not in the
 * file. */
mk_must_check int mk_node_names_keep_keys(const char *state_dir, struct mk_overlay_plan *plan,
					  struct mk_error *err);

struct mk_node_name {
	struct mk_cidr pod_cidr;
	const char *name;
	const char *wireguard; /* KEY:PORT; NULL: none */
};
struct mk_node_left_out {
	sa_family_t family;
	const char *name, *reason;
};
struct mk_node_names {
	struct mk_node_name *list; /* as in the file */
	struct mk_node_left_out *left_out;
	size_t count, left_out_count;
	char *text; /* the names point into it */
};
/* Without a file: no names. Other lines are ignored. mk_node_names_release() in any case. */
mk_must_check int mk_node_names_read(const char *state_dir, struct mk_node_names *names,
				     struct mk_error *err);
void mk_node_names_release(struct mk_node_names *names);
/* Returns the Node whose pod range contains @ip; NULL: not known. */
const char *mk_node_names_find(const struct mk_node_names *names, const struct mk_ip *ip);

/* Visit each two Nodes that have one key. @own: KEY:PORT of this node, whose lines have none; NULL:
 * not known. */
typedef void mk_node_names_twins_fn(void *ctx, const char *first, const char *second);
mk_must_check int mk_node_names_each_twins(const struct mk_node_names *names, const char *own,
					   mk_node_names_twins_fn *see, void *ctx,
					   struct mk_error *err);

/* Returns KEY:PORT of the Node @name; NULL: none, or not known. */
const char *mk_node_names_wireguard(const struct mk_node_names *names, const char *name);

#endif

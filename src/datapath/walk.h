/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/walk.h - tables of sessions, read by a program (bpf/walk.bpf.c) out of the kernel's own
 * buckets and entries, in less than half the time that bpf_map_lookup_batch() takes for full ones. Of nearly
 * empty ones it takes longer. Not every kernel can; whoever is refused reads as ever (table.h). */
#ifndef MK_DATAPATH_WALK_H
#define MK_DATAPATH_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/walk.h"
#include "base/error.h"
#include "datapath/table.h"

struct mk_walker;

/* Load the program for @count tables of sessions, at most MK_WALK_TABLES, and try it on two of its own: what
 * it reads of them must be what was put there. @btf_path: a file that says what the kernel's structs look
 * like; NULL: the kernel's own word. NULL with @err: this kernel cannot. */
struct mk_walker *mk_walker_open(const struct mk_table *tables, int count, const char *btf_path,
				 struct mk_error *err);
void mk_walker_free(struct mk_walker *walker);

/* Where a walk over a table is; starts zeroed. */
struct mk_walk_cursor {
	uint32_t bucket;
	bool done;
};

/* Read the next entries of table @index: @wanted or up to MK_WALK_CHAINED more; fewer, or none, where the
 * table is nearly empty. They stay where *@entries says until the next call. What stays in the table during
 * a whole walk is read at least once; what is removed meanwhile may be read with another's session.
 * Returns how many. */
mk_must_check int mk_walker_next(struct mk_walker *walker, int index, struct mk_walk_cursor *cursor,
				 uint32_t wanted, struct mk_walk_entry **entries,
				 struct mk_error *err);

#endif

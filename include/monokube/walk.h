/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 OR BSD-2-Clause */
/* include/monokube/walk.h - what program `walk` (bpf/walk.bpf.c) and the agent (src/datapath/walk.c) tell
 * each other, in memory that both see. It lasts no longer than a load of the program. */
#ifndef MONOKUBE_WALK_H
#define MONOKUBE_WALK_H

#include "abi.h"

/* Slots of the program: the agent's tables, then two of its own, a hash and an LRU hash. */
#define MK_WALK_TABLES 4
enum mk_walk_trial { MK_WALK_TRIAL_HASH = MK_WALK_TABLES, MK_WALK_TRIAL_LRU, MK_WALK_SLOTS };

#define MK_WALK_ENTRIES 4096 /* a power of two */
#define MK_WALK_BUCKETS 32 /* read at once: the processor waits for several of them together */
#define MK_WALK_CHAINED \
	64 /* entries that these may have; of more, fewer buckets are read at once */

/* As the kernel's entry is from its hash on, so that it is copied in one piece. */
struct mk_walk_entry {
	__u32 hash, pad;
	struct mk_tuple key;
	struct mk_session session;
};
_Static_assert(offsetof(struct mk_walk_entry, key) == 8, "linux/kernel/bpf/hashtab.c: htab_elem");
_Static_assert(offsetof(struct mk_walk_entry, session) == 8 + sizeof(struct mk_tuple),
	       "linux/kernel/bpf/hashtab.c: htab_elem_value()");

struct mk_walk {
	/* the agent's */
	__u32 slot; /* the table to be read */
	__u32 wanted; /* with so many entries there, no more buckets are read */
	/* both write */
	__u32 bucket; /* the next to be read */
	__u32 count; /* of entries */
	__u32 at_once; /* buckets; 0: as many as there may be. Less after a failure */
	__u32 failures; /* in a row, of one bucket alone */
	/* the program's */
	__u32 bucket_count; /* of the table, a power of two */
	__u32 pad;
	struct mk_walk_entry entries[MK_WALK_ENTRIES];
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/watch/seen.h - the objects of one resource that were seen, with their versions. So a
 * repeated list changes only what differs, and objects that it lacks can be removed. */
#ifndef MK_CLUSTER_WATCH_SEEN_H
#define MK_CLUSTER_WATCH_SEEN_H

#include <stdbool.h>
#include <stddef.h>

#include "cluster/watch/decode.h"

struct mk_known;

/* NULL: out of memory. */
mk_must_check struct mk_known *known_new(void);
void known_free(struct mk_known *known);
size_t known_count(const struct mk_known *known);

/* A list begins: none of its objects has been seen. */
void known_begin(struct mk_known *known);

/* The object exists. Returns 1 if it is unchanged, 0 if it is new, changed or unknown, or
 * -ENOMEM. The same version with another uid is another object: a server restored from nothing
 * counts from 1 again. */
mk_must_check int known_see(struct mk_known *known, const struct mk_object_head *head);

/* Record whether the object's newest version could be used. */
void known_set_usable(struct mk_known *known, const struct mk_object_head *head, bool usable);
/* Return the number of objects whose newest version cannot be used. */
size_t known_unusable(const struct mk_known *known);

/* The object has been deleted. */
void known_remove(struct mk_known *known, const struct mk_object_head *head);

/* The list is complete: forget the objects not seen since known_begin(), and call
 * @gone for each. */
void known_sweep(struct mk_known *known,
		 void (*gone)(void *ctx, const char *namespace_, const char *name), void *ctx);

#endif

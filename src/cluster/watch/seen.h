/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/watch/seen.h - the objects of one resource that were seen, with their versions. So a
 * repeated list changes only what differs, and objects that it lacks can be removed. */
#ifndef MK_CLUSTER_WATCH_SEEN_H
#define MK_CLUSTER_WATCH_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/watch/decode.h"

struct mk_seen;

/* @has_names: objects are known by their names. Otherwise only by a hash of these, with a random
 * key: there are many Pods, and the model has their names. NULL: out of memory. */
mk_must_check struct mk_seen *seen_new(bool has_names);
void seen_free(struct mk_seen *seen);
size_t seen_count(const struct mk_seen *seen);

/* A list begins: none of its objects has been seen. */
void seen_begin(struct mk_seen *seen);

/* The object exists. Returns 1 if it is unchanged, 0 if it is new, changed or unknown, or
 * -ENOMEM. The same version with another uid is another object: a server restored from nothing
 * counts from 1 again. */
mk_must_check int seen_add(struct mk_seen *seen, const struct mk_object_head *head);

/* Has the object been seen? *@version: its version as a number, 0 if it is not one. */
bool seen_find(const struct mk_seen *seen, const struct mk_object_head *head, uint64_t *version);

/* Record whether the object's newest version could be used. */
void seen_set_usable(struct mk_seen *seen, const struct mk_object_head *head, bool usable);
/* Return the number of objects whose newest version cannot be used. */
size_t seen_unusable(const struct mk_seen *seen);

/* The object has been deleted. */
void seen_remove(struct mk_seen *seen, const struct mk_object_head *head);

/* Was the object seen, but not since seen_begin()? */
bool seen_is_gone(const struct mk_seen *seen, const struct mk_object_head *head);

/* The list is complete: forget the objects not seen since seen_begin(), and call
 * @gone for each, if they have names. */
void seen_sweep(struct mk_seen *seen,
		void (*gone)(void *ctx, const char *namespace_, const char *name), void *ctx);

#endif

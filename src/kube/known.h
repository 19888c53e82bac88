/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/known.h - which objects of one resource were seen, and in which version: so that a list
 * read again changes only what differs, and what it lacks can be removed. */
#ifndef MK_KUBE_KNOWN_H
#define MK_KUBE_KNOWN_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/decode.h"

struct mk_known;

/* NULL: out of memory. */
mk_must_check struct mk_known *mk_known_new(void);
void mk_known_free(struct mk_known *known);
size_t mk_known_count(const struct mk_known *known);

/* A list begins: nothing of it has been seen. */
void mk_known_begin(struct mk_known *known);

/* The object is there. 1: as it was seen before; 0: not, or unknown whether; -ENOMEM. The same
 * version of another uid is another object: a server restored from nothing counts from 1 again. */
mk_must_check int mk_known_see(struct mk_known *known, const struct mk_object_head *head);

/* Whether its newest version, seen last, could be used. */
void mk_known_set_usable(struct mk_known *known, const struct mk_object_head *head, bool usable);
/* Objects whose newest version cannot be used. */
size_t mk_known_unusable(const struct mk_known *known);

/* The object is gone. */
void mk_known_remove(struct mk_known *known, const struct mk_object_head *head);

/* The list is complete: forget what was not seen since mk_known_begin(), telling of each. */
void mk_known_sweep(struct mk_known *known,
		    void (*gone)(void *ctx, const char *namespace_, const char *name), void *ctx);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/clusters/externals.h - external addresses: each stands for a target that is no pod, an
 * endpoint on a host or outside the cluster. Pure: no I/O, no clock.
 *
 * The published objects are the only list of them. A leader reads these first
 * (mk_externals_claim()), so a target keeps its address when another leader takes over. */
#ifndef MK_CLUSTERS_EXTERNALS_H
#define MK_CLUSTERS_EXTERNALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"

#define MK_EXTERNALS_UNUSED_S 3600 /* a released address is not given to another target */

struct mk_externals;

/* @ranges: externalCidr; AF_UNSPEC: no addresses of this family. NULL: no memory. */
struct mk_externals *mk_externals_new(const struct mk_cidr ranges[MK_FAMILIES]);
void mk_externals_free(struct mk_externals *externals);

/* A published object says that @ip stands for @target. It does from now on, unless one of them is
 * in use or @ip is in no range. It counts as released until an owner has @target. -ENOMEM. */
mk_must_check int mk_externals_claim(struct mk_externals *externals, const struct mk_ip *target,
				     const struct mk_ip *ip, int64_t now_s);

/* Let @owner, a Service, have exactly these targets. An address is released when no owner has its
 * target. @ips: the addresses of the targets, in their order; AF_UNSPEC: the range is exhausted, or
 * there is none. @now_s is of a clock that does not go backwards. -ENOMEM: nothing changed. */
mk_must_check int mk_externals_set(struct mk_externals *externals, const char *owner,
				   const struct mk_ip *targets, size_t count, int64_t now_s,
				   struct mk_ip *ips, struct mk_error *err);

struct mk_externals_use {
	uint64_t mapped, released; /* addresses with an owner; without one, not free yet */
};

/* Count the addresses of both families. */
struct mk_externals_use mk_externals_use(const struct mk_externals *externals, int64_t now_s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/kube/kube_cidrs.h - the ranges of Service addresses, from the ServiceCIDR objects. */
#ifndef MK_KUBE_KUBE_CIDRS_H
#define MK_KUBE_KUBE_CIDRS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/ip.h"

struct mk_kube_cidrs;

mk_must_check struct mk_kube_cidrs *mk_kube_cidrs_new(void); /* NULL: out of memory */
void mk_kube_cidrs_free(struct mk_kube_cidrs *cidrs);

/* Returns 1 if the ranges are others now, 0 if not. */
mk_must_check int mk_kube_cidrs_apply(struct mk_kube_cidrs *cidrs, json_object *tree,
				      struct mk_error *err);
bool mk_kube_cidrs_remove(struct mk_kube_cidrs *cidrs, const char *name);

/* All IPv4 ranges; *@list is the caller's to free. */
mk_must_check int mk_kube_cidrs_list(const struct mk_kube_cidrs *cidrs, struct mk_cidr **list,
				     size_t *count);

#endif

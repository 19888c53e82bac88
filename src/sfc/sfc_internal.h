/* SPDX-License-Identifier: Apache-2.0 */
/* src/sfc/sfc_internal.h - the object behind sfc.h, shared by its files: sfc.c (numbers that stay
 * and go), compile.c (rows from objects). */
#ifndef MK_SFC_SFC_INTERNAL_H
#define MK_SFC_SFC_INTERNAL_H

#include "sfc/numbers.h"
#include "sfc/sfc.h"

struct mk_sfc {
	struct numbers chains, functions, replicas;
	/* By number. */
	struct mk_sfc_chain *chain_rows;
	struct mk_sfc_function **function_rows; /* NULL: none */
	uint64_t *filled_with; /* a hash of the replicas in a function's slots; 0: not known */
	struct mk_sfc_replica_row *replica_rows;
	struct mk_sfc_port_row *port_rows; /* MK_SFC_PORTS */
	struct mk_sfc_tag_row *tag_rows; /* MK_SFC_REPLICAS */
	size_t port_count, tag_count;
	struct mk_sfc_rows rows;
};

/* Return a well mixed hash of @text and, if it is not NULL, "/" and @more. Never 0. */
uint64_t sfc_hash(const char *text, const char *more);

/* The functions with one namespace and name, whatever their localWeight, are a group; its taps are
 * another one, so are its ends, and the functions of chains with ends. Return what their hashes
 * have in common. */
static inline uint64_t sfc_group(uint64_t name_hash)
{
	return name_hash & ~MK_SFC_LOCAL_WEIGHT_MASK;
}

/* Return the hash of a function. */
static inline uint64_t sfc_function_hash(const char *namespace_, const char *name, bool is_tap,
					 uint16_t local_weight)
{
	uint64_t group = sfc_group(sfc_hash(namespace_, name)) &
			 ~(MK_SFC_TAP_MASK | MK_SFC_END_MASK | MK_SFC_HERE_MASK);

	return group | (is_tap ? MK_SFC_TAP_MASK : 0) | local_weight;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/sfc/sfc_internal.h - the object behind sfc.h, shared by its files: sfc.c (numbers that stay
 * and go, rows of chains), compile.c (rows from objects). */
#ifndef MK_SFC_SFC_INTERNAL_H
#define MK_SFC_SFC_INTERNAL_H

#include "sfc/numbers.h"
#include "sfc/sfc.h"

struct mk_sfc {
	uint8_t key[MK_SIPHASH_KEY_BYTES];
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

/* Return a well mixed hash of @uid and, if it is not NULL, "/" and @more. Never 0. The API server
 * chooses UIDs, and all nodes have the same hash. */
uint64_t sfc_hash(const char *uid, const char *more);

/* What a function is, beside its name: see mk_sfc_function_id(). */
#define KIND_MASK (MK_SFC_TAP_MASK | MK_SFC_END_MASK | MK_SFC_HERE_MASK)
#define KIND_END  (MK_SFC_END_MASK | MK_SFC_HERE_MASK)

/* The functions with one namespace, name and kind, whatever their localWeight, are a group. Return
 * what their hashes have in common. */
static inline uint64_t sfc_group(uint64_t name_hash)
{
	return name_hash & ~MK_SFC_LOCAL_WEIGHT_MASK;
}

/* Return the hash of a function, with the key of @sfc. 0 only without @local_weight. */
uint64_t sfc_function_hash(const struct mk_sfc *sfc, const char *namespace_, const char *name,
			   uint64_t kind, uint16_t local_weight);

/* Return the hash of a chain. */
static inline uint64_t sfc_chain_hash(const char *uid, bool has_ends)
{
	return sfc_hash(uid, has_ends ? "ends" : NULL);
}

/* ---- sfc.c ----------------------------------------------------------------------------------- */

/* Compute the rows of chains, and give numbers to them and their functions. */
void sfc_compile_chains(struct mk_sfc *sfc, struct mk_sfc_chain_object *chains, size_t count,
			uint64_t now_ns);

/* The chain with ends that has a function. */
struct sfc_joined {
	uint16_t chain; /* 0: none */
	uint8_t side; /* enum mk_sfc_side: by which an end looks at the chain */
};
/* Find them, by the numbers of their functions. @joined: zeros. */
void sfc_find_joined(const struct mk_sfc *sfc, struct sfc_joined joined[MK_SFC_FUNCTIONS_ALL]);

#endif

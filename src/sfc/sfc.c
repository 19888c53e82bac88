// SPDX-License-Identifier: Apache-2.0
/* Numbers: taken over from the tables, given to chains and functions, and free again. */
#include <stdlib.h>
#include <string.h>

#include "sfc/sfc_internal.h"

/* ---- hashes ---------------------------------------------------------------------------------- */

/* FNV-1a, 64 bits; then the finalizer of splitmix64 (src/service/maglev.c). */
static uint64_t add(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3;
	return hash;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

uint64_t sfc_hash(const char *uid, const char *more)
{
	uint64_t hash = add(0xcbf29ce484222325, uid);

	if (more)
		hash = add(add(hash, "/"), more);
	hash = mix(hash);
	return hash ?: 1;
}

/* The namespace's hash becomes a part of the name's key. */
uint64_t sfc_function_hash(const struct mk_sfc *sfc, const char *namespace_, const char *name,
			   uint64_t kind, uint16_t local_weight)
{
	uint64_t hash = mk_siphash(sfc->key, namespace_, strlen(namespace_));
	uint8_t key[MK_SIPHASH_KEY_BYTES];

	memcpy(key, sfc->key, sizeof(key));
	memcpy(key, &hash, sizeof(hash));
	hash = mk_siphash(key, name, strlen(name));
	return (sfc_group(hash) & ~KIND_MASK) | kind | local_weight;
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool init(struct mk_sfc *sfc)
{
	sfc->chain_rows = calloc(MK_SFC_CHAINS, sizeof(*sfc->chain_rows));
	sfc->function_rows = calloc(MK_SFC_FUNCTIONS_ALL, sizeof(*sfc->function_rows));
	sfc->filled_with = calloc(MK_SFC_FUNCTIONS_ALL, sizeof(*sfc->filled_with));
	sfc->replica_rows = calloc(MK_SFC_REPLICAS, sizeof(*sfc->replica_rows));
	sfc->port_rows = calloc(MK_SFC_PORTS, sizeof(*sfc->port_rows));
	sfc->tag_rows = calloc(MK_SFC_REPLICAS, sizeof(*sfc->tag_rows));
	return numbers_init(&sfc->chains, MK_SFC_CHAINS) == 0 &&
	       numbers_init(&sfc->functions, MK_SFC_FUNCTIONS_ALL) == 0 &&
	       numbers_init(&sfc->replicas, MK_SFC_REPLICAS) == 0 && sfc->chain_rows &&
	       sfc->function_rows && sfc->filled_with && sfc->replica_rows && sfc->port_rows &&
	       sfc->tag_rows;
}

struct mk_sfc *mk_sfc_new(const uint8_t key[MK_SIPHASH_KEY_BYTES])
{
	struct mk_sfc *sfc = calloc(1, sizeof(*sfc));

	if (!sfc || !init(sfc)) {
		mk_sfc_free(sfc);
		return NULL;
	}
	memcpy(sfc->key, key, sizeof(sfc->key));
	return sfc;
}

void mk_sfc_free(struct mk_sfc *sfc)
{
	if (!sfc)
		return;
	for (size_t i = 0; sfc->function_rows && i < MK_SFC_FUNCTIONS_ALL; i++)
		free(sfc->function_rows[i]);
	numbers_release(&sfc->chains);
	numbers_release(&sfc->functions);
	numbers_release(&sfc->replicas);
	free(sfc->chain_rows);
	free(sfc->function_rows);
	free(sfc->filled_with);
	free(sfc->replica_rows);
	free(sfc->port_rows);
	free(sfc->tag_rows);
	free(sfc);
}

/* ---- an earlier agent's numbers -------------------------------------------------------------- */

void mk_sfc_recall_chain(struct mk_sfc *sfc, uint32_t number, const struct mk_sfc_chain *row)
{
	if (number < MK_SFC_CHAINS && numbers_put(&sfc->chains, (uint16_t)number, row->uid_hash))
		sfc->chain_rows[number] = *row;
}

void mk_sfc_recall_function(struct mk_sfc *sfc, uint32_t number, const struct mk_sfc_function *row)
{
	struct mk_sfc_function *copy = malloc(sizeof(*copy));

	if (!copy || number >= MK_SFC_FUNCTIONS_ALL ||
	    !numbers_put(&sfc->functions, (uint16_t)number, row->name_hash)) {
		free(copy);
		return;
	}
	*copy = *row;
	sfc->function_rows[number] = copy;
}

void mk_sfc_recall_replica(struct mk_sfc *sfc, uint32_t number, const struct mk_sfc_replica *row)
{
	static const struct mk_addr none;
	struct mk_sfc_replica_row *own = &sfc->replica_rows[number % MK_SFC_REPLICAS];
	struct mk_ip ip = mk_ip_from_addr(&row->addr);

	if (number >= MK_SFC_REPLICAS || !row->uid_hash)
		return;
	if (numbers_put(&sfc->replicas, (uint16_t)number, row->uid_hash)) {
		own->row = *row;
		own->row.addr = none;
	}
	/* The other family's row has the other address. */
	if (own->row.uid_hash == row->uid_hash && !mk_addr_eq(&row->addr, &none))
		own->ips[mk_family_index(ip.family)] = ip;
}

/* ---- chains ---------------------------------------------------------------------------------- */

static bool has_ends(const struct mk_sfc_chain_object *chain)
{
	return chain->ends[MK_SFC_INSIDE] && chain->ends[MK_SFC_OUTSIDE];
}

/* Returns false if there are too many functions. */
static bool take_ends(struct mk_sfc *sfc, const struct mk_sfc_chain_object *chain,
		      struct mk_sfc_chain *row)
{
	for (size_t side = 0; has_ends(chain) && side < MK_SFC_SIDES; side++) {
		row->end[side] = numbers_take(&sfc->functions,
					      sfc_function_hash(sfc, chain->namespace_,
								chain->ends[side], KIND_END, 1));
		if (!row->end[side])
			return false;
	}
	return true;
}

/* Returns false if there are too many functions. */
static bool take_functions(struct mk_sfc *sfc, const struct mk_sfc_chain_object *chain,
			   struct mk_sfc_chain *row)
{
	for (size_t i = 0; i < chain->function_count; i++) {
		uint64_t kind = has_ends(chain)		     ? MK_SFC_HERE_MASK
				: chain->functions[i].is_tap ? MK_SFC_TAP_MASK
							     : 0;
		uint64_t hash = sfc_function_hash(sfc, chain->namespace_, chain->functions[i].name,
						  kind, chain->functions[i].local_weight);
		uint16_t number = numbers_take(&sfc->functions, hash);

		row->place[i] = (struct mk_sfc_place){ .function = number,
						       .flags = chain->functions[i].flags };
		if (!number)
			return false;
	}
	return take_ends(sfc, chain, row);
}

static void compile_chain(struct mk_sfc *sfc, struct mk_sfc_chain_object *chain)
{
	struct mk_sfc_chain row = {
		.uid_hash = sfc_chain_hash(chain->uid, has_ends(chain)),
		.leaves_open_flows = chain->leaves_open_flows,
	};

	chain->number = 0;
	if (!chain->is_refused && take_functions(sfc, chain, &row))
		chain->number = numbers_take(&sfc->chains, row.uid_hash);
	if (chain->number)
		sfc->chain_rows[chain->number] = row;
}

/* Paths may still name a chain that is gone. Its functions stay as long. No packet asks for a chain
 * with ends after it is gone from its ports, and another chain may have its functions now. */
static void keep_functions(struct mk_sfc *sfc)
{
	for (size_t i = 1; i < sfc->chains.used; i++) {
		const struct mk_sfc_place *place = sfc->chain_rows[i].place;

		if (sfc->chain_rows[i].end[MK_SFC_INSIDE])
			continue;
		for (size_t at = 0; sfc->chains.of[i].hash && at < MK_SFC_FUNCTIONS; at++)
			if (place[at].function < sfc->functions.used &&
			    sfc->functions.of[place[at].function].hash)
				sfc->functions.of[place[at].function].seen = true;
	}
}

void sfc_compile_chains(struct mk_sfc *sfc, struct mk_sfc_chain_object *chains, size_t count,
			uint64_t now_ns)
{
	numbers_begin(&sfc->chains);
	numbers_begin(&sfc->functions);
	for (size_t i = 0; i < count; i++)
		compile_chain(sfc, &chains[i]);
	keep_functions(sfc);
	numbers_end(&sfc->chains, now_ns);
	numbers_end(&sfc->functions, now_ns);
}

void sfc_find_joined(const struct mk_sfc *sfc, struct sfc_joined joined[MK_SFC_FUNCTIONS_ALL])
{
	for (uint16_t i = 1; i < sfc->chains.used; i++) {
		const struct mk_sfc_chain *row = &sfc->chain_rows[i];

		if (!sfc->chains.of[i].hash || sfc->chains.of[i].gone_ns ||
		    !row->end[MK_SFC_INSIDE])
			continue;
		for (size_t at = 0; at < MK_SFC_FUNCTIONS; at++)
			joined[row->place[at].function].chain = i;
		joined[row->end[MK_SFC_INSIDE]] = (struct sfc_joined){ i, MK_SFC_OUTSIDE };
		joined[row->end[MK_SFC_OUTSIDE]] = (struct sfc_joined){ i, MK_SFC_INSIDE };
	}
}

/* ---- answers --------------------------------------------------------------------------------- */

const struct mk_sfc_rows *mk_sfc_rows(struct mk_sfc *sfc)
{
	sfc->rows = (struct mk_sfc_rows){
		.chains = sfc->chain_rows,
		.functions = (const struct mk_sfc_function *const *)sfc->function_rows,
		.replicas = sfc->replica_rows,
		.ports = sfc->port_rows,
		.tags = sfc->tag_rows,
		.chain_count = sfc->chains.used,
		.function_count = sfc->functions.used,
		.replica_count = sfc->replicas.used,
		.port_count = sfc->port_count,
		.tag_count = sfc->tag_count,
	};
	return &sfc->rows;
}

static uint16_t present(const struct numbers *numbers, uint64_t hash)
{
	uint16_t number = numbers_find(numbers, hash);

	return number && !numbers->of[number].gone_ns ? number : 0;
}

uint16_t mk_sfc_chain_id(const struct mk_sfc *sfc, const char *uid, bool has_ends)
{
	return present(&sfc->chains, sfc_chain_hash(uid, has_ends));
}

uint16_t mk_sfc_function_id(const struct mk_sfc *sfc, const char *namespace_, const char *name,
			    uint64_t kind, uint16_t local_weight)
{
	return present(&sfc->functions,
		       sfc_function_hash(sfc, namespace_, name, kind, local_weight));
}

/* ---- numbers that are free again ------------------------------------------------------------- */

bool mk_sfc_has_gone(const struct mk_sfc *sfc)
{
	return sfc->chains.gone || sfc->functions.gone || sfc->replicas.gone;
}

static bool is_retired(const struct number *number, uint64_t now_ns)
{
	return number->gone_ns && now_ns >= number->gone_ns + MK_SFC_RETIRE_NS;
}

/* Were the paths of all families read after the number was out of use? */
static bool is_read(const struct number *number, const struct mk_sfc_named *const *named,
		    size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (named[i]->since_ns < number->gone_ns + MK_SFC_RETIRE_NS)
			return false;
	return count > 0;
}

static size_t release_chains(struct mk_sfc *sfc, const struct mk_sfc_named *const *named,
			     size_t count, uint64_t now_ns)
{
	size_t released = 0;

	for (uint16_t i = 1; i < sfc->chains.used; i++) {
		bool is_named = false;

		for (size_t f = 0; f < count; f++)
			is_named |= named[f]->chains[i];
		if (is_named || !is_retired(&sfc->chains.of[i], now_ns) ||
		    !is_read(&sfc->chains.of[i], named, count))
			continue;
		numbers_free(&sfc->chains, i);
		sfc->chain_rows[i] = (struct mk_sfc_chain){ 0 };
		released++;
	}
	return released;
}

static size_t release_replicas(struct mk_sfc *sfc, const struct mk_sfc_named *const *named,
			       size_t count, uint64_t now_ns)
{
	size_t released = 0;

	for (uint16_t i = 1; i < sfc->replicas.used; i++) {
		bool is_named = false;

		for (size_t f = 0; f < count; f++)
			is_named |= named[f]->replicas[i];
		if (is_named || !is_retired(&sfc->replicas.of[i], now_ns) ||
		    !is_read(&sfc->replicas.of[i], named, count))
			continue;
		numbers_free(&sfc->replicas, i);
		sfc->replica_rows[i] = (struct mk_sfc_replica_row){ 0 };
		released++;
	}
	return released;
}

/* No path names a function, and a chain that is gone keeps its functions (compile.c). */
static size_t release_functions(struct mk_sfc *sfc, uint64_t now_ns)
{
	size_t released = 0;

	for (uint16_t i = 1; i < sfc->functions.used; i++) {
		if (!is_retired(&sfc->functions.of[i], now_ns))
			continue;
		numbers_free(&sfc->functions, i);
		free(sfc->function_rows[i]);
		sfc->function_rows[i] = NULL;
		sfc->filled_with[i] = 0;
		released++;
	}
	return released;
}

size_t mk_sfc_release(struct mk_sfc *sfc, const struct mk_sfc_named *const *named, size_t count,
		      uint64_t now_ns)
{
	return release_chains(sfc, named, count, now_ns) +
	       release_replicas(sfc, named, count, now_ns) + release_functions(sfc, now_ns);
}

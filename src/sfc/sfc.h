/* SPDX-License-Identifier: Apache-2.0 */
/* src/sfc/sfc.h - service function chains as rows of tables: which chain, function and replica has
 * which number, which replica a new flow gets, and what happens to the flows of a replica that
 * leaves. Pure: no I/O, no kernel, no globals.
 *
 * A function is all function pods with its name in the namespace of the chain. A replica is such a
 * pod: one of this node if its two ports exist, one of another node if it asks for ports and the
 * overlay reaches its node. A tap has only pods of mode Tap, which have one port, and another
 * function has none of these. An end has only pods of mode End, of this node. So has a function of
 * a chain with ends only pods of this node.
 *
 * A number stays with its chain, function or replica. What is gone keeps its number until no path
 * names it (mk_sfc_release()). After a restart the tables' rows say which numbers are taken
 * (mk_sfc_recall_chain() and others). */
#ifndef MK_SFC_SFC_H
#define MK_SFC_SFC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monokube/sfc.h"
#include "base/error.h"
#include "base/index.h"
#include "base/ip.h"

/* The file of names and states in the agent's state directory. The command line reads what
 * src/agent/sfc/tell.c has written. */
#define MK_CHAIN_NAMES_FILE "chains.json"

struct mk_sfc;

/* @key: secret, of this node, for the hashes of functions (agent/core/hash_key.h). A Pod's author
 * could otherwise choose a name that stands for another namespace's function. NULL: out of
 * memory. */
struct mk_sfc *mk_sfc_new(const uint8_t key[MK_SIPHASH_KEY_BYTES]);
void mk_sfc_free(struct mk_sfc *sfc);

/* ---- the numbers of an earlier agent: before the first compile ------------------------------- */

/* Rows of the tables of either family. A number that has another owner already is left out: its row
 * will be written again. */
void mk_sfc_recall_chain(struct mk_sfc *sfc, uint32_t number, const struct mk_sfc_chain *row);
void mk_sfc_recall_function(struct mk_sfc *sfc, uint32_t number, const struct mk_sfc_function *row);
void mk_sfc_recall_replica(struct mk_sfc *sfc, uint32_t number, const struct mk_sfc_replica *row);

/* ---- what there is --------------------------------------------------------------------------- */

struct mk_sfc_chain_object {
	const char *uid, *namespace_, *name;
	struct {
		const char *name;
		uint8_t flags; /* enum mk_sfc_place_flags; of a tap with MK_SFC_SKIP */
		bool is_tap;
		uint16_t local_weight; /* 1 to MK_SFC_LOCAL_WEIGHT_MAX */
	} functions[MK_SFC_FUNCTIONS]; /* [0] is next to the chained pod, or to the inside end */
	size_t function_count;
	const char *ends[MK_SFC_SIDES]; /* names of functions; NULL: the chain has no ends */
	bool leaves_open_flows;
	/* A chain that precedes it has one of its functions, and one of both has ends. */
	bool is_refused;
	/* Set by mk_sfc_compile(). 0: it is refused, or there are too many chains or functions. */
	uint16_t number;
};

enum mk_sfc_pod_state {
	MK_SFC_POD_UNUSED, /* no chain names its function */
	MK_SFC_POD_UNBOUND, /* on no node yet */
	MK_SFC_POD_NO_NODE, /* on another node, which the overlay does not reach */
	MK_SFC_POD_NO_PORTS, /* without one port or both; on another node: without annotation */
	MK_SFC_POD_OTHER_MODE, /* its mode is Tap or End and its function is not, or the reverse */
	MK_SFC_POD_NO_NUMBER, /* there are too many replicas */
	MK_SFC_POD_SAME_TAG, /* another replica has its tag (struct mk_sfc_mac) */
	MK_SFC_POD_SERVING,
	MK_SFC_POD_DRAINING, /* deleted, or weight 0: new flows only if no replica serves */
	MK_SFC_POD_KEEPS, /* not ready, but no replica serves: its open flows stay */
	MK_SFC_POD_LOST, /* not ready: no flows */
	MK_SFC_POD_STATES
};

struct mk_sfc_pod_object {
	const char *uid, *namespace_, *name, *function;
	bool ready, deleting;
	bool is_here; /* on this node */
	bool is_bound; /* to a node, this one or another */
	bool asks_for_ports; /* by an annotation */
	uint8_t weight; /* its share of new flows; 0 drains it */
	struct mk_ip ips[MK_FAMILIES]; /* AF_UNSPEC: none */
	uint32_t ifindex[MK_SFC_SIDES]; /* on this node: host's ends of its ports; 0: none */
	uint8_t mode; /* enum mk_port_mode; on another node MK_PORT_TAP, .._END or .._NONE */
	struct mk_mac vtep_mac; /* of another node; 0: the overlay does not reach it */
	/* Set by mk_sfc_compile(). */
	enum mk_sfc_pod_state state;
	uint16_t number; /* of the replica; 0: none */
};

/* ---- rows ------------------------------------------------------------------------------------ */

struct mk_sfc_replica_row {
	struct mk_sfc_replica row; /* without address */
	struct mk_ip ips[MK_FAMILIES];
};

struct mk_sfc_port_row {
	uint32_t ifindex; /* first, for mk_compare_ids() */
	struct mk_sfc_port port;
};

struct mk_sfc_tag_row {
	uint64_t tag;
	uint32_t number;
};

/* By number, from 0 up to the count; a row of zeros or NULL: the number is free. */
struct mk_sfc_rows {
	const struct mk_sfc_chain *chains;
	const struct mk_sfc_function *const *functions;
	const struct mk_sfc_replica_row *replicas;
	const struct mk_sfc_port_row *ports; /* by ifindex */
	const struct mk_sfc_tag_row *tags; /* by tag */
	size_t chain_count, function_count, replica_count, port_count, tag_count;
};

/* Compute the rows from all chains, in the order in which they get numbers, and all function pods.
 * Sets what these say is set. @now_ns is CLOCK_MONOTONIC. After -ENOMEM, compile again. */
mk_must_check int mk_sfc_compile(struct mk_sfc *sfc, struct mk_sfc_chain_object *chains,
				 size_t chain_count, struct mk_sfc_pod_object *pods,
				 size_t pod_count, uint64_t now_ns, struct mk_error *err);
/* The rows of the last compile and release. They belong to @sfc. */
const struct mk_sfc_rows *mk_sfc_rows(struct mk_sfc *sfc);
/* Return the number of the chain with this UID, its key in map sfc_chains. 0: it has none, because
 * there are too many chains or functions; then it takes no flow. An object that changes from
 * traffic to ends is another chain. */
uint16_t mk_sfc_chain_id(const struct mk_sfc *sfc, const char *uid, bool has_ends);
/* The same for a function. @kind: MK_SFC_TAP_MASK; of a chain with ends MK_SFC_HERE_MASK, for an
 * end with MK_SFC_END_MASK; or 0. Returns 0 if no chain names it so, with this localWeight. */
uint16_t mk_sfc_function_id(const struct mk_sfc *sfc, const char *namespace_, const char *name,
			    uint64_t kind, uint16_t local_weight);

/* ---- numbers that are free again ------------------------------------------------------------- */

/* What the paths in one family's map sfc_paths name. */
struct mk_sfc_named {
	uint64_t since_ns; /* CLOCK_MONOTONIC: when reading began; 0: not read yet */
	bool chains[MK_SFC_CHAINS];
	bool replicas[MK_SFC_REPLICAS];
};

/* For so long a packet may still be on its way with a row that is out of use. */
#define MK_SFC_RETIRE_NS (1000 * 1000000ULL)

/* Does something that is gone have a number still? */
bool mk_sfc_has_gone(const struct mk_sfc *sfc);
/* Free numbers of what is gone for MK_SFC_RETIRE_NS, unless a path of a family names it. @named: of
 * each family with tables. Returns how many became free; then compile again. */
size_t mk_sfc_release(struct mk_sfc *sfc, const struct mk_sfc_named *const *named, size_t count,
		      uint64_t now_ns);

#endif

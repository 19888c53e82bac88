/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/inspect/chains.h - the tables of service function chains of one family, with names from
 * the agent's state directory: for `monokube chains`, `sessions`, `trace` and `check`. */
#ifndef MK_CLI_INSPECT_CHAINS_H
#define MK_CLI_INSPECT_CHAINS_H

#include "monokube/sfc.h"
#include "base/json.h"
#include "cli/inspect/view.h"

struct mk_cli_chains {
	const struct mk_view *view;
	json_object *names; /* the agent's file; NULL: there is none */
	struct mk_table functions, replicas, paths, counters;
};
/* Call mk_cli_chains_close() in any case. */
mk_must_check int mk_cli_chains_open(struct mk_cli_chains *chains, const struct mk_view *view,
				     struct mk_error *err);
void mk_cli_chains_close(struct mk_cli_chains *chains);
#define cleanup_cli_chains __attribute__((cleanup(mk_cli_chains_close)))

/* Return the entry of the names' list @list ("chains", "replicas") at @index; NULL: the end. */
json_object *mk_chain_names_at(const struct mk_cli_chains *chains, const char *list, size_t index);

/* Bytes of the name of a chain or replica, "namespace/name". */
#define MK_CHAIN_NAME_BYTES 320
/* Name chain @number in @buf, "chain 7" if its name is not known. Returns @buf. */
const char *mk_chain_name(const struct mk_cli_chains *chains, unsigned int number,
			  char buf[MK_CHAIN_NAME_BYTES]);
/* Name replica @number in @buf, "replica 7" if its name is not known. Returns @buf. */
const char *mk_replica_name(const struct mk_cli_chains *chains, unsigned int number,
			    char buf[MK_CHAIN_NAME_BYTES]);
/* Return the name of replica @number's node, "?" if it is not known. */
const char *mk_replica_node(const struct mk_cli_chains *chains, unsigned int number);
/* Can replica @number get packets? *@entry is its row. */
bool mk_replica_is_usable(const struct mk_cli_chains *chains, unsigned int number,
			  struct mk_sfc_replica *entry);

#endif

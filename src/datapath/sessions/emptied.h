/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/emptied.h - detect that another process has emptied the table of sessions.
 * The kernel does not report this. So the agent remembers some connections of each sweep pass and
 * looks for them until the next pass. The table has been emptied if
 *	none of these connections is left,
 *	the sweep has removed nothing since, and
 *	every session in the table began after that pass.
 * The last condition excludes a flood, in which the programs reuse the ports of ended
 * connections. */
#ifndef MK_DATAPATH_SESSIONS_EMPTIED_H
#define MK_DATAPATH_SESSIONS_EMPTIED_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "datapath/maps/table.h"

#define MK_EMPTIED_SAMPLES 4
#define MK_EMPTIED_SAMPLES_MIN \
	2 /* a single one may have ended, with its client's port in use again */

struct mk_emptied_sample {
	struct mk_tuple key;
	uint64_t created_ns;
};

/* Zeroed: none. */
struct mk_emptied {
	struct mk_emptied_sample met[MK_EMPTIED_SAMPLES], asked[MK_EMPTIED_SAMPLES];
	unsigned int met_count, asked_count;
	uint64_t removed; /* by the sweep, up to the pass that remembered `asked` */
	uint64_t ended_ns; /* end of that pass, CLOCK_MONOTONIC */
};

/* The sweep keeps the entry @key. Remember it if it is among the pass's first open TCP connections
 * to Services. */
void mk_emptied_note(struct mk_emptied *emptied, const struct mk_tuple *key,
		     const struct mk_session *session);
/* A pass ended at @now_ns. @removed: sessions that the sweep has removed since its start. */
void mk_emptied_pass_ended(struct mk_emptied *emptied, uint64_t removed, uint64_t now_ns);
/* Has @sessions been emptied since the last pass? @removed: the same count as of now. True only
 * once per pass. */
bool mk_emptied_detect(struct mk_emptied *emptied, const struct mk_table *sessions,
		       uint64_t removed);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/emptied.h - has somebody emptied the table of sessions? Only the kernel knows what it
 * holds. So the agent remembers some connections that each pass of the sweep meets, and looks for them
 * until the next pass. The table has been emptied if
 *	none of these connections is left,
 *	the sweep has removed nothing since, and
 *	every other session began later, too.
 * The last condition tells it from a flood, in which the programs take the ports of connections that are over. */
#ifndef MK_DATAPATH_SESSIONS_EMPTIED_H
#define MK_DATAPATH_SESSIONS_EMPTIED_H

#include <stdbool.h>
#include <stdint.h>

#include "monokube/abi.h"
#include "datapath/maps/table.h"

#define MK_WITNESSES	 4
#define MK_WITNESSES_MIN 2 /* one alone may have ended, and its client used the port again */

struct mk_witness {
	struct mk_tuple key;
	uint64_t created_ns;
};

/* Zeroed: none. */
struct mk_witnesses {
	struct mk_witness met[MK_WITNESSES], asked[MK_WITNESSES];
	unsigned int met_count, asked_count;
	uint64_t removed; /* by the sweep, up to the pass that met those who are asked */
	uint64_t ended_ns; /* that pass, CLOCK_MONOTONIC */
};

/* The sweep: an entry stays. Of a Service's open TCP connections the first ones are remembered. */
void mk_witnesses_meet(struct mk_witnesses *witnesses, const struct mk_tuple *key,
		       const struct mk_session *session);
/* A pass ended at @now_ns; @removed: how many sessions the sweep has removed in all. */
void mk_witnesses_pass_ended(struct mk_witnesses *witnesses, uint64_t removed, uint64_t now_ns);
/* Has @sessions been emptied since? @removed: as above, now. True once. */
bool mk_witnesses_gone(struct mk_witnesses *witnesses, const struct mk_table *sessions,
		       uint64_t removed);

#endif

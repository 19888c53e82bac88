/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/linger.h - a setting that has to stay while some flow needs it. It is set
 * at once, and cleared after two consecutive sweep passes without such a flow. A single pass may
 * miss a session that moves between the tables. */
#ifndef MK_DATAPATH_SESSIONS_LINGER_H
#define MK_DATAPATH_SESSIONS_LINGER_H

#include <stdbool.h>

struct mk_lasting {
	bool seen; /* in the current pass: a flow needs it, or it was set */
	unsigned int quiet; /* consecutive passes without a flow that needs it */
};

/* Set it, until the sweep finds that it is no longer needed. */
static inline void mk_lasting_set(struct mk_lasting *lasting)
{
	*lasting = (struct mk_lasting){ .seen = true };
}

/* A pass ended. @wanted: it is needed for other reasons than flows. Returns true if it is no longer
 * needed. */
static inline bool mk_lasting_over(struct mk_lasting *lasting, bool wanted)
{
	lasting->quiet = lasting->seen || wanted ? 0 : lasting->quiet + 1;
	lasting->seen = false;
	return lasting->quiet >= 2;
}

#endif

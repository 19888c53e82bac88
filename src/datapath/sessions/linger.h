/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/linger.h - a setting that has to stay while some flow needs it. It is set
 * at once, and cleared after two consecutive sweep passes without such a flow. A single pass may
 * miss a session that moves between the tables. */
#ifndef MK_DATAPATH_SESSIONS_LINGER_H
#define MK_DATAPATH_SESSIONS_LINGER_H

#include <stdbool.h>

struct mk_linger {
	bool seen; /* in the current pass: a flow needs it, or it was set */
	unsigned int quiet; /* consecutive passes without a flow that needs it */
};

/* Set it, until the sweep finds that it is no longer needed. */
static inline void mk_linger_set(struct mk_linger *linger)
{
	*linger = (struct mk_linger){ .seen = true };
}

/* A pass ended. @wanted: it is needed for other reasons than flows. Returns true if it is no longer
 * needed. */
static inline bool mk_linger_over(struct mk_linger *linger, bool wanted)
{
	linger->quiet = linger->seen || wanted ? 0 : linger->quiet + 1;
	linger->seen = false;
	return linger->quiet >= 2;
}

#endif

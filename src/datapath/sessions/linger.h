/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/sessions/linger.h - something that has to stay as long as some flow needs it. Set at once, and
 * given up after two passes of the sweep in a row that saw nobody in need: one pass may miss a session
 * that moves between the tables. */
#ifndef MK_DATAPATH_SESSIONS_LINGER_H
#define MK_DATAPATH_SESSIONS_LINGER_H

#include <stdbool.h>

struct mk_lasting {
	bool seen; /* in the pass under way: it is needed, or it was set */
	unsigned int quiet; /* passes in a row that saw nobody in need */
};

/* Needed from now on, until the sweep says otherwise. */
static inline void mk_lasting_set(struct mk_lasting *lasting)
{
	*lasting = (struct mk_lasting){ .seen = true };
}

/* A pass ended. @wanted: by others than flows. Returns whether nobody needs it any more. */
static inline bool mk_lasting_over(struct mk_lasting *lasting, bool wanted)
{
	lasting->quiet = lasting->seen || wanted ? 0 : lasting->quiet + 1;
	lasting->seen = false;
	return lasting->quiet >= 2;
}

#endif

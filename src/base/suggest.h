/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/suggest.h - "did you mean ..." for an unknown word. Pure. */
#ifndef MK_BASE_SUGGEST_H
#define MK_BASE_SUGGEST_H

#include <stdbool.h>

/* The best candidate so far; all zero at first, with @word set. */
struct mk_nearest {
	const char *word;
	const char *found; /* NULL: none is close enough */
	unsigned int distance;
};

/* Is @name closer to the word than the best candidate so far? Case, '-' and '_' are ignored. At
 * most a third of the letters may differ, and at most three. */
bool mk_nearest_see(struct mk_nearest *nearest, const char *name);

#endif

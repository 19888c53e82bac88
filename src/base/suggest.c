// SPDX-License-Identifier: Apache-2.0
#include "base/suggest.h"

#include <ctype.h>

#define LETTERS_MAX  48
#define DISTANCE_MAX 3

/* Copy the letters that are compared, at most LETTERS_MAX. Returns their number. */
static unsigned int letters_of(const char *text, char letters[LETTERS_MAX])
{
	unsigned int count = 0;

	for (; *text && count < LETTERS_MAX; text++)
		if (*text != '-' && *text != '_')
			letters[count++] = (char)tolower((unsigned char)*text);
	return count;
}

static unsigned int least(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int smaller = a < b ? a : b;

	return smaller < c ? smaller : c;
}

/* The Levenshtein distance: letters to insert, delete or replace. */
static unsigned int distance_of(const char *a, unsigned int a_count, const char *b,
				unsigned int b_count)
{
	unsigned int row[LETTERS_MAX + 1];

	for (unsigned int j = 0; j <= b_count; j++)
		row[j] = j;
	for (unsigned int i = 1; i <= a_count; i++) {
		unsigned int diagonal = row[0];

		row[0] = i;
		for (unsigned int j = 1; j <= b_count; j++) {
			unsigned int above = row[j];

			row[j] =
				least(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
			diagonal = above;
		}
	}
	return row[b_count];
}

bool mk_nearest_see(struct mk_nearest *nearest, const char *name)
{
	char word[LETTERS_MAX], other[LETTERS_MAX];
	unsigned int word_count = letters_of(nearest->word, word);
	unsigned int distance = distance_of(word, word_count, other, letters_of(name, other));
	unsigned int allowed = word_count / 3 < DISTANCE_MAX ? word_count / 3 : DISTANCE_MAX;

	if (distance > allowed || (nearest->found && distance >= nearest->distance))
		return false;
	nearest->found = name;
	nearest->distance = distance;
	return true;
}

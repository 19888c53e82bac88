// SPDX-License-Identifier: Apache-2.0
/* Texts that grow, and a hash of texts. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "clusterset/content.h"

#define FNV_PRIME 0x100000001b3U

uint64_t hash_text(uint64_t seed, const char *text)
{
	for (; *text; text++)
		seed = (seed ^ (uint8_t)*text) * FNV_PRIME;
	return seed;
}

/* The finalizer of MurmurHash3: every bit of the input reaches every bit of the result. */
uint64_t hash_mix(uint64_t hash)
{
	hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdU;
	hash = (hash ^ hash >> 33) * 0xc4ceb9fe1a85ec53U;
	return hash ^ hash >> 33;
}

int note_first(char **note, const char *format, ...)
{
	va_list args;
	int ret;

	if (*note)
		return 0;
	va_start(args, format);
	ret = vasprintf(note, format, args);
	va_end(args);
	if (ret >= 0)
		return 0;
	*note = NULL;
	return -ENOMEM;
}

int add_text(char **text, const char *separator, const char *format, ...)
{
	char *added = NULL, *whole = NULL;
	va_list args;
	int ret;

	va_start(args, format);
	ret = vasprintf(&added, format, args);
	va_end(args);
	if (ret < 0)
		return -ENOMEM;
	if (!*text) {
		*text = added;
		return 0;
	}
	ret = asprintf(&whole, "%s%s%s", *text, separator, added);
	free(added);
	if (ret < 0)
		return -ENOMEM;
	free(*text);
	*text = whole;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cluster/watch/scan.h - skip strings and brackets of JSON, whose text may arrive in pieces:
 * the state says where the last piece ended. It does not check that brackets match. UTF-8 needs no
 * care: a multi-byte character contains no ASCII byte. Most of the time of a list is spent here. */
#ifndef MK_CLUSTER_WATCH_SCAN_H
#define MK_CLUSTER_WATCH_SCAN_H

#include <stdbool.h>

struct scan {
	unsigned int depth; /* of brackets */
	bool in_string, escaped;
};

static inline bool is_space(char byte)
{
	return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* Skip the rest of a string. The loop keeps its state in local variables, which a byte cannot
 * alias. Returns where it stopped. */
static inline const char *scan_string(struct scan *scan, const char *at, const char *end)
{
	if (scan->escaped && at < end) {
		scan->escaped = false;
		at++;
	}
	while (at < end && *at != '"') {
		if (*at++ != '\\')
			continue;
		scan->escaped = at == end;
		at += at < end;
	}
	scan->in_string = at == end;
	return at < end ? at + 1 : end;
}

/* Skip to the bracket that ends depth @bottom + 1, or to the end. Returns where it stopped. */
static inline const char *scan_brackets(struct scan *scan, const char *at, const char *end,
					unsigned int bottom)
{
	unsigned int depth = scan->depth;

	if (scan->in_string)
		at = scan_string(scan, at, end);
	while (at < end && depth > bottom) {
		char byte = *at++;

		if (byte == '"')
			at = scan_string(scan, at, end);
		else if (byte == '{' || byte == '[')
			depth++;
		else if (byte == '}' || byte == ']')
			depth--;
	}
	scan->depth = depth;
	return at;
}

#endif

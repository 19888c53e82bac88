/* SPDX-License-Identifier: Apache-2.0 */
/* src/http/exposition.h - metrics as text for Prometheus: the text exposition format, version
 * 0.0.4. Families follow one another, each with its samples. Nothing is looked up or sorted. */
#ifndef MK_HTTP_EXPOSITION_H
#define MK_HTTP_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/histogram.h"

#define MK_EXPOSITION_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct mk_exposition {
	char *text; /* owned */
	size_t size, room;
	bool failed; /* out of memory: later output is dropped, and no text results */
	struct mk_label {
		const char *name, *value; /* @value any UTF-8 */
	} common; /* first label of each sample; name NULL: none */
};

/* Begin a family. @type is counter, gauge, histogram or untyped. */
void mk_exposition_family(struct mk_exposition *out, const char *name, const char *type,
			  const char *help);

/* Add a sample to the last family; @labels is an array of @count. */
void mk_exposition_count(struct mk_exposition *out, const char *name, const struct mk_label *labels,
			 size_t count, uint64_t value);
/* .. with one label. */
static inline void mk_exposition_labelled(struct mk_exposition *out, const char *name,
					  const char *key, const char *label, uint64_t value)
{
	mk_exposition_count(out, name, &(struct mk_label){ key, label }, 1, value);
}
void mk_exposition_number(struct mk_exposition *out, const char *name,
			  const struct mk_label *labels, size_t count, double value);
void mk_exposition_histogram(struct mk_exposition *out, const char *name,
			     const struct mk_label *labels, size_t count,
			     const struct mk_histogram *histogram);

/* Return the text, which the caller frees, and empty @out. NULL: out of memory. */
mk_must_check char *mk_exposition_take(struct mk_exposition *out);

#endif

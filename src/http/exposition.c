// SPDX-License-Identifier: Apache-2.0
#include "http/exposition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM   (32 * 1024)
#define NUMBER_CHARS 32 /* enough for any double and any uint64_t */

/* ---- the buffer ------------------------------------------------------------------------------ */

/* Reserve space for @size more bytes and a NUL. */
static char *reserve(struct mk_exposition *out, size_t size)
{
	size_t room = out->room ? out->room : FIRST_ROOM;
	char *bigger;

	if (out->failed)
		return NULL;
	while (room - out->size <= size)
		room *= 2;
	if (room == out->room)
		return out->text + out->size;
	bigger = realloc(out->text, room);
	if (!bigger) {
		out->failed = true;
		return NULL;
	}
	out->text = bigger;
	out->room = room;
	return out->text + out->size;
}

static void put(struct mk_exposition *out, const char *text, size_t size)
{
	char *at = reserve(out, size);

	if (!at)
		return;
	memcpy(at, text, size);
	out->size += size;
}

static void put_text(struct mk_exposition *out, const char *text)
{
	put(out, text, strlen(text));
}

/* Escape backslashes and newlines everywhere, and quotes inside quotes. */
static void put_escaped(struct mk_exposition *out, const char *text, bool quoted)
{
	const char *special = quoted ? "\\\n\"" : "\\\n";
	char escape[2] = { '\\' };

	for (;;) {
		size_t plain = strcspn(text, special);

		put(out, text, plain);
		text += plain;
		if (!*text)
			return;
		escape[1] = *text == '\n' ? 'n' : *text;
		put(out, escape, sizeof(escape));
		text++;
	}
}

/* ---- lines ----------------------------------------------------------------------------------- */

void mk_exposition_family(struct mk_exposition *out, const char *name, const char *type,
			  const char *help)
{
	put_text(out, "# HELP ");
	put_text(out, name);
	put(out, " ", 1);
	put_escaped(out, help, false);
	put_text(out, "\n# TYPE ");
	put_text(out, name);
	put(out, " ", 1);
	put_text(out, type);
	put(out, "\n", 1);
}

static void put_label(struct mk_exposition *out, char separator, const char *name,
		      const char *value)
{
	put(out, &separator, 1);
	put_text(out, name);
	put(out, "=\"", 2);
	put_escaped(out, value, true);
	put(out, "\"", 1);
}

/* Write everything before the value. @le: a bucket's bound, NULL: no bucket. */
static void begin_sample(struct mk_exposition *out, const char *name, const char *suffix,
			 const struct mk_label *labels, size_t count, const char *le)
{
	char separator = '{';

	put_text(out, name);
	put_text(out, suffix);
	if (out->common.name) {
		put_label(out, separator, out->common.name, out->common.value);
		separator = ',';
	}
	for (size_t i = 0; i < count; i++, separator = ',')
		put_label(out, separator, labels[i].name, labels[i].value);
	if (le)
		put_label(out, separator, "le", le);
	if (separator == ',' || le)
		put(out, "}", 1);
	put(out, " ", 1);
}

/* Not snprintf(): the Services of a cluster make tens of thousands of lines. */
static void put_count(struct mk_exposition *out, uint64_t value)
{
	char digits[NUMBER_CHARS];
	size_t at = sizeof(digits);

	digits[--at] = '\n';
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	put(out, digits + at, sizeof(digits) - at);
}

static const char *format_number(double value, char *buf)
{
	if (isnan(value))
		return "NaN";
	if (isinf(value))
		return value > 0 ? "+Inf" : "-Inf";
	snprintf(buf, NUMBER_CHARS, "%.15g", value);
	return buf;
}

void mk_exposition_count(struct mk_exposition *out, const char *name, const struct mk_label *labels,
			 size_t count, uint64_t value)
{
	begin_sample(out, name, "", labels, count, NULL);
	put_count(out, value);
}

static void put_number(struct mk_exposition *out, double value)
{
	char buf[NUMBER_CHARS];

	put_text(out, format_number(value, buf));
	put(out, "\n", 1);
}

void mk_exposition_number(struct mk_exposition *out, const char *name,
			  const struct mk_label *labels, size_t count, double value)
{
	begin_sample(out, name, "", labels, count, NULL);
	put_number(out, value);
}

/* Buckets are cumulative; the last one has all values. */
void mk_exposition_histogram(struct mk_exposition *out, const char *name,
			     const struct mk_label *labels, size_t count,
			     const struct mk_histogram *histogram)
{
	uint64_t sum = 0;
	char buf[NUMBER_CHARS];

	for (size_t i = 0; i < histogram->bound_count; i++) {
		sum += histogram->buckets[i];
		begin_sample(out, name, "_bucket", labels, count,
			     format_number(histogram->bounds[i], buf));
		put_count(out, sum);
	}
	begin_sample(out, name, "_bucket", labels, count, "+Inf");
	put_count(out, histogram->count);
	begin_sample(out, name, "_sum", labels, count, NULL);
	put_number(out, histogram->sum);
	begin_sample(out, name, "_count", labels, count, NULL);
	put_count(out, histogram->count);
}

char *mk_exposition_take(struct mk_exposition *out)
{
	char *text = reserve(out, 0);

	if (text) {
		*text = '\0';
		text = out->text;
	} else {
		free(out->text);
	}
	*out = (struct mk_exposition){ 0 };
	return text;
}

// SPDX-License-Identifier: Apache-2.0
/* The type of a plain YAML scalar, as Kubernetes reads it. */
#include "cluster/files/files_internal.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* No field has a longer number. */
#define NUMBER_CHARS_MAX 64

static bool one_of(const char *text, const char *const words[], size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(text, words[i]) == 0)
			return true;
	return false;
}

static size_t digits(const char *text, const char *set)
{
	return strspn(text, set);
}
#define DECIMAL "0123456789"

/* [-+]?[0-9]+, 0o[0-7]+, 0x[0-9a-fA-F]+. 010 is eight for some YAML parsers and ten for others, so
 * it is a text here. */
static bool is_integer(const char *text, int *base)
{
	bool sign = *text == '-' || *text == '+';
	const char *number = text + sign;
	size_t count = digits(number, DECIMAL);

	*base = 10;
	if (count > 0 && number[count] == '\0')
		return number[0] != '0' || count == 1;
	if (sign || text[0] != '0')
		return false;
	*base = text[1] == 'o' ? 8 : 16;
	if (text[1] != 'o' && text[1] != 'x')
		return false;
	count = digits(text + 2, *base == 8 ? "01234567" : DECIMAL "abcdefABCDEF");
	return count > 0 && text[2 + count] == '\0';
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?, with the same exception for 010. */
static bool is_float(const char *text)
{
	const char *at = text + (*text == '-' || *text == '+');
	size_t whole = digits(at, DECIMAL), fraction = 0, exponent;

	if (whole > 1 && *at == '0')
		return false;
	at += whole;
	if (*at == '.')
		fraction = digits(++at, DECIMAL);
	at += fraction;
	if (whole + fraction == 0)
		return false;
	if (*at != 'e' && *at != 'E')
		return *at == '\0';
	at++;
	at += *at == '-' || *at == '+';
	exponent = digits(at, DECIMAL);
	return exponent > 0 && at[exponent] == '\0';
}

/* A number that no integer can hold becomes a float, as everywhere in JSON. */
static json_object *new_integer(const char *text, int base)
{
	const char *number = base == 10 ? text : text + 2;
	unsigned long long large;
	long long value;

	errno = 0;
	value = strtoll(number, NULL, base);
	if (errno == 0)
		return json_object_new_int64(value);
	errno = 0;
	large = strtoull(number, NULL, base);
	if (errno == 0 && *text != '-')
		return json_object_new_uint64(large);
	return json_object_new_double(strtod(text, NULL));
}

static json_object *new_number(const char *text)
{
	double value;
	int base;

	if (is_integer(text, &base))
		return new_integer(text, base);
	if (!is_float(text))
		return NULL;
	value = strtod(text, NULL);
	return isfinite(value) ? json_object_new_double(value) : NULL;
}

int scalar_text(const char *text, size_t length, json_object **tree)
{
	*tree = length <= INT32_MAX ? json_object_new_string_len(text, (int)length) : NULL;
	return *tree ? 0 : -ENOMEM;
}

int scalar_resolve(const char *text, size_t length, json_object **tree)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };
	static const char *const trues[] = { "true", "True", "TRUE" };
	static const char *const falses[] = { "false", "False", "FALSE" };
	bool yes = one_of(text, trues, MK_ARRAY_SIZE(trues));

	*tree = NULL;
	if (one_of(text, nulls, MK_ARRAY_SIZE(nulls)))
		return 0;
	if (yes || one_of(text, falses, MK_ARRAY_SIZE(falses))) {
		*tree = json_object_new_boolean(yes);
		return *tree ? 0 : -ENOMEM;
	}
	if (length <= NUMBER_CHARS_MAX)
		*tree = new_number(text);
	return *tree ? 0 : scalar_text(text, length, tree);
}

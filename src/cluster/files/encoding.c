// SPDX-License-Identifier: Apache-2.0
#include "cluster/files/encoding.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int digit_of(char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

ssize_t mk_base64_decode(const char *text, unsigned char *out)
{
	unsigned int bits = 0, count = 0;
	size_t size = 0;

	for (; *text && *text != '='; text++) {
		int digit = digit_of(*text);

		if (strchr(" \n\r\t", *text))
			continue;
		if (digit < 0)
			return -1;
		bits = bits << 6 | (unsigned int)digit;
		count += 6;
		if (count >= 8)
			out[size++] = (unsigned char)(bits >> (count -= 8));
	}
	return text[strspn(text, "= \n\r\t")] ? -1 : (ssize_t)size;
}

char *mk_base64_encode(const void *data, size_t size)
{
	const unsigned char *from = data;
	char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < size; i += 3) {
		uint32_t bits = (uint32_t)from[i] << 16;

		bits |= i + 1 < size ? (uint32_t)from[i + 1] << 8 : 0;
		bits |= i + 2 < size ? (uint32_t)from[i + 2] : 0;
		*to++ = digits[bits >> 18];
		*to++ = digits[bits >> 12 & 63];
		*to++ = i + 1 < size ? digits[bits >> 6 & 63] : '=';
		*to++ = i + 2 < size ? digits[bits & 63] : '=';
	}
	*to = '\0';
	return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* test/fuzz/fuzz.h - what the fuzzers share. */
#ifndef MK_TEST_FUZZ_H
#define MK_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* For mutate_json.c: the number of bytes before the JSON. Defined by a fuzzer that uses it. */
extern const size_t fuzz_header_bytes;

/* Check a rule that holds for every input. */
static inline void fuzz_check(int holds)
{
	if (!holds)
		abort();
}

/* A copy with a NUL behind it; the caller frees it. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	fuzz_check(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif

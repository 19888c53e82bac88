/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/error.h - the one error contract.
 *
 * A function that can fail returns 0 (or a value >= 0) on success, and on failure a negative errno
 * with @err filled in. The layer that knows the cause sets the error. Each layer above wraps it
 * with what it was doing. Only the edge (main, a loop callback, the CNI reply) prints it. No
 * function logs and returns. A text names the thing, the value and, if there is one, the remedy.
 * @err may be NULL if a caller needs only the status. */
#ifndef MK_BASE_ERROR_H
#define MK_BASE_ERROR_H

#include <errno.h>
#include <stddef.h>

struct mk_error {
	int code; /* positive errno */
	char text[512];
};

#define mk_must_check __attribute__((warn_unused_result))
/* A struct of pointers and numbers whose size is a multiple of 4, not of 8. */
#define mk_packed __attribute__((packed, aligned(4)))

/* Set @err to @code (an errno; 0 counts as EINVAL) and the text. Returns -code: always negative. */
int mk_error_set(struct mk_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Like mk_error_set(), with ": " and strerror(code) after the text, and the remedy of those errors
 * that have one everywhere. */
int mk_error_errno(struct mk_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Put "text: " in front of the text of @err. Returns -err->code, or -EINVAL if @err is NULL. */
int mk_error_wrap(struct mk_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Return @size zeroed bytes for @what, which free() releases. NULL: no memory. */
mk_must_check void *mk_new(size_t size, const char *what, struct mk_error *err);

/* Return the text of @err, never NULL. */
const char *mk_error_text(const struct mk_error *err);

#endif

// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 0))) static int set_va(struct mk_error *err, int code,
							const char *fmt, va_list args)
{
	if (code == 0)
		code = EINVAL;
	if (code < 0)
		code = -code;
	if (err) {
		err->code = code;
		vsnprintf(err->text, sizeof(err->text), fmt, args);
	}
	return -code;
}

int mk_error_set(struct mk_error *err, int code, const char *fmt, ...)
{
	va_list args;
	int ret;

	va_start(args, fmt);
	ret = set_va(err, code, fmt, args);
	va_end(args);
	return ret;
}

/* Returns a remedy that is the same wherever the error comes from, or "". */
static const char *remedy_of(int code)
{
	switch (code) {
	case EMFILE:
		return " (raise the limit of open files of this process, LimitNOFILE in systemd)";
	case ENFILE:
		return " (raise sysctl fs.file-max)";
	case EROFS:
		return " (mount it read-write)";
	case ENAMETOOLONG:
		return " (give a shorter path)";
	default:
		return "";
	}
}

int mk_error_errno(struct mk_error *err, int code, const char *fmt, ...)
{
	va_list args;
	size_t used;
	int ret;

	va_start(args, fmt);
	ret = set_va(err, code, fmt, args);
	va_end(args);
	if (err) {
		used = strlen(err->text);
		snprintf(err->text + used, sizeof(err->text) - used, ": %s%s", strerror(-ret),
			 remedy_of(-ret));
	}
	return ret;
}

int mk_error_wrap(struct mk_error *err, const char *fmt, ...)
{
	char inner[sizeof(err->text)];
	size_t used;
	va_list args;

	if (!err)
		return -EINVAL;
	memcpy(inner, err->text, sizeof(inner));
	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
	used = strlen(err->text);
	snprintf(err->text + used, sizeof(err->text) - used, ": %s", inner);
	return err->code > 0 ? -err->code : -EINVAL;
}

const char *mk_error_text(const struct mk_error *err)
{
	return err && err->text[0] ? err->text : "unknown error";
}

void *mk_new(size_t size, const char *what, struct mk_error *err)
{
	void *made = calloc(1, size);

	if (!made)
		mk_error_errno(err, ENOMEM, "%s", what);
	return made;
}

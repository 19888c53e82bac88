// SPDX-License-Identifier: Apache-2.0
#include "unit/unit.h"

#include <stdio.h>
#include <unistd.h>

static int saved_stderr = -1;
static FILE *log_file;

void capture_log(void)
{
	log_file = tmpfile();
	saved_stderr = dup(STDERR_FILENO);
	ck_assert(log_file && saved_stderr >= 0);
	ck_assert_int_ge(dup2(fileno(log_file), STDERR_FILENO), 0);
}

const char *captured_log(void)
{
	static char text[8192];

	ck_assert_int_ge(dup2(saved_stderr, STDERR_FILENO), 0);
	close(saved_stderr);
	rewind(log_file);
	text[fread(text, 1, sizeof(text) - 1, log_file)] = '\0';
	fclose(log_file);
	return text;
}

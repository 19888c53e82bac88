// SPDX-License-Identifier: Apache-2.0
#include "datapath/maps/bpflog.h"

#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "datapath/maps/maps_internal.h"

static _Thread_local bool is_quiet; /* programs are loaded by a thread */

/* The verifier's log is one message of many lines; log each line as a message. */
static void log_lines(enum mk_log_level level, char *text)
{
	char *rest = NULL;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		mk_log(level, "%s", line);
}

__attribute__((format(printf, 2, 0))) static int print(enum libbpf_print_level level,
						       const char *fmt, va_list args)
{
	char *text;
	int used;

	if (is_quiet || level == LIBBPF_DEBUG)
		return 0;
	used = vasprintf(&text, fmt, args);
	if (used < 0)
		return 0;
	log_lines(level == LIBBPF_WARN ? MK_LOG_INFO : MK_LOG_DEBUG, text);
	free(text);
	return used;
}

void mk_bpflog_init(void)
{
	libbpf_set_print(print);
}

bool bpflog_quiet(bool quiet)
{
	bool was = is_quiet;

	is_quiet = quiet;
	return was;
}

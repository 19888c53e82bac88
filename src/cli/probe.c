// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/cli.h"
#include "datapath/object.h"

static void report(void *ctx, const char *program, int status)
{
	(void)ctx;
	if (status < 0)
		printf("%-18s failed: %s\n", program, strerror(-status));
	else
		printf("%-18s ok\n", program);
	fflush(stdout);
}

int mk_cli_probe(int argc, char **argv)
{
	struct utsname kernel = { 0 };
	struct mk_error err = { 0 };
	int failed;

	(void)argc;
	(void)argv;
	uname(&kernel);
	printf("kernel %s %s\n", kernel.release, kernel.machine);
	failed = mk_object_probe(report, NULL, &err);
	if (failed > 0) {
		fflush(stdout);
		return mk_cli_fail("probe", &err);
	}
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/ip.h"
#include "cli/cli.h"
#include "cli/cli_internal.h"
#include "datapath/maps/object.h"

static void report(void *ctx, const struct mk_probed *probed)
{
	const char *family = mk_family_name(probed->family);

	(void)ctx;
	if (probed->status == -E2BIG && probed->instructions)
		printf("%s %-18s failed: %u instructions verified, at most %u expected\n", family,
		       probed->program, probed->instructions, MK_VERIFIED_INSTRUCTIONS_MAX);
	else if (probed->status < 0)
		printf("%s %-18s failed: %s\n", family, probed->program, strerror(-probed->status));
	else
		printf("%s %-18s ok %8u instructions verified\n", family, probed->program,
		       probed->instructions);
	fflush(stdout);
}

int cli_probe(int argc, char **argv)
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

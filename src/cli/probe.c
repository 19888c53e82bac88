// SPDX-License-Identifier: Apache-2.0
/* What a host needs before an agent runs: `monokube probe` and `monokube prepare`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/ip.h"
#include "cli/cli.h"
#include "cli/cli_internal.h"
#include "datapath/maps/object.h"
#include "datapath/maps/pin.h"

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

/* Mount a BPF file system, which takes more privileges than an agent in a container has. Hosts
 * without systemd may have none. One mounted by the agent's container would be visible only there,
 * and would go with it. */
int cli_prepare(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	ret = ret ?: mk_pin_prepare(options.bpf_dir, &err);
	return ret < 0 ? mk_cli_fail("prepare", &err) : 0;
}

// SPDX-License-Identifier: Apache-2.0
/* `monokube prepare`: mount a BPF file system, which takes more privileges than an agent in a
 * container has. Hosts without systemd may have none. One mounted by the agent's container would be
 * visible only there, and would go with it. */

#include "cli/cli.h"
#include "cli/cli_internal.h"
#include "datapath/maps/pin.h"

int cli_prepare(int argc, char **argv)
{
	struct mk_cli_options options;
	struct mk_error err = { 0 };
	int ret = mk_cli_options_read(&options, argc, argv, &err);

	ret = ret ?: mk_pin_prepare(options.bpf_dir, AF_INET, &err);
	return ret < 0 ? mk_cli_fail("prepare", &err) : 0;
}

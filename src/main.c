// SPDX-License-Identifier: Apache-2.0
/* One binary: with CNI_COMMAND in the environment a CNI plugin, else what argv[1] says. A runtime
 * starts it for every pod, so nothing happens before this switch. */
#include <stdlib.h>

#include "cli/cli.h"
#include "pod/cni/cni.h"

int main(int argc, char **argv)
{
	if (getenv("CNI_COMMAND"))
		return mk_cni_main();
	return mk_cli_main(argc, argv);
}

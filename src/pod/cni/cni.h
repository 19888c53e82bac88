/* SPDX-License-Identifier: Apache-2.0 */
/* src/pod/cni/cni.h - the binary as CNI plugin (spec versions 0.3.1 to 1.1.0). It works on the
 * kernel's state (netlink, pinned tables) and the address directory. No agent needs to run. */
#ifndef MK_POD_CNI_CNI_H
#define MK_POD_CNI_CNI_H

/* Run the verb in CNI_COMMAND. The configuration comes on standard input; the result or the spec's
 * error object goes to standard output. Returns the exit status. */
int mk_cni_main(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/cni/cni.h - the binary as CNI plugin (spec versions 0.3.1 to 1.1.0). Works on the kernel's
 * own state: netlink, the pinned tables, the address directory. No agent needs to run. */
#ifndef MK_CNI_CNI_H
#define MK_CNI_CNI_H

/* Do what CNI_COMMAND says: configuration on standard input, the result or the spec's error
 * object on standard output. Returns the exit status. */
int mk_cni_main(void);

#endif

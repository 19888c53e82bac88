/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/inspect/remedy.h - what an operator can do about dropped packets. */
#ifndef MK_CLI_INSPECT_REMEDY_H
#define MK_CLI_INSPECT_REMEDY_H

/* @reason: enum mk_drop_reason. Returns "" if it is not one. */
const char *mk_drop_remedy(unsigned int reason);

#endif

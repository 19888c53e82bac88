/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/constants.h - constants and identity of the pinned programs, for processes that
 * read a datapath which another process loaded. */
#ifndef MK_DATAPATH_MAPS_CONSTANTS_H
#define MK_DATAPATH_MAPS_CONSTANTS_H

#include <stdint.h>

#include "monokube/abi.h"
#include "base/error.h"

/* Read the constants of the pinned programs. -ENOENT: the datapath is not loaded. */
mk_must_check int mk_constants_read(const char *dir, struct mk_node *node, struct mk_error *err);

struct mk_program_identity {
	uint32_t id;
	uint8_t tag[8]; /* the kernel's hash of the instructions */
};
mk_must_check int mk_program_identify(int prog_fd, struct mk_program_identity *identity,
				      struct mk_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/abi.h - which version made the pinned tables (map `abi`). */
#ifndef MK_DATAPATH_MAPS_ABI_H
#define MK_DATAPATH_MAPS_ABI_H

#include "monokube/abi.h"
#include "base/error.h"

/* May this version take over the pins below @bpf_dir? 0: yes, or nothing is pinned. -EPROTO: a
 * later version made them; @err names both versions and the remedy. */
mk_must_check int mk_abi_check(const char *bpf_dir, struct mk_error *err);

/* Read map `abi` below @bpf_dir into *@abi. -ENOENT: the map does not exist. */
mk_must_check int mk_abi_read(const char *bpf_dir, struct mk_abi *abi, struct mk_error *err);
/* Write @abi into map `abi` (@fd). */
mk_must_check int mk_abi_write(int fd, const struct mk_abi *abi, struct mk_error *err);

#endif

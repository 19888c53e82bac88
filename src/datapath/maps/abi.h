/* SPDX-License-Identifier: Apache-2.0 */
/* src/datapath/maps/abi.h - which version's tables are pinned (map abi). */
#ifndef MK_DATAPATH_MAPS_ABI_H
#define MK_DATAPATH_MAPS_ABI_H

#include "monokube/abi.h"
#include "base/error.h"

/* May this version take over what is pinned below @bpf_dir? -EPROTO: a later one made it, and @err
 * names both and the remedy. 0 where nothing is pinned. */
mk_must_check int mk_abi_check(const char *bpf_dir, struct mk_error *err);

/* What map abi below @bpf_dir says; -ENOENT: there is none. */
mk_must_check int mk_abi_read(const char *bpf_dir, struct mk_abi *abi, struct mk_error *err);
/* Write @abi into map abi, @fd. */
mk_must_check int mk_abi_write(int fd, const struct mk_abi *abi, struct mk_error *err);

#endif

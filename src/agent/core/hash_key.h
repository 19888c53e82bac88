/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/core/hash_key.h - this node's key of hashes that stand for names: of sets, classes
 * and tables of ports (struct mk_policy_view), and of functions of chains (mk_sfc_new()). Names
 * with equal hashes cannot be chosen without it. It lives as long as the tables: with another
 * key an agent would write all of them again. */
#ifndef MK_AGENT_CORE_HASH_KEY_H
#define MK_AGENT_CORE_HASH_KEY_H

#include <stdint.h>

#include "base/error.h"
#include "base/index.h"

/* Read the key from the state directory, or make one. */
mk_must_check int mk_hash_key_read(const char *state_dir, uint8_t key[MK_SIPHASH_KEY_BYTES],
				   struct mk_error *err);

#endif

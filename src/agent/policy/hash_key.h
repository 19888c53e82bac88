/* SPDX-License-Identifier: Apache-2.0 */
/* src/agent/policy/hash_key.h - the key of the names of sets, classes and tables of ports (struct
 * mk_policy_view). It lives as long as the tables: with another key an agent would write all of
 * them again. */
#ifndef MK_AGENT_POLICY_HASH_KEY_H
#define MK_AGENT_POLICY_HASH_KEY_H

#include <stdint.h>

#include "base/error.h"

#define HASH_KEY_BYTES 16

/* Read the key from the state directory, or make one. */
mk_must_check int hash_key_read(const char *state_dir, uint8_t key[HASH_KEY_BYTES],
				struct mk_error *err);

#endif

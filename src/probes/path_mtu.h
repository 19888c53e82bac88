/* SPDX-License-Identifier: Apache-2.0 */
/* src/probes/path_mtu.h - which packets pass on the way to a node and back, found by padded probes;
 * private to this folder (RFC 8899 does the same for transports). Sizes are of whole IP packets.
 *
 * The size that counts is confirmed every PATH_MTU_ROUNDS rounds. If it is lost PATH_MTU_LOST times
 * while the node answers the small probes, a binary search follows, down to PATH_MTU_LEAST. Every
 * PATH_MTU_RETRY confirmations, and at the start, the largest size is tried, so what was lowered
 * rises again. */
#ifndef MK_PROBES_PATH_MTU_H
#define MK_PROBES_PATH_MTU_H

#include <stdbool.h>
#include <stdint.h>

#define PATH_MTU_LEAST	1280 /* each link of IPv6 carries it, and spec.mtu is never lower */
#define PATH_MTU_STEP	8 /* a search ends when so many bytes are left */
#define PATH_MTU_LOST	3
#define PATH_MTU_ROUNDS 10
#define PATH_MTU_RETRY	6

struct path_mtu {
	uint16_t most_bytes; /* as configured; 0: nothing is to be found */
	uint16_t found_bytes; /* counts */
	uint16_t low_bytes, high_bytes; /* while it searches: what passes, and what does not */
	uint16_t sent_bytes; /* by the probe of this round; 0: none */
	uint8_t lost; /* times in a row */
	uint8_t wait_rounds, until_retry;
	bool searches, answered;
};

/* Begin with @known_bytes, or go on if the node was known: then only @most_bytes may change. */
void path_mtu_set(struct path_mtu *path, uint16_t most_bytes, uint16_t known_bytes);
/* Return the size of the padded probe of this round; 0: none. */
uint16_t path_mtu_next(struct path_mtu *path);
/* May the probe of the last round still be answered? Then its nonce is used again. */
bool path_mtu_repeats(const struct path_mtu *path);
/* End the round. @answers: the node answers small probes. */
void path_mtu_end(struct path_mtu *path, bool answers);

#endif

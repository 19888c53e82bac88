/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/policy_two_pods.h - rows of two pods of this node and one of another, for tests of the
 * sync of the policy tables. Sets and tables have small numbers. */
#ifndef MK_TEST_POLICY_TWO_PODS_H
#define MK_TEST_POLICY_TWO_PODS_H

#include "base/cleanup.h"
#include "unit/policy_tables_fixture.h"
#include "unit/unit.h"

/* Tables: nothing, all ports, port 80. Classes. */
enum { NOTHING = 100, ALL, WEB, NAMES_END };
enum { FRONT = 50, BACK, OTHER };
#define SET   (7 | MK_SET_ISOLATES)
#define NEXT  (8 | MK_SET_ISOLATES)
#define THIRD (9 | MK_SET_ISOLATES)

#define A "10.1.0.2"
#define B "10.1.0.3"
#define C "10.2.0.9" /* of another node */

static const struct mk_port_row ports[] = {
	{ .table = NOTHING },
	{ .table = ALL, .verdict.allows = 1 },
	{ .table = WEB },
	{ .table = WEB, .prefix_bits = 24, .proto = IPPROTO_TCP, .port = 80, .verdict.allows = 1 },
};

static inline void put_tables(void)
{
	for (size_t i = 0; i < MK_ARRAY_SIZE(ports); i++)
		put_port(&ports[i]);
}

/* A set that allows class FRONT the table @front, and nothing to others. */
static inline void put_set(uint64_t set, uint64_t front)
{
	put_peer(set, MK_PEER_ANY_POD, NOTHING);
	put_peer(set, MK_PEER_UNKNOWN_POD, NOTHING);
	put_peer(set, FRONT, front);
	put_block(set, NULL, NOTHING);
}

static inline void gone_set(uint64_t set)
{
	gone_peer(set, MK_PEER_ANY_POD);
	gone_peer(set, MK_PEER_UNKNOWN_POD);
	gone_peer(set, FRONT);
	gone_block(set, NULL);
}

/* Pod a is isolated, pod b is open; C is of class FRONT. */
static inline void begin(void)
{
	put_tables();
	put_set(SET, WEB);
	put_identity(A, BACK, NULL);
	put_identity(B, OTHER, NULL);
	put_identity(C, FRONT, NULL);
	put_pod("uid-a", "a", SET, MK_SET_OPEN);
	put_pod("uid-b", "b", MK_SET_OPEN, MK_SET_OPEN);
	put_namespace("shop", 1 << MK_POLICY_INGRESS);
	add_sandbox("uid-a", "a", A, 11);
	add_sandbox("uid-b", "b", B, 12);
	apply_rows();
}

static inline bool web(const char *peer)
{
	return policy_allows(A, MK_POLICY_INGRESS, peer, 80);
}

#endif

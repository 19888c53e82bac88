/* SPDX-License-Identifier: Apache-2.0 */
/* test/unit/clusters_fixture.h - cluster west with its peers and their nodes, and the rows that
 * src/clusters computes of them, as text. */
#ifndef MK_TEST_CLUSTERS_FIXTURE_H
#define MK_TEST_CLUSTERS_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clusters/clusters.h"

#define WEST 7

extern struct clusters_fixture {
	struct mk_clusters_own own;
	struct mk_clusters_peer peers[MK_CLUSTERS + 8];
	struct mk_clusters_node nodes[40000];
	size_t peer_count, node_count;
	struct mk_clusters_rows rows; /* of the last compile() */
} clusters_fixture;
#define fx clusters_fixture

void clusters_setup(void);
void clusters_setup_ipv6(void);
void clusters_teardown(void);
/* A peer with the pod range that all clusters have. */
struct mk_clusters_peer *add_peer(const char *name, uint32_t number, const char *view);
/* A node of the last peer. */
struct mk_clusters_node *add_node(const char *pod_cidr, const char *address);
void compile(void);
bool is_place(size_t row);
/* Names in texts: "node 9 #: 1*14" are 14 places of node 1. */
void check_rows(const char *expected);
/* The nodes that can get probes: "east 240.0.1.1, ..". */
void check_targets(const char *expected);
void check_reason(size_t peer, const char *part);
/* The hops of places of cluster @number, in @hops. */
void get_places(uint32_t number, uint32_t hops[MK_CLUSTER_PLACES]);
void add_key(struct mk_clusters_node *node, uint8_t first);
void check_tunnels(const char *expected);

#endif

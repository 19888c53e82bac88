/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/peers.h - other clusters in the tables, and their frames at mkpeer. All clusters have the
 * pod range 10.244.0.0/16. This one has the number FIXTURE_CLUSTER; the standard ones are
 *
 *	PEER_EAST	seen as 240.1.0.0/16, access Pods; node 1 is hop 1, node 2 is hop 2
 *	PEER_NORTH	seen as 240.2.0.0/16, access None; one node, hop 7, that gets all packets
 *	PEER_FAR	seen as 240.3.0.0/16, access Pods, reached by PEER_EAST */
#ifndef MK_TEST_PEERS_H
#define MK_TEST_PEERS_H

#include "bpf/fixture.h"
#include "monokube/clusters.h"

#define PEER_EAST  200
#define PEER_NORTH 0xabcdef
#define PEER_FAR   300

/* Write the tables of the standard clusters and mkpeer; after fixture_reset(). */
void peers_start(void);
void peers_reset(void); /* both */

/* The frame is dropped at @hook for @reason, and for no other. */
void peers_expect_drop(const char *name, enum mk_hook hook, const struct frame *in,
		       enum mk_drop_reason reason);

/* The row of a cluster, to be changed and written. */
struct mk_cluster peers_get(uint32_t number);
void peers_put(uint32_t number, const struct mk_cluster *row);
void peers_set_flags(uint32_t number, uint8_t flags);
void peers_put_node(uint32_t via, uint32_t index, uint32_t hop);
void peers_forget(uint32_t number); /* its row */
void peers_no_device(void);
/* This node is no border node: the one with VTEP address 10.18.0.2 carries its packets. */
void peers_by_border(void);
/* The host with this address is a node of the cluster. */
void peers_put_carrier(const char *address, uint32_t number);
/* .. whose address is of IPv4, also beside pods of IPv6. */
void peers_put_far_carrier(const char *address, uint32_t number);

/* Export an endpoint of this node: "tcp 10.244.1.2:8080", or "ping 10.244.1.2:0". Or a target by an
 * external address: "tcp 247.255.0.5:5432 > 192.0.2.7". */
void peers_export(const char *endpoint);
/* The cluster has external addresses 247.255.0.0/16, which are seen by @view. FIXTURE_CLUSTER: this
 * cluster itself. */
void peers_external(uint32_t number, const char *view);

/* Make a frame at mkpeer between two clusters. */
struct frame peers_frame(uint32_t from, uint32_t to, const char *flow,
			 const struct frame_options *options);
/* Write the addresses of such a frame. */
void peers_mark(struct frame *frame, uint32_t from, uint32_t to);
/* Turn the frame that this cluster sends to @number into the frame as that one gets it, which calls
 * itself FIXTURE_CLUSTER and this one @number. */
struct frame peers_received(const struct frame *sent, uint32_t number);
/* "100 > 200 hop 1": what a frame says, in a static buffer. */
const char *peers_shown(const struct frame *frame);

/* Packets counted to (0) or from (1) the cluster. */
uint64_t peers_packets(uint32_t number, int direction);
uint64_t peers_bytes(uint32_t number, int direction);

#endif

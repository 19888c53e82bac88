/* SPDX-License-Identifier: Apache-2.0 */
/* test/policy/node.h - the datapaths of the two nodes of a world, one per family: real programs and
 * tables, without devices. The rows of the compiler come into the tables as the agent writes them.
 * Node i has pod addresses 10.244.i.0/24 and fd44::i:0/112 (worlds.py). */
#ifndef MK_TEST_POLICY_NODE_H
#define MK_TEST_POLICY_NODE_H

#include "policy/flow.h"
#include "policy/packet.h"

void nodes_open(void); /* loads the programs; root */
void nodes_close(void);
/* Forget a world. Ends the program if a table is not empty then. */
void nodes_forget(void);
/* As cluster_write_tables (cluster.h). */
void nodes_write(const struct cluster *cluster, int node, const struct mk_policy_changes *changes);

/* Let the load balancer of the flow's first node have this Service or host port, with the one
 * backend of the flow; and remove it. */
void nodes_put_service(const struct flow *flow);
void nodes_remove_service(const struct flow *flow);

/* Where a packet has come to. */
enum place { AT_POD, AT_HOST, AT_OUTSIDE, DROPPED, WAITS };
struct arrival {
	enum place place;
	int node; /* the last one */
	int reason; /* DROPPED: of a policy (enum mk_drop_reason), or -1 */
	struct packet packet; /* as it is then */
};
/* Send the packet, through both nodes if it is for the other one. */
struct arrival nodes_send(int node, enum mk_hook hook, const struct packet *packet);
/* The packet of a client's flow, as it is sent. */
struct arrival nodes_send_flow(const struct flow *flow, enum packet_kind kind,
			       uint16_t client_port);

/* Its datagram's first or last fragment. */
struct arrival nodes_send_fragment(const struct flow *flow, uint16_t client_port, bool first,
				   uint16_t id);
/* Fill in the MAC addresses of a packet to node's gateway. */
void nodes_address(struct packet *packet, int node);
struct mk_ip node_own_address(int node, sa_family_t family);
/* Does the flow come to the programs, and do they read it as the reference does? */
bool nodes_run_programs_for(const struct flow *flow);

/* Return what policies have decided since the last call, at most @room. */
size_t nodes_take_counts(int node, int family, struct mk_policy_count_key *counts, size_t room);

#endif

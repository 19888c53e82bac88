/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/delegated.h - flows of clients outside that a node delegates (bpf/direct_return.h), packet
 * by packet. This node is both: the one that takes requests (node2 has the pods), and the one that has
 * the pod (node2 takes requests). */
#ifndef MK_TEST_DELEGATED_H
#define MK_TEST_DELEGATED_H

#include "bpf/clients.h"

#define LINK2 "02:00:00:00:00:12" /* node2's and node3's MAC addresses on the uplink's network */
#define LINK3 "02:00:00:00:00:13"
#define OWN   "02:00:00:00:09:0b" /* this node's there */

/* The way between the nodes: the overlay, or the link. */
extern struct between {
	enum mk_hook hook; /* at which another node's packets come */
	enum where where; /* packets to it go */
	const char *mac2, *mac3; /* source addresses of node2's and node3's frames */
	const char *to_node2; /* MAC address of packets to it */
	unsigned ifindex; /* this node's device on the link; 0: the overlay */
} between;

/* Unchecked fixtures. */
void delegated_load(void); /* answers go straight to clients */
void delegated_load_on_link(void); /* the same, in a network with a link */
void delegated_make_link(void); /* that network alone: devices up9 (this node's) and far9 */

/* Checked fixtures. Port 30080 has a pod of node2, 30081 one of this node, and the external address
 * has both. */
void delegated_setup(void); /* the overlay is the way between the nodes */
void delegated_setup_on_link(void); /* the link is: node2 and node3 have just shown themselves */

void set_direct(bool is_direct); /* Is node2 on the link? Otherwise it has shown itself to none. */
void delegated_service(const char *frontend, uint16_t flags, const char *backend, bool is_local);

/* Put a node on the link into the map link_nodes. @mac: that of frames to it. @shown_s: the second in
 * which it has shown its VTEP MAC address, from second(); 0: never. @sees_this: it gets frames with
 * this node's. */
void put_link(const char *vtep, const char *address, const char *mac, __u16 shown_s,
	      bool sees_this);
__u16 second(unsigned ago_s); /* as programs count it, @ago_s before now; never 0 */

/* A packet by the way between the nodes: of the node with @mac, of node2; and one that goes to node2. */
struct frame from_node(const char *mac, const char *name, const char *flow,
		       const struct frame_options *with, enum where where, const char *seen);
void from_node2(const char *name, const char *flow, const struct frame_options *with,
		enum where where, const char *seen);
void to_node2(const char *name, enum mk_hook hook, const char *flow,
	      const struct frame_options *with, const char *seen);

/* Flows of requests that this node takes: TCP, UDP, SCTP, and TCP of the external address. */
#define TAKEN_ROWS 4
extern const struct taken {
	const char *request, *answer;
	struct frame_options next, answers;
} taken[TAKEN_ROWS];

/* Flows that node2 delegates to this node, in the same order. */
#define SERVED_ROWS 4
extern const struct served {
	const char *request, *seen, *answer, *answered;
	struct frame_options next, first;
} served[SERVED_ROWS];

void take(const struct taken *row); /* two requests and an answer */
void serve(const struct served
		   *row); /* two requests, the answer by node2, one straight to the client */

/* An ICMP error that comes by @hook. The result quotes @quoted. */
struct frame send_error(const char *name, enum mk_hook hook, struct frame error, enum where where,
			const char *quoted);

#endif

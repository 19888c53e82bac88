/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/policy.h - rules of policies as rows: tables written by hand, then packets. Each line of
 * a row is one of
 *
 *	pod ADDRESS in=SET out=SET	what applies to a local pod; SET: open, pending or a name
 *	forget ADDRESS			its entry is one of a former pod
 *	forbid ADDRESS			its generation is raised
 *	emptied				map policy_state is
 *	set NAME [isolates] [audits|audits-isolated] [only] PEER=TABLE ..	PEER: a class's number,
 *					any, unknown, a block, * for any address. Those not named have
 *					table `none`; TABLE `-`: no entry. audits: MK_SET_AUDITS; only:
 *					MK_SET_ONLY_AUDITS. TABLE~TABLE: in force, and with the audited
 *					policies
 *	nobody ADDRESS			no identity any more
 *	service|local FRONTEND > BACKEND	as fixture_service(), at internal and external addresses;
 *					local: the backend is of this node, and the client keeps its address
 *	hostport PORT > POD		as fixture_host_port()
 *	node ADDRESS			the address of another node
 *	by VTEP				packets of the overlay come from this node
 *	shared				hosts outside have addresses of the cluster's ranges
 *	socket FROM TO			the pod or this node, at FROM, has a connection to TO
 *	listens AT			... and listens at AT
 *	HOOK FLOW [KIND] = OUTCOME	a packet; HOOK: pod, host, overlay, uplink
 *	HOOK A > B about FLOW = OUTCOME	an ICMP error
 *	sessions N			the entries of both tables
 *	count SET TIER RULE allowed|denied|audited N
 *	happened recheck|taken-up|unknown-peer N	map policy_events
 *	follow				drops are reported from here on
 *	event DIRECTION SET TIER RULE CLIENT > SERVER	what the event of the last drop says
 *	audit-event ...			the same of a packet that passed
 *	undecided			the last drop was reported, without a decision
 *	ttl N				of the last frame that left
 *	went WHERE			where it went, where_name()
 *
 * KIND: syn (also INIT, echo request, datagram), ack, synack, rst, fin, reply, data (SCTP), first,
 * later (fragments), fits, long (the overlay's MTU, a byte more), whole (as long, and never
 * fragmented), dies (its TTL is 1), solicits (IPv6: of neighbour discovery). OUTCOME: passes, the
 * flow that leaves, or a drop reason.
 * Service function chains: chains.h.
 *
 * Standard: 10.244.1.2 has class 2, 10.244.1.3 class 3, 10.244.2.7 class 7. 10.18.0.2 and
 * 10.244.2.1 count as 192.168.99.12. 10.244.2.9 is unknown. Tables: policy.c. */
#ifndef MK_TEST_POLICY_H
#define MK_TEST_POLICY_H

#include "bpf/fixture.h"

#define POLICY_LINES 32

struct policy_row {
	const char *rule;
	const char *lines[POLICY_LINES];
};

void policy_start(void); /* checked fixture, after fixture_reset() */
void policy_run(const struct policy_row *row);

/* For chains.c: the line that runs, its row and text; a packet, "FLOW [KIND] = OUTCOME"; its frame,
 * which sets *@outcome; the last frame that left; and the reasons for which packets were dropped at
 * @hook. */
const char *policy_line_now(void);
void policy_packet(enum mk_hook hook, char *text);
struct frame policy_frame(char *text, char **outcome);
void policy_send(enum mk_hook hook, const struct frame *frame, char *outcome);
const struct frame *policy_last_frame(void);
const char *policy_why(enum mk_hook hook);

#endif

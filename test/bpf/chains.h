/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/chains.h - service function chains in the rows of policy.h. More lines:
 *
 *	chain N [leaves] FUNCTION ..	an entry of map sfc_chains. FUNCTION: a number, then letters:
 *					s Skip, k onLoss Drop, p hashBy Pod, r hashBy Peer. `absent`:
					it is not in the map
 *	ends N INSIDE OUTSIDE		chain N has ends: keys in map sfc_functions. Ports of replicas are
 *					of it from now on
 *	lose-flows			the flows of the chain with ends are lost
 *	no-flows			.. and so is their map
 *	function N REPLICA ..		which replicas new flows get, by turns of slots; none: no entry
 *	replica N MODE [lost]		an entry of map sfc_replicas; MODE: bridged, inline, routed,
 *					tap, end
 *	replica N on VTEP [lost|tap]	.. of a replica on another node
 *	address N 10.244.1.3		the address of the replica's own pod
 *	gone N				DEL of the replica's pod: no devices any more
 *	no-mksfc			there is no device of chains
 *	from N SIDE = OUTCOME		the replica sends the last frame on, at inside or outside
 *	from N SIDE FLOW [KIND] = OUTCOME	.. or another one
 *	answer [KIND] = OUTCOME		the reverse of the last frame comes by the uplink
 *	unknown-port FLOW = OUTCOME	a packet at a port of no replica
 *	arrives N SIDE PLACE [FLOW [KIND]] = OUTCOME	a packet for the replica, from another node
 *	returns N SIDE [FLOW [KIND]] = OUTCOME	.. that the replica of another node has sent
 *	sent-back N SIDE PLACE [FLOW [KIND]] = OUTCOME	.. for the replica, which is not there
 *	stray N SIDE [FLOW [KIND]] = OUTCOME	.. as `returns`, in a frame for another node
 *	too-big N SIDE PLACE [FLOW [KIND]] = OUTCOME	.. for the replica, whose port it does not fit
 *	later N MS			the last packet that N sent back came MS ago
 *	paths N				the entries of map sfc_paths
 *	lose-paths			they are lost
 *	fill-paths			no further one fits
 *	collide				each key of map sfc_paths has another path, but the last one probed
 *	established N ended M		TCP: N entries of the table are established, M have had a FIN
 *	expire				all sessions end
 *	both of 40 flows		of A's flows to R each of replicas 1 and 2 gets some
 *	off				no pod has a set any more
 *	counted N in|out SIDE PACKETS	packets to (in) and from (out) the replica
 *	copied N SIDE ADDRESS [FLOW]	the next copy that tap N got, in a frame of the wire of ADDRESS
 *	copied-to VTEP N SIDE 0 [FLOW]	.. that went to the tap's node
 *	no-copies			no tap got any other copy
 *	no-device N			the device of tap N is removed
 *
 * A replica's PLACE is the low 3 bits of its place in the path. A table of a set with `+N`: its
 * verdicts that allow are of chain N, as rule N. More OUTCOMES:
 *
 *	into N SIDE ADDRESS [FLOW]	into the replica, in a frame of the wire of the pod ADDRESS, or
 *					of the ends, if its chain has some
 *	same M				into the replica of all packets of mark M
 *	to VTEP N SIDE PLACE [FLOW]	to the replica, on the node of VTEP
 *	home VTEP N SIDE [FLOW]		from the replica, to the home of its flow
 *	back VTEP N SIDE PLACE [FLOW]	the replica is not here: back to the home of its flow
 *	does-not-fit VTEP N SIDE PLACE [FLOW]	.. the packet does not fit its port
 *	loses-copy REASON		a copy is dropped, the packet leaves as it is
 *	own				to the hook of pod 10.244.1.3, as its own traffic
 *	told SOURCE TYPE		an ICMP error to the sender, about the packet as it came */
#ifndef MK_TEST_CHAINS_H
#define MK_TEST_CHAINS_H

#include <stdbool.h>

#include "bpf/fixture.h"

void chains_start(void); /* no chains */
/* Carry out a line. Returns false if it is no line about chains. */
bool chains_line(const char *word, char *rest);
/* Send the frame and expect that it goes into a function. Returns false if @outcome says nothing
 * about functions. */
bool chains_expect(enum mk_hook hook, const struct frame *in, char *outcome, struct frame *out);

/* taps.c: let @ifindex be a device, in a network namespace of the row's own. */
void taps_add(uint32_t ifindex);
/* Read the next copy that has left by the device. Returns false if there is none. */
bool taps_read(uint32_t ifindex, struct frame *copy);
void taps_remove(uint32_t ifindex);
/* Return the device of a copy that was not read; 0: there is none. */
uint32_t taps_unread(void);

#endif

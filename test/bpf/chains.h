/* SPDX-License-Identifier: Apache-2.0 */
/* test/bpf/chains.h - service function chains in the rows of policy.h. More lines:
 *
 *	chain N [leaves] FUNCTION ..	an entry of map sfc_chains. FUNCTION: a number, then letters:
 *					s Skip, k onLoss Drop, p hashBy Pod, r hashBy Peer
 *	function N REPLICA ..		which replicas new flows get, by turns of slots; none: no entry
 *	replica N MODE [lost]		an entry of map sfc_replicas; MODE: bridged, inline, routed
 *	gone N				DEL of the replica's pod: no devices any more
 *	from N SIDE = OUTCOME		the replica sends the last frame on, at inside or outside
 *	from N SIDE FLOW [KIND] = OUTCOME	.. or another one
 *	answer [KIND] = OUTCOME		the reverse of the last frame comes by the uplink
 *	unknown-port FLOW = OUTCOME	a packet at a port of no replica
 *	paths N				the entries of map sfc_paths
 *	lose-paths			they are lost
 *	fill-paths			no further one fits
 *	collide				each key of map sfc_paths has another path, but the last one probed
 *	expire				all sessions end
 *	both of 40 flows		of A's flows to R each of replicas 1 and 2 gets some
 *	off				no pod has a set any more
 *	counted N in|out SIDE PACKETS	packets to (in) and from (out) the replica
 *
 * A table of a set with `+N`: its verdicts that allow are of chain N, as rule N. Two more OUTCOMES:
 *
 *	into N SIDE ADDRESS [FLOW]	into the replica, in a frame of the wire of the pod ADDRESS
 *	same M				into the replica of all packets of mark M */
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

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* src/probes/probes.h - which nodes of other clusters get probes, and what their answers say of a
 * peer: usable or down. The nodes on a link of this one are probed as those of a peer with @tries.
 * Pure: no I/O, no kernel, no globals.
 *
 * Rounds follow one another by a second. In each, up to MK_PROBES_NODES nodes of a peer get a
 * probe. A round is good if one of these nodes has answered its probe, or one of the two rounds
 * before it.
 * A peer is down after MK_PROBES_BAD bad rounds in a row. It is usable again after 3 good ones in a
 * row, and after each further time down this doubles up to MK_PROBES_GOOD_MAX. After
 * MK_PROBES_CALM rounds without being down it is 3 again. A peer starts as usable. A peer without
 * nodes is as usable as the one by which it is reached.
 *
 * A node is live until MK_PROBES_BAD probes in a row are lost, and again after MK_PROBES_GOOD
 * answers in a row. Packets that may go to any node of a peer go to live ones. A node without
 * probes is not live. Flows to external addresses have sessions at one node, so a move ends them.
 * They stay until MK_PROBES_GONE probes in a row are lost, while another node of the peer answers.
 * A fault that the agent repairs within five seconds ends no flow. Neither does the loss of the
 * whole peer.
 * New flows leave a node that is gone within seven seconds.
 *
 * Probes of a peer with @tries find out which nodes are reached without the hub. All of them get
 * probes, as far as MK_PROBES_TRIED allows. These nodes are direct while they are live. While none
 * is, the peer is as usable as the hub.
 *
 * Some probes are padded: they find the largest packet that passes to a node and back. They decide
 * nothing else. */
#ifndef MK_PROBES_PROBES_H
#define MK_PROBES_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ip.h"

#define MK_PROBES_NODES	   4 /* of a peer */
#define MK_PROBES_BAD	   3 /* rounds */
#define MK_PROBES_GONE	   7 /* rounds; some of the first ones take half a second */
#define MK_PROBES_GOOD	   3
#define MK_PROBES_GOOD_MAX 60
#define MK_PROBES_CALM	   600
#define MK_PROBES_NAMED	   3 /* of the nodes that do not answer */
#define MK_PROBES_TRIED	   1024 /* nodes of all peers with @tries */

struct mk_probes;

/* Texts and nodes belong to the caller. */
struct mk_probes_peer {
	const char *name;
	const char *via; /* the peer by which it is reached; NULL: by its own nodes */
	const struct mk_ip *nodes; /* their virtual pod addresses, as this cluster sees them */
	size_t node_count;
	bool tries; /* there is @via, and each node may do without */
	/* Is each node live that has just come? NULL: with @tries none is, otherwise all are. */
	const bool *live;
	const bool *keeps; /* .. and does it keep flows to external addresses? NULL: if live */
	const char *const *names; /* of the nodes; NULL: unknown */
	/* The largest packet to the peer as configured (0: no probe is padded), and the largest one
	 * that passes, as far as was known before the nodes came; 0: unknown. */
	uint16_t mtu_bytes, known_mtu_bytes;
};

/* @seed: a secret random number, for the nonces. @node: the name of this node, for the choice of
 * nodes. So the next agent chooses the same ones. NULL: out of memory. */
struct mk_probes *mk_probes_new(uint64_t seed, const char *node);
void mk_probes_free(struct mk_probes *probes);

/* Set all peers, in any order of different names. A peer and a node that stay keep what is known of
 * them. Which nodes are chosen depends on @node and their addresses alone, so one that comes or
 * goes changes at most one of them. -ENOMEM: everything stays as it was. */
mk_must_check int mk_probes_set(struct mk_probes *probes, const struct mk_probes_peer *peers,
				size_t count, struct mk_error *err);

/* Changes of a round, as bits. */
enum mk_probes_news {
	MK_PROBES_USABLE = 1, /* a peer is down now, or usable again */
	MK_PROBES_SHOWN = 2, /* another member of struct mk_probes_state but rtt_us */
	MK_PROBES_PATHS = 4, /* a node is live now, or no longer; or another mtu_bytes */
};

struct mk_probe {
	struct mk_ip to;
	uint64_t nonce;
	uint16_t packet_bytes; /* with all headers of IP and UDP; 0: not padded */
};

/* End a round, and begin the next one. @list: what to send, valid until the next mk_probes_next()
 * or mk_probes_set(). Returns bits of enum mk_probes_news. */
unsigned int mk_probes_next(struct mk_probes *probes, const struct mk_probe **list, size_t *count);
/* Should the next round come after half a second? A live node has just lost a probe. So packets
 * leave a node that is gone within three seconds. */
bool mk_probes_hurry(const struct mk_probes *probes);
/* Number @index of that list is sent at @now_ns, of any clock. */
void mk_probes_sent(struct mk_probes *probes, size_t index, uint64_t now_ns);

/* An answer of @from has come at @now_ns, of the same clock. Returns whether it belongs to one of
 * the last three probes to that node, which then count as answered. */
bool mk_probes_answer(struct mk_probes *probes, const struct mk_ip *from, uint64_t nonce,
		      uint64_t now_ns);

/* Does the node keep its flows to external addresses? */
bool mk_probes_keeps(const struct mk_probes *probes, const struct mk_ip *ip);
/* Is the node live? Of a peer with @tries: is it reached without the hub? */
bool mk_probes_is_live(const struct mk_probes *probes, const struct mk_ip *ip);

/* Has the node lost its last MK_PROBES_BAD probes? False if it gets none. */
bool mk_probes_is_silent(const struct mk_probes *probes, const struct mk_ip *ip);

struct mk_probes_state {
	bool is_down;
	/* Nodes that get probes, and those of them that answer. A node counts in @probed as soon as
	 * it has answered or has lost three probes. Zeros: nothing is known yet, or no node is
	 * reached but by another peer. */
	uint32_t probed, answering;
	uint32_t rtt_us; /* mean of the answering nodes, smoothed; 0: none answers */
	uint32_t shown_rtt_us; /* follows @rtt_us if that is half or twice as long */
	/* The largest packet that passes to all probed nodes; 0: all that are configured do. */
	uint16_t mtu_bytes;
	char silent[384]; /* "a, b and 2 more": the nodes that do not answer; empty: all do */
};

/* Returns false and zeros if there is no peer @name. */
bool mk_probes_get(const struct mk_probes *probes, const char *name, struct mk_probes_state *state);

#endif

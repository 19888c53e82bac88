/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* bpf/scratch.h - memory for data that do not fit on the stack with IPv6's addresses. It belongs to
 * one run of a program: no program calls a helper that runs another one while it uses this. The
 * verifier tracks no value in it, so it walks code that uses such a value only once. */
#ifndef MK_BPF_SCRATCH_H
#define MK_BPF_SCRATCH_H

#include "packet.h"

/* The longest part of a packet that an ICMP error quotes: 60 or 256 bytes of headers, and how much
 * of layer 4. TCP: at least up to its checksum field, because the kernel cuts no packet before
 * that. SCTP: the sender also checks an INIT's type and tag (RFC 9260, 10). */
#define MK_QUOTE_L4_BYTES  20
#define MK_QUOTE_BYTES_MAX (MK_BY_FAMILY(60, 256) + MK_QUOTE_L4_BYTES)

/* The session to open for a flow. */
struct session_request {
	struct mk_tuple to; /* the tuple of the first packet after translation */
	__u32 set_id, service_id; /* as in struct mk_session */
	__u8 source_port; /* choose a free to.sport for to.saddr */
	__u8 reverse_flags; /* flags of the reverse entry: VIA_HOST, LOOPBACK, VIA_OVERLAY */
	__u8 forward_flags; /* .. of the forward entry: FORWARD, VIA_OVERLAY */
	__u8 has_quota; /* session_open() sets it: the half-open quota is not used up */
	__u8 turned; /* the packet is an answer: its sender is the session's server */
	__u16 policy_seen; /* mk_session.policy_seen */
};

enum policy_end { POLICY_SENDER, POLICY_RECEIVER, POLICY_ENDS };

/* A flow in the direction of its request, as program `policy` asks about it. */
struct policy_flow {
	/* of the ends of the packet, by enum policy_end, and of the two that are asked */
	__u64 sets_of[POLICY_ENDS][MK_POLICY_DIRECTIONS], set[MK_POLICY_DIRECTIONS];
	struct mk_addr client, server; /* before source and after destination translation */
	__be16 port; /* of the server; 0: the protocol has none */
	__u8 proto;
	__u8 proved; /* the client's address shows whose it is (rule 16) */
	__u8 of_host; /* the client is a socket of this host */
	__u8 unknown_peer; /* the set asked last found no identity for an address of the pods' */
	__u8 taken_up; /* it was open before the policies and chains */
	__u8 afresh; /* keep no replica of its path */
	__u8 look; /* sfc_open's further looks for usable replicas */
	__u8 resume; /* the position at which the packet goes on */
	__u8 forward; /* the packet goes from the client to the server */
	__u16 chain[MK_POLICY_DIRECTIONS]; /* key in map sfc_chains; 0: no chain takes the flow */
	/* By enum mk_policy_direction; set 0: not asked. @audited: what audited policies would
	 * decide; set 0: they do not forbid it. */
	struct mk_policy_count_key decided[MK_POLICY_DIRECTIONS], audited[MK_POLICY_DIRECTIONS];
	/* What the set asked says of the peer as a pod and as an address. On the stack the verifier
	 * would walk the rest for each combination of zeros. */
	struct mk_policy_port as_pod, as_address;
};

/* Which hash chooses a replica. */
enum path_hash { PATH_BY_FLOW, PATH_BY_POD, PATH_BY_PEER, PATH_HASHES };

/* A path while program `sfc_open` chooses it. */
struct path_choice {
	struct mk_sfc_path path, before; /* before: of the flow's session; zero: none */
	__u32 hash[MK_POLICY_DIRECTIONS][PATH_HASHES];
	__u8 keeps[MK_POLICY_DIRECTIONS]; /* the same chain takes the flow as before */
	__u8 collides; /* a replica would have two places in a chain */
	__u8 misses; /* a slot named a replica that is not usable */
};

/* A packet that program `sfc_end` follows. */
struct passing_flags {
	volatile __u8 outward;
	volatile __u8 is_of_end; /* an end has sent it */
	volatile __u8 begins; /* the flow gets all replicas, as a new one */
	volatile __u8 position; /* from which on the packet has to pass functions */
};

/* The session that has a port, while a flow looks for a port (open.h). */
struct port_holder {
	volatile __u64 rank;
	volatile __u64 rank_below; /* look only for ranks below this one */
	volatile __u16 lowest; /* the port with that rank */
	__u8 thorough; /* also read the client's entry: only the client may have sent an RST */
};

struct scratch {
	struct session_request request; /* open, policy, sfc and sfc_open pass it on */
	struct policy_flow flow;
	struct path_choice choice;
	struct mk_sfc_end_flow end_flow; /* of program `sfc_end` */
	struct passing_flags passing;
	struct port_holder holder;
	struct mk_session session, copy; /* on their way into a table */
	struct mk_session_place place;
	struct inner_packet inner; /* an ICMP error's translation */
	struct mk_tuple inner_to, outer;
	__u8 quote[MK_QUOTE_BYTES_MAX];
};
MK_MAP(scratch, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct scratch, 1, 0);

/* Never returns NULL, but the verifier does not know that. */
static __always_inline struct scratch *scratch_of_this_cpu(void)
{
	return find_number(&scratch, 0);
}

#endif
